"""Departures from the promise: conditions of a run for which its lock was not built, shown beside each violation.

A lock is promised that no two clocks differ by more than β. No lock is promised that a client is never paused: a pause
may outlast the lease, and then only a token that the resource checks stops the late write. The scenario of a user may
set clocks further apart than β, or pause a client for longer than that. The verdict stays what it is, since the user
asked for the clauses. The reader is told which conditions of the run departed from the promise.

All of this is read from the history: each event of a client has its wall clock beside the true time, and each pause has
a begin and an end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from lockref.durations import plain_duration
from lockref.words import ABSENT, Kind
from reports.checks.classes import checks_tokens
from reports.checks.facts.case import Case
from reports.checks.facts.columns import Codes, Flags, Ints, are_among
from reports.checks.facts.segments import rows_of_group
from reports.checks.facts.surroundings.host import host_lateness_ns
from reports.checks.rulings import Ruling, Violations, with_witnesses

CLOCK, CLOCKS_APART, PAUSE = "clock", "clocks apart", "pause"
"""Kinds: one clock is wrong; two are wrong, each by less than β; a holder's pause outlasted its grant."""

ABOUT_THE_STORE: Final = "S1"
"""The clause that no lock can break: only the store decides what it applies."""

READING_NS: Final = 10_000_000
"""In a real run an event reads the true time and then the wall clock. The two may differ by so much for that reason
alone, and by more if the machine stops the thread in between (`host_lateness_ns`)."""

