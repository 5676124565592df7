"""H3, H5, H8, H11, H18, H19: the heartbeat's renewals, their lost answers, and what they write."""

from __future__ import annotations

import pytest

from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.storage.lockfile import serialize
from tests.hardened_rig import (
    BELIEVABLE_NS,
    error_503,
    hidden_retry,
    late_reply,
    lose_reply,
    lose_request,
    ok,
    refuse,
    stale,
    throttle,
)


def test_first_renewal_is_timed_from_the_send(rig):
    """H3: a slow answer does not push the first renewal back."""
    sent_ns = rig.runtime.mono
    rig.store.script = [ok, late_reply(NS_PER_S // 2)]
    assert rig.lock.lock(5)
    assert rig.start_renewing() == sent_ns + NS_PER_S


def test_failing_renewals_are_tried_once_an_interval_at_least(rig):
    """H18: however many have failed, the next try is no later than a renewal would be."""
    rig.lock.try_lock()
    rig.store.rule_for_all = throttle
    for _ in range(12):
        assert rig.renew() - rig.runtime.mono <= NS_PER_S


@pytest.mark.parametrize("failures_before", [0, 8])
def test_failed_renewal_is_tried_again_soon(rig, failures_before):
    """H4, H18: 25 to 50 ms after the first failure, whatever had failed before the last renewal that landed."""
    rig.lock.try_lock()
    rig.store.rule_for_all = throttle
    for _ in range(failures_before):
        rig.renew()
    rig.store.rule_for_all = ok
    rig.renew()
    rig.store.rule_for_all = throttle
    assert 25 * NS_PER_MS <= rig.renew() - rig.runtime.mono <= 50 * NS_PER_MS


def test_refused_look_at_a_renewal_is_no_loss(rig):
    """H8, H16: a 403 on the look after a lost answer says nothing about whose record stands."""
    rig.lock.try_lock()
    rig.store.script = [error_503, refuse]
    assert rig.renew() is not None
    assert rig.lock.holds()
    assert rig.losses == []


@pytest.mark.parametrize("rule", [lose_reply, hidden_retry])
def test_own_renewal_is_adopted(rig, rule):
    """H5, H8, E13, D4: a renewal that landed unheard counts from when it was sent."""
    rig.lock.try_lock()
    rig.runtime.advance(NS_PER_S)
    sent_ns = rig.runtime.mono
    rig.store.script = [rule]
    assert rig.renew() == sent_ns + NS_PER_S
    assert rig.lock.remaining_ns() == BELIEVABLE_NS - (rig.runtime.mono - sent_ns)
    assert rig.renew() is not None
    assert rig.lock.holds()


def test_renewal_lost_twice_over_is_adopted_later(rig):
    """H5: the answer lost, the look lost; the next renewal's 412 leads to our own record."""
    rig.lock.try_lock()
    rig.store.script = [lose_reply, lose_request]
    rig.renew()
    assert rig.renew() is not None
    assert rig.lock.holds()
    assert rig.lock.grant.version == rig.store.version()


def test_lagging_read_of_an_old_renewal_is_not_adopted(rig):
    """A8, H8: a renewal that was followed by another one is past, though we wrote it and it landed."""
    rig.lock.try_lock()
    rig.renew()
    body, version = serialize(rig.store.record()), rig.store.version()
    rig.renew()
    rig.store.script = [error_503, stale(body, version)]
    assert rig.renew() is not None
    assert rig.lock.grant.version == rig.store.version()


def test_lagging_read_does_not_end_a_grant(rig):
    """A8, H8: a renewal that landed unheard, and a read that shows our own record before it."""
    rig.lock.try_lock()
    first = serialize(rig.store.record())
    rig.renew()
    rig.store.script = [lose_reply, stale(first, "0")]
    assert rig.renew() is not None
    assert rig.lock.holds()
    assert rig.renew() is not None
    assert rig.lock.grant.version == rig.store.version()


def test_late_tick_of_an_old_grant_does_nothing(rig):
    """H11, M8: a heartbeat that wakes after the unlock sends nothing, and ends."""
    rig.lock.try_lock()
    old = rig.heartbeat()
    rig.lock.unlock()
    rig.store.log.clear()
    assert old.renew() is None
    assert rig.store.log == []


def test_renewal_answered_after_unlock_is_not_adopted(rig):
    """H11, D9: a renewal in flight at unlock can neither revive the grant nor outlive the release."""
    rig.lock.try_lock()
    done = []
    rig.store.before = lambda name: done or done.append(name) or rig.lock.unlock()
    assert rig.renew() is None
    assert done == ["replace"]
    assert rig.store.log[-2:] == ["replace", "release"]
    assert rig.store.record().expired
    assert rig.lock.grant is None


def test_stop_does_not_wait_for_the_heartbeat(rig):
    """H11, D9: unlock returns while a renewal is still out; time does not pass."""
    rig.lock.try_lock()
    began_ns = rig.runtime.mono
    seen = []

    def unlock_meanwhile(name):
        if name == "replace" and not seen:
            seen.append(rig.runtime.mono)
            rig.lock.unlock()

    rig.store.before = unlock_meanwhile
    rig.renew()
    assert rig.runtime.mono == began_ns
    assert seen


@pytest.mark.parametrize("step_s", [-3600, -2, 5])
def test_renewal_never_lowers_validity(rig, step_s):
    """H19, E31: the wall clock steps under the holder; what others were promised stands, and belief stays short."""
    rig.lock.try_lock()
    promised_ms = rig.store.record().valid_until_ms
    rig.runtime.advance(NS_PER_S)
    rig.runtime.wall += step_s * NS_PER_S
    rig.renew()
    record = rig.store.record()
    assert record.valid_until_ms >= promised_ms + 1000
    assert rig.lock.remaining_ns() == BELIEVABLE_NS


def test_a_small_step_back_takes_nothing_from_others(rig):
    """H19: within the margin the renewal follows the wall clock, and still ends no earlier than what was promised."""
    rig.lock.try_lock()
    promised_ms = rig.store.record().valid_until_ms
    rig.runtime.advance(100 * NS_PER_MS)
    rig.runtime.wall -= 400 * NS_PER_MS
    rig.renew()
    assert rig.store.record().valid_until_ms == promised_ms


def test_renewal_of_a_grant_without_a_token_may_be_lost_on_its_way(rig):
    """H5, H6, H21: the record that still stands is the grant's own, also where no token says so."""
    rig.store.fence_rule_for_all = refuse
    rig.lock.try_lock()
    assert rig.lock.grant.token is None
    rig.store.script = [lose_request]
    assert rig.renew() is not None
    assert rig.lock.holds()


def test_failing_renewals_are_tried_more_and_more_slowly(rig):
    """H18: a store that throttles is asked less often from failure to failure."""
    rig.lock.try_lock()
    rig.store.rule_for_all = throttle
    pauses_ns = [rig.renew() - rig.runtime.mono for _ in range(6)]
    assert pauses_ns[-1] >= NS_PER_S // 2
