"""Truth: which client the store named as owner, and when (S1).

A lock object's successful writes form a chain: each names the version it
replaced and the one it made. Grants are read off that chain and never off what
clients say. A simulated store tells of every write at its instant (APPLIED
rows); in a real run the writers' own replies are put into chain order by
`reports.checks.facts.chain_order`. From there on both worlds share every line.

Order comes first, comparison second: versions may repeat (equal bytes, equal
ETag), so a version never *finds* its predecessor, it only confirms it.

The state after a write is that write alone, which is why no replay is needed:
a live record by the owner and token of the live record before it is a renewal,
any other live record is a grant.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from lockref.history import ABSENT, IF_ABSENT, Kind, Op
from lockref.stores.port import Outcome
from reports.checks.facts.chain_order import Replies, holes, order_replies
from reports.checks.facts.columns import NO_TEXT, Codes, Events, Flags, Ints, Runs
from reports.checks.facts.segments import is_first, ordinals

LIVE, RELEASED, DELETED, FOREIGN = 0, 1, 2, 3
"""What a write left behind: a grant in force, a former owner's name, nothing, something that is no lock record."""

OPEN, END_RELEASED, END_TAKEN_OVER, END_DELETED, END_OVERWRITTEN = 0, 1, 2, 3, 4
END_KINDS = ("open", "released", "taken_over", "deleted", "overwritten")

FAR_NS = 2**60
"""36 years: a stamp further away than that is as good as for ever, and arithmetic on it stays within 64 bits."""

OPERATOR = "operator"
"""The node name of whoever disturbs a simulated store by hand; no client, so no clause binds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The applied writes of every lock, in order, one entry each.

    group: (run, lock), equal for one chain, ascending. row: the event that
    tells of the write; sent_row: the request behind it, -1 for an operator's.
    at_lo_ns, at_hi_ns: between these true times the write took effect (equal
    in a simulation). is_broken: its condition does not fit what it replaced; is_hole: nor
    anything else on record, so that somebody unrecorded must have written (real runs);
    what happened to the grant before it is then unknown.
    """

    group: Ints
    row: Ints
    sent_row: Ints
    at_lo_ns: Ints
    at_hi_ns: Ints
    run: Ints
    lock: Codes
    node: Codes
    owner: Codes
    token: Ints
    valid_until_true_ns: Ints
    if_version: Codes
    version: Codes
    state: npt.NDArray[np.uint8]
    is_conditional: Flags
    is_first: Flags
    is_broken: Flags
    is_hole: Flags
    is_grant: Flags
    is_renewal: Flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """Periods for which the store named one owner, in chain order.

    first, last, end: positions in the chain of the granting write, of the last
    renewal (or the grant itself), and of the write that ended it (-1: open).
    ordinal: 1, 2, … in its run and lock. end_*_ns: ABSENT while open.
    """

    first: Ints
    last: Ints
    end: Ints
    group: Ints
    run: Ints
    lock: Codes
    ordinal: Ints
    node: Codes
    task: Codes
    owner: Codes
    token: Ints
    request: Ints
    begin_lo_ns: Ints
    begin_hi_ns: Ints
    end_lo_ns: Ints
    end_hi_ns: Ints
    end_kind: npt.NDArray[np.uint8]
    valid_until_true_ns: Ints
    next_same_lock: Ints


