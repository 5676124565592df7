"""RFC-91's test plan on real servers: hundreds of threads, one lock, a list that is not thread-safe.

Hudi's own tests of this kind are disabled. Each run is bounded in time and
count, its history judged by the same clauses as a simulation's.
"""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from lockref.lab.loading import load_provider
from lockref.runtime import NS_PER_S
from reports.checks import decide, judge
from reports.checks.summary import Summary
from scenarios.definition.load import load_scenario
from scenarios.run import RealOutcome, run_real
from scenarios.worlds.contention import contend_on
from tests.backends.conftest import TABLES, THROUGH_OBSTORE, on

CROWDS = (200, 64, 16)
"""Threads that contend: the next smaller crowd is tried where a slow machine does not serve this one."""
LASTING_NS = 4 * NS_PER_S


def contend(uri: str, *, threads: int, provider: str = "hardened", processes: int = 1) -> tuple[RealOutcome, Summary]:
    """The contention scenario on `uri`, judged."""
    outcome = run_real(
        load_scenario("contention"),
        load_provider(provider),
        uri,
        clients=threads,
        duration_ns=LASTING_NS,
        processes=processes,
    )
    return outcome, Summary.of(judge(outcome.events, outcome.runs), outcome.events, outcome.runs)


def contend_until_held(
    uri: str, *, crowds: tuple[int, ...] = CROWDS, provider: str = "hardened", processes: int = 1
) -> tuple[RealOutcome, Summary]:
    """The first crowd whose run shows enough to say `held`; no run on the way may break a clause.

    A busy machine leaves requests of a large crowd unanswered, and a verdict is
    then rightly inconclusive. If even the smallest crowd shows too little, the
    test is skipped with the judge's reasons.
    """
    for threads in crowds:
        outcome, counted = contend(uri, threads=threads, provider=provider, processes=processes)
        verdicts = decide(counted)
        assert not counted.findings
        if verdicts.safety == "held":
            assert not outcome.unfinished
            return outcome, counted
        assert verdicts.safety == "inconclusive"
    pytest.skip(f"this machine is too busy to show anything: {'; '.join(verdicts.reasons)}")


@pytest.mark.parametrize(
    "address",
    [on("ministack"), *(on(name, pytest.mark.long) for name in ("localstack", "fake-gcs-server", "azurite"))],
    indirect=True,
)
def test_two_hundred_threads_append_to_one_list(address: str) -> None:
    """S1, S3, S4: no append is lost and no two threads believe; the list ends exactly 0 to n-1."""
    outcome, counted = contend_until_held(address)
    effects = outcome.events.filter(outcome.events["kind"].cast("string").to_numpy(zero_copy_only=False) == "effect")
    made = [int(version) for version in effects["version"].to_pylist()]
    assert made == list(range(1, len(made) + 1)), "the list has gaps or repetitions"
    assert counted.reach["grant"][1] == len(made)
    assert counted.reach["contention"][1] > 0


@pytest.mark.parametrize(
    "address", [on("ministack"), on(f"ministack{THROUGH_OBSTORE}", pytest.mark.long)], indirect=True
)
def test_contenders_in_several_processes_share_one_history(address: str) -> None:
    """The clocks of one host order the events of its processes; the chain of versions agrees."""
    _, counted = contend_until_held(address, crowds=(32, 8), processes=2)
    clauses = decide(counted).clauses
    assert (clauses["S1"], clauses["S3"]) == ("held", "held")
    assert counted.reach["handoff"][1] > 0


@pytest.mark.realbackend
@pytest.mark.xdist_group("ministack")
def test_the_results_name_the_client_that_sent_the_requests(tmp_path: Path) -> None:
    """Figures of two clients cannot be compared: the one that a user named stands in the results."""
    spec, scenario = load_provider("hardened"), load_scenario("contention")
    done = contend_on(
        "ministack?client=obstore", scenario, spec, clients=4, duration_ns=NS_PER_S, folder=tmp_path, progress=Mock()
    )
    assert done.facts["client"].startswith("obstore ")
    assert done.title.startswith("contention on ministack?client=obstore")
    assert done.history[1]["backend"].to_pylist()[0].endswith(" through obstore")
    assert done.summary.reach["grant"][1] > 0


@pytest.mark.long
@pytest.mark.parametrize("address", [on(TABLES)], indirect=True)
def test_deltas_lease_holds_on_a_real_table(address: str) -> None:
    """S1, S3, S4 of the DynamoDB lease, its clients in two processes."""
    _, counted = contend_until_held(address, crowds=(16, 8), provider="dynamodb", processes=2)
    clauses = decide(counted).clauses
    assert (clauses["S1"], clauses["S3"], clauses["S4"]) == ("held", "held", "held")


@pytest.mark.parametrize("address", [on("ministack"), on("azurite", pytest.mark.long)], indirect=True)
def test_hudis_build_holds_while_nothing_goes_wrong(address: str) -> None:
    """The hazards of the baseline need faults: in plain contention it excludes as well as the hardened lock."""
    _, counted = contend(address, threads=32, provider="hudi")
    assert decide(counted).safety in ("held", "inconclusive"), counted.findings
    assert not [finding for finding in counted.findings if finding.is_safety]


@pytest.mark.parametrize("address", [on("moto")], indirect=True)
def test_a_leaky_emulator_is_blamed_and_not_the_lock(address: str) -> None:
    """U13, M17: moto checks and writes without a lock of its own, so two winners happen now and then.

    What must hold here is the blame: if a belief or an effect overlaps, the
    chain of versions forks, which only the store can do (S1).
    """
    _, counted = contend(address, threads=32)
    broken = {finding.clause for finding in counted.findings if finding.is_safety}
    assert not broken or "S1" in broken, counted.findings
