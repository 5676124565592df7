"""kazoo's `Lock` recipe, unmodified, on a real ZooKeeper: what an application that trusts it must know.

Each test shows what the recipe does, so it fails once a release does better.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, LockTimeout
from kazoo.protocol.states import KazooState

from scenarios.backends.zookeeper import ZooKeeperServers

pytestmark = [pytest.mark.realbackend, pytest.mark.java, pytest.mark.xdist_group("zookeeper")]

_numbers = itertools.count()


@contextlib.contextmanager
def client_on(servers: ZooKeeperServers) -> Iterator[KazooClient]:
    client = KazooClient(hosts=servers.hosts, timeout=10)
    client.start(timeout=20)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def end_for_true(servers: ZooKeeperServers, client: KazooClient) -> None:
    """End a session at the server, as its timeout would: by another client with its identity."""
    session, password = client.client_id
    other = KazooClient(hosts=servers.hosts, client_id=(session, password), timeout=10)
    other.start(timeout=20)
    other.stop()
    other.close()


def test_it_says_acquired_after_its_session_is_lost(zookeeper: ZooKeeperServers) -> None:
    """Z10: `is_acquired` stays true, another client has the lock, and `release` says that it went well."""
    path = f"/kazoo-{next(_numbers)}"
    with client_on(zookeeper) as first, client_on(zookeeper) as second:
        mine, theirs = first.Lock(path, "first"), second.Lock(path, "second")
        assert mine.acquire(timeout=20)
        lost = threading.Event()
        first.add_listener(lambda state: lost.set() if state == KazooState.LOST else None)
        end_for_true(zookeeper, first)
        assert theirs.acquire(timeout=60)
        assert lost.wait(60)
        assert mine.is_acquired
        assert theirs.is_acquired
        assert mine.release() is True
        assert theirs.contenders() == ["second"]


def test_a_contender_that_gave_up_blocks_the_others(
    zookeeper: ZooKeeperServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recipe swallows the error of its clean-up: its znode stays in the queue until its session ends."""
    path = f"/kazoo-{next(_numbers)}"

    def lost(*_arguments: object, **_options: object) -> None:
        raise ConnectionLoss

    with client_on(zookeeper) as first, client_on(zookeeper) as third:
        holder, last = first.Lock(path, "holder"), third.Lock(path, "last")
        assert holder.acquire(timeout=20)
        with client_on(zookeeper) as second:
            ghost = second.Lock(path, "ghost")
            with monkeypatch.context() as patched:
                patched.setattr(second, "delete", lost)
                with pytest.raises(LockTimeout):
                    ghost.acquire(timeout=0.2)
            assert not ghost.is_acquired
            holder.release()
            assert last.contenders() == ["ghost"]
            with pytest.raises(LockTimeout):
                last.acquire(timeout=1)
            assert not ghost.is_acquired
        assert last.acquire(timeout=60)
