"""`lockref sim --all`: every scenario is judged, each by the clauses that a correct lock keeps there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lockref.cli.main import run
from lockref.lab.loading import load_provider
from reports.checks.spec import CLAUSES
from reports.formats.results import load_results
from scenarios.campaign import run_campaign
from scenarios.definition.load import catalogue, load_scenario, parse_scenario


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_no_scenario_is_left_out() -> None:
    """Each demands something, or it has no place in a gate; most demand everything.

    Where a controller assigns the locks, who holds a lock is asked of the assignment and not of a lock's record. So the
    clauses about records are not demanded there; those about holders and their effects are, in every such scenario.
    """
    scenarios = [load_scenario(path) for path in catalogue()]
    assigned = [scenario for scenario in scenarios if "helix" in scenario.expect]
    others = [scenario for scenario in scenarios if "helix" not in scenario.expect]
    assert [each.name for each in scenarios if each.not_demanded() >= set(CLAUSES)] == []
    assert [each.name for each in assigned if each.not_demanded() & {"S2", "S3", "S4", "S7"}] == []
    assert sum(not each.not_demanded() for each in others) > 0.8 * len(others) > 0.8 * 100


def test_more_is_demanded_of_a_lock_that_needs_no_wall_clock() -> None:
    """A contender far ahead breaks RFC-91's promise, and none of a lease that is counted on monotonic clocks."""
    scenario = load_scenario("e05-contender-far-ahead")
    assert {"S3", "S5"} <= scenario.not_demanded()
    assert scenario.not_demanded("table") == frozenset()
    assert load_scenario("e01").not_demanded("table") == frozenset()
    both = load_scenario("u09-deleted-record")
    assert both.not_demanded("table") == both.not_demanded() != frozenset()


@pytest.mark.parametrize(("scenario", "lock"), [("e31", "clocks:WallClockOnly"), ("h19", "renewal:LowersValidUntil")])
def test_a_bug_that_shows_where_not_everything_holds_is_not_overlooked(scenario: str, lock: str) -> None:
    """Two planted bugs escaped the gate, because their scenarios were left out of it."""
    loaded = load_scenario(scenario)
    spec = load_provider(f"tests.quality.planted.{lock}")
    found = run_campaign(
        loaded, spec, range(1, 21), keep_runs=0, not_demanded=loaded.not_demanded(spec.stands_on)
    ).summary.findings
    assert "S3" in {finding.clause for finding in found}


def test_the_gate_tells_what_it_does_not_demand(
    own_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Terminal, JSON, results and JUnit name the clauses that are not demanded; `check` keeps to them."""
    chosen = [path for path in catalogue() if path.stem in ("e05-contender-far-ahead", "e08-paused-holder")]
    monkeypatch.setattr("scenarios.definition.load.catalogue", lambda: chosen)
    assert run(["sim", "--all", "--seeds", "1..3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] == "held"
    assert told["liveness"] == "held"
    parts = {part["title"].split(" ")[0]: part for part in told["scenarios"]}
    assert parts["e05-contender-far-ahead"]["not_demanded"]["S3"] == "violated"
    assert "S4" in parts["e05-contender-far-ahead"]["demanded"]
    assert parts["e08-paused-holder"]["not_demanded"] == {}
    part = own_folder / ".lockref/runs/latest/e05-contender-far-ahead"
    assert "S3, S5" in (part / "junit.xml").read_text()
    assert load_results(part / "results.json").clauses["S3"].violated == 3
    assert run(["sim", "--all", "--seeds", "1..3"]) == 0
    assert "not demanded here, for no lock is known to keep it: S3 (broken in 3)" in capsys.readouterr().out
    assert run(["check", str(part)]) == 0


def test_a_scenario_that_is_asked_for_by_name_is_judged_by_everything(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever names a scenario asks what happens there; that no lock keeps a clause is said beside the verdict."""
    assert run(["sim", "e05", "--seeds", "1..3"]) == 1
    assert "the hardened lock is not known to keep S3, S5 here" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("stands_on", "says"), [("table", ": the scenario says nothing of the dynamodb lock itself"), ("object_store", "")]
)
def test_the_reference_that_stands_in_for_another_is_told(stands_on, says):
    """A scenario that names no expectation for `dynamodb` is judged by what `hardened` keeps, and that is told."""
    scenario = parse_scenario(
        "version: 1\nname: none\nclients: 2\nduration: 60s\nexpect: {hardened: {S3: violated}}\n"
        "lock: {validity: 12s, renew_every: 4s, poll_every: 1s}\nworkload: {kind: counter}\n"
    )
    assert scenario.reference_of(stands_on) == "hardened"
    assert scenario.why_reference(stands_on) == says


