"""The cause of a failure of a client whose clock misled it: the clock is named, and no rule that the client obeyed."""

from __future__ import annotations

import pytest

from lockref.history import runs_table, to_table
from lockref.lab.loading import load_provider
from reports.checks import judge
from reports.checks.summary import Summary
from reports.explanation.explain import Subject, explain_run
from scenarios.definition.load import load_scenario
from scenarios.worlds.simulated import run_simulated


@pytest.mark.parametrize(
    ("name", "lock", "clause", "told", "not_told"),
    [
        pytest.param(
            "u02-suspended-machine", "hudi", "S3",
            "by the monotonic clock of n1, which had counted 13.3 s too little",
            "did not ask", id="its machine slept, and its monotonic clock with it",
        ),
        pytest.param(
            "u02-suspended-machine", "hudi", "S4",
            "by the monotonic clock of n1, which had counted 13.3 s too little",
            "no once its lease", id="and it wrote",
        ),
        pytest.param(
            "e31-clock-steps-back", "hudi", "S3",
            "by the wall clock of n1, which had counted 20 s too little",
            "did not ask", id="its wall clock stepped back",
        ),
        pytest.param(
            "h19-renewal-after-step-back", "hudi", "S3",
            "n1 had stamped that record by a wall clock that had gone back by 8 s",
            "has passed on its own clock", id="its wall clock stepped back before a renewal",
        ),
        pytest.param(
            "b04-waiter-clock-jumps", "hudi", "S5",
            "by its own wall clock n2 came late enough. Whoever compares wall clocks",
            "has passed on its own clock", id="the wall clock of the other one stepped forward",
        ),
        pytest.param(
            "b04-waiter-clock-jumps", "dynamodb-lock-0.5", "S3",
            "by its own wall clock n2 had waited for the whole",
            "time of that record", id="and the records have no stamp",
        ),
    ],
)  # fmt: skip
def test_the_clock_is_named(name: str, lock: str, clause: str, told: str, not_told: str) -> None:
    outcome = run_simulated(load_scenario(name), load_provider(lock), 1)
    events, runs = to_table([outcome.recorder]), runs_table([{**outcome.run_row, "run": 0}])
    judgement = judge(events, runs)
    [finding] = [found for found in Summary.of(judgement, events, runs).findings if found.clause == clause]
    subject = Subject(id="LK-AAAAAA", scenario=name, provider=lock, seed=1)
    [run] = runs.to_pylist()
    said = explain_run(subject, events=events, grants=judgement.grants, run=run, finding=finding, faults=())
    assert told in said.paragraph.replace("By", "by")
    assert not_told not in said.paragraph
