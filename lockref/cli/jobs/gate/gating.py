"""A gate: a lock through the whole catalogue, its abilities first, its failures grouped by cause, one last screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from lockref.claims import LEASE, NO_LEASE
from lockref.cli.jobs.campaign.executors import SPARK_FOLDER, address_of, cluster_at, expect_shipped, loss_teller
from lockref.cli.jobs.gate.acceptance import required_of, under_options
from lockref.cli.jobs.gate.account import (
    client_of,
    crashes_of,
    fleet_note,
    group_of,
    outcome_of,
    reason_of,
    told_abilities,
    unexplored,
    with_locks,
)
from lockref.cli.jobs.gate.early_end import EarlyEnd
from lockref.cli.jobs.gate.options import choose, load_accepted
from lockref.cli.jobs.gate.outputs import write_outputs
from lockref.cli.jobs.shown.console import SeedProgress, printable
from lockref.cli.jobs.shown.results import begin_run
from lockref.errors import INTERRUPTED, ConfigError
from lockref.host_processes import cores
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.strict_json import printable_json
from lockref.words import counted
from reports.account import summarised_results, write_run
from reports.checks.spec import CLAUSES
from reports.formats.exit_codes import INCONCLUSIVE as OPEN
from reports.formats.exit_codes import USAGE, code_of, worst
from reports.formats.gate_result import (
    INCONCLUSIVE,
    NOT_APPLICABLE,
    NOT_RUN,
    VIOLATED,
    GatedScenario,
    GateResult,
)
from reports.formats.gate_screen import screen_lines
from reports.formats.text import readable
from scenarios import interrupts
from scenarios.definition.fleet import load_fleet
from scenarios.definition.load import judged_catalogue
from scenarios.failures.failure_store import FailureRecord, FailureStore
from scenarios.failures.judged_run import ShownFailure
from scenarios.failures.shrink_budget import ShrinkBudget
from scenarios.gate.abilities import ask_fleet
from scenarios.gate.causes import Case, Cause, Examined, causes_of, first_cause
from scenarios.gate.demands import Ability
from scenarios.gate.exploration import Exploration, Explored, explore
from scenarios.gate.searches import searched_worlds
from scenarios.runs import provenance
from scenarios.search.failing import FailingTrials
from scenarios.search.result import SearchResult

if TYPE_CHECKING:
    from lockref.cli.jobs.gate.options import Chosen, GateOptions
    from lockref.cli.jobs.shown.console import Console
    from lockref.lab.loading import ProviderSpec
    from reports.checks.summary import Finding
    from reports.formats.results import Results
    from scenarios.campaign import Cluster
    from scenarios.definition.fleet import Fleet
    from scenarios.gate.abilities import Abilities
    from scenarios.gate.searches import Searched
    from scenarios.runs import RunFolder

_monotonic_ns: Final = ThreadRuntime().monotonic_ns

SHRINK_NS: Final = 15_000_000_000
"""Time for shrinking, over all causes. A cause that is not shrunk is told as it was found."""


def run_gate(
    console: Console,
    options: GateOptions,
    *,
    provider: str,
    declared: Sequence[tuple[Ability, bool]],
    seeds: range | None,
    master: str | None,
    settings: Sequence[str],
    processes: int | None,
    allowed: Sequence[int],
) -> int:
    """Put one lock through the catalogue and tell the causes of what broke. Returns the exit code.

    options: which scenarios, how long, what is accepted and required, which files it writes. declared: abilities that
    the lock has, or has not. seeds: of each scenario; None for as many as are planned. master: of Spark; None for
    processes. settings: of Spark. processes: None for one on each core. allowed: exit codes that count as success.
    Errors: ConfigError for a lock or a list of known failures that does not load, and for a selection of nothing;
        KeyboardInterrupt after Ctrl-C, when what was run has been told and stored.
    """
    began_ns = _monotonic_ns()
    address = address_of(master, settings)
    known = load_accepted(options)
    fleet = _fleet(provider, declared)
    spec = fleet.spec
    chosen = _chosen(options, fleet, is_searched=seeds is None)
    expect_shipped(address, chosen.scenarios.values())
    about = _about(provider, declared, seeds, chosen, options)
    early_end = EarlyEnd(options, known, lock={provider, spec.name}, began_ns=began_ns, shrink_ns=SHRINK_NS)
    losses: list[str] = []
    with begin_run("gate", about) as folder:
        abilities = _abilities(console, fleet, declared)
        with cluster_at(
            address,
            [spec],
            work=folder.path / SPARK_FOLDER,
            tell=loss_teller(console, losses),
        ) as cluster:
            at_once = processes or cores()
            found = _explored(
                console, spec, abilities, chosen, early_end, seeds=seeds, processes=at_once, cluster=cluster
            )
        results = [part.result for part in found.explored if part.result is not None]
        required = required_of(results, options.required, allowed)
        gate = _Gate(console, spec, found, folder=folder, about=about, allowed=allowed, shrink_ns=early_end.shrink_ns)
        concluded = gate.concluded()
        seconds = (_monotonic_ns() - began_ns) / NS_PER_S
        result = concluded.model_copy(update={"seconds": seconds, "required": tuple(required), "notes": tuple(losses)})
        result = under_options(result, options, chosen, known=known, lock=spec.name, provider=provider)
        if is_interrupted := found.is_interrupted or interrupts.was_heard():
            # No verdict: what was run is told and kept, and so is what was not.
            result = result.model_copy(update={"exit_code": INTERRUPTED})
        folder.write("gate.json", printable_json(result.model_dump_json(indent=1)) + "\n")
        folder.describe(status="interrupted" if is_interrupted else "finished", exit_code=result.exit_code)
    _tell(console, result, options)
    if is_interrupted:
        raise KeyboardInterrupt
    return result.exit_code


def _fleet(provider: str, declared: Sequence[tuple[Ability, bool]]) -> Fleet:
    """The lock under test, or the mixed fleet, set up. Raises ConfigError for what does not load or fit."""
    fleet = load_fleet(provider)
    fleet.require_virtual_time()
    if (Ability.LEASE, False) not in declared:
        return fleet
    if fleet.is_mixed:
        raise ConfigError(
            f"--declare no-lease speaks for one lock, and {provider!r} has several: give each class that has no lease "
            f"claims = ({NO_LEASE!r},)"
        )
    spec = fleet.spec
    if {LEASE, NO_LEASE} & set(spec.claims):
        return fleet
    return replace(fleet, spec=replace(spec, claims=(*spec.claims, NO_LEASE)))


def _chosen(options: GateOptions, fleet: Fleet, *, is_searched: bool) -> Chosen:
    """The scenarios that are run, as this fleet runs them. is_searched: the small worlds of the searches as well."""
    known = judged_catalogue()
    if is_searched:
        known |= searched_worlds()
    chosen = choose(options, known, fleet.spec.name)
    if fleet.is_mixed:
        chosen.notes.insert(0, fleet_note(fleet))
    return replace(chosen, scenarios={name: fleet.on(scenario) for name, scenario in chosen.scenarios.items()})


def _about(
    provider: str,
    declared: Sequence[tuple[Ability, bool]],
    seeds: range | None,
    chosen: Chosen,
    options: GateOptions,
) -> dict[str, object]:
    """The provenance of the command."""
    return provenance(
        {
            "provider": provider,
            "declared": [f"{'' if has else 'no-'}{ability}" for ability, has in declared],
            "seeds": "" if seeds is None else f"{seeds.start}..{seeds.stop - 1}",
            "scenarios": list(chosen.scenarios) if chosen.left_out else [],
            "files": list(options.files),
            "required": list(options.required),
        }
    )


def _abilities(console: Console, fleet: Fleet, declared: Sequence[tuple[Ability, bool]]) -> Abilities:
    console.step(f"asking {printable(fleet.spec.name)} what it can do")
    # The lock as it is declared here; of a fleet each lock is as its class says.
    locks = fleet.locks if fleet.is_mixed else (fleet.spec,)
    return ask_fleet(
        locks,
        declared=[ability for ability, has in declared if has],
        denied=[ability for ability, has in declared if not has],
    )


def _tell(console: Console, result: GateResult, options: GateOptions) -> None:
    """Print the document and the screen, and write the files that the caller asks for."""
    if console.as_json:
        console.document(result.model_dump(mode="json"))
    for text, style in screen_lines(result):
        console.say(text, style=style)
    write_outputs(console, result, options)


def _explored(
    console: Console,
    spec: ProviderSpec,
    abilities: Abilities,
    chosen: Chosen,
    early_end: EarlyEnd,
    *,
    seeds: range | None,
    processes: int,
    cluster: Cluster | None,
) -> Exploration:
    """The runs of the chosen scenarios, with their progress on the console."""
    left_ns = early_end.left_ns if early_end.has_budget else None
    progress = SeedProgress(console, left_ns=left_ns)
    found = explore(
        spec,
        abilities,
        chosen.scenarios,
        own=chosen.sources,
        seeds=seeds,
        processes=processes,
        cluster=cluster,
        is_over=early_end.is_over,
        left_ns=left_ns,
        on_progress=early_end.looking(progress.show),
        on_plan=progress.expect,
        on_searched=early_end.looking(lambda result: _tell_searched(console, result)),
    )
    return replace(found, cut=early_end.reason) if found.cut and not found.is_interrupted else found


def _tell_searched(console: Console, result: Searched) -> None:
    console.progress(f"{result.scenario}: searched in {counted(result.summary.runs, 'run')}")


def _seed_of(part: Explored, finding: Finding, provider: str) -> tuple[int, str]:
    """The seed of the run that speaks for a finding, and the line that repeats it; "" where a seed alone does not."""
    line = f"lockref sim {part.reference} --provider {provider} --seed"
    match part.searched:
        case None:
            return finding.run, f"{line} {finding.run}"
        case SearchResult():
            return part.searched.failing[finding.run].seed, ""
        case _:
            seed = part.searched.repeatable[finding.run].seed
            return seed, f"{line} {seed} {part.searched.exploration.options}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Alike:
    """A failure of a cause whose example is another failure. It is not stored: its seed shows it again."""

    id: str
    seed: int
    replay: str
    notes: tuple[tuple[str, str], ...]
    shown: ShownFailure | None = None
    because: str = ""


class _Gate:
    """The causes of what broke in one exploration, and the account of each of its scenarios."""

    def __init__(
        self,
        console: Console,
        spec: ProviderSpec,
        found: Exploration,
        *,
        folder: RunFolder,
        about: Mapping[str, object],
        allowed: Sequence[int],
        shrink_ns: int,
    ) -> None:
        self._console = console
        self._spec = spec
        self._found = found
        self._folder = folder
        self._about = about
        self._allowed = allowed
        self._parts = {part.scenario.name: part for part in found.explored}
        self._budget = ShrinkBudget(shrink_ns)
        self._records: dict[tuple[str, tuple[str, str, tuple[str, ...]]], FailureRecord] = {}
        self._causes: list[Cause] = []
        self._blocks: dict[str, str] = {}

    def concluded(self) -> GateResult:
        """Group the failures, write the account of each scenario into its part of the folder, and sum up."""
        self._causes = causes_of(self._cases(), self._examined)
        scenarios = tuple(self._concluded_part(part) for part in self._found.explored)
        codes = [each.exit_code for each in scenarios]
        return GateResult(
            provider=self._spec.name,
            stands_on=self._spec.stands_on,
            exit_code=worst(codes),
            scenarios=scenarios,
            groups=tuple(group_of(cause, self._blocks.get(cause.known.identity, "")) for cause in self._causes),
            abilities=told_abilities(self._found.abilities),
            unexplored=tuple(unexplored(self._found)),
            cut=self._found.cut,
            crashes=tuple(crashes_of(self._found.explored, self._spec.name)),
            folder=str(self._folder.path),
        )

    def _cases(self) -> list[Case]:
        return [
            Case(name, finding, order)
            for order, (name, part) in enumerate(self._parts.items())
            if part.judged is not None
            for finding in first_cause(part.judged.summary.findings)
        ]

    def _examined(self, case: Case) -> Examined:
        """Run the failure once more, store it, and shrink it while there is time."""
        part = self._parts[case.scenario]
        record = self._store_of(part).store(case.finding)
        self._records[case.scenario, case.finding.key] = record
        finding = record.shown.finding if record.shown is not None else case.finding
        assert part.judged is not None, "only what ran has failed"
        demanded = set(CLAUSES) - part.judged.summary.not_demanded
        sentence = record.because or readable(str(finding.witness.get("text") or CLAUSES[finding.clause]))
        return Examined(
            identity=record.id,
            replay=record.replay,
            sentence=with_locks(sentence, part.scenario.providers, finding),
            needs=record.needs,
            broken={clause: at_ns for clause, at_ns in record.broken.items() if clause in demanded},
            beside={clause: at_ns for clause, at_ns in record.broken.items() if clause not in demanded},
            is_shrunk=record.is_shrunk,
            client=client_of(finding),
        )

    def _store_of(self, part: Explored) -> FailureStore | FailingTrials:
        is_in_a_hurry = self._found.is_interrupted or interrupts.was_heard()
        tell = self._console.progress
        if isinstance(part.searched, SearchResult):
            failing = part.searched.failing
            return FailingTrials(
                failing, self._spec, is_in_a_hurry=is_in_a_hurry, budget=self._budget, on_progress=tell
            )
        return FailureStore(
            part.scenario,
            self._spec,
            source=part.source,
            is_in_a_hurry=is_in_a_hurry,
            budget=self._budget,
            on_progress=tell,
            again=None if part.searched is None else part.searched.again,
            options="" if part.searched is None else f" {part.searched.exploration.options}",
        )

    def _concluded_part(self, part: Explored) -> GatedScenario:
        scenario = part.scenario
        about = {
            "name": scenario.name,
            "source": part.source,
            "ids": tuple(scenario.ids),
            "faults": tuple(dict.fromkeys(fault.kind for fault in scenario.faults)),
        }
        if part.error is not None:
            reason, code = str(part.error), part.error.exit_code
            return GatedScenario(**about, outcome=NOT_RUN, reason=reason, exit_code=code)  # type: ignore[arg-type]
        if part.misfit and part.source:
            reason = f"{part.source} does not apply to {self._spec.name}: {part.misfit}"
            return GatedScenario(**about, outcome=NOT_RUN, reason=reason, exit_code=USAGE)  # type: ignore[arg-type]
        if part.judged is None and part.demands.is_run and not part.misfit:
            return GatedScenario(**about, outcome=INCONCLUSIVE, exit_code=OPEN)  # type: ignore[arg-type]
        if part.judged is None:
            reason = part.misfit or part.demands.not_applicable
            return GatedScenario(**about, outcome=NOT_APPLICABLE, reason=reason)  # type: ignore[arg-type]
        results = self._written(part)
        outcome = outcome_of(results, part)
        is_asked = outcome != NOT_APPLICABLE
        return GatedScenario(
            **about,  # type: ignore[arg-type]
            outcome=outcome,
            reason=reason_of(results, part, outcome),
            runs=results.runs,
            seconds=part.spent_ns / NS_PER_S,
            broken=tuple(results.broken),
            broken_limits=tuple(str(kept) for _, kept in part.judged.summary.thresholds if kept.verdict == VIOLATED),
            groups=tuple(
                cause.known.identity
                for cause in self._causes
                if any(case.scenario == scenario.name for case in cause.cases)
            ),
            clauses=tuple(sorted(part.judged.summary.judged)),
            exit_code=code_of([results], self._allowed) if is_asked else 0,
        )

    def _written(self, part: Explored) -> Results:
        """The account of one scenario, written to its part of the folder with the histories that were kept."""
        assert part.judged is not None, "only what ran has an account"
        done = part.judged
        results = summarised_results(
            done.summary,
            title=done.title,
            scenario=done.scenario,
            provider=done.provider,
            provenance={**self._about, "digest": done.digest},
            store_failure=lambda finding: self._record_of(part, finding),
        )
        self._blocks.update({failure.id: failure.block for failure in results.failures})
        results.notices += done.notices
        if part.demands.note:
            results.notices.append(f"not asked of this lock: {part.demands.note}")
        write_run(self._folder.part(part.scenario.name).path, *done.history, results, allowed=self._allowed)
        return results

    def _record_of(self, part: Explored, finding: Finding) -> FailureRecord | _Alike:
        known = self._records.get((part.scenario.name, finding.key))
        if known is not None:
            return known
        seed, seed_line = _seed_of(part, finding, self._spec.name)
        example = self._example_of(part.scenario.name, finding)
        notes = (*((("as in", example),) if example else ()), *((("from seed", seed_line),) if seed_line else ()))
        return _Alike(id=f"{finding.clause}-{finding.run}", seed=seed, replay=seed_line, notes=notes)

    def _example_of(self, scenario: str, finding: Finding) -> str:
        """The id of the failure that is the example of this cause; "" for what followed from another clause."""
        for cause in self._causes:
            if any(case.scenario == scenario and case.finding.key == finding.key for case in cause.cases):
                return cause.known.identity
        return ""
