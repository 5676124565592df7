"""What leaves the house: results.json, JUnit, annotations, text for people."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from lockref.errors import ConfigError
from reports.checks.spec import CLAUSES
from reports.formats.block import LINES_MAX, failure_block
from reports.formats.github import ERRORS_MAX, annotation_lines
from reports.formats.junit import junit_xml
from reports.formats.results import (
    Clause,
    Failure,
    Interval,
    Results,
    Tick,
    Timeline,
    load_results,
    statement,
)
from reports.formats.text import readable, short

HOSTILE = "<script>alert(1)</script>\n\x1b[31m\u202eevil\"' & `x` | [a](b) \ud800" + "A" * 10_000


def failure(**fields: object) -> Failure:
    told: dict[str, object] = {
        "id": "LK-1",
        "clause": "S4",
        "message": "a stale write was accepted",
        "run": 7,
        "seed": 7,
    }
    return Failure.model_validate({**told, **fields})


def results(**fields: object) -> Results:
    told: dict[str, object] = {"title": "t", "verdict": "held", "statement": "s", "runs": 10}
    return Results.model_validate({**told, **fields})


def test_a_statement_bounds_and_never_says_safe() -> None:
    """Zero of n bounds the rate at 3/n; the word "safe" occurs in no statement."""
    held = statement(verdict="held", runs=2000, violated=0, reasons=[])
    assert held == "0 violations in 2,000 runs: at 95 % confidence, at most 0.15 % of runs break it"
    said = [
        held,
        statement(verdict="violated", runs=2000, violated=3, reasons=[]),
        statement(verdict="inconclusive", runs=5, violated=0, reasons=["never happened: crash"]),
        statement(verdict="inconclusive", runs=0, violated=0, reasons=[]),
    ]
    assert said[1] == "3 of 2,000 runs broke a safety clause: at 95 % confidence, 0.051 to 0.44 % of runs do"
    assert statement(verdict="violated", runs=1, violated=1, reasons=[]) == "1 of 1 run broke a safety clause"
    assert said[2] == "0 violations in 5 runs; inconclusive: never happened: crash"
    assert not [text for text in said if "safe " in text or text.endswith("safe")]


def test_results_survive_the_disk_and_refuse_what_they_do_not_know(tmp_path: Path) -> None:
    """Equal results give equal bytes; an unknown key is a located ConfigError, not silence."""
    path = results(failures=[failure()]).write(tmp_path / "results.json")
    first = path.read_bytes()
    load_results(path).write(path)
    assert path.read_bytes() == first
    document = json.loads(first)
    path.write_text(json.dumps({**document, "verdct": 1}))
    with pytest.raises(ConfigError, match=r"results\.json: verdct"):
        load_results(path)
    with pytest.raises(ConfigError, match="no results to read"):
        load_results(tmp_path / "absent.json")


def test_names_are_cut_and_made_printable() -> None:
    """No control character, direction mark or line end of a foreign name reaches a reader; length is bounded."""
    shown = short(HOSTILE)
    assert len(shown) == 60
    assert shown.endswith("…")
    assert shown.isprintable()
    assert "\u202e" not in short(HOSTILE, 200)
    assert short("n1/writer") == "n1/writer"


def test_long_nanoseconds_in_sentences_become_readable() -> None:
    """A witness counts nanoseconds; people are told seconds."""
    assert readable("both believed for 3007000000 ns") == "both believed for 3.01 s"
    assert readable("at 12 ns") == "at 12 ns"


def test_a_failure_block_is_short_and_tells_how_to_replay() -> None:
    """At most 25 lines, relative times, the replay line, no terminal escape of the history's making."""
    intervals = [{"node": "n1" + HOSTILE, "token": 7, "interval_ns": [5_000_000_000, 6_000_000_000]} for _ in range(40)]
    text = failure_block(
        failure(
            begin_ns=4_000_000_000, at_ns=5_500_000_000, similar=17, replay="lockref replay LK-1",
            message="n1 and n2 both believed for 780000000 ns",
            witness={"intervals": intervals, "writes": intervals, "overlap_ns": [5_000_000_000, 5_780_000_000]},
        ).in_run_time()
    )  # fmt: skip
    lines = text.split("\n")
    assert len(lines) <= LINES_MAX
    assert lines[0].startswith("✗ S4   LK-1   seed 7")
    assert "t 1.500 s" in lines[0]
    assert "  overlap    1.000 s to 1.780 s (780 ms)" in lines
    assert "  similar    17 more runs" in lines
    assert "  n1 and n2 both believed for 780 ms" in lines
    assert f"  demanded   {CLAUSES['S4']}" in lines
    assert "lockref replay LK-1" in lines[-1]
    assert "\x1b" not in text


