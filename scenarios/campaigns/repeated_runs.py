"""Seeds that are run a second time: one seed must give one trace, event for event."""

from __future__ import annotations

from collections.abc import Sequence

from lockref.errors import DeterminismError
from lockref.lab.loading import ProviderSpec
from scenarios.batch import run_seeds
from scenarios.definition.schema import Scenario
from scenarios.search.schedules import Exploration
from scenarios.worlds.simulated import RunOutcome
from sim.explore.determinism import first_difference


def expect_same_traces(
    scenario: Scenario,
    spec: ProviderSpec,
    outcomes: Sequence[RunOutcome],
    *,
    every: int,
    exploration: Exploration | None = None,
) -> int:
    """Run every k-th of these seeds once more, under the strict auditor; how many. 0: none.

    exploration: under which they ran.

    Raises DeterminismError with the first event that differs.
    """
    repeated = outcomes[::every] if every else []
    for outcome in repeated:
        (again,) = run_seeds(scenario, spec, [outcome.seed], watched=1, exploration=exploration)
        _require_same_trace(outcome, again)
    return len(repeated)


def _require_same_trace(first: RunOutcome, second: RunOutcome) -> None:
    difference = first_difference(first.recorder, second.recorder)
    if difference is not None:
        raise DeterminismError(
            f"seed {first.seed} gave two traces, which differ at {difference}. Common causes: iteration over a set, "
            "id() or hash() in a key, a lock that calls time or random itself, state kept between runs"
        )
