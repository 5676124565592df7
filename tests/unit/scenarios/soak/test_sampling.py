"""Samples of processes: one that may not be looked at does not end the sampling."""

from __future__ import annotations

import os
import socket

import psutil

from lockref.runtime import ThreadRuntime
from lockref.samples import HARNESS
from scenarios.soak import sampling
from scenarios.soak.sampling import Sampler, sample_of


def test_a_server_of_another_user_is_left_out(tmp_path, monkeypatch):
    """The descriptors of its process belong to it alone."""
    looked_at = sampling._sockets

    def sockets(process):
        if process.pid != os.getpid():
            raise PermissionError(process.pid)
        return looked_at(process)

    monkeypatch.setattr(sampling, "_sockets", sockets)
    sampler = Sampler(tmp_path, 1, ThreadRuntime(), lambda: [os.getppid()])
    assert [(each.pid, each.role) for each in sampler._look()] == [(os.getpid(), HARNESS)]


def test_sockets_are_counted_apart_from_files(tmp_path):
    """A socket that is neither bound nor connected counts, and an open file does not."""

    def counted():
        found = sample_of(psutil.Process(), HARNESS, at_ns=0, network_bytes=0)
        return found.fds, found.sockets

    fds, sockets = counted()
    with (tmp_path / "open").open("wb"):
        assert counted() == (fds + 1, sockets)
        with socket.socket():
            assert counted() == (fds + 2, sockets + 1)
    assert counted() == (fds, sockets)
