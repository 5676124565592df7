"""H9: one task of one process at a time."""

from __future__ import annotations

import pytest

from lockref.errors import (
    LockNotHeld,
    OutcomeUnknown,
)
from lockref.runtime import NS_PER_MS, NS_PER_S
from tests.hardened_rig import (
    BELIEVABLE_NS,
    ManualTask,
)


def test_owner_task_may_lock_again(rig):
    """H9: counted; only the outermost unlock writes."""
    assert rig.lock.try_lock()
    assert rig.lock.lock(1)
    rig.store.log.clear()
    rig.lock.unlock()
    assert rig.lock.holds()
    assert rig.store.log == []
    rig.lock.unlock()
    assert rig.store.log == ["release"]


def test_another_task_is_told_no_and_cannot_unlock(rig):
    """H9, U6: one process, two tasks, one lock: the second waits or fails."""
    rig.lock.try_lock()
    rig.runtime.me = ManualTask("second")
    rig.store.log.clear()
    began_ns = rig.runtime.mono
    assert rig.lock.try_lock() is False
    assert rig.lock.lock(2) is False
    assert rig.runtime.mono - began_ns == 2 * NS_PER_S
    with pytest.raises(LockNotHeld):
        rig.lock.unlock()
    assert rig.store.log == []
    assert rig.lock.holds()


def test_waiting_for_a_sibling_sleeps(rig, monkeypatch):
    """H9: in every cycle, not only in the first, a task waits for the holder of its process without spinning."""
    for _ in range(2):
        rig.lock.try_lock()
        rig.lock.unlock()
    rig.lock.try_lock()
    readings = []

    def reading():
        readings.append(rig.runtime.mono)
        rig.runtime.mono += NS_PER_MS
        return rig.runtime.mono

    rig.runtime.me = ManualTask("sibling")
    monkeypatch.setattr(rig.runtime, "monotonic_ns", reading)
    assert rig.lock.lock(timeout_s=3) is False
    assert len(readings) < 50


def test_unlock_without_lock_is_a_bug_of_the_caller(rig):
    """H9: LockNotHeld, and no request."""
    with pytest.raises(LockNotHeld):
        rig.lock.unlock()
    assert rig.store.log == []


def test_forked_child_is_refused(rig):
    """H9: a child shares owner and memory with its parent; only one of them may act."""
    rig.lock.try_lock()
    rig.runtime.pid += 1
    rig.store.log.clear()
    assert not rig.lock.holds()
    for use in (rig.lock.try_lock, rig.lock.unlock, rig.lock.repair):
        with pytest.raises(LockNotHeld, match="forked"):
            use()
    rig.lock.close()
    rig.lock.exit_hook()
    assert rig.store.log == []
    rig.runtime.pid -= 1
    assert rig.lock.holds()


def test_task_that_waits_is_woken_when_the_other_one_leaves(rig):
    """H9, L3: it does not wait for the end of its interval."""
    gate = rig.lock.gate
    assert gate.try_enter()
    gate.leave()
    began_ns = rig.runtime.mono
    gate.wait(NS_PER_S)
    assert rig.runtime.mono == began_ns


def test_grant_of_a_task_that_died_inside_is_left_to_lapse(rig):
    """H9, H13: the next task takes its turn at once, and not the lock: the dead task's work may go on elsewhere."""
    rig.runtime.me = dead = ManualTask("dead")
    rig.lock.try_lock()
    dead.is_running = False
    rig.runtime.me = ManualTask("second")
    assert rig.lock.try_lock() is False
    assert [loss.token for loss in rig.losses] == [1]
    rig.runtime.run("cleanup")
    assert not rig.store.record().expired


def test_whoever_has_left_is_counted_no_more(rig):
    """H9: without a user there is no depth, and both change in one step, so that no other entry comes in between."""
    gate, changes = rig.lock.gate, []
    mutex = gate._mutex

    class Watched(type(gate)):
        def __setattr__(self, name, value):
            changes.append((name, mutex.is_locked))
            super().__setattr__(name, value)

    gate.__class__ = Watched
    assert gate.try_enter()
    gate.leave()
    assert (gate.user, gate.depth) == (None, 0)
    assert changes == [("user", True), ("depth", True)] * 2


def test_task_that_waits_notices_within_an_interval_that_the_holder_has_died(rig):
    """H9, H13: nobody wakes it, so it looks for itself, however long its caller would wait."""
    rig.runtime.me = dead = ManualTask("dead")
    rig.lock.try_lock()
    rig.runtime.me = ManualTask("second")
    rig.runtime.on_advance = lambda: setattr(dead, "is_running", False)
    began_ns, asked_ns = rig.runtime.mono, []
    rig.store.before = lambda _name: asked_ns.append(rig.runtime.mono - began_ns)
    assert rig.lock.lock(60)
    assert asked_ns[0] <= NS_PER_S


def test_sibling_of_a_task_whose_grant_has_ended_is_not_told_no(rig):
    """H9, S7: nobody is known to hold the lock then; the task inside has only not left yet."""
    rig.lock.try_lock()
    rig.runtime.advance(BELIEVABLE_NS)
    rig.runtime.me = ManualTask("second")
    with pytest.raises(OutcomeUnknown, match="another task of this process"):
        rig.lock.try_lock()


def test_waiting_for_a_sibling_is_part_of_the_callers_time(rig):
    """H9, L5: what a task has waited for its turn is not given to it once more for waiting for others."""
    rig.lock.try_lock()
    first, second = rig.runtime.me, ManualTask("second")
    rig.runtime.me = second
    began_ns = rig.runtime.mono

    def leave():
        if rig.runtime.mono - began_ns >= 2 * NS_PER_S:
            rig.runtime.on_advance = None
            rig.runtime.me = first
            rig.lock.unlock()
            rig.runtime.me = second
            rig.store.plant(rig.live(for_ms=60_000))

    rig.runtime.on_advance = leave
    assert rig.lock.lock(3) is False
    assert rig.runtime.mono - began_ns <= 3 * NS_PER_S
