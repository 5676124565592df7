"""The pages of docs/tutorial, docs/how-to and docs/explanation: what they show is done, and prints what they say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lockref.cli.main import run
from tests.docs import ROOT
from tests.docs.sessions import PAGES, Session, parts, patched, pictures_of, steps

pytestmark = [pytest.mark.drawn, pytest.mark.shrunk]

PLAYED = [page for page in PAGES if any(part.language == "console" for part in parts(page))]


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Session:
    """A session in a folder with the example lock: `lockref` runs in this process, `pytest` in one of its own."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "docs" / "examples" / "lease_lock.py", tmp_path)
    for name in [name for name in os.environ if name.startswith(("AWS_", "PYTEST", "GITHUB_"))]:
        monkeypatch.delenv(name)
    last = 0

    def execute(command: list[str]) -> str:
        nonlocal last
        match command:
            case ["lockref", *arguments]:
                capfd.readouterr()
                last = run(arguments)
                return capfd.readouterr().out
            case ["pytest", *_]:
                done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
                last = done.returncode
                return done.stdout
            case ["echo", "$?"]:
                return str(last)
            case ["cat", name]:
                return Path(name).read_text("utf-8")
            case ["cp", source, target]:
                shutil.copy(source, target)
                return ""
        raise AssertionError(f"nobody here can run {command}")

    return Session(tmp_path, execute)


@pytest.mark.parametrize("page", PLAYED, ids=lambda page: page.stem)
def test_a_page_is_what_happens(page: Path, session: Session) -> None:
    """Each file is written, each command run, and its output is the one that the page shows."""
    assert session.play(page) >= 1
    for picture in pictures_of(page):
        made = session.folder / picture.name
        assert made.read_bytes() == picture.read_bytes(), f"python -m tests.docs.sessions makes {picture.name} anew"


def test_there_are_sessions() -> None:
    """Another style of the pages must not leave the test above without a page."""
    assert {"first-lock-bug", "reproduce-an-incident", "test-your-lock", "read-a-report"} <= {
        page.stem for page in PLAYED
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_block_is_only_to_be_looked_at(page: Path) -> None:
    """A block is a session, a file of one, or commands of `lockref`, which test_documents runs."""
    idle = [
        part
        for part in parts(page)
        if part.language != "console"
        and not part.name
        and not all(line.startswith(("lockref ", "pip install ", "#")) for line in part.text.splitlines())
    ]
    assert not idle


def test_other_output_is_noticed(tmp_path: Path) -> None:
    """A line that is not printed, one that is printed and not shown, and a second id in the place of the first."""
    page = tmp_path / "page.md"
    page.write_text(
        "```console\n$ ask\n✗ S3   LK-AAAAAA\n…\nreplay LK-AAAAAA\n$ ask LK-AAAAAA\nthe end\n```\n", "utf-8"
    )
    asked: list[list[str]] = []

    def answers(first: str, second: str) -> Session:
        asked.clear()

        def execute(command: list[str]) -> str:
            asked.append(command)
            return first if len(command) == 1 else second

        return Session(tmp_path, execute)

    shown = "✗ S3   LK-BBBBBB\n{}\nreplay LK-BBBBBB"
    assert answers(shown.format("a\nb"), "the end").play(page) == 2
    assert asked == [["ask"], ["ask", "LK-BBBBBB"]]
    for first, second in (
        (shown.format("a"), "the end\nand more"),
        (shown.format("a"), "the beginning"),
        (shown.format("a").replace("replay LK-B", "replay LK-C"), "the end"),
        (shown.format("a") + "\nmore", "the end"),
        ("first\n" + shown.format("a"), "the end"),
    ):
        with pytest.raises(AssertionError, match=r"prints more|does not print"):
            answers(first, second).play(page)


def test_a_diff_changes_its_place_alone() -> None:
    """Two places in one block; a place that the file has twice, or not at all, is an error."""
    before = "one\ntwo\nthree\nfour\n"
    assert patched(before, " one\n-two\n+2\n@@\n-four\n+4\n+5\n") == "one\n2\nthree\n4\n5\n"
    for diff in ("-five\n+5\n", "-o\n"):
        with pytest.raises(AssertionError, match="the file has this"):
            patched("oo\no\no\n", diff)


def test_a_long_command_is_one_command() -> None:
    """A backslash at the end of a line continues it."""
    assert steps("$ lockref sim e01 \\\n    --seeds 1\nheld\n") == [("lockref sim e01      --seeds 1", ["held"])]
