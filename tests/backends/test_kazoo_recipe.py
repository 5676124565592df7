"""kazoo's `Lock` recipe, unmodified, on a real ZooKeeper: what an application that trusts it must know.

Each test shows what the recipe does, so it fails once a release does better.
"""

from __future__ import annotations

import itertools
import threading

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, LockTimeout
from kazoo.protocol.states import KazooState

from scenarios.backends.zookeeper import ZooKeeperServers
from tests.backends.kazoo_client import kazoo_on

pytestmark = [pytest.mark.realbackend, pytest.mark.java, pytest.mark.xdist_group("zookeeper")]

_numbers = itertools.count()


def end_for_true(servers: ZooKeeperServers, client: KazooClient) -> None:
    """End a session at the server, as its timeout would: by another client with its identity."""
    with kazoo_on(servers.hosts, identity=client.client_id):
        pass


def test_it_says_acquired_after_its_session_is_lost(zookeeper: ZooKeeperServers) -> None:
    """Z10: `is_acquired` stays true, another client has the lock, and `release` says that it went well."""
    path = f"/kazoo-{next(_numbers)}"
    with kazoo_on(zookeeper.hosts) as first, kazoo_on(zookeeper.hosts) as second:
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

    with kazoo_on(zookeeper.hosts) as first, kazoo_on(zookeeper.hosts) as third:
        holder, last = first.Lock(path, "holder"), third.Lock(path, "last")
        assert holder.acquire(timeout=20)
        with kazoo_on(zookeeper.hosts) as second:
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
