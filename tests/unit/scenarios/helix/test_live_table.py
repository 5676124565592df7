"""The live table of a cluster: names of strangers mean nothing but themselves."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import cast

import pytest
from rich.console import Console

from lockref.helix.controller.controller import Pass
from reports.formats.text import outgoing
from scenarios.helix import live_table
from scenarios.helix.live_table import live_view
from scenarios.helix.progress import progress_callbacks
from tests.hostile_text import WORD, unshown

NAMES = (WORD, "[/x]", "[bold]b", "[link=javascript:a]l[/link]")


def hostile_pass() -> Pass:
    """A pass of a cluster whose locks, instances and alarms have such names. The first instance holds all locks."""
    group = SimpleNamespace(model=SimpleNamespace(top="ONLINE"), locks=NAMES)
    replica = SimpleNamespace(state="ONLINE")
    snapshot = SimpleNamespace(
        groups=(group,), live=dict.fromkeys(NAMES, "session"), pending=(),
        of=lambda lock: {} if lock == "[/x]" else {NAMES[0]: replica},
    )  # fmt: skip
    alarm = SimpleNamespace(kind=SimpleNamespace(value="no way"), text=WORD)
    return cast("Pass", SimpleNamespace(snapshot=snapshot, decision=SimpleNamespace(messages=(), alarms=(alarm,))))


@pytest.mark.parametrize("rows_max", [live_table.ROWS_MAX, 1])
def test_a_name_is_neither_an_escape_nor_markup(rows_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a name ended the command with 70, or moved the cursor. Few locks are listed, and many are counted."""
    monkeypatch.setattr(live_table, "ROWS_MAX", rows_max)
    terminal = Console(file=io.StringIO(), width=4000, force_terminal=False)
    terminal.print(live_view(hostile_pass(), outgoing))
    told = cast("io.StringIO", terminal.file).getvalue()
    assert unshown(told) == []
    for name in NAMES[1:]:
        assert name in told, "as it is, and not as rich's markup"


def test_a_line_above_the_table_passes_the_filter(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_callbacks(print, is_live=True, printable=outgoing) as told:
        told.say(f"phase {WORD} [/x]")
    said = capsys.readouterr().out
    assert unshown(said) == []
    assert "[/x]" in said
