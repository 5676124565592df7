"""The options of a gate: which scenarios it takes, how long, what is accepted and required, which files it writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lockref.errors import ConfigError
from reports.formats.gate_result import load_gate
from scenarios.definition.load import is_own_file, load_scenario
from scenarios.gate.known import KnownFailure, load_known
from scenarios.gate.selection import Words
from scenarios.runs import finished_runs

if TYPE_CHECKING:
    from scenarios.definition.schema import Scenario
    from scenarios.gate.selection import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """The options of one gate, as the caller gave them.

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


def load_accepted(options: GateOptions) -> tuple[KnownFailure, ...]:
    """The accepted failures; before the first run, so that a bad file costs nobody a minute."""
    return () if options.known is None else load_known(options.known)


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


def choose(options: GateOptions, scenarios: Mapping[str, Scenario], lock: str) -> Chosen:
    """The scenarios that the caller asks for, each with the limits that are required.

    scenarios: those of the catalogue. lock: the name of the lock under test.
    Raises ConfigError where nothing is left, and for a file that is no scenario.
    """
    own, sources = _own_scenarios(options, scenarios)
    scenarios = own if options.is_only_mine else {**scenarios, **own}
    words = {name: Words.of(scenario) for name, scenario in scenarios.items()}
    chosen = dict(scenarios)
    if options.selected is not None:
        chosen = {name: each for name, each in chosen.items() if options.selected.takes(words[name])}
        if not chosen:
            raise ConfigError(
                f"-k {options.selected.text!r} takes none of {len(scenarios)} scenarios."
                f"{options.selected.hint(words.values())} `lockref scenario list` shows them"
            )
    for excluded in options.excluded:
        chosen = {name: each for name, each in chosen.items() if not excluded.takes(words[name])}
    if not chosen:
        raise ConfigError("--exclude leaves no scenario to run")
    notes: list[str] = []
    if options.is_last_failed:
        failed, notes = _failed_last(lock)
        again = {name: each for name, each in chosen.items() if name in failed}
        if failed and not again:
            raise ConfigError("-k and --exclude leave no scenario that stopped the last gate of this lock")
        chosen = again or chosen
    return Chosen(
        scenarios={name: each.demanding(options.required) for name, each in chosen.items()},
        sources={name: source for name, source in sources.items() if name in chosen},
        left_out=len(scenarios) - len(chosen),
        notes=notes,
    )


def _own_scenarios(options: GateOptions, known: Mapping[str, Scenario]) -> tuple[dict[str, Scenario], dict[str, str]]:
    """The scenarios of the caller's files, and the file of each. A name stands for one scenario in every account."""
    if options.is_only_mine and not options.files:
        raise ConfigError("--only-mine leaves the catalogue out: name at least one scenario file")
    own: dict[str, Scenario] = {}
    sources: dict[str, str] = {}
    for file in options.files:
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