def test_a_commit_protocol_that_loses_commits_is_not_the_lock_s_fault():
    """W17: a rename that no lock makes safe is judged by what `dynamodb` keeps, on whatever a lock stands."""
    scenario = load_scenario("w17-paused-rename")
    for stands_on in ("coordination", "object_store", "table"):
        assert scenario.reference_of(stands_on) == "dynamodb"
        assert "DL1" in scenario.not_demanded(stands_on)
        assert "S3" not in scenario.not_demanded(stands_on)


def test_two_protocols_on_one_object_are_no_scenario_for_either(capsys: pytest.CaptureFixture[str]) -> None:
    """A correct lock with its own records was accused in p01; now it is told that this does not apply to it: exit 0."""
    plain = "tests.quality.planted.strangers:PlainLock"
    assert run(["sim", "p01", "p02", "--provider", plain, "--seeds", "1..3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] == "not_applicable"
    assert [part["scenario"] for part in told["skipped"]] == ["p01-beside-hudi-contenders", "p02-beside-hudi-holder"]
    assert "record_format" in told["skipped"][0]["reason"]
    assert run(["sim", "p01", "--provider", "hudi", "--seeds", "1..3"]) == 1


@pytest.mark.parametrize("show", [False, True])
def test_scenarios_that_do_not_apply_are_told_last(
    show: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a lock of one's own the first 24 lines of `sim --all` told what was not run; no result was to be seen."""
    names = ("p01-beside-hudi-contenders", "e30-ghost-acquire", "p02-beside-hudi-holder")
    few = [path for path in catalogue() if path.stem in names]
    monkeypatch.setattr("scenarios.definition.load.catalogue", lambda: few)
    more = ["--show-skipped"] if show else []
    assert run(["sim", "--all", "--provider", "tests.quality.planted.strangers:PlainLock", "--seed", "1", *more]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = [line for line in lines if line.startswith("NOT APPLICABLE")]
    assert lines[0].startswith("HELD")
    assert lines.index(told[0]) == len(lines) - 2 - len(told), "before the sum and the folder"
    if show:
        assert [line.split()[2] for line in told] == ["p01-beside-hudi-contenders", "p02-beside-hudi-holder"]
        assert "record_format" in told[0]
    else:
        [line] = told
        assert "2 scenarios under" in line
        assert "--show-skipped" in line


@pytest.mark.parametrize("verbose", [False, True])
def test_one_mistake_is_shown_once_for_several_scenarios(verbose: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """A broken lock filled 2,400 lines: the block of one failure in 46 scenarios. Each keeps its replay line."""
    more = ["--verbose"] if verbose else []
    assert run(["sim", "e09", "e10", "--provider", "hudi", "--seed", "1", "--shrink-for", "0s", *more]) == 1
    lines = capsys.readouterr().out.splitlines()
    again = [line for line in lines if "as in LK-" in line]
    summary = [line for line in lines if "shows it too: e10-pause-before-write" in line]
    assert len([line for line in lines if "lockref replay LK-" in line]) >= 2
    assert bool(again) == bool(summary) != verbose
    assert all("lockref replay LK-" in line for line in again)


def test_a_file_that_does_not_apply_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The user's own file asked for something, and nothing was judged: exit 2, beside others that hold, too."""
    monkeypatch.chdir(tmp_path)
    plain = "tests.quality.planted.strangers:PlainLock"
    file = tmp_path / "mixed.yaml"
    file.write_text("version: 1\nname: mixed\nclients: 2\nduration: 20s\nproviders: {n1: hudi}\n")
    assert run(["sim", str(file), "--provider", plain, "--seeds", "1"]) == 2
    assert "record_format" in capsys.readouterr().err
    assert run(["sim", str(file), "e01", "--provider", plain, "--seeds", "1"]) == 2
    assert "1 scenario could not be run: mixed" in capsys.readouterr().out


@pytest.mark.parametrize("habit", ["RenewsFiveTimesAsOften", "RenewsTenTimesAsOften", "RenewsRarely", "GivesNoTokens"])
@pytest.mark.parametrize("scenario", ["h15", "e07", "u09", "e05", "h19"])
def test_no_scenario_counts_the_habits_of_the_reference(scenario: str, habit: str) -> None:
    """A lock that renewed five times as often was accused of S2 in h15: the deletion came by count of renewals."""
    loaded = load_scenario(scenario)
    spec = load_provider(f"tests.quality.planted.habits:{habit}")
    campaign = run_campaign(loaded, spec, range(1, 7), keep_runs=0, not_demanded=loaded.not_demanded(spec.stands_on))
    assert campaign.summary.findings == []
