"""The edges of a gate: which scenarios it takes, how long, what is accepted and required, and where it is told."""

from __future__ import annotations

import ast
import importlib.util
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lockref.atomic_files import write_atomically
from lockref.durations import plain_duration
from lockref.errors import ConfigError
from lockref.runtime import ThreadRuntime
from lockref.words import counted
from reports.checks.thresholds.kept import Samples, judged_threshold
from reports.formats import gate_result
from reports.formats.exit_codes import HELD, INCONCLUSIVE, NOT_LIVE, worst
from reports.formats.gate_markdown import gate_markdown
from reports.formats.gate_result import FailureGroup, GatedScenario, GateResult, Required, load_gate
from reports.formats.github import gate_annotation_lines
from reports.formats.junit import gate_junit_xml
from reports.formats.markdown import BYTES_MAX
from scenarios.definition.load import is_own_file, load_scenario
from scenarios.failures.kinds import shape_of
from scenarios.gate.causes import first_cause
from scenarios.gate.demands import Ability
from scenarios.gate.known import KnownFailure, accept, load_known
from scenarios.gate.selection import Words
from scenarios.runs import finished_runs

if TYPE_CHECKING:
    from lockref.cli.jobs.console import Console
    from scenarios.campaign import CampaignResult
    from scenarios.definition.schema import Scenario
    from scenarios.gate.selection import Selection

_monotonic_ns: Final = ThreadRuntime().monotonic_ns

