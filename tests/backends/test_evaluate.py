"""`lockref evaluate`: probe, contention, faults on the wire, one page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lockref.cli.jobs import evaluation
from lockref.cli.main import run
from lockref.errors import BackendUnavailable
from reports.comparison.comparison import Comparison
from reports.formats.results import Results
from scenarios.worlds.processes.workers import LostWorker
from tests.conditional_server import Bucket, serving
from tests.unit.reports.comparison.test_comparison import fingerprint


def test_an_evaluation_keeps_what_it_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A store in memory: every part is on the page and in the document, with its verdict."""
    monkeypatch.chdir(tmp_path)
    code = run(
        [
            "evaluate",
            "memory:",
            "--contenders",
            "1,4",
            "--for",
            "2s",
            "--probe-for",
            "100s",
            "--rounds",
            "4",
            "--no-faults",
            "--json",
        ]
    )
    document = json.loads(capsys.readouterr().out)
    assert document["exit_code"] == code
    [store] = document["stores"]
    assert store["ended"] == ""
    assert store["probe"]["verdict"] in ("conforming", "usable")
    assert [run["contenders"] for run in store["contention"]] == [1, 4]
    alone = store["contention"][0]
    assert alone["verdict"] == "held", "one client alone is not asked for hand-offs"
    assert alone["speed"]["grants"] > 0
    folder = tmp_path / ".lockref/runs/latest"
    page = (folder / "evaluation.html").read_text()
    assert "How fast, and for how many?" in page
    assert "Faults on the wire: not asked." in page
    assert (folder / "store-1/fingerprint.html").exists()
    assert (folder / "store-1/contenders-4/results.json").exists()


