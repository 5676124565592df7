"""Text of strangers where it leaves the program: terminal, pipe, CI log, Markdown and page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lockref.cli.jobs.console import Console
from lockref.cli.main import run
from lockref.words import Op
from reports.comparison.comparison import compare
from reports.formats.comparison import notices, terminal_table
from reports.formats.text import outgoing
from reports.history_files import write_history
from reports.html.comparison import write_comparison
from tests.histories import TIMING, History
from tests.unit.test_comparison import subject

HOSTILE = "\x1b]0;t\x07\x1b[31mred\u202e\n::set-env name=PATH::/tmp\n##[error]x\r<script>alert(1)</script>|[a](b)`"


def harmless(text: str, *, is_markup: bool = False) -> bool:
    """No invisible character, no line that a CI system obeys; in Markdown and HTML no element of a stranger either."""
    lines = text.split("\n")
    shown = all(character.isprintable() for line in lines for character in line)
    obeyed = any(re.match(r"\s*(::|##\[)", line) for line in lines)
    # What stands in a block of code or behind a backslash is text, and a page is no log.
    outside = re.sub(r"^(`{3,})text\n.*?\n\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    return shown and "<script>alert" not in outside if is_markup else shown and not obeyed


@pytest.mark.parametrize("color", ["never", "always"])
def test_all_that_a_console_says_goes_through_one_filter(capsys, color):
    """Prose, tables and progress alike, whatever their maker forgot. Colours are the console's own."""
    found = compare([subject("one", broken=3, lock=HOSTILE), subject(HOSTILE, lock="other")])
    console = Console({"color": color})
    console.say(HOSTILE)
    for line in notices(found):
        console.say(line, style="bad")
    console.say_table(terminal_table(found))
    console.progress(HOSTILE, force=True)
    out, err = capsys.readouterr()
    # Of escapes only the colours may be left: those are the console's, for a stranger's have lost their first byte.
    assert harmless(re.sub("\x1b\\[[0-9;]*m", "", out))
    assert "\x1b[31mred" not in out
    assert harmless(err)
    assert "red" in out


def test_a_comparison_s_markdown_and_page_hold_no_markup_of_a_stranger(tmp_path: Path):
    found = compare([subject("one", lock=HOSTILE), subject(HOSTILE, lock="other")])
    page = write_comparison(found, tmp_path)
    assert harmless((tmp_path / "comparison.md").read_text(), is_markup=True)
    assert "|[a](b)" not in (tmp_path / "comparison.md").read_text()
    assert harmless(page.read_text(), is_markup=True)


def test_what_a_program_says_on_purpose_is_left_alone():
    for text in ("two\nlines", "  indented", "a :: b", "50 % · ✗ µs", ""):
        assert outgoing(text) == text


def test_one_hostile_history_through_the_commands_that_print(tmp_path: Path, capsys, monkeypatch):
    """Names of run, client, lock, owner and provider, from the file to the terminal, the annotations and the pages."""
    monkeypatch.setenv("GITHUB_ACTIONS", "false")
    h = History(run={**TIMING, "scenario": HOSTILE, "provider": HOSTILE}, lock=HOSTILE)
    held = h.granted(HOSTILE, call=0, applied=1, returned=2, owner=HOSTILE)
    h.granted("n2", call=3, applied=4, returned=5, owner=HOSTILE + "2", if_version="absent")
    h.write(HOSTILE, Op.RENEW, sent=6, owner=held.owner, content=HOSTILE)
    folder = tmp_path / "run"
    folder.mkdir()
    write_history(folder, *h.tables())
    assert run(["check", str(folder)]) == 1
    assert run(["compare", str(folder), str(folder), "--out", str(tmp_path / "beside")]) in (0, 2)
    out, err = capsys.readouterr()
    assert harmless(out)
    assert harmless(err)
    written = [path for path in tmp_path.rglob("*") if path.suffix in (".md", ".html") and path.is_file()]
    assert written
    assert [path.name for path in written if not harmless(path.read_text(), is_markup=True)] == []
