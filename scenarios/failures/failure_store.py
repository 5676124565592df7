"""The failures of simulated runs: each distinct one is shrunk and stored, under an id by which it is replayed.

An id is made from what failed (scenario, lock, clause, plan, seed), so finding
the same failure again gives the same id.

Everything that people are told of a failure is taken from one run, the one that
`lockref replay` shows again. If the failure was shrunk, that is the shrunk run:
its times and figures are not those of the run that found the failure.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import lockref
from lockref.durations import plain_duration
from lockref.lab.loading import ProviderSpec
from reports.checks.summary import Finding
from reports.explanation.explain import cause_of
from reports.explanation.explanation import ToldFault
from scenarios import interrupts
from scenarios.definition.contradictions import foreign_code
from scenarios.definition.schema import Scenario
from scenarios.failures.groups import FailureGroups
from scenarios.failures.judged_run import JudgedRun, ShownFailure
from scenarios.failures.kinds import FailureKind
from scenarios.failures.needed_faults import NeededFaults, needed_faults
from scenarios.failures.shrink_budget import ShrinkBudget
from scenarios.failures.stored_failures import FAILURES, ID_PREFIX
from scenarios.failures.told_faults import told_faults
from scenarios.runs import commit
from scenarios.worlds.simulated import RunOutcome, run_simulated
from sim.explore.replay import Failure, ProviderUsed, ShrinkRecord, Versions
from sim.explore.shrink import Shrunk, shrink
from sim.faults.fault import Fault
from sim.faults.plan import FaultPlan
from sim.kernel.schedules import Replay

SHRUNK_MAX = 3
"""How many failures of one campaign are shrunk: as many as are shown."""

SHRINK_RUNS_MAX = 120
FAULTS_TOLD = 4
"""So many faults of a plan are told beside a failure."""

_ID_LENGTH = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRecord:
    """The record of a failure: its id and seed, the line that shows it again (empty if none does), labelled notes.

    shown: the failure as the run behind that line shows it; None if no run does.
    needs: the kinds of faults in that run. is_shrunk: False where they are simply those that struck.
    broken: every clause that the run breaks in which the failure was found, each with the instant at which it broke.
    because: the cause in one line.
    """

    id: str
    seed: int
    replay: str
    notes: tuple[tuple[str, str], ...] = ()
    shown: ShownFailure | None = None
    needs: tuple[str, ...] = ()
    is_shrunk: bool = False
    broken: Mapping[str, int | None] = field(default_factory=dict)
    because: str = ""


class FailureStore:
    """Stores the failures of one campaign under `.lockref/failures`."""

    def __init__(
        self,
        scenario: Scenario,
        spec: ProviderSpec,
        *,
        source: str = "",
        folder: Path = FAILURES,
        is_in_a_hurry: bool = False,
        budget: ShrinkBudget | None = None,
        groups: FailureGroups | None = None,
        on_progress: Callable[[str], None] | None = None,
        again: Callable[[Finding], RunOutcome] | None = None,
        options: str = "",
    ) -> None:
        """source: how the user named the scenario, for the line that repeats the seed. is_in_a_hurry: shrink none.

        budget: the command's time for shrinking, shared by its campaigns; None for no limit.
        groups: where the command notes the kinds of its failures; None where nobody asks.
        again: repeats the run of a finding; None where its number is a seed of the scenario, and no more is needed.
        options: those of the command without which the seed does not show the failure, for the line that repeats it.
        on_progress: is told, before each run of a shrinking, how far it is: a shrinking may take a minute.
        """
        self._scenario = scenario
        self._source = source or scenario.name
        self._spec = spec
        self._folder = folder
        self._shrunk = 0
        self._is_in_a_hurry = is_in_a_hurry
        self._budget = ShrinkBudget() if budget is None else budget
        self._groups = FailureGroups() if groups is None else groups
        self._on_progress = on_progress
        self._again = self._from_seed if again is None else again
        self._options = options
        self.is_short_of_time = False
        """Has a failure been left as it was found, or larger than it need be, for want of time?"""

    def store(self, finding: Finding) -> FailureRecord:
        """Keep what a campaign found, from its seed alone.

        A failure that does not come again from its seed is still a failure: it
        is named, with a note in the place of a replay line.
        """
        outcome = self._again(finding)
        broken = JudgedRun(outcome).instants
        if finding.clause not in broken:
            why = "seed does not give it again: the lock keeps state between runs, or is not deterministic"
            return FailureRecord(
                id=f"{finding.clause}-{finding.run}",
                seed=outcome.seed,
                replay="",
                notes=(("no replay", why),),
                needs=finding.fault_kinds,
                broken={finding.clause: finding.at_ns},
            )
        stored = self.keep(finding, outcome)
        seed_line = f"lockref sim {self._source} --provider {self._spec.name} --seed {outcome.seed}{self._options}"
        return replace(stored, broken=broken, notes=(*stored.notes, ("from seed", seed_line)))

    def keep(self, finding: Finding, outcome: RunOutcome) -> FailureRecord:
        """Keep a failing run with its plan and schedule, shrunk if it is among the first of this store.

        A Ctrl-C ends the shrinking, of this failure and of later ones, and is not raised here: what was found is kept
        as it was found. Whoever goes on afterwards asks `interrupts.was_heard`.
        """
        resolved = _without_folders(self._scenario)
        identity = self._identity(finding, resolved, outcome)
        planned = {fault.id: fault for fault in outcome.plan.faults}
        shrunk = None
        alike = self._budget.shrunk_before(finding)
        why_not = self._why_not_shrunk(finding)
        why_larger = ""
        if not why_not and self._shrunk < SHRUNK_MAX and finding.is_safety:
            self._shrunk += 1
            try:
                with self._budget.spending(finding, identity):
                    result = self._shrink(finding, outcome)
            except KeyboardInterrupt:
                self._is_in_a_hurry = True
                why_not = self._why_not_shrunk(finding)
            else:
                shrunk = _shrink_record(outcome, result)
                outcome = self._repeat(result.plan, result.deviations, outcome)
                if result.is_cut_off:
                    why_larger = self._why_cut_off()
        notes = (("not shrunk", why_not),) if why_not else ()
        # From here on the failure is what this run shows: the plan, digest and replay line are its own, too.
        shown = JudgedRun(outcome).shown(finding)
        if shrunk is not None:
            sizes = {"size_before_ns": finding.size_ns, "size_after_ns": shown.finding.size_ns}
            shrunk = shrunk.model_copy(update=sizes)
        told = told_faults(outcome.plan, planned, outcome.fault_counts)
        faults = tuple(fault.text for fault in told)
        failure = self._write(identity, shown.finding, resolved, outcome, shrunk, faults)
        needed = self._needed_faults(failure, told)
        cause = cause_of(shown.events, shown.grants, dict(outcome.run_row), shown.finding, needed.told(told))
        kinds = finding.fault_kinds if shrunk is None else tuple(sorted({fault.kind for fault in outcome.plan.faults}))
        self._groups.note(identity, FailureKind.of(finding, kinds), alike="" if shrunk else alike)
        return FailureRecord(
            id=identity,
            seed=outcome.seed,
            replay=f"lockref replay {identity}",
            notes=(*_fault_notes(faults), *(_shrink_notes(shrunk, planned, why_larger) if shrunk else notes)),
            shown=shown,
            needs=kinds,
            is_shrunk=shrunk is not None,
            because=cause.sentence,
        )

    def _needed_faults(self, failure: Failure, told: Sequence[ToldFault]) -> NeededFaults:
        """The faults that a cause names, as in `lockref explain`; all of them where there is no time to try."""
        if self._is_in_a_hurry:
            return NeededFaults()
        try:
            with self._budget.trying():
                return needed_faults(failure, self._scenario, self._spec, told, is_spent=self._budget.is_spent)
        except KeyboardInterrupt:
            self._is_in_a_hurry = True
            return NeededFaults()

    def _why_not_shrunk(self, finding: Finding) -> str:
        """Why the failure is kept as it was found though its like are shrunk; empty if nothing speaks against it."""
        if self._is_in_a_hurry:
            return "the command was interrupted"
        if not finding.is_safety or self._shrunk >= SHRUNK_MAX:
            return ""
        if alike := self._budget.shrunk_before(finding):
            return f"{alike} broke in the same way and was shrunk; the line below shrinks this one"
        if self._budget.is_spent():
            self.is_short_of_time = True
            return f"{self._budget.why_no_more}; the line below shrinks this one"
        return ""

    def _why_cut_off(self) -> str:
        """Why a shrinking ended before nothing more could be left out."""
        if not self._budget.is_spent():
            return f"stopped after {SHRINK_RUNS_MAX} runs, a smaller one may exist"
        self.is_short_of_time = True
        return f"{self._budget.why_no_more}, a smaller one may exist"

    def _write(
        self,
        identity: str,
        finding: Finding,
        resolved: dict[str, object],
        outcome: RunOutcome,
        shrunk: ShrinkRecord | None,
        faults: tuple[str, ...],
    ) -> Failure:
        failure = Failure(
            id=identity,
            clause=finding.clause,
            scenario=resolved,
            provider=ProviderUsed(
                name=_without_folder(self._spec.reference or self._spec.name), options=dict(self._scenario.lock.options)
            ),
            seed=outcome.seed,
            plan=outcome.plan,
            schedule=outcome.deviations,
            ties=outcome.ties,
            witness=finding.witness,
            digest=outcome.digest,
            versions=Versions(
                package=lockref.__version__,
                commit=commit().removesuffix("+dirty"),
                is_dirty=commit().endswith("+dirty"),
                python=platform.python_version(),
            ),
            shrink=shrunk,
            faults=faults,
        )
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{identity}.json"
        beside = path.with_name(f".{path.name}")
        failure.save(beside)
        beside.replace(path)
        return failure

    def _from_seed(self, finding: Finding) -> RunOutcome:
        return run_simulated(self._scenario, self._spec, finding.run)

    def _repeat(self, plan: FaultPlan, deviations: tuple[tuple[int, int], ...], of: RunOutcome) -> RunOutcome:
        """Run the seed of a run again, under a candidate's plan and schedule."""
        schedule = Replay(deviations)
        return run_simulated(self._scenario, self._spec, of.seed, plan=plan, schedule=schedule, ties=of.ties)

    def _shrink(self, finding: Finding, outcome: RunOutcome) -> Shrunk:
        runs = 0

        def fails(plan: FaultPlan, deviations: tuple[tuple[int, int], ...]) -> bool:
            nonlocal runs
            # A lock that catches everything catches a Ctrl-C, too.
            interrupts.raise_if_heard()
            runs += 1
            if self._on_progress is not None:
                what = f"{finding.clause} of seed {outcome.seed}"
                limit = self._budget.limit_text
                spent = limit and f"; {plain_duration(self._budget.spent_ns)} of {limit} for shrinking spent"
                self._on_progress(
                    f"{self._scenario.name}: shrinking {what}, run {runs} of at most {SHRINK_RUNS_MAX}{spent}"
                )
            return JudgedRun(self._repeat(plan, deviations, outcome)).breaks_likewise(finding)

        is_spent = self._budget.is_spent
        return shrink(fails, outcome.plan, outcome.deviations, runs_max=SHRINK_RUNS_MAX, is_spent=is_spent)

    def _identity(self, finding: Finding, resolved: dict[str, object], outcome: RunOutcome) -> str:
        what = [resolved, self._spec.name, finding.clause, finding.kind, outcome.plan.to_json(), outcome.seed]
        if outcome.ties is not None:
            # A seed that was explored has many schedules.
            what += [asdict(outcome.ties), outcome.deviations]
        digest = hashlib.blake2b(json.dumps(what, sort_keys=True).encode(), digest_size=10).digest()
        return ID_PREFIX + base64.b32encode(digest).decode()[:_ID_LENGTH]


