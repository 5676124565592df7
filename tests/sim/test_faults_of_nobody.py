"""A scenario whose fault strikes nobody proves nothing of what it demands."""

from __future__ import annotations

import pytest

from lockref.lab.loading import load_provider
from reports.checks import decide, judge
from reports.checks.summary import Summary
from scenarios.batch import simulate_many
from scenarios.definition.load import parse_scenario

SCENARIO = """
version: 1
name: of-nobody
clients: 2
duration: 30s
services: {spare: {kind: coordination}}
workload: {kind: register, cycles: 1, think: 0s, hold: 1s, writes: 2, wait: 20s}
faults:
  - {id: f, %s}
must_happen: ["%s"]
"""


@pytest.mark.parametrize(
    ("fault", "demand"),
    [
        ("kind: partition, groups: [[n1], [spare]], at: 500ms, for: 20s", "partition"),
        ("kind: freeze_service, service: spare, at: 0s, for: 20s", "fault:freeze_service"),
        ("kind: crash_service, service: spare, at: 0s, restart_after: 20s", "fault:crash_service"),
        ("kind: crash, client: n1, at: 29s", "crash"),
        ("kind: pause, client: n1, at: 29s, for: 1s", "fault:pause"),
        ("kind: suspend, client: n1, at: 29s, for: 1s", "fault:suspend"),
        ("kind: offset, client: n1, at: 29s, by: 5s", "clock_fault"),
        ("kind: delete_object, at: 0s", "fault:delete_object"),
        ("kind: corrupt_object, at: 0s", "fault:corrupt_object"),
        ("kind: stale_read, lag: 0s", "fault:stale_read"),
        ("kind: delay, by: 0s", "fault:delay"),
    ],
)
def test_what_struck_nobody_did_not_happen(fault: str, demand: str) -> None:
    """must_happen: the fault comes about by its plan, in each seed, and can change nothing. So the batch is
    inconclusive, and says that it struck without an effect."""
    scenario = parse_scenario(SCENARIO % (fault, demand))
    batch = simulate_many(scenario, load_provider("hardened"), range(1, 4))
    decided = decide(Summary.of(judge(batch.events, batch.runs), batch.events, batch.runs))
    kind = fault.split(",")[0].removeprefix("kind: ")
    struck = sum(outcome.fault_counts["f"][1] for outcome in batch.outcomes)
    why = f" ({kind} struck {struck}×, which changed nothing)" if struck else ""
    assert (decided.safety, decided.reasons) == ("inconclusive", (f"never happened: {demand}{why}",))
