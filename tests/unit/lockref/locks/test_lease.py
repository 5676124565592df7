"""The decisions of a lease, each branch once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lockref.errors import ConfigError
from lockref.locks.decisions import (
    backoff_ns,
    deadline_after,
    decide,
    free_at_wall_ns,
    next_step,
    next_token,
    recognise,
    sight,
)
from lockref.locks.lag import is_own_past, is_past, shows_other
from lockref.locks.values import Attempt, Deadline, Lease, LeaseTerms, Moment, Reason, Sight, Step, Stored, Take, Wait
from lockref.runtime import NS_PER_MS, NS_PER_S, MonoNs, WallNs
from lockref.storage.lockfile import LockFile
from lockref.storage.writer import LockFileWriter
from lockref.stores.port import Version, WriteReply
from lockref.words import Outcome

TERMS = LeaseTerms(
    validity_ns=10 * NS_PER_S,
    renew_interval_ns=NS_PER_S,
    margin_ns=500 * NS_PER_MS,
    buffer_ns=500 * NS_PER_MS,
    request_timeout_ns=NS_PER_S // 3,
)
V1, V2 = Version("1"), Version("2")
LIVE = LockFile("somebody", 1000, expired=False, nonce="n", fence=4)


def moment(ns: int) -> Moment:
    return Moment(WallNs(ns), MonoNs(ns))


def attempt(record: LockFile = LIVE, *, sent_ns: int = 0, if_version: Version | None = V1) -> Attempt:
    sent = moment(sent_ns)
    return Attempt(
        record=record, sent=sent, deadline=deadline_after(sent, TERMS), wall_estimate_ns=sent_ns, if_version=if_version
    )


@pytest.mark.parametrize(
    ("record", "now_ms", "expected"),
    [
        (None, 0, Take(Reason.ABSENT)),
        (LockFile("x", 99_999, expired=True), 0, Take(Reason.RELEASED)),
        (LIVE, 1500, Wait(NS_PER_MS)),
        (LIVE, 1501, Take(Reason.LAPSED)),
        (LIVE, 0, Wait(1501 * NS_PER_MS)),
        (LockFile("me", 1000, expired=False, nonce="mine"), 0, Take(Reason.OWN)),
        (LockFile("me", 1000, expired=False, nonce="other"), 0, Wait(1501 * NS_PER_MS)),
        (LockFile("me", 1000, expired=False), 0, Wait(1501 * NS_PER_MS)),
        (LockFile("twin", 1000, expired=False, nonce="mine"), 0, Wait(1501 * NS_PER_MS)),
    ],
)
def test_decide(record, now_ms, expected):
    """E1 to E3, A4: who may take what, and when; the buffer's last millisecond is still the holder's."""
    stored = Stored(None if record is None else V1, record)
    found = decide(stored, owner="me", own_nonces=["mine"], now_wall_ns=WallNs(now_ms * NS_PER_MS), terms=TERMS)
    assert found == expected


@pytest.mark.parametrize("drift_ms", [-2000, -500, 0, 499, 500, 501, 2000])
def test_takeover_instants_of_e4(drift_ms):
    """E4: with B's clock d ahead of A's, A-time must exceed V + 500 − d."""
    first_a_ms = free_at_wall_ns(LIVE, TERMS) // NS_PER_MS - drift_ms
    assert first_a_ms - LIVE.valid_until_ms == 500 - drift_ms + 1


@pytest.mark.parametrize(
    ("reply", "step"),
    [
        (WriteReply(outcome=Outcome.APPLIED, version=V1), Step.DONE),
        (WriteReply(outcome=Outcome.PRECONDITION_FAILED), Step.LOOK),
        (WriteReply(outcome=Outcome.PRECONDITION_FAILED, missing=True), Step.GONE),
        (WriteReply(outcome=Outcome.CONFLICT), Step.AGAIN),
        (WriteReply(outcome=Outcome.THROTTLED), Step.AGAIN),
        (WriteReply(outcome=Outcome.REJECTED), Step.REFUSED),
        (WriteReply(outcome=Outcome.AMBIGUOUS), Step.LOOK),
    ],
)
def test_each_answer_has_its_own_branch(reply, step):
    """A5: 409, 404, 429 and 503 differ; nothing undecided counts as done."""
    assert next_step(reply) is step


def test_deadline_is_inclusive_and_takes_the_earlier_clock():
    """H1: at the deadline the holder has stopped, whichever clock shows it."""
    deadline = Deadline(WallNs(10), MonoNs(20))
    assert deadline.remaining_ns(Moment(WallNs(9), MonoNs(19))) == 1
    assert deadline.remaining_ns(Moment(WallNs(10), MonoNs(0))) == 0
    assert deadline.remaining_ns(Moment(WallNs(0), MonoNs(20))) == 0
    assert deadline.remaining_ns(Moment(WallNs(9), MonoNs(5))) == 1
    assert deadline.remaining_ns(Moment(WallNs(0), MonoNs(19))) == 1
    assert deadline.remaining_ns(Moment(WallNs(11), MonoNs(5))) == 0


def test_lease_carries_its_attempts_deadline():
    """H1: the lease ends when the attempt that made it says so."""
    made = attempt()
    assert Lease(V2, made).deadline == made.deadline == deadline_after(made.sent, TERMS)


def test_validity_is_rounded_up():
    """The record never promises others less than the holder believes."""
    assert LockFileWriter.valid_until_ms(0, TERMS) == 10_000
    assert LockFileWriter.valid_until_ms(1, TERMS) == 10_001


@pytest.mark.parametrize(
    ("wall_ns", "expected_ns"),
    [
        (1000 * NS_PER_MS, 1000 * NS_PER_MS),
        (5000 * NS_PER_MS, 5000 * NS_PER_MS),
        (600 * NS_PER_MS, 600 * NS_PER_MS),
        (500 * NS_PER_MS, 500 * NS_PER_MS),
        (499 * NS_PER_MS, 1000 * NS_PER_MS),
        (-NS_PER_S, 1000 * NS_PER_MS),
    ],
)
def test_wall_estimate_ignores_steps_back(wall_ns, expected_ns):
    """H19, E31: beyond the margin a step back is not believed; slewing and steps forward are followed."""
    now = Moment(WallNs(wall_ns), MonoNs(1000 * NS_PER_MS))
    assert LockFileWriter.estimate_wall(attempt(), now, TERMS) == expected_ns


def test_wall_estimate_goes_by_the_margin_and_by_the_estimate_before():
    """H19, E31: M decides how far the wall may step back, not β; an estimate is carried on, not a bad reading."""
    terms = replace(TERMS, margin_ns=NS_PER_S // 4, buffer_ns=NS_PER_S)
    before = replace(attempt(), wall_estimate_ns=attempt().sent.wall_ns + 5 * NS_PER_S)
    expected_ns = before.wall_estimate_ns + NS_PER_S
    mono_ns = MonoNs(before.sent.mono_ns + NS_PER_S)
    for behind_ns, estimate_ns in ((NS_PER_S // 2, expected_ns), (NS_PER_S // 4, expected_ns - NS_PER_S // 4)):
        assert (
            LockFileWriter.estimate_wall(before, Moment(WallNs(expected_ns - behind_ns), mono_ns), terms) == estimate_ns
        )


def test_renewal_never_lowers_validity():
    """H19: max of what was promised and what is promised now."""
    before = attempt(LockFile("me", 15_000, expired=False))
    assert LockFileWriter.renewed_valid_until_ms(before, 0, TERMS) == 15_000
    assert LockFileWriter.renewed_valid_until_ms(before, 6 * NS_PER_S, TERMS) == 16_000


@pytest.mark.parametrize(
    ("stored", "seen", "expected"),
    [
        (Stored(None, None), 0, 1),
        (Stored(None, None), 7, 8),
        (Stored(V1, LIVE), 0, 5),
        (Stored(V1, LIVE), 9, 10),
        (Stored(V1, LockFile("hudi", 1, expired=True)), 9, 10),
    ],
)
def test_next_token(stored, seen, expected):
    """H21: above the record's and above everything seen; Hudi's records have none."""
    assert next_token(stored, seen) == expected


def test_recognise_needs_the_whole_record():
    """H5, A4, E33: owner, validUntil, nonce; one differing field is somebody else's record."""
    mine = attempt()
    assert recognise(LIVE, [mine]) is mine
    for other in (
        LockFile("x", 1000, expired=False, nonce="n", fence=4),
        LockFile("somebody", 1001, expired=False, nonce="n", fence=4),
        LockFile("somebody", 1000, expired=False, nonce="m", fence=4),
        LockFile("somebody", 1000, expired=True, nonce="n", fence=4),
    ):
        assert recognise(other, [mine]) is None
    assert recognise(None, [mine]) is None
    assert recognise(LIVE, []) is None


