"""`lockref runs`: the runs that a folder keeps, listed, shown, read, opened and packed for somebody else."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from lockref.cli.jobs.shown.console import Console
from lockref.cli.main import run
from reports.formats.results import load_results

Capture = pytest.CaptureFixture[str]

STRICT = "version: 1\nname: slow\nworkload: {hold: 2s, cycles: 1}\nthresholds: ['hold.p50 < 1s']\n"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Path:
    """A folder with two runs, of which the second, the latest, broke a clause and stored its failures."""
    monkeypatch.chdir(tmp_path)
    assert run(["sim", "e01", "--provider", "hardened", "--seeds", "1..2"]) == 0
    assert run(["sim", "e08", "--provider", "hudi", "--seeds", "1..2", "--shrink-for", "0s"]) == 1
    capsys.readouterr()
    return tmp_path


def latest() -> Path:
    return Path(".lockref/runs/latest").resolve()


def test_runs_are_listed_newest_first(kept: Path, capsys: Capture) -> None:
    """Name, verdict, size and command of each; how many older ones there are; the same as JSON."""
    assert run(["runs", "list"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(latest().name)
    assert "violated" in first
    assert "held" in second
    assert run(["runs", "list", "--last", "1"]) == 0
    assert "and 1 older run: --last 2 lists all" in capsys.readouterr().out
    assert run(["runs", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["runs"]
    assert [(row["verdict"], row["exit_code"]) for row in rows] == [("violated", 1), ("held", 0)]
    assert all(row["bytes"] > 1000 for row in rows)


def test_a_run_that_broke_liveness_alone_is_listed_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Its safety held, and it stops a gate with 4: the list, the run's page and `run.json` say one word, in red."""
    monkeypatch.chdir(tmp_path)
    Path("strict.yaml").write_text(STRICT)
    assert run(["sim", "strict.yaml", "--seeds", "1..3"]) == 4
    assert json.loads((latest() / "run.json").read_text())["verdict"] == "not_live"
    capsys.readouterr()
    told: list[tuple[str, str]] = []
    monkeypatch.setattr(Console, "say", lambda _self, text, style="": told.append((text, style)))
    assert run(["runs", "list"]) == 0
    assert run(["runs", "show"]) == 0
    assert [style for text, style in told if "not live" in text] == ["bad", "bad"]


def test_no_run_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """A folder in which nothing has run yet is no error of a listing; a run that is not there is one."""
    monkeypatch.chdir(tmp_path)
    assert run(["runs", "list"]) == 0
    assert "no run is kept" in capsys.readouterr().out
    assert run(["runs", "show"]) == 2


def test_a_run_is_shown_with_its_parts_and_failures(kept: Path, capsys: Capture) -> None:
    """What came of it, the line that replays each stored failure, and what is in its folder."""
    assert run(["runs", "show"]) == 0
    told = capsys.readouterr().out
    failure = load_results(latest() / "results.json").failures[0]
    for text in (latest().name, "exit code 1", "violated", f"lockref replay {failure.id}", "results.json"):
        assert text in told, text
    assert run(["runs", "show", latest().name, "--json"]) == 0
    assert failure.id in json.loads(capsys.readouterr().out)["failures"]


def test_the_events_of_a_run_are_lines_of_text(kept: Path, capsys: Capture) -> None:
    """In order, each with its time and its node; of a history of several runs one is named; a node's alone."""
    assert run(["runs", "events", "--number", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 50
    assert any("call acquire" in line for line in lines)
    assert any("write at the resource" in line for line in lines)
    times = [float(line.split()[0].replace(",", "")) for line in lines]
    assert times == sorted(times)
    assert run(["runs", "events", "--number", "2", "--node", "n1"]) == 0
    own = capsys.readouterr().out.splitlines()
    assert 0 < len(own) < len(lines)
    assert {line.split()[2].partition("/")[0] for line in own} == {"n1"}
    assert run(["runs", "events"]) == 2
    assert "name one with --number" in capsys.readouterr().err


def test_a_run_is_packed_with_its_page_and_failures(kept: Path, capsys: Capture, tmp_path: Path) -> None:
    """The ZIP is enough in another folder: the page is there, the history is judged alike, the failure replays."""
    assert run(["runs", "export", "--out", "for-you.zip"]) == 0
    name = latest().name
    with zipfile.ZipFile("for-you.zip") as archive:
        archive.extractall(tmp_path / "elsewhere")
        names = archive.namelist()
        page = archive.read(f"{name}/report.html").decode()
    assert "What broke" in page
    assert not [path for path in names if "/spark/" in path or "/tables/" in path]
    first = Path("for-you.zip").read_bytes()
    assert run(["runs", "export", "--out", "for-you.zip"]) == 0
    assert Path("for-you.zip").read_bytes() == first
    elsewhere = tmp_path / "elsewhere"
    assert run(["check", str(elsewhere / name)]) == 1
    (failure, *_) = sorted((elsewhere / "failures").glob("LK-*.json"))
    assert f"lockref replay failures/{failure.name}" in (elsewhere / "README.txt").read_text()
    capsys.readouterr()
    assert run(["replay", str(failure)]) == 1
    assert "same trace" in capsys.readouterr().out


def test_what_a_link_leads_to_is_not_packed(kept: Path, tmp_path: Path) -> None:
    """A folder of somebody else may have links to any file of this machine, and to other runs."""
    secret = tmp_path / "secret.txt"
    secret.write_text("SECRET")
    green = next(path for path in sorted(Path(".lockref/runs").iterdir()) if path.resolve() != latest())
    (green / "link.txt").symlink_to(secret)
    (green / "others").symlink_to("..")
    assert run(["runs", "export", green.name, "--out", "new/for-you.zip"]) == 0
    with zipfile.ZipFile("new/for-you.zip") as archive:
        names = archive.namelist()
    assert f"{green.name}/results.json" in names
    assert not [name for name in names if "link" in name or "others" in name or name.startswith("failures/")]


@pytest.mark.parametrize(("starts", "code"), [(True, 0), (False, 5)])
def test_a_page_is_opened_and_made_first(
    kept: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, starts: bool, code: int
) -> None:
    """The browser gets the page's address; where none starts, the path is told, and the environment is to blame."""
    opened: list[str] = []

    def browser(address: str) -> bool:
        opened.append(address)
        return starts

    monkeypatch.setattr("webbrowser.open", browser)
    assert run(["runs", "open"]) == code
    assert opened == [(latest() / "report.html").as_uri()]
    assert (latest() / "report.html").exists()
    assert "report.html" in capsys.readouterr().out
