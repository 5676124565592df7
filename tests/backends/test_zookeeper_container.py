"""ZooKeeper as a container: ready when it serves and has taken a write; a reason where it cannot be had."""

from __future__ import annotations

import pytest

from lockref.errors import BackendUnavailable
from scenarios.backends import docker_engine
from scenarios.backends.docker import ImageMissing, engine_address
from scenarios.backends.hosts import server_statuses
from scenarios.backends.zookeeper import TICK_MS, ask
from scenarios.backends.zookeeper_container import IMAGE, contained_zookeeper
from tests.backends.test_zookeeper import TIMEOUT_NS, session_on


@pytest.mark.container
def test_a_zookeeper_in_a_container_serves_sessions():
    """T26: a session, a write, the bounds of session timeouts as ours have them; nobody answers once it has ended."""
    if docker_engine() is None:
        pytest.skip(f"no Docker engine answers at {engine_address()}")
    try:
        with contained_zookeeper(timeout_s=120) as running:
            port = int(running.hosts.rpartition(":")[2])
            with session_on(running.hosts) as session:
                assert session.timeout_ns == TIMEOUT_NS
                assert session.create("/a", b"x").version is not None
                assert session.get("/a").body == b"x"
            assert f"tickTime={TICK_MS}" in ask(port, "conf")
            assert IMAGE.version in ask(port, "srvr")
    except ImageMissing as error:
        pytest.skip(str(error))
    assert ask(port, "isro") == ""


def test_without_an_engine_there_is_a_reason(monkeypatch, tmp_path):
    """Nobody answers at the socket: no traceback, and the listing says why."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(BackendUnavailable, match=r"no Docker engine answers at .*; start one"):
        contained_zookeeper().__enter__()
    ways = [(row.name, row.via) for row in server_statuses()]
    assert len(ways) == len(set(ways)), "two kinds of service stand on one family of servers"
    (row,) = [row for row in server_statuses() if (row.name, row.via) == ("zookeeper", "docker")]
    assert (row.available, row.reason) == (False, f"no Docker engine answers at {engine_address()}")
