"""The older recipe, distributed-lock-manager, beside the one with a rebalancer of one's own, on real Helix.

The older one gives its locks to Helix whole: FULL_AUTO, the state model OnlineOffline, and Helix' own strategy decides.
The same participants, locks and changes under each.

Source: `recipes/distributed-lock-manager` of Helix, whose program is `LockManagerDemo`, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Final

from lockref.helix.state_model import BUILT_IN
from lockref.runtime import NS_PER_MS, ThreadRuntime
from tests.evidence.helix.beliefs import handoff_gaps_ns
from tests.evidence.helix.experiments import MOVED, Experiment, names_of
from tests.evidence.helix.size import PHASES, Contestant, Holders, Rebalance, measured

AUTO_REBALANCER: Final = "org.apache.helix.controller.rebalancer.AutoRebalancer"

OLDER: Final = Contestant(
    is_ours=False, rebalancer="FULL_AUTO", java_class=AUTO_REBALANCER, model=BUILT_IN["OnlineOffline"]
)
RECIPES: Final = (
    OLDER,
    Contestant(is_ours=False, rebalancer="mod"),
    Contestant(is_ours=True, rebalancer="mod"),
    Contestant(is_ours=True, rebalancer="sticky"),
)

LOCKS, INSTANCES = 12, 3


def plain(run: Experiment) -> bool:
    """Seen: the older recipe moves half of what the other one's rule moves. Two holders are told, whoever has them."""
    moved = [(contestant.rebalancer, sum(_moved(run, contestant))) for contestant in RECIPES]
    return all(count == 2 * MOVED if rule == "mod" else count <= MOVED for rule, count in moved)


def _moved(run: Experiment, contestant: Contestant) -> list[int]:
    """Start, the first one leaves, it comes back; how many locks the two changes moved."""
    moved: list[int] = []
    with run.fleet("plain", cluster=contestant.cluster(LOCKS, INSTANCES)) as fleet:
        first, *others = names = names_of(fleet.cluster)
        for name in names:
            fleet.they_join(name)
        holders: Holders = {}
        changes: list[tuple[Callable[[], None], list[str]]] = [
            (contestant.starts(fleet), names),
            (partial(fleet.leave, first), others),
            (partial(fleet.they_join, first), names),
        ]
        for phase, (change, live) in zip(PHASES, changes, strict=True):
            since_ns = ThreadRuntime().monotonic_ns()
            rebalance, holders = measured(fleet, live, change, holders, is_ours=contestant.is_ours)
            gaps_ms = [each / NS_PER_MS for each in handoff_gaps_ns(fleet.beliefs(), since_ns=since_ns)]
            run.say(f"{contestant.name}: {phase}: {_words(rebalance, gaps_ms)}")
            if rebalance.change is not None:
                moved.append(rebalance.change.moved)
        two = fleet.two_holders()
        run.say(f"{contestant.name}: two holders: {len(two)}{''.join(f'; {each}' for each in two[:2])}")
    return moved


def _words(rebalance: Rebalance, gaps_ms: list[float]) -> str:
    moved = "" if rebalance.change is None else f"{rebalance.change.moved} ({rebalance.change.unnecessary}) moved, "
    free = ""
    if gaps_ms:
        free = f", free for {median(gaps_ms):.0f} ms in the median, {min(gaps_ms):.0f} to {max(gaps_ms):.0f}"
    return f"{moved}{rebalance.messages} messages{free}"


PLAIN: Final = {"plain-recipe": plain}
"""The experiment."""
