"""How fast is virtual time, in CPU time? Events against simpy's bare timeouts, and whole seeds."""

from __future__ import annotations

import pyarrow.compute as pc
import simpy

from lockref.history import Recorder
from lockref.lab.loading import load_provider
from lockref.words import Kind
from reports.checks import judge
from reports.checks.summary import Summary
from scenarios.batch import simulate_many
from scenarios.definition.load import load_scenario, parse_scenario
from sim.faults.plan import FaultPlan
from sim.kernel.kernel import Budget
from sim.machine.network import NetworkModel
from sim.world import World
from tests.bench.figures import Figure, cpu_rate, cpu_seconds, in_turn, warm

TICKS = 100_000
TASKS = 20

SIMPY_PER_S = 1_400_000
"""Bare timeouts that simpy does in a second of the core for which the aims in seeds are set."""

SHORT = """\
version: 1
name: short
clients: 3
duration: 30s
workload: {kind: register, cycles: 2, think: 0s..500ms, hold: 1s, writes: 2}
"""
"""A short seed: three clients, two cycles each, a heartbeat per hold."""

COMMITS = """\
version: 1
name: commits
clients: 4
duration: 120s
workload: {kind: delta_log, protocol: put, cycles: 20, think: 0s..1s, hold: 100ms..500ms, writes: 1, wait: 60s}
"""
"""Four writers of one Delta table, eighty commits."""


def simpy_timeouts() -> int:
    """simpy's cheapest event: a process that yields timeouts, nothing recorded."""
    environment = simpy.Environment()

    def ticking(environment: simpy.Environment):  # type: ignore[no-untyped-def]
        for _ in range(TICKS // TASKS):
            yield environment.timeout(1)

    for _ in range(TASKS):
        environment.process(ticking(environment))
    environment.run()
    return TICKS


def our_sleeps() -> int:
    """As many sleeps of as many tasks on nodes with clocks of their own, each with an event in the history.

    The kind of the event is looked up once, as in every recorder of the product: to find a member of an enumeration
    takes Python 3.11 a twentieth of a sleep.
    """
    clock = Kind.CLOCK
    recorder = Recorder()
    world = World(
        seed=1,
        plan=FaultPlan(faults=()),
        network=NetworkModel(),
        budget=Budget(events_max=10 * TICKS),
        recorder=recorder,
    )

    def work(number: int) -> None:
        node = world.node(f"n{number}")

        def ticking() -> None:
            runtime, journal = node.runtime, node.journal
            for _ in range(TICKS // TASKS):
                runtime.sleep(1_000_000)
                journal.record(clock, journal.stamp(), node.name)

        node.start(ticking)

    for number in range(1, TASKS + 1):
        work(number)
    world.run(10**15)
    world.close()
    assert len(recorder) >= TICKS, "not every sleep was recorded"
    return TICKS


def _seeds_per_s(build: str, scenario_text: str | None, name: str, seeds: int, *, at_least: int = 0) -> Figure:
    """Seeds per second of a core on which simpy's bare timeouts are as fast as the aims suppose.

    Both are measured in turn, and the figure is their ratio: the same on a slow machine and on a full one.
    at_least: the aim; 0 for none.
    """
    scenario = parse_scenario(scenario_text) if scenario_text else load_scenario(name)
    spec = load_provider(build)
    ours, theirs = in_turn(
        lambda: cpu_rate(lambda: len(simulate_many(scenario, spec, range(1, seeds + 1)).outcomes)),
        lambda: cpu_rate(simpy_timeouts),
    )
    scaled = ours.over(theirs).times(SIMPY_PER_S)
    return Figure.of(
        f"seeds/s where simpy does {SIMPY_PER_S / 1e6:.1f}M timeouts/s, {name}, {build}",
        scaled,
        "seeds/CPU s",
        aim=f">= {at_least}" if at_least else "",
        is_met=scaled.median >= at_least if at_least else None,
        note=f"here {ours} against {theirs} timeouts/s",
    )


def _judging_against_simulating() -> Figure:
    scenario, spec, seeds = parse_scenario(SHORT), load_provider("hardened"), 200
    batch = simulate_many(scenario, spec, range(seeds))
    events, runs = batch.events, batch.runs
    judging, simulating = in_turn(
        lambda: cpu_seconds(lambda: Summary.of(judge(events, runs), events, runs)),
        lambda: cpu_seconds(lambda: simulate_many(scenario, spec, range(seeds))),
    )
    ratio = judging.over(simulating)
    return Figure.of(
        "judging a seed against simulating it",
        ratio,
        "ratio",
        aim="< 1",
        is_met=ratio.median < 1,
        note=f"{judging.times(1e6 / seeds)} µs judged, {simulating.times(1e6 / seeds)} µs simulated",
    )


def _commits_per_s(build: str) -> Figure:
    """Commits to a Delta log under a lock, each with its load of the log and its checkpoints, judged or not."""
    scenario, spec = parse_scenario(COMMITS), load_provider(build)

    def commits() -> int:
        batch = simulate_many(scenario, spec, range(1, 6))
        applied = pc.and_(
            pc.equal(batch.events["kind"].cast("string"), "effect"),
            pc.equal(batch.events["op"].cast("string"), "commit"),
        )
        count: int = pc.sum(applied).as_py()
        assert count, "nobody committed"
        return count

    return Figure.of(
        f"simulated commits/s on one core, under {build}", warm(lambda: cpu_rate(commits)), "commits/CPU s"
    )


def measure() -> list[Figure]:
    """All figures of the simulator."""
    ours, theirs = in_turn(lambda: cpu_rate(our_sleeps), lambda: cpu_rate(simpy_timeouts))
    ratio = ours.over(theirs)
    return [
        Figure.of(
            "simulator events/s, recording on, against simpy's bare timeouts",
            ratio,
            "ratio",
            aim=">= 0.5",
            is_met=ratio.median >= 0.5,
            note=f"{ours} against {theirs} events/s",
        ),
        _seeds_per_s("hardened", SHORT, "short seed", 200, at_least=400),
        _seeds_per_s("hudi", SHORT, "short seed", 200, at_least=400),
        _seeds_per_s("hardened", None, "e08", 60),
        _seeds_per_s("hardened", None, "swarm", 60, at_least=150),
        _commits_per_s("dynamodb"),
        _judging_against_simulating(),
    ]
