"""One gate as JUnit, Markdown and annotations: one wording of a failure, bounded, harmless whatever the lock says."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from reports.formats.gate_markdown import gate_markdown
from reports.formats.gate_result import AbilityFound, Crash, FailureGroup, GatedScenario, GateResult, Required
from reports.formats.github import ERRORS_MAX, gate_annotation_lines
from reports.formats.junit import gate_junit_xml
from reports.formats.markdown import BYTES_MAX
from tests.unit.reports.formats.test_formats import HOSTILE

SENTENCE = "n1 wrote with token 7 after n2 had written with token 8"


def group(number: int = 1, **fields: Any) -> FailureGroup:
    told: dict[str, Any] = {
        "cause": "S4:stale-token:stopped", "id": f"LK-{number}", "clause": "S4", "shape": "stale token",
        "faults": ("pause",), "sentence": SENTENCE, "scenario": "e08-paused-holder", "seed": 7,
        "replay": f"lockref replay LK-{number}", "scenarios": ("e08-paused-holder", "e10-pause-before-write"),
        "block": f"✗ S4   LK-{number}\n  {SENTENCE}",
    }  # fmt: skip
    return FailureGroup(**{**told, **fields})


def scenario(name: str, outcome: str, **fields: Any) -> GatedScenario:
    told: dict[str, Any] = {"name": name, "outcome": outcome, "runs": 4, "seconds": 0.25}
    return GatedScenario(**{**told, **fields})


def gate(**fields: Any) -> GateResult:
    told: dict[str, Any] = {
        "provider": "my_lock.py:MyLock", "stands_on": "object_store", "exit_code": 0, "folder": ".lockref/runs/1-gate",
        "scenarios": (scenario("e01-empty-store", "held"),),
    }  # fmt: skip
    return GateResult(**{**told, **fields})


BROKEN = scenario("e08-paused-holder", "violated", broken=("S4",), groups=("LK-1",), exit_code=1)
RED = gate(
    exit_code=1,
    scenarios=(
        scenario("e01-empty-store", "held"),
        BROKEN,
        scenario("e10-pause-before-write", "violated", broken=("S4",), groups=("LK-1",), exit_code=1),
        scenario("b01-crashed-holder", "not_live", broken=("L2",), groups=("LK-2",), exit_code=4),
        scenario("e06-renewals-fail", "not_applicable", reason="e06 strikes renewals, and this lock does not renew"),
        scenario("swarm", "inconclusive", reason="never happened: contention", exit_code=3),
        scenario("z01", "could_not_be_run", reason="the lock raised KeyError", exit_code=2),
        scenario("e16", "accepted", broken=("S7",), groups=("LK-3",)),
    ),
    groups=(
        group(),
        group(2, clause="L2", cause="L2:waited-too-long:no-fault", is_safety=False, scenario="b01-crashed-holder"),
        group(3, clause="S7", cause="S7:false-release:unanswered", accepted="accepted until 2027-03-31: one writer"),
    ),
    abilities=(AbilityFound(name="renews", has=False, evidence="never renewed in 36 holds of up to 40 s"),),
    required=(
        Required(text="handoff.p99 < 2s", verdict="violated", told="handoff.p99 < 2s: 4.000 s", exit_code=4),
        Required(text="wait.max < 1h", verdict="held", told="wait.max < 1h: 3.000 s"),
    ),
    notes=("known.yaml:3:5: S1 was not found any more: remove the entry",),
    cut="the time of --for was over",
    unexplored=("swarm: 4 of 60 seeds",),
)

# Jenkins' schema junit-10, as far as it is used: element to its needed attributes, its others, and its children.
FORM: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"time", "skipped", "timestamp", "id"},
        {"properties", "testcase", "system-out"},
    ),
    "testcase": ({"name"}, {"time", "classname", "group"}, {"skipped", "error", "failure", "system-out"}),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "failure": (set(), {"type", "message"}, set()),
    "error": (set(), {"type", "message"}, set()),
    "skipped": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
}


def cases(result: GateResult) -> dict[str, ET.Element]:
    root = ET.fromstring(gate_junit_xml(result))
    return {str(case.get("name")): case for case in root.iter("testcase")}


def ending(case: ET.Element) -> str:
    return next((part.tag for part in case if part.tag != "system-out"), "passed")


def test_junit_has_a_case_for_each_scenario_and_each_requirement() -> None:
    """What stops the gate is a failure or an error; what does not apply, or is accepted, is skipped with the reason."""
    found = cases(RED)
    assert {name: ending(case) for name, case in found.items()} == {
        "e01-empty-store": "passed",
        "e08-paused-holder": "failure",
        "e10-pause-before-write": "failure",
        "b01-crashed-holder": "failure",
        "e06-renewals-fail": "skipped",
        "swarm": "error",
        "z01": "error",
        "e16": "skipped",
        "required: handoff.p99 < 2s": "failure",
        "required: wait.max < 1h": "passed",
    }
    root = ET.fromstring(gate_junit_xml(RED))
    (suite,) = root
    counted = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counted == {"tests": "10", "failures": "4", "errors": "2", "skipped": "2"}
    assert dict(suite.attrib) == {**root.attrib, "skipped": "2"}
    skipped = found["e06-renewals-fail"].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "not applicable: e06 strikes renewals, and this lock does not renew"
    assert "accepted until 2027-03-31: one writer" in str(found["e16"].find("skipped").get("message"))  # type: ignore[union-attr]


def test_a_failed_case_says_how_to_see_it_again() -> None:
    """Seed, run and replay line are properties; the message is the cause's own sentence, the text its block."""
    root = ET.fromstring(gate_junit_xml(RED))
    told = {part.get("name"): part.get("value") for part in root.iter("property")}
    assert told["run"] == ".lockref/runs/1-gate"
    assert told["seed"] == "7"
    assert told["replay"] == "lockref replay LK-1"
    assert told["b01-crashed-holder.replay"] == "lockref replay LK-2"
    assert told["e08-paused-holder.cause"] == "S4:stale-token:stopped"
    assert "e01-empty-store.replay" not in told
    case = cases(RED)["e08-paused-holder"]
    assert "replay: lockref replay LK-1\n" in str(case.findtext("system-out"))
    failure = case.find("failure")
    assert failure is not None
    assert failure.get("type") == "S4"
    assert failure.get("message") == SENTENCE
    assert str(failure.text).strip() == group().block
    assert case.get("time") == "0.250"
    assert case.get("classname") == "lockref.gate.my_lock_py_MyLock"


