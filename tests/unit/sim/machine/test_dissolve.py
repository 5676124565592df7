"""A world that nobody asks any more goes at once, without the collector."""

from __future__ import annotations

import gc
import weakref

import pytest

from lockref.runtime import NS_PER_S
from lockref.stores.client import OBJECT_STORE
from sim.machine.nodes import Node
from sim.world import World


def ended_world() -> World:
    """A world in which a client wrote, then slept, until the run ended."""
    world = World(seed=1)
    world.object_store(decode=lambda _key, _body: ())
    node = world.node("n1")

    def work() -> None:
        store = world.connect(node, "store", OBJECT_STORE, timeout_ns=NS_PER_S)
        store.put_if_absent("key", b"body")
        node.runtime.spawn(lambda: node.runtime.sleep(100 * NS_PER_S), name="heartbeat")

    node.start(work)
    world.run(10 * NS_PER_S)
    return world


def test_nothing_of_a_dissolved_world_waits_for_the_collector():
    """Its kernel, its services and its nodes, with their processes, tasks and work, are freed by the last reference."""
    gc.collect()
    gc.disable()
    try:
        world = ended_world()
        parts = [
            weakref.ref(world),
            weakref.ref(world.nodes["n1"]),
            weakref.ref(world.kernel),
            weakref.ref(world.services["store"].service),
        ]
        digest = world.recorder.digest()
        world.dissolve()
        assert world.recorder.digest() == digest
        del world
        assert [part() for part in parts] == [None] * 4
    finally:
        gc.enable()


def test_a_world_that_runs_is_not_dissolved():
    """Its nodes are needed until every task has been unwound."""
    world = World(seed=1)
    assert isinstance(world.node("n1"), Node)
    with pytest.raises(AssertionError, match="a world that runs"):
        world.dissolve()
    world.close()
