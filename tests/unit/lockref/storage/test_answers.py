"""S7, L5, H16: what `lock` says is known to be so, and is said in time."""

from __future__ import annotations

from itertools import pairwise

import pytest

from lockref.errors import (
    OutcomeUnknown,
    StoreRejected,
)
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.storage.lockfile import LockFile
from lockref.stores.port import WriteReply
from lockref.words import Outcome
from tests.hardened_rig import (
    CONFIG,
    KEY,
    REQUEST_TIMEOUT_NS,
    error_503,
    late_reply,
    lose_reply,
    lose_request,
    ok,
    refuse,
    throttle,
)


def test_no_is_said_when_somebody_elses_lease_was_seen(rig):
    """S7, E1: one read, one no."""
    rig.store.plant(rig.live())
    assert rig.lock.try_lock() is False
    assert rig.store.log == ["read"]


def test_lost_race_is_a_no(rig):
    """S7, E2: another writer was quicker; its record is looked at before we say no."""
    rig.store.plant(LockFile("old", 1, expired=True))
    rig.store.before = lambda name: rig.store.plant(rig.live()) if name == "replace" else None
    assert rig.lock.try_lock() is False
    assert rig.store.log == ["read", "replace", "read"]


def test_what_happened_before_the_call_is_no_denial(rig):
    """S7: a 412 on the version that our own release had left tells of a grant that may long be over."""
    with rig.lock:
        pass
    rig.store.plant(LockFile("old", 1, expired=True))
    rig.store.script = [ok, ok]
    rig.store.rule_for_all = throttle
    with pytest.raises(OutcomeUnknown):
        rig.lock.try_lock()


def test_unresolved_try_goes_on_while_it_has_time(rig):
    """S7: once a write of ours is open, having seen somebody else is no reason to stop looking."""
    rig.store.plant(LockFile("old", 1, expired=True))
    quick = LockFile("quick", 1, expired=True)
    rig.store.before = lambda _name: rig.store.plant(quick) if rig.store.log == ["read", "replace"] else None
    rig.store.script = [ok, ok, *[ok, error_503] * 3]
    assert rig.lock.try_lock()


def test_waiter_that_lost_a_race_does_not_look_at_once(rig):
    """H20: a 412 means that a grant has just begun; the next request comes when it may be over."""
    rig.store.plant(LockFile("old", 1, expired=True))
    at_ns = []

    def other_is_quicker(name):
        at_ns.append(rig.runtime.mono)
        if name == "replace" and len(at_ns) == 2:
            rig.store.plant(rig.live(for_ms=2000))

    rig.store.before = other_is_quicker
    assert rig.lock.lock(20)
    assert at_ns[2] - at_ns[1] >= NS_PER_S // 2


@pytest.mark.parametrize("timeout_s", [0, 3])
@pytest.mark.parametrize("rule", [lose_request, error_503])
def test_nothing_learned_is_said_so(rig, rule, timeout_s):
    """S7: a partition, or 5xx all the way, is no denial."""
    rig.store.rule_for_all = rule
    with pytest.raises(OutcomeUnknown):
        rig.lock.lock(timeout_s)


def test_unresolved_write_is_not_a_no(rig):
    """S7: somebody else was seen at first, but our own last write may stand now."""
    rig.store.plant(rig.live(for_ms=1000))
    rig.store.script = [*[ok] * 2]
    rig.store.before = lambda name: setattr(rig.store, "rule_for_all", lose_request) if name == "replace" else None
    with pytest.raises(OutcomeUnknown):
        rig.lock.lock(5)


@pytest.mark.parametrize("script", [[refuse], [ok, refuse]])
def test_refusal_is_named(rig, script):
    """S7, §6: a 403 never looks like contention, on reading or on writing."""
    rig.store.script = list(script)
    with pytest.raises(StoreRejected, match="403"):
        rig.lock.lock(60)
    assert len(rig.store.log) == len(script)


def test_read_errors_are_retried_within_the_callers_time(rig):
    """H16, D7: a failed read is no reason to fail the acquisition."""
    rig.store.script = [error_503, lose_request]
    assert rig.lock.lock(5)


