"""One pass over histories: shares dealt, worked on by an executor, and what they tell added up.

The executor is a function: Spark's in `reports.pipeline.analysis`, and a plain loop does as well, so everything but the
cluster can be tried without one. Each method of `OnePass` is a stage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lockref.errors import HistoryUnreadable
from reports.history_files import Notes, described_history
from reports.pipeline.inputs import RUN_BITS, Source, split_run
from reports.pipeline.measuring import TIMELINE_COLUMNS, show_timelines
from reports.pipeline.places import Place
from reports.pipeline.planning import (
    EVENTS_PER_SHARE,
    READ_AGAIN_MAX,
    RowGroup,
    RunRange,
    deal_runs,
    expect_fitting,
    read_again,
    take_stock,
)
from reports.pipeline.quarantine import write_lost
from reports.pipeline.staging import Staged, Stretch, sort_rows, sortings, stage_lines, stretches
from reports.pipeline.summary import Facts, FailureRow
from reports.pipeline.worker import Share, Told, dealt, read_share, work_on

TASKS_MAX: Final = 256
"""Tasks of one job: each tells the driver its facts, so their number must not follow that of the events."""

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class Executor(Protocol):
    """Does work somewhere else, or here: the answers to tasks, in their order."""

    def __call__(self, tasks: Sequence[Asked], work: Callable[[Asked], Answer], /) -> list[Answer]: ...


@dataclass
class OnePass:
    """One pass over one set of histories.

    out: the folder of the tables. is_joint: all sources are one part, with one account; otherwise each is its own part.
    cores: so many tasks are worked on at once. run_events_max: the most events of one run that a worker can judge.
    """

    sources: Sequence[Source]
    out: Place
    executor: Executor
    is_joint: bool
    cores: int
    run_events_max: int
    share_events: int = EVENTS_PER_SHARE
    shares: list[Share] = field(default_factory=list, init=False)
    facts: list[Facts] = field(default_factory=list, init=False)
    peak_bytes: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        parts = [self.sources] if self.is_joint else [[source] for source in self.sources]
        self.facts = [Facts(sources={source.index: source.name for source in part}) for part in parts]

    def run(self) -> list[Facts]:
        """Every stage; the facts, part by part."""
        with self._whole_tables(), self._staging() as staging:
            described = [source.described() for source in self.sources]
            staged = self._stage_lines(staging)
            for source, runs in zip(self.sources, described, strict=True):
                self._deal(source, runs, staged.get(source.index), staging)
            told = Told()
            tasks = dealt(self.shares, max(self.cores, min(TASKS_MAX, len(self.shares))))
            for one in self.executor(tasks, partial(work_on, out=self.out)):
                told.join(one)
            if told.refused:
                raise HistoryUnreadable(told.refused)
            self._take(told)
            self._show_timelines()
        return self.facts

    @contextmanager
    def _whole_tables(self) -> Iterator[None]:
        """Remove the tables of an earlier pass, and those of this one if it ends early: none looks finished."""
        folders = [self.out.below(name) for name in ("tables", "quarantine")]
        for folder in folders:
            folder.removed()
        try:
            yield
        except HistoryUnreadable:
            for folder in folders:
                folder.removed()
            raise

    @contextmanager
    def _staging(self) -> Iterator[Place]:
        folder = self.out.below("staging")
        folder.removed()
        try:
            yield folder
        finally:
            folder.removed()

    def _part(self, source: Source) -> int:
        return 0 if self.is_joint else source.index

    def _stage_lines(self, staging: Place) -> dict[int, list[Staged]]:
        """The JSON lines of all sources, written as Parquet; by source, what was found in them."""
        tasks = [
            stretch
            for source in self.sources
            if not source.is_parquet
            for stretch in stretches(source.index, source.events)
        ]
        found: dict[int, list[Staged]] = {source.index: [] for source in self.sources if not source.is_parquet}
        work = partial(_staged, staging=staging, quarantine=self.out.below("quarantine"))
        for one in self.executor(tasks, work):
            found[one.index].append(one)
        return found

    def _deal(
        self, source: Source, described: pa.Table | None, staged: Sequence[Staged] | None, staging: Place
    ) -> None:
        """The shares of one source."""
        lost_runs: frozenset[int] = frozenset()
        cut_off: list[int] = []
        nameless = 0
        if staged is None:
            files = source.events.files()
        else:
            files = [one.file for one in staged if one.file is not None]
            cut_off, nameless = self._take_lines(source, staged)
            lost_runs = frozenset().union(*(one.lost_runs for one in staged))
        groups = take_stock(files)
        nameless += sum(group.nameless for group in groups)
        if not any(group.rows for group in groups):
            self._refuse_empty(source, Counter())
        expect_fitting(source.name, groups, self.run_events_max)
        ranges, groups = self._ranges(source, described, groups, staging)
        base = Share(
            number=0,
            index=source.index,
            name=source.name,
            part=self._part(source),
            is_one_of_several=self.is_joint and len(self.sources) > 1,
            first=0,
            last=0,
        )
        for each in ranges:
            inside = range(each.first, each.last + 1)
            self.shares.append(
                replace(
                    base,
                    number=len(self.shares),
                    first=each.first,
                    last=each.last,
                    groups=each.groups,
                    described=_between(described, each),
                    lost_runs=frozenset(run for run in lost_runs if run in inside),
                    cut_off=tuple(run for run in cut_off if run in inside),
                    is_suspect=nameless > 0 or source.is_lacking,
                )
            )
        unnamed = tuple(group for group in groups if group.nameless)
        # Runs that lost every record that they had are in no other share.
        rest = frozenset(run for run in lost_runs if not any(each.first <= run <= each.last for each in ranges))
        if unnamed or rest:
            nobody = None if described is None else described.slice(0, 0)
            self.shares.append(
                replace(
                    base,
                    number=len(self.shares),
                    with_nameless=True,
                    groups=unnamed,
                    described=nobody,
                    lost_runs=rest,
                )
            )

    def _take_lines(self, source: Source, staged: Sequence[Staged]) -> tuple[list[int], int]:
        """Take note of lines that are no events; the run that a torn last line cuts off, and how many name no run."""
        facts = self.facts[self._part(source)]
        lost: Counter[str] = Counter()
        for one in staged:
            lost.update(one.lost)
        nameless = sum(one.nameless for one in staged)
        torn = staged[-1].torn if staged else None
        before = [one.last_run for one in staged if one.last_run is not None]
        if torn is not None and not before:
            lost[torn.reason] += 1
            nameless += torn.run is None
            place = self.out.below("quarantine", f"lines-{source.index:05}-torn.json")
            write_lost(place, torn.lost, str(source.events), source.index, source.index << RUN_BITS)
        facts.rejects.update({(source.index, reason): count for reason, count in lost.items()})
        facts.counts.nameless += nameless
        if not before:
            self._refuse_empty(source, lost)
        return (before[-1:] if torn is not None else []), nameless

    def _refuse_empty(self, source: Source, lost: Counter[str]) -> None:
        reasons = "; ".join(f"{number} x {reason}" for reason, number in lost.items())
        raise HistoryUnreadable(f"{source.name} holds no event ({reasons or 'it is empty'})")

    def _ranges(
        self, source: Source, described: pa.Table | None, groups: list[RowGroup], staging: Place
    ) -> tuple[list[RunRange], list[RowGroup]]:
        """The runs in shares, and their row groups: those of the files, or of files in which runs stand together."""
        events = sum(group.rows for group in groups)
        # As many shares for one core as for each other: of three shares on two cores, one core would do two.
        rounds = -(-events // (self.share_events * self.cores))
        share_events = -(-events // max(1, rounds * self.cores))
        ranges = deal_runs(groups, described, share_events=share_events)
        if read_again(ranges, groups) <= READ_AGAIN_MAX:
            return ranges, groups
        tasks = list(sortings(source.index, groups, tuple(each.first for each in ranges[1:])))
        groups = take_stock(self.executor(tasks, partial(sort_rows, staging=staging)))
        return deal_runs(groups, described, share_events=share_events), groups

    def _take(self, told: Told) -> None:
        self.peak_bytes = told.peak_bytes
        for part, facts in told.facts.items():
            self.facts[part].join(facts)
        for source in self.sources:
            if not told.read.get(source.index):
                rejects = self.facts[self._part(source)].rejects
                lost = {reason: number for (index, reason), number in rejects.items() if index == source.index}
                self._refuse_empty(source, Counter(lost))
        for facts in self.facts:
            facts.counts.answers.sort(key=lambda row: row["run"])
            facts.counts.speeds.sort(key=lambda row: row["run"])

    def _show_timelines(self) -> None:
        """The events and grants of the runs of failures, read once more."""
        for facts in self.facts:
            wanted: dict[int, list[FailureRow]] = {}
            for failure in facts.with_timelines:
                wanted.setdefault(failure.run, []).append(failure)
            for number, failures in wanted.items():
                index, run = split_run(number)
                [share] = [one for one in self.shares if one.index == index and one.first <= run <= one.last][:1]
                alone = _alone(share, run)
                events, _ = described_history(read_share(alone)[0], alone.described, Notes())
                grants = self.out.below("tables", "grants", f"part-{share.number:07}.parquet")
                with grants.open() as file:
                    table = pq.read_table(file, filters=pc.field("run") == number)
                table = table.set_column(table.column_names.index("run"), "run", pa.repeat(pa.scalar(run), len(table)))
                show_timelines(failures, events.select(TIMELINE_COLUMNS), table)


def _alone(share: Share, run: int) -> Share:
    groups = tuple(group for group in share.groups if group.rows_between(run, run))
    each = RunRange(run, run, 0, groups)
    return replace(share, first=run, last=run, groups=groups, described=_between(share.described, each))


def _between(described: pa.Table | None, each: RunRange) -> pa.Table | None:
    if described is None:
        return None
    inside = pc.and_(pc.greater_equal(described["run"], each.first), pc.less_equal(described["run"], each.last))
    return described.filter(inside)


def _staged(stretch: Stretch, staging: Place, quarantine: Place) -> Staged:
    return stage_lines(stretch, stretch.index << RUN_BITS, staging, quarantine)
