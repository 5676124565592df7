"""The hardened lock's own source in simulated worlds: swarms of faults, Hudi as a neighbour, crowds of waiters."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lockref.errors import LockError, LockLost, OutcomeUnknown, ReleaseFailed
from lockref.history import to_table
from lockref.lab.contract import OneRecord
from lockref.lab.loading import load_provider
from lockref.provider import LockContext, LockSettings
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.storage import lockfile
from lockref.storage.hudi.lock_manager import HudiLock
from lockref.storage.lock import StorageLock
from lockref.stores.client import OBJECT_STORE
from lockref.words import Kind
from scenarios.campaign import run_campaign
from scenarios.definition.load import load_scenario
from sim.faults.answers import GhostWrite, HiddenRetry
from sim.faults.clocks import Offset
from sim.faults.fault import Trigger
from sim.faults.network import LoseReply, Partition
from sim.faults.plan import FaultPlan
from sim.faults.process import Pause, Suspend
from sim.faults.stores import DeleteObject, StaleRead
from sim.kernel.kernel import Budget
from sim.machine.network import NetworkModel
from sim.world import World

CATALOGUE = Path(__file__).parents[2] / "scenarios" / "catalogue"
SETTINGS = LockSettings(validity_ns=10 * NS_PER_S, renew_interval_ns=NS_PER_S)


@dataclass
class Observed:
    """What an all-seeing observer noted of one world."""

    world: World
    locks: dict[str, Any] = field(default_factory=dict)
    overlaps: list[tuple[float, str, str]] = field(default_factory=list)
    grants: int = 0
    refusals: int = 0
    handoffs_ms: list[float] = field(default_factory=list)
    waiting: int = 0
    released_at_ns: int | None = None

    def believes(self, name: str) -> bool:
        """Ask `name`, and if it says yes ask everybody else who can act at this instant."""
        if not self.locks[name].holds():
            return False
        now_ns = self.world.true_ns()
        for other, lock in self.locks.items():
            node = self.world.node(other)
            can_act = node.is_up and not node.clock.is_frozen(now_ns)
            if other != name and can_act and lock.holds():
                self.overlaps.append((now_ns / NS_PER_S, name, other))
        return True

    @property
    def requests(self) -> int:
        return to_table([self.world.recorder])["kind"].to_pylist().count(Kind.SENT.name.lower())


def play(
    classes: Sequence[type[Any]],
    *,
    plan: FaultPlan | None = None,
    seed: int = 1,
    cycles: int = 4,
    hold_ns: Callable[[Any], int] = lambda rng: rng.choice((50 * NS_PER_MS, NS_PER_S, 4 * NS_PER_S)),
    think_ns: Callable[[Any], int] = lambda rng: rng.randrange(NS_PER_S),
    settings: LockSettings = SETTINGS,
) -> Observed:
    """Let one client of each class lock, work and unlock, watched at every step."""
    world = World(
        seed=seed,
        plan=plan or FaultPlan(),
        network=NetworkModel(latency_ns=(NS_PER_MS, 5 * NS_PER_MS)),
        budget=Budget(events_max=5_000_000, virtual_ns_max=20_000 * NS_PER_S),
    )
    world.object_store(decode=OneRecord(lockfile.decode))
    seen = Observed(world)

    def client(name: str, cls: type[Any]) -> None:
        node, rng = world.node(name), world.stream(f"workload/{name}")
        runtime = node.runtime
        context = LockContext(
            runtime=runtime,
            open_store=lambda timeout_ns: world.connect(node, "store", OBJECT_STORE, timeout_ns=timeout_ns),
            settings=settings,
        )
        lock = seen.locks[name] = cls.from_context(context) if hasattr(cls, "from_context") else cls(context)
        for _ in range(cycles):
            runtime.sleep(think_ns(rng))
            seen.waiting += 1
            try:
                is_granted = lock.lock(60)
            except LockError:
                is_granted = False
            seen.waiting -= 1
            if not is_granted:
                seen.refusals += 1
                continue
            if seen.released_at_ns is not None:
                seen.handoffs_ms.append((world.true_ns() - seen.released_at_ns) / NS_PER_MS)
            seen.grants += 1
            length_ns = hold_ns(rng)
            for _ in range(10):
                if not seen.believes(name):
                    break
                runtime.sleep(length_ns // 10)
            seen.released_at_ns = world.true_ns() if seen.waiting else None
            try:
                lock.unlock()
            except (LockLost, ReleaseFailed):
                seen.released_at_ns = None
        lock.close()

    for number, cls in enumerate(classes, 1):
        name = f"n{number}"
        world.node(name).start(lambda name=name, cls=cls: client(name, cls))
    world.run(19_000 * NS_PER_S)
    return seen


def trigger(client: str, op: str, cut: str, nth: int = 1) -> Trigger:
    return Trigger(client=client, op=op, nth=nth, cut=cut, service="store")


# ---- within the envelope nothing may happen ----


def test_swarm_within_the_envelope_breaks_no_clause():
    """S1 to S7, L1 to L6: random plans of everything that a correct lock must survive."""
    scenario = load_scenario(CATALOGUE / "swarm.yaml")
    result = run_campaign(scenario, load_provider("hardened"), range(2000, 2120))
    assert [(finding.clause, finding.run, finding.witness) for finding in result.summary.findings] == []


@pytest.mark.parametrize("cut", ["c0", "c1", "c2", "c3", "c4"])
@pytest.mark.parametrize("op", ["acquire", "renew", "release", "read"])
def test_pause_at_every_cut_point_of_every_request(op, cut):
    """U2, U3, E8 to E10: a pause longer than the lease, wherever it falls, never makes two holders."""
    plan = FaultPlan.of(Pause(id="pause", when=trigger("n1", op, cut), client="n1", for_ns=12 * NS_PER_S))
    seen = play([StorageLock] * 3, plan=plan)
    assert seen.overlaps == []
    assert seen.grants >= 11
    assert seen.world.fault_counts["pause"][1] == 1


def test_suspend_is_noticed_on_the_wall_clock():
    """H1, U2: after a machine suspend the monotonic clock shows nothing; the wall clock ends belief."""
    for seed in range(5):
        plan = FaultPlan.of(
            *[
                Suspend(id=f"s{n}", when=trigger("n1", "acquire", "c4", n), client="n1", for_ns=12 * NS_PER_S)
                for n in (1, 2)
            ]
        )
        seen = play([StorageLock] * 3, plan=plan, seed=seed, hold_ns=lambda _rng: 3 * NS_PER_S)
        assert seen.overlaps == []
        assert seen.grants >= 10


def test_partitioned_holder_stops_before_the_thief_starts():
    """U1, E6: cut off for longer than its lease, with clocks as far apart as the envelope allows."""
    for offset_ms in (-490, 0, 490):
        plan = FaultPlan.of(
            Offset(id="clock", at_ns=0, client="n2", by_ns=offset_ms * NS_PER_MS),
            Partition(
                id="cut", when=trigger("n1", "acquire", "c4"), groups=(("n1",), ("store",)), for_ns=30 * NS_PER_S
            ),
        )
        seen = play([StorageLock] * 3, plan=plan, hold_ns=lambda _rng: 20 * NS_PER_S, cycles=2)
        assert seen.overlaps == []
        assert seen.grants >= 5


@pytest.mark.parametrize("kind", [LoseReply, HiddenRetry])
@pytest.mark.parametrize("op", ["acquire", "renew", "release"])
def test_lost_answers_cost_nobody_a_lease(op, kind):
    """E11 to E14, E17, D2 to D4: a third of the answers lost; every cycle still ends in a grant."""
    plan = FaultPlan.of(kind(id="lost", op=op, service="store", probability=0.3))
    seen = play([StorageLock] * 3, plan=plan, seed=5, cycles=6)
    assert seen.overlaps == []
    assert (seen.grants, seen.refusals) == (18, 0)


@pytest.mark.parametrize("op", ["acquire", "renew", "release"])
def test_ghost_writes_meet_a_412_or_a_released_record(op):
    """E30, A7: writes that arrive eight seconds late, on their own or on a successor's record."""
    plan = FaultPlan.of(GhostWrite(id="ghost", op=op, service="store", probability=0.3, by_ns=8 * NS_PER_S))
    seen = play([StorageLock] * 3, plan=plan, seed=3, cycles=6)
    assert seen.overlaps == []
    assert seen.grants >= 14


