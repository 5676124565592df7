"""`lockref report` of a gate: the causes of `gate.json`, explained from the failures that the gate stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lockref.cli.jobs.shown import progress
from lockref.cli.jobs.shown.console import Console
from lockref.cli.main import run
from reports.formats.gate_result import load_gate

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which one gate of Hudi's lock ran, over one scenario that breaks it and one that does not."""
    home = tmp_path_factory.mktemp("gated")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        assert run(["gate", "--provider", "hudi", "-k", "e08 or b01", "--seeds", "1..2", "--jobs", "1"]) == 1
    return home


@pytest.fixture
def page(gated: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where its page is written; the working folder is that of the gate."""
    monkeypatch.chdir(gated)
    return Path(".lockref/runs/latest/report.html").resolve()


def test_the_page_of_a_gate_tells_its_causes_with_their_pictures(page: Path, capsys: Capture) -> None:
    """Each cause of `gate.json` once, with the paragraph and the diagram of `lockref explain`."""
    assert run(["report", "latest"]) == 0
    assert f"report   {page}" in capsys.readouterr().out
    gate, text = load_gate(page.with_name("gate.json")), page.read_text("utf-8")
    assert gate.groups
    for group in gate.groups:
        assert f"lockref replay {group.id}" in text
        assert run(["explain", group.id, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["paragraph"].split(". ")[0] in text
    assert text.count('class="st"') == len(gate.groups)
    assert "b01-crashed-holder" in text[text.index('id="held"') :]


def test_a_cause_whose_failure_is_gone_is_told_without_its_picture(page: Path, capsys: Capture) -> None:
    """The gate's own words are enough for a page; what is missing is named."""
    first, *_ = load_gate(page.with_name("gate.json")).groups
    stored = Path(f".lockref/failures/{first.id}.json")
    content = stored.read_bytes()
    stored.unlink()
    try:
        assert run(["report", "latest"]) == 0
    finally:
        stored.write_bytes(content)
    text = page.read_text("utf-8")
    assert f"no picture: {stored} is not there" in text
    assert first.sentence[:30] in text


def test_a_damaged_record_is_told_beside_its_scenario(page: Path, capsys: Capture) -> None:
    """What the gate said of it no longer is what the record says, and the exit code tells so, too."""
    part = page.parent / "b01-crashed-holder"
    record = part / "events.parquet"
    content = record.read_bytes()
    record.write_bytes((page.parent / "e08-paused-holder/events.parquet").read_bytes())
    try:
        assert run(["report", "latest"]) != 0
    finally:
        record.write_bytes(content)
    text = page.read_text("utf-8")
    place = text[text.index("<strong>b01-crashed-holder</strong>") :]
    assert "its record is not what was recorded" in place[: place.index("</details>")]
    assert run(["report", "latest"]) == 0


def test_what_is_left_of_a_long_job_is_told(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """Nothing within two seconds; then how much is done, and the rest at the rate until now."""
    now = iter([0, 1_900_000_000, 3_000_000_000])
    monkeypatch.setattr(progress, "_monotonic_ns", lambda: next(now))
    shown = progress.Progress(Console(), "report", steps=6)
    shown.done()
    assert capsys.readouterr().err == ""
    shown.done()
    assert capsys.readouterr().err == "report: 2 of 6, about 6 s left\n"
