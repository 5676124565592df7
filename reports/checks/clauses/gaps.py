"""The gaps between a lock's grants, and who waited too long in them (L1-L3).

Most gaps are shorter than the shortest bound; only the long ones are compared with the waits of clients
(`reports.checks.facts.waits`). Waits with pauses are judged by longer bounds. So that each bound needs one search
only, pauses are rounded up to powers of two.

Where the record has a hole (a writer that is not on record was at work), a grant or a release may hide in it: nobody
is accused of such a gap, and the clause is inconclusive. Where something that is no lock record stood for a time, which
no lock may take over (D6), short calls end in errors rightly; then calls are not joined.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from lockref.claims import NO_LEASE
from lockref.words import ABSENT, Kind, Op, Outcome
from reports.checks.clauses.waiting import crash_after
from reports.checks.facts.bounds import Bounds
from reports.checks.facts.case import Case
from reports.checks.facts.clocks import FOREVER, rate_allowance
from reports.checks.facts.columns import Flags, Ints, are_among, is_first
from reports.checks.facts.reentrancy import are_inner, grant_left
from reports.checks.facts.segments import renumber
from reports.checks.facts.sources.grants import DELETED, FREED, LIVE, RELEASED
from reports.checks.facts.taken_anew import entered_row
from reports.checks.facts.waits import Waits, allowances_ns, waited_text, witness_wait
from reports.checks.promised import Departures
from reports.checks.rulings import HOLED, Ruling, Violations

UNHEARD: Final = (
    "a wait was too long, and a client whose acquire has an unknown outcome may be why: it may have been given the "
    "lock, and nobody recorded the end of its session"
)
"""Why a clause is inconclusive about a wait that only a client with an unknown acquire explains."""


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
    # Nobody but an operator can free what an acquire with an unknown outcome left, where nothing lapses.
    over &= ~(case.once(are_leaseless)[failed] & (operations.outcome[call] == Outcome.AMBIGUOUS))
    until[failed[over]] = operations.return_at_ns[call[over]]
    given_back = grant_left(operations, case.tenure_of_release)
    releases = np.flatnonzero((given_back >= 0) & (operations.return_row >= 0))
    inner = are_inner(operations, case.tenure_of_release, releases, row_count=case.events.count)
    outer = releases[~inner]
    outer = outer[operations.call_row[outer] > last_entered[given_back[outer]]]
    # An unlock that raised has said that the record may stand: without a lease it is an operator's to remove.
    outer = outer[~case.once(are_leaseless)[given_back[outer]] | (operations.outcome[outer] == Outcome.APPLIED)]
    until[given_back[outer]] = operations.return_at_ns[outer]
    return until


def are_leaseless(case: Case) -> Flags:
    """Per grant: its lock declares that it has no lease, and its record promises no end."""
    grants, declared = case.truth.grants, case.runs.claim(NO_LEASE)
    if not declared.any():
        return np.zeros(len(grants.run), dtype=np.bool_)
    leaseless: Flags = declared[grants.run] & (grants.valid_until_true_ns == ABSENT)
    return leaseless


def _died_ns(case: Case) -> Ints:
    """Per grant: when its holder's process ended for the first time after the grant began; FOREVER if it did not."""
    grants, disturbances = case.truth.grants, case.disturbances
    crashes = np.flatnonzero(disturbances.are(frozenset({"crash"}), "begin"))
    died = np.full(len(grants.first), FOREVER, dtype=np.int64)
    if len(crashes) == 0 or len(died) == 0:
        return died
    split = len(crashes)
    home, _ = renumber(
        np.concatenate((disturbances.run[crashes], grants.run)),
        np.concatenate((disturbances.node[crashes], grants.node)).astype(np.int64),
    )
    instants, rank = np.unique(np.concatenate((disturbances.at_ns[crashes], grants.begin_lo_ns)), return_inverse=True)
    key = home * len(instants) + rank.reshape(-1)
    order = np.argsort(key[:split], kind="stable")
    place = np.minimum(np.searchsorted(key[:split][order], key[split:]), split - 1)
    following = order[place]
    hit = (key[:split][following] >= key[split:]) & (home[:split][following] == home[split:])
    died[hit] = disturbances.at_ns[crashes[following[hit]]]
    return died