def _without_folder(reference: str) -> str:
    """A reference as it is stored: a file by its path from here, because a failure is read elsewhere, too."""
    source, colon, attribute = reference.rpartition(":")
    if not (colon and source.endswith(".py")):
        return reference
    return f"{Path(os.path.relpath(source)).as_posix()}:{attribute}"


def _without_folders(scenario: Scenario) -> dict[str, object]:
    """A scenario as it is stored: locks, programs and rules that it names by an absolute path, by a path from here."""
    resolved: dict[str, object] = scenario.model_dump(mode="json", by_alias=True)
    for place, reference in foreign_code(scenario):
        if Path(reference.rpartition(":")[0]).is_absolute():
            *folder, name = place
            part: Any = resolved
            for key in folder:
                part = part[key]
            part[name] = _without_folder(reference)
    return resolved


def _fault_notes(faults: Sequence[str]) -> list[tuple[str, str]]:
    """The faults that struck the run, one line for each."""
    notes = [("fault", text) for text in faults[:FAULTS_TOLD]]
    rest = len(faults) - len(notes)
    return [*notes, ("fault", f"and {rest} more: see the failure's file")] if rest else notes


def _shrink_notes(shrunk: ShrinkRecord, planned: Mapping[str, Fault], why_larger: str) -> tuple[tuple[str, str], ...]:
    def named(faults: Iterable[str]) -> str:
        # A drawn plan numbers its faults: `f7` tells nobody what happened.
        return ", ".join(
            fault
            if planned[fault].kind.replace("_", "-") in fault
            else f"{fault} ({planned[fault].kind.replace('_', ' ')})"
            for fault in faults
        )

    sizes = (
        f"faults {shrunk.faults_before} to {shrunk.faults_after}, "
        f"schedule deviations {shrunk.deviations_before} to {shrunk.deviations_after}"
    )
    if shrunk.size_before_ns is not None and shrunk.size_before_ns != shrunk.size_after_ns:
        sizes += f"; the symptom measured {shrunk.size_before_ns} ns before and {shrunk.size_after_ns} ns now"
    notes = [("shrunk", f"{sizes}; {why_larger}" if why_larger else sizes)]
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