def test_sight():
    """H5 to H8: five things that a look can show."""
    body = LIVE.freed("r")
    for stored, expected in (
        (Stored(None, None), Sight.ABSENT),
        (Stored(V2, body), Sight.RELEASED_BY_US),
        (Stored(V2, LIVE), Sight.OURS),
        (Stored(V1, LockFile("old", 0, expired=True)), Sight.UNCHANGED),
        (Stored(V2, LockFile("old", 0, expired=True)), Sight.OTHER),
    ):
        assert sight(stored, expected=V1, attempts=[attempt()], released=body) is expected
    assert sight(Stored(V2, body), expected=V1, attempts=[]) is Sight.OTHER


def test_released_body_keeps_owner_time_and_fence():
    """RFC-91, H21: only `expired` and the nonce change."""
    assert LIVE.freed("r") == LockFile("somebody", 1000, expired=True, nonce="r", fence=4)


def test_default_request_timeout():
    """H18: r/3, at most five seconds, never zero."""
    for renew_ns, timeout_ns in ((NS_PER_S, NS_PER_S // 3), (30 * NS_PER_S, 5 * NS_PER_S), (1, 1)):
        assert LeaseTerms.default_request_timeout_ns(renew_ns) == timeout_ns


@pytest.mark.parametrize(
    "change",
    [
        {"renew_interval_ns": 0},
        {"request_timeout_ns": 0},
        {"margin_ns": -1},
        {"buffer_ns": -1},
        {"margin_ns": 9 * NS_PER_S},
    ],
)
def test_impossible_terms_are_refused(change):
    """A lease must outlast its first renewal, and durations must make sense."""
    terms = {name: getattr(TERMS, name) for name in TERMS.__slots__}
    with pytest.raises(ConfigError):
        LeaseTerms(**{**terms, **change})


@pytest.mark.parametrize(
    ("record", "own_past", "past"),
    [
        (None, False, False),
        (LockFile("somebody", 900, expired=False, nonce="older", fence=4), True, True),
        (LockFile("somebody", 900, expired=True, nonce="older", fence=4), False, False),
        (LockFile("other", 900, expired=False, nonce="older", fence=4), False, False),
        (LockFile("other", 900, expired=True, nonce="older", fence=3), False, True),
        (LockFile("other", 900, expired=False, nonce="newer", fence=5), False, False),
        (LockFile("hudi", 900, expired=False), False, False),
    ],
)
def test_lagging_reads_are_told_by_the_fence(record, own_past, past):
    """A8: our own grant's earlier state, or a smaller fence, is the past; without a fence nobody knows."""
    assert is_own_past(record, LIVE) is own_past
    assert is_past(record, LIVE) is past
    assert not is_past(record, LockFile("hudi", 1, expired=False))


@pytest.mark.parametrize(
    ("record", "shows"),
    [
        (None, False),
        (LockFile("other", 900, expired=True, nonce="x", fence=5), False),
        (LockFile("other", 900, expired=False, nonce="x", fence=4), True),
        (LockFile("other", 900, expired=False, nonce="x", fence=3), False),
        (LockFile("somebody", 900, expired=False, nonce="mine", fence=4), False),
        (LockFile("somebody", 900, expired=False, nonce="mine"), False),
        (LockFile("somebody", 900, expired=False, nonce="a twin's", fence=4), True),
        (LockFile("hudi", 900, expired=False), True),
    ],
)
def test_only_a_lease_of_somebody_elses_is_a_reason_to_say_no(record, shows):
    """S7, A8, E33: not what we wrote, whatever its token, nor what is older than we have seen; a twin's record is."""
    assert shows_other(record, written=["mine"], token_max=4) is shows


@pytest.mark.parametrize(("failures", "longest_ms"), [(1, 50), (2, 100), (6, 1_600), (7, 2_000), (100, 2_000)])
def test_pauses_double_up_to_two_seconds(failures, longest_ms):
    """H16: from 50 ms on, and a drawn half of it at least."""
    assert backoff_ns(failures, 1.0) == longest_ms * NS_PER_MS
    assert backoff_ns(failures, 0.5) == longest_ms * NS_PER_MS // 2
