"""One long run, judged piece by piece.

    judge = SegmentJudge(runs)          # the one row of the run
    for piece in pieces:                # events in the order of `seq`, each piece begins where the last one ended
        judge.add(piece)
    judgement = judge.end()

`judge_in_segments` does the same for pieces that the caller has. Verdicts, counts and first witnesses are those of
`judge` over the whole run for the clauses of `IN_SEGMENTS`; `OF_THE_WHOLE` says which are not asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from lockref.errors import HistoryUnreadable
from lockref.history import RUNS_SCHEMA, SCHEMA
from lockref.words import ABSENT, Kind, Op, Outcome
from reports.checks.clauses.ownership import find_revivals, sent_in_acquire
from reports.checks.facts.case import Case
from reports.checks.facts.columns import NO_TEXT, Events, Flags, Ints, Runs, are_among, require_columns
from reports.checks.judgement import Judgement, judge, judge_with_violations
from reports.checks.segments.carried import GRANTS_CARRIED, carried_rows
from reports.checks.segments.joining import JoinedJudgement, Stretch

EVENTS_OF_A_PIECE: Final = 2_000_000
"""Events that are judged at once where the caller does not say: about a gigabyte, and a few seconds."""


class SegmentJudge:
    """Judges one run of which the events come in pieces.

    carried: how many events the last piece left to the next one. most: how many were judged at once, at most.
    pieces: how many pieces came.
    """

    def __init__(self, runs: pa.Table, *, grants: int = GRANTS_CARRIED) -> None:
        """runs: `RUNS_SCHEMA`, the one row of the run. grants: how many last grants of each lock are carried at least.

        Raises HistoryUnreadable for another number of rows.
        """
        if len(runs) != 1:
            raise HistoryUnreadable(f"a run in pieces is described by one row in runs, not by {len(runs):,}")
        self._runs = runs.select([name for name in RUNS_SCHEMA.names if name in runs.column_names])
        self._run = int(runs["run"][0].as_py())
        self._joined = JoinedJudgement(self._run)
        self._count = 0
        self._kept = SCHEMA.empty_table()
        self._waiting: pa.Table | None = None
        self._damage: str | None = None
        self._last_ns = ABSENT
        self._is_some_gone = False
        self._grants = grants
        self.most = 0
        self.pieces = 0

    @property
    def carried(self) -> int:
        """Events that stand before the next piece."""
        return len(self._kept)

    def add(self, piece: pa.Table) -> None:
        """Take the next events of the run: `SCHEMA`, in any order among themselves. Nothing is done with none.

        Raises HistoryUnreadable for a table of another shape, and for events of another run.
        """
        require_columns(piece, self._runs)
        if not len(piece) or self._damage is not None:
            return
        if set(piece["run"].unique().to_pylist()) != {self._run}:
            raise HistoryUnreadable(f"a piece of run {self._run} holds events of another run")
        piece = piece.sort_by("seq")
        self._damage = self._wrong_key(piece)
        if self._damage is not None:
            return
        # The last piece alone is judged up to the run's own end, so each waits until the next one has come.
        if self._waiting is not None:
            self._judge(self._waiting, is_last=False)
        self._waiting = piece
        self.pieces += 1
        self._count += len(piece)

    def end(self, *, damage: str | None = None) -> Judgement:
        """The judgement of the run, after its last piece. damage: what is wrong with its record, as found elsewhere."""
        self._damage = damage if self._damage is None else self._damage
        expected = self._runs["event_count"][0].as_py() if "event_count" in self._runs.column_names else None
        if expected is not None and self._count > expected and self._damage is None:
            self._damage = f"it holds {self._count:,} events, and {expected:,} were recorded"
        if self._damage is not None or self._waiting is None:
            known = {} if self._damage is None else {self._run: self._damage}
            return judge(SCHEMA.empty_table(), self._runs, known_damage=known)
        if self._count == len(self._waiting):
            # The run came in one piece.
            return judge(self._waiting, self._runs)
        is_cut_off = bool(self._runs["is_cut_off"][0].as_py()) or (expected is not None and self._count < expected)
        self._judge(self._waiting, is_last=not is_cut_off)
        self._waiting = None
        return self._joined.judgement(is_cut_off=is_cut_off)

    def _judge(self, piece: pa.Table, *, is_last: bool) -> None:
        stretch = pa.concat_tables([self._kept, piece.select(SCHEMA.names).cast(SCHEMA)]).unify_dictionaries()
        stretch = stretch.combine_chunks()
        self.most = max(self.most, len(stretch))
        numbers = stretch["seq"].to_pylist()
        runs = _described(self._runs, is_over=is_last)
        facts = Runs(runs)
        events = Events(_numbered(stretch), facts.number)
        at = events.integers("at_ns")
        is_simulated = self._runs["world"][0].as_py() == "simulated"

        def judged(part: pa.Table, runs: pa.Table) -> Stretch:
            judgement, violations, case = judge_with_violations(_numbered(part), runs)
            begin_ns = int(at.min())
            return Stretch(
                judgement=judgement,
                violations=violations,
                uncalled_ns=_uncalled(case),
                begin_ns=begin_ns,
                origin_ns=0 if is_simulated else begin_ns,
            )

        found = judged(stretch, runs)
        known = judged(self._kept, _described(self._runs, is_over=False)) if len(self._kept) else None
        self._joined.served |= _served(events)
        # A witness is told anew where enough stands before it: what led to it is not among the carried events else.
        told_from_ns = int(at[len(self._kept) // 2])
        self._joined.add(found, known, seq_at=numbers, told_from_ns=told_from_ns)
        is_new = known is not None and bool(found.uncalled_ns - known.uncalled_ns)
        # A lock whose grants come from no chain of records is carried whole: nothing of it can be gone.
        if known is not None and self._is_some_gone and (is_new or _names_what_is_gone(events, len(self._kept))):
            self._joined.doubt()
        carried = carried_rows(events, facts, grants=self._grants)
        self._is_some_gone |= not carried.all()
        self._kept = stretch.filter(pa.array(carried))

    def _wrong_key(self, piece: pa.Table) -> str | None:
        """The fault of the numbers or the times of a piece, in the words of a whole run; None if there is none."""
        seq, at = piece["seq"].to_numpy(), piece["at_ns"].to_numpy()
        odd = np.flatnonzero(seq != self._count + np.arange(len(seq)))
        if len(odd):
            number, found = self._count + int(odd[0]), int(seq[odd[0]])
            return f"event {number} is missing" if found > number else f"event {found} is recorded twice"
        if self._runs["world"][0].as_py() == "simulated":
            before = np.concatenate(([self._last_ns], at[:-1]))
            back = np.flatnonzero(at < before)
            if len(back):
                return f"event {int(seq[back[0]])} is earlier than the one before it"
        self._last_ns = int(at[-1])
        return None


def judge_in_segments(pieces: Iterable[pa.Table], runs: pa.Table) -> Judgement:
    """Judge one run of which the events come in pieces, in the order of `seq`. runs: its one row.

    Raises HistoryUnreadable as `SegmentJudge`.
    """
    judging = SegmentJudge(runs)
    for piece in pieces:
        judging.add(piece)
    return judging.end()


def pieces_of(events: pa.Table, *, size: int = EVENTS_OF_A_PIECE) -> Iterator[pa.Table]:
    """The events of one run, in the order of `seq`, in pieces of at most `size`."""
    for start in range(0, len(events), size):
        yield events.slice(start, size)


def _numbered(events: pa.Table) -> pa.Table:
    """The same events, numbered from 0: a stretch of a run is judged as a run of its own."""
    place = events.column_names.index("seq")
    return events.set_column(place, SCHEMA.field("seq"), pa.array(np.arange(len(events), dtype=np.int64)))


def _described(runs: pa.Table, *, is_over: bool) -> pa.Table:
    """The row of the run for a stretch of it. is_over: the run ends with the stretch; else it is cut off there."""
    row = runs.to_pylist(maps_as_pydicts="strict")[0]
    row |= {"digest": None, "event_count": None, "thresholds": None}
    if not is_over:
        row |= {"is_cut_off": True, "end_ns": None}
    return pa.Table.from_pylist([row], pa.schema([RUNS_SCHEMA.field(name) for name in runs.column_names]))


def _served(events: Events) -> set[tuple[str, str]]:
    """The clients that were granted a lock, by node and task."""
    calls = events.rows(Kind.CALL)
    returns = events.index_by_request(Kind.RETURN)[events.request_keys(calls)]
    is_granted = (returns >= 0) & (events.numbers("outcome")[np.maximum(returns, 0)] == Outcome.APPLIED)
    calls = calls[is_granted & (events.numbers("op")[calls] == Op.ACQUIRE)]
    pairs = np.unique(np.stack([events.codes(name)[calls] for name in ("node", "task")]), axis=1)
    return {(events.text("node", node), events.text("task", task)) for node, task in pairs.T.tolist()}


def _uncalled(case: Case) -> frozenset[int]:
    """When grants began that no call asked for, and that no grant of these events explains: earlier ones came back."""
    truth, grants = case.truth, case.truth.grants
    here = (case.call_of_grant < 0) & grants.lapses
    if not here.any():
        return frozenset()
    here &= ~find_revivals(truth, case.call_of_grant) & ~sent_in_acquire(truth)
    return frozenset(grants.begin_hi_ns[here].tolist())


def _names_what_is_gone(events: Events, kept: int) -> bool:
    """True if an event of the piece names a call, a sending or a state that the carried events do not hold.

    kept: how many of the events were carried.
    """
    kind, op, request = events.numbers("kind"), events.numbers("op"), events.integers("request")
    place = np.arange(events.count)
    is_new: Flags = place >= kept
    calls = events.index_by_request(Kind.CALL)
    tenure = np.flatnonzero(is_new & are_among(kind, (Kind.BELIEVED, Kind.EFFECT)) & (request >= 0))
    if bool(np.any(calls[events.request_keys(tenure)] < 0)):
        return True
    told = np.flatnonzero(is_new & are_among(kind, (Kind.APPLIED, Kind.REPLIED)) & (request >= 0) & (op != Op.READ))
    if bool(np.any(events.sent_by_request[events.request_keys(told)] < 0)):
        return True
    # A record that is renewed or given back names its owner. A name that no carried write and no acquire shows is gone,
    # or one that a lock writes into every record that it gives back, which the carried writes show, too.
    owner = events.codes("owner")
    is_write = are_among(kind, (Kind.APPLIED, Kind.REPLIED)) & (events.numbers("outcome") == Outcome.APPLIED)
    is_kept = is_write & are_among(op, (Op.RENEW, Op.RELEASE)) & (owner != NO_TEXT)
    # Where the service does not tell what took effect, an acquire that was sent may have.
    is_told = bool(np.any(kind == Kind.APPLIED))
    known = np.unique(owner[(is_write & ~is_new) | ((op == Op.ACQUIRE) & (is_write | (not is_told)))])
    if bool(np.any(~np.isin(owner[is_kept & is_new], known))):
        return True
    version, condition = events.codes("version"), events.codes("if_version")
    is_read = (kind == Kind.REPLIED) & (op == Op.READ) & (events.numbers("outcome") == Outcome.APPLIED)
    shown: Ints = np.unique(version[np.flatnonzero(is_read & is_new)])
    made = np.unique(np.concatenate((version[~(is_read & is_new)], condition)))
    return bool(np.any(~np.isin(shown[shown != NO_TEXT], made)))