def test_stale_reads_delay_but_never_mislead():
    """A8: reads that lag by seconds; the conditional write decides."""
    plan = FaultPlan.of(StaleRead(id="stale", service="store", probability=0.5, lag_ns=3 * NS_PER_S))
    seen = play([StorageLock] * 4, plan=plan, seed=2)
    assert seen.overlaps == []
    assert seen.grants == 16


# ---- outside the envelope: as little as possible ----


def test_deleted_object_doubles_belief_for_one_renewal_at_most():
    """H15, U9, E23: the store broke its word; the holder knows at its next renewal and never recreates."""
    plan = FaultPlan.of(DeleteObject(id="rm", when=trigger("n1", "renew", "c4", 2)))
    seen = play([StorageLock] * 3, plan=plan, hold_ns=lambda _rng: 6 * NS_PER_S, cycles=2)
    doubled = [at for at, _, _ in seen.overlaps]
    assert not doubled or doubled[-1] - doubled[0] <= 1.1


# ---- beside Hudi ----


def test_contends_with_unmodified_hudi_on_one_object():
    """§1, S3: three of ours and three of Hudi's own algorithm on one object, taking turns through 36 grants."""
    seen = play([StorageLock, HudiLock] * 3, cycles=6, hold_ns=lambda _rng: 3 * NS_PER_S, seed=5)
    assert seen.overlaps == []
    assert seen.grants == 36


