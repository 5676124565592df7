"""`lockref envelope`: a lock that breaks inside its promise is a failure, one that breaks outside is none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockref.cli.main import run
from lockref.lab.loading import load_provider
from scenarios.campaign import Cluster
from scenarios.envelope import survey as surveying
from scenarios.envelope.axes import axes_of, parse_axis
from scenarios.envelope.cells import Cell, CellToRun, measured
from scenarios.envelope.contended import Point
from scenarios.envelope.survey import Survey, Surveyed
from scenarios.executor import Processes
from scenarios.interrupts import EXIT_CODE

S = 1_000_000_000
GUILTY = "tests.quality.planted.takeover:AlwaysYes"


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def surveyed(*lines: str, providers: tuple[str, ...], seeds: range = range(1, 5)) -> list[Surveyed]:
    return Survey(
        specs=[load_provider(name) for name in providers],
        axes=axes_of([parse_axis(line) for line in lines]),
        seeds=seeds,
        processes=1,
        is_over=lambda: False,
        tell=lambda *_: None,
    ).run()


def test_cells_are_the_same_with_one_worker_with_two_and_on_any_executor() -> None:
    """And in the order in which they were asked for: so what is searched next depends on nothing else."""
    hudi = load_provider("hudi")
    asked = [CellToRun(spec=hudi, point=Point(pause=pause * S, offset=S)) for pause in (12, 3, 9, 10)]
    one, two = (list(measured(asked, range(1, 4), processes=count, is_over=lambda: False)) for count in (1, 2))
    assert one == two
    cluster = Cluster(executor=Processes(2), sent={"hudi": hudi}, slots=lambda: 2)
    assert list(measured(asked, range(1, 4), processes=1, cluster=cluster, is_over=lambda: False)) == one
    assert [cell.point for cell in one] == [each.point for each in asked]
    assert [cell.has_broken for cell in one][:2] == [True, False]


def test_the_reference_breaks_in_no_cell_of_its_promise_and_hudi_begins_to_break_right_behind_its_own() -> None:
    """hardened: any pause while clocks agree within β. hudi: what is left of its lease, 9.49 s."""
    hudi, hardened = surveyed("pause=9s..15s/2s", "offset=0s..500ms/500ms", providers=("hudi", "hardened"))
    assert [cell for cell in hardened.cells if cell.has_broken] == []
    assert all(hardened.is_promised(cell.point) for cell in hardened.cells)
    assert hudi.broken_promises == []
    (agreeing, _, *_) = [each.bracket for each in hudi.boundaries if each.along == "pause"]
    assert agreeing.broke is not None
    assert 9_490_000_000 < agreeing.broke <= 11 * S
    assert any(cell.harmed for cell in hudi.cells)


def test_a_lock_that_breaks_inside_its_promise_is_a_failure_that_can_be_replayed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit 1, a stored failure, and the cell as a scenario file: both lines show it again."""
    lines = ["--axis", "pause=8s..12s/4s", "--seeds", "1..3", "--jobs", "1", "--out", "e", "--json"]
    assert run(["-q", "envelope", "--provider", GUILTY, *lines]) == 1
    document = json.loads(capsys.readouterr().out)
    (found,) = document["providers"]
    assert document["exit_code"] == 1
    assert "It broke its promise: S3 in 3 of 3 runs" in " ".join(found["sentences"])
    assert {"S3", "S4"} <= {each["clause"] for each in found["failures"]}
    first = found["failures"][0]
    assert run(first["replay"].removeprefix("lockref ").split()) == 1
    assert run(first["again"].removeprefix("lockref ").split()) == 1
    assert first["replay"] in Path("e/envelope.html").read_text()
    assert json.loads(Path("e/envelope.json").read_text()) == document


def test_what_breaks_outside_the_promise_is_told_and_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["--axis", "pause=12s..16s/4s", "--seeds", "1..3", "--jobs", "1"]
    assert run(["envelope", "--provider", "hudi", *lines]) == 0
    told = capsys.readouterr().out
    assert "hudi: It broke from a pause of 12 s on." in told
    assert "It promises nothing at any point that was tried." in told
    folder = Path(".lockref/runs/latest")
    assert {path.name for path in folder.glob("envelope.*")} == {
        f"envelope.{end}" for end in ("json", "html", "png", "svg")
    }
    about = json.loads((folder / "run.json").read_text())
    assert (about["status"], about["exit_code"]) == ("finished", 0)


def test_a_lock_that_says_nothing_has_no_curve_and_is_asked_nothing(
    own_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (own_folder / "mine.py").write_text(
        "from lockref.storage.hudi.lock_manager import HudiLock\n"
        "class Mine(HudiLock):\n    record_format = 'mine'\n    claims = ()\n"
    )
    lines = ["--axis", "pause=12s..16s/4s", "--seeds", "1..3", "--jobs", "1"]
    assert run(["envelope", "--provider", "mine.py:Mine", *lines]) == 0
    assert "no curve is drawn and nothing is asked of it" in capsys.readouterr().out


def test_the_end_of_the_time_cuts_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """No cell was run to its end: nothing is proven, so exit 3; the document says why."""
    assert run(["-q", "envelope", "--jobs", "1", "--seeds", "1..60", "--for", "1ns", "--json"]) == 3
    told = capsys.readouterr()
    document = json.loads(told.out)
    assert document["ending"] == "cut"
    assert "cut short: the time was over" in told.err


@pytest.mark.drawn
def test_ctrl_c_keeps_what_is_there(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 130, picture, page and document of the cells that were done, and the run's status."""

    def interrupted(*args: object, **kwargs: object) -> Iterator[Cell]:
        cells = measured(*args, **kwargs)  # type: ignore[arg-type]
        yield next(cells)
        cells.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(surveying, "measured", interrupted)
    assert run(["-q", "envelope", "--jobs", "1", "--seeds", "1..2", "--json"]) == EXIT_CODE
    document = json.loads(capsys.readouterr().out)
    assert (document["ending"], document["exit_code"]) == ("interrupted", EXIT_CODE)
    assert [len(each["grid"]) for each in document["providers"]] == [1, 0]
    folder = Path(".lockref/runs/latest")
    assert json.loads((folder / "run.json").read_text())["status"] == "interrupted"
    assert (folder / "envelope.png").stat().st_size > 10_000


def test_a_lock_that_cannot_be_run_somewhere_says_where(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A lock may refuse a timing: such a cell is an error, and the others are told."""
    (own_folder / "mine.py").write_text(
        "from lockref.errors import ConfigError\nfrom lockref.storage.lock import StorageLock\n"
        "class Mine(StorageLock):\n"
        "    @classmethod\n    def from_context(cls, context):\n"
        "        if context.settings.validity_ns < 4_000_000_000:\n            raise ConfigError('too short for me')\n"
        "        return super().from_context(context)\n"
    )
    lines = ["--axis", "validity=2s..10s/8s", "--axis", "pause=1s", "--seeds", "1..2", "--jobs", "1"]
    assert run(["envelope", "--provider", "mine.py:Mine", *lines]) == 2
    told = capsys.readouterr().out
    assert "1 cell could not be run" in told
    assert "too short for me" in told


@pytest.mark.parametrize(
    "words",
    [
        ["--axis", "pauze=1s..2s"],
        ["--axis", "pause=1s"],
        ["--axis", "pause=0s..1s", "--axis", "pause=0s..1s"],
        ["--provider", "nosuch"],
        ["--seeds", "5..1"],
    ],
)
def test_wrong_words_are_wrong_usage(words: list[str]) -> None:
    assert run(["envelope", *words]) == 2
