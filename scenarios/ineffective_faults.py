"""Faults that change nothing: a scenario that says more than it does.

A fault may strike in every run and never matter: it pauses a task that nobody
has, or refuses what nobody asks. Then the scenario claims to show something
and shows nothing, and no verdict reveals it. So every fault of a scenario has to
matter in some run, under some build; of a swarm every kind that it may draw,
in each of its forms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from lockref.lab.loading import ProviderSpec, load_provider
from reports.checks import judge
from reports.checks.summary import Summary
from scenarios.batch import run_seeds, simulate_many
from scenarios.definition.draw import Draws
from scenarios.definition.expectations import surprises
from scenarios.definition.fault_plan import written_faults
from scenarios.definition.schema import Scenario
from scenarios.worlds.simulated import RunOutcome
from sim.faults.drawing import ENVELOPE_KINDS
from sim.faults.fault import Fault, RequestFault

SEEDS_ENOUGH = 500
"""What has not mattered in so many seeds under each build never will."""

DRAWN_ENOUGH = 10
"""A form that fewer plans of a swarm have is too rare to be judged."""

PIECE = 25
"""At most so many seeds are run before the question is asked again; the first piece is one seed."""


def forms_of(fault: Fault) -> list[str]:
    """The forms of which a drawn fault is an example: its kind, and its kind in this form."""
    kind = fault.kind
    forms = [kind, *fault.forms()]
    if fault.when is not None:
        forms.append(f"{kind} at {fault.when.cut}")
    if isinstance(fault, RequestFault) and fault.op is not None and fault.is_op_a_form:
        forms.append(f"{kind} of {fault.op}")
    return forms


@dataclass(slots=True)
class Mattering:
    """The faults of one scenario that have mattered in its runs so far.

    drawn: faults, or forms of what a swarm draws, to the plans that have them. mattered: those that ever did.
    """

    scenario: Scenario
    drawn: Counter[str] = field(default_factory=Counter)
    mattered: set[str] = field(default_factory=set)
    _written: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._written = frozenset(fault.id for fault in written_faults(self.scenario, Draws(1)))

    @property
    def _demanded(self) -> tuple[str, ...]:
        """The faults that have to matter however rarely they are drawn: the kinds of a swarm."""
        swarm = self.scenario.swarm
        return () if swarm is None else tuple(swarm.kinds) or ENVELOPE_KINDS

    @property
    def can_disturb(self) -> bool:
        """False for a scenario without any fault."""
        return bool(self._written) or self.scenario.swarm is not None

    def add(self, outcomes: Iterable[RunOutcome]) -> None:
        """Count what the faults of these runs did."""
        for outcome in outcomes:
            for fault in outcome.plan.faults:
                _, _, mattered = outcome.fault_counts[fault.id]
                names = [fault.id] if fault.id in self._written else forms_of(fault)
                self.drawn.update(names)
                if mattered:
                    self.mattered.update(names)

    @property
    def never(self) -> list[str]:
        """The faults that have not mattered yet, in the order of their first appearance."""
        least = 1 if self.scenario.swarm is None else DRAWN_ENOUGH
        often = [name for name, plans in self.drawn.items() if plans >= least]
        return [name for name in dict.fromkeys((*self._demanded, *often)) if name not in self.mattered]


def ineffective_faults(
    scenario: Scenario, specs: Sequence[ProviderSpec], *, known: Mattering | None = None, seeds: int = SEEDS_ENOUGH
) -> list[str]:
    """The faults of `scenario` that change nothing in `seeds` seeds under any of `specs`.

    known: what other runs have shown already. Stops as soon as every fault has
    mattered once; what a swarm draws later is not known before, so it takes all seeds.
    """
    found = Mattering(scenario) if known is None else known
    if not found.can_disturb:
        return []
    start = 1
    while start <= seeds:
        # Most faults matter in the first run: as many seeds again as were run so far.
        piece = range(start, min(start + max(1, min(start - 1, PIECE)), seeds + 1))
        for spec in specs:
            # Each run of a scenario has all its written faults, so one run is enough to know them.
            if scenario.swarm is None and found.drawn and not found.never:
                return []
            found.add(run_seeds(scenario, spec, piece))
        start = piece.stop
    return found.never


def tested(scenario: Scenario, seeds: Sequence[int]) -> Iterator[tuple[str, list[str]]]:
    """Hold every build that the scenario names to what is expected of it, then ask each fault whether it matters.

    Yields a subject, a build or a fault that changed nothing, and what is wrong with it; a build as expected has [].
    """
    specs = {build: load_provider(build) for build in scenario.expect or ("hardened",)}
    mattering = Mattering(scenario)
    for build, spec in specs.items():
        batch = simulate_many(scenario, spec, seeds)
        mattering.add(batch.outcomes)
        counted = Summary.of(judge(batch.events, batch.runs), batch.events, batch.runs)
        yield build, list(surprises(scenario, build, counted))
    for fault in ineffective_faults(scenario, list(specs.values()), known=mattering, seeds=SEEDS_ENOUGH):
        yield fault, [f"it changed nothing in {SEEDS_ENOUGH} seeds under {', '.join(specs)}"]
