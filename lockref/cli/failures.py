"""Failures that keep themselves: every distinct one is stored, shrunk, and replayed by its id.

An id is made from what failed (scenario, lock, clause, kind, seed), so finding
the same failure again gives the same id.
"""

from __future__ import annotations

import base64
import hashlib
import json
import platform
from pathlib import Path
from typing import TYPE_CHECKING

import lockref
from lockref.cli.run_folder import HOME, commit
from lockref.errors import ConfigError, DeterminismError
from reports.checks import judge
from scenarios.simulated import run_simulated
from sim.explore.replay import Failure, ProviderUsed, ShrinkRecord, Versions
from sim.explore.shrink import Shrunk, shrink
from sim.schedules import Replay

if TYPE_CHECKING:
    from lockref.providers import ProviderSpec
    from reports.checks.tally import Finding
    from scenarios.schema import Scenario
    from scenarios.simulated import RunOutcome
    from sim.faults.vocabulary import FaultPlan

FAILURES = HOME / "failures"
SHRUNK_MAX = 3
"""How many failures of one campaign are shrunk: as many as are shown."""

SHRINK_RUNS_MAX = 120
ID_PREFIX = "LK-"
_ID_LENGTH = 6


def broken_clauses(outcome: RunOutcome) -> frozenset[str]:
    """The clauses that one simulated run breaks."""
    from lockref.history import runs_table, to_table

    verdicts = judge(to_table([outcome.recorder], [outcome.seed]), runs_table([outcome.run_row])).verdicts
    return frozenset(row["clause"] for row in verdicts.to_pylist() if row["verdict"] == "violated")


class FailureStore:
    """Stores the failures of one campaign under `.lockref/failures`."""

    def __init__(self, scenario: Scenario, spec: ProviderSpec, *, folder: Path = FAILURES) -> None:
        self._scenario = scenario
        self._spec = spec
        self._folder = folder
        self._shrunk = 0

    def name(self, finding: Finding) -> str:
        """Store `finding` with its plan and schedule; its id."""
        outcome = run_simulated(self._scenario, self._spec, finding.run)
        if finding.clause not in broken_clauses(outcome):
            raise DeterminismError(
                f"seed {finding.run} broke {finding.clause} once and not again: "
                "look for what its run does not determine"
            )
        resolved = self._scenario.model_dump(mode="json", by_alias=True)
        identity = self._identity(finding, resolved)
        record = None
        if self._shrunk < SHRUNK_MAX and finding.is_safety:
            self._shrunk += 1
            shrunk = self._shrink(finding.clause, outcome)
            record = _shrink_record(outcome, shrunk)
            outcome = self._repeat(shrunk.plan, shrunk.deviations, finding.run)
        failure = Failure(
            id=identity,
            clause=finding.clause,
            scenario=resolved,
            provider=ProviderUsed(
                name=self._spec.reference or self._spec.name, options=dict(self._scenario.lock.options)
            ),
            seed=finding.run,
            plan=outcome.plan,
            schedule=outcome.deviations,
            witness=finding.witness,
            digest=outcome.digest,
            versions=Versions(
                package=lockref.__version__,
                commit=commit().removesuffix("+dirty"),
                is_dirty=commit().endswith("+dirty"),
                python=platform.python_version(),
            ),
            shrink=record,
        )
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{identity}.json"
        beside = path.with_name(f".{path.name}")
        failure.save(beside)
        beside.replace(path)
        return identity

    def _repeat(self, plan: FaultPlan, deviations: tuple[tuple[int, int], ...], seed: int) -> RunOutcome:
        return run_simulated(self._scenario, self._spec, seed, plan=plan, schedule=Replay(deviations))

    def _shrink(self, clause: str, outcome: RunOutcome) -> Shrunk:
        def fails(plan: FaultPlan, deviations: tuple[tuple[int, int], ...]) -> bool:
            return clause in broken_clauses(self._repeat(plan, deviations, outcome.seed))

        return shrink(fails, outcome.plan, outcome.deviations, runs_max=SHRINK_RUNS_MAX)

    def _identity(self, finding: Finding, resolved: dict[str, object]) -> str:
        what = [resolved, self._spec.name, finding.clause, finding.kind, finding.fault_kinds, finding.run]
        digest = hashlib.blake2b(json.dumps(what, sort_keys=True).encode(), digest_size=10).digest()
        return ID_PREFIX + base64.b32encode(digest).decode()[:_ID_LENGTH]


def _shrink_record(outcome: RunOutcome, shrunk: Shrunk) -> ShrinkRecord:
    return ShrinkRecord(
        faults_before=len(outcome.plan.faults),
        faults_after=len(shrunk.plan.faults),
        deviations_before=len(outcome.deviations),
        deviations_after=len(shrunk.deviations),
        runs=shrunk.runs,
        matters=tuple(fault for fault, matters in shrunk.matters.items() if matters),
        does_not_matter=tuple(fault for fault, matters in shrunk.matters.items() if not matters),
    )


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
    known = f"stored here: {', '.join(stored[:8])}" if stored else f"nothing is stored in {folder}"
    raise ConfigError(f"there is no failure {name!r}; {known}")
