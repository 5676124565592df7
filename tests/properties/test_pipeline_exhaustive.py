"""T5 in every schedule of a small cluster: each reachable state of controller and participants is visited.

Three participants, of which two are live at first, four locks, two faults. A fault is: a participant dies or joins, a
message is lost, the controller restarts before it sends what it decided, or in the middle of that. What the controller
decided may be sent any number of steps later. Only messages to sessions that are over are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import pytest

from lockref.helix.cluster.declared import lock_names
from lockref.helix.pipeline import LockGroup, Replica, Snapshot, decide
from lockref.helix.rebalancers import REBALANCERS
from lockref.helix.records.messages import Message
from lockref.helix.state_model import DROPPED
from tests.unit.lockref.helix.pipeline_driver import lock_unlock

INSTANCES = ("a", "b", "c")
LOCKS = lock_names("g", 4)
STATES_MAX = 100_000


class Entry(NamedTuple):
    lock: str
    instance: str
    state: str
    previous: str


class Order(NamedTuple):
    """A message, without what does not matter here."""

    lock: str
    instance: str
    source: str
    target: str


class State(NamedTuple):
    """decided: what the controller has decided and not yet sent; empty if it is about to read again."""

    live: frozenset[str]
    entries: frozenset[Entry]
    pending: frozenset[Order]
    decided: frozenset[Order]
    faults: int


def executed(state: State, order: Order) -> State:
    """The participant does what it is told if the message fits its state, and deletes the message."""
    own = next((each for each in state.entries if (each.lock, each.instance) == order[:2]), None)
    present = own.state if own else "RELEASED"
    entries = state.entries
    if present == order.source:
        entries -= {own} if own else set()
        if order.target != DROPPED:
            entries |= {Entry(order.lock, order.instance, order.target, present)}
    return state._replace(entries=entries, pending=state.pending - {order})


def without(state: State, instance: str) -> State:
    """The instance is dead. Its states are ignored, and messages to its session are refused."""
    return State(
        live=state.live - {instance},
        entries=frozenset(each for each in state.entries if each.instance != instance),
        pending=frozenset(each for each in state.pending if each.instance != instance),
        decided=frozenset(each for each in state.decided if each.instance != instance),
        faults=state.faults,
    )


@pytest.mark.parametrize("name", REBALANCERS)
def test_no_schedule_has_two_holders_and_every_end_has_one(name: str, record_property: Callable[[str, object], None]):
    """T5, T6: never two holders of a lock; and where nothing is left to do, every lock has one."""
    group = LockGroup(name="g", locks=LOCKS, replicas=1, model=lock_unlock())

    @cache
    def decided(live: frozenset[str], entries: frozenset[Entry], pending: frozenset[Order]) -> frozenset[Order]:
        replicas: dict[str, dict[str, Replica]] = {}
        for each in sorted(entries):
            replicas.setdefault(each.lock, {})[each.instance] = Replica(each.state, each.previous)
        messages = (
            Message(instance=at, session="s", resource="g", lock=lock, model="m", source=source, target=target)
            for lock, at, source, target in sorted(pending)
        )
        snapshot = Snapshot(
            groups=(group,), live=dict.fromkeys(sorted(live), "s"), replicas=replicas, pending=tuple(messages)
        )
        found = decide(snapshot, {"g": REBALANCERS[name]}).messages
        return frozenset(Order(each.lock, each.instance, each.source, each.target) for each in found)

    def following(state: State) -> Iterator[State]:
        if not state.decided:
            yield state._replace(decided=decided(state.live, state.entries, state.pending))
        else:
            yield state._replace(pending=state.pending | state.decided, decided=frozenset())
        for order in sorted(state.pending):
            yield executed(state, order)
        if not state.faults:
            return
        broken = state._replace(faults=state.faults - 1)
        half = frozenset(sorted(state.decided)[: len(state.decided) // 2])
        yield broken._replace(decided=frozenset())
        yield broken._replace(pending=state.pending | half, decided=frozenset())
        for order in sorted(state.pending):
            yield broken._replace(pending=state.pending - {order})
        for each in INSTANCES:
            yield without(broken, each) if each in state.live else broken._replace(live=state.live | {each})

    start = State(frozenset("bc"), frozenset(), frozenset(), frozenset(), 2)
    seen, unvisited, ends = {start}, [start], 0
    while unvisited:
        state = unvisited.pop()
        held = [each.lock for each in state.entries if each.state == "LOCKED"]
        assert len(held) == len(set(held)), state
        if not (state.pending or state.decided or decided(state.live, state.entries, state.pending)):
            ends += 1
            assert len(held) == (len(LOCKS) if state.live else 0), state
        for each in following(state):
            if each not in seen:
                seen.add(each)
                unvisited.append(each)
        assert len(seen) <= STATES_MAX, "the bound of the search is too small for this cluster"
    assert ends > 1
    record_property("states_visited", len(seen))
