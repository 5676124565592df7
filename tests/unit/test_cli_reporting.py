"""The page of a run without Spark: made from what the run itself judged, and it says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockref.cli.console import Console
from lockref.cli.reporting import Part, write_report
from lockref.errors import CapabilityMissing
from reports.formats.results import Results


def part(folder: Path) -> Part:
    folder.mkdir()
    return Part(folder=folder, title=folder.name)


def write(parts: list[Part], out: Path) -> Path:
    return write_report(parts, out, title="t", spark=None, console=Console({"quiet": True}), without_spark="--no-spark")


def test_a_page_without_spark_is_made_from_what_was_judged(tmp_path: Path) -> None:
    """Whoever refuses Spark gets the verdicts of every part and the reason for what is missing; nothing is analysed."""
    parts = [part(tmp_path / name) for name in ("one", "two")]
    for each in parts:
        results = Results(title=each.title, verdict="held", statement=f"0 violations in {each.title}", runs=3)
        results.write(each.folder / "results.json")
    text = write(parts, tmp_path).read_text(encoding="utf-8")
    assert "0 violations in one" in text
    assert "0 violations in two" in text
    assert "without Spark: no latencies, no fairness, no timeline (--no-spark)" in text
    assert not (tmp_path / "analysis").exists()


def test_a_history_that_nobody_judged_needs_spark(tmp_path: Path) -> None:
    """Without Spark and without results of its own a part cannot be shown, and is not left out in silence."""
    with pytest.raises(CapabilityMissing, match="--no-spark"):
        write([part(tmp_path / "one")], tmp_path)
