"""Campaigns by the chunk: one answer, however often they were stopped and whatever stood in the folder."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from lockref.errors import BackendUnavailable, ConfigError
from lockref.lab.loading import load_provider
from reports.checks.summary import Summary
from reports.checks.thresholds.kept import Samples, Worst
from reports.history_files import load_history
from scenarios.campaign import run_campaign
from scenarios.campaigns import collection, orders, result
from scenarios.campaigns.account import account_of, read_account
from scenarios.campaigns.chunks import ChunkAnswer, account_name, run_chunk
from scenarios.campaigns.collection import begin, collect
from scenarios.campaigns.identity import Identity, Keeping, identity_of
from scenarios.campaigns.orders import ChunkOrder, Order
from scenarios.campaigns.places import FolderPlace, place_of
from scenarios.campaigns.result import CampaignResult
from scenarios.campaigns.sources import Sources
from scenarios.definition.load import load_scenario
from scenarios.executor import InProcess, Restarted
from scenarios.search.explored import explore_seeds
from scenarios.search.schedules import Exploration
from sim.explore.policies import parse_policy

SEEDS = range(1, 13)
KEEPING = Keeping(keep=3, keep_failures=4, compare_every=0)
SPEC = load_provider("hudi")
SCENARIO = load_scenario("e08")


def ordered(folder: Path) -> tuple[Order, Identity]:
    identity = identity_of(SCENARIO, SPEC, Sources(provider="p", code="c"), SEEDS, KEEPING)
    order = Order(
        scenario=SCENARIO,
        spec=SPEC,
        seeds=SEEDS,
        place=FolderPlace(folder),
        identity=identity.digest,
        keep=KEEPING.keep,
        keep_failures=KEEPING.keep_failures,
        keeps_speakers=False,
    )
    return order, identity


@pytest.fixture(scope="module", autouse=True)
def _small_and_in_this_process() -> Iterator[None]:
    """Ten seeds are a chunk, and these make two. A shelter is the question of test_sheltered.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(orders, "CHUNK", 10)
        patch.setattr(collection, "run_sheltered", run_chunk)
        yield


@pytest.fixture(scope="module")
def simulated() -> CampaignResult:
    return run_campaign(SCENARIO, SPEC, SEEDS, keep_runs=0)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign of two chunks that was stopped after the first one."""
    folder = tmp_path_factory.mktemp("begun")
    order, identity = ordered(folder)
    begin(order, identity, is_resumed=False)
    (total,) = collect([order], InProcess(), is_over=lambda: True)
    assert (total.done, total.summary.runs) == (1, 10)
    return folder


def test_a_campaign_explores_schedules_as_sim_does(tmp_path: Path) -> None:
    """The same digest as `lockref sim --explore pos`, and an identity of its own."""
    exploration = Exploration.by(parse_policy("pos"))
    order, plain = ordered(tmp_path)
    begin(order, plain, is_resumed=False)
    (total,) = collect([replace(order, exploration=exploration)], InProcess())
    assert total.error is None
    assert total.digest == explore_seeds(SCENARIO, SPEC, SEEDS, exploration).digest
    explored = identity_of(SCENARIO, SPEC, Sources(provider="p", code="c"), SEEDS, KEEPING, exploration)
    assert explored.digest != plain.digest
    assert explored.differences(plain) == ["the schedules (plain, now --explore pos --tie-window 50ms --preempt calls)"]


def finished(folder: Path) -> CampaignResult:
    order, identity = ordered(folder)
    begin(order, identity, is_resumed=True)
    (total,) = collect([order], InProcess())
    assert total.error is None
    return total


def copied(begun: Path, folder: Path) -> Path:
    for path in begun.rglob("*"):
        if path.is_file():
            target = folder / path.relative_to(begun)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return folder


def test_a_resumed_campaign_says_what_sim_says(begun: Path, tmp_path: Path, simulated: CampaignResult) -> None:
    """Digest, counts, failures and their speakers are those of one go in one process; nothing is counted twice."""
    total = finished(copied(begun, tmp_path))
    assert total.resumed == 10
    assert total.digest == simulated.digest
    assert total.summary == simulated.summary
    assert total.effects == simulated.effects
    assert "resumed: 10 seeds had been run and judged before the interruption" in total.notices


def test_failures_beyond_those_told_apart_are_counted_by_clause(
    begun: Path, tmp_path: Path, simulated: CampaignResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With those like them: a notice tells in how many runs each clause broke in further ways."""
    monkeypatch.setattr(result, "DISTINCT_MAX", 1)
    total = finished(copied(begun, tmp_path))
    first, *further = simulated.summary.findings
    assert total.summary.findings == [first]
    assert total.further == {finding.clause: 1 + finding.similar for finding in further}
    assert any("of further ones there is" in notice for notice in total.notices)


