"""Denials that no interval explains, and what may excuse each of them (S7).

Almost every denial is settled by intervals: another's grant was in force
during the call. The others are looked at one by one here. One denial costs as
much as its own caller did during the call, and a few binary searches. So a lock
whose every denial is wrong is judged in n log n, too, and every excuse is
looked for in every case.
"""

from __future__ import annotations

import numpy as np

from lockref.words import ABSENT, Kind, Op, Outcome
from reports.checks.disturbances import Disturbances
from reports.checks.facts.clocks import or_zero
from reports.checks.facts.columns import NO_TEXT, Ints
from reports.checks.facts.operations import Operations
from reports.checks.facts.segments import renumber
from reports.checks.facts.sources.grants import LIVE
from reports.checks.facts.sources.truth import Truth


class Excuses:
    """The reasons in the record for which a call may have been denied.

    force_end_ns, end_ns: per grant, until when it may deny others, and when it ended; FOREVER while open.
    """

    def __init__(
        self,
        truth: Truth,
        operations: Operations,
        disturbances: Disturbances,
        *,
        force_end_ns: Ints,
        end_ns: Ints,
    ) -> None:
        self._truth = truth
        self._operations = operations
        self._disturbances = disturbances
        self._force_end_ns = force_end_ns
        self._end_ns = end_ns
        events, changes = truth.events, truth.changes
        self._drift = or_zero(truth.runs.integers("drift_bound_ns"))
        self._width = events.count + 1
        # Everything is prepared once for the run, and each denial then asks by bisection. A lock whose every denial is
        # wrong has as many as calls, and a scan of the events for each would be the square of the run.
        replied = events.rows(Kind.REPLIED)
        split = len(replied)
        client, _ = renumber(
            np.concatenate((events.lock_key[replied], events.lock_key[operations.call_row])),
            np.concatenate((events.codes("node")[replied], operations.node)).astype(np.int64),
            np.concatenate((events.codes("task")[replied], operations.task)).astype(np.int64),
        )
        self._client = client[split:]
        # A caller's answers in order: packed, so that one search finds those of one call.
        self._answer_key = np.sort(client[:split] * self._width + replied)
        change = np.flatnonzero((changes.node[1:] != changes.node[:-1]) | (changes.group[1:] != changes.group[:-1])) + 1
        self._change = np.append(change, len(changes.node))
        made, _ = renumber(changes.group, changes.version.astype(np.int64))
        self._made = made
        self._made_key = np.sort(made * self._width + np.arange(len(made)))
        # Any one chain entry of each (lock, version), to learn the number of the pair.
        self._example: dict[tuple[int, int], int] = {}
        first = np.unique(made, return_index=True)[1]
        for position in first.tolist():
            self._example[int(changes.group[position]), int(changes.version[position])] = position

    def excuse(self, one: int) -> bool:
        """True if this denied call, which met no grant of another client, was right nevertheless."""
        events = self._truth.events
        answers = self._answers(one)
        op, outcome = events.numbers("op")[answers], events.numbers("outcome")[answers]
        refused = (op != Op.READ) & (outcome == Outcome.PRECONDITION_FAILED)
        # The excuses are asked from the surest to the weakest. One is enough: a denial breaks S7 only where nothing on
        # record can have led an honest lock to it.
        if refused.any() and self._met_a_rival(one):
            return True
        reads = answers[(op == Op.READ) & (outcome == Outcome.APPLIED)]
        node = int(self._operations.node[one])
        if any(self._is_stale(one, read, node) for read in reads.tolist()):
            return True
        return self._has_slow_clock(one) or self._is_kept_out_by_its_past(one)

    def _answers(self, one: int) -> Ints:
        """REPLIED rows of this caller between call and return."""
        operations = self._operations
        base = int(self._client[one]) * self._width
        first = np.searchsorted(self._answer_key, base + int(operations.call_row[one]))
        last = np.searchsorted(self._answer_key, base + int(operations.return_row[one]), side="right")
        return self._answer_key[first:last] - base

    def _chain_of(self, one: int) -> tuple[int, int]:
        changes, key = self._truth.changes, self._truth.events.lock_key[self._operations.call_row[one]]
        return int(np.searchsorted(changes.group, key)), int(np.searchsorted(changes.group, key, side="right"))

    def _met_a_rival(self, one: int) -> bool:
        """True if another node wrote during the call: a race was lost, though not against a grant (E30)."""
        changes, operations = self._truth.changes, self._operations
        start, stop = self._chain_of(one)
        first = start + int(np.searchsorted(changes.at_hi_ns[start:stop], operations.call_at_ns[one]))
        last = start + int(np.searchsorted(changes.at_lo_ns[start:stop], operations.return_at_ns[one], side="right"))
        if first >= last:
            return False
        if changes.node[first] != operations.node[one]:
            return True
        return int(self._change[np.searchsorted(self._change, first, side="right")]) < last

    def _is_stale(self, one: int, read: int, node: int) -> bool:
        """True if the store answered this read with a state that was gone, and that state was somebody else's grant."""
        events, changes = self._truth.events, self._truth.changes
        version = int(events.codes("version")[read])
        start, stop = self._chain_of(one)
        example = self._example.get((int(events.lock_key[read]), version))
        if version == NO_TEXT or example is None:
            return False
        sent = int(events.sent_by_request[events.request_keys(np.array([read]))][0])
        begin = int(events.integers("at_ns")[sent if sent >= 0 else read])
        end = int(events.integers("at_ns")[read])
        until = start + int(np.searchsorted(changes.at_lo_ns[start:stop], end, side="right"))
        # The last write before the read began is in force when it begins.
        in_force = max(start, start + int(np.searchsorted(changes.at_hi_ns[start:stop], begin)) - 1)
        base = int(self._made[example]) * self._width
        place = int(np.searchsorted(self._made_key, base + until)) - 1
        shown = int(self._made_key[place]) - base if place >= 0 else -1
        # A state that was in force, or came during the read, is no stale one: what it shows was true at some instant of
        # the read.
        if shown < start or shown >= in_force:
            return False
        return int(changes.state[shown]) == LIVE and int(changes.node[shown]) != node

    def _grants_during(self, one: int) -> Ints:
        """Grants of the lock that began by the return and had not ended by the call."""
        grants, operations = self._truth.grants, self._operations
        key = self._truth.events.lock_key[operations.call_row[one]]
        start, stop = (int(np.searchsorted(grants.group, key, side=side)) for side in ("left", "right"))
        call = int(operations.call_at_ns[one])
        last = start + int(np.searchsorted(grants.begin_lo_ns[start:stop], operations.return_at_ns[one], side="right"))
        first = start + int(np.searchsorted(grants.begin_lo_ns[start:stop], call))
        # Grants of one lock follow each other; bounds of a real run may let a few neighbours overlap.
        while first > start and self._end_ns[first - 1] >= call:
            first -= 1
        return np.arange(first, max(first, last))

    def _has_slow_clock(self, one: int) -> bool:
        """True if by the caller's own wall clock another's unreplaced grant had not lapsed when the call began."""
        events, grants, operations = self._truth.events, self._truth.grants, self._operations
        wall = int(events.integers("wall_ns")[operations.call_row[one]])
        if wall == ABSENT:
            return False
        here = self._grants_during(one)
        here = here[(grants.node[here] != operations.node[one]) | (grants.task[here] != operations.task[one])]
        stamp = events.integers("valid_until_ns")[self._truth.changes.row[grants.last[here]]]
        drift = int(self._drift[operations.run[one]])
        # The caller's clock may be behind by β, so a stamp that has passed in true time need not have passed for it.
        return bool(np.any((stamp != ABSENT) & (wall <= stamp + drift)))

    def _is_kept_out_by_its_past(self, one: int) -> bool:
        """True if an earlier process of the caller's node held the grant and crashed: the next process must wait."""
        grants, operations = self._truth.grants, self._operations
        run, node = int(operations.run[one]), int(operations.node[one])
        crashed_row = self._disturbances.last_crash_row(run, node, before_row=int(operations.call_row[one]))
        if crashed_row < 0:
            return False
        here = self._grants_during(one)
        own = here[(grants.node[here] == node) & (self._force_end_ns[here] >= operations.call_at_ns[one])]
        # What was sent before the crash may have landed after it.
        return bool(np.any(self._truth.changes.sent_row[grants.first[own]] < crashed_row))
