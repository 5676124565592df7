"""The protected resource behind the network: values, errors, timeouts, faults."""

from __future__ import annotations

import pytest

from lockref.errors import LockError
from lockref.ports import Reply, Request
from lockref.words import Outcome
from scenarios.workloads.resource import RESOURCE, ResourceClient, Write
from sim.faults.answers import Error
from sim.faults.fault import Trigger
from sim.faults.network import LoseReply, Partition
from sim.faults.plan import FaultPlan
from sim.faults.process import Crash, Pause
from sim.services.resource import ResourceService
from tests.sim.scripted import MS, Scene

WRITE = Write(node="n1", task="main", tenure=7, attempt=1, based_on="", token=3, owner="me")
DONE = Reply(Outcome.APPLIED, version="1")


def call(plan: FaultPlan, apply=None, service: ResourceService | None = None) -> Scene:
    """n1 writes to the resource once; what it applied and what it heard is noted."""
    scene = Scene(plan)

    def default():
        scene.note("applied")
        return DONE

    scene.world.add(RESOURCE.name, service or ResourceService(lambda _request: (apply or default)()), decode=None)

    def script(node, _store):
        try:
            scene.note("heard", resource(scene, node).write(WRITE))
        except LockError as error:
            scene.note(type(error).__name__)

    scene.client("n1", script)
    return scene.run(linger_ms=1000)


def resource(scene: Scene, node) -> ResourceClient:
    return scene.world.connect(node, RESOURCE.name, RESOURCE, timeout_ns=100 * MS)


def test_value_comes_back():
    """`apply` runs at the service, one way later; its value arrives after the way back."""
    assert call(FaultPlan()).log == [("applied", 10), ("heard", "1", 20)]


def test_the_request_says_who_writes_under_which_tenure():
    """A request is data: sender, verb, body and the number to which effects are joined."""
    seen = []

    def handle(request: Request) -> Reply:
        seen.append(request)
        return DONE

    call(FaultPlan(), service=ResourceService(handle))
    assert [(each.client, each.service, each.verb, each.number) for each in seen] == [("n1", "resource", "write", 7)]
    assert seen[0].condition is WRITE


def test_refusals_of_the_resource_reach_the_caller():
    """A service that refuses raises at its caller, not in the kernel."""

    class Refusing(ResourceService):
        def apply(self, request: Request, at_ns: int) -> Reply:
            return Reply(Outcome.REJECTED, status=403, reason="fenced off")

    assert call(FaultPlan(), service=Refusing(lambda _request: DONE)).log == [("LockError", 20)]


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
            [("applied", 10), ("heard", "1", 20)],
        ),
        (
            Pause(id="f", client="n1", for_ns=500 * MS, when=Trigger(client="n1", op="write", cut="c0")),
            [("applied", 510), ("heard", "1", 520)],
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
    assert scene.log == [("applied", 10), ("heard", "1", 20)]
    assert scene.counts() == (0, 0, 0)


def test_the_dead_do_not_reach_the_resource():
    """crash: a `finally` of a dead process sends nothing to the protected resource (S4)."""
    scene = Scene(FaultPlan.of(Crash(id="f", client="n1", at_ns=500 * MS)))
    scene.world.add(RESOURCE.name, ResourceService(lambda _request: scene.note("applied") or DONE), decode=None)

    def script(node, _store):
        try:
            node.runtime.sleep(1000 * MS)
        finally:
            resource(scene, node).write(WRITE)

    scene.client("n1", script)
    assert scene.run(linger_ms=1000).log == []