def test_junit_separates_failed_inconclusive_and_allowed() -> None:
    """A violation is a failure; inconclusive is an error, and a skip with a reason only where the gate allows it."""
    broken = results(
        title="pause " + HOSTILE, verdict="violated", failures=[failure(message=HOSTILE, block="✗\x00 block")],
        clauses={"S4": Clause(verdict="violated", runs=10, violated=1)},
    )  # fmt: skip
    vague = results(title="vague", verdict="inconclusive", reasons=["never happened: crash"])
    root = ET.fromstring(junit_xml([broken, vague, results()]))
    assert {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3", "failures": "1", "errors": "1", "skipped": "0",
    }  # fmt: skip
    cases = root.findall(".//testcase")
    assert cases[0].find("failure").get("type") == "S4"  # type: ignore[union-attr]
    assert cases[1].find("error").get("message") == "inconclusive: never happened: crash"  # type: ignore[union-attr]
    assert {p.get("name") for p in cases[0].iter("property")} >= {"seed", "replay", "statement"}
    allowed = ET.fromstring(junit_xml([vague], allow_inconclusive=True))
    assert (allowed.get("errors"), allowed.get("skipped")) == ("0", "1")


def test_liveness_alone_fails_the_junit_case() -> None:
    """A broken promise about time is red, too."""
    root = ET.fromstring(junit_xml([results(liveness="violated")]))
    assert root.get("failures") == "1"


def test_annotations_stop_at_ten_and_count_the_rest() -> None:
    """GitHub drops what exceeds ten in silence, so one notice says how many there were; no text breaks a command."""
    lines = annotation_lines([results(verdict="violated", failures=[failure(message="50 %\n" + HOSTILE)] * 13)])
    assert [line.split(" ")[0] for line in lines] == ["::error"] * ERRORS_MAX + ["::notice"]
    assert "3 more distinct failures" in lines[-1]
    assert all("\n" not in line and "\x1b" not in line for line in lines)
    assert "50 %25" in lines[0]
    assert annotation_lines([results()]) == []


def test_what_is_made_visible_counts_towards_the_limit() -> None:
    """A name of nothing but control characters is four times as long once it can be read."""
    assert len(short("\x1b" * 60, 60)) == 60


def test_an_annotation_ends_where_it_should() -> None:
    """GitHub's own signs in a name: a comma ends a property, a colon the list, a percent sign begins an escape."""
    [line] = annotation_lines(
        [results(title="a,b:c 5%", verdict="violated", failures=[failure(message="50%\nof %0A")])]
    )
    assert line == "::error title=S4 violated%3A a%2Cb%3Ac 5%25::50%25 of %250A"
    [line] = annotation_lines([results(verdict="inconclusive", reasons=["5%\r\nof"])])
    assert line == "::warning title=lockref::t is inconclusive: 5%25 %0Aof"


def test_a_block_tells_beliefs_from_their_beginning() -> None:
    """Intervals read from left to right, in the run's own time."""
    witness = {"intervals": [{"node": "n1", "token": 3, "interval_ns": [3 * 10**9, 5 * 10**9]}]}
    block = failure_block(failure(begin_ns=10**9, witness=witness).in_run_time())
    assert "believed   n1  token 3  2.000 s to 4.000 s" in block


def test_one_failure_has_one_clock():
    """Terminal, document and picture count from the zero of the run; durations and the zero itself stay."""
    timeline = Timeline(origin_ns=100, begin_ns=150, end_ns=300, moment_ns=200,
                        intervals=[Interval(kind="believed", row="n1", begin_ns=160, end_ns=210)],
                        ticks=[Tick(row="n1", at_ns=205, is_accepted=True)])  # fmt: skip
    witness = {
        "origin_ns": 100, "size_ns": 50, "bound_ns": 7, "overlap_ns": [160, 210],
        "calls": [{"interval_ns": [160, None], "request": 160}], "stands": {"crashed_ns": None, "at_ns": 130},
    }  # fmt: skip
    told = failure(begin_ns=100, at_ns=200, witness=witness, timeline=timeline).in_run_time()
    assert (told.begin_ns, told.at_ns) == (100, 100)
    assert told.witness == {
        "origin_ns": 100, "size_ns": 50, "bound_ns": 7, "overlap_ns": [60, 110],
        "calls": [{"interval_ns": [60, None], "request": 160}], "stands": {"crashed_ns": None, "at_ns": 30},
    }  # fmt: skip
    assert told.timeline is not None
    bar, tick = told.timeline.intervals[0], told.timeline.ticks[0]
    assert (told.timeline.origin_ns, told.timeline.begin_ns, told.timeline.moment_ns) == (0, 50, 100)
    assert (bar.begin_ns, bar.end_ns, tick.at_ns) == (60, 110, 105)


def test_a_gate_hears_what_the_reader_is_told_beside_the_verdict() -> None:
    """JUnit has the notices, such as that the time was over before all seeds were run."""
    root = ET.fromstring(junit_xml([results(notices=["cut short: the time was over after 50 of 3,000 seeds"])]))
    told = [each.get("value") for each in root.iter("property") if each.get("name") == "notice"]
    assert told == ["cut short: the time was over after 50 of 3,000 seeds"]
