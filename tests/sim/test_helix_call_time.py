"""A call of an assigned lock when nobody answers its instance: how long it takes (L5), and what its caller is told."""

from __future__ import annotations

import pytest

from lockref.history import runs_table, to_table
from lockref.lab.loading import load_provider
from reports.checks import judge
from scenarios.definition.load import parse_scenario
from scenarios.worlds.simulated import run_simulated

CUT_OFF_WHILE_IT_JOINS = """
version: 1
name: cut-off-while-it-joins
ids: [L5]
about: An instance has a session, and then hears of no server until long after its wait.
clients: 2
duration: 60s
workload: {cycles: 1, wait: 9s, writes: 1}
faults:
  - {kind: partition, groups: [[n1], [store]], for: 40s, when: {client: n1, op: read, cut: c0}}
"""


CUT_OFF_ONCE_ITS_TIME_IS_OVER = """
version: 1
name: cut-off-once-its-time-is-over
ids: [L5]
about: An instance gets its session when its wait is over. The answer to its second request is lost.
clients: 2
duration: 60s
workload: {cycles: 1, think: 0s, wait: 15s, writes: 1}
faults:
  - {kind: delay, client: n2, times: 4, by: 5650ms}
  - {kind: partition, groups: [[store], [n2]], one_way: true, for: 7s, when: {client: n2, op: read, nth: 2, cut: c2}}
"""

CUT_OFF_WHEN_IT_LEAVES = """
version: 1
name: cut-off-when-it-leaves
ids: [L3]
about: An instance waits in vain. While it leaves it hears of no server, and no server hears of it.
clients: 2
duration: 60s
workload: {cycles: 1, wait: 9s, writes: 1, hold: 20s, clients: {n2: {start: 500ms}}}
faults:
  - {kind: partition, groups: [[n2], [store]], at: 8s, for: 8s}
"""

CUT_OFF_WHEN_IT_APPEARS = """
version: 1
name: cut-off-when-it-appears
ids: [L3]
about: An instance appears in its cluster, and hears nothing of that.
clients: 1
duration: 60s
workload: {cycles: 1, wait: 9s, writes: 1}
faults:
  - {kind: partition, groups: [[store], [n1]], one_way: true, for: 40s, when: {client: n1, op: write, nth: 2, cut: c2}}
"""


NEVER_ANSWERED = """
version: 1
name: never-answered
ids: [L5]
about: No server ever answers. The last attempt to open a session begins just before the end of the wait.
clients: 1
duration: 60s
workload: {cycles: 1, think: 0s, wait: 12700ms, writes: 1}
faults:
  - {kind: partition, groups: [[n1], [store]], at: 0s, for: 50s}
"""

JOINS_AGAIN_WHEN_ITS_TIME_ENDS = """
version: 1
name: joins-again-when-its-time-ends
ids: [L5]
about: >
  An instance waits and loses its session. When its wait is over it is opening another one, slowly, and each request
  after that is as slow.
clients: 2
duration: 80s
workload: {cycles: 1, think: 0s, wait: 25s, hold: 60s, writes: 1, clients: {n2: {start: 500ms}}}
faults:
  - {kind: partition, groups: [[n2], [store]], at: 3s, for: 17s}
  - {kind: delay, client: n2, by: 2400ms, at: 19s, for: 30s}
"""


@pytest.mark.parametrize("text", [NEVER_ANSWERED, JOINS_AGAIN_WHEN_ITS_TIME_ENDS], ids=["joins", "joins again"])
def test_a_call_ends_one_request_timeout_after_its_wait_whatever_its_instance_awaits(text: str) -> None:
    outcome = run_simulated(parse_scenario(text), load_provider("helix"), 1)
    events, runs = to_table([outcome.recorder]), runs_table([{**outcome.run_row, "run": 0}])
    verdicts = {row["clause"]: row["verdict"] for row in judge(events, runs).verdicts.to_pylist()}
    assert verdicts["L5"] == "held"


def test_a_call_that_cannot_join_waits_for_one_request_at_most() -> None:
    """Its session has to end as well, but the call does not wait for the answer to that."""
    scenario = parse_scenario(CUT_OFF_WHILE_IT_JOINS)
    outcome = run_simulated(scenario, load_provider("helix"), 1)
    events, runs = to_table([outcome.recorder]), runs_table([{**outcome.run_row, "run": 0}])
    ends = [row for row in events.to_pylist() if row["kind"] == "return" and row["node"] == "n1"]
    assert [row["outcome"] for row in ends if row["op"] == "acquire"] == ["rejected"]
    verdicts = {row["clause"]: row["verdict"] for row in judge(events, runs).verdicts.to_pylist()}
    assert verdicts["L5"] == "held"


@pytest.mark.parametrize(
    ("text", "node"),
    [
        pytest.param(CUT_OFF_WHEN_IT_LEAVES, "n2", id="when it leaves"),
        pytest.param(CUT_OFF_WHEN_IT_APPEARS, "n1", id="when it appears"),
    ],
)
def test_a_caller_is_told_that_nobody_confirmed_that_its_instance_left(text: str, node: str) -> None:
    """The lock may be assigned to it until its session ends, so the outcome of its call is unknown."""
    outcome = run_simulated(parse_scenario(text), load_provider("helix"), 1)
    rows = to_table([outcome.recorder]).to_pylist()
    ends = [row for row in rows if (row["kind"], row["op"], row["node"]) == ("return", "acquire", node)]
    assert [row["outcome"] for row in ends] == ["ambiguous"]


def test_a_call_that_is_out_of_time_begins_no_request() -> None:
    """An acquire whose time is over when it has its session asks nothing more: a lost answer cannot make it longer."""
    scenario = parse_scenario(CUT_OFF_ONCE_ITS_TIME_IS_OVER)
    outcome = run_simulated(scenario, load_provider("helix"), 688)
    events, runs = to_table([outcome.recorder]), runs_table([{**outcome.run_row, "run": 0}])
    rows = [row for row in events.to_pylist() if row["node"] == "n2"]
    begun, ended = (next(row["at_ns"] for row in rows if row["kind"] == kind) for kind in ("call", "return"))
    asked = [row["at_ns"] for row in rows if row["kind"] == "sent" and begun <= row["at_ns"] <= ended]
    assert asked == []
    verdicts = {row["clause"]: row["verdict"] for row in judge(events, runs).verdicts.to_pylist()}
    assert verdicts["L5"] == "held"
