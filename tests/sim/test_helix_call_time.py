"""How long a call of an assigned lock may take when nobody answers its instance (L5)."""

from __future__ import annotations

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


def test_a_call_that_cannot_join_waits_for_one_request_at_most() -> None:
    """Its session has to end as well, but the call does not wait for the answer to that."""
    scenario = parse_scenario(CUT_OFF_WHILE_IT_JOINS)
    outcome = run_simulated(scenario, load_provider("helix"), 1)
    events, runs = to_table([outcome.recorder]), runs_table([{**outcome.run_row, "run": 0}])
    ends = [row for row in events.to_pylist() if row["kind"] == "return" and row["node"] == "n1"]
    assert [row["outcome"] for row in ends if row["op"] == "acquire"] == ["rejected"]
    verdicts = {row["clause"]: row["verdict"] for row in judge(events, runs).verdicts.to_pylist()}
    assert verdicts["L5"] == "held"
