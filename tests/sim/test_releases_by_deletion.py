"""A lock that gives back by deleting its record: to a plan that is a release, and still a delete."""

from __future__ import annotations

import pytest

from lockref.words import Kind, Outcome
from sim.faults.answers import Error
from sim.faults.fault import Fault, Trigger
from sim.faults.network import LoseReply
from sim.faults.plan import FaultPlan
from sim.faults.process import Pause
from tests.sim.scripted import KEY, MS, Scene, body


def created_and_deleted(*faults: Fault) -> Scene:
    """n1 creates and deletes a record, in the first second; n2 the same, in the third; then n2 deletes one of n1."""
    scene = Scene(FaultPlan.of(*faults))

    def first(node, store):
        store.put_if_absent(KEY, body("a"))
        node.runtime.sleep(1000 * MS)
        scene.note("n1", store.delete(KEY).outcome)
        node.runtime.sleep(2000 * MS)
        store.put_if_absent(KEY, body("c", 3))

    def second(node, store):
        node.runtime.sleep(2000 * MS)
        store.put_if_absent(KEY, body("b", 2))
        scene.note("n2", store.delete(KEY).outcome)
        node.runtime.sleep(2000 * MS)
        store.read(KEY)
        scene.note("n2 breaks", store.delete(KEY).outcome)

    scene.client("n1", first)
    scene.client("n2", second)
    return scene.run(linger_ms=60_000)


def heard(scene: Scene) -> list[str]:
    """Who heard something else than that his deletion was applied."""
    return [who for who, outcome, _ in scene.log if outcome is not Outcome.APPLIED]


@pytest.mark.parametrize(
    ("fault", "struck"),
    [
        (Error(id="f", op="release", status=500, cut="c2"), ["n1", "n2"]),
        (Error(id="f", op="delete", status=503), ["n1", "n2", "n2 breaks"]),
        (Error(id="f", client="n2", op="release", status=503, nth=1), ["n2"]),
        (LoseReply(id="f", client="n1", op="release", applied=True), ["n1"]),
        (Error(id="f", status=503, when=Trigger(client="n2", op="release", nth=1)), ["n2"]),
        (Error(id="f", status=503, when=Trigger(client="n2", op="release", nth=1, service="store")), ["n2"]),
        (Error(id="f", status=503, when=Trigger(client="n2", op="release", nth=2)), []),
        (Error(id="f", status=503, when=Trigger(client="n2", op="delete", nth=2)), ["n2 breaks"]),
    ],
    ids=repr,
)
def test_who_is_struck(fault: Fault, struck: list[str]):
    """Whoever deletes its own record releases; who deletes another's record breaks a lock, and that is a delete."""
    scene = created_and_deleted(fault)
    assert heard(scene) == struck
    assert scene.counts()[1:] == (len(struck),) * 2


def test_the_record_calls_it_a_deletion_as_before():
    """The history says what the request was."""
    scene = created_and_deleted()
    assert [row["op"] for row in scene.rows(Kind.APPLIED)] == ["acquire", "delete"] * 3


@pytest.mark.parametrize(
    ("trigger", "began_ms"),
    [
        (Trigger(client="n1", op="renew", at_latest_ns=2500 * MS), [2500.0]),
        (Trigger(client="n1", op="acquire", cut="c4", at_latest_ns=2500 * MS), [20.0]),
        (Trigger(client="n1", op="renew"), []),
    ],
)
def test_a_fault_that_waits_for_a_request_that_never_comes_has_a_last_instant(trigger: Trigger, began_ms: list[float]):
    """It strikes once: where it waited, or at the last instant. A lock that never renews was not paused at all."""
    scene = created_and_deleted(Pause(id="f", client="n1", for_ns=100 * MS, when=trigger))
    begun = [row["at_ns"] / MS for row in scene.rows(Kind.FAULT) if '"begin"' in row["detail"]]
    assert begun == began_ms
    assert scene.counts()[1] == len(begun)


def test_a_fault_on_requests_has_no_last_instant():
    """It strikes a request, and there is none."""
    with pytest.raises(ValueError, match="strikes a request"):
        Error(id="f", status=503, when=Trigger(client="n1", op="renew", at_latest_ns=1))
