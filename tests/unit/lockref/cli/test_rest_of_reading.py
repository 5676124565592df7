"""What `check` and `report` tell of the time that is left: it follows the events that are still to be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockref.cli.jobs.checking import NS_PER_EVENT
from lockref.cli.jobs.shown.console import Console
from lockref.cli.main import run
from reports.page import DRAWING_NS, LOCAL_COST, SPARK_COST, write_report
from reports.pipeline.local_analysis import event_count
from tests.unit.lockref.cli.test_reporting import held_history, no_jvm

Steps = list[tuple[str, int]]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """The steps that a console is told of, each with its length in nanoseconds."""
    told: Steps = []

    def step(_self: Console, text: str, *, lasting_ns: int = 0) -> None:
        told.append((text, lasting_ns))

    monkeypatch.setattr(Console, "step", step)
    return told


def test_check_tells_the_rest_of_all_parts(tmp_path: Path, steps: Steps) -> None:
    """The first part stands for all that is to come, the last one for itself."""
    one, two = held_history(tmp_path / "a"), held_history(tmp_path / "b", last=60)
    first, second = event_count(one.folder), event_count(two.folder)
    assert run(["check", str(tmp_path)]) == 0
    assert steps == [
        (f"check: part 1 of 2: {first} events", (first + second) * NS_PER_EVENT),
        (f"check: part 2 of 2: {second} events", second * NS_PER_EVENT),
    ]


def test_check_of_what_it_cannot_read_says_that_alone(
    tmp_path: Path, steps: Steps, capsys: pytest.CaptureFixture[str]
) -> None:
    """Counting events first must not hide what is wrong with them."""
    part = held_history(tmp_path / "a")
    events = part.folder / "events.parquet"
    events.write_bytes(events.read_bytes()[:-20])
    assert run(["check", str(part.folder)]) == 2
    assert f"{events} is no readable Parquet file" in capsys.readouterr().err


def test_report_tells_the_rest_of_measuring_and_of_drawing(tmp_path: Path, steps: Steps) -> None:
    """Measuring follows the events, drawing the parts."""
    part = held_history(tmp_path / "a")
    events = event_count(part.folder)
    assert run(["report", str(part.folder), "--out", str(tmp_path / "out")]) == 0
    assert steps[-2:] == [
        (f"report: a: measuring {events} events", LOCAL_COST.begin_ns + events * LOCAL_COST.per_event_ns),
        ("report: a: drawing 1 part", DRAWING_NS),
    ]


def test_spark_takes_its_own_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session alone takes longer than a small page."""
    monkeypatch.setattr("reports.page._on_spark", no_jvm)
    part = held_history(tmp_path / "a")
    told: Steps = []
    write_report([part], tmp_path, title="t", is_on_spark=True, on_step=lambda *step: told.append(step))
    assert told[0][1] > SPARK_COST.begin_ns
