"""The work of an executor on a chunk: simulate it, judge it, keep histories where they are, and commit it.

The account of the chunk is written last, in one step. Whoever dies before leaves at most histories, which the next
one writes again under the same names, with the same bytes. So nothing is lost, and nothing is counted twice.
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
from lockref.runtime import NS_PER_S
from reports.checks import judge
from reports.checks.summary import Summary
from reports.history_files import CHUNKS, EVENTS, RUNS
from scenarios.batch import run_seeds
from scenarios.campaign import expect_same_traces
from scenarios.campaigns.account import ChunkAccount, account_of
from scenarios.campaigns.orders import ChunkOrder
from scenarios.campaigns.places import Place
from scenarios.campaigns.sheltered import shelter
from scenarios.worlds.judged_result import History, broken_runs, joined_histories, only_runs

_ACCOUNT: Final = re.compile(r"chunk-([0-9]{6})\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkAnswer:
    """The answer of an executor: the account of its chunk, or the error in its place.

    campaign, chunk: the identity of the campaign, and the number of the chunk.
    """

    campaign: str
    chunk: int
    account: ChunkAccount | None = None
    error: LockrefError | None = None


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
        return ChunkAnswer(campaign=order.identity, chunk=order.number, error=error)


def run_chunk(order: ChunkOrder) -> ChunkAnswer:
    """Simulate and judge a chunk, write its histories, commit it.

    A LockrefError of the lock or of its scenario is in the answer. Raises BackendUnavailable or OSError for a place
    that cannot be written.
    """
    began_ns = _processor_ns()
    total = Summary(not_demanded=order.not_demanded)
    digests: list[str] = []
    effects: Counter[str] = Counter()
    compared = 0
    kept: list[History] = []
    failures: list[int] = []
    try:
        for seeds in order.batches():
            # What a lock always does shows in one run: the first of the campaign runs under the strict auditor.
            is_first = order.number == 0 and seeds[0] == order.seeds[0]
            outcomes = run_seeds(
                order.scenario, order.spec, seeds, watched=int(is_first), exploration=order.exploration
            )
            compared += expect_same_traces(
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
            known = {finding.key for finding in total.findings}
            speakers = {finding.run for finding in part.findings if finding.key not in known}
            total.add(part)
            digests += [each.digest for each in outcomes]
            for row in runs["fault_effects"].to_pylist():
                effects.update(dict(row or ()))
            if order.keeps_speakers:
                new = sorted(speakers)
            else:
                broken = sorted(broken_runs(judgement.verdicts, order.not_demanded))
                new = broken[: max(0, order.failures_left - len(failures))]
            failures += new
            wanted = sorted({*new, *(seed for seed in order.sample if seed in seeds)})
            if wanted:
                kept.append(only_runs((events, runs), wanted))
            del outcomes, events, runs, judgement, part
            gc.collect(0)
        account = account_of(
            total,
            digests,
            campaign=order.identity,
            chunk=order.number,
            seeds=(order.seeds[0], order.seeds[-1]),
            effects=dict(sorted(effects.items())),
            compared=compared,
            kept=tuple(run for _, runs in kept for run in runs["run"].to_pylist()),
            failures_kept=tuple(failures),
            processor_ns=_processor_ns() - began_ns,
        )
    except LockrefError as error:
        return ChunkAnswer(campaign=order.identity, chunk=order.number, error=error)
    if kept:
        write_kept(order.place, order.number, kept)
    order.place.write(account_name(order.number), account.sealed())
    return ChunkAnswer(campaign=order.identity, chunk=order.number, account=account)


def _processor_ns() -> int:
    """The processor time of this process: on a busy machine it tells what seeds cost, where real time does not."""
    return round((os.times().user + os.times().system) * NS_PER_S)


def write_kept(place: Place, number: int, kept: Sequence[History]) -> None:
    """Write the kept histories of one chunk, runs first: readers look for events, and then for their runs.

    Raises BackendUnavailable or OSError, as `Place.write`.
    """
    events_name, runs_name = history_names(number)
    events, runs = joined_histories(kept)
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
    events, runs = kept
    left = [run for run in runs["run"].to_pylist() if run not in surplus]
    if len(left) == len(runs):
        return
    if left:
        write_kept(place, number, [only_runs((events, runs), left)])
    else:
        for name in history_names(number):
            place.remove(name.rpartition("/")[0])
