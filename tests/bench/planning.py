"""`lockref delta plan`: twenty numbers of writers, three hundred versions each."""

from __future__ import annotations

from lockref.runtime import NS_PER_S
from scenarios.delta.orders import fair
from scenarios.delta.planning import plan
from scenarios.delta.queueing import Fleet
from tests.bench.figures import Figure, seconds, warm


def measure() -> list[Figure]:
    """The simulations and their advice, without the start of a process."""
    fleet = Fleet(writers=1, commit_ns=(NS_PER_S,))
    order = fair(3, 100)
    took = warm(
        lambda: seconds(lambda: plan(fleet, order, range(1, 21), deadline_ns=10 * NS_PER_S, is_closed_loop=False))
    )
    return [Figure.of("plan of 20 writers, 300 versions", took, "s", aim="< 2", is_met=took.median < 2)]
