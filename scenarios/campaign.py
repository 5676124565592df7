"""Many seeds of scenarios under one lock: simulated and judged by the chunk, with nothing written.

A campaign answers how often each clause broke, in which distinct ways, and whether what the scenario is about ever
happened. Seeds are cut into chunks. A chunk is simulated and judged in one process, and only what the judge said and a
few histories leave it: so the work spreads over all cores, and memory does not grow with the seeds. The answer does not
depend on the number of processes: chunks are joined in the order of seeds, and the lowest seed speaks for each distinct
failure (`scenarios.campaigns.collection`).

Several campaigns share one pool of processes: the chunks of the next one are begun while the last ones of this one
still run. Rejected: a pool for each campaign, which waits at its end for its slowest chunk and starts new interpreters
for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lockref.host_processes import cores
from lockref.lab.loading import ProviderSpec
from scenarios.campaigns.chunks import run_chunk, run_sheltered
from scenarios.campaigns.collection import OnProgress, collect
from scenarios.campaigns.orders import KEEP_RUNS, Order
from scenarios.campaigns.result import CampaignResult
from scenarios.definition.schema import Scenario
from scenarios.executor import Executor, executor_for

SEEDS_PER_PROCESS_MIN = 200
"""Below this a second process costs more than it saves: it starts an interpreter."""

DETERMINISM_EVERY: Final = 10
"""Where traces are to be compared, every so many-th seed of a chunk is run twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Executors on which several groups of campaigns run, one after the other.

    executor: begun, and ended by whoever made it. sent: a lock by its name, as executors load it. slots: the pieces
    that can run at the same time, as far as is known by now.
    """

    executor: Executor
    sent: Mapping[str, ProviderSpec]
    slots: Callable[[], int]


def run_campaign(
    scenario: Scenario,
    spec: ProviderSpec,
    seeds: Sequence[int],
    *,
    processes: int = 1,
    keep_runs: int = KEEP_RUNS,
    check_determinism_every: int = 0,
    is_over: Callable[[], bool] = lambda: False,
    on_progress: OnProgress = lambda _result: None,
    not_demanded: frozenset[str] = frozenset(),
    watched: int = 1,
) -> CampaignResult:
    """Simulate and judge `seeds` of one scenario: one campaign of `run_campaigns`; see there and `Order`.

    keep_runs: how many of the first runs to keep the histories of; those of distinct failures are kept besides.
    check_determinism_every: run every k-th seed of a chunk a second time, and compare.
    Errors: DeterminismError with the first differing event; ConfigError for a lock that raises what is no LockError.
    """
    order = Order(
        scenario=scenario,
        spec=spec,
        seeds=seeds,
        keep=keep_runs,
        compare_every=check_determinism_every,
        not_demanded=not_demanded,
        watched=watched,
    )
    (total,) = run_campaigns([order], processes=processes, is_over=is_over, on_progress=on_progress)
    if total.error is not None:
        raise total.error
    return total


def run_campaigns(
    orders: Sequence[Order],
    *,
    earlier: Sequence[CampaignResult | None] = (),
    processes: int = 1,
    cluster: Cluster | None = None,
    is_over: Callable[[], bool] = lambda: False,
    on_progress: OnProgress = lambda _result: None,
) -> Generator[CampaignResult, None, None]:
    """Simulate and judge campaigns without a place: `collect` in processes of this machine, or on a cluster.

    processes: in a pool that lives as long as the generator. cluster: runs the chunks in their place, and each lock in
    a process of its own. The rest, and the errors: see `collect`.
    """
    if cluster is None:
        chunks = sum(order.chunks for order in orders)
        # Not sheltered: the command's own process is watched, and worker processes are.
        executor, work = executor_for(processes, chunks), run_chunk
    else:
        executor, work = cluster.executor, run_sheltered
        orders = [replace(order, spec=cluster.sent[order.spec.name]) for order in orders]
    return collect(orders, executor, earlier=earlier, work=work, is_over=is_over, on_progress=on_progress)


def default_processes(seed_count: int) -> int:
    """As many as there are cores, unless the seeds are too few to be worth it."""
    return max(1, min(cores(), seed_count // SEEDS_PER_PROCESS_MIN))
