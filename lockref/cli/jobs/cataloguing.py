"""The catalogue for people: which scenarios there are, what happens in one, and what a run of one would refuse."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from lockref.cli.jobs.shown.console import printable
from lockref.errors import ConfigError, LockrefError, did_you_mean
from lockref.lab.loading import BUILT_IN, load_provider
from lockref.words import counted
from reports.checks.spec import CLAUSES
from reports.checks.thresholds.limits import NEED_CALLS, measures_of
from scenarios.definition.contradictions import foreign_code
from scenarios.definition.expectation_words import LEGEND, expectation_words
from scenarios.definition.fault_forms import Model
from scenarios.definition.faults import id_of
from scenarios.definition.load import catalogue, load_scenario
from scenarios.definition.mixture import inapplicable
from scenarios.definition.units import DrawnNumber
from scenarios.gate.selection import Words, parse_selection

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console
    from scenarios.definition.fault_forms import WrittenFault
    from scenarios.definition.schema import Floor, Scenario

ABOUT_MAX = 400
ABOUT_LENGTH_MAX = 4_000
LABEL = 12
FIRST = range(1, 2)


def list_scenarios(
    console: Console,
    *,
    ids: Sequence[str],
    clauses: Sequence[str],
    faults: Sequence[str],
    builds: Sequence[str],
    expression: str,
) -> None:
    """List the scenarios of the catalogue that fit: of each kind of filter at least one word, and the expression.

    Errors: ConfigError for a word that no scenario of the catalogue has, and for an expression that cannot be read.
    """
    try:
        selection = parse_selection(expression) if expression else None
    except ValueError as error:
        raise ConfigError(f"-k {error}") from error
    # The files that come with lockref are tested; a listing need not import the locks that they name.
    loaded = [(path, load_scenario(path, may_import=False)) for path in catalogue()]
    filters = {"--id": ids, "--clause": clauses, "--fault": faults, "--build": builds}
    has = {path: dict(zip(filters, _words(scenario), strict=True)) for path, scenario in loaded}
    for option, wanted in filters.items():
        known = sorted({word for words in has.values() for word in words[option]})
        for word in wanted:
            if word not in known:
                raise ConfigError(f"{option} {word}: no scenario has it.{did_you_mean(word, known)}")
    chosen = [
        (path, scenario)
        for path, scenario in loaded
        if all(not wanted or set(wanted) & has[path][option] for option, wanted in filters.items())
        and (selection is None or selection.takes(Words.of(scenario)))
    ]
    if not chosen:
        hint = selection.hint(Words.of(scenario) for _, scenario in loaded) if selection else ""
        raise ConfigError(f"no scenario of the catalogue fits.{hint}")
    if console.as_json:
        console.document(
            {
                "scenarios": [
                    {"name": path.stem, "ids": scenario.ids, "about": scenario.about.strip(), "expect": scenario.expect}
                    for path, scenario in chosen
                ]
            }
        )
        return
    console.say(LEGEND, style="dim")
    for path, scenario in chosen:
        expected = ", ".join(f"{build} {expectation_words(scenario.expect[build])}" for build in scenario.expect)
        console.say(f"{path.stem:<34} {expected}")
        first = scenario.about.strip().split(". ")[0].rstrip(".")
        if first:
            console.say(f"    {printable(f'{first}.', limit=ABOUT_MAX)}", style="dim")
    named = {clause for _, scenario in chosen for clause in _clauses(scenario)}
    for clause in (clause for clause in CLAUSES if clause in named):
        console.say(f"  {clause:<4} {CLAUSES[clause]}", style="dim")
    if len(chosen) < len(loaded):
        console.say(f"{counted(len(chosen), 'scenario')} of {len(loaded)}", style="dim")


def _clauses(scenario: Scenario) -> set[str]:
    """The clauses that the scenario expects something of, by name."""
    return {clause for each in scenario.expect.values() if isinstance(each, dict) for clause in each}


def _words(scenario: Scenario) -> Iterator[set[str]]:
    """The ids, clauses, kinds of faults and builds of a scenario."""
    yield set(scenario.ids)
    yield _clauses(scenario)
    yield {fault.kind for fault in scenario.faults} | set(scenario.swarm.kinds if scenario.swarm else ())
    yield set(scenario.expect)


def show_scenario(console: Console, name: str) -> None:
    """Say what happens in a scenario, what goes wrong, and what is expected of each build.

    Errors: ConfigError for a scenario that does not exist or does not load.
    """
    scenario = load_scenario(name, may_import=False)
    console.say(f"{scenario.name}  {', '.join(scenario.ids)}".rstrip(), style="head")
    if scenario.about:
        console.say(
            textwrap.fill(printable(scenario.about, limit=4000), 100, initial_indent="  ", subsequent_indent="  ")
        )
    for label, lines in _sections(scenario):
        for number, line in enumerate(lines):
            console.say(f"  {label if number == 0 else '':<{LABEL}} {printable(line, limit=1000)}")
    console.say(f"  {'run it':<{LABEL}} lockref sim {name}", style="dim")


def _sections(scenario: Scenario) -> Iterator[tuple[str, list[str]]]:
    work, lock = scenario.workload, scenario.lock
    yield (
        "clients",
        [
            f"{scenario.clients} for {scenario.duration.text}; life {work.life}, resource {work.kind}",
            f"cycles {work.cycles.text}, wait {work.wait.text}, hold {work.hold.text}, writes {work.writes.text}",
        ],
    )
    yield "lock", [f"validity {lock.validity.text}, renewed every {lock.renew_every.text}"]
    yield (
        "clocks",
        [
            *(f"{client} shows {by.text} more than it is" for client, by in scenario.clock.offset.items()),
            *(f"{client} runs too fast by {rate.text}" for client, rate in scenario.clock.drift.items()),
        ],
    )
    yield "beside it", [f"{client} runs {other}" for client, other in scenario.providers.items()]
    faults = [line for number, fault in enumerate(scenario.faults, 1) for line in _fault(fault, number)]
    if scenario.swarm is not None:
        kinds = ", ".join(scenario.swarm.kinds) or "all that a correct lock survives"
        faults.append(f"a random plan for each seed, of {kinds}")
    yield "faults", faults or ["none"]
    yield "expected", [f"{build}: {expectation_words(said)}" for build, said in scenario.expect.items()]
    _, named, _, _ = _words(scenario)
    yield "", [f"{clause}  {sentence}" for clause, sentence in CLAUSES.items() if clause in named]
    yield "must happen", [_demand(demand) for demand in scenario.must_happen]
    yield "limits", list(scenario.thresholds)


def _fault(fault: WrittenFault, number: int) -> Iterator[str]:
    """A fault as the file has it, and what its kind does."""
    told = []
    for field in type(fault).model_fields:
        value = getattr(fault, field)
        if field not in ("id", "kind", "charset") and value not in (None, False):
            told.append(f"{field.rstrip('_')} {_value(value)}")
    yield f"{id_of(fault, number=number)}: {fault.kind}, {', '.join(told)}"
    paragraph = (inspect.getdoc(fault.fault_type) or "").split("\n\n")[0]
    yield f"    {' '.join(paragraph.split())}"


def _demand(demand: str | Mapping[str, int | Floor]) -> str:
    """A situation that must come about, and how often."""
    if isinstance(demand, str):
        return demand
    told = []
    for situation, floor in demand.items():
        if isinstance(floor, int):
            told.append(f"{situation}, {floor:,} times")
        else:
            words = [f"{name.replace('_', ' ')} {number}" for name, number in floor if number is not None]
            told.append(f"{situation} ({', '.join(words)})")
    return ", ".join(told)


def _value(value: object) -> str:
    if isinstance(value, DrawnNumber):
        return value.text
    if isinstance(value, Model):
        fields = ((name, getattr(value, name)) for name in type(value).model_fields)
        return f"({', '.join(f'{name} {_value(each)}' for name, each in fields if each not in (None, False))})"
    return str(value)


def validate_scenarios(console: Console, files: Sequence[str], *, provider: str, trust: bool) -> int:
    """Say what is wrong with scenario files, and what a run of them would refuse; 2 if anything is, else 0.

    provider: the lock to run them under; "" for the locks of ours that a file names in `expect`. trust: code that a
    file names may be imported, and run.
    """
    wrong = 0
    for file in files:
        try:
            scenario = load_scenario(file, may_import=trust)
        except ConfigError as error:
            wrong += 1
            for line in str(error).splitlines():
                console.say(f"✗ {printable(line, limit=1000)}", style="bad")
            continue
        unseen = [] if trust else [reference for _, reference in foreign_code(scenario)]
        # Nothing of a stranger is run unasked, and whatever names it cannot be run without it.
        refused = [] if unseen else list(_refusals(scenario, provider))
        wrong += bool(refused)
        mark, style = ("✗", "bad") if refused else ("✓", "good")
        console.say(f"{mark} {printable(file)}: {scenario.name}", style=style)
        for reference in unseen:
            console.say(f"  not looked at: {printable(reference)}; --trust imports it")
        for line in refused:
            console.say(f"  {printable(line, limit=1000)}", style="bad")
        for line in _limits(scenario):
            console.say(f"  {printable(line, limit=1000)}", style="dim")
    return 2 if wrong else 0


def _refusals(scenario: Scenario, provider: str) -> Iterator[str]:
    """The reasons why a run under each lock would end before it judges anything: one seed is run, in virtual time."""
    for build in [provider] if provider else [name for name in scenario.expect if name in BUILT_IN] or ["hardened"]:
        try:
            spec = load_provider(build)
            if reason := inapplicable(scenario, spec):
                yield f"does not apply to {build}: {reason}"
                continue
            from scenarios.batch import run_seeds  # A listing loads no simulator and no arrays.

            run_seeds(scenario, spec, scenario.seeds(None, FIRST)[:1])
        except LockrefError as error:
            yield f"under {build} a run is refused: {error}"


def _limits(scenario: Scenario) -> Iterator[str]:
    """The worlds that cannot run the scenario, or not judge it. None of that is wrong."""
    from scenarios.worlds.real import require_feasible

    try:
        require_feasible(scenario)
    except LockrefError as error:
        yield f"not on real servers: {error}"
    if unseen := sorted(measures_of(scenario.thresholds) & NEED_CALLS):
        yield f"not on the wire, which shows no calls: limits on {', '.join(unseen)}"
