"""How fast is virtual time? Events against simpy's bare timeouts, and whole seeds."""

from __future__ import annotations

import simpy

from lockref.history import Kind, Recorder
from lockref.lab.loading import load_provider
from reports.checks import judge
from scenarios.batch import simulate_many
from scenarios.definition.load import load_scenario, parse_scenario
from sim.faults.plan import FaultPlan
from sim.kernel.kernel import Budget
from sim.machine.network import NetworkModel
from sim.world import World
from tests.bench.figures import Figure, in_turn, rate

TICKS = 100_000
TASKS = 20

SHORT = """\
version: 1
name: short
clients: 3
duration: 30s
workload: {kind: register, cycles: 2, think: 0s..500ms, hold: 1s, writes: 2}
"""
"""A short seed: three clients, two cycles each, a heartbeat per hold."""


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
    """As many sleeps of as many tasks on nodes with clocks of their own, each with an event in the history."""
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
                journal.record(Kind.CLOCK, journal.stamp(), node.name)

        node.start(ticking)

    for number in range(1, TASKS + 1):
        work(number)
    world.run(10**15)
    world.close()
    assert len(recorder) >= TICKS, "not every sleep was recorded"
    return TICKS


def _seeds_per_s(build: str, scenario_text: str | None, name: str, seeds: int) -> Figure:
    scenario = parse_scenario(scenario_text) if scenario_text else load_scenario(name)
    spec = load_provider(build)
    simulate_many(scenario, spec, range(5))
    value = rate(lambda: len(simulate_many(scenario, spec, range(1, seeds + 1)).outcomes))
    is_short = scenario_text is not None
    return Figure(
        name=f"seeds/s on one core, {name}, {build}",
        value=value,
        unit="seeds/s",
        aim=">= 400" if is_short else "",
        is_met=value >= 400 if is_short else None,
    )


def measure() -> list[Figure]:
    """All figures of the simulator."""
    ours, theirs = in_turn(lambda: rate(our_sleeps), lambda: rate(simpy_timeouts))
    figures = [
        Figure(
            name="simulator events/s, recording on, against simpy's bare timeouts",
            value=ours / theirs,
            unit="ratio",
            aim=">= 0.5",
            is_met=ours / theirs >= 0.5,
            note=f"{ours:,.0f} against {theirs:,.0f} events/s",
        ),
        _seeds_per_s("hardened", SHORT, "short seed", 400),
        _seeds_per_s("hudi", SHORT, "short seed", 400),
        _seeds_per_s("hardened", None, "e08", 100),
        _seeds_per_s("hardened", None, "swarm", 100),
    ]
    scenario = parse_scenario(SHORT)
    spec = load_provider("hardened")
    batch = simulate_many(scenario, spec, range(400))
    judging = rate(lambda: len(judge(batch.events, batch.runs).classes))
    simulating = figures[1].value
    figures.append(
        Figure(
            name="judging a seed against simulating it",
            value=simulating / judging,
            unit="ratio",
            aim="< 1",
            is_met=simulating < judging,
            note=f"{judging:,.0f} seeds/s judged",
        )
    )
    return figures
