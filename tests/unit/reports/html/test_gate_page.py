"""The page of a gate: causes first, each with its sentence and its picture, the scenarios folded below, and bounded."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from reports.explanation.explanation import Diagram, Explanation, Message
from reports.figures.space_time import space_time_svg
from reports.formats.gate_result import GateResult
from reports.html import gate_page
from reports.html.gate_page import BLOCKS_MAX, NAMES_MAX, Judged, write_gate_page
from tests.unit.reports.formats.test_gate_formats import RED, SENTENCE, gate, group, scenario
from tests.unit.reports.html.test_pages import HOSTILE, _Outline, full

RAN = ("e01-empty-store", "e08-paused-holder", "e10-pause-before-write", "b01-crashed-holder", "swarm", "e16")
ORIGIN = {"command": "lockref gate --provider x", "lockref": "0.1.0"}


def told(name: str = "n1", text: str = "why it broke") -> Explanation:
    message = Message(lane=name, service="store", label="write", text=text, end="applied", sent_ns=1, is_guilty=True)
    return Explanation(
        id="LK-1", clause="S4", demand="", scenario="", provider="", seed=1, message="", sentence="", paragraph=text,
        events=(), diagram=Diagram(lanes=(name, "store"), begin_ns=0, end_ns=9, messages=(message,)),
    )  # fmt: skip


def written(
    folder: Path, result: GateResult = RED, *, explained: dict[str, Explanation | str] | None = None, name: str = "n1"
) -> str:
    """The page of a gate whose scenarios in `RAN` were judged."""
    judged = {each: Judged(results=full(name, title=each)) for each in RAN}
    path = write_gate_page(result, judged, explained or {}, folder, provenance=ORIGIN)
    assert path == folder / "report.html"
    return path.read_text(encoding="utf-8")


def test_a_cause_is_told_once_with_its_picture_and_all_that_show_it(tmp_path: Path) -> None:
    """Its sentence in the heading, its paragraph, its line, links to its scenarios; the picture is a file, too."""
    page = written(tmp_path, explained={"LK-1": told()})
    broke = page[page.index('id="broke"') : page.index('id="lock"')]
    first = broke[: broke.index('id="c2"')]
    assert first.count(SENTENCE) == 2, "in the heading, and in the block of the failure"
    for text in ("why it broke", "lockref replay LK-1", "2 scenarios", '<a href="#s2">e08-paused-holder</a>', "<svg"):
        assert text in first, text
    assert (tmp_path / "figures/c1-space-time.svg").read_text(encoding="utf-8").startswith("<svg")
    assert not (tmp_path / "figures/c2-space-time.svg").exists()


def test_what_stops_the_gate_stands_before_what_is_accepted(tmp_path: Path) -> None:
    """Causes, and the scenarios below: the worst first, and each folded."""
    page = written(tmp_path)
    causes = re.findall(r'id="c\d".*?<span class="badge (\w+)">. (\w+)</span>', page, re.DOTALL)
    assert causes == [("violated", "S4"), ("violated", "L2"), ("inconclusive", "S7")]
    assert "accepted until 2027-03-31: one writer" in page
    order = re.findall(r'<details class="folded" id="s\d+"><summary><span class="badge \w+">. ([\w ]+)</span>', page)
    assert order == ["violated", "violated", "not live", "inconclusive", "accepted", "held"]
    assert '<details class="folded" open' not in page


def test_what_was_not_run_is_named_with_its_reason(tmp_path: Path) -> None:
    """A scenario that does not apply, or that could not be run, has no account, and is not lost."""
    page = written(tmp_path)
    apart = page[page.index('id="apart"') :]
    assert "Not run: 2 scenarios" in apart
    for text in ("this lock does not renew", "e06-renewals-fail", "the lock raised KeyError", "z01"):
        assert text in apart, text


@pytest.mark.parametrize(
    ("code", "verdict", "word"),
    [(0, "held", "green"), (1, "violated", "red"), (4, "violated", "red"), (3, "inconclusive", "open")],
)  # fmt: skip
def test_the_banner_is_the_verdict_of_the_gate(tmp_path: Path, code: int, verdict: str, word: str) -> None:
    """Not that of its parts: what the gate accepted or does not ask of this lock must not look red, nor the reverse."""
    page = written(tmp_path, gate(exit_code=code))
    assert re.search(rf'<div class="banner {verdict}" role="status">\s*<p class="word">. Gate {word}</p>', page)


def test_limits_abilities_notes_and_what_was_cut_are_told(tmp_path: Path) -> None:
    """All that the last screen says stands on the page, too."""
    page = written(tmp_path)
    for text in (
        "handoff.p99 &lt; 2s: 4.000 s", "never renewed in 36 holds of up to 40 s", "remove the entry",
        "the time of --for was over", "swarm: 4 of 60 seeds",
    ):  # fmt: skip
        assert text in page, text


def test_a_failure_of_a_scenario_leads_to_its_cause(tmp_path: Path) -> None:
    """By its own id, or by the note that names the example of its cause."""
    results = full(title="e08-paused-holder")
    results.failures[0].id = "LK-1"
    other = results.failures[0].model_copy(update={"id": "S4-9", "notes": [("as in", "LK-1")]})
    results.failures = [results.failures[0], other, *(other for _ in range(BLOCKS_MAX))]
    judged = {"e08-paused-holder": Judged(results=results, notices=["its record is not what was recorded"])}
    page = write_gate_page(RED, judged, {}, tmp_path, provenance=ORIGIN).read_text(encoding="utf-8")
    assert page.count('the cause is <a href="#c1">LK-1</a>') == BLOCKS_MAX
    assert "2 further distinct failures: see results.json" in page
    assert "its record is not what was recorded" in page


def test_the_heading_of_a_failure_is_its_cause(tmp_path: Path) -> None:
    """What led to it helps more than what broke, which the block says."""
    results = full(title="e08-paused-holder")
    results.failures[0].because = "n1 was paused for 31 s"
    page = write_gate_page(RED, {"e08-paused-holder": Judged(results=results)}, {}, tmp_path, provenance=ORIGIN)
    assert f"<h4>{results.failures[0].clause}: n1 was paused for 31 s" in page.read_text(encoding="utf-8")


def test_pictures_end_where_the_page_would_get_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first causes have theirs; of a later one the line that makes it is told, as is why one has none."""
    one = len(space_time_svg(told().diagram, prefix="c1", clause="S4"))
    monkeypatch.setattr(gate_page, "PICTURES_BYTES_MAX", one + 10)
    page = written(tmp_path, explained={"LK-1": told(), "LK-2": told(), "LK-3": "no picture: it no longer fails"})
    assert page.count('class="st"') == 1
    assert "lockref explain LK-2 --html FILE" in page
    assert "no picture: it no longer fails" in page