def _kept_ns(case: Case, bounds: Bounds, died: Ints) -> Ints:
    """Per grant of a lease: until when its holder kept it alive, if its client did not give it up before.

    A holder keeps a lease by renewing it. Where a record promises more than the run's validity, or has no end at all,
    its holder need not write: it keeps its grant while it works under it.
    """
    grants, operations = case.truth.grants, case.operations
    if len(grants.first) == 0:
        return grants.first
    written = case.truth.changes.at_hi_ns[grants.last]
    works = np.zeros(len(written), dtype=np.bool_)
    works[operations.grant[operations.grant >= 0]] = True
    works |= case.once(are_leaseless)
    valid = np.where(grants.valid_until_true_ns == ABSENT, FOREVER, grants.valid_until_true_ns)
    promised = np.where(valid >= FOREVER, FOREVER, valid - bounds.validity_ns[grants.run])
    kept: Ints = np.where(works, np.maximum(written, np.minimum(promised, died)), written)
    return kept


class _Gaps:
    """The times between grants of each lock, the one before the first grant included.

    grant: the one before the gap, -1 for none. quiet_ns: since when nobody kept that grant alive. free_ns: since when
    the lock may be taken. until_ns: the next grant, or the run's end.
    is_holed: a writer whom nobody recorded may have written in the gap. written_ns: the last write on record for the
    grant before; in a holed gap anything may have happened since. is_unread: something that is no lock record stood
    there for a time. is_lease: the lock is taken by a write, and is not handed out by a service. died_ns, abandoned_ns:
    when the process of the grant before ended, and when its client gave it up; FOREVER for never.
    """

    def __init__(self, case: Case, bounds: Bounds, waits: Waits) -> None:
        truth = case.truth
        grants, changes = truth.grants, truth.changes
        groups, at = np.unique(waits.group, return_index=True)
        first_run = waits.run[at]
        count = len(grants.first)
        released = are_among(grants.end_kind, FREED)
        drift, allowance = bounds.drift_ns[grants.run], bounds.validity_ns[grants.run]
        valid = np.where(grants.valid_until_true_ns == ABSENT, FOREVER, grants.valid_until_true_ns)
        span = np.where(valid >= FOREVER, 0, valid - grants.begin_lo_ns)
        # What a dead holder left is an operator's to remove where the lock has no lease, and says so.
        abandoned, died = _abandoned_ns(case), np.where(case.once(are_leaseless), FOREVER, _died_ns(case))
        kept = _kept_ns(case, bounds, died)
        given_up = np.minimum(np.minimum(abandoned, np.where(grants.lapses, kept, FOREVER)), FOREVER - allowance)
        # Twice β: the holder's clock may be behind by β when it stamps, and the waiter's by β when it compares.
        lapse = np.minimum(valid, given_up + allowance) + 2 * drift + rate_allowance(truth.runs, grants.run, span)
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
        alive = np.where(grants.lapses, kept, valid)
        # L2 counts from the silence where a waiter watches the record, L3 from the end of the validity. Both columns
        # are kept, so that one table of gaps serves all three clauses and none of them disagrees about what a gap is.
        quiet = np.where(released, ended, np.where(blocked, FOREVER, np.minimum(alive, abandoned)))
        free = np.where(released, ended, np.where(blocked, FOREVER, lapse))
        self.quiet_ns = np.concatenate((quiet, zeros, none))
        self.free_ns = np.concatenate((free, zeros, none))
        self.until_ns = np.concatenate((until, grants.begin_lo_ns[starts], case.end_ns[first_run[never]]))
        self.written_ns = np.concatenate((last_write, zeros, none))
        self.died_ns = np.concatenate((died, zeros + FOREVER, none + FOREVER))
        self.abandoned_ns = np.concatenate((abandoned, zeros + FOREVER, none + FOREVER))
        self.is_lease = truth.are_leases[self.group]
        before = np.searchsorted(changes.group, granted_groups) - 1
        next_write = np.where(following >= 0, grants.first[np.maximum(following, 0)], -1) if count else grants.first
        assert len({len(column) for column in (self.group, self.run, self.grant, self.free_ns, self.until_ns)}) == 1
        after = np.concatenate((grants.last, before, none - 1))
        until_write = np.concatenate((next_write, grants.first[starts], none - 1))
        # A hole never accuses: the unrecorded writer may have granted and released in it. It makes the gap undecided,
        # since it must not acquit either.
        self.is_holed = truth.may_hide(self.group, after, until_write)
        self.is_unread = self._are_unread(case, self.group, after, until_write)

    @staticmethod
    def _are_unread(case: Case, group: Ints, after: Ints, until: Ints) -> Flags:
        """Per gap: between two changes of its lock something stood there that is no lock record."""
        changes = case.truth.changes
        strange = np.concatenate(([0], np.cumsum(~are_among(changes.state, (LIVE, RELEASED, DELETED)))))
        start, stop = (np.searchsorted(changes.group, group, side=side) for side in ("left", "right"))
        found: Flags = strange[np.where(until < 0, stop, until)] > strange[np.maximum(start, after + 1)]
        return found

    @staticmethod
    def _is_blocked(case: Case) -> Flags:
        """Per grant: followed by something that is no lock record, which no lock may take over (D6)."""
        changes, grants = case.truth.changes, case.truth.grants
        state = changes.state[np.maximum(grants.end, 0)] if len(grants.end) else grants.end
        blocked: Flags = (grants.end >= 0) & ~are_among(state, (LIVE, RELEASED, DELETED))
        return blocked


