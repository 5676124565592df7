"""The work of an executor on a chunk: simulate it, judge it, keep histories where they are, and commit it.

The account of the chunk is written last, in one step. Whoever dies before leaves at most histories, which the next
one writes again under the same names, with the same bytes. So nothing is lost, and nothing is counted twice.

A chunk without a place is not committed: account and histories are in the answer.
"""

from __future__ import annotations

import gc
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from lockref.errors import LockrefError
from lockref.history import runs_table, to_table
from lockref.runtime import NS_PER_S, ThreadRuntime
from reports.checks import Judgement, judge
from reports.checks.summary import Summary
from reports.history_files import CHUNKS, EVENTS, RUNS
from scenarios.batch import run_seeds
from scenarios.campaigns.account import ChunkAccount, account_of
from scenarios.campaigns.orders import ChunkOrder
from scenarios.campaigns.places import Place
from scenarios.campaigns.repeated_runs import expect_same_traces
from scenarios.campaigns.sheltered import shelter
from scenarios.worlds.judged_result import History, broken_runs, joined_histories, only_runs

_monotonic_ns: Final = ThreadRuntime().monotonic_ns

_ACCOUNT: Final = re.compile(r"chunk-([0-9]{6})\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkAnswer:
    """The answer of an executor: the account of its chunk, or the error in its place.

    campaign, chunk: the number of the campaign among those that are run together, and of the chunk in it. histories:
    the kept ones of a chunk without a place; None where there are none. spent_ns: real time that the chunk took.
    """

    campaign: int
    chunk: int
    account: ChunkAccount | None = None
    error: LockrefError | None = None
    histories: History | None = None
    spent_ns: int = 0


def account_name(number: int) -> str:
    """The file that commits a chunk, in the place of its campaign."""
    return f"{CHUNKS}/chunk-{number:06d}.json"


def committed_chunks(place: Place) -> list[int]:
    """The numbers of the chunks whose account stands in a place, sorted."""
    found = (_ACCOUNT.fullmatch(name) for name in place.names(CHUNKS))
    return sorted(int(match[1]) for match in found if match is not None)


def history_names(number: int) -> tuple[str, str]:
    """The files of a chunk's kept histories: events and runs, as parts of partitioned Parquet."""
    part = f"chunk={number:06d}/part.parquet"
    return f"{EVENTS}.parquet/{part}", f"{RUNS}.parquet/{part}"


def run_sheltered(order: ChunkOrder) -> ChunkAnswer:
    """`run_chunk` in a process of its own: what the lock does to that process ends nothing else."""
    # The first table imports pandas. Here and not in the child, of which there may be several.
    pa.table({}).schema  # noqa: B018
    try:
        return shelter().call(run_chunk, order)
    except LockrefError as error:
        # A value, so that no executor takes a lock's fault for one of its own and tries again.
        return ChunkAnswer(campaign=order.campaign, chunk=order.number, error=error)


def run_chunk(order: ChunkOrder) -> ChunkAnswer:
    """Simulate and judge a chunk, write its histories, commit it.

    A LockrefError of the lock or of its scenario is in the answer. Raises BackendUnavailable or OSError for a place
    that cannot be written.
    """
    began_ns = _monotonic_ns()
    try:
        account, kept = _judged(order)
    except LockrefError as error:
        return ChunkAnswer(campaign=order.campaign, chunk=order.number, error=error)
    if order.place is not None:
        if kept is not None:
            write_kept(order.place, order.number, kept)
            kept = None
        order.place.write(account_name(order.number), account.sealed())
    return ChunkAnswer(
        campaign=order.campaign,
        chunk=order.number,
        account=account,
        histories=kept,
        spent_ns=_monotonic_ns() - began_ns,
    )


def _judged(order: ChunkOrder) -> tuple[ChunkAccount, History | None]:
    """The account of a chunk that was run and judged here, and the histories to keep; None where there are none."""
    began_ns = _processor_ns()
    judged = _JudgedBatches(order)
    for number, seeds in enumerate(order.batches()):
        # What a lock always does shows in one run: the first of the campaign runs under the strict auditor.
        judged.run(seeds, watched=order.watched if number == 0 else 0)
        gc.collect(0)
    return judged.account(processor_ns=_processor_ns() - began_ns)


class _JudgedBatches:
    """The batches of a chunk that were run and judged so far: their counts, digests, and the histories to keep."""

    def __init__(self, order: ChunkOrder) -> None:
        self._order = order
        self._total = Summary(not_demanded=order.not_demanded)
        self._digests: list[str] = []
        self._effects: Counter[str] = Counter()
        self._compared = 0
        self._kept: list[History] = []
        self._failures: list[int] = []

    def run(self, seeds: Sequence[int], *, watched: int) -> None:
        """Simulate one batch, and judge it in one call. Raises LockrefError of the lock or of its scenario."""
        order = self._order
        outcomes = run_seeds(order.scenario, order.spec, seeds, watched=watched, exploration=order.exploration)
        self._compared += expect_same_traces(
            order.scenario, order.spec, outcomes, every=order.compare_every, exploration=order.exploration
        )
        events = to_table([each.recorder for each in outcomes], [each.seed for each in outcomes])
        runs = runs_table(each.run_row for each in outcomes)
        judgement = judge(events, runs)
        part = Summary.of_runs(
            judgement,
            runs,
            event_count=len(events),
            fault_kinds={each.seed: each.fired_kinds for each in outcomes},
            not_demanded=order.not_demanded,
        )
        new = self._failures_to_keep(part, judgement)
        self._total.add(part)
        self._digests += [each.digest for each in outcomes]
        for row in runs["fault_effects"].to_pylist():
            self._effects.update(dict(row or ()))
        self._failures += new
        wanted = sorted({*new, *(seed for seed in order.sample if seed in seeds)})
        if wanted:
            self._kept.append(only_runs((events, runs), wanted))

    def _failures_to_keep(self, part: Summary, judgement: Judgement) -> list[int]:
        """The runs of one batch whose histories are kept because of what broke in them."""
        if self._order.keeps_speakers:
            known = {finding.key for finding in self._total.findings}
            return sorted({finding.run for finding in part.findings if finding.key not in known})
        broken = sorted(broken_runs(judgement.verdicts, self._order.not_demanded))
        return broken[: max(0, self._order.failures_left - len(self._failures))]

    def account(self, *, processor_ns: int) -> tuple[ChunkAccount, History | None]:
        """The account of the chunk, and its kept histories. processor_ns: processor time that all of it took."""
        order = self._order
        kept = joined_histories(self._kept) if self._kept else None
        account = account_of(
            self._total,
            self._digests,
            campaign=order.identity,
            chunk=order.number,
            seeds=(order.seeds[0], order.seeds[-1]),
            effects=dict(sorted(self._effects.items())),
            compared=self._compared,
            kept=() if kept is None else tuple(kept[1]["run"].to_pylist()),
            failures_kept=tuple(self._failures),
            processor_ns=processor_ns,
        )
        return account, kept


def _processor_ns() -> int:
    """The processor time of this process: on a busy machine it tells what seeds cost, where real time does not."""
    return round((os.times().user + os.times().system) * NS_PER_S)


def write_kept(place: Place, number: int, kept: History) -> None:
    """Write the kept histories of one chunk, runs first: readers look for events, and then for their runs.

    Raises BackendUnavailable or OSError, as `Place.write`.
    """
    events_name, runs_name = history_names(number)
    events, runs = kept
    for name, table in ((runs_name, runs.unify_dictionaries()), (events_name, events)):
        stream = pa.BufferOutputStream()
        pq.write_table(table, stream, compression="zstd")
        place.write(name, stream.getvalue().to_pybytes())


def read_kept(place: Place, number: int) -> History | None:
    """The kept histories of one chunk; None where it keeps none. Raises BackendUnavailable or OSError, as `Place`."""
    contents = [content for name in history_names(number) if (content := place.read(name)) is not None]
    if len(contents) < len(history_names(number)):
        return None
    events, runs = (pq.read_table(pa.BufferReader(content)) for content in contents)
    return events, runs


def drop_kept(place: Place, number: int, surplus: frozenset[int]) -> None:
    """Take runs out of the kept histories of one chunk. Does nothing where they are gone already.

    Raises BackendUnavailable or OSError, as `Place`.
    """
    kept = read_kept(place, number)
    if kept is None:
        return
    runs = kept[1]["run"].to_pylist()
    left = [run for run in runs if run not in surplus]
    if len(left) == len(runs):
        return
    if left:
        write_kept(place, number, only_runs(kept, left))
    else:
        for name in history_names(number):
            place.remove(name.rpartition("/")[0])