def test_holder_is_safe_from_hudi_contenders():
    """H1 to H4: our holders pause beyond their lease, Hudi's contenders take over; beliefs never overlap."""
    for seed in range(4):
        plan = FaultPlan.of(
            Offset(id="clock", at_ns=0, client="n2", by_ns=490 * NS_PER_MS),
            *[
                Pause(id=f"p{nth}", when=trigger("n1", "renew", "c0", nth), client="n1", for_ns=11 * NS_PER_S)
                for nth in (1, 4)
            ],
        )
        seen = play([StorageLock, HudiLock], plan=plan, seed=seed, hold_ns=lambda _rng: 4 * NS_PER_S)
        assert seen.overlaps == []
        assert seen.world.fault_counts["p1"][2] > 0


# ---- what it costs ----

CALM = LockSettings(validity_ns=60 * NS_PER_S, renew_interval_ns=6 * NS_PER_S)


def contend(cls: type[Any], clients: int, hold_ms: int, cycles: int) -> Observed:
    return play(
        [cls] * clients,
        cycles=cycles,
        hold_ns=lambda rng: round(max(0.2, rng.gauss(1, 0.2)) * hold_ms * NS_PER_MS),
        think_ns=lambda rng: round(rng.expovariate(1) * hold_ms * max(2, clients / 2) * NS_PER_MS),
        settings=CALM,
    )


def test_uncontended_cycle_costs_two_requests():
    """H20: the first cycle reads and creates; each later one is a write in and a write out."""
    seen = play([StorageLock], cycles=20, hold_ns=lambda _rng: NS_PER_MS)
    # The first cycle finds no lock object. It makes that and the fence object.
    assert seen.requests == 4 + 2 * 19


