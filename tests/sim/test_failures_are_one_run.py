"""What is told of a failure and what `lockref replay` shows are one run: the shrunk one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lockref.cli.jobs.shown.results import write_account
from lockref.cli.main import run
from lockref.lab.loading import load_provider
from lockref.runtime import NS_PER_S
from reports.formats.text import readable
from scenarios.campaign import run_campaign
from scenarios.campaigns.result import CampaignResult
from scenarios.definition.load import load_scenario
from scenarios.definition.schema import Scenario
from scenarios.failures import failure_store
from scenarios.failures.failure_store import FailureStore
from scenarios.failures.judged_run import JudgedRun
from scenarios.failures.shrink_budget import ShrinkBudget
from scenarios.failures.stored_failures import find_failures
from scenarios.runs import RunFolder
from scenarios.worlds.simulated import run_simulated
from sim.explore.replay import Failure
from sim.kernel.schedules import Replay


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("failures")


@pytest.fixture
def shrunk_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shrunk in so few runs that other figures come of it, and not in as many as it takes to leave out all."""
    monkeypatch.setattr(failure_store, "SHRINK_RUNS_MAX", 20)


@pytest.fixture(scope="module")
def campaign() -> CampaignResult:
    """Hudi's lock in enough seeds of a swarm that several clauses break, and one of them in two ways."""
    return run_campaign(load_scenario("swarm"), load_provider("hudi"), range(1, 61), keep_runs=0)


@pytest.mark.usefixtures("shrunk_some")
def test_message_witness_picture_and_block_are_of_the_stored_run(folder: Path, campaign: CampaignResult) -> None:
    """Two of five stored failures told the figures of the run before shrinking, beside the plan of the shrunk one."""
    scenario, spec = load_scenario("swarm"), load_provider("hudi")
    failures = FailureStore(scenario, spec, folder=folder)
    results = write_account(campaign, RunFolder(folder / "run"), about={}, failures=failures)
    first = {(finding.clause, finding.run): finding for finding in campaign.summary.findings}
    differ = 0
    for told in results.failures[:5]:
        kept = Failure.load(find_failures(told.id, folder=folder)[0])
        outcome = run_simulated(
            Scenario.model_validate(kept.scenario),
            spec,
            kept.seed,
            plan=kept.plan,
            schedule=Replay(kept.schedule),
        )
        shown = JudgedRun(outcome)
        assert outcome.digest == kept.digest
        assert told.message == shown.message(told.clause)
        assert told.witness == kept.witness
        assert readable(told.message)[:100] in told.block
        assert told.timeline is not None
        assert told.timeline.moment_ns == told.at_ns
        assert told.begin_ns == told.timeline.origin_ns
        differ += told.witness != first[told.clause, told.run].witness
    assert differ, "shrinking changed no figure here: this test shows nothing"


@pytest.mark.usefixtures("shrunk_some")
def test_shrinking_keeps_the_way_in_which_the_clause_broke(folder: Path, campaign: CampaignResult) -> None:
    """A false denial is not shrunk to a false grant: that would be another failure under the same id."""
    store = FailureStore(load_scenario("swarm"), load_provider("hudi"), folder=folder)
    found = [finding for finding in campaign.summary.findings if finding.clause == "S7"][:3]
    assert len({finding.kind for finding in found}) > 1
    for finding in found:
        shown = store.store(finding).shown
        assert shown is not None
        assert shown.finding.kind == finding.kind


@pytest.mark.shrunk
def test_a_failure_of_a_swarm_shrinks_to_the_one_fault_that_it_needs(folder: Path, campaign: CampaignResult) -> None:
    """Of eight faults one is enough: an acquire without an answer (docs/parity.md). Most tests shrink in four runs."""
    scenario, spec = load_scenario("swarm"), load_provider("hudi")
    found = next(each for each in campaign.summary.findings if (each.clause, each.run) == ("S7", 8))
    told = FailureStore(scenario, spec, folder=folder).store(found)
    kept = Failure.load(find_failures(told.id, folder=folder)[0])
    assert len(run_simulated(scenario, spec, 8).plan.faults) == 8
    assert [fault.kind for fault in kept.plan.faults] == ["ghost_write"]


