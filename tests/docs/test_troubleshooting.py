"""docs/troubleshooting.md: each message on it is made to appear by its command, with the code of its section."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import lockref.cli.jobs.simulation
from lockref.cli.main import run
from tests.docs import ROOT
from tests.docs.sessions import Session, parts, steps

PAGE = ROOT / "docs" / "troubleshooting.md"
RESULTS = ROOT / "docs" / "results.md"

WITH_A_DEFECT = ["lockref", "sim", "e01", "--seeds", "1", "-q"]
TO_BE_INTERRUPTED = ["lockref", "sim", "e01", "--seeds", "1..100000", "-q"]
"""The two commands of the page that need somebody's help: a planted defect, and a Ctrl-C."""


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Session:
    """A session that answers with both outputs, and names files as seen from its folder."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "docs" / "examples" / "lease_lock.py", tmp_path)
    last = 0

    def execute(command: list[str]) -> str:
        nonlocal last
        if command == ["echo", "$?"]:
            return str(last)
        if command == TO_BE_INTERRUPTED:
            last, told = interrupted(command)
            return told
        assert command[0] == "lockref", f"nobody here can run {command}"
        capfd.readouterr()
        with monkeypatch.context() as patch:
            if command == WITH_A_DEFECT:
                patch.setattr(lockref.cli.jobs.simulation, "collect", defective)
            last = run(command[1:])
        told = capfd.readouterr()
        return (told.out + told.err).replace(f"{tmp_path}/", "")

    return Session(tmp_path, execute)


def defective(*_: object, **__: object) -> None:
    raise RuntimeError("something that must not happen")


def interrupted(command: list[str]) -> tuple[int, str]:
    """Run a command in a process of its own, press Ctrl-C once its run has begun, and give code and text."""
    process = subprocess.Popen(
        [sys.executable, "-m", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    runs = Path(".lockref/runs")
    known = set(runs.iterdir())
    while process.poll() is None and not any((new / "run.json").exists() for new in set(runs.iterdir()) - known):
        pass
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=120)
    return process.returncode, f"^C\n{told}"


def sections() -> dict[int, list[str]]:
    """The commands of the page by the code of their section."""
    text = PAGE.read_text(encoding="utf-8")
    found: dict[int, list[str]] = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        code = int(part.split(":")[0])
        blocks = re.findall(r"^```console\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
        found[code] = [line for block in blocks for command, shown in steps(block) for line in (command, *shown)]
    return found


@pytest.mark.shrunk
def test_each_message_appears(session: Session) -> None:
    """Files are written, commands run in order, and each prints what its section shows, code included."""
    assert session.play(PAGE) == sum(len(steps(part.text)) for part in parts(PAGE) if part.language == "console")


def test_each_exit_code_has_its_section() -> None:
    """The codes of docs/results.md, in their order; each section shows a command and then its own code."""
    table = RESULTS.read_text(encoding="utf-8").split("\n## ")[1]
    codes = [int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)]
    assert list(sections()) == codes
    for code, lines in sections().items():
        assert lines[-2:] == ["echo $?", str(code)]
        assert lines.count("echo $?") == lines.count(str(code))