def runs_with(case: Case, run: Ints) -> Flags:
    """Per run of the case: it is among these."""
    flags = np.zeros(case.runs.count, dtype=np.bool_)
    flags[run] = True
    return flags


def gap_rulings(case: Case, bounds: Bounds, waits: Waits) -> dict[str, Ruling]:
    """L1 to L3: the gaps that were too long. Where the record has a hole, a gap may be too long without showing it."""
    gaps = _Gaps(case, bounds, waits)
    # A lease outlives its holder by its validity, whoever else ends. What a service hands out hangs on its sessions.
    faults_end = np.where(gaps.is_lease, bounds.outages_end_ns[gaps.run], bounds.faults_end_ns[gaps.run])
    died = gaps.died_ns <= gaps.until_ns
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
    gone = _Departures(case)
    # Who died has ended its session. Of the others that left unheard nobody knows: they leave a long wait undecided.
    since_deaths = {
        clause: _once_sessions_ended(bounds, gaps, since[clause], limit[clause], gone.by_death) for clause in since
    }
    since = {clause: _once_sessions_ended(bounds, gaps, since[clause], limit[clause], gone.unheard) for clause in since}
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
        asked = known & ~gaps.is_holed
        found = _long_waits(bounds, gaps, waits, since[clause], limit[clause], asked)
        if clause == "L3":
            found = {
                gap: wait
                for gap, wait in found.items()
                if not _could_not_see(case, bounds, gaps, waits, gap, int(since[clause][gap]), wait)
            }
        moved = asked & (since_deaths[clause] != since[clause])
        doubted = _long_waits(bounds, gaps, waits, since_deaths[clause], limit[clause], moved)
        rulings[clause] = Ruling(
            _accused(case, bounds, gaps, waits, clause, since[clause], limit[clause], found),
            undecided=[
                (runs_with(case, gaps.run[hidden & gaps.is_holed & (waited > limit[clause])]), HOLED),
                (runs_with(case, gaps.run[np.array(sorted(doubted), dtype=np.int64)]), UNHEARD),
            ],
        )
    return rulings


