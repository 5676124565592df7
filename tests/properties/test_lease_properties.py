"""What holds for every clock reading and every record."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lockref.locks.decisions import (
    deadline_after,
    decide,
    next_token,
    sight,
)
from lockref.locks.values import Attempt, LeaseTerms, Moment, Sight, Stored, Take, Wait
from lockref.runtime import NS_PER_MS, NS_PER_S, MonoNs, WallNs
from lockref.storage.lockfile import LockFile, parse, parse_strictly_as_hudi, serialize
from lockref.storage.writer import LockFileWriter
from lockref.stores.port import Version

DAY_NS = 86_400 * NS_PER_S
instants = st.integers(0, 2 * DAY_NS)
# Few values, so that ties and equal records occur.
names = st.sampled_from(["me", "you", "they"])
nonces = st.sampled_from([None, "a", "b"])


@st.composite
def terms(draw):
    renew_ns = draw(st.integers(NS_PER_MS, 30 * NS_PER_S))
    margin_ns = draw(st.integers(0, 2 * NS_PER_S))
    return LeaseTerms(
        validity_ns=renew_ns + margin_ns + draw(st.integers(1, 300 * NS_PER_S)),
        renew_interval_ns=renew_ns,
        margin_ns=margin_ns,
        buffer_ns=draw(st.integers(0, 2000)) * NS_PER_MS,
        request_timeout_ns=LeaseTerms.default_request_timeout_ns(renew_ns),
    )


@st.composite
def records(draw):
    return LockFile(
        draw(names), draw(st.integers(0, 2 * 86_400_000)), draw(st.booleans()), draw(nonces),
        draw(st.none() | st.integers(0, 5)),
    )  # fmt: skip


def attempt_at(sent: Moment, limits: LeaseTerms, *, wall_estimate_ns: int | None = None, valid_ms: int | None = None):
    estimate_ns = sent.wall_ns if wall_estimate_ns is None else wall_estimate_ns
    until_ms = LockFileWriter.valid_until_ms(estimate_ns, limits) if valid_ms is None else valid_ms
    return Attempt(
        record=LockFile("me", until_ms, expired=False, nonce="a", fence=1),
        sent=sent,
        deadline=deadline_after(sent, limits),
        wall_estimate_ns=estimate_ns,
        if_version=Version("1"),
    )


@given(terms(), instants, instants, st.integers(0, DAY_NS), st.data())
def test_holder_and_thief_exclude_each_other(limits, wall_ns, mono_ns, elapsed_ns, data):
    """H1, S3, §11: while the thief's clock is at most β + M ahead, taking over implies that the holder has stopped."""
    ahead_ns = data.draw(st.integers(-(2**40), limits.buffer_ns + limits.margin_ns))
    held = attempt_at(Moment(WallNs(wall_ns), MonoNs(mono_ns)), limits)
    now = Moment(WallNs(wall_ns + elapsed_ns), MonoNs(mono_ns + elapsed_ns))
    decision = decide(
        Stored(Version("2"), held.record),
        owner="you",
        own_nonces=[],
        now_wall_ns=WallNs(now.wall_ns + ahead_ns),
        terms=limits,
    )
    if isinstance(decision, Take):
        assert held.deadline.remaining_ns(now) == 0


@given(terms(), instants, instants, st.lists(st.tuples(st.integers(0, 5 * NS_PER_S), st.integers(-DAY_NS, DAY_NS))))
def test_steps_of_the_holders_clock_never_shorten_a_promise(limits, wall_ns, mono_ns, ticks):
    """H19, E31: through any steps of its wall clock, a holder that once had the right time never believes
    beyond what its record promises to somebody whose clock kept the right time."""
    true_offset_ns = wall_ns - mono_ns
    held = attempt_at(Moment(WallNs(wall_ns), MonoNs(mono_ns)), limits)
    for elapsed_ns, step_ns in ticks:
        mono_ns += elapsed_ns
        wall_ns += elapsed_ns + step_ns
        now = Moment(WallNs(wall_ns), MonoNs(mono_ns))
        estimate_ns = LockFileWriter.estimate_wall(held, now, limits)
        until_ms = LockFileWriter.renewed_valid_until_ms(held, estimate_ns, limits)
        assert until_ms >= held.record.valid_until_ms
        held = attempt_at(now, limits, wall_estimate_ns=estimate_ns, valid_ms=until_ms)
        if step_ns < 0 or estimate_ns >= mono_ns + true_offset_ns:
            stops_at_true_ns = held.deadline.mono_ns + true_offset_ns
            slewed_ns = max(0, mono_ns + true_offset_ns - estimate_ns)
            assert stops_at_true_ns + limits.margin_ns <= until_ms * NS_PER_MS + slewed_ns


@given(terms(), records(), instants)
def test_waiting_ends_exactly_when_taking_begins(limits, record, now_ns):
    """H20: after the wait the record may be taken, one nanosecond before it may not."""
    stored = Stored(Version("1"), record)

    def decision_at(wall_ns):
        return decide(stored, owner="me", own_nonces=["a"], now_wall_ns=WallNs(wall_ns), terms=limits)

    decision = decision_at(now_ns)
    if isinstance(decision, Wait):
        assert decision.for_ns > 0
        assert isinstance(decision_at(now_ns + decision.for_ns), Take)
        assert isinstance(decision_at(now_ns + decision.for_ns - 1), Wait)


@given(records() | st.none(), st.integers(0, 10))
def test_fence_always_rises(record, seen):
    """S2, H21: above the stored one and above all that were seen, so the next holder's is above it in turn."""
    fence = next_token(Stored(None, record), seen)
    assert fence > seen
    assert record is None or record.fence is None or fence > record.fence


@given(records(), records(), st.sampled_from(["1", "2"]))
def test_a_look_is_never_taken_for_ours_unless_it_is(written, found, version):
    """H5, S6: OURS and RELEASED_BY_US exactly for the bytes that we wrote."""
    mine = attempt_at(Moment(WallNs(0), MonoNs(0)), LeaseTerms(
        validity_ns=10, renew_interval_ns=1, margin_ns=1, buffer_ns=0, request_timeout_ns=1))  # fmt: skip
    mine = Attempt(record=written, sent=mine.sent, deadline=mine.deadline, wall_estimate_ns=0, if_version=Version("1"))
    body = written.freed("r")
    seen = sight(Stored(Version(version), found), expected=Version("1"), attempts=[mine], released=body)
    assert (seen is Sight.OURS) == (found == written)
    assert (seen is Sight.RELEASED_BY_US) == (found == body)


@given(records())
def test_records_survive_the_wire_and_hudi_reads_them(record):
    """§1: our extra fields come back to us, and Hudi sees a record of its own."""
    assert parse(serialize(record)) == record
    seen = parse_strictly_as_hudi(serialize(record))
    assert (seen.owner, seen.valid_until_ms, seen.expired) == (record.owner, record.valid_until_ms, record.expired)
