"""A command that was told to end says so: exit code, text and page; what breaks because of it is no defect."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time

import psutil
import pytest

from lockref.cli import main
from lockref.cli.jobs import comparing, reporting
from lockref.cli.jobs.evaluation import evaluating, steps
from reports.comparison.carrying import YES, Carrying
from scenarios import interrupts
from scenarios.executor import Processes
from scenarios.failures import failure_store
from tests.unit.reports.comparison.test_comparison import fingerprint


def test_an_interrupted_evaluation_says_so(tmp_path, monkeypatch, capsys):
    """Ctrl-C in its second part: exit 130, the words, a page of what was measured, and the run's status."""

    def interrupted(*_args, **_kwargs):
        raise KeyboardInterrupt

    probe = fingerprint("http://a", C2="conforming").document()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(steps.Evaluation, "_probed", lambda *_: (probe, 0, Carrying(verdict=YES)))
    monkeypatch.setattr(steps, "contend_on", interrupted)
    told = {}
    monkeypatch.setattr(
        evaluating,
        "write_evaluation",
        lambda found, _standings, _advice, folder, **_: told.update(found["stores"][0]) or folder / "page.html",
    )
    assert main.run(["evaluate", "memory:", "--contenders", "1", "--no-faults"]) == interrupts.EXIT_CODE
    assert told["ended"] == "interrupted"
    assert told["probe"] == probe
    assert "interrupted" in capsys.readouterr().out
    about = json.loads((tmp_path / ".lockref" / "runs" / "latest" / "run.json").read_text())
    assert (about["status"], about["exit_code"]) == ("interrupted", interrupts.EXIT_CODE)


def test_what_breaks_after_a_signal_is_no_defect(monkeypatch, capsys):
    """Spark's JVM dies of the same Ctrl-C, and its client complains; without a signal the same error is a defect."""

    def breaks(*, is_told):
        def command(**_kwargs):
            if is_told:
                with contextlib.suppress(KeyboardInterrupt):
                    os.kill(os.getpid(), signal.SIGINT)
            raise ZeroDivisionError("the connection is gone")

        return command

    monkeypatch.setattr(main.cli, "main", breaks(is_told=True))
    assert main.run([]) == interrupts.EXIT_CODE
    assert "defect" not in capsys.readouterr().err
    monkeypatch.setattr(main.cli, "main", breaks(is_told=False))
    assert main.run([]) == 70


@pytest.mark.parametrize(
    ("job", "name", "words"),
    [(comparing, "_compared", "no comparison was kept"), (reporting, "_reported", "was not written anew")],
)
def test_a_command_that_keeps_nothing_says_so(job, name, words, tmp_path, monkeypatch, capsys):
    """Comparisons and pages are written at their end, so there is none."""

    def interrupted(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(job, name, interrupted)
    assert main.run(["compare" if job is comparing else "report", "latest"]) == interrupts.EXIT_CODE
    said = capsys.readouterr()
    assert words in said.out
    assert "interrupted" in said.err


def test_ctrl_c_in_the_middle_of_shrinking_keeps_what_was_found(tmp_path, monkeypatch, capsys):
    """The account is written and the failures are stored as they were found; a second failure is not shrunk at all."""
    begun = []

    def shrink(*_args, **_kwargs):
        begun.append(1)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(failure_store, "shrink", shrink)
    command = ["sim", "e08", "--provider", "hudi", "--seeds", "1..10", "--jobs", "1"]
    assert main.run(command) == interrupts.EXIT_CODE
    said = capsys.readouterr()
    assert len(begun) == 1
    assert "VIOLATED" in said.out
    assert "10 finished seeds in" in said.out
    assert "not shrunk" in said.out
    assert "lockref: interrupted" in said.err
    assert list((tmp_path / ".lockref" / "failures").glob("*.json"))
    about = json.loads((tmp_path / ".lockref" / "runs" / "latest" / "run.json").read_text())
    assert (about["status"], about["exit_code"]) == ("interrupted", interrupts.EXIT_CODE)


def seconds(piece: int) -> int:
    time.sleep(piece)
    return os.getpid()


def test_nobody_waits_for_pieces_whose_answers_are_not_wanted():
    """Workers hear no signal, and a pool waits for them: closing it took as long as their pieces."""
    answers = Processes(2).map(seconds, [0, *[10**6] * 5])
    worker = psutil.Process(next(answers))
    answers.close()
    assert psutil.wait_procs([worker], timeout=60)[1] == []
