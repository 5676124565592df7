"""Failures that keep themselves: every distinct one is stored, shrunk, and replayed by its id.

An id is made from what failed (scenario, lock, clause, plan, seed), so finding
the same failure again gives the same id.
"""

from __future__ import annotations

import base64
import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import lockref
from lockref.cli.evidence import Evidence, JudgedRun
from lockref.cli.run_folder import HOME, commit
from lockref.errors import ConfigError, did_you_mean
from scenarios.worlds.simulated import run_simulated
from sim.explore.replay import Failure, ProviderUsed, ShrinkRecord, Versions
from sim.explore.shrink import Shrunk, shrink
from sim.kernel.schedules import Replay

if TYPE_CHECKING:
    from lockref.lab.loading import ProviderSpec
    from reports.checks.summary import Finding
    from scenarios.definition.schema import Scenario
    from scenarios.worlds.simulated import RunOutcome
    from sim.faults.vocabulary import FaultPlan

FAILURES = HOME / "failures"
LISTED_MAX = 8
"""Stored failures that are named where one is not found."""

SHRUNK_MAX = 3
"""How many failures of one campaign are shrunk: as many as are shown."""

SHRINK_RUNS_MAX = 120
ID_PREFIX = "LK-"
_ID_LENGTH = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """How a failure is known: its id, the line that shows it again (empty if none does), labelled notes.

    evidence: the failure as the run behind that line shows it; None if no run does.
    """

    id: str
    replay: str
    notes: tuple[tuple[str, str], ...] = ()
    evidence: Evidence | None = None


class FailureStore:
    """Stores the failures of one campaign under `.lockref/failures`."""

    def __init__(self, scenario: Scenario, spec: ProviderSpec, *, source: str = "", folder: Path = FAILURES) -> None:
        """source: how the user named the scenario, for the line that repeats the seed."""
        self._scenario = scenario
        self._source = source or scenario.name
        self._spec = spec
        self._folder = folder
        self._shrunk = 0

    def store(self, finding: Finding) -> Stored:
        """Keep what a campaign found, from its seed alone.

        A failure that does not come again from its seed is still a failure: it
        is named, with a note in the place of a replay line.
        """
        outcome = run_simulated(self._scenario, self._spec, finding.run)
        if finding.clause not in JudgedRun(outcome).broken:
            why = "seed does not give it again: the lock keeps state between runs, or is not deterministic"
            return Stored(id=f"{finding.clause}-{finding.run}", replay="", notes=(("no replay", why),))
        stored = self.keep(finding, outcome)
        seed_line = f"lockref sim {self._source} --provider {self._spec.name} --seed {finding.run}"
        return replace(stored, notes=(*stored.notes, ("from seed", seed_line)))

    def keep(self, finding: Finding, outcome: RunOutcome) -> Stored:
        """Keep a failing run with its plan and schedule, shrunk if it is among the first of this store."""
        resolved = self._scenario.model_dump(mode="json", by_alias=True)
        identity = self._identity(finding, resolved, outcome.plan)
        kinds = {fault.id: fault.kind for fault in outcome.plan.faults}
        shrunk = None
        if self._shrunk < SHRUNK_MAX and finding.is_safety:
            self._shrunk += 1
            result = self._shrink(finding, outcome)
            shrunk = _shrink_record(outcome, result)
            outcome = self._repeat(result.plan, result.deviations, finding.run)
        # From here on the failure is what this run shows: the plan, digest and replay line are its own, too.
        evidence = JudgedRun(outcome).evidence(finding)
        self._write(identity, evidence.finding, resolved, outcome, shrunk)
        return Stored(
            id=identity,
            replay=f"lockref replay {identity}",
            notes=_shrink_notes(shrunk, kinds) if shrunk else (),
            evidence=evidence,
        )

    def _write(
        self,
        identity: str,
        finding: Finding,
        resolved: dict[str, object],
        outcome: RunOutcome,
        shrunk: ShrinkRecord | None,
    ) -> None:
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
            shrink=shrunk,
        )
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{identity}.json"
        beside = path.with_name(f".{path.name}")
        failure.save(beside)
        beside.replace(path)

    def _repeat(self, plan: FaultPlan, deviations: tuple[tuple[int, int], ...], seed: int) -> RunOutcome:
        return run_simulated(self._scenario, self._spec, seed, plan=plan, schedule=Replay(deviations))

    def _shrink(self, finding: Finding, outcome: RunOutcome) -> Shrunk:
        def fails(plan: FaultPlan, deviations: tuple[tuple[int, int], ...]) -> bool:
            return JudgedRun(self._repeat(plan, deviations, outcome.seed)).breaks_likewise(finding)

        return shrink(fails, outcome.plan, outcome.deviations, runs_max=SHRINK_RUNS_MAX)

    def _identity(self, finding: Finding, resolved: dict[str, object], plan: FaultPlan) -> str:
        what = [resolved, self._spec.name, finding.clause, finding.kind, plan.to_json(), finding.run]
        digest = hashlib.blake2b(json.dumps(what, sort_keys=True).encode(), digest_size=10).digest()
        return ID_PREFIX + base64.b32encode(digest).decode()[:_ID_LENGTH]


def _shrink_notes(shrunk: ShrinkRecord, kinds: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    def named(faults: Iterable[str]) -> str:
        # A drawn plan numbers its faults: `f7` tells nobody what happened.
        return ", ".join(
            fault if kinds[fault].replace("_", "-") in fault else f"{fault} ({kinds[fault].replace('_', ' ')})"
            for fault in faults
        )

    sizes = (
        f"faults {shrunk.faults_before} to {shrunk.faults_after}, "
        f"schedule deviations {shrunk.deviations_before} to {shrunk.deviations_after}"
    )
    notes = [("shrunk", sizes)]
    if shrunk.matters:
        notes.append(("matters", named(shrunk.matters)))
    if shrunk.does_not_matter:
        notes.append(("no matter", named(shrunk.does_not_matter)))
    return tuple(notes)


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
    if not stored:
        raise ConfigError(f"there is no failure {name!r}; nothing is stored in {folder}")
    more = f" and {len(stored) - LISTED_MAX} more" if len(stored) > LISTED_MAX else ""
    listed = ", ".join(stored[:LISTED_MAX])
    raise ConfigError(f"there is no failure {name!r}; stored here: {listed}{more}.{did_you_mean(name, stored)}")
