"""Faults are told with their numbers, and shrinking keeps a symptom about as large as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockref.lab.loading import load_provider
from scenarios.campaign import run_campaign
from scenarios.definition.load import load_scenario
from scenarios.failures.failure_store import FailureStore
from scenarios.failures.stored_failures import find_failures
from sim.explore.replay import Failure
from sim.faults.answers import Error, GhostWrite
from sim.faults.clocks import Drift, Offset
from sim.faults.description import describe
from sim.faults.fault import Fault, Trigger
from sim.faults.network import Duplicate
from sim.faults.process import Pause

S = 1_000_000_000


@pytest.mark.parametrize(
    ("fault", "planned", "text"),
    [
        (
            Pause(id="p", client="n1", for_ns=31 * S, at_ns=5 * S),
            Pause(id="p", client="n1", for_ns=40 * S, at_ns=5 * S),
            "pause of n1, 31000000000 ns (the plan had 40000000000 ns: the shrinker found that 31000000000 ns "
            "suffice), at 5000000000 ns",
        ),
        (
            Pause(id="p", client="n1", for_ns=31 * S, when=Trigger(client="n1", op="renew", nth=2, cut="c4")),
            None,
            "pause of n1, 31000000000 ns, at the 2nd renew of n1, once it was answered (cut c4)",
        ),
        (
            Pause(id="p", client="n1", for_ns=S, when=Trigger(client="n1", op="renew", cut="c4", at_latest_ns=9 * S)),
            None,
            "pause of n1, 1000000000 ns, at the 1st renew of n1, once it was answered (cut c4), or at 9000000000 ns if "
            "that comes first",
        ),
        (
            Pause(id="p", client="n1", for_ns=31 * S, when=Trigger(client="n1", op="write", nth=21)),
            None,
            "pause of n1, 31000000000 ns, at the 21st write of n1, before it was sent (cut c0)",
        ),
        (
            Pause(id="p", client="n1", for_ns=31 * S, when=Trigger(client="n1", nth=112, cut="c3")),
            None,
            "pause of n1, 31000000000 ns, at the 112th request of n1, with the answer on its way (cut c3)",
        ),
        (Offset(id="o", client="n2", by_ns=-3 * S, at_ns=0), None, "offset of n2, by -3000000000 ns"),
        (
            Offset(id="o", client="n2", by_ns=3 * S, at_ns=0),
            Offset(id="o", client="n2", by_ns=2_999_000_000, at_ns=0),
            "offset of n2, by 3000000000 ns (the plan had 2999000000 ns, which was rounded)",
        ),
        (
            GhostWrite(id="g", client="n1", op="acquire", by_ns=0, at_ns=0),
            GhostWrite(id="g", client="n1", op="acquire", by_ns=4 * S, at_ns=0),
            "ghost write of n1 on acquire, by 0 ns: that it happens is enough, however little of it "
            "(the plan had 4000000000 ns)",
        ),
        (
            Duplicate(id="d", client="n1", gap_ns=0, at_ns=0),
            Duplicate(id="d", client="n1", at_ns=0),
            "duplicate of n1, gap 0 ns: that it happens is enough, however little of it (the plan had 1000000 ns)",
        ),
        (Drift(id="d", client="n3", rate_ppm=300, at_ns=0), None, "drift of n3, rate 300 ppm"),
        (Error(id="e", client="n1", op="renew", status=503, times=3), None, "error of n1 on renew, 3×"),
    ],
)  # fmt: skip
def test_a_fault_is_told_with_its_numbers(fault: Fault, planned: Fault | None, text: str) -> None:
    """Whom it struck, how much of it there was, where it began; and what of it the plan had before it was shrunk."""
    assert describe(fault, planned) == text


@pytest.mark.shrunk
def test_shrinking_keeps_the_size_of_a_symptom(tmp_path: Path) -> None:
    """E6: the overlap of this lock was shrunk to 0 ns, which no reader takes for the 105 ms that the run had."""
    scenario, spec = load_scenario("e06"), load_provider("tests.quality.planted.clocks:NoDriftMargin")
    findings = run_campaign(scenario, spec, range(1, 2), keep_runs=0).summary.findings
    [found] = [one for one in findings if one.clause == "S3"]
    stored = FailureStore(scenario, spec, folder=tmp_path).store(found)
    failure = Failure.load(find_failures(stored.id, folder=tmp_path)[0])
    assert found.size_ns
    assert failure.witness["size_ns"] * 2 >= found.size_ns
    assert failure.shrink is not None
    assert (failure.shrink.size_before_ns, failure.shrink.size_after_ns) == (found.size_ns, failure.witness["size_ns"])
    assert [text for label, text in stored.notes if label == "fault"] == list(failure.faults)
    assert "the shrinker found that" in failure.faults[0]
