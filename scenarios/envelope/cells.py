"""The cells of an envelope: each is one campaign, and all of them share the pool of processes of `run_campaigns`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from lockref.errors import LockrefError
from lockref.lab.loading import ProviderSpec
from reports.checks.measures.confidence import share_95
from reports.checks.situation_names import TOKEN
from reports.checks.spec import SAFETY
from reports.checks.verdicts import decide
from scenarios.campaign import Cluster, default_processes, run_campaigns
from scenarios.campaigns.orders import Order
from scenarios.campaigns.result import CampaignResult
from scenarios.envelope.contended import Point, scenario_at

HARM = "S4"
"""The clause whose violation is damage: a late write that the resource accepted."""


POOL_RUNS_MIN = 1_500
"""Runs of one step from which on several processes are faster. A search takes several short steps, and each would start
interpreters anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The result of one cell. runs: how many were judged. violated: in how many of them a safety clause broke.

    clauses: by clause, in how many runs it broke. seeds: by clause, the lowest seed that broke it. shows_tokens: a
    grant carried one. is_judged: False if the runs prove nothing, such as where nobody was granted the lock.
    error: what ended the cell early.
    """

    provider: str
    point: Point
    runs: int
    violated: int
    clauses: Mapping[str, int]
    seeds: Mapping[str, int]
    shows_tokens: bool
    is_judged: bool
    error: LockrefError | None = None

    @property
    def has_broken(self) -> bool:
        return self.violated > 0

    @property
    def harmed(self) -> int:
        """In how many runs a late write was accepted."""
        return self.clauses.get(HARM, 0)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the share of runs that break: up to 3/N where none did, else Wilson's."""
        return share_95(self.violated, self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellToRun:
    """One cell to be run: a lock at a point."""

    spec: ProviderSpec
    point: Point


def measured(
    asked: Sequence[CellToRun],
    seeds: Sequence[int],
    *,
    processes: int | None,
    is_over: Callable[[], bool],
    cluster: Cluster | None = None,
) -> Generator[Cell, None, None]:
    """Run the cells and judge them: each as soon as all its seeds are done, in their order.

    processes: None for one on each core, where that is faster. is_over: asked after each chunk of seeds; True ends it.
    cluster: runs the cells in the place of processes of this machine.
    A cell that was not run to its end is left out.
    Errors: KeyboardInterrupt after Ctrl-C, when the cells that were done have been given.
    """
    orders = [Order(scenario=scenario_at(each.point), spec=each.spec, seeds=seeds, keep=0, watched=0) for each in asked]
    runs = len(seeds) * len(orders)
    count = processes or (default_processes(runs) if runs >= POOL_RUNS_MIN else 1)
    with closing(run_campaigns(orders, processes=count, cluster=cluster, is_over=is_over)) as finished:
        # Not strict: after Ctrl-C the campaigns that are left have no result.
        for each, result in zip(asked, finished, strict=False):
            if result.is_interrupted:
                raise KeyboardInterrupt
            if result.error is not None or result.summary.runs == len(seeds):
                yield cell_of(each, result)


def cell_of(asked: CellToRun, result: CampaignResult) -> Cell:
    """The cell that a campaign has measured."""
    summary = result.summary
    seeds: dict[str, int] = {}
    for finding in summary.findings:
        if finding.is_safety:
            seeds[finding.clause] = min(finding.run, seeds.get(finding.clause, finding.run))
    broken = {clause: summary.verdicts[clause]["violated"] for clause in SAFETY if clause in summary.verdicts}
    return Cell(
        provider=asked.spec.name,
        point=asked.point,
        runs=summary.runs,
        violated=summary.broken_runs,
        clauses={clause: number for clause, number in broken.items() if number},
        seeds=seeds,
        shows_tokens=summary.reach.get(TOKEN, (0, 0))[0] > 0,
        is_judged=summary.runs > 0 and decide(summary).safety != "inconclusive",
        error=result.error,
    )
