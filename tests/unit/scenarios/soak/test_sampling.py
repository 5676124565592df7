"""Samples of processes: one that may not be looked at does not end the sampling."""

from __future__ import annotations

import os

from lockref.runtime import ThreadRuntime
from lockref.samples import HARNESS
from scenarios.soak import sampling
from scenarios.soak.sampling import Sampler


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
