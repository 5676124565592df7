"""Liveness: is the lock granted again and again, and in time (L1-L6)?

Bounds come from the runs table: validity V, clock bound β, poll interval p,
request timeout q, wait timeout w; all are stretched by 1/(1-ρ), because they
are promised in local seconds. L1, L2, L3 and L6 start when the faults have
ended (F) and do not apply where they never do. L4 and L5 hold always.

Where the record has a hole (a writer that is not on record was at work), a
grant or a release may hide in it: nobody is accused of such a gap or such an orphan, and
the clause is inconclusive.

L1-L3 look at the gaps between a lock's grants (`reports.checks.clauses.gaps`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from lockref.claims import NO_LEASE
from lockref.words import ABSENT, Op, Outcome
from reports.checks.clauses.gaps import are_leaseless, gap_rulings, runs_with
from reports.checks.clauses.loss_notice import check_loss_notices, was_asked
from reports.checks.clauses.waiting import crash_after, over_ns_of, unserved_waits
from reports.checks.facts.bounds import Bounds
from reports.checks.facts.case import Case
from reports.checks.facts.clocks import FOREVER
from reports.checks.facts.columns import Flags, Ints, are_among
from reports.checks.facts.operations import witness_call
from reports.checks.facts.sources.grants import FREED
from reports.checks.facts.taken_anew import taken_anew_ns
from reports.checks.facts.waits import Waits, find_waits, waited_text, witness_wait
from reports.checks.rulings import HOLED, Ruling, Violations

NO_FAULTS_END = "the run's disturbances never end, or nobody said when"
NO_TIMING = "the runs table does not give the timing that the bound is made of"
NOBODY_DIED = "no node crashed"
LEASELESS = "the lock declares that it has no lease: only an operator frees what a dead holder left"
ENDLESS = "no grant has an end of validity, so no holder has a deadline by which it must be told of a loss"
NOTHING_RELEASED = "no grant was released"
CALLS_UNSEEN = "the record is of requests on the wire; which calls failed is not seen there"
NOBODY_TO_TELL = "no client with a grant was asked whether it still held the lock, and no lock claims to report a loss"


def check_liveness(case: Case) -> list[Ruling]:
    """L1 to L6, in order."""
    bounds = Bounds(case)
    over_ns = over_ns_of(case)
    waits = find_waits(case, bounds, over_ns)
    gaps = gap_rulings(case, bounds, waits)
    orphans, hidden_ends = _check_no_orphans(case, bounds)
    losses, hidden_losses = check_loss_notices(case, bounds)
    no_end = [(~bounds.has_end, NO_FAULTS_END)]
    unread = [(~case.truth.is_readable, "the lock's records cannot be decoded, so grants are unknown")]
    untimed = [(~bounds.has_validity, NO_TIMING)]
    return [
        Ruling(
            _with_unread(case, bounds, waits, over_ns, gaps["L1"].violations),
            excused=[*untimed, *no_end],
            undecided=[
                *gaps["L1"].undecided,
                (case.truth.has_holes & ~case.truth.is_readable & bounds.has_validity & bounds.has_end, HOLED),
            ],
        ),
        Ruling(
            gaps["L2"].violations,
            excused=[(_have_no_lease(case), LEASELESS), (~_had_crash(case), NOBODY_DIED), *untimed, *unread, *no_end],
            undecided=gaps["L2"].undecided,
        ),
        Ruling(
            gaps["L3"].violations,
            excused=[(~_had_release(case), NOTHING_RELEASED), (~bounds.has_handover, NO_TIMING), *unread, *no_end],
            undecided=gaps["L3"].undecided,
        ),
        Ruling(
            losses,
            excused=[(~was_asked(case), NOBODY_TO_TELL), (case.truth.is_endless, ENDLESS), *unread],
            undecided=[(hidden_losses, HOLED)],
        ),
        Ruling(_check_calls_end(case, bounds), excused=[(~bounds.has_wait, NO_TIMING)]),
        Ruling(
            orphans,
            excused=[(case.truth.is_on_wire, CALLS_UNSEEN), *untimed, *unread, *no_end],
            undecided=[(hidden_ends, HOLED)],
        ),
    ]


def _have_no_lease(case: Case) -> Flags:
    """Per run: its lock declares no lease, and no record of a grant promises an end."""
    grants = case.truth.grants
    return case.runs.claim(NO_LEASE) & ~runs_with(case, grants.run[grants.valid_until_true_ns != ABSENT])


def _had_crash(case: Case) -> Flags:
    """Per run: a node crashed, so that L2 can be asked."""
    found = np.zeros(case.runs.count, dtype=np.bool_)
    found[case.disturbances.run[case.disturbances.are(frozenset({"crash"}), "begin")]] = True
    return found


def _had_release(case: Case) -> Flags:
    """Per run: a grant was given back or its record deleted, so that L3 can be asked."""
    found = np.zeros(case.runs.count, dtype=np.bool_)
    grants = case.truth.grants
    found[grants.run[are_among(grants.end_kind, FREED)]] = True
    return found


def _with_unread(case: Case, bounds: Bounds, waits: Waits, over_ns: Ints, known: Violations) -> Violations:
    """L1 where records cannot be read: begin and end of each grant are taken from what the calls returned."""
    runs = ~case.truth.has_holes & bounds.has_validity & bounds.has_end
    called = waits.take(np.flatnonzero(runs[waits.run] & (waits.last_call >= 0)))
    called = called.take(~case.truth.knows_rows(case.operations.call_row[called.last_call]))
    bad = (
        list(unserved_waits(case, bounds, called, over_ns=over_ns, since_ns=bounds.outages_end_ns))
        if len(called.run)
        else []
    )
    bad = _longest_each(called, bad)
    which = np.array([wait for wait, _, _ in bad], dtype=np.int64)
    since = np.array([begin for _, begin, _ in bad], dtype=np.int64)
    split = len(known.run)

    def witness(index: int) -> dict[str, Any]:
        if index < split:
            return known.witness(index)
        wait, begin, end = bad[index - split]
        waited = waited_text(case, called, wait, end - begin)
        return {
            "text": f"{waited} while no client had been told that it held the lock",
            "kind": "waited too long",
            "lock": case.events.text("lock", int(called.lock[wait])),
            "node": case.events.text("node", int(called.node[wait])),
            "bound_ns": int(bounds.grant_ns[called.run[wait]]),
            "size_ns": end - begin,
            "interval_ns": [begin, end],
            **witness_wait(case, called, wait),
        }

    run = called.run[which]
    at_ns = np.concatenate((known.at_ns, since + bounds.grant_ns[run]))
    return Violations(clause="L1", run=np.concatenate((known.run, run)), at_ns=at_ns, witness=witness)


def _longest_each(waits: Waits, found: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """One entry for each last call: a call that waited too long, and the wait that it ended, are one violation."""
    longest: dict[int, tuple[int, int, int]] = {}
    for each in found:
        call = int(waits.last_call[each[0]])
        if call not in longest or each[2] - each[1] > longest[call][2] - longest[call][1]:
            longest[call] = each
    return [longest[call] for call in sorted(longest)]


def _check_calls_end(case: Case, bounds: Bounds) -> Violations:
    """L5: every call returns one request timeout after its time; pauses of its process do not count."""
    operations = case.operations
    bound_ns = _call_bound_ns(case, bounds)
    is_open = operations.return_row < 0
    took = np.where(is_open, case.end_ns[operations.run], operations.return_at_ns) - operations.call_at_ns
    slow = np.flatnonzero(~is_open & (took > bound_ns))
    took[slow] = np.minimum(took[slow], _local_ns(case, slow, took[slow]))
    judged = bounds.has_wait[operations.run] & ~(is_open & case.runs.is_cut_off[operations.run])
    suspects = np.flatnonzero(judged & (is_open | (took > bound_ns)))
    late = list(_truly_late(case, bound_ns, suspects, took))
    bad = np.array(late, dtype=np.int64)

    def witness(index: int) -> dict[str, Any]:
        call = int(bad[index])
        who = case.events.text("node", int(operations.node[call]))
        never = bool(is_open[call])
        return {
            "text": f"a call of {who} " + ("never returned" if never else f"took {int(took[call])} ns"),
            "kind": "call never returned" if never else "call took too long",
            "lock": case.events.text("lock", int(operations.lock[call])),
            "request": int(case.events.integers("request")[operations.call_row[call]]),
            "bound_ns": int(bound_ns[call]),
            "size_ns": int(took[call]),
            "calls": [witness_call(case.events, case.operations, call)],
            "interval_ns": [int(operations.call_at_ns[call]), int(operations.call_at_ns[call] + took[call])],
        }

    at = operations.call_at_ns[bad] + bound_ns[bad]
    return Violations(clause="L5", run=operations.run[bad], at_ns=at, witness=witness)


def _call_bound_ns(case: Case, bounds: Bounds) -> Ints:
    """Per operation, how long it may take (L5)."""
    operations = case.operations
    is_release = operations.op == Op.RELEASE
    bound: Ints = np.where(is_release, bounds.release_ns[operations.run], bounds.acquire_ns[operations.run])
    return bound


def _local_ns(case: Case, which: Ints, took: Ints) -> Ints:
    """Per operation of `which`, which returned: its length on the caller's own monotonic clock.

    A frozen machine does not advance that clock. took: the lengths in true time, which count where it is unknown.
    """
    if len(which) == 0:
        return took
    mono, operations = case.events.integers("mono_ns"), case.operations
    begin, end = mono[operations.call_row[which]], mono[operations.return_row[which]]
    known = (begin != ABSENT) & (end != ABSENT)
    return np.where(known, np.where(known, end, 0) - np.where(known, begin, 0), took)


def _truly_late(case: Case, bound_ns: Ints, suspects: Ints, took: Ints) -> Iterator[int]:
    operations, disturbances = case.operations, case.disturbances
    for call in suspects.tolist():
        run, node = int(operations.run[call]), int(operations.node[call])
        if operations.return_row[call] < 0:
            # A call cannot return if its process has crashed, or was paused and never ran on.
            if crash_after(case, call) is None and not disturbances.is_paused_for_good(run, node):
                yield call
            continue
        since, until = int(operations.call_at_ns[call]), int(operations.return_at_ns[call])
        if int(took[call]) - disturbances.paused_ns(run, node, since, until) > int(bound_ns[call]):
            yield call


def _check_no_orphans(case: Case, bounds: Bounds) -> tuple[Violations, Flags]:
    """L6: what a failed acquire left in the store is over one validity after its return (or the end of the faults).

    The violations; and per run, whether some such grant may have ended in time behind a hole in the record.
    """
    grants, operations = case.truth.grants, case.operations
    left = np.flatnonzero(case.call_of_grant >= 0)
    call = case.call_of_grant[left]
    # Without a lease nothing lapses: what an acquire with an unknown outcome left is an operator's to remove.
    unknown = (operations.outcome[call] == Outcome.AMBIGUOUS) & ~case.once(are_leaseless)[left]
    failed = unknown | (operations.outcome[call] == Outcome.REJECTED)
    left, call = left[failed], call[failed]
    run = grants.run[left]
    ended = np.where(grants.end_hi_ns[left] == ABSENT, FOREVER, grants.end_hi_ns[left])
    valid = np.where(grants.valid_until_true_ns[left] == ABSENT, FOREVER, grants.valid_until_true_ns[left])
    over = np.minimum(np.minimum(np.minimum(ended, valid), case.end_ns[run]), taken_anew_ns(case, left))
    since = np.maximum(operations.return_at_ns[call], np.where(bounds.has_end, bounds.faults_end_ns, 0)[run])
    limit = since + bounds.validity_ns[run] + bounds.drift_ns[run]
    long = (over > limit) & bounds.has_end[run] & bounds.has_validity[run]
    is_hidden = long & case.truth.may_hide(grants.group[left], grants.first[left], grants.end[left])
    keep = np.flatnonzero(long & ~is_hidden)
    hidden = runs_with(case, run[is_hidden])
    left, call, over, limit = left[keep], call[keep], over[keep], limit[keep]

    def witness(index: int) -> dict[str, Any]:
        grant = int(left[index])
        return {
            "text": "an acquire that failed left a grant in force beyond one validity",
            "kind": "orphan",
            "size_ns": int(over[index] - limit[index]),
            "calls": [witness_call(case.events, operations, int(call[index]))],
            "writes": [
                case.truth.describe(which)
                for which in sorted({int(grants.first[grant]), int(grants.end[grant])})
                if which >= 0
            ],
            "lock": case.events.text("lock", int(grants.lock[grant])),
            "node": case.events.text("node", int(grants.node[grant])),
            "returned_ns": int(operations.return_at_ns[call[index]]),
            "interval_ns": [int(grants.begin_hi_ns[grant]), int(over[index])],
        }

    return Violations(clause="L6", run=grants.run[left], at_ns=limit, witness=witness), hidden
