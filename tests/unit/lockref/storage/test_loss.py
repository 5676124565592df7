"""H4, H8, H12, H13, H15: a grant that ends without its unlock is reported once, and never too late."""

from __future__ import annotations

import pytest

from lockref.errors import (
    LockLost,
)
from lockref.runtime import NS_PER_S
from lockref.stores.memory import MemoryStore
from tests.hardened_rig import (
    BELIEVABLE_NS,
    CONFIG,
    KEY,
    ManualTask,
    error_503,
    lose_request,
    ok,
)


def test_watchdog_signals_the_loss_at_the_deadline(rig):
    """H4, H12, L4: with renewals failing silently, event, callback and listener fire at the deadline."""
    rig.lock.try_lock()
    sent_ns = rig.runtime.mono
    rig.runtime.run("watchdog")
    assert rig.runtime.mono - sent_ns == BELIEVABLE_NS
    assert rig.lock.loss.is_set()
    assert [loss.token for loss in rig.losses] == [1]
    assert len(rig.names("lost")) == 1


def test_watchdog_notices_a_wall_clock_that_steps_to_the_deadline(rig):
    """H1, H4: it looks once an interval, so that a step while it waits does not hide the end until the old one."""
    rig.lock.try_lock()
    sent_ns = rig.runtime.mono

    def step_while_it_waits():
        if rig.runtime.mono - sent_ns > NS_PER_S:
            rig.runtime.on_advance = None
            rig.runtime.wall += 5 * NS_PER_S

    rig.runtime.on_advance = step_while_it_waits
    rig.runtime.run("watchdog")
    assert rig.losses
    assert rig.runtime.mono - sent_ns == BELIEVABLE_NS - 5 * NS_PER_S