def test_a_shrinking_tells_how_far_it_is(tmp_path: Path) -> None:
    """It may take a minute after the last seed: a command that says nothing then looks stuck."""
    scenario, spec = load_scenario("e08"), load_provider("hudi")
    told: list[str] = []
    store = FailureStore(scenario, spec, folder=tmp_path, on_progress=told.append)
    finding = next(found for found in run_campaign(scenario, spec, [1]).summary.findings if found.clause == "S3")
    store.store(finding)
    assert told[0] == f"e08-paused-holder: shrinking S3 of seed 1, run 1 of at most {failure_store.SHRINK_RUNS_MAX}"
    assert len(told) > 1


def test_a_spent_budget_leaves_a_failure_as_it_was_found_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One seed of the whole catalogue shrank for more than five minutes, and no bound on that could be set."""
    monkeypatch.chdir(tmp_path)
    assert run(["sim", "e08", "--provider", "hudi", "--seed", "1", "--shrink-for", "0s"]) == 1
    said = capsys.readouterr().out
    assert "not shrunk --shrink-for gives it no time; the line below shrinks this one" in said
    assert "the time for shrinking was spent" in said
    assert "lockref replay LK-" in said


@pytest.mark.shrunk
def test_a_shrinking_that_outlasts_the_budget_ends_and_says_so(tmp_path: Path) -> None:
    """The failure is as small as it was when the time was over. A second one of the same kind is not shrunk anew."""
    scenario, spec = load_scenario("e08"), load_provider("hudi")
    [finding] = [found for found in run_campaign(scenario, spec, [1]).summary.findings if found.clause == "S3"]
    now_ns, told = [0], []

    def tick(progress: str) -> None:
        told.append(progress)
        now_ns[0] += NS_PER_S

    budget = ShrinkBudget(5 * NS_PER_S, now_ns=lambda: now_ns[0])
    stores = [
        FailureStore(scenario, spec, folder=tmp_path / name, budget=budget, on_progress=tick) for name in ("a", "b")
    ]
    first = dict(stores[0].store(finding).notes)
    assert first["shrunk"].endswith("; the 5 s of --shrink-for were spent, a smaller one may exist")
    assert told[2].endswith(f"run 3 of at most {failure_store.SHRINK_RUNS_MAX}; 2 s of 5 s for shrinking spent")
    assert len(told) == 5 + 2, "five runs within the budget, and two that confirm what was found"
    second = stores[1].store(finding)
    assert dict(second.notes)["not shrunk"].startswith(f"{second.id} broke in the same way and was shrunk")
    assert (stores[0].is_short_of_time, stores[1].is_short_of_time) == (True, False)


def test_a_shrinking_that_outlasts_its_runs_says_so(tmp_path: Path) -> None:
    scenario, spec = load_scenario("e08"), load_provider("hudi")
    finding = next(found for found in run_campaign(scenario, spec, [1]).summary.findings if found.clause == "S3")
    notes = dict(FailureStore(scenario, spec, folder=tmp_path).store(finding).notes)
    assert notes["shrunk"].endswith("; stopped after 4 runs, a smaller one may exist")


def test_the_replay_says_what_the_failure_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command's message is that of the block."""
    monkeypatch.chdir(tmp_path)
    assert run(["sim", "swarm", "--provider", "hudi", "--seeds", "1..40", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["failures"][0]
    assert run(["replay", told["id"], "--json"]) == 1
    (replayed,) = json.loads(capsys.readouterr().out)["replays"]
    assert replayed["message"] == told["message"]
    assert replayed["detail"] == "same digest"
