"""H1, H2: the holder stops in time, whatever its clocks do."""

from __future__ import annotations

import pytest

from lockref.errors import (
    LockLost,
    LockNotHeld,
)
from lockref.runtime import NS_PER_S
from tests.hardened_rig import (
    BELIEVABLE_NS,
    CONFIG,
    late_reply,
    ok,
)


@pytest.mark.parametrize("clock", ["wall", "mono"])
def test_belief_ends_at_the_deadline_of_either_clock(rig, clock):
    """H1: L − M after the write was sent, on whichever clock gets there first; the instant itself is out."""
    rig.lock.try_lock()
    setattr(rig.runtime, clock, getattr(rig.runtime, clock) + BELIEVABLE_NS - 1)
    assert rig.lock.holds()
    assert rig.lock.remaining_ns() == 1
    setattr(rig.runtime, clock, getattr(rig.runtime, clock) + 1)
    assert not rig.lock.holds()
    assert rig.lock.remaining_ns() == 0
    assert rig.lock.grant is None
    assert rig.lock.fencing_token is None


def test_belief_counts_from_before_the_request(rig):
    """M22, H1: a slow answer shortens belief; it never lengthens it."""
    rig.store.script = [ok, late_reply(2 * NS_PER_S)]
    assert rig.lock.lock(5)
    assert rig.lock.remaining_ns() == BELIEVABLE_NS - 2 * NS_PER_S
    assert rig.lock.remaining() == (BELIEVABLE_NS - 2 * NS_PER_S) / NS_PER_S


def test_assert_held_tells_lost_from_never_held(rig):
    """H2: before each protected write; the token and a reason come with the loss."""
    with pytest.raises(LockNotHeld):
        rig.lock.assert_held()
    rig.lock.try_lock()
    rig.lock.assert_held()
    rig.runtime.advance(BELIEVABLE_NS)
    with pytest.raises(LockLost) as caught:
        rig.lock.assert_held()
    assert caught.value.token == 1
    assert caught.value.reason


def test_a_no_stays_a_no(rig):
    """S3: after the guard has said no, neither a clock stepping back nor a late renewal makes it a yes."""
    rig.lock.try_lock()
    rig.runtime.wall += BELIEVABLE_NS
    assert not rig.lock.holds()
    rig.runtime.wall -= BELIEVABLE_NS
    assert not rig.lock.holds()
    rig.renew()
    assert not rig.lock.holds()


def test_nothing_remains_after_a_no(rig):
    """H2, S3, L4: a no given while the wall clock ran ahead leaves no time, and the watchdog reports the loss."""
    rig.lock.try_lock()
    rig.runtime.wall += CONFIG.validity_ns
    assert not rig.lock.holds()
    rig.runtime.wall -= CONFIG.validity_ns
    assert rig.lock.remaining_ns() == 0
    rig.runtime.run("watchdog")
    assert len(rig.losses) == 1


def test_renewal_landing_after_the_deadline_does_not_revive(rig):
    """H4: sent in time, answered too late: lost, whatever storage says."""
    rig.lock.try_lock()
    rig.runtime.advance(BELIEVABLE_NS - NS_PER_S)
    rig.store.script = [late_reply(2 * NS_PER_S)]
    assert rig.renew() is None
    assert not rig.lock.holds()