def test_no_lock_is_put_on_a_store_that_proved_unsafe(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server that overlooks conditions is told so, with exit code 1, and nobody contends on it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with serving(Bucket(flaw="stale replacement")) as uri:
        asked = ["--contenders", "1", "--for", "2s", "--probe-for", "100s", "--rounds", "4", "--json"]
        assert run(["evaluate", uri, *asked]) == 1
    [store] = json.loads(capsys.readouterr().out)["stores"]
    assert store["contention"] == []
    assert "no lock was put on it" in store["ended"]


def test_a_store_that_does_not_answer_costs_nothing_of_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the first one did is on the page; the other one is told, with the exit code of an outage."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    nobody = "s3://bucket/x?endpoint=http://127.0.0.1:9"
    asked = ["--contenders", "1", "--for", "1s", "--probe-for", "100s", "--rounds", "1", "--no-faults"]
    assert run(["evaluate", "memory:", nobody, *asked]) == 5
    capsys.readouterr()
    document = json.loads((tmp_path / ".lockref/runs/latest/evaluation.json").read_text())
    assert document["stores"][0]["contention"][0]["verdict"] == "held"
    assert document["stores"][1]["ended"]
    page = (tmp_path / ".lockref/runs/latest/evaluation.html").read_text()
    assert "Contention: not reached." in page
    assert nobody in (tmp_path / ".lockref/runs/latest/evaluation.html").read_text().replace("&#39;", "'")


@pytest.mark.parametrize("crowds", ["", "0", "8,x", "5000"])
def test_crowds_are_numbers_of_clients(crowds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", "memory:", "--contenders", crowds]) == 2
    assert "--contenders" in capsys.readouterr().err


def test_a_violation_in_a_run_that_lost_a_worker_is_on_the_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the other processes recorded was judged: exit code 1 and not the outage's, and the verdict stands there."""
    monkeypatch.chdir(tmp_path)
    worker = LostWorker(number=2, clients=("n2",), at_ns=1, ending="was killed by SIGKILL", stderr_end="")
    broken = Results(title="", verdict="violated", statement="S3 broke", runs=1)
    done = SimpleNamespace(error=BackendUnavailable(str(worker)))
    monkeypatch.setattr(evaluation, "contend_on", lambda *_asked, **_options: done)
    monkeypatch.setattr(evaluation, "account_of", lambda *_asked, **_options: broken)
    monkeypatch.setattr(evaluation._Asked, "_probed", lambda *_asked: ({"verdict": "conforming"}, 0))
    monkeypatch.setattr(evaluation, "side_by_side", lambda *_asked: "")
    monkeypatch.setattr(evaluation, "write_evaluation", lambda *_asked, **_options: Path("page"))
    assert run(["evaluate", "memory:", "--contenders", "2", "--for", "2s", "--no-faults", "--json"]) == 1
    [store] = json.loads(capsys.readouterr().out)["stores"]
    assert [each["verdict"] for each in store["contention"]] == ["violated"]
    assert store["ended"] == "worker process 2 (n2) was killed by SIGKILL"


Asked = list[tuple[str, ...]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Asked, list[Callable[[tuple[str, ...]], None]]]:
    """What each store was asked, in order, by an evaluation that measures nothing; and what to call before each run."""
    questions: Asked = []
    before: list[Callable[[tuple[str, ...]], None]] = []
    held = Results(title="", verdict="held", statement="held", runs=1)

    def probed(_self: object, store: str, _folder: object) -> tuple[dict[str, Any], int]:
        questions.append((store, "probe"))
        return {**fingerprint("http://a", C2="conforming").document(), "verdict": "conforming"}, 0

    def contended(store: str, scenario: Any, *_asked: object, folder: Path, **options: Any) -> SimpleNamespace:
        question = (store, scenario.name if options["clients"] is None else folder.name)
        for call in before:
            call(question)
        questions.append(question)
        return SimpleNamespace(error=None)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(evaluation._Asked, "_probed", probed)
    monkeypatch.setattr(evaluation, "contend_on", contended)
    monkeypatch.setattr(evaluation, "account_of", lambda *_asked, **_options: held)
    monkeypatch.setattr(evaluation, "side_by_side", lambda *_asked: ())
    return questions, before


STORES = ("memory:a", "memory:b", "memory:c")
BLOCKS = ("--contenders", "1,4", "--repeats", "3", "--json")


def test_stores_take_turns_in_every_block(asked: tuple[Asked, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """All probes first; each block alike, with another store first; the faults last."""
    questions, _ = asked
    assert run(["evaluate", *STORES, *BLOCKS, "--faults", "e11"]) == 0
    a, b, c = STORES
    assert questions[:3] == [(store, "probe") for store in STORES]
    assert questions[3:21] == [
        *((store, crowd) for crowd in ("contenders-1", "contenders-4") for store in (a, b, c)),
        *((store, f"{crowd}-repeat-2") for crowd in ("contenders-1", "contenders-4") for store in (b, c, a)),
        *((store, f"{crowd}-repeat-3") for crowd in ("contenders-1", "contenders-4") for store in (c, a, b)),
    ]
    assert [store for store, _ in questions[21:]] == list(STORES)
    for store in json.loads(capsys.readouterr().out)["stores"]:
        assert store["repeats"] == {"asked": 3, "run": 3}
        assert len(store["faults"]) == 1


def test_ctrl_c_in_a_block_keeps_what_is_finished_and_says_so(
    asked: tuple[Asked, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """In the second block, after two stores of three: exit 130, and each store tells how many blocks it has."""
    questions, before = asked

    def interrupt(question: tuple[str, ...]) -> None:
        if question == ("memory:a", "contenders-4-repeat-2"):
            raise KeyboardInterrupt

    before.append(interrupt)
    assert run(["evaluate", *STORES, *BLOCKS[:-1]]) == 130
    printed = capsys.readouterr().out
    assert "interrupted: the page tells what was measured until then" in printed
    assert "memory:a: 1 of 3 repeats were run to their end" in printed
    assert "memory:b: 2 of 3 repeats were run to their end" in printed
    folder = tmp_path / ".lockref/runs/latest"
    stores = json.loads((folder / "evaluation.json").read_text())["stores"]
    assert [len(store["contention"]) for store in stores] == [3, 4, 4]
    assert [store["ended"] for store in stores] == ["interrupted"] * 3
    assert "1 of 3 repeats of each number of clients were run to their end" in (folder / "evaluation.html").read_text()
    assert json.loads((folder / "run.json").read_text())["status"] == "interrupted"
    assert questions[-1] == ("memory:c", "contenders-4-repeat-2")


def test_a_store_that_goes_away_in_a_block_ends_for_itself(
    asked: tuple[Asked, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """The others go on, in every block; the store is asked nothing more."""
    questions, before = asked

    def breaks(question: tuple[str, ...]) -> None:
        if question == ("memory:b", "contenders-1-repeat-2"):
            raise BackendUnavailable("nobody answers")

    before.append(breaks)
    assert run(["evaluate", *STORES, *BLOCKS, "--no-faults"]) == 5
    stores = json.loads(capsys.readouterr().out)["stores"]
    assert [store["repeats"]["run"] for store in stores] == [3, 1, 3]
    assert [store["ended"] for store in stores] == ["", "nobody answers", ""]
    assert len([store for store, _ in questions if store == "memory:b"]) == 3


def test_repeats_of_two_equal_stores_are_side_by_side(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Real runs, two of each: the comparison of the evaluation and that of `compare` say that two are too few."""
    monkeypatch.chdir(tmp_path)
    sized = ["--contenders", "2", "--for", "1s", "--probe-for", "2s", "--rounds", "1", "--repeats", "2", "--no-faults"]
    assert run(["evaluate", "memory:a", "memory:b", *sized]) in (0, 3)
    folder = tmp_path / ".lockref/runs/latest"
    (page,) = [
        found
        for path in sorted(folder.glob("side-by-side-*/comparison.json"))
        if (found := Comparison.model_validate_json(path.read_text())).repeats_least
    ]
    assert [column.repeats for column in page.columns] == [2, 2]
    (rate,) = [row for row in page.rows if row.name == "grants per second"]
    assert rate.cells[1].apart == "few_runs"
    parts = [f"{folder}/store-{store}/contenders-2{repeat}" for repeat in ("", "-repeat-2") for store in (1, 2)]
    capsys.readouterr()
    assert run(["compare", "--repeats", "2", *parts, "--json"]) == 0
    again = Comparison.model_validate_json(capsys.readouterr().out)
    assert again.rows == page.rows