_OWN_CLOCK: Final = (Kind.CALL, Kind.RETURN, Kind.SENT, Kind.REPLIED, Kind.BELIEVED, Kind.DISBELIEVED, Kind.CLOCK)
_FOLLOWS: Final = (Kind.APPLIED, Kind.FAULT)
"""Events whose wall clock is the client's own, and those that a simulation stamps with true time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """One departure of a run from the promise, since `at_ns` (true time).

    off_ns: the size of the departure in nanoseconds; a clock that is ahead is positive. promised_ns: the largest size
    that the promise allows.
    """

    kind: str
    node: str
    at_ns: int
    off_ns: int
    promised_ns: int
    text: str

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "node": self.node,
            "at_ns": self.at_ns,
            "off_ns": self.off_ns,
            "promised_ns": self.promised_ns,
            "text": self.text,
        }


def with_departures(rulings: list[Ruling], case: Case) -> list[Ruling]:
    """The rulings, each witness with the departures before its violation as `beyond_promise`, where there are any."""
    departures = Departures(case)
    return with_witnesses(rulings, lambda violations: _told(violations, departures))


def _told(violations: Violations, departures: Departures) -> Violations:
    def witness(index: int) -> dict[str, Any]:
        found = violations.witness(index)
        run, at_ns = int(violations.run[index]), int(violations.at_ns[index])
        if left := departures.before(run, violations.clause, at_ns):
            found["beyond_promise"] = [each.as_json() for each in left]
        return found

    return replace(violations, witness=witness)


class Departures:
    """The departures of all runs of a case. What is known of all of them is found once, however many are asked for."""

    def __init__(self, case: Case) -> None:
        self._case = case

    @cached_property
    def _late_ns(self) -> Ints:
        return self._case.once(host_lateness_ns)

    @cached_property
    def _checks_tokens(self) -> Flags:
        return checks_tokens(self._case.events, self._case.effects, self._case.runs.count)

    def before(self, run: int, clause: str, until_ns: int) -> list[Departure]:
        """The departures of a run before an instant that can matter to a clause; earliest first.

        run: position in the case. until_ns: true time of the violation.
        """
        # No clock and no pause makes a store apply a write against its condition.
        if clause == ABOUT_THE_STORE:
            return []
        found = _clocks(self._case, run, until_ns, int(self._late_ns[run]))
        # Where the resource checks tokens, it stops what a client writes after a pause.
        if clause == "S4" and not self._checks_tokens[run]:
            found += _pauses(self._case, run, until_ns)
        return sorted(found, key=lambda each: (each.at_ns, each.node))


def _clocks(case: Case, run: int, until_ns: int, late_ns: int) -> list[Departure]:
    """The clients whose wall clock was further from the others than β."""
    beta_ns = int(case.runs.integers("drift_bound_ns")[run])
    # An inferred row of runs has a guessed β. A departure from a guess would name a promise that nobody made.
    if beta_ns == ABSENT or case.runs.table["is_inferred"][run].as_py():
        return []
    events = case.events
    rows = rows_of_group(events.run, run)
    at, wall, kind = (events.integers("at_ns")[rows], events.integers("wall_ns")[rows], events.numbers("kind")[rows])
    known = (wall != ABSENT) & (at <= until_ns)
    own, follows = known & are_among(kind, _OWN_CLOCK), known & are_among(kind, _FOLLOWS)
    node = events.codes("node")[rows]
    clients = np.unique(node[own & are_among(kind, (Kind.CALL, Kind.SENT))]).tolist()
    if not clients:
        return []
    is_simulated = case.runs.texts("world")[run] != "real"
    # A simulation reads both clocks at one instant, so nothing is added there. On a real server the thread may be
    # stopped between the two readings; then the difference is the machine's and no clock's.
    allowed_ns = beta_ns + (0 if is_simulated else max(READING_NS, late_ns))
    own &= np.isin(node, clients)
    # Rows that repeat the last difference of their client tell nothing new. Dropping them keeps the matrix below at
    # clients times *changes* of a clock, not clients times events.
    own &= _is_new(node, wall - at, own)
    times = np.unique(at[own])
    # By client, at each of the times: how far its clock is from true time. Before its first event, as at that event.
    ahead = np.empty((len(clients), len(times)), dtype=np.int64)
    for place, client in enumerate(clients):
        mine = np.flatnonzero(own & (node == client))
        last = np.searchsorted(at[mine], times, side="right") - 1
        ahead[place] = (wall - at)[mine[np.maximum(last, 0)]]
    agreed = ahead
    if is_simulated and follows.any():
        true = (wall - at)[np.flatnonzero(follows)[0]]
        agreed = np.vstack((ahead, np.full(len(times), true, dtype=np.int64)))
    # The median of the clocks, with true time as one of them where it is known. A single wrong clock cannot move it.
    shown = np.sort(agreed, axis=0)[(len(agreed) - 1) // 2]
    # Rejected: the mean, which one clock that is an hour off moves for all others; and true time alone, which a real
    # run does not know.
    off = ahead - shown
    found = []
    for place, client in enumerate(clients):
        beyond = np.flatnonzero(np.abs(off[place]) > allowed_ns)
        if len(beyond):
            worst = int(off[place][beyond[np.argmax(np.abs(off[place][beyond]))]])
            found.append(_clock(CLOCK, events.text("node", client), "", int(times[beyond[0]]), worst, beta_ns))
    spread = ahead.max(axis=0) - ahead.min(axis=0)
    apart = np.flatnonzero(spread > allowed_ns)
    if not found and len(apart):
        worst_at = int(apart[np.argmax(spread[apart])])
        first = events.text("node", clients[int(np.argmax(ahead[:, worst_at]))])
        last_one = events.text("node", clients[int(np.argmin(ahead[:, worst_at]))])
        found.append(_clock(CLOCKS_APART, first, last_one, int(times[apart[0]]), int(spread[worst_at]), beta_ns))
    return found


def _is_new(node: Codes, ahead: Ints, chosen: Flags) -> Flags:
    """True for a chosen event whose clock differs from true time otherwise than at the previous event of its client.

    Only these events are needed: between two of them the difference stays the same.
    """
    rows = np.flatnonzero(chosen)
    order = rows[np.argsort(node[rows], kind="stable")]
    new = np.zeros(len(node), dtype=np.bool_)
    if len(order):
        new[order[0]] = True
        new[order[1:]] = (node[order[1:]] != node[order[:-1]]) | (ahead[order[1:]] != ahead[order[:-1]])
    return new


def _clock(kind: str, node: str, other: str, at_ns: int, off_ns: int, beta_ns: int) -> Departure:
    side = "ahead" if off_ns > 0 else "behind"
    than = f" of {other}'s" if other else ""
    off, beta = plain_duration(abs(off_ns)), plain_duration(beta_ns)
    text = f"{node}'s clock is {off} {side}{than}; the lock is promised {beta}"
    return Departure(kind=kind, node=node, at_ns=at_ns, off_ns=off_ns, promised_ns=beta_ns, text=text)


def _pauses(case: Case, run: int, until_ns: int) -> list[Departure]:
    """The pauses that outlasted the grant in which they began. No token can stop the client's write afterwards."""
    grants, events = case.truth.grants, case.events
    mine = np.flatnonzero(grants.run == run)
    shows = bool(np.any(events.integers("token")[rows_of_group(events.run, run)] != ABSENT))
    why = "the resource checks no tokens" if shows else "the lock shows no token that the resource could check"
    longest: dict[str, Departure] = {}
    for node, begin_ns, end_ns in case.disturbances.pauses.get(run, ()):
        if begin_ns > until_ns:
            continue
        # `begin_lo` and `end_hi`: the widest interval in which the grant can have stood. In doubt one departure too
        # many is told, in favour of the lock.
        held = mine[(grants.node[mine] == node) & (grants.begin_lo_ns[mine] <= begin_ns)]
        held = held[(grants.end_hi_ns[held] == ABSENT) | (grants.end_hi_ns[held] >= begin_ns)]
        ends = grants.valid_until_true_ns[held]
        # A pause that ends within the lease departs from nothing: leases exist to outlast it.
        ends = ends[(ends != ABSENT) & (ends >= begin_ns) & (ends < end_ns)]
        if not len(ends):
            continue
        left_ns, name = int(ends.max()) - begin_ns, events.text("node", node)
        length_ns = min(end_ns, int(case.end_ns[run])) - begin_ns
        text = (
            f"{name} was paused for {plain_duration(length_ns)} "
            f"with {plain_duration(left_ns)} of its lease left, and {why}; "
            "only a token stops what it writes then"
        )
        if name not in longest or longest[name].off_ns < length_ns:
            longest[name] = Departure(
                kind=PAUSE, node=name, at_ns=begin_ns, off_ns=length_ns, promised_ns=left_ns, text=text
            )
    return list(longest.values())