def test_backoff_never_outlasts_the_poll_interval(rig):
    """L3: however long the store was out of reach, a free lock is found within one interval."""
    rig.store.rule_for_all = error_503
    looks = []
    rig.store.before = lambda _name: looks.append(rig.runtime.mono)
    with pytest.raises(OutcomeUnknown):
        rig.lock.lock(60)
    assert max(b - a for a, b in pairwise(looks)) <= CONFIG.poll_interval_ns


@pytest.mark.parametrize("timeout_s", [1, 5, 30])
@pytest.mark.parametrize("rule", [lose_request, lose_reply, throttle, error_503])
def test_calls_keep_their_time(rig, rule, timeout_s):
    """L5: timeout plus one request timeout, with the store unreachable or refusing."""
    rig.store.rule_for_all = rule
    began_ns = rig.runtime.mono
    with pytest.raises(OutcomeUnknown):
        rig.lock.lock(timeout_s)
    assert rig.runtime.mono - began_ns <= timeout_s * NS_PER_S + REQUEST_TIMEOUT_NS


@pytest.mark.parametrize("timeout_s", [3.5, 0.2])
def test_waiting_keeps_its_time(rig, timeout_s):
    """L5: with a live lease in the way the whole time is used, and no more, be it less than one request may take."""
    rig.store.plant(rig.live(for_ms=100_000))
    began_ns = rig.runtime.mono
    assert rig.lock.lock(timeout_s) is False
    assert timeout_s - 0.1 <= (rig.runtime.mono - began_ns) / NS_PER_S <= timeout_s


def test_a_race_lost_late_is_looked_into_at_once(rig):
    """L5, S7: refused when its time is up, a caller looks who was quicker instead of waiting for the grant's end."""
    rig.store.plant(LockFile("old", 1, expired=True))
    rig.store.script = [ok, late_reply(200 * NS_PER_MS)]
    rig.store.before = lambda name: rig.store.plant(rig.live(for_ms=100_000)) if name == "replace" else None
    began_ns = rig.runtime.mono
    assert rig.lock.lock(0.1) is False
    assert rig.runtime.mono - began_ns <= 200 * NS_PER_MS


def test_last_look_of_a_try_falls_just_before_its_time_is_up(rig):
    """L5, S7: a try that has learned nothing looks once more before one request's time is over."""
    rig.store.rule_for_all = error_503
    began_ns, looked_ns = rig.runtime.mono, []
    rig.store.before = lambda _name: looked_ns.append(rig.runtime.mono - began_ns)
    with pytest.raises(OutcomeUnknown):
        rig.lock.try_lock()
    assert looked_ns[-1] == REQUEST_TIMEOUT_NS - 5 * NS_PER_MS


def test_failures_in_a_row_are_tried_more_and_more_slowly(rig):
    """H16: a store that does not answer is asked less often from failure to failure."""
    rig.store.rule_for_all = error_503
    looks = []
    rig.store.before = lambda _name: looks.append(rig.runtime.mono)
    with pytest.raises(OutcomeUnknown):
        rig.lock.lock(30)
    assert max(b - a for a, b in pairwise(looks)) >= NS_PER_S // 2


def test_caller_that_wakes_too_late_sends_nothing_more(rig):
    """L5: a process that was stopped in its pause, beyond its time, says what it knows and asks nothing."""
    rig.store.plant(rig.live(for_ms=60_000))
    rig.runtime.on_advance = lambda: setattr(rig.runtime, "mono", rig.runtime.mono + 5 * NS_PER_S)
    assert rig.lock.lock(3) is False
    assert rig.store.log == ["read"]


def test_throttled_read_is_no_absence(rig):
    """H16: a read that the store would not answer is repeated; nothing is created on it."""
    rig.store.script = [throttle]
    assert rig.lock.lock(5)
    assert rig.store.log == ["read", "read", "create"]


