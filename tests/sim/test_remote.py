"""The protected resource behind the network: values, errors, timeouts, faults."""

from __future__ import annotations

import pytest

from lockref.errors import LockLost, OutcomeUnknown
from sim.faults.vocabulary import Crash, Error, FaultPlan, LoseReply, Partition, Pause, Trigger
from sim.services.resource import Remote
from tests.sim.scripted import MS, Scene


def call(plan: FaultPlan, apply=None) -> Scene:
    """n1 calls the resource once; what it applied and what it heard is noted."""
    scene = Scene(plan)
    remote = Remote(scene.world, "resource")

    def default():
        scene.note("applied")
        return 42

    def script(node, _store):
        try:
            scene.note("heard", remote.call(node, apply or default, 100 * MS))
        except (OutcomeUnknown, LockLost) as error:
            scene.note(type(error).__name__)

    scene.client("n1", script)
    return scene.run(linger_ms=1000)


def test_value_comes_back():
    """`apply` runs at the service, one way later; its value arrives after the way back."""
    assert call(FaultPlan()).log == [("applied", 10), ("heard", 42, 20)]


def test_lock_errors_of_the_resource_reach_the_caller():
    """A resource that fences off raises at its caller, not in the kernel."""

    def fenced():
        raise LockLost("fenced off", token=3)

    assert call(FaultPlan(), fenced).log == [("LockLost", 20)]


def test_defect_in_a_resource_ends_the_run():
    """Any other error is a bug of the workload and is not hidden."""

    def broken():
        raise KeyError("planted")

    with pytest.raises(KeyError, match="planted"):
        call(FaultPlan(), broken)


@pytest.mark.parametrize(
    ("fault", "log"),
    [
        (LoseReply(id="f", service="resource"), [("applied", 10), ("OutcomeUnknown", 100)]),
        (Error(id="f", status=503, cut="c2"), [("applied", 10), ("OutcomeUnknown", 20)]),
        (Error(id="f", status="reset", cut="c1"), [("OutcomeUnknown", 20)]),
        (
            Partition(id="f", groups=(("n1",), ("resource",)), at_ns=0, for_ns=50 * MS),
            [("OutcomeUnknown", 100)],
        ),
        (
            Partition(id="f", groups=(("n1",), ("store",)), at_ns=0, for_ns=50 * MS),
            [("applied", 10), ("heard", 42, 20)],
        ),
        (
            Pause(id="f", client="n1", for_ns=500 * MS, when=Trigger(client="n1", op="write", cut="c0")),
            [("applied", 510), ("heard", 42, 520)],
        ),
    ],
    ids=["reply lost", "503 after", "reset before", "cut off", "other service cut off", "pause after the check"],
)
def test_faults_strike_the_resource_too(fault, log):
    """Whatever may have been applied is reported as unknown; a pause at c0 is "after the check, before the write"."""
    scene = call(FaultPlan.of(fault))
    assert scene.log == log


def test_service_filter_spares_the_others():
    """A fault on the store leaves the resource alone."""
    scene = call(FaultPlan.of(LoseReply(id="f", service="store")))
    assert scene.log == [("applied", 10), ("heard", 42, 20)]
    assert scene.counts() == (0, 0, 0)


def test_the_dead_do_not_reach_the_resource():
    """crash: a `finally` of a dead process sends nothing to the protected resource (S4)."""
    scene = Scene(FaultPlan.of(Crash(id="f", client="n1", at_ns=500 * MS)))
    remote = Remote(scene.world, "resource")

    def script(node, _store):
        try:
            node.runtime.sleep(1000 * MS)
        finally:
            remote.call(node, lambda: scene.note("applied"), 100 * MS)

    scene.client("n1", script)
    assert scene.run(linger_ms=1000).log == []
