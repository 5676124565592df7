"""Liveness: is the lock granted again and again, and in time (L1-L6)?

Bounds come from the runs table: validity V, clock bound β, poll interval p,
request timeout q, wait timeout w; all are stretched by 1/(1-ρ), because they
are promised in local seconds. L1, L2, L3 and L6 start when the faults have
ended (F) and do not apply where they never do. L4 and L5 hold always.

Where the record has a hole (a writer that is not on record was at work), a
grant or a release may hide in it: nobody is accused of such a gap or such an orphan, and
the clause is inconclusive.

L1-L3 look at the gaps between a lock's grants. Most gaps are shorter than the
shortest bound; only the long ones are compared with the calls that waited.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from lockref.words import ABSENT, Op, Outcome
from reports.checks.clauses.loss_notice import check_loss_notices, was_asked
from reports.checks.clauses.waiting import crash_after, unserved_waits
from reports.checks.facts.bounds import Bounds
from reports.checks.facts.case import Case
from reports.checks.facts.clocks import FOREVER, rate_allowance
from reports.checks.facts.columns import Flags, Ints
from reports.checks.facts.reentrancy import are_inner, grant_left
from reports.checks.facts.segments import is_first, renumber, rows_of_group
from reports.checks.facts.sources.grants import DELETED, END_DELETED, END_RELEASED, LIVE, RELEASED
from reports.checks.facts.taken_anew import entered_row, taken_anew_ns
from reports.checks.facts.waits import Waits, find_waits
from reports.checks.rulings import UNRECORDED, Ruling, Violations

NO_FAULTS_END = "the run's disturbances never end, or nobody said when"
NO_TIMING = "the runs table does not give the timing that the bound is made of"
NOBODY_DIED = "no node crashed"
NOTHING_RELEASED = "no grant was released"
CALLS_UNSEEN = "the record is of requests on the wire; which calls failed is not seen there"
NOBODY_TO_TELL = "no client with a grant was asked whether it still held the lock, and no lock claims to report a loss"


def check_liveness(case: Case) -> list[Ruling]:
    """L1 to L6, in order."""
    bounds = Bounds(case)
    gaps = _gap_rulings(case, bounds)
    orphans, hidden_ends = _check_no_orphans(case, bounds)
    losses, hidden_losses = check_loss_notices(case, bounds)
    no_end = [(~bounds.has_end, NO_FAULTS_END)]
    unread = [(~case.truth.is_readable, "the lock's records cannot be decoded, so grants are unknown")]
    untimed = [(~bounds.has_validity, NO_TIMING)]
    return [
        Ruling(
            _with_unread(case, bounds, gaps["L1"].violations),
            excused=[*untimed, *no_end],
            undecided=[
                *gaps["L1"].undecided,
                (case.truth.has_holes & ~case.truth.is_readable & bounds.has_validity & bounds.has_end, UNRECORDED),
            ],
        ),
        Ruling(
            gaps["L2"].violations,
            excused=[(~_had_crash(case), NOBODY_DIED), *untimed, *unread, *no_end],
            undecided=gaps["L2"].undecided,
        ),
        Ruling(
            gaps["L3"].violations,
            excused=[(~_had_release(case), NOTHING_RELEASED), (~bounds.has_handover, NO_TIMING), *unread, *no_end],
            undecided=gaps["L3"].undecided,
        ),
        Ruling(losses, excused=[(~was_asked(case), NOBODY_TO_TELL), *unread], undecided=[(hidden_losses, UNRECORDED)]),
        Ruling(_check_calls_end(case, bounds), excused=[(~bounds.has_wait, NO_TIMING)]),
        Ruling(
            orphans,
            excused=[(case.truth.is_on_wire, CALLS_UNSEEN), *untimed, *unread, *no_end],
            undecided=[(hidden_ends, UNRECORDED)],
        ),
    ]


def _had_crash(case: Case) -> Flags:
    """Per run: a node crashed, so that L2 can be asked."""
    found = np.zeros(case.runs.count, dtype=np.bool_)
    found[case.disturbances.run[case.disturbances.are(frozenset({"crash"}), "begin")]] = True
    return found


def _had_release(case: Case) -> Flags:
    """Per run: a grant was released or its record deleted, so that L3 can be asked."""
    found = np.zeros(case.runs.count, dtype=np.bool_)
    grants = case.truth.grants
    found[grants.run[(grants.end_kind == END_RELEASED) | (grants.end_kind == END_DELETED)]] = True
    return found


def _abandoned_ns(case: Case) -> Ints:
    """Per grant: when its client was done with it, released or not; FOREVER while the client may still want it.

    A client is done with a granted tenure when its outermost release returns. It is done with what a failed call left
    behind when that call returns. Both hold only if no later call was granted the same grant. (Without tokens a record
    that its owner writes again looks like a renewal, so one grant may serve two calls.)
    """
    grants, operations = case.truth.grants, case.operations
    until = np.full(len(grants.first), FOREVER, dtype=np.int64)
    last_entered = entered_row(case)
    failed = np.flatnonzero(case.call_of_grant >= 0)
    call = case.call_of_grant[failed]
    over = (operations.return_row[call] >= 0) & ~operations.is_granted[call]
    over &= operations.call_row[call] > last_entered[failed]
    until[failed[over]] = operations.return_at_ns[call[over]]
    given_back = grant_left(operations, case.tenure_of_release)
    releases = np.flatnonzero((given_back >= 0) & (operations.return_row >= 0))
    inner = are_inner(operations, case.tenure_of_release, releases, row_count=case.events.count)
    outer = releases[~inner]
    outer = outer[operations.call_row[outer] > last_entered[given_back[outer]]]
    until[given_back[outer]] = operations.return_at_ns[outer]
    return until


class _Gaps:
    """The times between grants of each lock, the one before the first grant included.

    grant: the one before the gap, -1 for none. quiet_ns: since when nobody kept that grant alive. free_ns: since when
    the lock may be taken. until_ns: the next grant, or the run's end.
    is_holed: a writer whom nobody recorded may have written in the gap. written_ns: the last write on record for the
    grant before; in a holed gap anything may have happened since.
    """

    def __init__(self, case: Case, bounds: Bounds, waits: Waits) -> None:
        truth = case.truth
        grants, changes = truth.grants, truth.changes
        groups, at = np.unique(waits.group, return_index=True)
        first_run = waits.run[at]
        count = len(grants.first)
        released = (grants.end_kind == END_RELEASED) | (grants.end_kind == END_DELETED)
        drift, allowance = bounds.drift_ns[grants.run], bounds.validity_ns[grants.run]
        valid = np.where(grants.valid_until_true_ns == ABSENT, FOREVER, grants.valid_until_true_ns)
        span = np.where(valid >= FOREVER, 0, valid - grants.begin_lo_ns)
        abandoned = _abandoned_ns(case)
        given_up = np.minimum(abandoned, FOREVER - allowance) + allowance
        lapse = np.minimum(valid, given_up) + 2 * drift + rate_allowance(truth.runs, grants.run, span)
        last_write = changes.at_hi_ns[grants.last] if count else grants.first
        ended = np.where(released, grants.end_hi_ns, 0)
        starts = is_first(grants.group)
        following = grants.next_same_lock
        begin_next = grants.begin_lo_ns[np.maximum(following, 0)] if count else grants.first
        blocked = self._is_blocked(case)
        until = np.where(following >= 0, begin_next, case.end_ns[grants.run])
        # Before the first grant: since the run began; so also for locks that nobody ever got.
        granted_groups = grants.group[starts]
        never = ~np.isin(groups, granted_groups)
        zeros = np.zeros(int(starts.sum()), dtype=np.int64)
        self.group = np.concatenate((grants.group, granted_groups, groups[never]))
        self.run = np.concatenate((grants.run, grants.run[starts], first_run[never]))
        self.grant = np.concatenate((np.arange(count), zeros - 1, np.full(int(never.sum()), -1)))
        self.is_released = np.concatenate((released, zeros > 0, np.zeros(int(never.sum()), dtype=np.bool_)))
        none = np.zeros(int(never.sum()), dtype=np.int64)
        # A lease is kept by renewing it, a session by being alive.
        kept = np.where(grants.lapses, last_write, valid)
        quiet = np.where(released, ended, np.where(blocked, FOREVER, np.minimum(kept, abandoned)))
        free = np.where(released, ended, np.where(blocked, FOREVER, lapse))
        self.quiet_ns = np.concatenate((quiet, zeros, none))
        self.free_ns = np.concatenate((free, zeros, none))
        self.until_ns = np.concatenate((until, grants.begin_lo_ns[starts], case.end_ns[first_run[never]]))
        self.written_ns = np.concatenate((last_write, zeros, none))
        before = np.searchsorted(changes.group, granted_groups) - 1
        next_write = np.where(following >= 0, grants.first[np.maximum(following, 0)], -1) if count else grants.first
        assert len({len(column) for column in (self.group, self.run, self.grant, self.free_ns, self.until_ns)}) == 1
        self.is_holed = truth.may_hide(
            self.group,
            np.concatenate((grants.last, before, none - 1)),
            np.concatenate((next_write, grants.first[starts], none - 1)),
        )

    @staticmethod
    def _is_blocked(case: Case) -> Flags:
        """Per grant: followed by something that is no lock record, which no lock may take over (D6)."""
        changes, grants = case.truth.changes, case.truth.grants
        state = changes.state[np.maximum(grants.end, 0)] if len(grants.end) else grants.end
        blocked: Flags = (grants.end >= 0) & ~np.isin(state, (LIVE, RELEASED, DELETED))
        return blocked


def _gap_rulings(case: Case, bounds: Bounds) -> dict[str, Ruling]:
    """L1 to L3: the gaps that were too long. Where the record has a hole, a gap may be too long without showing it."""
    waits = find_waits(case, _over_ns(case))
    gaps = _Gaps(case, bounds, waits)
    faults_end = bounds.faults_end_ns[gaps.run]
    died = _holder_died(case, gaps)
    since = {
        "L1": np.maximum(gaps.quiet_ns, faults_end),
        "L2": np.maximum(np.where(bounds.is_watched[gaps.run], gaps.quiet_ns, gaps.free_ns), faults_end),
        "L3": np.maximum(gaps.free_ns, faults_end),
    }
    limit = {
        "L1": bounds.grant_ns[gaps.run],
        "L2": np.where(bounds.is_watched, bounds.grant_ns, bounds.handover_ns)[gaps.run],
        "L3": bounds.handover_ns[gaps.run],
    }
    readable = case.truth.knows(gaps.run, gaps.group)
    judged = {
        "L1": bounds.has_validity[gaps.run] & readable,
        "L2": bounds.has_validity[gaps.run] & died & readable,
        "L3": bounds.has_handover[gaps.run] & gaps.is_released & readable,
    }
    rulings = {}
    for clause, known in judged.items():
        # After a hole the lock may have been given back, or granted, at any time after the last write on record.
        waited = gaps.until_ns - np.maximum(gaps.written_ns, faults_end)
        hidden = known if clause != "L3" else bounds.has_handover[gaps.run] & readable
        rulings[clause] = Ruling(
            _long_waits(case, gaps, waits, clause, since[clause], limit[clause], known & ~gaps.is_holed),
            undecided=[(_runs_with(case, gaps.run[hidden & gaps.is_holed & (waited > limit[clause])]), UNRECORDED)],
        )
    return rulings


def _runs_with(case: Case, run: Ints) -> Flags:
    """Per run of the case: it is among these."""
    flags = np.zeros(case.runs.count, dtype=np.bool_)
    flags[run] = True
    return flags


def _holder_died(case: Case, gaps: _Gaps) -> Flags:
    """Per gap: the node of the grant before it crashed after that grant began and before the gap ended."""
    died = np.zeros(len(gaps.run), dtype=np.bool_)
    grants, disturbances = case.truth.grants, case.disturbances
    crashes = np.flatnonzero(disturbances.are(frozenset({"crash"}), "begin"))
    known = np.flatnonzero(gaps.grant >= 0)
    holder = gaps.grant[known]
    place, _ = renumber(
        np.concatenate((grants.run[holder], disturbances.run[crashes])),
        np.concatenate((grants.node[holder], disturbances.node[crashes])).astype(np.int64),
    )
    split = len(known)
    order = np.argsort(place[:split], kind="stable")
    places = place[:split][order]
    # A crash concerns the grants of its own process alone.
    for number, crash in enumerate(crashes.tolist()):
        at = disturbances.at_ns[crash]
        here = order[rows_of_group(places, int(place[split + number]))]
        hit = (gaps.until_ns[known[here]] >= at) & (grants.begin_lo_ns[holder[here]] <= at)
        died[known[here[hit]]] = True
    return died


def _long_waits(
    case: Case, gaps: _Gaps, waits: Waits, clause: str, since: Ints, limit: Ints, judged: Flags
) -> Violations:
    """One violation per gap during which some live client waited longer than the limit."""
    long_gaps = np.flatnonzero(judged & (gaps.until_ns - since > limit))
    bad: list[tuple[int, int, int]] = []
    if len(long_gaps):
        order = np.lexsort((waits.begin_ns, waits.group))
        keys, begin, over = waits.group[order], waits.begin_ns[order], waits.over_ns[order]
        waiting: dict[int, tuple[Ints, Ints]] = {}
        for gap in long_gaps.tolist():
            start, stop = (int(np.searchsorted(keys, gaps.group[gap], side=side)) for side in ("left", "right"))
            free, until = int(since[gap]), int(gaps.until_ns[gap])
            # Of the calls from before the gap only the one that waits longest matters. Each call that began in the
            # gap is looked at: gaps of a lock do not overlap, so no call is looked at twice.
            first = start + int(np.searchsorted(begin[start:stop], free, side="right"))
            last = start + int(np.searchsorted(begin[start:stop], until - limit[gap]))
            longest, waited = -1, 0
            if first > start:
                if start not in waiting:
                    waiting[start] = _latest_so_far(over[start:stop])
                latest, who = waiting[start]
                longest = start + int(who[first - 1 - start])
                waited = min(int(latest[first - 1 - start]), until) - free
            if last > first:
                spans = np.minimum(over[first:last], until) - begin[first:last]
                if int(spans.max()) > waited:
                    longest, waited = first + int(np.argmax(spans)), int(spans.max())
            if longest >= 0 and waited > limit[gap]:
                bad.append((gap, int(order[longest]), waited))

    def witness(index: int) -> dict[str, Any]:
        gap, wait, waited = bad[index]
        who = case.events.text("node", int(waits.node[wait]))
        return {
            "text": f"{who} waited {waited} ns while nobody held the lock",
            "kind": "waited too long",
            "lock": case.events.text("lock", int(waits.lock[wait])),
            "bound_ns": int(limit[gap]),
            "interval_ns": [int(since[gap]), int(gaps.until_ns[gap])],
        }

    where = np.array([gap for gap, _, _ in bad], dtype=np.int64)
    assert len(np.unique(where)) == len(where), "a gap is reported once"
    return Violations(clause=clause, run=gaps.run[where], at_ns=since[where] + limit[where], witness=witness)


def _latest_so_far(over: Ints) -> tuple[Ints, Ints]:
    """Per acquire of one lock, in the order of calls: the latest end of all up to here, and whose it is."""
    latest: Ints = np.maximum.accumulate(over)
    is_new = np.concatenate(([True], over[1:] > latest[:-1]))
    who: Ints = np.maximum.accumulate(np.where(is_new, np.arange(len(over)), 0))
    assert bool(np.all(over[who] == latest)), "the latest end is that of an acquire"
    return latest, who


def _with_unread(case: Case, bounds: Bounds, known: Violations) -> Violations:
    """L1 where records cannot be read: begin and end of each grant are taken from what the calls returned."""
    operations, faults_end = case.operations, bounds.faults_end_ns
    runs = ~case.truth.has_holes & bounds.has_validity & bounds.has_end
    unknown = runs[operations.run] & ~case.truth.knows_rows(operations.call_row)
    bad = list(
        unserved_waits(case, unknown, over_ns=_over_ns(case), since_ns=faults_end, limit_ns=bounds.grant_ns)
        if unknown.any()
        else ()
    )
    calls = np.array([call for call, _, _ in bad], dtype=np.int64)
    since = np.array([begin for _, begin, _ in bad], dtype=np.int64)
    split = len(known.run)

    def witness(index: int) -> dict[str, Any]:
        if index < split:
            return known.witness(index)
        call, begin, end = bad[index - split]
        who = case.events.text("node", int(operations.node[call]))
        return {
            "text": f"{who} waited {end - begin} ns while no client had been told that it held the lock",
            "kind": "waited too long",
            "lock": case.events.text("lock", int(operations.lock[call])),
            "bound_ns": int(bounds.grant_ns[operations.run[call]]),
            "interval_ns": [begin, end],
        }

    run = operations.run[calls]
    at_ns = np.concatenate((known.at_ns, since + bounds.grant_ns[run]))
    return Violations(clause="L1", run=np.concatenate((known.run, run)), at_ns=at_ns, witness=witness)


def _over_ns(case: Case) -> Ints:
    """Per operation: when it was over: its return, or for an open one its node's crash or the run's end."""
    operations = case.operations
    until = case.end_ns[operations.run].copy()
    open_calls = np.flatnonzero(operations.return_row < 0)
    for call in open_calls.tolist():
        died = crash_after(case, call)
        if died is not None:
            until[call] = died
    over: Ints = np.where(operations.return_row >= 0, operations.return_at_ns, until)
    return over


def _check_calls_end(case: Case, bounds: Bounds) -> Violations:
    """L5: every call returns one request timeout after its time; pauses of its process do not count."""
    operations = case.operations
    bound_ns = _call_bound_ns(case, bounds)
    is_open = operations.return_row < 0
    took = np.where(is_open, case.end_ns[operations.run], operations.return_at_ns) - operations.call_at_ns
    took = np.where(is_open, took, np.minimum(took, _local_ns(case, took)))
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


def _local_ns(case: Case, took: Ints) -> Ints:
    """Per operation, its length on the caller's own monotonic clock, which a frozen machine does not advance."""
    mono, operations = case.events.integers("mono_ns"), case.operations
    begin, end = mono[operations.call_row], mono[np.maximum(operations.return_row, 0)]
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
    failed = (operations.outcome[call] == Outcome.AMBIGUOUS) | (operations.outcome[call] == Outcome.REJECTED)
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
    hidden = _runs_with(case, run[is_hidden])
    left, call, over, limit = left[keep], call[keep], over[keep], limit[keep]

    def witness(index: int) -> dict[str, Any]:
        grant = int(left[index])
        return {
            "text": "an acquire that failed left a grant in force beyond one validity",
            "kind": "orphan",
            "lock": case.events.text("lock", int(grants.lock[grant])),
            "node": case.events.text("node", int(grants.node[grant])),
            "returned_ns": int(operations.return_at_ns[call[index]]),
            "interval_ns": [int(grants.begin_hi_ns[grant]), int(over[index])],
        }

    return Violations(clause="L6", run=grants.run[left], at_ns=limit, witness=witness), hidden
