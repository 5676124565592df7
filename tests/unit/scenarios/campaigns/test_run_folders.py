"""`lockref sim` keeps its chunks as a campaign does: stopped and gone on with, it is the one that never stopped."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lockref.cli.jobs.simulation import _begun
from lockref.errors import ConfigError
from lockref.lab.loading import load_provider
from reports.checks import judge
from reports.checks.summary import Summary
from reports.checks.verdicts import decide
from reports.history_files import CHUNKS, history_folders, is_unfinished, load_history
from scenarios.campaign import run_campaign, run_campaigns
from scenarios.campaigns import orders
from scenarios.campaigns.chunks import ChunkAnswer, run_chunk
from scenarios.campaigns.collection import collect
from scenarios.campaigns.orders import ChunkOrder, Order
from scenarios.campaigns.result import CampaignResult
from scenarios.campaigns.run_folders import expect_own_version, remove_chunks, seeds_in
from scenarios.campaigns.sources import Sources
from scenarios.definition.load import load_scenario
from scenarios.definition.schema import Scenario
from scenarios.executor import InProcess
from tests.docs import ROOT

SEEDS = range(1, 26)
SPEC = load_provider("hudi")
SWARM = load_scenario("swarm")


@pytest.fixture(scope="module", autouse=True)
def _small() -> Iterator[None]:
    """Ten seeds are a chunk, and these make three. The swarm breaks in a new way in each of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(orders, "CHUNK", 10)
        yield


def order(folder: Path, *, seeds: range = SEEDS, code: str = "c", scenario: Scenario = SWARM) -> Order:
    asked = Order(scenario=scenario, spec=SPEC, seeds=seeds, keep=3)
    return _begun(asked, Sources(provider="p", code=code), folder)


def run(folder: Path, *, stop_after: int = 1000) -> CampaignResult:
    """Run the campaign until so many seeds are done."""
    done = [0]
    (total,) = collect(
        [order(folder)],
        InProcess(),
        work=run_chunk,
        is_over=lambda: done[-1] >= stop_after,
        on_progress=lambda result: done.append(result.summary.runs),
    )
    assert total.error is None
    return total


