"""The five cut points: what has happened in the world when a fault strikes there."""

from __future__ import annotations

import pytest

from lockref.words import Kind, Outcome
from sim.faults.answers import Error
from sim.faults.fault import Trigger
from sim.faults.network import Partition
from sim.faults.plan import FaultPlan
from sim.faults.process import Crash, Pause
from tests.sim.scripted import KEY, MS, Scene, body

CUTS = ("c0", "c1", "c2", "c3", "c4")


def write_under(plan: FaultPlan) -> Scene:
    """n1 creates the lock object once."""
    scene = Scene(plan)

    def script(_node, store):
        scene.note("begin")
        reply = store.put_if_absent(KEY, body("a"))
        scene.note(reply.outcome, reply.status)

    scene.client("n1", script)
    return scene.run(linger_ms=1000)


@pytest.mark.parametrize("cut", CUTS)
def test_crash_at_each_cut(cut):
    """A crash at c0 leaves no trace in the store; from c1 on the request lands without its sender."""
    scene = write_under(FaultPlan.of(Crash(id="f", client="n1", when=Trigger(client="n1", op="acquire", cut=cut))))
    assert scene.log == [("begin", 0)]
    assert (scene.store.past(KEY).body is None) == (cut == "c0")
    assert len(scene.rows(Kind.REPLIED)) == 0
    assert scene.counts() == (1, 1, 1)
    assert not scene.world.node("n1").is_up


@pytest.mark.parametrize(("cut", "applied_ms"), [("c0", 5010), ("c1", 10), ("c2", 10), ("c3", 10), ("c4", 10)])
def test_pause_at_each_cut(cut, applied_ms):
    """E9, E10: a pause at c0 delays the request itself; from c1 on it lands in time and the reply waits."""
    pause = Pause(id="f", client="n1", for_ns=5000 * MS, when=Trigger(client="n1", op="acquire", cut=cut))
    scene = write_under(FaultPlan.of(pause))
    struck_ms = {"c0": 0, "c1": 10, "c2": 10, "c3": 10, "c4": 20}[cut]
    returned_ms = 5020 if cut == "c0" else struck_ms + 5000
    assert scene.rows(Kind.APPLIED)[0]["at_ns"] == applied_ms * MS
    assert scene.log == [("begin", 0), (Outcome.APPLIED, 200, returned_ms)]
    assert scene.counts() == (1, 1, 1)


@pytest.mark.parametrize(
    ("cut", "is_applied", "outcome"),
    [
        ("c0", False, Outcome.AMBIGUOUS),
        ("c1", True, Outcome.AMBIGUOUS),
        ("c2", True, Outcome.AMBIGUOUS),
        ("c3", True, Outcome.APPLIED),
        ("c4", True, Outcome.APPLIED),
    ],
)
def test_partition_at_each_cut(cut, is_applied, outcome):
    """A partition stops what has not departed yet: the request at c0, the reply at c1 and c2, nothing later."""
    partition = Partition(
        id="f", groups=(("n1",), ("store",)), for_ns=500 * MS, when=Trigger(client="n1", op="acquire", cut=cut)
    )
    scene = write_under(FaultPlan.of(partition))
    assert (scene.store.past(KEY).body is not None) == is_applied
    assert scene.log[1][0] is outcome
    assert scene.counts()[2] == (outcome is Outcome.AMBIGUOUS)


@pytest.mark.parametrize("cut", ["c1", "c2"])
@pytest.mark.parametrize(
    ("status", "outcome", "heard"),
    [
        (409, Outcome.CONFLICT, 409),
        (412, Outcome.PRECONDITION_FAILED, 412),
        (429, Outcome.THROTTLED, 429),
        (403, Outcome.REJECTED, 403),
        (501, Outcome.REJECTED, 501),
        (500, Outcome.AMBIGUOUS, 500),
        (503, Outcome.AMBIGUOUS, 503),
        ("reset", Outcome.AMBIGUOUS, None),
        ("timeout", Outcome.AMBIGUOUS, None),
    ],
)
def test_errors_before_and_after_application(cut, status, outcome, heard):
    """Failing at c1 and at c2 looks alike to the caller; only at c2 was the write applied (A1)."""
    scene = write_under(FaultPlan.of(Error(id="f", client="n1", op="acquire", status=status, cut=cut, nth=1)))
    at_ms = 100 if status == "timeout" else 20
    assert scene.log[1] == (outcome, heard, at_ms)
    assert (scene.store.past(KEY).body is not None) == (cut == "c2")
    assert len(scene.rows(Kind.APPLIED)) == (cut == "c2")
    assert scene.counts() == (1, 1, 1)


def test_trigger_cut_decides_for_errors_without_one():
    """`when: {…, cut: c2}` alone is enough to fail after application."""
    scene = write_under(
        FaultPlan.of(Error(id="f", status=500, when=Trigger(client="n1", op="acquire", nth=1, cut="c2")))
    )
    assert scene.log[1][0] is Outcome.AMBIGUOUS
    assert scene.store.past(KEY).body is not None


def test_trigger_counts_its_own_kind_of_request():
    """The second read is the second read, whatever else was sent before."""
    pause = Pause(id="f", client="n1", for_ns=1000 * MS, when=Trigger(client="n1", op="read", nth=2, cut="c0"))
    scene = Scene(FaultPlan.of(pause))

    def script(_node, store):
        store.put_if_absent(KEY, body("a"))
        for number in (1, 2, 3):
            store.read(KEY)
            scene.note(number)

    scene.client("n1", script)
    scene.run()
    assert scene.log == [(1, 40), (2, 1060), (3, 1080)]
