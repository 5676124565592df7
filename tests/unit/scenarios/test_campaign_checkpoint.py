"""A campaign that is killed and goes on is the campaign that was never killed."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from lockref.errors import ConfigError
from lockref.lab.loading import load_provider
from reports.checks import judge
from reports.checks.summary import Summary
from reports.checks.verdicts import decide
from reports.history_files import CHUNKS, load_history
from scenarios.campaign import CampaignResult, run_campaign
from scenarios.checkpoint import Checkpoint, Fingerprint, Sources, remove_chunks, seeds_in
from scenarios.definition.load import load_scenario

SEEDS = range(1, 131)
"""Three chunks: two whole ones and a rest."""


@pytest.fixture(scope="module")
def uninterrupted() -> CampaignResult:
    return run_campaign(load_scenario("u05"), load_provider("hudi"), SEEDS, keep_runs=60)


def checkpoint(folder: Path, *, seeds: range = SEEDS, provider: str = "hudi") -> Checkpoint:
    sources = Sources.of(load_provider(provider))
    return Checkpoint(
        folder / CHUNKS, Fingerprint.of(load_scenario("u05"), sources, seeds, keep_runs=60, compare_every=0)
    )


def run(folder: Path, *, stop_after: int = 1000) -> CampaignResult:
    """Run the campaign until so many seeds are done."""
    done = 0

    def note(result: CampaignResult) -> None:
        nonlocal done
        done = result.summary.runs

    return run_campaign(
        load_scenario("u05"),
        load_provider("hudi"),
        SEEDS,
        keep_runs=60,
        on_progress=note,
        is_over=lambda: done >= stop_after,
        checkpoint=checkpoint(folder),
    )


@pytest.fixture(scope="module")
def stopped_early(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CampaignResult]:
    """A campaign that ended after its first chunk: its folder, and what it had found."""
    folder = tmp_path_factory.mktemp("early")
    return folder, run(folder, stop_after=50)


@pytest.fixture(scope="module")
def stopped_late(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a campaign that ended after its second chunk."""
    folder = tmp_path_factory.mktemp("late")
    run(folder, stop_after=100)
    return folder


def copied(folder: Path, to: Path) -> None:
    """A copy for a test that goes on there, or damages it."""
    shutil.copytree(folder, to, dirs_exist_ok=True)


def test_goes_on_to_the_result_of_an_uninterrupted_one(
    tmp_path: Path, uninterrupted: CampaignResult, stopped_early: tuple[Path, CampaignResult]
) -> None:
    folder, first = stopped_early
    copied(folder, tmp_path)
    assert (first.summary.runs, seeds_in(tmp_path)) == (50, 50)
    second = run(tmp_path)
    assert second.resumed == 50
    assert second.digest == uninterrupted.digest
    assert second.summary == uninterrupted.summary
    for ours, theirs in zip(second.history, uninterrupted.history, strict=True):
        assert ours.equals(theirs.cast(ours.schema))


def test_a_finished_one_runs_nothing_again(tmp_path: Path, uninterrupted: CampaignResult, stopped_late: Path) -> None:
    copied(stopped_late, tmp_path)
    run(tmp_path)
    again = run(tmp_path)
    assert again.resumed == len(SEEDS)
    assert again.summary == uninterrupted.summary


def test_a_chunk_that_was_being_written_counts_for_nothing(
    tmp_path: Path, uninterrupted: CampaignResult, stopped_late: Path
) -> None:
    copied(stopped_late, tmp_path)
    second = tmp_path / CHUNKS / "chunk-000001"
    second.rename(second.with_name(".chunk-000001.4711"))
    again = run(tmp_path)
    assert again.resumed == 50
    assert again.summary == uninterrupted.summary
    assert not list((tmp_path / CHUNKS).glob(".*"))


def test_what_another_campaign_finished_is_refused(tmp_path: Path, stopped_early: tuple[Path, CampaignResult]) -> None:
    copied(stopped_early[0], tmp_path)
    with pytest.raises(ConfigError, match="changed since that run was begun: the seeds"):
        list(checkpoint(tmp_path, seeds=range(1, 100)).finished())
    with pytest.raises(ConfigError, match="the lock's source"):
        list(checkpoint(tmp_path, provider="hardened").finished())


def test_a_changed_file_of_a_strangers_lock_is_noticed(tmp_path: Path) -> None:
    example = Path(__file__).parents[3] / "docs" / "examples" / "lease_lock.py"
    mine = tmp_path / "mine.py"
    mine.write_text(example.read_text(encoding="utf-8"), encoding="utf-8")
    before = Sources.of(load_provider(f"{mine}:LeaseLock"))
    assert before == Sources.of(load_provider(f"{mine}:LeaseLock"))
    mine.write_text(mine.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")
    after = Sources.of(load_provider(f"{mine}:LeaseLock"))
    assert (before.provider != after.provider, before.code == after.code) == (True, True)


def test_a_damaged_chunk_is_told_with_its_path(tmp_path: Path, stopped_early: tuple[Path, CampaignResult]) -> None:
    copied(stopped_early[0], tmp_path)
    (tmp_path / CHUNKS / "chunk-000000" / "verdicts.arrow").write_bytes(b"torn")
    with pytest.raises(ConfigError, match="chunk-000000: a finished chunk cannot be read"):
        list(checkpoint(tmp_path).finished())


def test_one_flipped_bit_in_any_file_of_a_chunk_is_seen(tmp_path: Path) -> None:
    """Arrow's files have no checksum of their own: a verdict may differ by one bit and read well."""
    run(tmp_path, stop_after=1)
    stored = checkpoint(tmp_path)
    [chunk] = sorted((tmp_path / CHUNKS).glob("chunk-*"))
    files = sorted(path for path in chunk.iterdir() if path.stat().st_size)
    assert any(path.suffix == ".arrow" for path in files)
    for path in files:
        whole = path.read_bytes()
        for place in (0, len(whole) // 2, len(whole) - 2):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            with pytest.raises(ConfigError, match="chunk-000000"):
                list(stored.finished())
        path.write_bytes(whole)
    assert len(list(stored.finished())) == 1


def test_an_unfinished_campaign_can_be_judged(
    tmp_path: Path, uninterrupted: CampaignResult, stopped_late: Path
) -> None:
    """Its folder is a history like any other: the kept runs of its whole chunks."""
    copied(stopped_late, tmp_path)
    events, runs, _ = load_history(tmp_path)
    assert runs["run"].to_pylist() == [seed for seed in uninterrupted.history[1]["run"].to_pylist() if seed <= 100]
    assert decide(Summary.of(judge(events, runs), events, runs)).safety == "violated"
    remove_chunks(tmp_path)
    assert seeds_in(tmp_path) == 0


def test_a_fingerprint_tells_every_part_that_differs() -> None:
    one = Fingerprint(scenario="a", provider="b", code="c", seeds=(1, 2), keep_runs=3, compare_every=0)
    two = replace(one, code="d", compare_every=10)
    assert one.differences(two) == ["lockref itself", "--check-determinism"]
    assert one.differences(one) == []