@pytest.fixture(scope="module")
def uninterrupted() -> CampaignResult:
    return run_campaign(SWARM, SPEC, SEEDS, keep_runs=3)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a campaign that ended after its second chunk."""
    folder = tmp_path_factory.mktemp("stopped")
    assert run(folder, stop_after=20).summary.runs == 20
    return folder


@pytest.fixture
def folder(stopped: Path, tmp_path: Path) -> Path:
    """A copy for a test that goes on there, or damages it."""
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_it_goes_on_to_the_result_of_an_uninterrupted_one(folder: Path, uninterrupted: CampaignResult) -> None:
    """Counts, digest and kept histories: the first runs, and the run of each distinct failure."""
    assert seeds_in(folder) == 20
    total = run(folder)
    assert total.resumed == 20
    assert total.digest == uninterrupted.digest
    assert total.summary == uninterrupted.summary
    speakers = {finding.run for finding in total.summary.findings}
    assert len(speakers) > 3
    assert total.history[1]["run"].to_pylist() == sorted({1, 2, 3, *speakers})
    for ours, theirs in zip(total.history, uninterrupted.history, strict=True):
        assert ours.to_pylist() == theirs.to_pylist()
    again = run(folder)
    assert (again.resumed, again.summary) == (25, uninterrupted.summary)


def test_further_seeds_are_added_to_an_earlier_result(uninterrupted: CampaignResult) -> None:
    """As a gate does in rounds: digest, counts and histories are those of one go. No known failure is kept twice."""
    asked = Order(scenario=SWARM, spec=SPEC, seeds=range(1, 11), keep=3)
    (total,) = run_campaigns([asked])
    (further,) = run_campaigns([replace(asked, seeds=range(11, 26), keep=0)], earlier=[total])
    assert further is total
    assert (total.seeds, total.chunks, total.done) == (25, 3, 3)
    assert (total.digest, total.summary) == (uninterrupted.digest, uninterrupted.summary)
    assert (total.kept, total.failures_kept) == (uninterrupted.kept, uninterrupted.failures_kept)
    assert total.history[1]["run"].to_pylist() == uninterrupted.history[1]["run"].to_pylist()
    assert not total.notices


def test_a_run_whose_failures_are_known_is_not_kept(tmp_path: Path) -> None:
    """Every run of this scenario breaks in the same ways: each chunk keeps one, and the join lets all but one go."""
    begun = order(tmp_path, scenario=load_scenario("e08"))
    (total,) = collect([begun], InProcess(), work=run_chunk)
    assert total.history[1]["run"].to_pylist() == [1, 2, 3]
    assert (total.kept, total.summary.runs) == (3, 25)
    in_memory = run_campaign(load_scenario("e08"), SPEC, SEEDS, keep_runs=0)
    assert (in_memory.history[1]["run"].to_pylist(), in_memory.kept) == ([1], 1)


def test_a_known_failure_is_taken_out_of_what_an_executor_kept_besides() -> None:
    """And nothing else: seeds 11 and 12 speak for failures that lower seeds have shown, and 13 for none."""
    asked = Order(scenario=load_scenario("e08"), spec=SPEC, seeds=range(1, 14), keep=0)

    def keeps_all(piece: ChunkOrder) -> ChunkAnswer:
        return run_chunk(replace(piece, sample=tuple(piece.seeds)))

    (total,) = collect([asked], InProcess(), work=keeps_all)
    assert total.history[1]["run"].to_pylist() == [*range(1, 11), 13]
    assert total.kept == 11


def test_what_is_asked_later_is_in_the_kept_rows(folder: Path, uninterrupted: CampaignResult) -> None:
    """Whoever judges the history again asks what the command asked in the end, and no more."""
    total = run(folder)
    for each in (total, uninterrupted):
        each.ask(SWARM, SPEC, without=["contention"])
    assert total.summary.demanded == uninterrupted.summary.demanded
    assert total.history[1]["must_happen"].equals(uninterrupted.history[1]["must_happen"])


def test_an_unfinished_campaign_can_be_judged(folder: Path) -> None:
    """Its folder is a history like any other, and one: the kept runs of its committed chunks."""
    assert is_unfinished(folder)
    assert history_folders(folder) == [folder]
    events, runs, _ = load_history(folder)
    assert max(runs["run"].to_pylist()) <= 20
    assert decide(Summary.of(judge(events, runs), events, runs)).safety == "violated"
    remove_chunks(folder)
    assert (seeds_in(folder), list(folder.iterdir())) == (0, [])


def test_the_end_of_the_time_ends_later_campaigns_too(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What is committed of them is joined; none of them begins a chunk of its own."""
    begun = [order(tmp_path_factory.mktemp("new")), order(folder), order(tmp_path_factory.mktemp("newer"))]
    totals = list(collect(begun, InProcess(), work=run_chunk, is_over=lambda: True))
    assert [(total.summary.runs, total.resumed) for total in totals] == [(10, 0), (20, 20), (0, 0)]


def test_what_another_campaign_finished_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"differs in the seeds \(1\.\.25, now 1\.\.99\).*run again without --resume"):
        order(folder, seeds=range(1, 100))
    with pytest.raises(ConfigError, match="differs in lockref itself"):
        order(folder, code="other")


def test_chunks_of_an_earlier_version_are_refused(tmp_path: Path) -> None:
    """Each was a folder then, below a `campaign.json` of another format."""
    (tmp_path / CHUNKS / "chunk-000000").mkdir(parents=True)
    (tmp_path / CHUNKS / "campaign.json").write_text(json.dumps({"format": "lockref.campaign/2"}))
    assert seeds_in(tmp_path) == 0
    with pytest.raises(ConfigError, match=r"chunks: its chunks are of an earlier version.*without --resume"):
        expect_own_version(tmp_path)
    with pytest.raises(ConfigError, match=r"campaign.json: no campaign of this version.*without --resume"):
        order(tmp_path)


def test_a_changed_file_of_a_strangers_lock_is_noticed(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text((ROOT / "docs/examples/lease_lock.py").read_text(encoding="utf-8"), encoding="utf-8")
    before = Sources.of(load_provider(f"{mine}:LeaseLock"))
    assert before == Sources.of(load_provider(f"{mine}:LeaseLock"))
    mine.write_text(mine.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")
    after = Sources.of(load_provider(f"{mine}:LeaseLock"))
    assert (before.provider != after.provider, before.code == after.code) == (True, True)
