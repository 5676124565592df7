"""The chain of records: grants read off the writes of a lock's record under compare-and-set.

In a simulation the store records every write at its instant (APPLIED rows); in a real run the writers' own answers
are put into the order of the chain (`chain_order`). From there on both worlds share every line.

Order comes first, comparison second: versions may repeat (equal bytes, equal ETag), so a version never *finds* its
predecessor, it only confirms it. The state after a write is that write alone, which is why no replay is needed: a live
record by the owner and token of the live record before it is a renewal, any other live record is a grant.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from lockref.claims import LEASE
from lockref.words import ABSENT, IF_ABSENT, Kind, Op, Outcome
from reports.checks.facts.columns import NO_TEXT, Events, Flags, Ints, Runs
from reports.checks.facts.segments import is_first
from reports.checks.facts.sources.chain_order import AppliedWrites, holes, order_replies
from reports.checks.facts.sources.grants import DELETED, FOREIGN, LIVE, RECORD, RELEASED, Changes, Grants, grants_of

FAR_NS: Final = 2**60
"""36 years: a stamp further away than that is as good as for ever, and arithmetic on it stays within 64 bits."""


def are_recorded_by_service(events: Events, runs: Runs) -> Flags:
    """Per run: the service itself recorded when requests took effect (APPLIED rows), as a simulated one does."""
    recorded = np.zeros(runs.count, dtype=np.bool_)
    recorded[events.run[events.rows(Kind.APPLIED)]] = True
    return recorded


def recorded_writes(events: Events, locks: Flags) -> AppliedWrites:
    """The writes of these locks that the service itself recorded, by lock and instant."""
    applied = events.rows(Kind.APPLIED)
    op, outcome = events.numbers("op"), events.numbers("outcome")
    applied = applied[
        (outcome[applied] == Outcome.APPLIED) & (op[applied] != Op.READ) & locks[events.lock_key[applied]]
    ]
    # A stable sort on the lock alone would keep (run, seq); most runs have one lock, then nothing moves.
    group = events.lock_key[applied]
    if len(group) > 1 and bool(np.any(group[1:] < group[:-1])):
        applied = applied[np.argsort(group, kind="stable")]
    at = events.integers("at_ns")
    return AppliedWrites(
        row=applied,
        sent_row=events.sent_by_request[events.request_keys(applied)],
        at_lo_ns=at[applied],
        at_hi_ns=at[applied],
        version=events.codes("version")[applied],
    )


@dataclass(frozen=True)
class RecordChain:
    """The grants of locks that keep a record under compare-and-set. locks: per lock key, it is one of them."""

    locks: Flags

    def grants(self, events: Events, runs: Runs) -> Grants:
        """See `GrantSource`. The changes carry what S1 and S6 ask: conditions, breaks and holes."""
        return grants_of(events, _Chain(events, runs, self.locks).changes())


class _Chain:
    """The writes of records in order, and what each of them did."""

    def __init__(self, events: Events, runs: Runs, locks: Flags) -> None:
        self._events = events
        self._runs = runs
        self._locks = locks
        self._absent = events.code_of("if_version", IF_ABSENT)
        self._are_recorded = are_recorded_by_service(events, runs)

    def changes(self) -> Changes:
        writes = recorded_writes(self._events, self._locks)
        replied, asked = self._of_locks(Kind.REPLIED), self._of_locks(Kind.SENT)
        if len(replied) or len(asked):
            heard = order_replies(self._events, replied, asked, absent=self._absent)
            writes = AppliedWrites.join((writes, heard))
            writes = writes.take(np.argsort(self._events.lock_key[writes.row], kind="stable"))
        return self._describe(writes)

    @cached_property
    def _found_nothing(self) -> Ints:
        """REPLIED rows of readings that found no object, of locks in runs whose store recorded no writes."""
        events = self._events
        rows = self._of_locks(Kind.REPLIED)
        found: Ints = rows[
            (events.numbers("op")[rows] == Op.READ)
            & (events.numbers("outcome")[rows] == Outcome.APPLIED)
            & (events.codes("version")[rows] == NO_TEXT)
            & (events.codes("content")[rows] == NO_TEXT)
        ]
        return found

    def _of_locks(self, kind: Kind) -> Ints:
        """Rows of a kind that concern these locks, of runs whose store recorded no writes."""
        rows = self._events.rows(kind)
        rows = rows[~self._are_recorded[self._events.run[rows]]]
        return rows[self._locks[self._events.lock_key[rows]]]

    def _describe(self, writes: AppliedWrites) -> Changes:
        events, row = self._events, writes.row
        op = events.numbers("op")[row]
        owner, token = events.codes("owner")[row], events.integers("token")[row]
        group = events.lock_key[row]
        first = is_first(group)
        state = np.full(len(row), LIVE, dtype=np.uint8)
        state[owner == NO_TEXT] = FOREIGN
        state[op == Op.RELEASE] = RELEASED
        state[op == Op.DELETE] = DELETED
        if_version, version = events.codes("if_version")[row], writes.version
        is_conditional = if_version != NO_TEXT

        continues = np.zeros(len(row), dtype=np.bool_)
        continues[1:] = ~first[1:]
        same_owner = np.zeros(len(row), dtype=np.bool_)
        same_owner[1:] = (owner[1:] == owner[:-1]) & (token[1:] == token[:-1]) & (state[:-1] == LIVE)
        is_live = state == LIVE
        is_renewal = is_live & continues & same_owner
        assert not bool(np.any(is_renewal & first)), "the first write of a lock renews nothing"

        broken = np.zeros(len(row), dtype=np.bool_)
        if len(row) > 1:
            was_absent = state[:-1] == DELETED
            fits = np.where(
                if_version[1:] == self._absent,
                was_absent,
                ~was_absent & ((if_version[1:] == version[:-1]) | (version[:-1] == NO_TEXT)),
            )
            # Deleting what is not there changes nothing, whatever the store answered.
            fits |= was_absent & (state[1:] == DELETED)
            broken[1:] = continues[1:] & is_conditional[1:] & ~fits
        broken_unseen = broken & ~self._are_recorded[events.run[row]]
        is_hole = holes(events, writes, broken_unseen, absent=self._absent, found_nothing=self._found_nothing)
        return Changes(
            group=group,
            row=row,
            sent_row=writes.sent_row,
            at_lo_ns=writes.at_lo_ns,
            at_hi_ns=writes.at_hi_ns,
            run=events.run[row],
            lock=events.codes("lock")[row],
            node=events.codes("node")[row],
            owner=owner,
            token=token,
            valid_until_true_ns=self._validity_end(row, writes.sent_row),
            if_version=if_version,
            version=version,
            state=state,
            source=np.full(len(row), RECORD, dtype=np.uint8),
            is_conditional=is_conditional,
            is_first=first,
            is_broken=broken & ~is_hole,
            is_hole=is_hole,
            is_grant=is_live & ~is_renewal,
            is_renewal=is_renewal,
        )

    def _validity_end(self, row: Ints, sent_row: Ints) -> Ints:
        """True time at which the promise in a record ends, by the clock of the node that made it; ABSENT for none.

        The node's wall clock at sending places its stamp on the true axis; where that clock is unknown, the run's
        validity from the sending counts. It also counts for a record without a stamp whose lock declares a lease, or
        waits for an unchanged record (`watch_ns`). Any other record without a stamp promises no end.
        """
        events, runs = self._events, self._runs
        stamp = events.integers("valid_until_ns")[row]
        sent = np.maximum(sent_row, 0)
        at, wall = events.integers("at_ns")[sent], events.integers("wall_ns")[sent]
        is_leased = (runs.claim(LEASE) | (runs.integers("watch_ns") != ABSENT))[events.run[row]]
        validity = runs.integers("validity_ns")[events.run[row]]
        has_stamp = (stamp != ABSENT) & (wall != ABSENT)
        has_span = ~has_stamp & (is_leased | (stamp != ABSENT)) & (validity != ABSENT)
        stamp, wall = np.where(has_stamp, stamp, 0), np.where(has_stamp, wall, 0)
        span = np.clip(stamp, wall - FAR_NS, wall + FAR_NS) - wall
        end = at + np.where(has_stamp, span, np.where(has_span, validity, 0))
        return np.where((sent_row >= 0) & (has_stamp | has_span), end, ABSENT)
