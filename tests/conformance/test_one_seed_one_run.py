"""One seed is one run: on both substrates, under any hash seed, in any order, with any history before."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lockref.errors import DeterminismError
from lockref.history import Recorder
from sim.auditor import real_world_forbidden
from sim.explore.determinism import first_difference, require_determinism
from sim.faults.drawing import Shape
from sim.faults.generators import swarm
from sim.faults.plan import FAULT_TYPES, FaultPlan
from sim.kernel.exploring import Ties
from sim.kernel.kernel import Replay
from sim.kernel.schedules import RandomTies
from sim.kernel.streams import stream
from sim.world import World
from tests.sim.lease import VALIDITY_NS, lease_world

S = 1_000_000_000
SEEDS = range(40)
SHAPE = Shape(
    clients=("n1", "n2", "n3"),
    duration_ns=15 * S,
    validity_ns=VALIDITY_NS,
    drift_bound_ns=S // 2,
    kinds=tuple(FAULT_TYPES),
)


def run(seed: int, substrate: str = "greenlet") -> World:
    """A lease lock under a swarm plan and a random schedule, all from one seed."""
    world = lease_world(
        seed,
        plan=swarm(stream(seed, "faults"), SHAPE),
        schedule=RandomTies(stream(seed, "schedule")),
        substrate=substrate,
        ties=ties(seed),
    )
    world.run(90 * S)
    return world


def ties(seed: int) -> Ties | None:
    """Every second seed explores: instants on a grid, and tasks that lose the processor inside a step."""
    return Ties(window_ns=3_000_000) if seed % 2 else None


def fingerprint(world: World) -> tuple[object, ...]:
    return (world.recorder.digest(), world.kernel.events, world.deviations, world.fault_counts, world.end)


@pytest.mark.parametrize("seed", SEEDS)
def test_greenlets_and_threads_agree(seed):
    """The gated threads give the very trace of the greenlets, faults, crashes and all."""
    assert fingerprint(run(seed)) == fingerprint(run(seed, "thread"))


def test_seeds_differ():
    """The digests compared above say something: hardly two seeds share one."""
    assert len({run(seed).recorder.digest() for seed in SEEDS}) == len(SEEDS)


def test_a_run_leaves_nothing_behind():
    """Run A, B, A: the second A is the first."""
    first, _, again = (fingerprint(run(seed)) for seed in (3, 4, 3))
    assert first == again


def test_deviations_replay_a_random_schedule():
    """Plan and deviations are the run: the random schedule is not needed any more."""
    for seed in range(12):
        original = run(seed)
        schedule = Replay(original.deviations)
        plan = FaultPlan.from_json(swarm(stream(seed, "faults"), SHAPE).to_json())
        again = lease_world(seed, plan=plan, schedule=schedule, ties=ties(seed))
        again.run(90 * S)
        assert fingerprint(again) == fingerprint(original)
        assert not schedule.unused


def test_fifo_is_the_replay_of_nothing():
    """The fast loop for the default schedule and the choosing loop give the same run."""
    for seed in range(12):
        plan = swarm(stream(seed, "faults"), SHAPE)
        worlds = [
            lease_world(seed, plan=plan),
            lease_world(seed, plan=plan, schedule=Replay([])),
        ]
        for world in worlds:
            world.run(90 * S)
        assert fingerprint(worlds[0]) == fingerprint(worlds[1])


DIGESTS = """
from tests.conformance.test_one_seed_one_run import run
for seed in range(8):
    print(run(seed).recorder.digest(), run(seed, "thread").recorder.digest())
"""


def digests_under(hash_seed: str, root: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": root}
    return subprocess.run(
        [sys.executable, "-c", DIGESTS],
        env=environment,
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout


def test_hash_seeds_do_not_matter(pytestconfig):
    """Two processes under two PYTHONHASHSEED values: the order of sets of text never leaks into a run."""
    root = str(pytestconfig.rootpath)
    one, other = digests_under("1", root), digests_under("4242", root)
    assert one == other
    assert len(one.splitlines()) == 8


@pytest.mark.parametrize("substrate", ["greenlet", "thread"])
@pytest.mark.parametrize("is_strict", [False, True])
def test_the_simulator_itself_is_clean(substrate, is_strict):
    """Nothing in kernel, world and services touches real time, entropy or foreign threads; watching changes nothing."""
    with real_world_forbidden(is_strict=is_strict):
        watched = [fingerprint(run(seed, substrate)) for seed in range(3)]
    assert watched == [fingerprint(run(seed, substrate)) for seed in range(3)]


def test_first_difference_is_named():
    """Nondeterminism is its own error; it shows the first differing event from both runs."""

    def record(owner: str) -> Recorder:
        recorder = Recorder()
        recorder.event(2, (5, 5, 5, ""), "n1")
        recorder.event(2, (6, 6, 6, ""), "n1", owner=owner)
        return recorder

    assert first_difference(record("a"), record("a")) is None
    assert "event 1" in (first_difference(record("a"), record("b")) or "")
    owners = iter("ab")
    with pytest.raises(DeterminismError, match=r"owner=a.*owner=b"):
        require_determinism(lambda: record(next(owners)))
    assert len(require_determinism(lambda: record("a"))) == 2
