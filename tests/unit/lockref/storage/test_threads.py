"""The hardened lock on real threads: the production runtime, one process."""

from __future__ import annotations

import threading

import pytest

from lockref.errors import LockLost, LockNotHeld
from lockref.provider import LockEventKind
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.storage.config import StorageLockConfig
from lockref.storage.lock import StorageLock
from lockref.stores.memory import MemoryStore
from lockref.stores.port import WriteReply
from lockref.words import Outcome

CONFIG = StorageLockConfig(
    base_path="s3://bucket/table",
    validity_ns=2 * NS_PER_S,
    renew_interval_ns=20 * NS_PER_MS,
    poll_interval_ns=20 * NS_PER_MS,
    drift_bound_ns=100 * NS_PER_MS,
    unsafe=True,  # One clock serves all threads.
)


def run_all(works):
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "a worker is stuck"


@pytest.mark.parametrize("is_shared", [False, True])
def test_threads_never_meet_in_the_critical_section(is_shared):
    """S3, H9, U6: one lock each, or one lock for all; tokens rise in the order of work."""
    store, tokens, inside, meetings = MemoryStore(), [], [], []
    shared = StorageLock(store, config=CONFIG)

    def work():
        lock = shared if is_shared else StorageLock(store, config=CONFIG)
        for _ in range(15):
            assert lock.lock(60)
            inside.append(None)
            if len(inside) > 1:
                meetings.append(lock.owner)
            tokens.append(lock.fencing_token)
            inside.pop()
            lock.unlock()

    run_all([work] * 6)
    assert meetings == []
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 90


def test_heartbeat_renews_in_the_background():
    """L4: three renewals arrive without the holder doing anything."""
    renewed, events = threading.Event(), []

    def listen(event):
        if event.kind is LockEventKind.RENEWED:
            events.append(event.grant)
            if len(events) == 3:
                renewed.set()

    with StorageLock(MemoryStore(), config=CONFIG, listener=listen) as lock:
        first = lock.grant
        assert renewed.wait(30)
        assert lock.grant.deadline_ns > first.deadline_ns
        assert lock.grant.token == first.token


def test_loss_wakes_who_waits_for_it():
    """H12: an event for the worker, a callback for the framework; then unlock says lost."""
    store, heard, called = MemoryStore(), [], threading.Event()

    def hear(error):
        heard.append(error)
        called.set()

    lock = StorageLock(store, config=CONFIG, on_loss=hear)
    assert lock.lock(60)
    loss = lock.loss
    store.delete("table/.hoodie/.locks/table_lock.json")
    assert loss.wait(30 * NS_PER_S)
    assert not lock.holds()
    with pytest.raises(LockLost):
        lock.unlock()
    lock.close()
    # Both are told of it by the heartbeat's task, the waiting worker first.
    assert called.wait(30)
    assert [type(error) for error in heard] == [LockLost]


def test_foreign_thread_cannot_unlock():
    """H9: LockNotHeld for anybody but the thread that locked."""
    errors = []
    with StorageLock(MemoryStore(), config=CONFIG) as lock:

        def foreign():
            try:
                lock.unlock()
            except LockNotHeld as error:
                errors.append(error)

        run_all([foreign])
        assert lock.holds()
    assert len(errors) == 1


def test_unlock_does_not_wait_for_a_renewal_under_way():
    """H11, D9: the renewal hangs in the store; the unlock answers all the same."""
    reached, go_on = threading.Event(), threading.Event()

    class Hanging(MemoryStore):
        def put_if_version(self, key, body, version):
            if b'"expired":false' in body and threading.current_thread().name.endswith("renewal"):
                reached.set()
                go_on.wait(30)
                return WriteReply(outcome=Outcome.AMBIGUOUS)
            return super().put_if_version(key, body, version)

    lock = StorageLock(Hanging(), config=CONFIG)
    assert lock.lock(60)
    assert reached.wait(30)
    assert lock.holds()
    lock.unlock()
    assert not go_on.is_set()
    go_on.set()
    assert lock.lock(60)
    lock.close()


def test_heartbeat_threads_are_daemons():
    """D12: an unclosed lock never keeps the process alive."""
    lock = StorageLock(MemoryStore(), config=CONFIG)
    assert lock.lock(60)
    mine = [thread for thread in threading.enumerate() if lock.owner[:6] in thread.name]
    assert mine
    assert all(thread.daemon for thread in mine)
    lock.unlock()