@pytest.mark.parametrize(
    ("clients", "hold_ms", "cycles", "share"), [(2, 50, 60, 0.9), (2, 500, 60, 0.5), (16, 50, 12, 0.9)]
)
def test_handoff_is_faster_than_hudis_for_no_more_requests(clients, hold_ms, cycles, share):
    """H20, D13: waiting for the expected end instead of polling; compared on the same workload."""
    ours, hudis = contend(StorageLock, clients, hold_ms, cycles), contend(HudiLock, clients, hold_ms, cycles)
    assert ours.grants == hudis.grants == clients * cycles
    assert ours.requests <= 1.05 * hudis.requests
    assert statistics.mean(ours.handoffs_ms) <= share * statistics.mean(hudis.handoffs_ms)


def test_greedy_clients_take_turns():
    """E34, F3: two clients that lock again at once share the lock, where nobody ever leaves it free."""
    seen = play(
        [StorageLock] * 2, cycles=60, hold_ns=lambda _rng: 200 * NS_PER_MS, think_ns=lambda _rng: 0, settings=CALM
    )
    owners = [row["owner"] for row in to_table([seen.world.recorder]).to_pylist() if is_grant(row)]
    turns = sum(before != after for before, after in pairwise(owners[:60]))
    assert turns >= 15


def is_grant(row: dict[str, Any]) -> bool:
    return row["kind"] == "applied" and row["op"] == "acquire" and row["outcome"] == "applied"


def test_unreachable_store_is_unknown_and_the_wait_ends_in_time():
    """S7, L5: a partition all the way through the call."""
    world = World(seed=1, plan=FaultPlan.of(Partition(id="cut", at_ns=0, groups=(("n1",), ("store",)), for_ns=10**12)))
    world.object_store(decode=OneRecord(lockfile.decode))
    ended_ns = []

    def client() -> None:
        node = world.node("n1")
        context = LockContext(
            runtime=node.runtime,
            open_store=lambda ns: world.connect(node, "store", OBJECT_STORE, timeout_ns=ns),
            settings=SETTINGS,
        )
        lock = StorageLock.from_context(context)
        with pytest.raises(OutcomeUnknown):
            lock.lock(7)
        ended_ns.append(world.true_ns())

    world.node("n1").start(client)
    world.run(100 * NS_PER_S)
    assert 6 * NS_PER_S <= ended_ns[0] <= 7 * NS_PER_S + NS_PER_S // 3


_LOST_TRIES = """\
version: 1
name: lost-tries
about: A try whose write lands and whose answer is lost.
clients: 2
duration: 30s
workload: {kind: register, cycles: 6, hold: 1s, writes: 2, wait: 0s, think: 500ms..2s}
faults:
  - {kind: lose_reply, probability: 0.2}
"""
_LAGGING_TRIES = """\
version: 1
name: lagging-tries
about: A try's answer is lost, and the look that follows shows an older state.
clients: 2
duration: 40s
workload: {kind: register, cycles: 6, hold: 2s, writes: 2, wait: 0s, think: 500ms..2s}
faults:
  - {kind: lose_reply, client: n2, op: acquire, probability: 0.5}
  - {kind: stale_read, client: n2, op: read, lag: 1s..3s, probability: 0.7}
"""


@pytest.mark.parametrize("provider", ["hardened", "dynamodb", "znode-lease"])
@pytest.mark.parametrize("text", [_LOST_TRIES, _LAGGING_TRIES], ids=["lost replies", "lagging reads"])
def test_tries_end_in_time_and_answer_honestly(provider: str, text: str, tmp_path: Path) -> None:
    """L5, S7, A8: no try or unlock outlives its requests, and nobody is denied because of a record of its own."""
    file = tmp_path / "tries.yaml"
    file.write_text(text)
    result = run_campaign(load_scenario(str(file)), load_provider(provider), range(1, 13), keep_runs=0)
    assert [finding.clause for finding in result.summary.findings] == []
