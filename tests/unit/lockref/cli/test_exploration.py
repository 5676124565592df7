"""`lockref sim --explore`: failures that only some schedules show, found, stored, shrunk and replayed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lockref.cli.jobs import exploration
from lockref.cli.main import run
from lockref.errors import ConfigError
from lockref.lab.loading import load_provider
from scenarios.definition.load import load_scenario
from scenarios.search.explored import explore_seeds
from scenarios.search.schedules import Exploration
from sim.explore.policies import parse_policy

WORLD = """
version: 1
name: two-threads
about: Two threads of one process share a lock.
clients: 1
duration: 20s
network: {latency: 1ms}
workload: {life: two_threads, cycles: 1, start: 0s, think: 0s, hold: 1s, writes: 2, wait: 10s}
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Results go below a fresh folder; the scenario stands in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.yaml").write_text(WORLD, encoding="utf-8")
    return tmp_path


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


PROVIDER = "tests.quality.planted.scheduled:ChecksThenActs"


def test_a_check_and_an_act_that_another_thread_parts_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    """A plain run holds; where a thread loses the processor between two calls the lock breaks, and that replays."""
    line = ["sim", "u06", "-p", PROVIDER, "--seed", "5", "--json"]
    assert run(line) == 0
    told(capsys)
    assert run([*line, "--explore", "pos", "--tie-window", "50ms", "--shrink-for", "0s"]) == 1
    failure = next(each for each in told(capsys)["failures"] if each["clause"] in ("S3", "S4"))
    assert failure["seed"] == 5
    kept = json.loads(Path(".lockref/failures", f"{failure['id']}.json").read_text(encoding="utf-8"))
    assert kept["ties"] == {"window_ns": 50_000_000, "preempt": "calls"}
    assert kept["schedule"]
    assert run(["replay", failure["id"], "--trust"]) == 1
    assert "same trace" in capsys.readouterr().out


def test_a_line_between_check_and_act_is_found_by_statements(capsys: pytest.CaptureFixture[str]) -> None:
    """No call parts them: at calls the lock holds, between statements it breaks."""
    line = ["sim", "u06", "-p", f"{PROVIDER}AtOnce", "--seed", "4", "--json"]
    line += ["--explore", "pos", "--tie-window", "50ms"]
    assert run([*line, "--preempt", "calls"]) == 0
    told(capsys)
    assert run([*line, "--preempt", "statements", "--shrink-for", "0s"]) == 1
    assert any(each["clause"] in ("S3", "S4") for each in told(capsys)["failures"])


def test_an_error_after_some_seeds_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What was judged before counts, and the reader learns why there was no more."""

    def broken_off(*arguments: Any, **options: Any) -> Any:
        found = explore_seeds(*arguments, **options)
        found.error = ConfigError("the lock ran without waiting")
        return found

    monkeypatch.setattr(exploration, "explore_seeds", broken_off)
    assert run(["sim", "two.yaml", "--explore", "pos", "--seeds", "1..3", "-q"]) == 2
    told_text = capsys.readouterr()
    assert "ERROR        two-threads: the lock ran without waiting" in told_text.out + told_text.err


def test_a_correct_lock_is_exhausted_and_held(capsys: pytest.CaptureFixture[str]) -> None:
    """All orders of a small world under a correct lock: nothing breaks, and nothing was left out."""
    line = ["sim", "two.yaml", "-p", PROVIDER.replace("ChecksThenActs", "TakesTurns"), "--seed", "1", "--json"]
    assert run([*line[:-1], "--explore", "exhaustive"]) == 0
    said = capsys.readouterr().out
    assert "; exhausted" in said
    # A search chooses its runs: they tell no rate.
    assert "confidence" not in said
    assert run([*line, "--explore", "exhaustive", "--schedules-max", "3"]) == 0
    assert any("cut off" in notice for notice in told(capsys)["notices"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tie-window", "2ms"], "belong to --explore"),
        (["--explore", "pos", "--resume"], "takes no"),
        (["--explore", "pcd:3"], "Did you mean 'pct'"),
        (["--explore", "pos", "--schedules-max", "9"], "runs each seed once"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and the reason."""
    assert run(["sim", "two.yaml", *options]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            ["--explore", "faults:3"],
            "exhaustive, faults, faults:1, faults:2, requests:1, requests:2, exhaustive+faults:1",
        ),
        (["--explore", "pos+faults"], "pos draws schedules; expected delay:N or exhaustive before the plus"),
        (["--explore", "faults", "--preempt", "calls"], "about schedules, not faults"),
        (["--explore", "faults", "--all"], "takes no --all"),
    ],
)
def test_a_search_for_faults_refuses_what_it_cannot_do(
    asked: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The word and the options of schedules are told apart, and nothing is run."""
    assert run(["sim", "e11", *asked]) == 2
    assert said in capsys.readouterr().err
    assert not Path(".lockref").exists()


def test_a_clause_that_is_not_demanded_is_counted_and_no_failure() -> None:
    """As in a campaign: a gate asks no lock for what it cannot keep under drawn schedules."""
    world, lock = load_scenario("small-world"), load_provider("tests.quality.planted.takeover:AlwaysYes")
    drawn = Exploration.by(parse_policy("random"))
    for not_demanded in (frozenset({"S3"}), frozenset()):
        summary = explore_seeds(world, lock, range(1, 3), drawn, not_demanded=not_demanded).summary
        assert summary.verdicts["S3"]["violated"] == 2
        assert any(finding.clause == "S3" for finding in summary.findings) is not bool(not_demanded)
