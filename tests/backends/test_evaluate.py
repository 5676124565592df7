"""`lockref evaluate`: probe, contention, faults on the wire, one page."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from lockref.cli.jobs import evaluation
from lockref.cli.main import run
from reports.formats.results import Results
from scenarios.worlds.processes.workers import LostWorker
from tests.conditional_server import Bucket, serving


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
    outcome = SimpleNamespace(lost=(worker,))
    monkeypatch.setattr(evaluation, "contend_on", lambda *_asked, **_options: SimpleNamespace(outcome=outcome))
    monkeypatch.setattr(evaluation, "contention_results", lambda *_asked, **_options: broken)
    monkeypatch.setattr(evaluation._Asked, "_probed", lambda *_asked: ({"verdict": "conforming"}, 0))
    monkeypatch.setattr(evaluation, "side_by_side", lambda *_asked: "")
    monkeypatch.setattr(evaluation, "write_evaluation", lambda *_asked, **_options: Path("page"))
    assert run(["evaluate", "memory:", "--contenders", "2", "--for", "2s", "--no-faults", "--json"]) == 1
    [store] = json.loads(capsys.readouterr().out)["stores"]
    assert [each["verdict"] for each in store["contention"]] == ["violated"]
    assert store["ended"] == "worker process 2 (n2) was killed by SIGKILL"
