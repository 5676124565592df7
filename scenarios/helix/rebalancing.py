"""The cost of each rebalancer when an instance leaves and comes back, counted on the pipeline itself without a server.

Instances here execute every message at once and report it; the controller's own pipeline decides again until it sends
nothing. So moves, messages and runs are those of the real controller, and only time is missing.

Rules that hash depend on names. Each seed gives other names to locks and instances, and the figures are means over
seeds. Source: section 9 of the domain notes, whose table this computes; Mirrokni, Thorup and Zadimoghaddam,
"Consistent hashing with bounded loads", for the cap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean
from typing import Final

from lockref.helix.cluster.declared import lock_names
from lockref.helix.lock import LOCK_UNLOCK
from lockref.helix.measures import Change, loads, measure
from lockref.helix.pipeline import LockGroup, Replica, Snapshot, decide
from lockref.helix.rebalancers import REBALANCERS, Assignment, Question, Rebalancer, ranked, recipes_rule, ring
from lockref.helix.state_model import DROPPED

GROUP: Final = "locks"
RUNS_MAX: Final = 20
"""A rebalancer that has not settled by then never will: it gives another answer to every question."""


def capped_hrw(question: Question) -> Assignment:
    """Rendezvous hashing with a cap: an instance that has ⌈L/n⌉ locks gets no more. For one holder per lock."""
    if not question.live:
        return {}
    room = dict.fromkeys(question.live, -(-len(question.locks) // len(question.live)))
    found: dict[str, tuple[str, ...]] = {}
    for lock in question.locks:
        holder = next(each for each in ranked(lock, question.live) if room[each])
        room[holder] -= 1
        found[lock] = (holder,)
    return found


def orphans_only(question: Question) -> Assignment:
    """Holders keep their locks; locks without a holder go to the instance with the fewest. For one holder per lock.

    A new instance therefore gets nothing.
    """
    if not question.live:
        return {}
    kept = {lock: held[:1] for lock in question.locks if (held := question.holders.get(lock, ()))}
    load = loads(kept, question.live)
    for lock in question.locks:
        if lock not in kept:
            least = min(question.live, key=lambda each: (load[each], each))
            load[least] += 1
            kept[lock] = (least,)
    return kept


RULES: Final[Mapping[str, Rebalancer]] = {
    **{name: rule for name, rule in REBALANCERS.items() if rule is not recipes_rule},
    "hrw, capped": capped_hrw,
    "ring, 1 point": partial(ring, points=1),
    "sticky, orphans only": orphans_only,
}
"""The four that are built in, and three for comparison. The recipe's class moves what `mod` moves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """One change of the instances under one rule, mean over seeds. Counts of locks, messages and runs.

    fullest, emptiest: locks of these instances, after. runs: of the pipeline, without the last, which sends nothing.
    free_runs: for so many runs a lock that changed hands was held by nobody. A lock of a live holder is free from the
    run that takes it back to the run that grants it.
    """

    moved: float
    unnecessary: float
    least: float
    fullest: float
    emptiest: float
    load_ratio: float
    messages: float
    runs: float
    free_runs: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One rule in one size. before: the load at the start, fullest and emptiest."""

    rule: str
    locks: int
    instances: int
    before: tuple[float, float]
    leave: Cost
    rejoin: Cost

    @property
    def size(self) -> str:
        return f"{self.locks:,} × {self.instances}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The size of a cluster: its locks, its instances, and the number of sets of names that the figures average."""

    locks: int
    instances: int
    seeds: int


SIZES: Final = (
    Size(locks=12, instances=3, seeds=100),
    Size(locks=1_000, instances=10, seeds=8),
    Size(locks=10_000, instances=50, seeds=1),
)


class _Cluster:
    """Instances that execute every message at once."""

    def __init__(self, rule: Rebalancer, locks: tuple[str, ...]) -> None:
        self._rule = rule
        self._group = LockGroup(name=GROUP, locks=locks, replicas=1, model=LOCK_UNLOCK)
        self._replicas: dict[str, dict[str, Replica]] = {}

    def settled(self, live: Sequence[str]) -> tuple[dict[str, tuple[str, ...]], int, int, int]:
        """Decide and execute until nothing is sent. Returns holders, messages, runs, and runs that a lock was free."""
        sessions = {each: each for each in sorted(live)}
        for states in self._replicas.values():
            for gone in [each for each in states if each not in sessions]:
                del states[gone]
        messages, freed_in, free_runs = 0, dict[str, int](), 0
        for run in range(RUNS_MAX):
            snapshot = Snapshot(groups=(self._group,), live=sessions, replicas=self._replicas)
            decision = decide(snapshot, {GROUP: self._rule})
            if not decision.messages:
                return self._holders(), messages, run, free_runs
            messages += len(decision.messages)
            for message in decision.messages:
                states = self._replicas.setdefault(message.lock, {})
                if message.target == DROPPED:
                    del states[message.instance]
                    freed_in[message.lock] = run
                else:
                    states[message.instance] = Replica(message.target, message.source)
                    free_runs = max(free_runs, run - freed_in.get(message.lock, run))
        raise AssertionError(f"the cluster has not settled after {RUNS_MAX} runs")

    def _holders(self) -> dict[str, tuple[str, ...]]:
        return {lock: tuple(sorted(states)) for lock, states in self._replicas.items()}


def rows(sizes: Sequence[Size], rules: Mapping[str, Rebalancer] = RULES) -> Iterator[Row]:
    """The rows of the table, each as it is counted: `len(sizes) * len(rules)`."""
    return (_row(rule, size, name) for size in sizes for name, rule in rules.items())


def _row(rule: Rebalancer, size: Size, name: str) -> Row:
    befores: list[tuple[int, int]] = []
    leaves: list[Cost] = []
    rejoins: list[Cost] = []
    for seed in range(size.seeds):
        names = [f"node-{seed}-{number}" for number in range(size.instances)]
        cluster = _Cluster(rule, lock_names(f"{GROUP}-{seed}", size.locks))
        full, *_ = cluster.settled(names)
        load = loads(full, names).values()
        befores.append((max(load), min(load)))
        less = _changed(cluster, full, names[1:], leaves)
        _changed(cluster, less, names, rejoins)
    return Row(
        rule=name,
        locks=size.locks,
        instances=size.instances,
        before=(mean(most for most, _ in befores), mean(least for _, least in befores)),
        leave=_mean(leaves),
        rejoin=_mean(rejoins),
    )


def _changed(cluster: _Cluster, before: Assignment, live: Sequence[str], costs: list[Cost]) -> Assignment:
    """Let these be live; add what that cost."""
    after, messages, runs, free_runs = cluster.settled(live)
    change: Change = measure(before, after, live)
    costs.append(
        Cost(
            moved=change.moved,
            unnecessary=change.unnecessary,
            least=change.least,
            fullest=change.load_max,
            emptiest=change.load_min,
            load_ratio=change.load_max / -(-len(after) // len(live)),
            messages=messages,
            runs=runs,
            free_runs=free_runs,
        )
    )
    return after


def _mean(costs: Sequence[Cost]) -> Cost:
    def of(read: Callable[[Cost], float]) -> float:
        return mean(map(read, costs))

    return Cost(
        moved=of(lambda each: each.moved),
        unnecessary=of(lambda each: each.unnecessary),
        least=of(lambda each: each.least),
        fullest=of(lambda each: each.fullest),
        emptiest=of(lambda each: each.emptiest),
        load_ratio=of(lambda each: each.load_ratio),
        messages=of(lambda each: each.messages),
        runs=of(lambda each: each.runs),
        free_runs=of(lambda each: each.free_runs),
    )