def _once_sessions_ended(
    bounds: Bounds, gaps: _Gaps, since: Ints, limit: Ints, departures: Mapping[int, Sequence[int]]
) -> Ints:
    """Per gap, since when waiting counts: as given, or since the session of a client ended that may have been chosen.

    departures: by lock key, when such clients left, ascending. A service that hands a lock out chooses a client before
    that client says that it has the lock. The chosen client may leave in between, unheard by anybody. Then no grant is
    on record, and nobody else gets the lock before the session is over. Whoever left after the bound excuses nothing.
    """
    handed_out = np.flatnonzero(~gaps.is_lease & bounds.has_validity[gaps.run] & (gaps.until_ns - since > limit))
    if len(handed_out) == 0 or not departures:
        return since
    found = since.copy()
    for gap in handed_out.tolist():
        run, instants = int(gaps.run[gap]), departures.get(int(gaps.group[gap]), [])
        lasting_ns = int(bounds.validity_ns[run]) + 2 * int(bounds.drift_ns[run])
        # Only the clients whose sessions reach into the gap are looked at: a lock may have many gaps and many of them.
        for departed_ns in instants[bisect_left(instants, int(since[gap]) - lasting_ns) :]:
            if departed_ns <= found[gap] + limit[gap]:
                found[gap] = max(int(found[gap]), departed_ns + lasting_ns)
            else:
                break
    return found


class _Departures:
    """When clients left that may have been chosen, of locks that a service hands out: by lock key, ascending.

    Such a client died in an acquire, or its acquire ended with an unknown outcome: nobody confirmed that its session
    ended. Nobody knows whom a controller chose. In a queue the order is on record: whoever stood first had the lock on
    record. So there only a client may have been chosen whose request to join has no answer, in a real run.

    unheard: all of them. by_death: those that died, so that their sessions ended.
    """

    def __init__(self, case: Case) -> None:
        self.unheard: dict[int, list[int]] = {}
        self.by_death: dict[int, list[int]] = {}
        operations, events, truth = case.operations, case.events, case.truth
        group = events.lock_key[operations.call_row]
        unheard = (operations.return_row < 0) | (operations.outcome == Outcome.AMBIGUOUS)
        asked = np.flatnonzero((operations.op == Op.ACQUIRE) & unheard & ~truth.are_leases[group])
        if len(asked) == 0:
            return
        joining = _unanswered_joins(case)
        for call in asked.tolist():
            returned = int(operations.return_row[call]) >= 0
            departed_ns = int(operations.return_at_ns[call]) if returned else crash_after(case, call)
            if departed_ns is None:
                continue
            if truth.are_queues[group[call]]:
                own = events.lock_key[joining] == group[call]
                own &= events.codes("node")[joining] == operations.node[call]
                own &= (joining > operations.call_row[call]) & (events.integers("at_ns")[joining] <= departed_ns)
                if not own.any():
                    continue
            for kept in (self.unheard,) if returned else (self.unheard, self.by_death):
                kept.setdefault(int(group[call]), []).append(departed_ns)
        for kept in (self.unheard, self.by_death):
            for instants in kept.values():
                instants.sort()


def _unanswered_joins(case: Case) -> Ints:
    """The rows of requests to join a queue that may have taken effect, while no row tells whether they did."""
    events, truth = case.events, case.truth
    sent = events.rows(Kind.SENT)
    sent = sent[truth.are_queues[events.lock_key[sent]] & ~truth.is_recorded_by_service[events.run[sent]]]
    sent = sent[np.isin(events.numbers("op")[sent], (Op.ACQUIRE, Op.WRITE))]
    answer = events.replied_by_request[events.request_keys(sent)]
    is_unknown = (answer < 0) | (events.numbers("outcome")[np.maximum(answer, 0)] == Outcome.AMBIGUOUS)
    found: Ints = sent[is_unknown]
    return found