def test_many_scenarios_of_one_cause_are_counted(tmp_path: Path) -> None:
    """As many names as can be read; a scenario without an account has no link that leads nowhere."""
    names = tuple(f"x{number:02}" for number in range(NAMES_MAX + 3))
    page = written(tmp_path, gate(groups=(group(scenarios=names),)))
    assert f"{NAMES_MAX + 3} scenarios" in page
    assert ", and 3 more" in page
    assert names[NAMES_MAX] not in page[: page.index('<script type="application/json"')]
    assert '<a href="#">' not in page


def test_the_page_is_closed_and_deaf_to_hostile_names(tmp_path: Path) -> None:
    """No address but anchors, no id twice, no link to nowhere; foreign text stays text; the data are the gate."""
    hostile = gate(
        provider=HOSTILE, exit_code=1, notes=(HOSTILE,), lock_file=HOSTILE,
        scenarios=(
            scenario("e08-paused-holder", "violated", reason=HOSTILE), scenario("z", "not_applicable", reason=HOSTILE),
        ),
        groups=(group(sentence=HOSTILE, block=HOSTILE, replay=HOSTILE, cause=HOSTILE, accepted=HOSTILE),),
    )  # fmt: skip
    page = written(tmp_path, hostile, explained={"LK-1": told(HOSTILE, HOSTILE)}, name=HOSTILE)
    outline = _Outline(page)
    assert outline.loaded == []
    assert outline.tags.count("script") == 1
    assert len(outline.ids) == len(set(outline.ids))
    assert set(re.findall(r'<a href="#([^"]+)"', page)) <= set(outline.ids)
    assert "\x1b" not in page
    assert "<script>alert" not in page
    assert "A" * 5_000 not in page[: page.index('<script type="application/json"')]
    found = re.search(r'<script type="application/json" id="lockref-gate">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    assert GateResult.model_validate(json.loads(found.group(1))) == hostile


def test_equal_gates_give_equal_pages(tmp_path: Path) -> None:
    """Byte by byte, so that a page in a repository changes only where its gate does."""
    (tmp_path / "two").mkdir()
    explained: dict[str, Explanation | str] = {"LK-1": told()}
    assert written(tmp_path, explained=explained) == written(tmp_path / "two", explained=explained)
