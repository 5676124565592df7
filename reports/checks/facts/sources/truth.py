"""Truth: what the services held, whatever their clients heard.

The grants of each lock come from the source of its protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

import numpy as np

from lockref.words import ABSENT, IF_ABSENT, Kind, Op, Outcome
from reports.checks.facts.columns import NO_TEXT, Events, Flags, Ints, Runs
from reports.checks.facts.sources.assignment import Assignment
from reports.checks.facts.sources.calls_alone import CallsAlone
from reports.checks.facts.sources.grants import Changes, Grants, GrantSource, describe_change, joined
from reports.checks.facts.sources.protocols import ASSIGNMENT, CALLS, CHAIN, QUEUE, Locks
from reports.checks.facts.sources.record_chain import RecordChain, are_recorded_by_service
from reports.checks.facts.sources.waiting_queue import WaitingQueue

GRANT_SOURCES: Final[dict[str, Callable[[Flags], GrantSource]]] = {
    CHAIN: RecordChain,
    ASSIGNMENT: Assignment,
    QUEUE: WaitingQueue,
    CALLS: CallsAlone,
}
"""Source by name; each is made for the locks that it shall read."""


class Truth:
    """The grants of all locks of all runs, and for which of them they can be known.

    grants: of every lock, in the order of lock and time. changes: the states that they were read off.
    is_recorded_by_service: per run, the service itself recorded when requests took effect, as a simulated one does.
    """

    def __init__(self, events: Events, runs: Runs) -> None:
        self.events = events
        self.runs = runs
        self.absent_code = events.code_of("if_version", IF_ABSENT)
        self.is_recorded_by_service = are_recorded_by_service(events, runs)
        self._locks = Locks(events, runs)
        sources = [GRANT_SOURCES[name](self._locks.of(name)) for name in self._locks.sources]
        self.grants: Grants = joined(events, [source.grants(events, runs) for source in sources])
        self.changes: Changes = self.grants.changes
        assert bool(np.all(self.lock_groups[self.changes.group])), "a change of what is no lock"

    @property
    def lock_groups(self) -> Flags:
        """Per lock key (run and lock): it is a lock, and no other object. See `protocols.Locks`."""
        return self._locks.are_locks

    @cached_property
    def are_leases(self) -> Flags:
        """Per lock key: the lock keeps a record under compare-and-set, so whoever asks may take it by a write."""
        return self._locks.of(CHAIN) | self._locks.of(CALLS)

    @cached_property
    def are_queues(self) -> Flags:
        """Per lock key: the lock belongs to the first of a queue, whose order is on record."""
        return self._locks.of(QUEUE)

    @property
    def is_on_wire(self) -> Flags:
        """Per run: programs were watched on the wire, so there are requests and no calls."""
        return self._locks.is_on_wire

    @cached_property
    def has_holes(self) -> Flags:
        """Per run: some write replaced what no recorded write had made."""
        holed = np.zeros(self.runs.count, dtype=np.bool_)
        holed[self.changes.run[self.changes.is_hole]] = True
        return holed

    @cached_property
    def is_unsettled(self) -> Flags:
        """Per run: some write does not fit, and the order of the writes that were under way may be why."""
        unsettled = np.zeros(self.runs.count, dtype=np.bool_)
        unsettled[self.changes.run[self.changes.is_unsettled]] = True
        return unsettled

    @cached_property
    def is_endless(self) -> Flags:
        """Per run: some grants lapse by themselves, and nothing tells when any of them does."""
        grants = self.grants
        endless = np.zeros(self.runs.count, dtype=np.bool_)
        endless[grants.run[grants.lapses]] = True
        endless[grants.run[grants.lapses & (grants.valid_until_true_ns != ABSENT)]] = False
        return endless

    def describe(self, position: int) -> dict[str, Any]:
        """The change at this position, for a witness."""
        return describe_change(self.events, self.changes, position)

    def may_hide(self, group: Ints, after: Ints, until: Ints) -> Flags:
        """Per question: an unrecorded client may have written the lock `group` between two of its changes.

        after, until: positions in `changes`, the later one included; `until` -1: to the end of the run. What follows
        the last change on record cannot show a hole, so there any hole of the lock counts: a writer whom nobody
        recorded is at work.
        """
        changes = self.changes
        holes = np.concatenate(([0], np.cumsum(changes.is_hole)))
        start, stop = (np.searchsorted(changes.group, group, side=side) for side in ("left", "right"))
        first = np.where(until < 0, start, after + 1)
        last = np.where(until < 0, stop, until + 1)
        assert bool(np.all(first <= last)), "a stretch of changes ends before it begins"
        found: Flags = holes[last] > holes[first]
        return found

    @cached_property
    def is_readable(self) -> Flags:
        """Per run: some state of a lock could be decoded, or there was none and nothing was granted.

        Where it is not, the clauses about owners and tokens do not apply.
        """
        events = self.events
        readable = np.ones(self.runs.count, dtype=np.bool_)
        returns = events.rows(Kind.RETURN)
        granted = (events.numbers("outcome")[returns] == Outcome.APPLIED) & (
            events.numbers("op")[returns] == Op.ACQUIRE
        )
        readable[events.run[returns[granted]]] = False
        readable[self.changes.run] = False
        readable[self.changes.run[self.changes.owner != NO_TEXT]] = True
        return readable

    @cached_property
    def _is_hidden(self) -> Flags | None:
        """Per lock key: it shows nothing but its calls; None if there is no such lock."""
        return self._locks.of(CALLS) if CALLS in self._locks.sources else None

    def knows(self, run: Ints, group: Ints) -> Flags:
        """Per question about a lock (run and lock key): its grants can be known."""
        known = self.is_readable[run]
        return known if self._is_hidden is None else known & ~self._is_hidden[group]

    def knows_rows(self, row: Ints) -> Flags:
        """Per event: the grants of its lock can be known."""
        if self._is_hidden is None and self.is_readable.all():
            return np.ones(len(row), dtype=np.bool_)
        run = self.events.run[row]
        return self.is_readable[run] if self._is_hidden is None else self.knows(run, self.events.lock_key[row])