Found = dict[int, tuple[int, int, int]]
"""By gap: the wait that was too long, for how long it lasted, and what it was allowed."""


def _long_waits(bounds: Bounds, gaps: _Gaps, waits: Waits, since: Ints, limit: Ints, judged: Flags) -> Found:
    """The gaps during which some live client waited longer than the limit, each with its longest such wait."""
    found: Found = {}
    # Most histories end here: a gap that is not longer than the limit can hold no wait that is.
    if not bool(np.any(judged & (gaps.until_ns - since > limit))):
        return found
    allowed = allowances_ns(bounds, waits)
    is_joined = waits.calls > 1
    for joined in (False, True):
        asked = judged & ~gaps.is_unread if joined else judged
        for extra in np.unique(allowed[is_joined == joined]).tolist():
            chosen = np.flatnonzero((is_joined == joined) & (allowed == extra))
            bound = limit + extra
            for gap, wait, waited in _longest_waits(gaps, waits, chosen, since, bound, asked):
                if gap not in found or waited > found[gap][1]:
                    found[gap] = (wait, waited, int(bound[gap]))
    return found


def _longest_waits(
    gaps: _Gaps, waits: Waits, chosen: Ints, since: Ints, limit: Ints, judged: Flags
) -> Iterator[tuple[int, int, int]]:
    """(gap, wait, how long) where one of the chosen waits lasted longer than the limit in a gap: the longest one."""
    long_gaps = np.flatnonzero(judged & (gaps.until_ns - since > limit))
    if len(long_gaps) == 0:
        return
    order = chosen[np.lexsort((waits.begin_ns[chosen], waits.group[chosen]))]
    keys, begin, over = waits.group[order], waits.begin_ns[order], waits.over_ns[order]
    waiting: dict[int, tuple[Ints, Ints]] = {}
    for gap in long_gaps.tolist():
        start, stop = (int(np.searchsorted(keys, gaps.group[gap], side=side)) for side in ("left", "right"))
        free, until = int(since[gap]), int(gaps.until_ns[gap])
        # Only the longest of the waits from before the gap matters. Each wait that began in the
        # gap is looked at: gaps of a lock do not overlap, so no wait is looked at twice.
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
            yield gap, int(order[longest]), waited


def _could_not_see(
    case: Case, bounds: Bounds, gaps: _Gaps, waits: Waits, gap: int, since_ns: int, found: tuple[int, int, int]
) -> bool:
    """True if a clock beyond the promise hid a release from a waiter, who was granted the lock in time after seeing it.

    Only a clock shows a waiter that a stamp has passed. A release by stamp is promised to be one on every clock within
    β. So where a clock departs from that, the waiter's bound counts from when the stamp had passed on the waiter's own
    clock, and β more, which a careful waiter adds. A record that says "released" needs no clock, and neither does L3.
    """
    events, changes, grants = case.events, case.truth.changes, case.truth.grants
    wait, waited_ns, bound_ns = found
    grant, call = int(gaps.grant[gap]), int(waits.last_call[wait])
    if grant < 0 or call < 0 or changes.state[grants.end[grant]] != RELEASED:
        return False
    row, call_row = int(changes.row[grants.end[grant]]), int(case.operations.call_row[call])
    stamp_ns, wall_ns = int(events.integers("valid_until_ns")[row]), int(events.integers("wall_ns")[call_row])
    if events.numbers("op")[row] == Op.RELEASE or ABSENT in (stamp_ns, wall_ns):
        return False
    # In a simulation, as in a real run, a row has true time and the client's own clock side by side.
    ahead_ns, run = wall_ns - int(events.integers("at_ns")[call_row]), int(gaps.run[gap])
    seen_ns = stamp_ns - ahead_ns + int(bounds.drift_ns[run])
    late_ns = seen_ns - max(since_ns, int(waits.begin_ns[wait]))
    if late_ns <= 0 or waited_ns - late_ns > bound_ns:
        return False
    return bool(Departures(case).before(run, "L3", int(gaps.until_ns[gap])))


