"""Stored failures: found by what a user types, read with the lock that failed, and run again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from lockref.errors import ConfigError, Location, did_you_mean
from lockref.lab.loading import ProviderSpec, is_installed_code, load_provider
from scenarios.definition.contradictions import foreign_code
from scenarios.definition.schema import Scenario
from scenarios.failures.judged_run import JudgedRun
from scenarios.runs import HOME
from scenarios.worlds.simulated import RunOutcome, run_simulated
from sim.explore.replay import Failure, ReplayOutcome, replay
from sim.faults.plan import FaultPlan
from sim.kernel.schedules import Schedule

FAILURES: Final = HOME / "failures"
ID_PREFIX: Final = "LK-"
LISTED_MAX: Final = 8
"""Stored failures that are named where one is not found."""


def find_failures(name: str, *, folder: Path = FAILURES) -> list[Path]:
    """The stored failures that `name` means: an id, a file, or a folder of them. Raises ConfigError if none."""
    path = Path(name)
    if path.is_dir():
        found = sorted(path.glob("*.json"))
        if not found:
            raise ConfigError(f"{name} holds no stored failure (*.json)")
        return found
    for candidate in (path, folder / f"{name}.json", folder / f"{ID_PREFIX}{name}.json"):
        if candidate.is_file():
            return [candidate]
    stored = sorted(entry.stem for entry in folder.glob(f"{ID_PREFIX}*.json")) if folder.is_dir() else []
    if not stored:
        raise ConfigError(f"there is no failure {name!r}; nothing is stored in {folder}")
    more = f" and {len(stored) - LISTED_MAX} more" if len(stored) > LISTED_MAX else ""
    listed = ", ".join(stored[:LISTED_MAX])
    raise ConfigError(f"there is no failure {name!r}; stored here: {listed}{more}.{did_you_mean(name, stored)}")


def load_failure(path: Path) -> tuple[Failure, Scenario]:
    """A stored failure and its scenario. Raises ConfigError, with the place, for a scenario of another version."""
    failure = Failure.load(path)
    try:
        return failure, Scenario.model_validate(failure.scenario)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f"the stored scenario is none of this version: scenario.{place}: {first['msg']}",
            location=Location(str(path)),
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureReplay:
    """One stored failure, run again: under which lock, what came of it, and the checks' words for what still breaks.

    message: empty if the clause no longer breaks.
    """

    failure: Failure
    scenario: str
    provider: str
    answered: ReplayOutcome
    message: str


def load_failed(
    path: Path, *, provider: str | None = None, may_import: bool = False
) -> tuple[Failure, Scenario, ProviderSpec]:
    """A stored failure, its scenario, and the lock to run it with.

    provider: another lock; default the lock that failed.
    may_import: also import code that the file names. A failure may come from a stranger, and importing is running.
    Errors: ConfigError for a file that this version cannot read, a lock that cannot be loaded, and code that may not be
        imported.
    """
    failure, scenario = load_failure(path)
    place = Location(str(path))
    named = [failure.provider.name] if provider is None else []
    foreign = [name for name in named if not is_installed_code(name)]
    foreign += [reference for _, reference in foreign_code(scenario)]
    if foreign and not may_import:
        instead = "; --provider names a lock of yours instead" if provider is None else ""
        raise ConfigError(
            f"the failure names {', '.join(map(repr, dict.fromkeys(foreign)))}, which a replay would import and run: "
            f"add --trust if you trust that code{instead}",
            location=place,
        )
    try:
        return failure, scenario, load_provider(failure.provider.name if provider is None else provider)
    except ConfigError as error:
        if provider is not None:
            raise
        raise ConfigError(f"{error}; --provider names the lock where it is now", location=place) from error


def is_own(path: Path, *, folder: Path = FAILURES) -> bool:
    """True for a failure in the store of this folder, where a run of ours put it."""
    return path.parent.resolve() == folder.resolve()


def replay_failure(path: Path, *, provider: str | None = None, may_import: bool = False) -> FailureReplay:
    """Run the stored failure in the file again.

    provider, may_import: see `load_failed`, also for the errors.
    """
    failure, scenario, spec = load_failed(path, provider=provider, may_import=may_import)
    judged: list[JudgedRun] = []

    def run(plan: FaultPlan, schedule: Schedule, seed: int) -> RunOutcome:
        return run_simulated(scenario, spec, seed, plan=plan, schedule=schedule, ties=failure.ties)

    def broken(outcome: RunOutcome) -> frozenset[str]:
        judged.append(JudgedRun(outcome))
        return judged[-1].broken

    answered = replay(failure, run, broken)
    message = judged[-1].message(failure.clause) if judged else ""
    return FailureReplay(
        failure=failure, scenario=scenario.name, provider=spec.name, answered=answered, message=message
    )
