"""`lockref runs prune`: what is beyond the limits goes, whole; what goes on, is the latest, or is named stays."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lockref.cli.jobs.runs import surplus
from lockref.cli.jobs.runs.kept import age_in_words
from lockref.cli.jobs.runs.surplus import DAY_S, Limits, carry_out, planned
from lockref.cli.main import run
from reports.formats.results import Failure, Results
from scenarios.runs import HOME, RunFolder, myself
from tests.unit.reports.formats.test_gate_formats import RED

Capture = pytest.CaptureFixture[str]
NOW_S = datetime(2026, 6, 30, tzinfo=UTC).timestamp()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made(
    name: str, *, days: float = 0, size: int = 0, failures: tuple[str, ...] = (), status: str = "finished"
) -> Path:
    """A run that began so many days before `NOW_S`, of so many bytes, that names stored failures."""
    began = datetime.fromtimestamp(NOW_S - days * DAY_S, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    folder = RunFolder.begin(name, {"started_utc": began})
    (folder.path / "events.parquet").write_bytes(b"x" * size)
    told = [Failure(id=each, clause="S3", message="", run=0) for each in failures]
    Results(verdict="held", statement="", runs=1, failures=told).write(folder.path / "results.json")
    folder.describe(status=status, **(myself() if status == "running" else {}))
    return folder.path


def stored(name: str, *, days: float) -> Path:
    """A stored failure that is so old."""
    path = HOME / "failures" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    os.utime(path, (NOW_S - days * DAY_S,) * 2)
    return path


def going(limits: Limits) -> list[str]:
    return [each.path.name.partition("-")[2] for each in planned(limits, now_s=NOW_S).runs]


@pytest.mark.parametrize(
    ("limits", "names"),
    [
        (Limits(age_s=10 * DAY_S, runs_max=9, bytes_max=10**9), ["a"]),
        (Limits(age_s=10.5 * DAY_S, runs_max=9, bytes_max=10**9), []),
        (Limits(age_s=1e9, runs_max=2, bytes_max=10**9), ["b", "a"]),
        (Limits(age_s=1e9, runs_max=3, bytes_max=10**9), ["a"]),
        (Limits(age_s=1e9, runs_max=9, bytes_max=29_000), ["b", "a"]),
    ],
)
def test_each_limit_lets_go_what_is_beyond_it(limits: Limits, names: list[str]) -> None:
    """By age, by number, and by size of all that is newer; the newest first."""
    for name, days in (("a", 10.1), ("b", 3), ("c", 2), ("d", 1)):
        made(name, days=days, size=10_000)
    assert going(limits) == names


def test_the_latest_run_and_one_that_goes_on_stay() -> None:
    """However old and large they are: somebody looks at the one, and a process writes the other."""
    made("old", days=50)
    made("running", days=50, status="running")
    made("latest", days=50)
    assert going(Limits(age_s=0, runs_max=1, bytes_max=1)) == ["old"]


def test_a_run_that_was_taken_up_again_meanwhile_stays() -> None:
    """Between the look and the removal its command may go on in it."""
    old = made("old", days=50)
    made("latest")
    plan = planned(Limits(age_s=DAY_S, runs_max=9, bytes_max=10**9), now_s=NOW_S)
    RunFolder.resume(old, {})
    carry_out(plan, removed=lambda each: pytest.fail(f"{each} was removed"))
    assert (old / "results.json").exists()


def test_a_stored_failure_goes_only_when_asked_for_old_and_named_by_no_kept_run() -> None:
    """What a run that stays refers to can still be replayed."""
    made("old", days=50, failures=("LK-OLD111",))
    made("kept", days=1, failures=("LK-KEPT11",))
    for name, days in (("LK-OLD111", 50), ("LK-KEPT11", 50), ("LK-YOUNG1", 1), ("LK-NONE11", 31)):
        stored(name, days=days)
    limits = Limits(age_s=30 * DAY_S, runs_max=9, bytes_max=10**9)
    assert planned(limits, now_s=NOW_S).failures == ()
    plan = planned(limits, now_s=NOW_S, with_failures=True)
    assert [each.path.stem for each in plan.failures] == ["LK-NONE11", "LK-OLD111"]


def test_no_failure_goes_where_a_kept_run_cannot_be_read() -> None:
    """It may name any of them; that is said."""
    kept = made("kept")
    stored("LK-NONE11", days=50)
    (kept / "results.json").write_text("{")
    plan = planned(Limits(age_s=DAY_S, runs_max=9, bytes_max=10**9), now_s=NOW_S, with_failures=True)
    assert plan.failures == ()
    assert "all stored failures stay" in plan.notices[0]


def test_the_causes_of_a_gate_are_named_by_it() -> None:
    """A gate's failures stand in gate.json, also those that no account of a scenario repeats."""
    kept = made("gate")
    (kept / "gate.json").write_text(RED.model_dump_json())
    stored("LK-1", days=50)
    stored("LK-9", days=50)
    plan = planned(Limits(age_s=DAY_S, runs_max=9, bytes_max=10**9), now_s=NOW_S, with_failures=True)
    assert [each.path.stem for each in plan.failures] == ["LK-9"]