def _latest_so_far(over: Ints) -> tuple[Ints, Ints]:
    """Per wait for one lock, in the order of their beginnings: the latest end of all up to here, and whose it is."""
    latest: Ints = np.maximum.accumulate(over)
    is_new = np.concatenate(([True], over[1:] > latest[:-1]))
    who: Ints = np.maximum.accumulate(np.where(is_new, np.arange(len(over)), 0))
    assert bool(np.all(over[who] == latest)), "the latest end is that of a wait"
    return latest, who


def _accused(
    case: Case, bounds: Bounds, gaps: _Gaps, waits: Waits, clause: str, since: Ints, limit: Ints, found: Found
) -> Violations:
    """One violation per gap that was found."""
    where = np.array(sorted(found), dtype=np.int64)

    def witness(index: int) -> dict[str, Any]:
        gap = int(where[index])
        wait, waited, bound = found[gap]
        stands = _standing(case, gaps, gap)
        because = _short_lives(bounds, gaps, waits, gap, int(since[gap]), int(since[gap]) + bound)
        told: dict[str, Any] = {
            "text": f"{waited_text(case, waits, wait, waited)} while nobody was granted the lock{_blamed(stands)}",
            "kind": "waited too long",
            "lock": case.events.text("lock", int(waits.lock[wait])),
            "node": case.events.text("node", int(waits.node[wait])),
            "bound_ns": bound,
            "size_ns": waited,
            "interval_ns": [int(since[gap]), int(gaps.until_ns[gap])],
            **witness_wait(case, waits, wait),
        }
        return told | ({"stands": stands} if stands else {}) | ({"because": because} if because else {})

    return Violations(clause=clause, run=gaps.run[where], at_ns=since[where] + limit[where], witness=witness)


def _standing(case: Case, gaps: _Gaps, gap: int) -> dict[str, Any] | None:
    """The record that stood in the way during a gap, for a witness; None if the lock was given back, or was new."""
    grant = int(gaps.grant[gap])
    if grant < 0 or gaps.is_released[gap]:
        return None
    truth = case.truth
    died, abandoned = int(gaps.died_ns[gap]), int(gaps.abandoned_ns[gap])
    return {
        **truth.describe(int(truth.grants.last[grant])),
        "granted_ns": int(truth.grants.begin_hi_ns[grant]),
        "crashed_ns": died if died <= gaps.until_ns[gap] else None,
        "given_up_ns": abandoned if abandoned <= gaps.until_ns[gap] else None,
    }


def _blamed(stands: dict[str, Any] | None) -> str:
    if stands is None:
        return ""
    who = stands["node"]
    if stands["crashed_ns"] is not None:
        return f": the record of {who}, whose process had ended, stood in the way"
    if stands["given_up_ns"] is not None:
        return f": the record of {who}, which no longer used it, stood in the way"
    return f": the record of {who} stood in the way"


def _short_lives(bounds: Bounds, gaps: _Gaps, waits: Waits, gap: int, since_ns: int, until_ns: int) -> str:
    """The note that no client watched the record for as long as a take-over demands; empty if one did, or need not.

    until_ns: when the bound was over.
    """
    watch = int(bounds.watch_ns[gaps.run[gap]])
    there = (waits.group == gaps.group[gap]) & (waits.over_ns > since_ns) & (waits.begin_ns < until_ns)
    there &= waits.processes == 1
    if not watch or not there.any():
        return ""
    lasted = np.minimum(waits.over_ns, until_ns) - np.maximum(waits.begin_ns, since_ns)
    needed = f"a waiter must see the record unchanged for {watch} ns"
    life = int(lasted[there].max())
    if life < watch:
        return f"no waiter lived as long as the lease: {needed}, and no process waited longer than {life} ns"
    call = int(lasted[there & (waits.calls <= 1)].max(initial=0))
    if call < watch:
        return f"no call lasted as long as the lease: {needed}, and no call waited longer than {call} ns"
    return ""