def test_an_account_keeps_the_samples_of_limits(tmp_path: Path) -> None:
    """Values, instants and the worst one, each as it was."""
    order, identity = ordered(tmp_path)
    samples = Samples(
        values=[np.array([5, 1 << 62]), np.array([7])], late_ns=[np.array([-1, 2]), np.array([3])],
        worst=Worst(1 << 62, 4, "n1", "key", 9),
    )  # fmt: skip
    summary = Summary(limits={(("e08", "hudi"), "wait.p99 < 1s"): samples})
    facts = {"effects": {}, "compared": 0, "kept": (), "failures_kept": (), "processor_ns": 0}
    sealed = account_of(summary, [], campaign=identity.digest, chunk=0, seeds=(1, 10), **facts).sealed()
    (read,) = read_account(sealed, campaign=order.identity, chunk=0).summary(frozenset()).limits.values()
    assert (np.concatenate(read.values).tolist(), read.worst) == ([5, 1 << 62, 7], samples.worst)
    assert np.concatenate(read.late_ns).tolist() == [-1, 2, 3]


def test_a_campaign_that_goes_on_has_no_account_of_before(begun: Path, tmp_path: Path) -> None:
    """Until its own is written: whoever reads the folder meanwhile would take an old verdict for that of all seeds."""
    folder = copied(begun, tmp_path)
    for name in ("results.json", "junit.xml"):
        (folder / name).write_text("old")
    order, identity = ordered(folder)
    begin(order, identity, is_resumed=True)
    assert not [name for name in ("results.json", "junit.xml") if (folder / name).exists()]


def test_a_torn_account_runs_again(begun: Path, tmp_path: Path, simulated: CampaignResult) -> None:
    """A chunk is done only where its whole account stands, so a power failure costs a chunk and no verdict."""
    folder = copied(begun, tmp_path)
    file = folder / account_name(0)
    file.write_bytes(file.read_bytes().replace(b'"runs":10', b'"runs":11'))
    total = finished(folder)
    assert (total.resumed, total.summary.runs, total.digest) == (0, 12, simulated.digest)


def test_accounts_of_other_chunks_and_campaigns_run_again(
    begun: Path, tmp_path: Path, simulated: CampaignResult
) -> None:
    """A file that was copied from elsewhere has a whole seal, and says nothing of the seeds of this chunk."""
    folder = copied(begun, tmp_path)
    file = folder / account_name(0)
    (folder / account_name(1)).write_bytes(file.read_bytes())
    account = read_account(file.read_bytes(), campaign=ordered(folder)[1].digest, chunk=0)
    file.write_bytes(account.model_copy(update={"campaign": "another"}).sealed())
    total = finished(folder)
    assert (total.resumed, total.digest) == (0, simulated.digest)


def test_an_answer_of_a_campaign_that_ended_is_none_of_the_next_one(
    begun: Path, tmp_path: Path, simulated: CampaignResult
) -> None:
    """Its chunks were under way when an error ended it; the next one goes on at a chunk of the same number."""
    order, _ = ordered(copied(begun, tmp_path))
    other = replace(order, scenario=load_scenario("e01"), place=None, identity="")

    class Ahead:
        def map(self, work: Callable[[ChunkOrder], ChunkAnswer], pieces: Iterable[ChunkOrder]) -> Iterator[ChunkAnswer]:
            yield from [work(piece) for piece in pieces]

    def work(piece: ChunkOrder) -> ChunkAnswer:
        if (piece.campaign, piece.number) == (0, 0):
            return ChunkAnswer(campaign=0, chunk=0, error=ConfigError("it cannot run"))
        return run_chunk(piece)

    ended, gone_on = collect([other, order], Ahead(), work=work)  # type: ignore[arg-type]
    assert (str(ended.error), ended.summary.runs) == ("it cannot run", 0)
    assert (gone_on.error, gone_on.digest) == (None, simulated.digest)


def test_an_earlier_result_that_was_not_reached_asks_for_no_more() -> None:
    """Ctrl-C meets the first of two campaigns: the second one has run all that was asked for so far."""
    order = Order(scenario=SCENARIO, spec=SPEC, seeds=range(1, 3), keep=0)
    earlier = list(collect([order, replace(order, scenario=load_scenario("e01"))], InProcess(), work=run_chunk))

    def interrupted(piece: ChunkOrder) -> ChunkAnswer:
        raise KeyboardInterrupt

    further = [replace(each, seeds=range(3, 6)) for each in (order, replace(order, scenario=load_scenario("e01")))]
    (met,) = collect(further, InProcess(), earlier=earlier, work=interrupted)
    assert (met.is_interrupted, met.seeds) == (True, 5)
    assert (earlier[1].seeds, earlier[1].summary.runs, earlier[1].chunks) == (2, 2, 1)


