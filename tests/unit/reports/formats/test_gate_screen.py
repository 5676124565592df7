"""The last screen of a gate fits on a screen, whatever was found, and says the verdict."""

from __future__ import annotations

import pytest

from reports.formats.gate_result import AbilityFound, FailureGroup, GatedScenario, GateResult
from reports.formats.gate_screen import LINES_MAX, screen_lines


def result(*, exit_code: int = 0, groups: int = 0, scenarios: int = 3, outcome: str = "held") -> GateResult:
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
            AbilityFound(name=f"a{number}", has=True, evidence="seen", contradiction="but not") for number in range(9)
        ),
        unexplored=("seeds",) * 5,
        cut="the time was over",
        folder=".lockref/runs/x",
    )


@pytest.mark.parametrize("outcome", ["held", "violated", "inconclusive", "not_applicable", "could_not_be_run"])
@pytest.mark.parametrize("groups", [0, 1, 200])
def test_it_has_at_most_forty_lines(groups, outcome):
    """Also of a lock that breaks everything for two hundred causes in two hundred scenarios."""
    lines = screen_lines(result(groups=groups, scenarios=200, outcome=outcome, exit_code=1))
    assert len(lines) <= LINES_MAX
    assert all("\n" not in text and len(text) <= 200 for text, _ in lines)


def test_a_cause_is_told_with_its_scenarios_its_need_and_its_replay_line():
    """What a reader needs to begin."""
    text = "\n".join(line for line, _ in screen_lines(result(exit_code=1, groups=1, scenarios=47)))
    assert "47 scenarios show it: s0, s1, s2, s3 and 43 more; needs pause" in text
    assert "lockref replay LK-0" in text


@pytest.mark.parametrize(("code", "word"), [(0, "GATE GREEN"), (1, "GATE RED"), (4, "GATE RED"), (3, "GATE OPEN")])
def test_the_last_line_is_the_verdict(code, word):
    """The counts of all outcomes and the exit code stand in it."""
    last, _ = screen_lines(result(exit_code=code))[-1]
    assert last.startswith(word)
    assert f"3 held; 12 runs in 0 s (exit {code})" in last
