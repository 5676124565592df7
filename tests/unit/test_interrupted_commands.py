"""A command that was told to end says so: exit code, text and page; what breaks because of it is no defect."""

from __future__ import annotations

import contextlib
import json
import os
import signal

from lockref.cli import main
from lockref.cli.jobs import evaluation
from scenarios import interrupts


def test_an_interrupted_evaluation_says_so(tmp_path, monkeypatch, capsys):
    """Ctrl-C in its second part: exit 130, the words, a page of what was measured, and the run's status."""

    def interrupted(*_args, **_kwargs):
        raise KeyboardInterrupt

    probe = ({"verdict": "conforming"}, 0)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(evaluation._Asked, "_probed", lambda *_: probe)
    monkeypatch.setattr(evaluation, "contend_on", interrupted)
    told = {}
    monkeypatch.setattr(evaluation, "side_by_side", lambda *_: None)
    monkeypatch.setattr(
        evaluation, "write_evaluation", lambda found, folder, **_: told.update(found[0]) or folder / "page.html"
    )
    assert main.run(["evaluate", "memory:", "--contenders", "1", "--no-faults"]) == interrupts.EXIT_CODE
    assert told["ended"] == "interrupted"
    assert told["probe"] == probe[0]
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