def test_unanswered_renewals_do_not_prolong_belief(rig):
    """H4, U1, M24: nine renewals with 503 leave the deadline where it was."""
    rig.lock.try_lock()
    rig.store.rule_for_all = error_503
    for _ in range(9):
        assert rig.renew() is not None
        rig.runtime.advance(NS_PER_S)
    assert rig.lock.holds()
    rig.runtime.advance(NS_PER_S // 2)
    assert not rig.lock.holds()
    assert rig.renew() is None


def test_dead_heartbeat_is_a_loss(rig):
    """H4, U15: an error in the heartbeat ends belief at once, not at the deadline."""

    def broken(*_: object) -> object:
        raise RuntimeError("no class def found")

    rig.lock.try_lock()
    rig.runtime.advance(NS_PER_S)
    rig.start_renewing()
    rig.store.script = [broken]
    with pytest.raises(RuntimeError, match="no class def"):
        rig.runtime.run("renewal")
    assert not rig.lock.holds()
    assert rig.losses


def test_failing_watchdog_is_a_loss(rig):
    """H4: when the renewing task cannot be started, the holder is told at once."""
    rig.lock.try_lock()
    rig.runtime.advance(NS_PER_S)
    rig.runtime.can_spawn = False
    with pytest.raises(RuntimeError):
        rig.runtime.run("watchdog")
    assert not rig.lock.holds()
    assert rig.lock.loss.is_set()


def test_replaced_record_ends_belief(rig):
    """H8, U7, M27: a renewal's 412 with a successor's record clears the state and signals the loss."""
    rig.lock.try_lock()
    rig.store.plant(rig.live())
    assert rig.renew() is None
    assert not rig.lock.holds()
    assert rig.losses
    rig.store.log.clear()
    with pytest.raises(LockLost):
        rig.lock.unlock()
    assert rig.store.log == []
    assert rig.store.record().owner == "somebody"


def test_overwritten_with_junk_ends_belief(rig):
    """H8, H17: what is no record is not our record."""
    rig.lock.try_lock()
    rig.store.plant(b"{")
    assert rig.renew() is None
    assert not rig.lock.holds()


@pytest.mark.parametrize("rules", [[], [lose_request, ok]])
def test_deleted_object_is_a_loss(rig, rules):
    """H15, U9, E23: the holder never recreates it, and knows at its next renewal."""
    rig.lock.try_lock()
    MemoryStore.delete(rig.store, KEY)
    rig.store.script = rules
    assert rig.renew() is None
    assert not rig.lock.holds()
    assert "deleted" in rig.losses[0].reason
    assert MemoryStore.read(rig.store, KEY).is_absent


def test_a_record_made_anew_by_another_is_a_loss(rig):
    """E24: deleted and recreated by somebody else before the next renewal, which is refused and leaves it alone."""
    rig.lock.try_lock()
    MemoryStore.delete(rig.store, KEY)
    version = rig.store.plant(rig.live("another"))
    assert rig.renew() is None
    assert not rig.lock.holds()
    assert len(rig.losses) == 1
    assert MemoryStore.read(rig.store, KEY).version == version


def test_dead_owner_task_is_a_loss_without_release(rig):
    """H13, U10: its work may go on elsewhere, so renewing stops and the lock lapses by itself."""
    rig.lock.try_lock()
    rig.runtime.me.is_running = False
    rig.store.log.clear()
    assert rig.renew() is None
    assert rig.store.log == []
    assert not rig.lock.holds()
    assert rig.losses
    assert not rig.store.record().expired


def test_another_task_may_lock_after_the_owner_died(rig):
    """H13, E21: the dead owner's lease is honoured until it lapses, then taken over with a new token."""
    rig.lock.try_lock()
    rig.runtime.me.is_running = False
    rig.runtime.me = ManualTask("second")
    assert rig.lock.try_lock() is False
    assert rig.lock.lock(15)
    assert rig.lock.fencing_token == 2
    assert [loss.token for loss in rig.losses] == [1]


def test_loss_is_never_signalled_after_unlock(rig):
    """H12, U11, D11: a late finding about an old grant does not touch the new one."""
    rig.lock.try_lock()
    old = rig.tenure()
    old_loss = rig.lock.loss
    rig.lock.unlock()
    rig.lock.try_lock()
    old.lose("late")
    assert rig.lock.holds()
    assert not old_loss.is_set()
    assert not rig.lock.loss.is_set()
    assert rig.losses == []


def test_loss_is_signalled_once(rig):
    """H12: a grant lost at its deadline is not lost a second time when another task closes, or the process ends."""
    rig.lock.try_lock()
    rig.runtime.advance(CONFIG.validity_ns)
    rig.runtime.run("watchdog")
    rig.runtime.me = ManualTask("other")
    rig.lock.close()
    rig.lock.exit_hook()
    assert len(rig.losses) == len(rig.names("lost")) == 1


def test_lost_grant_is_reported_once_to_its_owner(rig):
    """U7: locking again over a lost grant never quietly succeeds; after that the owner starts afresh."""
    rig.lock.try_lock()
    rig.runtime.advance(20 * NS_PER_S)
    with pytest.raises(LockLost):
        rig.lock.try_lock()
    assert rig.lock.try_lock()
    assert rig.lock.fencing_token == 2


def test_heartbeat_ends_with_its_grant(rig):
    """H11, H12: unlocked or lost before its deadline, nothing waits on for the next renewal."""
    rig.lock.try_lock()
    unlocked = rig.tenure()
    rig.lock.unlock()
    assert unlocked.stopped.is_set()
    rig.lock.try_lock()
    rig.tenure().lose("for a test")
    assert rig.tenure().stopped.is_set()


def test_loss_that_the_release_finds_says_what_it_found(rig):
    """H7, H24: the holder believed until its unlock, and the object was gone by then."""
    rig.lock.try_lock()
    MemoryStore.delete(rig.store, KEY)
    with pytest.raises(LockLost, match="found deleted"):
        rig.lock.unlock()


def test_each_loss_is_logged_once(rig, caplog):
    """H12, RFC-91: noticed by the watchdog, or found by the unlock; with the token and the reason, without bytes."""

    def told():
        return [line.getMessage() for line in caplog.records if "is lost" in line.getMessage()]

    rig.lock.try_lock()
    rig.tenure().lose("noticed")
    with pytest.raises(LockLost):
        rig.lock.unlock()
    assert len(told()) == 1
    assert "token 1 is lost: noticed" in told()[0]
    rig.lock.try_lock()
    token, owner = rig.lock.fencing_token, "somebody-else"
    rig.store.plant(rig.live(owner, fence=token + 1))
    with pytest.raises(LockLost):
        rig.lock.unlock()
    assert len(told()) == 2
    assert f"token {token} is lost: on release" in told()[1]
    assert owner not in told()[1]


def test_what_a_grant_stands_on_is_read_under_its_mutex(rig):
    """H6: the writes of a grant are read under the mutex under which a renewal moves from the open ones to the last."""
    rig.lock.try_lock()
    tenure, seen = rig.tenure(), []

    class Watched(type(tenure._mutex)):
        def __enter__(self):
            seen.append("entered")
            return super().__enter__()

    tenure._mutex.__class__ = Watched
    tenure.writes()
    tenure.grant()
    assert seen == ["entered", "entered"]
