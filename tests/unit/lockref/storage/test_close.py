"""H14, U16: the end of the lock and of the process."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from lockref.errors import (
    LockError,
    ReleaseFailed,
)
from lockref.storage import operations
from lockref.storage.operations import release_at_exit
from tests.hardened_rig import (
    REQUEST_TIMEOUT_NS,
    ManualTask,
    lose_request,
    ok,
)


def test_exit_inside_the_critical_section_does_not_release(rig):
    """H14, U16: marked lost and left to lapse."""
    rig.lock.try_lock()
    rig.lock.exit_hook()
    assert not rig.lock.holds()
    assert rig.losses
    assert not rig.store.record().expired


def test_exit_after_the_critical_section_undoes_what_is_left(rig):
    """H14: a release that had failed is tried a last time."""
    rig.lock.try_lock()
    rig.store.rule_for_all = lose_request
    with pytest.raises(ReleaseFailed):
        rig.lock.unlock()
    rig.store.rule_for_all = ok
    rig.lock.exit_hook()
    assert rig.store.record().expired


def test_release_at_exit_registers_the_hook(rig, monkeypatch):
    """H14: the hook is opt-in, by one small function."""
    hooks = []
    monkeypatch.setattr(operations, "atexit", SimpleNamespace(register=hooks.append))
    release_at_exit(rig.lock)
    assert hooks == [rig.lock.exit_hook]


def test_close_gives_back_and_refuses_further_use(rig):
    """Close by the owner releases, however deep it had locked; twice is once; locking afterwards raises."""
    rig.lock.try_lock()
    rig.lock.try_lock()
    rig.lock.close()
    assert rig.store.record().expired
    rig.store.log.clear()
    rig.lock.close()
    assert rig.store.log == []
    with pytest.raises(LockError, match="closed"):
        rig.lock.try_lock()


def test_each_close_tries_once_to_undo_what_is_left(rig):
    """A second `close`, after an unreachable store or a Ctrl-C in the first, asks once more, until all is undone."""
    rig.lock.try_lock()
    rig.store.rule_for_all = lose_request
    rig.lock.close()
    rig.store.log.clear()
    rig.lock.close()
    assert rig.store.log == ["read"]
    rig.store.rule_for_all = ok
    rig.lock.close()
    assert rig.store.record().expired
    rig.store.log.clear()
    rig.lock.close()
    assert rig.store.log == []


def test_close_by_another_task_does_not_release(rig):
    """U16, H14: the owner may be in the middle of its work."""
    rig.lock.try_lock()
    rig.runtime.me = ManualTask("second")
    rig.lock.close()
    assert not rig.lock.holds()
    assert rig.losses
    assert not rig.store.record().expired


def test_close_ends_the_wait_for_a_sibling(rig):
    """H9: a task that waits for another one of its process is not granted a lock that was closed meanwhile."""
    owner = rig.runtime.me
    rig.lock.try_lock()

    def close_as_owner():
        rig.runtime.on_advance = None
        me, rig.runtime.me = rig.runtime.me, owner
        rig.lock.close()
        rig.runtime.me = me

    rig.runtime.me = ManualTask("sibling")
    rig.runtime.on_advance = close_as_owner
    with pytest.raises(LockError, match="closed"):
        rig.lock.lock(timeout_s=5)
    assert rig.store.record().expired


def test_close_ends_a_wait(rig):
    """testTwoLockProvidersCloseAndUnlock: a waiter of a closed lock raises instead of waiting on."""
    rig.store.plant(rig.live())
    rig.store.before = lambda _name: rig.lock.close()
    with pytest.raises(LockError, match="closed"):
        rig.lock.lock(60)


def test_lock_that_is_closed_while_its_write_is_under_way_gives_no_grant(rig):
    """U16: `close` has undone the write by then, so whoever were told yes would hold nothing."""

    def close_behind(_store, perform, _is_read):
        reply = perform()
        rig.lock.close()
        return reply

    rig.store.script = [ok, close_behind]
    with pytest.raises(LockError, match="closed"):
        rig.lock.try_lock()
    assert not rig.lock.holds()
    assert rig.store.record().expired


def test_close_takes_no_longer_than_an_unlock(rig):
    """L5: an unlock that used its whole time is not tried once more by the same call; it goes on in the background."""
    rig.lock.try_lock()
    rig.store.rule_for_all = lose_request
    began_ns = rig.runtime.mono
    rig.lock.close()
    assert rig.runtime.mono - began_ns <= 4 * REQUEST_TIMEOUT_NS
    rig.store.rule_for_all = ok
    rig.runtime.run("cleanup")
    assert rig.store.record().expired
