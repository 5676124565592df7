"""One seed of a scenario in the simulated world.

A run is (scenario, provider, seed), or a stored plan and schedule in the place
of what the seed would draw. `scenarios.worlds.laboratory` puts the clients into
the world; here it goes on to its end, and the run is told.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass

from lockref.errors import BudgetExceeded, ConfigError, DeterminismError
from lockref.history import Recorder, RunRow
from lockref.lab.loading import ProviderSpec
from lockref.runtime import NS_PER_S
from reports.checks.thresholds.limits import TASKS_LEFT, measures_of
from scenarios.definition.draw import DrawnScenario
from scenarios.definition.fault_plan import draw_plan
from scenarios.definition.schema import Scenario
from scenarios.worlds.attribution import attributed, is_providers_fault, what_stood
from scenarios.worlds.laboratory import Laboratory, Shared
from scenarios.worlds.processes.lock_code import is_lock_code
from scenarios.worlds.watchdog import StuckError, ends_stuck_steps
from sim.faults.counts import fault_effects
from sim.faults.plan import FaultPlan
from sim.kernel.exploring import Ties
from sim.kernel.kernel import Budget
from sim.kernel.schedules import RandomTies, Schedule
from sim.kernel.statements import between_statements
from sim.kernel.streams import stream
from sim.world import World

GRACE_NS = 90 * NS_PER_S
"""How much longer than its duration and faults a run may last. A call that hangs then shows as L5."""

EVENTS_MAX = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """One simulated run.

    run_row: its row for `lockref.history.runs_table`. plan and deviations: with
    the scenario and the seed they are the whole run (`sim.explore.replay`).
    fault_counts: fault id to (armed, fired, mattered). ties: the steps that its schedule could reorder; None in a plain
    run.
    """

    seed: int
    recorder: Recorder
    run_row: RunRow
    plan: FaultPlan
    deviations: tuple[tuple[int, int], ...]
    fault_counts: dict[str, tuple[int, int, int]]
    ties: Ties | None = None

    @property
    def digest(self) -> str:
        return str(self.run_row["digest"])

    @property
    def fired_kinds(self) -> tuple[str, ...]:
        """The kinds of its faults that fired, sorted."""
        counts = self.fault_counts
        return tuple(sorted({each.kind for each in self.plan.faults if counts.get(each.id, (0, 0, 0))[1]}))


def run_simulated(
    scenario: Scenario,
    provider: ProviderSpec,
    seed: int,
    *,
    plan: FaultPlan | None = None,
    shared: Shared | None = None,
    schedule: Schedule | None = None,
    substrate: str = "greenlet",
    recorder: Recorder | None = None,
    ties: Ties | None = None,
) -> RunOutcome:
    """Run one seed.

    plan, schedule: in the place of what the seed draws, for replay and shrinking.
    shared: of this scenario and this lock, where many seeds are run.
    ties: the steps that the schedule may reorder, where it explores; a replay needs the same.
    Errors: ConfigError if the lock under test raises what is no LockError;
    BudgetExceeded never: a run that hits its budget is cut off and says so.
    """
    where = f"scenario {scenario.name}, seed {seed}"
    if shared is None:
        shared = Shared(scenario, provider, plan=plan)
    drawn = shared.drawn(seed)
    if plan is None:
        plan = draw_plan(scenario, drawn, seed) if shared.plan is None else shared.plan
    recorder = Recorder() if recorder is None else recorder
    recorder.is_detailed = scenario.needs_detail
    # Trace functions see threads, and greenlets not.
    is_stepped = ties is not None and ties.preempt == "statements"
    world = World(
        seed=seed,
        plan=plan,
        network=shared.network,
        schedule=RandomTies(stream(seed, "schedule")) if schedule is None else schedule,
        substrate="thread" if is_stepped or shared.mixture.needs_threads else substrate,
        budget=Budget(events_max=EVENTS_MAX),
        recorder=recorder,
        ties=ties,
    )
    laboratory = Laboratory(scenario, drawn, shared, world)
    try:
        horizon_ns = _horizon_ns(scenario, drawn, plan)
        with between_statements(is_lock_code, world.kernel.preempt) if is_stepped else nullcontext():
            is_cut_off, tasks_left = _run(laboratory, provider, where, until_ns=horizon_ns, linger_ns=drawn.validity_ns)
    finally:
        if not world.is_closed:
            _close(world, provider, where)
    row: RunRow = {
        **shared.run_row(drawn, laboratory.settings.key),
        "run": seed,
        "seed": seed,
        "world": "simulated",
        "backend": scenario.store.dialect,
        "request_timeout_ns": laboratory.request_timeout_ns,
        "faults_end_ns": world.faults_end_ns,
        "end_ns": world.kernel.now_ns,
        "is_cut_off": is_cut_off,
        "digest": world.recorder.digest(),
        "event_count": len(world.recorder),
        "fault_effects": fault_effects(world.fault_counts),
        "tasks_left": tasks_left if TASKS_LEFT in measures_of(scenario.thresholds) else None,
    }
    outcome = RunOutcome(
        seed=seed,
        recorder=world.recorder,
        run_row=row,
        plan=plan,
        deviations=tuple(world.deviations),
        fault_counts=world.fault_counts,
        ties=ties,
    )
    laboratory.let_go()
    return outcome


def _run(
    laboratory: Laboratory, provider: ProviderSpec, where: str, *, until_ns: int, linger_ns: int
) -> tuple[bool, list[str] | None]:
    """Let the world go on to its end. True if its budget of events ended it; and `Laboratory.tasks_left` at the end.

    where: scenario and seed, for messages.
    Errors: ConfigError for what the lock under test did wrong; DeterminismError; what the laboratory itself raised.
    """
    world = laboratory.world
    try:
        # Standard output is the command's own.
        with ends_stuck_steps(world.kernel, provider.name, where), redirect_stdout(sys.stderr):
            try:
                world.run(until_ns, linger_ns=linger_ns, is_final=False)
                tasks_left = laboratory.tasks_left()
            finally:
                world.close()
    except BudgetExceeded as error:
        if world.kernel.stands_still:
            raise ConfigError(
                f"provider {provider.name!r}: {world.kernel.events:,} steps and virtual time hardly moves "
                f"({where}; last at {world.kernel.last_event}); "
                "a loop must wait for more than a moment"
            ) from error
        return True, None
    except StuckError as error:
        raise ConfigError(f"{error} ({where})") from error
    except ConfigError as error:
        # For example a `holds` that waits. Only here are the provider, the scenario and the seed known.
        whose = f"provider {provider.name!r}: "
        message = str(error)
        if not message.startswith("node "):
            message = whose + message.removeprefix(whose)
        raise ConfigError(f"{message} ({where})") from error
    except DeterminismError:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # A stranger's lock may raise anything.
        if not is_providers_fault(error, provider):
            raise
        raise attributed(error, provider, where, what_stood(world, laboratory.settings.key)) from error
    return False, tasks_left


def _close(world: World, provider: ProviderSpec, where: str) -> None:
    """Unwind what is left. Errors: ConfigError for a lock that goes on without an end while it is unwound."""
    try:
        with ends_stuck_steps(world.kernel, provider.name, where), redirect_stdout(sys.stderr):
            world.close()
    except StuckError as error:
        # Collected as garbage, its other tasks would be unwound once more, where nobody watches.
        _abandoned.append(world)
        raise ConfigError(f"{error} ({where})") from error


_abandoned: list[World] = []
"""Worlds that could not be unwound, until the process ends."""


def _horizon_ns(scenario: Scenario, drawn: DrawnScenario, plan: FaultPlan) -> int:
    """Beyond this every call must have ended, however long faults and holds last."""
    work = scenario.workload
    holds = [work.hold, *(own.hold for own in work.clients.values() if own.hold is not None)]
    disturbed_ns = sum(fault.length_ns or 0 for fault in plan.faults)
    return drawn.duration_ns + drawn.validity_ns + max(hold.most for hold in holds) + disturbed_ns + GRACE_NS