@pytest.mark.parametrize("outcome", ["violated", "not_live", "inconclusive", "could_not_be_run"])
def test_what_the_caller_allows_is_skipped(outcome: str) -> None:
    """`--allow-exit` leaves the outcome as it is, and takes its exit code away."""
    allowed = gate(scenarios=(scenario("a", outcome, reason="never happened: crash", broken=("L1",)),))
    assert ending(cases(allowed)["a"]) == "skipped"


def test_the_document_has_the_form_that_readers_know() -> None:
    hostile = gate(
        provider=HOSTILE,
        exit_code=1,
        scenarios=(scenario("a", "violated", reason=HOSTILE, groups=("LK-1",), broken=("S4",), exit_code=1),),
        groups=(group(sentence=HOSTILE, block=HOSTILE, replay=HOSTILE),),
    )
    for result in (RED, gate(), hostile):
        for element in ET.fromstring(gate_junit_xml(result)).iter():
            needed, further, children = FORM[element.tag]
            assert needed <= set(element.attrib) <= needed | further, element.tag
            assert {child.tag for child in element} <= children


def test_an_accepted_failure_of_a_red_scenario_is_not_its_message() -> None:
    """A scenario that shows an accepted cause and another one fails with the other one."""
    both = gate(
        exit_code=1,
        scenarios=(scenario("a", "violated", groups=("LK-1", "LK-2"), broken=("S4",), exit_code=1),),
        groups=(group(accepted="accepted until 2027-03-31: r", sentence="the accepted one"), group(2)),
    )
    failure = cases(both)["a"].find("failure")
    assert failure is not None
    assert failure.get("message") == SENTENCE
    assert "LK-1" not in str(failure.text)


def test_the_three_formats_have_one_sentence() -> None:
    """Markdown, annotations and JUnit tell a failure in the same words, with the same line to see it again."""
    for text in (gate_markdown(RED), "\n".join(gate_annotation_lines(RED)), gate_junit_xml(RED)):
        assert SENTENCE in text
        assert "lockref replay LK-1" in text


def test_markdown_tells_what_stops_first_and_folds_the_rest() -> None:
    """Verdict, causes, what is required, accepted, undecided and unexplored; then what is folded."""
    text = gate_markdown(RED)
    order = [
        "## GATE RED", "What broke", "**S4 an old write lands** LK-1", "**L2 a dead holder keeps it** LK-2",
            "### Required", "4.000 s", "### Accepted",
        "accepted until 2027-03-31: one writer", "### Not decided", "never happened: contention", "raised KeyError",
        "### Notes", "remove the entry", "### Not explored", "--for was over", "4 of 60 seeds",
        "<details><summary>S4 LK-1", "What the lock can do", "never renewed in 36 holds", "All 8 scenarios",
    ]  # fmt: skip
    places = [text.find(part) for part in order]
    assert -1 not in places
    assert places == sorted(places)
    assert text.count("<details>") == text.count("</details>")
    assert "**S7**" not in text