class Truth:
    """The chain and the grants of all runs, and for which runs they can be known.

    is_readable: per run, False where the lock's records cannot be decoded, so
    that the clauses about owners and tokens do not apply.
    """

    def __init__(self, events: Events, runs: Runs) -> None:
        self.events = events
        self.runs = runs
        self.absent_code = events.code_of("if_version", IF_ABSENT)
        self.chain = self._build_chain()
        self.grants = self._build_grants()

    @cached_property
    def lock_groups(self) -> Flags:
        """Which (run, lock) keys are locks: those that clients call, or, in runs without calls, all.

        Other objects (audit files, registers kept in the store) share the history.
        """
        events = self.events
        width = events.text_count("lock") + 1
        flags = np.zeros(self.runs.count * width, dtype=np.bool_)
        calls = events.rows(Kind.CALL)
        flags[events.lock_key[calls]] = True
        calls_any = np.zeros(self.runs.count, dtype=np.bool_)
        calls_any[events.run[calls]] = True
        flags.reshape(self.runs.count, width)[~calls_any] = True
        return flags

    @cached_property
    def is_told(self) -> Flags:
        """Per run: the store itself told of its writes, as a simulated one does."""
        told = np.zeros(self.runs.count, dtype=np.bool_)
        told[self.events.run[self.events.rows(Kind.APPLIED)]] = True
        return told

    @cached_property
    def has_holes(self) -> Flags:
        """Per run: some write replaced what no recorded write had made."""
        holed = np.zeros(self.runs.count, dtype=np.bool_)
        holed[self.chain.run[self.chain.is_hole]] = True
        return holed

    def may_hide(self, group: Ints, after: Ints, until: Ints) -> Flags:
        """Per question: somebody unrecorded may have written the lock `group` between two writes of its chain.

        after, until: positions in the chain, the later one included; `until` -1: to the end of the run. What follows
        the last write on record cannot show a hole, so there any hole of the lock counts: somebody unrecorded is about.
        """
        chain = self.chain
        holes = np.concatenate(([0], np.cumsum(chain.is_hole)))
        start, stop = (np.searchsorted(chain.group, group, side=side) for side in ("left", "right"))
        first = np.where(until < 0, start, after + 1)
        last = np.where(until < 0, stop, until + 1)
        found: Flags = holes[last] > holes[first]
        return found

    def _build_chain(self) -> Chain:
        events = self.events
        sent_index = events.sent_by_request
        applied = events.rows(Kind.APPLIED)
        is_told = self.is_told
        op, outcome = events.numbers("op"), events.numbers("outcome")
        applied = applied[
            (outcome[applied] == Outcome.APPLIED)
            & (op[applied] != Op.READ)
            & self.lock_groups[events.lock_key[applied]]
        ]
        # A stable sort on the lock alone would keep (run, seq); most runs have one lock, then nothing moves.
        group = events.lock_key[applied]
        if len(group) > 1 and bool(np.any(group[1:] < group[:-1])):
            applied = applied[np.argsort(group, kind="stable")]
        sent = sent_index[events.request_keys(applied)]
        at = events.integers("at_ns")
        told = Replies(
            row=applied,
            sent_row=sent,
            at_lo_ns=at[applied],
            at_hi_ns=at[applied],
            version=events.codes("version")[applied],
        )
        replied, asked = (self._of_locks(kind, is_told) for kind in (Kind.REPLIED, Kind.SENT))
        if len(replied) or len(asked):
            heard = order_replies(events, replied, asked, absent=self.absent_code)
            told = Replies.join((told, heard))
            told = told.take(np.argsort(events.lock_key[told.row], kind="stable"))
        return self._describe(told)

    @cached_property
    def _found_nothing(self) -> Ints:
        """REPLIED rows of readings that found no object, of locks in runs in which no store told of its writes."""
        events = self.events
        rows = self._of_locks(Kind.REPLIED, self.is_told)
        found: Ints = rows[
            (events.numbers("op")[rows] == Op.READ)
            & (events.numbers("outcome")[rows] == Outcome.APPLIED)
            & (events.codes("version")[rows] == NO_TEXT)
            & (events.codes("content")[rows] == NO_TEXT)
        ]
        return found

    def _of_locks(self, kind: Kind, is_told: Flags) -> Ints:
        """Rows of a kind that concern a lock, of runs in which no store told of its writes."""
        rows = self.events.rows(kind)
        rows = rows[~is_told[self.events.run[rows]]]
        return rows[self.lock_groups[self.events.lock_key[rows]]]

    def _describe(self, writes: Replies) -> Chain:
        events, row = self.events, writes.row
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

        broken = np.zeros(len(row), dtype=np.bool_)
        if len(row) > 1:
            was_absent = state[:-1] == DELETED
            fits = np.where(
                if_version[1:] == self.absent_code,
                was_absent,
                ~was_absent & ((if_version[1:] == version[:-1]) | (version[:-1] == NO_TEXT)),
            )
            # Deleting what is not there changes nothing, whatever the store answered.
            fits |= was_absent & (state[1:] == DELETED)
            broken[1:] = continues[1:] & is_conditional[1:] & ~fits
        broken_unseen = broken & ~self.is_told[events.run[row]]
        is_hole = holes(events, writes, broken_unseen, absent=self.absent_code, found_nothing=self._found_nothing)
        return Chain(
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
            is_conditional=is_conditional,
            is_first=first,
            is_broken=broken & ~is_hole,
            is_hole=is_hole,
            is_grant=is_live & ~is_renewal,
            is_renewal=is_renewal,
        )

    def _validity_end(self, row: Ints, sent_row: Ints) -> Ints:
        """True time at which the promise in a record ends, by the clock of the node that made it.

        The node's wall clock at sending places its stamp on the true axis. A
        record without a stamp promises the run's validity from its sending.
        """
        events = self.events
        stamp = events.integers("valid_until_ns")[row]
        sent = np.maximum(sent_row, 0)
        at, wall = events.integers("at_ns")[sent], events.integers("wall_ns")[sent]
        validity = self.runs.integers("validity_ns")[events.run[row]]
        has_stamp = (stamp != ABSENT) & (wall != ABSENT)
        stamp, wall = np.where(has_stamp, stamp, 0), np.where(has_stamp, wall, 0)
        span = np.clip(stamp, wall - FAR_NS, wall + FAR_NS) - wall
        end = np.where(has_stamp, at + span, at + np.where(validity != ABSENT, validity, 0))
        return np.where((sent_row >= 0) & (has_stamp | (validity != ABSENT)), end, ABSENT)

    def _build_grants(self) -> Grants:
        events, chain = self.events, self.chain
        count = len(chain.row)
        boundary = np.flatnonzero(~chain.is_renewal)
        first = np.flatnonzero(chain.is_grant)
        following = np.searchsorted(boundary, first) + 1
        until = np.append(boundary, count)[following] if len(first) else first
        inside = np.minimum(until, max(count - 1, 0))
        has_end = (until < count) & (chain.group[inside] == chain.group[first])
        end = np.where(has_end, until, -1)
        kind_by_state = np.array([END_TAKEN_OVER, END_RELEASED, END_DELETED, END_OVERWRITTEN], dtype=np.uint8)
        sent = chain.sent_row[first]
        group = chain.group[first]
        starts = is_first(group)
        following_grant = np.full(len(first), -1, dtype=np.int64)
        if len(first) > 1:
            following_grant[:-1] = np.where(starts[1:], -1, np.arange(1, len(first)))
        return Grants(
            first=first,
            last=until - 1,
            end=end,
            group=group,
            run=chain.run[first],
            lock=chain.lock[first],
            ordinal=ordinals(starts, np.ones(len(first), dtype=np.bool_)),
            node=chain.node[first],
            task=np.where(sent >= 0, events.codes("task")[np.maximum(sent, 0)], np.int32(NO_TEXT)),
            owner=chain.owner[first],
            token=chain.token[first],
            request=events.integers("request")[chain.row[first]],
            begin_lo_ns=chain.at_lo_ns[first],
            begin_hi_ns=chain.at_hi_ns[first],
            end_lo_ns=np.where(has_end, chain.at_lo_ns[inside], ABSENT),
            end_hi_ns=np.where(has_end, chain.at_hi_ns[inside], ABSENT),
            end_kind=np.where(has_end, kind_by_state[chain.state[inside]], np.uint8(OPEN)),
            valid_until_true_ns=chain.valid_until_true_ns[until - 1] if len(first) else first,
            next_same_lock=following_grant,
        )

    @cached_property
    def is_readable(self) -> Flags:
        """Per run: some write of the lock could be decoded, or there was none and nothing was granted."""
        events = self.events
        readable = np.ones(self.runs.count, dtype=np.bool_)
        returns = events.rows(Kind.RETURN)
        granted = (events.numbers("outcome")[returns] == Outcome.APPLIED) & (
            events.numbers("op")[returns] == Op.ACQUIRE
        )
        readable[events.run[returns[granted]]] = False
        readable[self.chain.run] = False
        readable[self.chain.run[self.chain.owner != NO_TEXT]] = True
        return readable


def describe_write(truth: Truth, position: int) -> dict[str, Any]:
    """One chain entry for a witness."""
    chain, events = truth.chain, truth.events
    row = int(chain.row[position])
    token = int(chain.token[position])
    return {
        "seq": int(events.integers("seq")[row]),
        "at_ns": int(chain.at_hi_ns[position]),
        "node": events.text("node", int(chain.node[position])),
        "state": ("live", "released", "deleted", "foreign")[int(chain.state[position])],
        "owner": events.text("owner", int(chain.owner[position])),
        "token": None if token == ABSENT else token,
        "if_version": events.text("if_version", int(chain.if_version[position])),
        "version": events.text("version", int(chain.version[position])),
    }