def test_a_dry_run_lists_and_removes_nothing(capsys: Capture) -> None:
    """Each with its size, age and reason, and the bytes of all."""
    old = made("old", days=5_000, size=200_000)
    made("latest")
    assert run(["runs", "prune", "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert f"would go  {old.name}  0.2 MB" in told
    assert "(older than 30 days)" in told
    assert "1 run would go, 0.2 MB; 1 run stays" in told
    assert old.exists()


def test_what_was_removed_is_told_with_its_bytes(capsys: Capture) -> None:
    """On the terminal and as JSON; a second time there is nothing to do."""
    old = made("old", days=5_000, size=200_000)
    stored("LK-NONE11", days=5_000)
    latest = made("latest")
    assert run(["runs", "prune", "--failures", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [Path(row["path"]).name for row in document["removed"]] == [old.name, "LK-NONE11.json"]
    assert document["bytes"] > 200_000
    assert (document["kept"], document["is_dry_run"]) == (1, False)
    assert not old.exists()
    assert latest.exists()
    assert run(["runs", "prune", "--failures"]) == 0
    assert capsys.readouterr().out == "0 runs removed, 0 kB; 1 run stays\n"


def test_interrupted_halfway_each_run_is_whole_or_gone(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """Ctrl-C while the first folder is emptied: it is no run any more, the others are whole; the next one sweeps."""
    for name in ("a", "b"):
        made(name, days=50)
    made("latest")
    real = shutil.rmtree

    def interrupted(folder: Path, **_: object) -> None:
        (folder / "results.json").unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    assert run(["runs", "prune", "--days", "1"]) == 130
    assert "each other run is whole" in capsys.readouterr().out
    monkeypatch.setattr(shutil, "rmtree", real)
    runs = HOME / "runs"
    assert sorted(path.name.partition("-")[2] for path in runs.glob("2*")) == ["b", "latest"]
    assert all((path / "results.json").exists() for path in runs.glob("2*"))
    assert len([*runs.glob(".removed-*")]) == 1
    assert run(["runs", "prune", "--days", "1"]) == 0
    assert [*runs.glob(".removed-*")] == []


def test_what_may_not_be_removed_is_the_environments_fault(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """Exit code 5 with the file; the run stays whole."""
    old = made("old", days=50)
    made("latest")

    def refused(_self: Path, _target: Path) -> Path:
        raise PermissionError(13, "Permission denied", str(old))

    monkeypatch.setattr(Path, "rename", refused)
    assert run(["runs", "prune", "--days", "1"]) == 5
    assert "Permission denied" in capsys.readouterr().err
    assert (old / "results.json").exists()


def test_a_run_without_a_time_is_as_old_as_its_file(home: Path) -> None:
    """And one from the future is not older than no time at all."""
    folder = made("old")
    (folder / "run.json").write_text(json.dumps({"status": "finished", "started_utc": "soon"}))
    assert surplus.age_of(folder, now_s=(folder / "run.json").stat().st_mtime + 7) == pytest.approx(7)
    assert surplus.age_of(made("new", days=-9), now_s=NOW_S) == 0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (3600, "1 h"), (86_400, "1 day"), (260_000, "3 days")],
)
def test_an_age_is_told_in_its_largest_unit(seconds: float, words: str) -> None:
    """Minutes of a year help nobody."""
    assert age_in_words(seconds) == words


def test_the_list_of_runs_has_their_age(capsys: Capture) -> None:
    """Beside their size, in words and as seconds."""
    made("old", days=-1)
    assert run(["runs", "list"]) == 0
    assert " kB " in (line := capsys.readouterr().out)
    assert any(unit in line for unit in (" s  ", " min  ", " h  ", " day"))
    assert run(["runs", "list", "--json"]) == 0
    assert isinstance(json.loads(capsys.readouterr().out)["runs"][0]["age_s"], float)
