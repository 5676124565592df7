"""The parts of a gate's account: the outcome of a scenario, a cause, a crash, an ability, and what was not explored."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lockref.words import counted
from reports.checks.measures.confidence import bound_95
from reports.checks.spec import SAFETY
from reports.formats.gate_result import (
    HELD,
    INCONCLUSIVE,
    NOT_APPLICABLE,
    NOT_LIVE,
    VIOLATED,
    AbilityFound,
    Crash,
    FailureGroup,
    Outcome,
)
from scenarios.gate import searches
from scenarios.gate.causes import Cause, also_broken
from scenarios.gate.spending import FIRST_SEEDS
from scenarios.search.result import SearchResult
from scenarios.worlds.attribution import LockRaised

if TYPE_CHECKING:
    from reports.checks.summary import Finding
    from reports.formats.results import Results
    from scenarios.definition.fleet import Fleet
    from scenarios.gate.abilities import Abilities
    from scenarios.gate.exploration import Exploration, Explored

_CLIENT: Final = re.compile(r"\bn[0-9]+\b")

_MORE: Final = 10
"""A command that draws further schedules draws so many times as many as the gate did."""

FEW: Final = 9
"""So few seeds bound no share of the runs that is worth telling."""


def outcome_of(results: Results, part: Explored) -> Outcome:
    """The outcome of a scenario. One that does not apply is violated all the same where a clause broke."""
    if results.verdict == VIOLATED:
        return VIOLATED
    if VIOLATED in (results.liveness, results.fairness_claims):
        return NOT_LIVE
    if part.demands.not_applicable:
        return NOT_APPLICABLE
    return INCONCLUSIVE if results.worst == INCONCLUSIVE else HELD


def reason_of(results: Results, part: Explored, outcome: Outcome) -> str:
    """The reason for an outcome; of a scenario that held, the situations that were not asked of this lock."""
    if outcome == NOT_APPLICABLE:
        return part.demands.not_applicable
    if outcome == INCONCLUSIVE:
        return "; ".join(results.reasons)
    return part.demands.note if outcome == HELD else ""


def group_of(cause: Cause, block: str) -> FailureGroup:
    """A cause, as an account tells it. block: its example, as `sim` tells it."""
    known, example = cause.known, cause.example
    return FailureGroup(
        cause=cause.kind.word,
        id=known.identity,
        clause=cause.clause,
        shape=cause.kind.shape,
        faults=known.needs,
        sentence=known.sentence,
        scenario=example.scenario,
        seed=example.finding.run,
        replay=known.replay,
        scenarios=cause.scenarios,
        runs=cause.runs,
        also=also_broken(cause),
        client=known.client,
        is_safety=cause.clause in SAFETY,
        is_shrunk=known.is_shrunk,
        block=block,
    )


def client_of(finding: Finding) -> str:
    """The client that is to blame, as the witness names it; "" where it names none."""
    entries = [
        entry
        for name in ("writes", "effects", "calls", "intervals")
        for entry in finding.witness.get(name) or ()
        if isinstance(entry, dict)
    ]
    guilty = [entry for entry in entries if entry.get("is_guilty")] or entries
    return str(guilty[0].get("node", "")) if guilty else ""


def with_locks(sentence: str, locks: Mapping[str, str], finding: Finding) -> str:
    """A sentence about clients, with the lock of each that it names and that has one of its own.

    locks: by client. finding: its witness says which names are those of clients; a key may be called n1, too.
    """
    clients = set(_clients_in(finding.witness))
    named = [name for name in dict.fromkeys(_CLIENT.findall(sentence)) if name in locks and name in clients]
    told = ", ".join(f"{name} runs {locks[name]}" for name in named)
    return f"{told}: {sentence}" if told else sentence


def _clients_in(value: object) -> Iterator[str]:
    """The clients that a witness names, however deep."""
    if isinstance(value, dict):
        if isinstance(node := value.get("node"), str):
            yield node
        for inner in value.values():
            yield from _clients_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _clients_in(inner)


def told_abilities(abilities: Abilities) -> tuple[AbilityFound, ...]:
    """The abilities, as an account tells them."""
    return tuple(
        AbilityFound(
            name=str(found.ability),
            has=found.has,
            evidence=found.evidence,
            origin="declared" if found.is_declared else "seen",
            contradiction=found.contradiction,
        )
        for found in abilities.findings.values()
    )


def fleet_note(fleet: Fleet) -> str:
    """The locks of a mixed fleet by their clients, and how to run it the other way round."""
    clients: dict[str, list[str]] = {}
    for number, lock in enumerate(fleet.members, 1):
        clients.setdefault(lock, []).append(f"n{number}")
    told = "; ".join(f"{', '.join(names)}: {lock}" for lock, names in clients.items())
    turned = ",".join((*fleet.members[1:], fleet.members[0]))
    return f"a mixed fleet ({told}); most faults strike n1, so run --provider {turned} as well"


def crashes_of(explored: Sequence[Explored], provider: str) -> Iterator[Crash]:
    """The steps of the lock that raised, each once: a step that no stray record must meet meets it in many runs."""
    ended: dict[str, list[tuple[Explored, LockRaised]]] = {}
    for part in explored:
        if isinstance(part.error, LockRaised):
            ended.setdefault(part.error.step or "the lock", []).append((part, part.error))
    for step, found in ended.items():
        first, error = found[0]
        file = _below_here(error.file)
        where = f" at {file or error.file}:{error.line}" if error.file else ""
        when = f", when {error.stood}" if error.stood else ""
        yield Crash(
            step=step,
            sentence=f"{step} raised {error.what}{where}{when}",
            scenarios=tuple(part.scenario.name for part, _ in found),
            replay=f"lockref sim {first.reference} --provider {provider}",
            file=file,
            line=error.line if file else None,
        )


def _below_here(file: str) -> str:
    """The file as a path from the folder of the command; "" if it is not below it."""
    path, here = Path(file), Path.cwd()
    return path.relative_to(here).as_posix() if path.is_absolute() and path.is_relative_to(here) else ""


def unexplored(found_by: Exploration) -> list[str]:
    """Sentences on all that the gate has not looked at: parts that a cut left out, further seeds, real servers."""
    runs = sorted(
        part.result.summary.runs for part in found_by.explored if part.result is not None and part.scenario.seed is None
    )
    began = [number for number in runs if number]
    found = []
    if found_by.cut:
        few = sum(number <= FIRST_SEEDS for number in began)
        never = sum(
            part.demands.is_run and not part.misfit and (part.judged is None or not part.judged.summary.runs)
            for part in found_by.explored
        )
        found.append(
            f"{counted(never, 'scenario')} not begun, {counted(few, 'scenario')} with at most {FIRST_SEEDS} seeds: "
            f"{found_by.cut}"
        )
    if began:
        middle = began[(len(began) - 1) // 2]
        share = f"fewer than {100 * bound_95(middle):.0f} % of its runs" if middle > FEW else "some of its runs only"
        found.append(
            f"more seeds: each scenario ran {seeds_in_words(began)}; a mistake that shows in {share} "
            "may have been missed (at 95 %)"
        )
    found += [told for part in found_by.explored if (told := _rest_of(part))]
    return [*found, "real servers (`lockref bench`)"]


def _rest_of(part: Explored) -> str:
    """The sentence on what a search of a world has left out, with the command that runs it; "" for nothing."""
    searched = part.searched
    if searched is None or (isinstance(searched, SearchResult) and searched.counts.get("is_exhausted")):
        return ""
    told = f"the rest of {part.scenario.name}, of which {counted(searched.summary.runs, 'run')} were made"
    command = f"lockref sim {part.scenario.name} --provider {searched.provider}"
    if isinstance(searched, SearchResult):
        return f"{told} (`{command} --explore faults --seed {searches.SEED}` searches all of it, from its beginning)"
    first = searches.DRAWN_SEEDS.start + searched.searched
    last = first + _MORE * searched.seeds - 1
    return f"{told} (`{command} --seeds {first}..{last} {searched.exploration.options}` draws further schedules)"


def seeds_in_words(numbers: Sequence[int]) -> str:
    """`4 to 60 seeds, half of the scenarios 58 or more`. numbers: of each scenario, in rising order, at least one."""
    least, middle, most = numbers[0], numbers[(len(numbers) - 1) // 2], numbers[-1]
    if least == most:
        return counted(most, "seed")
    if middle == least:
        return f"{least} to {most} seeds"
    return f"{least} to {most} seeds, half of the scenarios {middle}{' or more' if middle < most else ''}"
