"""The baseline runs unchanged in the simulator, on real threads, and gives one history per seed."""

from __future__ import annotations

import itertools

import pytest

from lockref.lab.contract import OneRecord
from lockref.provider import LockContext, LockEventKind, LockSettings
from lockref.runtime import NS_PER_MS, NS_PER_S, ThreadRuntime
from lockref.storage.hudi.lock_manager import HudiLock
from lockref.storage.lockfile import LockFile, serialize
from lockref.stores.client import OBJECT_STORE
from lockref.stores.memory import MemoryStore
from sim.auditor import real_world_forbidden
from sim.kernel.kernel import Budget, RandomTies
from sim.machine.network import NetworkModel
from sim.world import World

SETTINGS = LockSettings(key="t/.hoodie/.locks/table_lock.json", validity_ns=10 * NS_PER_S, renew_interval_ns=NS_PER_S)


def contend(seed, *, substrate="greenlet", clients=3, cycles=3):
    """Clients that take turns with a long critical section; the world, and who was inside when."""
    world = World(
        seed=seed, network=NetworkModel(latency_ns=(NS_PER_MS, 40 * NS_PER_MS)), substrate=substrate,
        budget=Budget(events_max=200_000),
    )  # fmt: skip
    world.kernel.schedule = RandomTies(world.stream("ties"))
    world.object_store(decode=OneRecord(HudiLock.decode_record))
    stays = []

    def client(node):
        lock = HudiLock(
            LockContext(
                runtime=node.runtime,
                open_store=lambda timeout_ns: world.connect(node, "store", OBJECT_STORE, timeout_ns=timeout_ns),
                settings=SETTINGS,
            )
        )
        for _ in range(cycles):
            while not lock.lock(60):
                pass
            since = world.kernel.now_ns
            node.runtime.sleep(round(2.3 * NS_PER_S))
            assert lock.holds()
            stays.append((since, world.kernel.now_ns, node.name))
            lock.unlock()
        lock.close()

    for number in range(clients):
        node = world.node(f"n{number}")
        node.start(lambda node=node: client(node))
    world.run(until_ns=600 * NS_PER_S)
    return world, stays


def test_clients_take_turns_under_an_undisturbed_network():
    """Sections 5 and 9: without faults and skew no two stays overlap, and every client gets its turns."""
    with real_world_forbidden():
        _, stays = contend(1)
    assert len(stays) == 9
    stays.sort()
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(stays))


@pytest.mark.parametrize("seed", [2, 3])
def test_one_seed_is_one_history_on_greenlets_and_on_gated_threads(seed):
    """The baseline asks for nothing but its Runtime: both substrates record the same events."""
    digests = {
        contend(seed, substrate=substrate)[0].recorder.digest() for substrate in ("greenlet", "greenlet", "thread")
    }
    assert len(digests) == 1


def test_a_loss_interrupts_on_real_threads():
    """U7, #17870 on ThreadRuntime: a theft is noticed by the next renewal, which sets the owner's flag."""
    store, events = MemoryStore(), []
    lock = HudiLock(
        LockContext(
            runtime=ThreadRuntime(),
            open_store=lambda _timeout_ns: store,
            settings=LockSettings(key=SETTINGS.key, renew_interval_ns=5 * NS_PER_MS),
            listener=events.append,
        )
    )
    assert lock.lock(5)
    store.put(SETTINGS.key, serialize(LockFile("thief", 2**62, expired=False)))
    assert lock._thread.sleep(60 * NS_PER_S) is True, "woken by the interrupt, not by the time"
    assert (lock.holds(), lock.interrupted) == (False, True)
    lock.close()
    assert LockEventKind.LOST in {event.kind for event in events}