def test_a_folder_in_the_place_of_an_account_is_told(begun: Path, tmp_path: Path) -> None:
    """With its path: it cannot be replaced by a file."""
    folder = copied(begun, tmp_path)
    (folder / account_name(1)).mkdir()
    order, identity = ordered(folder)
    begin(order, identity, is_resumed=True)
    (total,) = collect([order], InProcess())
    assert isinstance(total.error, ConfigError)
    assert f"{folder / account_name(1)} is a folder" in str(total.error)


def test_histories_of_failures_are_kept_up_to_the_cap_and_a_sample_evenly(begun: Path, tmp_path: Path) -> None:
    """In the order of the seeds, whichever chunk was first; the readers of histories read the folder as it is."""
    folder = copied(begun, tmp_path)
    total = finished(folder)
    events, runs, notes = load_history(folder)
    assert sorted(runs["run"].to_pylist()) == [1, 2, 3, 4, 5, 9]
    assert set(events["run"].to_pylist()) == set(runs["run"].to_pylist())
    assert notes.lines == []
    assert (total.kept, total.failures_kept) == (6, 4)


def test_surplus_failures_are_taken_out(tmp_path: Path) -> None:
    """A chunk that began before the cap was known to be reached keeps too much; the join takes that out."""
    order, identity = ordered(tmp_path)
    begin(order, identity, is_resumed=False)
    run_chunk(order.chunk(1, failures_left=8))
    assert len(pq.read_table(tmp_path / "runs.parquet/chunk=000001")) == 2
    total = finished(tmp_path)
    assert (total.kept, total.failures_kept) == (6, 4)
    assert not (tmp_path / "runs.parquet/chunk=000001").exists()


def test_another_campaign_is_refused_with_what_differs(begun: Path, tmp_path: Path) -> None:
    """One verdict must not speak for two locks, scenarios, versions or ranges of seeds."""
    folder = copied(begun, tmp_path)
    order, identity = ordered(folder)
    changed = {
        "lock_hash": "the source of the lock hudi",
        "provider": "the lock (hudi, now other)",
        "scenario_hash": "the text of the scenario e08-paused-holder",
        "code_hash": "lockref itself",
        "seeds": "the seeds (1..12, now 2..12)",
        "keep": "--keep (3, now 9)",
    }
    values = {"provider": "other", "seeds": (2, 13), "keep": 9}
    for name, told in changed.items():
        other = identity.model_copy(update={name: values.get(name, "other")})
        with pytest.raises(ConfigError) as refused:
            begin(order, other, is_resumed=True)
        assert told in str(refused.value)
    with pytest.raises(ConfigError, match="add --resume"):
        begin(order, identity, is_resumed=False)
    (folder / "campaign.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"campaign.json: no campaign of this version"):
        begin(order, identity, is_resumed=True)


def test_executors_with_disks_of_their_own_are_told(tmp_path: Path) -> None:
    """What they write would be lost to everybody else."""
    order, identity = ordered(tmp_path / "here")
    begin(order, identity, is_resumed=False)

    class Elsewhere:
        def map(self, work: object, pieces: Iterable[ChunkOrder]) -> Generator[ChunkAnswer, None, None]:
            for piece in pieces:
                yield run_chunk(replace(piece, place=FolderPlace(tmp_path / "there")))

    (total,) = collect([order], Elsewhere())  # type: ignore[arg-type]
    assert isinstance(total.error, ConfigError)
    assert "s3a://" in str(total.error)


def test_a_pool_that_something_kills_begins_anew() -> None:
    """Answers stay in order, no piece is answered twice, and the third death in a row is an error."""
    lost: list[str] = []

    class Dying:
        def __init__(self, deaths: int) -> None:
            self.deaths = deaths

        def map(self, work: Callable[[int], int], pieces: Iterable[int]) -> Generator[int, None, None]:
            for number, piece in enumerate(list(pieces)):
                if number == 2 and self.deaths:
                    self.deaths -= 1
                    raise BackendUnavailable("a process was killed; who did that?")
                yield work(piece)

    assert list(Restarted(Dying(2), lost.append).map(lambda piece: piece * 10, range(6))) == [0, 10, 20, 30, 40, 50]
    assert lost == [
        "a process was killed: what was under way runs again, from 2 to 5",
        "a process was killed: what was under way runs again, from 4 to 5",
    ]

    class Dead:
        def map(self, work: Callable[[int], int], pieces: Iterable[int]) -> Generator[int, None, None]:
            next(iter(pieces))
            raise BackendUnavailable("a process was killed")
            yield

    with pytest.raises(BackendUnavailable):
        list(Restarted(Dead(), lost.append).map(lambda piece: piece, range(6)))


@pytest.mark.parametrize("wrong", ["s3a://bucket", "ftp://host/x", "s3a:///key"])
def test_a_place_that_is_none_is_refused(wrong: str) -> None:
    """Before anything runs."""
    with pytest.raises(ConfigError, match=r"--out"):
        place_of(wrong)
