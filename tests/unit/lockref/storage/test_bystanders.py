"""Whoever looks on cannot harm a lock: listeners, callbacks, logs, audits; and a machine without threads (H10, H12)."""

from __future__ import annotations

import logging

import pytest

from lockref.errors import LockLost, ReleaseFailed
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.storage.audit import AuditTrail
from lockref.storage.lock import StorageLock
from lockref.storage.lockfile import LockFile
from tests.hardened_rig import CONFIG, KEY, Rig, lose_request, ok, throttle


class Grumpy:
    """A listener, a loss callback or a metrics sink that raises whatever it hears."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def __call__(self, news: object) -> None:
        self.heard.append(news)
        raise ZeroDivisionError("a bug of the application")


def grumpy_lock(rig: Rig) -> tuple[StorageLock, Grumpy, Grumpy]:
    listener, on_loss = Grumpy(), Grumpy()
    return rig.another(listener=listener, on_loss=on_loss), listener, on_loss


def test_a_listener_that_raises_does_not_end_a_grant(rig, caplog):
    """L1, L4: granted, renewed and released as if nobody listened; each of its errors is in the log."""
    lock, listener, _ = grumpy_lock(rig)
    with lock:
        rig.runtime.advance(NS_PER_S)
        assert rig.renew(lock) is not None
        assert lock.holds()
    assert rig.store.record().expired
    kinds = [event.kind for event in listener.heard if event.kind != "metric"]
    assert kinds == ["granted", "renewed", "released"]
    assert {record.name for record in caplog.records} == {"lockref"}
    assert "ZeroDivisionError" in caplog.text


def test_a_listener_that_raises_keeps_nobody_out(rig):
    """L6: a denied call and a failed release count their metrics, too."""
    lock, _, _ = grumpy_lock(rig)
    rig.store.plant(rig.live())
    assert lock.try_lock() is False
    rig.store.plant(LockFile("old", 1, expired=True))
    assert lock.try_lock()
    rig.store.rule_for_all = lose_request
    with pytest.raises(ReleaseFailed):
        lock.unlock()
    rig.store.rule_for_all = ok
    rig.runtime.run("cleanup")
    assert rig.store.record().expired


def test_a_loss_is_told_though_the_first_to_hear_it_raises(rig):
    """H12: event, listener and callback each hear it; the watchdog ends as usual."""
    lock, listener, on_loss = grumpy_lock(rig)
    lock.try_lock()
    rig.runtime.advance(CONFIG.validity_ns)
    rig.runtime.run("watchdog")
    assert lock.loss.is_set()
    assert [type(error) for error in on_loss.heard] == [LockLost]
    assert [event.kind for event in listener.heard if event.kind != "metric"] == ["granted", "lost"]


def test_a_callback_that_raises_does_not_stop_close(rig):
    """U16: `close` by another task marks the grant lost, whatever the callback makes of it."""
    lock, _, on_loss = grumpy_lock(rig)
    lock.try_lock()
    me = rig.runtime.me
    rig.runtime.me = type(me)("another")
    lock.close()
    assert on_loss.heard
    assert not lock.holds()


# ---- the log ----


def test_a_default_lock_logs_losses_and_strays_and_nothing_secret(rig, caplog):
    """The log tells of a lost grant, of what is left behind and when it is gone; no record, no nonce."""
    lock = StorageLock(rig.store, config=CONFIG, runtime=rig.runtime)
    with caplog.at_level(logging.INFO, "lockref"):
        lock.try_lock()
        rig.runtime.advance(CONFIG.validity_ns)
        rig.runtime.run("watchdog")
        with pytest.raises(LockLost):
            lock.unlock()
        lock.try_lock()
        written = rig.store.record()
        rig.store.rule_for_all = lose_request
        with pytest.raises(ReleaseFailed):
            lock.unlock()
        rig.store.rule_for_all = ok
        rig.runtime.run("cleanup")
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split(": ", 1)[1][:35] for line in lines] == [
        "the grant with token 1 is lost: the",
        "1 of our writes may be left in the ",
        "nothing of ours is left in the stor",
    ]
    assert all(KEY in line for line in lines)
    assert written.nonce is not None
    assert written.nonce not in caplog.text
    assert '"expired"' not in caplog.text


def test_what_overwrote_the_record_is_not_quoted(rig, caplog):
    """A parser's error may quote what it read; the log and the loss do not."""
    lock = rig.another()
    lock.try_lock()
    rig.store.plant(b'{"expired":false,"expiration":"s3cret","owner":"x"}')
    rig.renew(lock)
    with pytest.raises(LockLost) as caught:
        lock.assert_held()
    assert "s3cret" not in caplog.text + str(caught.value)


