"""The last screen of a gate fits on a screen, whatever was found, and says the verdict."""

from __future__ import annotations

import pytest

from reports.formats.gate_result import AbilityFound, Crash, FailureGroup, GatedScenario, GateResult, Required
from reports.formats.gate_screen import LINES_MAX, screen_lines


def result(
    *, exit_code: int = 0, groups: int = 0, scenarios: int = 3, outcome: str = "held", edges: int = 0
) -> GateResult:
    names = [f"s{number}" for number in range(scenarios)]
    return GateResult(
        provider="./mine.py:Mine",
        stands_on="object_store",
        exit_code=exit_code,
        scenarios=tuple(
            GatedScenario(name=name, outcome=outcome, reason=f"why {name}", runs=4, seconds=1.0)  # type: ignore[arg-type]
            for name in names
        ),
        groups=tuple(
            FailureGroup(
                cause="S3:two-clients:stopped",
                id=f"LK-{number}",
                clause="S3",
                shape="",
                faults=("pause",),
                sentence="n1 and n2 both believed " * 20,
                scenario="s0",
                seed=1,
                replay=f"lockref replay LK-{number}",
                scenarios=tuple(names),
                runs=9,
            )
            for number in range(groups)
        ),
        abilities=tuple(
            AbilityFound(name=f"a{number}", has=True, evidence=f"seen {number}", contradiction="but not")
            for number in range(10)
        ),
        required=(Required(text="wait < 1s", verdict="held", told="wait < 1s: 1 ms"),) * edges,
        notes=("S1 was not found any more",) * edges,
        crashes=tuple(Crash(step="s", sentence="c", scenarios=("none",), replay="r") for _ in range(edges)),
        unexplored=("seeds",) * 5,
        cut="the time was over",
        folder=".lockref/runs/x",
    )


@pytest.mark.parametrize("outcome", ["held", "violated", "inconclusive", "not_applicable", "could_not_be_run"])
@pytest.mark.parametrize("groups", [0, 1, 200])
@pytest.mark.parametrize("edges", [0, 50])
def test_it_has_at_most_forty_lines(groups, outcome, edges):
    """Also of a lock that breaks everything for two hundred causes in two hundred scenarios."""
    lines = screen_lines(result(groups=groups, scenarios=200, outcome=outcome, exit_code=1, edges=edges))
    assert len(lines) <= LINES_MAX
    assert all("\n" not in text and len(text) <= 200 for text, _ in lines)


def test_a_cause_is_told_with_its_scenarios_its_need_and_its_replay_line():
    """What a reader needs to begin."""
    text = "\n".join(line for line, _ in screen_lines(result(exit_code=1, groups=1, scenarios=47)))
    assert "47 scenarios show it: s0, s1, s2, s3 and 43 more; it needs the fault `pause`" in text
    assert "✗ S3 two hold at once   n1 and n2" in text
    assert "    lockref replay LK-0   (S3:two-clients:stopped)" in text


@pytest.mark.parametrize(("code", "word"), [(0, "GATE GREEN"), (1, "GATE RED"), (4, "GATE RED"), (3, "GATE OPEN")])
def test_the_last_line_is_the_verdict(code, word):
    """The counts of all outcomes and the exit code stand in it."""
    last, _ = screen_lines(result(exit_code=code))[-1]
    assert last.startswith(word)
    assert f"3 held; 12 runs in 0 s (exit {code})" in last


def test_a_lock_that_could_not_be_asked_is_told_so_once():
    """Ten abilities and one reason: the reason is told in one line."""
    asked = tuple(
        AbilityFound(name=name, has=True, evidence="could not be asked: KeyError") for name in ("renews", "lease")
    )
    told = [text for text, _ in screen_lines(result().model_copy(update={"abilities": asked}))]
    assert sum("KeyError" in text for text in told) == 1


def test_a_crash_is_told_once_and_its_scenarios_are_not_told_again():
    """Two scenarios that one step ended are one line with their number; a third has a reason of its own."""
    crash = Crash(
        step="Mine.parse", sentence="Mine.parse raised KeyError", scenarios=("s0", "s1"), replay="lockref sim s0"
    )
    ended = result(exit_code=2, outcome="could_not_be_run").model_copy(update={"crashes": (crash,)})
    lines = [line for line, _ in screen_lines(ended)]
    assert "✗ crash   Mine.parse raised KeyError" in lines
    assert "    it ended 2 scenarios: s0, s1; lockref sim s0" in lines
    assert [line for line in lines if "could not be run: " in line] == ["  could not be run: s2: why s2"]


def test_an_accepted_cause_is_told_in_one_line_with_its_reason():
    """It is no cause of the verdict, so it has no lines of a failure; the word of a cause is what a list names."""
    two = result(exit_code=1, groups=2)
    accepted = two.groups[0].model_copy(update={"accepted": "accepted until 2027-03-31: one writer", "cause": "S4:x:y"})
    lines = [line for line, _ in screen_lines(two.model_copy(update={"groups": (accepted, two.groups[1])}))]
    assert "  S4:x:y, LK-0: accepted until 2027-03-31: one writer" in lines
    assert not [line for line in lines if line.startswith("✗") and "LK-0" in line]
    assert [line for line in lines if line.startswith("    3 scenarios show it: s0")]
    assert "; 1 cause; " in lines[-1]


def test_a_broken_requirement_stands_before_those_that_hold():
    limits = [Required(text=str(n), verdict="held", told=f"held {n}") for n in range(3)]
    broken = Required(text="handoff < 2s", verdict="violated", told="handoff < 2s: 4.000 s", exit_code=4)
    lines = [line for line, _ in screen_lines(result().model_copy(update={"required": (*limits, broken)}))]
    assert "  required: violated: handoff < 2s: 4.000 s" in lines
    assert "  and 3 more of these: see gate.json" in lines


def test_the_reason_of_a_cut_is_told_once_beside_what_it_left_out():
    """The document has it in both places, since each sentence of it is read alone."""
    cut = result().model_copy(update={"unexplored": ("2 scenarios not begun: the time was over", "more seeds")})
    lines = [line for line, _ in screen_lines(cut)]
    assert "  cut: the time was over" in lines
    assert "  not explored: 2 scenarios not begun" in lines