def test_a_green_page_has_no_failures() -> None:
    text = gate_markdown(gate())
    assert text.startswith("## GATE GREEN")
    assert "What broke" not in text


def test_markdown_is_never_too_long_for_a_job_summary() -> None:
    """GitHub drops a summary above 1 MiB whole. The causes stay, the details give way, and a notice says so."""
    many = tuple(group(number, block=f"x{number} " * 4_000) for number in range(400))
    text = gate_markdown(gate(exit_code=1, groups=many))
    assert len(text.encode()) <= BYTES_MAX
    assert "**S4 an old write lands** LK-399" in text
    assert text.endswith("*Cut here: the rest is in gate.json.*\n")
    assert text.count("<details>") == text.count("</details>")


def test_foreign_text_means_nothing_in_markdown() -> None:
    text = gate_markdown(
        gate(exit_code=1, provider=HOSTILE, groups=(group(sentence=HOSTILE, block=f"```\n{HOSTILE}"),))
    )
    assert "<script>" not in text.replace("````text\n```\n<script>", "")
    assert "\x1b" not in text
    assert "````text" in text


def test_annotations_stop_at_ten_and_one_notice_counts_the_rest() -> None:
    """GitHub shows ten of a kind for a step and drops the others in silence."""
    many = gate(exit_code=1, scenarios=(BROKEN,), groups=tuple(group(number) for number in range(13)))
    lines = gate_annotation_lines(many)
    assert [line.split(" ")[0] for line in lines] == ["::error"] * ERRORS_MAX + ["::notice"]
    assert "3 more" in lines[-1]
    assert gate_annotation_lines(gate()) == []


def test_an_annotation_points_to_the_class_of_the_lock() -> None:
    """Else to the scenario, if it is a file of the user's; a scenario of the catalogue is no file of theirs."""
    placed = RED.model_copy(update={"lock_file": "src/my_lock.py", "lock_line": 31})
    assert gate_annotation_lines(placed)[0] == (
        "::error file=src/my_lock.py,line=31,title=S4 violated%3A 2 scenarios show it%3A e08-paused-holder%2C "
        f"e10-pause-before-write::{SENTENCE} (lockref replay LK-1)"
    )
    own = gate(exit_code=1, scenarios=(BROKEN.model_copy(update={"source": "tests/pause.yaml"}),), groups=(group(),))
    assert gate_annotation_lines(own)[0].startswith("::error file=tests/pause.yaml,line=1,title=S4")
    assert gate_annotation_lines(RED)[0].startswith("::error title=S4")


def test_annotations_tell_everything_that_stops_the_gate() -> None:
    """A broken requirement and an undecided scenario have no cause, and stop the gate all the same."""
    lines = gate_annotation_lines(RED)
    assert [line.partition("::")[2].partition(" ")[0] for line in lines] == ["error"] * 5 + ["notice"]
    assert "title=required::handoff.p99 < 2s%3A" not in "".join(lines)
    assert any(line.endswith("title=required::handoff.p99 < 2s: 4.000 s") for line in lines)
    assert any(line.endswith("title=swarm inconclusive::never happened: contention") for line in lines)
    assert "1 accepted" in lines[-1]


def test_no_text_of_a_lock_is_a_command() -> None:
    lines = gate_annotation_lines(gate(exit_code=1, groups=(group(sentence=f"50%\n::error::x {HOSTILE}"),)))
    assert all("\n" not in line and "\x1b" not in line for line in lines)
    assert "50%25" in lines[0]


def test_a_crash_is_annotated_once_at_its_line() -> None:
    """Two scenarios that it ended are no errors of their own."""
    ended = tuple(
        GatedScenario(name=name, outcome="could_not_be_run", reason="raised", exit_code=2) for name in ("a", "b", "c")
    )
    crash = Crash(step="Mine.parse", sentence="it raised", scenarios=("a", "b"), replay="again", file="m.py", line=7)
    lines = gate_annotation_lines(gate(exit_code=2, scenarios=ended, crashes=(crash,)))
    assert lines[0] == "::error file=m.py,line=7,title=crash%3A it ended 2 scenarios%3A a%2C b::it raised (again)"
    assert [line.rpartition("title=")[2] for line in lines[1:]] == ["c could not be run::raised"]
    apart = gate_annotation_lines(gate(exit_code=2, scenarios=ended, crashes=(crash.model_copy(update={"file": ""}),)))
    assert len(apart) == 2
    assert "m.py" not in apart[0]