def test_no_handler_but_the_null_one_is_installed():
    """The application decides where the lines go."""
    assert [type(handler) for handler in logging.getLogger("lockref").handlers] == [logging.NullHandler]


# ---- a machine without threads ----


def test_without_any_thread_nothing_is_left_behind(rig):
    """H10: neither heartbeat nor cleanup can be started: the write is undone before the error reaches the caller."""
    rig.runtime.can_spawn = False
    with pytest.raises(RuntimeError, match="thread"):
        rig.lock.try_lock()
    assert not rig.lock.holds()
    assert rig.store.record().expired
    rig.runtime.can_spawn = True
    assert rig.lock.try_lock()


def test_without_a_thread_a_failed_release_stays_a_failed_release(rig):
    """H24: ReleaseFailed, not the thread's error; `close` undoes it later."""
    rig.lock.try_lock()
    rig.store.rule_for_all = lose_request
    rig.runtime.can_spawn = False
    with pytest.raises(ReleaseFailed):
        rig.lock.unlock()
    rig.store.rule_for_all = ok
    rig.lock.close()
    assert rig.store.record().expired


# ---- tasks of the lock that are killed ----


class Killed(BaseException):
    """As gevent's GreenletExit: no Exception."""


@pytest.mark.parametrize("error", [KeyboardInterrupt, Killed, MemoryError])
def test_a_killed_heartbeat_is_a_loss(rig, error):
    """H4, U15: whatever ends the renewing task ends belief at once; the unlock still gives the record back."""

    def kill(*_: object) -> object:
        raise error

    rig.lock.try_lock()
    rig.runtime.advance(NS_PER_S)
    rig.start_renewing()
    rig.store.script = [kill]
    with pytest.raises(error):
        rig.runtime.run("renewal")
    assert not rig.lock.holds()
    assert len(rig.losses) == 1
    with pytest.raises(LockLost):
        rig.lock.unlock()
    assert rig.store.record().expired


@pytest.mark.parametrize("error", [KeyboardInterrupt, Killed, MemoryError])
def test_a_killed_cleanup_begins_again(rig, error):
    """H6: a cleanup that is killed in the middle of a request starts anew; one that meets an error goes on."""

    def kill(*_: object) -> object:
        raise error

    rig.lock.try_lock()
    rig.store.rule_for_all = lose_request
    with pytest.raises(ReleaseFailed):
        rig.lock.unlock()
    rig.store.rule_for_all = ok
    rig.store.script = [ok, kill]
    if issubclass(error, Exception):
        rig.runtime.run("cleanup")
    else:
        with pytest.raises(error):
            rig.runtime.run("cleanup")
        assert not rig.store.record().expired
        rig.runtime.run("cleanup")
    assert rig.store.record().expired


# ---- the audit ----


def test_an_audit_without_a_thread_does_not_end_a_grant(rig):
    """H25: it is best effort; the next record of the audit finds a thread and writes all."""
    trail = AuditTrail(rig.store, locks_key=KEY.rpartition("/")[0], validity_ns=CONFIG.validity_ns, runtime=rig.runtime)
    lock = StorageLock(rig.store, config=CONFIG, runtime=rig.runtime, audit=trail)
    spawn = rig.runtime.spawn

    def spawn_no_audit(work, *, name):
        if "audit" in name:
            raise RuntimeError("can't start new thread")
        return spawn(work, name=name)

    rig.runtime.spawn = spawn_no_audit
    assert lock.try_lock()
    rig.runtime.spawn = spawn
    rig.runtime.advance(NS_PER_MS)
    lock.unlock()
    assert [task for task in rig.runtime.tasks if "audit" in task.name]


# ---- metrics ----


def test_listener_hears_hudis_metrics(rig):
    """§7: Hudi's names, through the listener."""
    rig.store.plant(rig.live(for_ms=300))
    rig.store.script = [ok, ok, throttle]
    rig.lock.lock(5)
    rig.renew()
    rig.lock.unlock()
    names = {event.name for event in rig.names("metric")}
    assert names >= {
        "lock.acquire.attempts", "lock.acquire.success", "lock.acquire.duration", "lock.release.success",
        "lock.acquired.others.error", "lock.dangling", "lock.throttled", "lock.request.latency",
        "lock.expiration.deadline",
    }  # fmt: skip
    assert [event.kind for event in rig.events if event.kind != "metric"] == ["granted", "renewed", "released"]