_CODES: Final = {"violated": NOT_LIVE, "inconclusive": INCONCLUSIVE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Edges:
    """The wishes of a caller, besides the verdict.

    files: scenario files of the caller, beside the catalogue; is_only_mine: without it.
    selected, excluded: which scenarios. is_last_failed: of those, the ones that stopped the last gate of the same lock.
    known: the file of accepted failures. required: limits that all runs together must keep.
    is_fail_fast: end after the first scenario that broke, but for accepted failures.
    budget_ns: real time of the whole. junit, markdown: files to write.
    """

    files: Sequence[str] = ()
    is_only_mine: bool = False
    selected: Selection | None = None
    excluded: Sequence[Selection] = ()
    is_last_failed: bool = False
    known: Path | None = None
    required: Sequence[str] = ()
    is_fail_fast: bool = False
    budget_ns: int | None = None
    junit: Path | None = None
    markdown: Path | None = None


@dataclass(slots=True, kw_only=True)
class Chosen:
    """The scenarios that a gate runs, by name.

    sources: the files of those that are the caller's own, by name. left_out: how many the caller left out.
    notes: what is to be told of the choice.
    """

    scenarios: dict[str, Scenario]
    sources: Mapping[str, str]
    left_out: int
    notes: list[str] = field(default_factory=list)


def choose(edges: Edges, scenarios: Mapping[str, Scenario], lock: str) -> Chosen:
    """The scenarios that the caller asks for, each with the limits that are required.

    scenarios: those of the catalogue. lock: the name of the lock under test.
    Raises ConfigError where nothing is left, and for a file that is no scenario.
    """
    own, sources = _own_scenarios(edges, scenarios)
    scenarios = own if edges.is_only_mine else {**scenarios, **own}
    words = {name: Words.of(scenario) for name, scenario in scenarios.items()}
    chosen = dict(scenarios)
    if edges.selected is not None:
        chosen = {name: each for name, each in chosen.items() if edges.selected.takes(words[name])}
        if not chosen:
            raise ConfigError(
                f"-k {edges.selected.text!r} takes none of {len(scenarios)} scenarios."
                f"{edges.selected.hint(words.values())} `lockref scenario list` shows them"
            )
    for excluded in edges.excluded:
        chosen = {name: each for name, each in chosen.items() if not excluded.takes(words[name])}
    if not chosen:
        raise ConfigError("--exclude leaves no scenario to run")
    notes: list[str] = []
    if edges.is_last_failed:
        failed, notes = _failed_last(lock)
        again = {name: each for name, each in chosen.items() if name in failed}
        if failed and not again:
            raise ConfigError("-k and --exclude leave no scenario that stopped the last gate of this lock")
        chosen = again or chosen
    return Chosen(
        scenarios={name: each.demanding(edges.required) for name, each in chosen.items()},
        sources={name: source for name, source in sources.items() if name in chosen},
        left_out=len(scenarios) - len(chosen),
        notes=notes,
    )


def _own_scenarios(edges: Edges, known: Mapping[str, Scenario]) -> tuple[dict[str, Scenario], dict[str, str]]:
    """The scenarios of the caller's files, and the file of each. A name stands for one scenario in every account."""
    if edges.is_only_mine and not edges.files:
        raise ConfigError("--only-mine leaves the catalogue out: name at least one scenario file")
    own: dict[str, Scenario] = {}
    sources: dict[str, str] = {}
    for file in edges.files:
        if not is_own_file(file):
            raise ConfigError(
                f"{file} is in the catalogue, which the gate runs by itself; -k {Path(file).stem} selects it"
            )
        scenario = load_scenario(file)
        if scenario.name in own or scenario.name in known:
            other = sources.get(scenario.name, "the catalogue")
            raise ConfigError(f"{file}: name: {scenario.name!r} is that of a scenario in {other}; give it another name")
        own[scenario.name], sources[scenario.name] = scenario, file
    return own, sources


def _failed_last(lock: str) -> tuple[frozenset[str], list[str]]:
    """The scenarios that stopped the last gate of the lock; none, and a note, where all are to be run."""
    for folder in finished_runs("gate"):
        try:
            last = load_gate(folder / "gate.json")
        except ConfigError:
            # A gate of another version, or one that was removed meanwhile: an older one may still be read.
            continue
        if last.provider == lock:
            failed = frozenset(each.name for each in last.scenarios if each.exit_code)
            return failed, [] if failed else [f"--last-failed: nothing stopped the gate of {folder}, so all are run"]
    return frozenset(), ["--last-failed: there is no earlier gate of this lock here, so all scenarios are run"]


class Watch:
    """The end of a gate before all was run: its time is over, or the first scenario broke (`--fail-fast`).

    A failure is named by its cause only when it has been examined. Until then its clause and its shape tell whether an
    entry of the list of known failures may be about it.
    """

    def __init__(
        self,
        edges: Edges,
        known: Iterable[KnownFailure],
        *,
        lock: Collection[str],
        began_ns: int,
        shrink_ns: int,
        now_ns: Callable[[], int] = _monotonic_ns,
    ) -> None:
        """began_ns: when the command began. shrink_ns: the time for shrinking, once all has run. Both in real time."""
        self._edges = edges
        self._known = [entry for entry in known if entry.is_of(lock)]
        self._began_ns = began_ns
        self._shrink_ns = shrink_ns
        self._now_ns = now_ns
        self._failed: dict[str, bool] = {}

    def looking(self, show: Callable[[CampaignResult], None]) -> Callable[[CampaignResult], None]:
        """`show`, which also looks at what a scenario has shown so far."""

        def look(result: CampaignResult) -> None:
            self._look(result)
            show(result)

        return look

    @property
    def shrink_ns(self) -> int:
        """The time for shrinking what broke, after the last run."""
        if self._edges.budget_ns is None:
            return self._shrink_ns
        return max(0, min(self._shrink_ns, self._began_ns + self._edges.budget_ns - self._now_ns()))

    def left_ns(self) -> int:
        """The time that is left for runs. Once something broke, a part of the whole is kept for shrinking it."""
        assert self._edges.budget_ns is not None, "asked of a gate with a budget alone"
        budget_ns = self._edges.budget_ns
        kept_ns = min(self._shrink_ns, budget_ns // 4) if self._failed else 0
        return max(0, self._began_ns + budget_ns - kept_ns - self._now_ns())

    def is_over(self) -> bool:
        """True once no further piece of work may begin."""
        return bool(self.why_over)

    @property
    def why_over(self) -> str:
        """Why no further piece of work may begin; "" while one may."""
        if self._edges.is_fail_fast and any(self._failed.values()):
            return "--fail-fast: the first scenario that broke ended the gate"
        if self._edges.budget_ns is not None and not self.left_ns():
            return f"the {plain_duration(self._edges.budget_ns)} of --for were over before all was run that was planned"
        return ""

    def _look(self, result: CampaignResult) -> None:
        for finding in first_cause(result.summary.findings):
            shape = shape_of(finding.clause, finding.witness).replace(" ", "-") or "broken"
            begin = f"{finding.clause}:{shape}"
            is_new = not any(entry.may_be(begin) for entry in self._known)
            self._failed[begin] = is_new


def required_of(results: Iterable[CampaignResult], texts: Sequence[str], allowed: Collection[int]) -> list[Required]:
    """The limits that all runs together must keep, judged; they are taken out of the results of single scenarios.

    A limit of the whole says little about one scenario: in most of them a fault is the reason for the wait.
    """
    pooled = {text: Samples() for text in texts}
    for result in results:
        for party, text in list(result.summary.limits):
            if text in pooled:
                pooled[text].join(result.summary.limits.pop((party, text)))
    found = []
    for text, samples in pooled.items():
        kept = judged_threshold(text, samples)
        code = _CODES.get(kept.verdict, HELD)
        found.append(
            Required.model_validate(
                {
                    "text": text,
                    "verdict": kept.verdict,
                    "told": str(kept),
                    "exit_code": HELD if code in allowed else code,
                }
            )
        )
    return found


def with_edges(
    result: GateResult, edges: Edges, chosen: Chosen, *, known: Sequence[KnownFailure], lock: str, provider: str
) -> GateResult:
    """The result with what was accepted and left out. lock: its name. provider: the lock as the caller named it."""
    is_whole = not (chosen.left_out or result.cut)
    acceptance = accept(known, result.groups, lock={provider, lock}, today=datetime.now(UTC).date(), is_whole=is_whole)
    groups = tuple(
        group.model_copy(update={"accepted": acceptance.accepted.get(place, "")})
        for place, group in enumerate(result.groups)
    )
    scenarios = tuple(
        _accepted(_begun(each, result.cut, is_enough=edges.is_fail_fast), groups) for each in result.scenarios
    )
    codes = [*(each.exit_code for each in scenarios), *(limit.exit_code for limit in result.required)]
    left_out = f"{counted(chosen.left_out, 'scenario')} that the caller left out" if chosen.left_out else ""
    file, line = class_place(provider)
    return result.model_copy(
        update={
            "groups": groups,
            "scenarios": scenarios,
            "exit_code": worst(codes),
            "unexplored": (*([left_out] if left_out else []), *result.unexplored),
            "notes": (*_hints(result), *chosen.notes, *acceptance.notes),
            "lock_file": file,
            "lock_line": line,
        }
    )


def _hints(result: GateResult) -> list[str]:
    """Declarations that the caller may have forgotten."""
    lease = next((found for found in result.abilities if found.name == Ability.LEASE), None)
    if lease is None or lease.has or lease.origin == "declared":
        return []
    if not any(group.clause in ("L1", "L2", "L6") for group in result.groups):
        return []
    return [
        "this lock seems to have no lease. If an operator frees what a dead holder leaves, say so: --declare no-lease, "
        'or claims = ("no-lease",) in its class'
    ]


def _begun(scenario: GatedScenario, cut: str, *, is_enough: bool) -> GatedScenario:
    """A scenario that was not begun says why. is_enough: the caller wanted no more than the first failure."""
    if not cut or scenario.runs or scenario.outcome != gate_result.INCONCLUSIVE:
        return scenario
    code = HELD if is_enough else scenario.exit_code
    return scenario.model_copy(update={"reason": f"not begun: {cut}", "exit_code": code})


def _accepted(scenario: GatedScenario, groups: Sequence[FailureGroup]) -> GatedScenario:
    """A scenario all of whose causes are accepted stops nothing, unless it broke a limit of its own as well."""
    shown = [group for group in groups if group.id in scenario.groups]
    if not shown or not all(group.accepted for group in shown) or scenario.broken_limits:
        return scenario
    return scenario.model_copy(update={"outcome": gate_result.ACCEPTED, "exit_code": HELD})


def class_place(provider: str) -> tuple[str, int | None]:
    """The file and the line in which the class of a lock begins, for annotations; "" and None where neither is known.

    provider: as the caller named the lock. Nothing is imported: the file is read.
    """
    source, _, name = provider.rpartition(":")
    if not source:
        return "", None
    path = Path(source)
    if path.suffix != ".py":
        try:
            found = importlib.util.find_spec(source)
        except (ImportError, ValueError):
            return "", None
        if found is None or not found.origin:
            return "", None
        path = Path(found.origin)
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return "", None
    lines = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name]
    # GitHub knows files by their path from the root of the repository.
    root = os.environ.get("GITHUB_WORKSPACE", ".")
    return Path(os.path.relpath(path, root)).as_posix(), min(lines, default=None)


def tell(console: Console, result: GateResult, edges: Edges) -> None:
    """Write the files that the caller asks for, and what a CI system reads: the summary of the job, and annotations."""
    if edges.junit is not None:
        write_atomically(edges.junit, gate_junit_xml(result))
    if edges.markdown is not None:
        write_atomically(edges.markdown, gate_markdown(result))
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        _append_summary(Path(summary), result)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in gate_annotation_lines(result):
            console.command(line)


def _append_summary(path: Path, result: GateResult) -> None:
    """Append to the summary of the job's step, which may have a part already. All of it counts towards the limit."""
    there = path.stat().st_size if path.exists() else 0
    if there < BYTES_MAX:
        with path.open("a", encoding="utf-8") as file:
            file.write("\n" + gate_markdown(result, bytes_max=BYTES_MAX - there - 1))


def load_edges(edges: Edges) -> tuple[KnownFailure, ...]:
    """The accepted failures; before the first run, so that a bad file costs nobody a minute."""
    return () if edges.known is None else load_known(edges.known)
