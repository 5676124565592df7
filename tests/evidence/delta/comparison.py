"""Our commit protocols beside the originals: commits a second and latencies, on one server in one run.

Ours are the protocols of the simulated world, run by `run_real` and judged by the clauses DL1 to DL5. An original is
judged by its log, read back. Every writer is a process of its own, and all of them begin together.

An original's append also writes a small Parquet file and loads its table as it sees fit, so figures compare what a
user waits for, not single requests.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lockref.lab.loading import load_provider
from lockref.runtime import NS_PER_S
from reports.checks import judge
from reports.checks.facts.case import open_case
from reports.checks.measures.commits import commit_figures
from reports.checks.spec import VIOLATED
from scenarios.definition.load import parse_scenario
from scenarios.run import run_real
from tests.evidence.delta.findings import Experiment, committed
from tests.evidence.delta.lake import LOG_STORE, lock_options
from tests.evidence.delta.today import CURRENT

PATIENCE_S: Final = 600
"""So long all commits of one contestant may take together."""

LEASE_S: Final = 20
_SCENARIO: Final = """
version: 1
name: compared
clients: {writers}
duration: {patience}s
lock: {{validity: {lease}s, renew_every: 5s, poll_every: 1s}}
services: {{rows: {{kind: table}}}}
workload: {{kind: delta_log, life: {life}, protocol: {protocol}, cycles: {commits}, think: 0s, hold: 0s, writes: 1,
  wait: {patience}s}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one contestant did.

    acknowledged, refused: commits by what their writers were told; refused includes "nobody knows".
    taken: versions tried that were somebody else's; None where nobody tells. lost, twice: acknowledged commits that are
    in no version, or in several. landed: commits that were refused and are there. seconds: of each acknowledged commit,
    from the call, including the wait for a lock. broken: other clauses that broke.
    """

    name: str
    writers: int
    acknowledged: int
    refused: int
    taken: int | None
    lost: int
    twice: int
    landed: int
    took_s: float
    seconds: Sequence[float]
    broken: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Every acknowledged commit is in exactly one version, and no other is there."""
        return not (self.lost or self.twice or self.landed or self.broken)

    @property
    def per_second(self) -> float:
        return self.acknowledged / self.took_s

    def at_most(self, share: float) -> float:
        """So many seconds, or fewer, were enough for this share of the acknowledged commits."""
        return sorted(self.seconds)[round(share * (len(self.seconds) - 1))] if self.seconds else float("nan")

    def cells(self) -> list[str]:
        return [
            self.name, str(self.writers), str(self.acknowledged), str(self.refused), f"{self.per_second:.1f}",
            f"{self.at_most(0.5):.2f}", f"{self.at_most(0.99):.2f}", "" if self.taken is None else str(self.taken),
            str(self.lost), str(self.twice), str(self.landed),
        ]  # fmt: skip


COLUMNS: Final = (
    "contestant", "writers", "acknowledged", "refused", "commits/s", "p50 s", "p99 s", "versions taken", "lost",
    "twice", "refused and there",
)  # fmt: skip


def ours(run: Experiment, protocol: str, *, name: str, is_locked: bool, commits: int, processes: int = 0) -> Figures:
    """One of our protocols. commits: of each writer. processes: default one for each writer."""
    scenario = parse_scenario(
        _SCENARIO.format(
            protocol=protocol, writers=run.writers, commits=commits, patience=PATIENCE_S, lease=LEASE_S,
            life="loop" if is_locked else "unlocked",
        )
    )  # fmt: skip
    outcome = run_real(
        scenario,
        load_provider("dynamodb"),
        run.lake.lock_uri,
        processes=processes or run.writers,
        places=run.lake.places(run.lake.new_bucket()),
    )
    return figures_of(outcome.events, outcome.runs, name=name, writers=run.writers)


def figures_of(events: pa.Table, runs: pa.Table, *, name: str, writers: int) -> Figures:
    """The figures of a run whose clients commit, from its history."""
    case = open_case(events, runs)
    found = commit_figures(case.events, case.commits)
    verdicts = judge(events, runs).verdicts.to_pylist()
    return Figures(
        name=name,
        writers=writers,
        acknowledged=found.acknowledged,
        refused=found.refused + found.unknown,
        taken=found.taken,
        lost=found.lost,
        twice=found.twice,
        landed=found.landed,
        took_s=(found.last_ns - found.first_ns) / NS_PER_S,
        seconds=(found.lasted_ns / NS_PER_S).tolist(),
        broken=tuple(row["clause"] for row in verdicts if row["verdict"] == VIOLATED),
    )


def original(
    run: Experiment, version: str, *, name: str, options: Callable[[int], Mapping[str, str]], commits: int
) -> Figures:
    """An original. options: of writer n. commits: of each writer, after a first one that makes the table."""
    table = run.new_table("t")
    with contextlib.ExitStack() as stack:
        peers = [
            stack.enter_context(run.lake.writer(version, table, options(number), name=f"w{number}"))
            for number in range(run.writers)
        ]
        committed(peers[0], "first")
        began_s = time.monotonic()
        for peer in peers:
            peer.ask(append=[f"{peer.name}-{number}" for number in range(commits)])
        answers = [peer.answer(PATIENCE_S) for peer in peers for _ in range(commits)]
        took_s = time.monotonic() - began_s
    log = run.lake.log(table)
    told = [answer["label"] for answer in answers if "acknowledged" in answer]
    refused = [answer["label"] for answer in answers if "error" in answer]
    return Figures(
        name=name,
        writers=run.writers,
        acknowledged=len(told),
        refused=len(refused),
        taken=None,
        lost=sum(log.times(label) == 0 for label in told),
        twice=sum(log.times(label) > 1 for label in told),
        landed=sum(log.times(label) > 0 for label in refused),
        took_s=took_s,
        seconds=[answer["seconds"] for answer in answers if "acknowledged" in answer],
    )


def contestants(run: Experiment, commits: int) -> Iterator[Figures]:
    """Each of them in turn, on a table of its own. commits: of each writer."""

    def lease(number: int) -> Mapping[str, str]:
        return lock_options(key, owner=f"w{number}", lease_s=LEASE_S)

    key = run.lake.new_key()
    yield original(run, CURRENT, name=f"deltalake {CURRENT}, conditional put", options=lambda _: {}, commits=commits)
    yield ours(run, "create_identity", name="our create with identity", is_locked=False, commits=commits)
    yield original(run, "1.2.1", name="deltalake 1.2.1, its log store", options=lambda _: LOG_STORE, commits=commits)
    yield ours(run, "helping", name="our helping log store", is_locked=False, commits=commits)
    yield original(run, "0.14.0", name="deltalake 0.14.0, its lock", options=lease, commits=commits)
    yield ours(run, "put", name="our lock, load and put under it", is_locked=True, commits=commits)


def compare(run: Experiment, *, writers: Sequence[int], total: int) -> bool:
    """Print the table. total: commits of each contestant. True if every ledger is exact."""
    run.say(_line(COLUMNS))
    run.say(_line(["---"] * len(COLUMNS)))
    is_exact = True
    for count in writers:
        run.writers = count
        for figures in contestants(run, max(1, total // count)):
            run.say(_line(figures.cells()))
            for clause in figures.broken:
                run.say(f"{figures.name}: {clause} broke")
            is_exact = is_exact and figures.is_exact
    return is_exact


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


COMPARISON: Final[dict[str, Callable[[Experiment], bool]]] = {
    "compare": lambda run: compare(run, writers=(run.writers, 10), total=16 * run.appends),
}
"""The comparison by name."""
