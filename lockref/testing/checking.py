"""One scenario under one lock, in virtual time: the result that a test asks for.

What is run, what is asked of such a lock, and how failures are stored and explained is as in `lockref gate`. So a test
and the command line say the same of a lock, and `lockref replay LK-…` shows a test's failure again.
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from lockref.errors import ConfigError
from lockref.lab.loading import ProviderSpec, load_provider, provider_from
from lockref.quantities import NS_PER_UNIT
from lockref.seeds import SEED_MAX
from lockref.words import counted
from reports.account import summarised_results
from reports.explanation.explanation import Explanation
from reports.explanation.terminal import WIDTH, event_lines, heading
from reports.formats.results import Failure, Results
from reports.formats.text import outgoing, readable
from scenarios.definition.load import is_own_file, load_scenario
from scenarios.failures.explained import explain_loaded
from scenarios.failures.failure_store import FailureStore
from scenarios.failures.shrink_budget import ShrinkBudget
from scenarios.failures.stored_failures import FAILURES, load_failure
from scenarios.gate.abilities import Abilities, ask
from scenarios.gate.demands import LACKS, Ability, Demands
from scenarios.gate.exploration import explore

SEEDS: Final = range(1, 51)
"""The seeds of a scenario that pins none, where a test names none."""

OTHERS_MAX: Final = 5
"""Failures of one scenario, beside the first, that have a line each."""

_SHRINKING: Final = ShrinkBudget(60 * NS_PER_UNIT["s"])
"""The time for shrinking failures, in all tests of this process."""

Ending = Literal["held", "violated", "inconclusive", "not_applicable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockResult:
    """The outcome of one scenario under one lock.

    outcome: "held"; "violated", a clause of safety, liveness or fairness broke; "inconclusive", it could not be judged,
        or what it is about never came about; "not_applicable", it is about other locks.
    reason: the outcome in one sentence, with how much was run. runs: those that were judged, one for each seed.
    text: what a failing test prints: the cause first, the line that shows it again last.
    failures: the ids of the stored failures, such as `LK-7Q2MAB`.
    """

    scenario: str
    provider: str
    outcome: Ending
    reason: str
    runs: int = 0
    text: str = ""
    failures: tuple[str, ...] = ()

    @property
    def is_held(self) -> bool:
        """True if every demanded clause held, and what the scenario is about came about."""
        return self.outcome == "held"


def check_lock(provider: str | type[object], scenario: str, seeds: Sequence[int] | None = None) -> LockResult:
    """Run a scenario under a lock, once for each seed, and judge the runs.

    provider: a name of `lockref providers`, `module:Class`, `path/file.py:Class`, or the class itself.
    scenario: a name of the catalogue such as `e08`, or a file.
    seeds: default the one that the scenario pins, else 1 to 50.

    Each distinct failure is stored in `.lockref/failures` of the current folder, and shrunk. All tests of one process
    have a minute for that.

    Errors: ConfigError for a lock or a scenario that does not load, for seeds that are none, and for a lock that raises
        what is no LockError; DeterminismError for a lock that reaches for real time; KeyboardInterrupt after Ctrl-C.
    """
    spec, loaded = spec_of(provider), load_scenario(scenario)
    spec.require_virtual_time()
    chosen = loaded.seeds(None if seeds is None else _checked(seeds), SEEDS)
    own = {loaded.name: scenario} if is_own_file(scenario) else {}
    found = explore(spec, _abilities_of(spec), {loaded.name: loaded}, own=own, seeds=chosen)
    if found.is_interrupted:
        raise KeyboardInterrupt
    (part,) = found.explored
    if part.error is not None:
        raise part.error
    if part.result is None:
        reason = part.misfit or part.demands.not_applicable
        return LockResult(scenario=loaded.name, provider=spec.name, outcome="not_applicable", reason=reason)
    done = part.result
    store = FailureStore(loaded, spec, source=scenario, budget=_SHRINKING)
    results = summarised_results(
        done.summary, title=done.title, scenario=loaded.name, provider=spec.name, provenance={},
        store_failure=store.store,
    )  # fmt: skip
    outcome = _outcome(results, part.demands)
    reasons = {"not_applicable": part.demands.not_applicable, "inconclusive": "; ".join(results.reasons)}
    return LockResult(
        scenario=loaded.name,
        provider=spec.name,
        outcome=outcome,
        reason=reasons.get(outcome) or results.statement,
        runs=results.runs,
        text=outgoing("\n".join(_lines(results, outcome, [*done.notices, part.demands.note], spec))),
        failures=tuple(failure.id for failure in results.failures),
    )


def abilities_lacking(provider: str | type[object], required: Sequence[Ability]) -> str:
    """The required abilities that this lock lacks, as a reason for a skip; empty if it has them all.

    The lock is asked by running it, once in this process, and only where an ability is required.
    Errors: those of `check_lock` for a lock.
    """
    if not required:
        return ""
    spec = spec_of(provider)
    spec.require_virtual_time()
    lacking = [ability for ability in dict.fromkeys(required) if ability not in _abilities_of(spec).has]
    return f"{spec.name}: {', '.join(LACKS[ability] for ability in lacking)}" if lacking else ""


_known: Final[dict[tuple[str, str | None], Abilities]] = {}
"""The abilities of the locks that this process has tested, by name and reference."""


def _abilities_of(spec: ProviderSpec) -> Abilities:
    """The abilities of the lock, which is asked once.

    What it shows in one scenario does not count in another one here, as it does at a gate: the outcome of a test must
    not depend on the tests that ran before it.
    """
    key = (spec.name, spec.reference)
    if key not in _known:
        _known[key] = ask(spec)
    return _known[key]


def _outcome(results: Results, demands: Demands) -> Ending:
    standing = results.standing()
    if standing == "violated":
        return standing
    if demands.not_applicable:
        return "not_applicable"
    return "inconclusive" if standing == "inconclusive" else "held"


def _lines(results: Results, outcome: Ending, notices: Sequence[str], spec: ProviderSpec) -> Iterator[str]:
    """The text that a test prints: the cause, the events, the line that shows it again. Or why nothing is proven."""
    about = f"{results.title}: {results.statement}"
    if outcome != "violated":
        yield f"{results.title}: {outcome.replace('_', ' ')}: {results.statement}"
        yield from (f"  {reason}" for reason in (*results.untold_reasons, *notices) if reason)
        if "never happened" in results.statement and results.runs < len(SEEDS):
            yield (
                f"  only {counted(results.runs, 'seed')} ran: more of them may bring it about "
                f"(`seeds = range(1, {SEEDS.stop})`, or --lockref-seeds 1..{len(SEEDS)})"
            )
        return
    first, *others = results.failures
    told = _explained(first, spec)
    if told is None:
        yield from (f"{first.clause}: {readable(first.message)}", "", about, "", first.block)
    else:
        yield from (f"{told.clause}: {told.sentence}", "", about, "", heading(told), "")
        yield from textwrap.wrap(told.paragraph, WIDTH)
        yield from ("", *event_lines(told), "")
    for failure in others[:OTHERS_MAX]:
        yield f"  also      {failure.clause}: {readable(failure.message)}   {failure.replay}"
    if len(others) > OTHERS_MAX:
        yield f"  also      {counted(len(others) - OTHERS_MAX, 'more distinct failure')} in {FAILURES}"
    if told is not None:
        yield from (f"  {label:<10}{text}" for label, text in first.notes if label == "from seed")
        yield f"  replay    {told.replay}"


def _explained(failure: Failure, spec: ProviderSpec) -> Explanation | None:
    """The explanation of a failure that was stored just now; None for one that does not come again."""
    if not failure.replay:
        return None
    path = FAILURES / f"{failure.id}.json"
    stored, scenario = load_failure(path)
    try:
        return explain_loaded(stored, scenario, spec, path=path)
    except ConfigError:
        # A lock that keeps state between runs may hold now.
        return None


def spec_of(provider: str | type[object]) -> ProviderSpec:
    """The lock that a test names, with a reference by which a replay finds it again.

    Errors: ConfigError for what does not load, and for a class that no other process could find by its name.
    """
    if isinstance(provider, str):
        return load_provider(provider)
    reference = reference_of(provider)
    return provider_from(provider, name=reference, reference=reference)


def reference_of(made: type[object]) -> str:
    """`module:Class` for a class in a package, `path/file.py:Class` for one in a file beside the tests.

    Raises ConfigError for a class that stands in no file, or not at the top of one.
    """
    module = sys.modules.get(made.__module__)
    file = getattr(module, "__file__", None)
    name = made.__qualname__
    if file is None or "." in name:
        raise ConfigError(f"the lock {name} is not at the top of a file, so no replay could find it; move it there")
    if "." in made.__module__:
        return f"{made.__module__}:{name}"
    return f"{os.path.relpath(file)}:{name}"


def _checked(seeds: Sequence[int]) -> Sequence[int]:
    """Raises ConfigError for no seed, or for what is none."""
    if not seeds:
        raise ConfigError("there is no seed; expected some, such as range(1, 51)")
    for seed in seeds:
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= SEED_MAX:
            raise ConfigError(f"the seed {seed!r} is none; expected whole numbers from 0 to 2^63-1")
    return seeds
