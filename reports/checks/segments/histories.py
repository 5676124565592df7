"""A history of any length, judged as it is read: whole runs together, and a run longer than a piece in pieces."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lockref.errors import HistoryUnreadable
from lockref.history import SCHEMA
from reports.checks.judgement import Judgement, judge
from reports.checks.segments.judging import SegmentJudge
from reports.checks.summary import Summary

LOST: Final = "it lost a record, and a lost record can look like a broken lock"


class PiecewiseJudge:
    """Judges the runs of a history from pieces in which the events of one run stand together, in the order of `seq`.

    most: how many events were judged at once, at most. split: how many runs came in several pieces.
    """

    def __init__(
        self, runs: pa.Table, *, damaged: Set[int] = frozenset(), not_demanded: frozenset[str] = frozenset()
    ) -> None:
        """runs: `RUNS_SCHEMA`, a row for every run. damaged: runs that lost a record, as far as their reader knows by
        now; it may grow with every piece. not_demanded: see `Summary.of`.
        """
        self._damaged = damaged
        self._runs = runs
        self._not_demanded = not_demanded
        self._summary = Summary(not_demanded=not_demanded)
        self._begun: SegmentJudge | None = None
        self._current: int | None = None
        self._events = 0
        self._done: set[int] = set()
        self.most = 0
        self.split = 0

    def add(self, piece: pa.Table) -> None:
        """Take the next events. Raises HistoryUnreadable where the events of a run do not stand together."""
        if not len(piece):
            return
        numbers = pc.unique(piece["run"]).to_pylist()
        last = piece["run"][-1].as_py()
        whole = [number for number in numbers if number not in (self._current, last)]
        if self._current in numbers:
            self._take(piece.filter(pc.equal(piece["run"], self._current)))
        if self._current != last:
            self._close()
            if whole:
                self._judge_whole(piece, whole)
            self._begin(last)
            self._take(piece.filter(pc.equal(piece["run"], last)))
        elif whole:
            raise _scattered(last)

    def end(self) -> Summary:
        """The summary of all runs."""
        self._close()
        if rest := [number for number in self._runs["run"].to_pylist() if number not in self._done]:
            self._judge_whole(SCHEMA.empty_table(), rest)
        return self._summary

    def _begin(self, number: int) -> None:
        if number in self._done:
            raise _scattered(number)
        self._current, self._begun, self._events = number, SegmentJudge(self._row([number])), 0

    def _take(self, events: pa.Table) -> None:
        assert self._begun is not None, "a run has begun"
        self._begun.add(events)
        self._events += len(events)

    def _close(self) -> None:
        if self._begun is None or self._current is None:
            return
        judgement = self._begun.end(damage=LOST if self._current in self._damaged else None)
        self.split += self._begun.pieces > 1
        self.most = max(self.most, self._begun.most)
        self._absorb(judgement, [self._current], self._events)
        self._begun = self._current = None

    def _judge_whole(self, piece: pa.Table, numbers: list[int]) -> None:
        if repeated := self._done.intersection(numbers):
            raise _scattered(min(repeated))
        events = piece.filter(pc.is_in(piece["run"], value_set=pa.array(numbers, pa.int64())))
        self.most = max(self.most, len(events))
        lost = dict.fromkeys(self._damaged & set(numbers), LOST)
        self._absorb(judge(events, self._row(numbers), known_damage=lost), numbers, len(events))

    def _absorb(self, judgement: Judgement, numbers: list[int], events: int) -> None:
        self._done.update(numbers)
        self._summary.add(
            Summary.of_runs(judgement, self._row(numbers), event_count=events, not_demanded=self._not_demanded)
        )

    def _row(self, numbers: list[int]) -> pa.Table:
        return self._runs.filter(pc.is_in(self._runs["run"], value_set=pa.array(numbers, pa.int64())))


def _scattered(number: int) -> HistoryUnreadable:
    return HistoryUnreadable(f"the events of run {number} do not stand together: sort them by run and seq")
