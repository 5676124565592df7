"""Does the laboratory find what it is for? Planted bugs are caught by the predicted clause, correct locks are not.

The full matrix, with seeds to detection over several disjoint ranges, is
`python -m tests.quality.planted.seeds_to_detection`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lockref.lab.loading import load_provider
from reports.checks import judge
from scenarios.batch import simulate_many
from scenarios.campaign import run_campaign
from scenarios.definition.load import catalogue, load_scenario
from scenarios.definition.mixture import Mixture
from scenarios.definition.schema import Scenario
from scenarios.failures.failure_store import FailureStore
from scenarios.failures.judged_run import broken_clauses
from scenarios.failures.stored_failures import find_failures
from scenarios.worlds.simulated import run_simulated
from sim.explore.replay import Answer, Failure, replay
from tests.quality.planted.registry import BUGS, CORRECT, HERE, Bug, first_seed

LONG = ("contention", "writers")
"""Left out for correct variants: long runs without faults, which show nothing new."""

PART = 26
"""Each correct lock meets every 26th scenario, and each scenario a lock or two; `make test-all`: all, ten seeds."""

CONTENDED = ("a01", "a05", "demo", "e01", "e02", "e06", "e08", "e09", "e17", "u01", "u06", "swarm")


@pytest.mark.parametrize("bug", BUGS, ids=[bug.lock for bug in BUGS])
def test_a_planted_bug_is_caught_by_a_clause_of_its_own(bug: Bug) -> None:
    """M1 to M28, H1 to H22: each planted defect breaks one of the clauses predicted for it, within a few seeds."""
    assert first_seed(bug, range(1, 1 + bug.seeds)) is not None


@pytest.mark.parametrize(("place", "lock"), list(enumerate(CORRECT)), ids=CORRECT)
def test_a_correct_lock_is_not_accused(place: int, lock: str) -> None:
    """No scenario speaks against a correct lock by a clause that the hardened lock keeps there.

    The strict auditor, under which a run takes three times as long, watches none of them here, but in `correct_locks`.
    """
    accused = {}
    for path in catalogue()[place % PART :: PART]:
        if path.stem in LONG:
            continue
        scenario = load_scenario(path)
        spec = load_provider(_reference(lock))
        if Mixture(scenario, spec).misfit or scenario.workload.life == "unlocked":
            continue  # It is not for this lock, or nobody asks it.
        result = run_campaign(
            scenario, spec, range(1, 2), keep_runs=0, not_demanded=scenario.not_demanded(spec.stands_on), watched=0
        )
        broken = {found.clause for found in result.summary.findings}
        if broken:
            accused[scenario.name] = sorted(broken)
    assert accused == {}


def test_a_lock_is_not_held_to_its_claims_for_another_lock_beside_it() -> None:
    """L4: Hudi's holder reports no loss, and never said that it would; the hardened clients beside it do."""
    batch = simulate_many(load_scenario("p02"), load_provider("hardened"), range(1, 4))
    told = [row for row in judge(batch.events, batch.runs).verdicts.to_pylist() if row["clause"] == "L4"]
    # Hudi's guard says yes too long, and that is all there is to say of it.
    assert all(row["count"] == 1 and "told too late" in row["witness"] for row in told), told


@pytest.mark.parametrize("name", CONTENDED)
def test_the_canary_is_heard(name: str) -> None:
    """A lock that always says yes is caught wherever clients contend; if not, the alarm itself is dead."""
    result = run_campaign(
        load_scenario(name), load_provider(f"{HERE}.takeover:AlwaysYes"), range(1, 6), keep_runs=0, watched=0
    )
    assert {"S3", "S4"} <= {found.clause for found in result.summary.findings}


@pytest.mark.shrunk
@pytest.mark.parametrize(
    ("lock", "clause", "faults"),
    [
        pytest.param("clocks:HoldsIsAFlag", "S3", 2, marks=pytest.mark.long),
        ("release:UnconditionalRelease", "S6", 2),
        pytest.param("clocks:MonotonicClockOnly", "S3", 2, marks=pytest.mark.long),
    ],
)
def test_a_failure_shrinks_and_replays(lock: str, clause: str, faults: int, tmp_path: Path) -> None:
    """A swarm's failure shrinks to the one or two faults that matter, and its replay breaks the same clause."""
    scenario = load_scenario("swarm")
    spec = load_provider(f"{HERE}.{lock}")
    failure = None
    for first in range(1, 501, 50):
        # A run in a hundred breaks. Some break by a concurrence of many faults, of which none can be left out.
        result = run_campaign(scenario, spec, range(first, first + 50), keep_runs=0)
        for finding in result.summary.findings:
            if finding.clause == clause and failure is None:
                identity = FailureStore(scenario, spec, folder=tmp_path).store(finding).id
                shrunk = Failure.load(find_failures(identity, folder=tmp_path)[0])
                failure = shrunk if len(shrunk.plan.faults) <= faults else None
        if failure is not None:
            break
    assert failure is not None, "no failure in 500 seeds, or none that so few faults explain"

    def again(plan, schedule, seed):
        return run_simulated(Scenario.model_validate(failure.scenario), spec, seed, plan=plan, schedule=schedule)

    answered = replay(failure, again, broken_clauses)
    assert answered.answer is Answer.SAME_DIGEST
    assert clause in answered.clauses


def _reference(lock: str) -> str:
    """Files are named from the repository's root, wherever the tests are started."""
    return str(Path(__file__).parents[3] / lock) if lock.startswith("docs/") else lock
