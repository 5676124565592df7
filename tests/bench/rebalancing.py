"""One run of the controller's pipeline over 10,000 locks and 50 instances: snapshot in, messages out, no server."""

from __future__ import annotations

from lockref.helix.cluster.declared import lock_names
from lockref.helix.lock import LOCK_UNLOCK
from lockref.helix.pipeline import LockGroup, Replica, Snapshot, decide
from lockref.helix.rebalancers import REBALANCERS, RECIPES_CLASS, Rebalancer
from tests.bench.figures import Figure, Spread, seconds, warm

LOCKS, INSTANCES = 10_000, 50
ROUNDS = 3
GROUP = LockGroup(name="locks", locks=lock_names("locks", LOCKS), replicas=1, model=LOCK_UNLOCK)
LIVE = {f"localhost_{port}": f"{port:x}" for port in range(12001, 12001 + INSTANCES)}


def measure() -> list[Figure]:
    """Nobody holds anything; everybody holds what it shall; one has left."""
    figures = []
    for name, rebalancer in REBALANCERS.items():
        if name == RECIPES_CLASS:
            continue  # It is `mod` here.
        start = Snapshot(groups=(GROUP,), live=LIVE)
        held = {
            message.lock: {message.instance: Replica(message.target, message.source)}
            for message in decide(start, {GROUP.name: rebalancer}).messages
        }
        gone, *_ = LIVE
        left = {
            lock: {instance: replica for instance, replica in states.items() if instance != gone}
            for lock, states in held.items()
        }
        stays = {instance: session for instance, session in LIVE.items() if instance != gone}
        for what, snapshot in (
            ("start", start),
            ("nothing to do", Snapshot(groups=(GROUP,), live=LIVE, replicas=held)),
            ("one has left", Snapshot(groups=(GROUP,), live=stays, replicas=left)),
        ):
            took = _deciding(snapshot, rebalancer)
            figures.append(Figure.of(f"{name}: {what}", took, "s", aim="< 1", is_met=took.median < 1))
    return figures


def _deciding(snapshot: Snapshot, rebalancer: Rebalancer) -> Spread:
    return warm(lambda: seconds(lambda: decide(snapshot, {GROUP.name: rebalancer})), ROUNDS)