def test_throttled_write_stays_open_until_a_look(rig):
    """S7: a proxy may have sent it twice; one copy was answered "not now", and the other one may have landed."""
    rig.store.plant(rig.live(for_ms=1000))
    rig.store.before = lambda name: setattr(rig.store, "rule_for_all", throttle) if name == "replace" else None
    with pytest.raises(OutcomeUnknown, match="may have landed"):
        rig.lock.lock(5)


def test_look_after_a_throttled_write_leaves_the_no_a_no(rig):
    """S7: the state that it was sent on has been replaced by another's lease, so it cannot land any more."""
    rig.store.plant(rig.live(for_ms=1000))
    rig.store.script = [ok, ok, throttle]
    quick = rig.live(for_ms=60_000)
    rig.store.before = lambda name: rig.store.plant(quick) if name == "replace" else None
    assert rig.lock.lock(5) is False
    assert rig.store.log.count("replace") == 1


def test_write_on_the_present_version_stays_open(rig):
    """S7: what our last write was sent on still stands, so it may land yet, whatever became of those before."""
    rig.store.plant(LockFile("old", 1, expired=True))
    quick = LockFile("quick", 1, expired=True)
    rig.store.before = lambda _name: rig.store.plant(quick) if rig.store.log == ["read", "replace"] else None
    # The second write is lost on its way; the look after it shows the state that it was sent on.
    rig.store.script = [ok, ok, ok, lose_request, ok]
    rig.store.rule_for_all = throttle
    with pytest.raises(OutcomeUnknown, match="may have landed"):
        rig.lock.lock(2)


def test_released_record_of_another_is_no_denial(rig):
    """S7, H6: it may be what another client's cleanup left, and tells of nobody who holds."""
    rig.store.plant(LockFile("old", 1, expired=True))
    other = LockFile("other", 1, expired=True)

    def other_comes(_name):
        if rig.store.log == ["read", "replace", "read"]:
            rig.store.plant(other)
            rig.store.fence_rule_for_all = error_503

    rig.store.before = other_comes
    rig.store.script = [ok, lose_request, ok]
    rig.store.rule_for_all = throttle
    with pytest.raises(OutcomeUnknown, match="nobody was seen"):
        rig.lock.lock(2)


def test_open_write_cannot_land_once_its_object_is_gone(rig):
    """S7, H6: the version that it was sent on will not come back, so nothing is left to undo."""
    rig.store.plant(LockFile("old", 1, expired=True))

    def object_goes(_name):
        if rig.store.log == ["read", "replace", "read"]:
            rig.store.delete(KEY)
            rig.store.fence_rule_for_all = error_503

    rig.store.before = object_goes
    rig.store.script = [ok, lose_request, ok]
    rig.store.rule_for_all = throttle
    with pytest.raises(OutcomeUnknown, match="nobody was seen"):
        rig.lock.lock(2)
    assert not [task for task in rig.runtime.tasks if "cleanup" in task.name]


def test_trouble_with_the_fence_object_is_named(rig):
    """S7, H21: whoever reads the error knows which of the two objects did not answer."""
    rig.store.fence_rule_for_all = error_503
    with pytest.raises(OutcomeUnknown, match="fence object"):
        rig.lock.try_lock()


def test_race_for_the_fence_object_is_followed_by_a_look_at_the_record(rig):
    """H21, H16: whoever was quicker probably has the lock; four such rounds without a pause and no more."""
    rig.store.fence_rule_for_all = lambda _store, perform, is_read: perform() if is_read else _taken()
    paused_ns = []
    rig.runtime.on_advance = lambda: paused_ns.append((len(rig.store.log), rig.store.log[-1]))
    with pytest.raises(OutcomeUnknown):
        rig.lock.try_lock()
    assert paused_ns[0] == (4, "read")


def test_nonces_are_long_enough_never_to_repeat(rig):
    """H22, A6: 64 random bits, so that no two writes of one client have equal bytes."""
    random_part, _, _ = rig.lock.cell.new_nonce().partition(".")
    assert len(random_part) == 16


def _taken() -> WriteReply:
    return WriteReply(outcome=Outcome.PRECONDITION_FAILED, status=412)
