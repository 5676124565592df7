"""The chain of records: grants read off the writes of a lock's record under compare-and-set.

In a simulation the store records every write at its instant (APPLIED rows); in a real run the writers' own answers
are put into the order of the chain (`chain_order`). From there on both worlds share every line.

Order comes first, comparison second: versions may repeat (equal bytes, equal ETag), so a version never *finds* its
predecessor, it only confirms it. The state after a write is that write alone, which is why no replay is needed: a live
record by the owner and token of the live record before it is a renewal, any other live record is a grant.

Four kinds of locks write what the record alone does not tell. It is read off what the writer was doing (`OpenCalls`):

- A token that rises with each write, as a generation of GCS: over one's own live record, while no acquire serves the
  writer, it is a renewal. On the wire, where nobody sees calls: until that record has run out.
- A direct hand-over: a live record for another owner, by the holder, on the version of its own record, inside the
  holder's release. It is a grant to that owner. On the wire the new owner must be known from another client's writes.
- A release by a stamp in the past, over one's own live record, inside a release. On the wire: any such stamp.
- One name for all clients, and no token that rises, as in a record that is no more than a state and a stamp: over the
  live record of another node, with another stamp, in an acquire of a node that was granted the lock under that name, it
  is a grant.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from lockref.claims import LEASE
from lockref.words import ABSENT, IF_ABSENT, Kind, Op, Outcome
from reports.checks.facts.columns import NO_TEXT, Codes, Events, Flags, Ints, Runs, is_first
from reports.checks.facts.segments import renumber
from reports.checks.facts.sources.chain_order import AppliedWrites, holes, order_replies
from reports.checks.facts.sources.grants import DELETED, FOREIGN, LIVE, RECORD, RELEASED, Changes, Grants, grants_of
from reports.checks.facts.sources.open_calls import OpenCalls
from reports.checks.facts.sources.protocols import watched_on_the_wire

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
        self._is_on_wire = watched_on_the_wire(runs)

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

        # The order of the next steps counts. A release by a stamp ends the state that a later record stands on.
        # Renewals under new tokens add to the writes by the same owner, and grants under one name take from them.
        state[self._are_releases_by_stamp(writes, group, state)] = RELEASED
        continues = np.zeros(len(row), dtype=np.bool_)
        continues[1:] = ~first[1:]
        same_owner = np.zeros(len(row), dtype=np.bool_)
        same_owner[1:] = (owner[1:] == owner[:-1]) & (token[1:] == token[:-1]) & (state[:-1] == LIVE)
        is_live = state == LIVE
        same_owner |= self._are_renewals_under_new_tokens(writes, group, state)
        same_owner[self._are_grants_under_one_name(writes, group, state)] = False
        is_renewal = is_live & continues & same_owner
        assert not bool(np.any(is_renewal & first)), "the first write of a lock renews nothing"

        broken = np.zeros(len(row), dtype=np.bool_)
        if len(row) > 1:
            was_absent = state[:-1] == DELETED
            # A predecessor of which no answer told the version fits whatever the next write names.
            fits = np.where(
                if_version[1:] == self._absent,
                was_absent,
                ~was_absent & ((if_version[1:] == version[:-1]) | (version[:-1] == NO_TEXT)),
            )
            # Deleting what is not there changes nothing, whatever the store answered.
            fits |= was_absent & (state[1:] == DELETED)
            broken[1:] = continues[1:] & is_conditional[1:] & ~fits
        broken_unseen = broken & ~self._are_recorded[events.run[row]]
        is_handed_over, node = self._handed_over(
            writes, group, state, is_grant=is_live & ~is_renewal, candidates=is_live & ~is_renewal & continues & ~broken
        )
        is_hole = holes(events, writes, broken_unseen, absent=self._absent, found_nothing=self._found_nothing)
        broken |= writes.is_proven & continues & ~is_hole
        # In a simulation the store's own rows prove a break. In a real run a break is one only if no order of the
        # writes would be legal (`proven_faults`); every other misfit may be our order's, and accuses nobody.
        is_unsettled = broken_unseen & ~is_hole & ~writes.is_proven
        is_hole |= is_unsettled
        return Changes(
            group=group,
            row=row,
            sent_row=writes.sent_row,
            at_lo_ns=writes.at_lo_ns,
            at_hi_ns=writes.at_hi_ns,
            run=events.run[row],
            lock=events.codes("lock")[row],
            node=node,
            owner=owner,
            token=token,
            valid_until_true_ns=self._promised_until(writes, is_renewal),
            if_version=if_version,
            version=version,
            state=state,
            source=np.full(len(row), RECORD, dtype=np.uint8),
            is_conditional=is_conditional,
            is_first=first,
            is_broken=broken & ~is_hole,
            is_hole=is_hole,
            is_unsettled=is_unsettled,
            is_grant=is_live & ~is_renewal,
            is_renewal=is_renewal,
            is_handed_over=is_handed_over & ~is_hole,
        )

    @cached_property
    def _calls(self) -> OpenCalls:
        return OpenCalls(self._events)

    def _over_own_record(self, writes: AppliedWrites, group: Ints, state: npt.NDArray[np.uint8]) -> Ints:
        """Positions of live records under the owner of the live record before, which a waiter may have marked."""
        owner = self._events.codes("owner")[writes.row]
        found: Ints = np.flatnonzero(
            (group[1:] == group[:-1])
            & (state[1:] == LIVE)
            & (state[:-1] == LIVE)
            & (owner[1:] == owner[:-1])
            & (writes.sent_row[1:] >= 0)
        )
        return found + 1

    def _are_releases_by_stamp(self, writes: AppliedWrites, group: Ints, state: npt.NDArray[np.uint8]) -> Ints:
        """Positions of writes that give a grant back by a stamp that had passed, on the writer's clock, when sent."""
        events = self._events
        here = self._over_own_record(writes, group, state)
        sent = writes.sent_row[here]
        stamp, wall = events.integers("valid_until_ns")[writes.row[here]], events.integers("wall_ns")[sent]
        past = (stamp != ABSENT) & (wall != ABSENT) & (stamp <= wall)
        found, sent = here[past], sent[past]
        if len(found):
            found = found[self._calls.are_open(Op.RELEASE, sent) | self._is_on_wire[events.run[sent]]]
        given_back: Ints = found
        return given_back

    def _are_renewals_under_new_tokens(self, writes: AppliedWrites, group: Ints, state: npt.NDArray[np.uint8]) -> Flags:
        """Per write: a live record over one's own with a higher token, written while no acquire served its process."""
        events = self._events
        renewals = np.zeros(len(group), dtype=np.bool_)
        token = events.integers("token")[writes.row]
        here = self._over_own_record(writes, group, state)
        here = here[(token[here - 1] != ABSENT) & (token[here] > token[here - 1])]
        if len(here) == 0:
            return renewals
        sent = writes.sent_row[here]
        until = self._validity_end(writes.row[here - 1], writes.sent_row[here - 1])
        in_time = (until == ABSENT) | (events.integers("at_ns")[sent] < until)
        run = events.run[sent]
        goes_on = np.where(
            self._is_on_wire[run], in_time, self._calls.are_known(run) & ~self._calls.are_acquiring(sent)
        )
        renewals[here[goes_on]] = True
        return renewals

    def _are_grants_under_one_name(self, writes: AppliedWrites, group: Ints, state: npt.NDArray[np.uint8]) -> Ints:
        """Positions of live records by an acquire over another node's, under a name that both nodes use."""
        events = self._events
        here = self._over_own_record(writes, group, state)
        row, before = writes.row[here], writes.row[here - 1]
        stamp, node = events.integers("valid_until_ns"), events.codes("node")
        # A client that leaves the stamp as it was notes something in the record, and promises nothing.
        others: Ints = here[(node[row] != node[before]) & (stamp[row] != stamp[before])]
        if len(others) == 0:
            return others
        here = others[self._calls.are_acquiring(writes.sent_row[others])]
        row = writes.row[here]
        back = events.rows(Kind.RETURN)
        back = back[(events.numbers("op")[back] == Op.ACQUIRE) & (events.numbers("outcome")[back] == Outcome.APPLIED)]
        rows = np.concatenate((back, row))
        name, _ = renumber(
            events.lock_key[rows], node[rows].astype(np.int64), events.codes("owner")[rows].astype(np.int64)
        )
        grants: Ints = here[np.isin(name[len(back) :], name[: len(back)])]
        return grants

    def _handed_over(
        self,
        writes: AppliedWrites,
        group: Ints,
        state: npt.NDArray[np.uint8],
        *,
        is_grant: Flags,
        candidates: Flags,
    ) -> tuple[Flags, Codes]:
        """Per write: the holder gave the lock to another owner; and whose it is then, by node.

        candidates: grants that fit the state before; those without a condition are left out. The new owner's node is
        the one that was granted the lock under that name, or wrote under it; NO_TEXT where nobody did.
        """
        events, row = self._events, writes.row
        owner, node = events.codes("owner")[row], events.codes("node")[row].copy()
        handed = np.zeros(len(row), dtype=np.bool_)
        here = np.flatnonzero(candidates[1:] & (state[:-1] == LIVE) & (owner[1:] != owner[:-1])) + 1
        version = events.codes("if_version")[row[here]]
        here = here[(version != NO_TEXT) & (writes.sent_row[here] >= 0)]
        if len(here) == 0:
            return handed, node
        sent = writes.sent_row[here]
        is_called = ~self._is_on_wire[events.run[sent]]
        # Nearly every grant over a live record is a takeover of what has run out, and sent by nobody who gives back.
        giving = ~is_called | self._calls.are_open(Op.RELEASE, sent)
        here, is_called = here[giving], is_called[giving]
        if len(here) == 0:
            return handed, node
        home = self._homes(group[here], owner[here], node[here])
        granted = np.flatnonzero(is_grant)
        for one in np.flatnonzero(is_called | (home != NO_TEXT)).tolist():
            position = int(here[one])
            # In the order of writes: the holder may have been given the lock itself.
            holder = node[granted[np.searchsorted(granted, position - 1, side="right") - 1]]
            if holder == node[position]:
                handed[position], node[position] = True, home[one]
        return handed, node

    def _homes(self, group: Ints, owner: Codes, giver: Codes) -> Codes:
        """Per owner's name in a lock: the node, other than the giver, that was granted the lock or wrote with it."""
        events = self._events
        returns = events.rows(Kind.RETURN)
        returns = returns[events.numbers("op")[returns] == Op.ACQUIRE]
        rows = np.concatenate((events.rows(Kind.SENT), returns))
        owners, nodes = events.codes("owner")[rows], events.codes("node")[rows]
        known = owners != NO_TEXT
        rows, owners, nodes = rows[known], owners[known], nodes[known]
        place, _ = renumber(
            np.concatenate((events.lock_key[rows], group)), np.concatenate((owners, owner)).astype(np.int64)
        )
        found = np.full(len(group), NO_TEXT, dtype=np.int32)
        if len(rows) == 0:
            return found
        order = np.argsort(place[: len(rows)], kind="stable")
        at, nodes = place[: len(rows)][order], nodes[order]
        # The last row of each name counts, or where the giver's rows stand last, the row before them.
        changes = np.ones(len(at), dtype=np.bool_)
        changes[1:] = (at[1:] != at[:-1]) | (nodes[1:] != nodes[:-1])
        before = np.maximum.accumulate(np.where(changes, np.arange(len(at)), 0)) - 1
        last = np.searchsorted(at, place[len(rows) :], side="right") - 1
        for back in (last, np.where(last >= 0, before[last], -1)):
            fits = (found == NO_TEXT) & (back >= 0) & (at[back] == place[len(rows) :]) & (nodes[back] != giver)
            found[fits] = nodes[back[fits]]
        return found

    def _promised_until(self, writes: AppliedWrites, is_renewal: Flags) -> Ints:
        """As `_validity_end`; a waiter that marks the holder's record, and leaves its stamp, promises nothing anew."""
        events, row = self._events, writes.row
        end = self._validity_end(row, writes.sent_row)
        stamp, node = events.integers("valid_until_ns")[row], events.codes("node")[row]
        is_note = np.zeros(len(row), dtype=np.bool_)
        is_note[1:] = is_renewal[1:] & (stamp[1:] == stamp[:-1]) & (node[1:] != node[:-1]) & (stamp[1:] != ABSENT)
        made_by = np.maximum.accumulate(np.where(is_note, 0, np.arange(len(row)))) if len(row) else row
        promised: Ints = end[made_by]
        return promised

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
        # The stamp is on the writer's wall clock, and only its distance from that clock's reading at the sending is
        # used. So a clock that is years wrong moves nothing here. A step between the making of the stamp and the
        # sending does.
        span = np.clip(stamp, wall - FAR_NS, wall + FAR_NS) - wall
        end = at + np.where(has_stamp, span, np.where(has_span, validity, 0))
        return np.where((sent_row >= 0) & (has_stamp | has_span), end, ABSENT)
