"""A client whose wait is shortened by the end of the run was not denied: it would have waited on."""

from __future__ import annotations

from lockref.history import CUT_SHORT
from lockref.lab.loading import load_provider
from scenarios.batch import simulate_many
from scenarios.definition.load import load_scenario


def test_a_wait_that_the_run_ends_is_written_down_as_cut_short() -> None:
    """contention: ten seconds of work for four clients; whoever waits then says so, and only such calls do."""
    scenario = load_scenario("contention").model_copy(update={"clients": 4})
    batch = simulate_many(scenario, load_provider("hardened"), range(1, 3))
    rows = [row for row in batch.events.to_pylist() if row["op"] == "acquire" and row["kind"] == "return"]
    cut = [row for row in rows if row["detail"] == CUT_SHORT]
    assert cut
    assert {row["outcome"] for row in cut} == {"precondition_failed"}
    assert all(not row["detail"] for row in rows if row["outcome"] == "applied")
