"""Whether a fault changed something: a fault that struck and changed nothing is the first to go when shrinking."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from lockref.lab.contract import OneRecord
from lockref.stores.client import OBJECT_STORE
from lockref.stores.port import Version
from lockref.words import Kind, Outcome
from sim.faults.answers import Error, GhostWrite, HiddenRetry
from sim.faults.clocks import SLEW_PPM_MAX, Drift, Freeze, Offset, Slew, Step
from sim.faults.fault import Fault, Trigger
from sim.faults.generators import Drawing, Shape
from sim.faults.network import Delay, Duplicate, LoseReply, LoseRequest, Partition, ReorderReplies
from sim.faults.plan import FaultPlan
from sim.faults.process import Crash, Pause, Suspend
from sim.faults.stores import DeleteObject, IgnoreConditions, StaleRead
from sim.kernel.clocks import PPM, WALL_EPOCH_NS
from sim.kernel.streams import stream
from sim.machine.network import NetworkModel
from sim.services.dialects import dialect_of
from sim.services.objectstore import ObjectStoreService
from tests.sim.lease import decode
from tests.sim.scripted import KEY, LATENCY_NS, MS, TIMEOUT_NS, Scene, body

S = 1000 * MS


def one_write(*faults: Fault, network: NetworkModel | None = None) -> Scene:
    """n1 creates the object at 0; n2 has ended at once, and n3 sleeps for 2 s."""
    scene = Scene(FaultPlan.of(*faults), **({} if network is None else {"network": network}))
    scene.client("n1", lambda _node, store: scene.note(store.put_if_absent(KEY, body("a")).outcome))
    scene.client("n2", lambda _node, _store: None)
    scene.client("n3", lambda node, _store: node.runtime.sleep(2 * S))
    return scene.run(linger_ms=5000)


@pytest.mark.parametrize(
    "fault",
    [
        Drift(id="f", client="n1", at_ns=0, rate_ppm=0),
        Offset(id="f", client="n1", at_ns=0, by_ns=0),
        Step(id="f", client="n1", at_ns=0, by_ns=0),
        Slew(id="f", client="n1", at_ns=0, by_ns=0),
        Freeze(id="f", client="n1", at_ns=0, for_ns=0),
        Suspend(id="f", client="n3", at_ns=500 * MS, for_ns=0),
        Suspend(id="f", client="n2", at_ns=500 * MS, for_ns=S),
        Delay(id="f", client="n1", by_ns=0),
    ],
    ids=["drift 0", "offset 0", "step 0", "slew 0", "freeze 0", "suspend 0", "nobody there", "delay 0"],
)
def test_a_fault_of_nothing_has_not_mattered(fault: Fault) -> None:
    """It struck, by its plan; and nobody can have noticed."""
    assert one_write(fault).counts() == (1, 1, 0)


def test_who_is_down_cannot_crash() -> None:
    """crash: the second one finds no process, and changes nothing."""
    scene = one_write(Crash(id="e", client="n3", at_ns=500 * MS), Crash(id="f", client="n3", at_ns=600 * MS))
    assert (scene.counts("e"), scene.counts("f")) == ((1, 1, 1), (1, 1, 0))


def test_what_the_network_had_lost_already_is_not_lost_by_a_fault() -> None:
    """lose_request on a network that loses everything."""
    assert one_write(LoseRequest(id="f"), network=NetworkModel(loss=1.0)).counts() == (1, 1, 0)


@pytest.mark.parametrize("fault", [LoseReply(id="f"), Error(id="f", status=503), Error(id="f", status=503, cut="c2")])
def test_an_answer_to_somebody_who_has_gone_on(fault: Fault) -> None:
    """The request was under way for longer than its caller waited: what becomes of its answer matters to nobody."""
    scene = one_write(Delay(id="late", by_ns=500 * MS), fault)
    assert scene.log == [(Outcome.AMBIGUOUS, TIMEOUT_NS / MS)]
    assert scene.counts() == (1, 1, 0)


def test_a_retry_that_hears_the_same_has_not_mattered() -> None:
    """hidden_retry: an unconditional write is applied twice, with one and the same answer."""
    scene = Scene(FaultPlan.of(HiddenRetry(id="f")))
    scene.client("n1", lambda _node, store: scene.note(store.put(KEY, body("a")).outcome))
    assert scene.run().counts() == (1, 1, 0)
    assert scene.log[0][0] is Outcome.APPLIED
    assert len(scene.rows(Kind.APPLIED)) == 2


def test_a_ghost_that_its_condition_stops_has_not_mattered() -> None:
    """ghost_write: somebody else has created the object meanwhile, so that the late write changes nothing."""
    scene = Scene(FaultPlan.of(GhostWrite(id="f", client="n1", by_ns=500 * MS)))
    for name in ("n1", "n2"):
        scene.client(name, lambda _node, store: store.put_if_absent(KEY, body("a")))
    assert scene.run(linger_ms=1000).counts() == (1, 1, 0)


def test_a_stale_read_of_what_has_not_changed_has_not_mattered() -> None:
    """stale_read: the old state and the present one are the same; and a write is no read."""
    scene = Scene(FaultPlan.of(StaleRead(id="f", lag_ns=100 * MS)))

    def script(node, store):
        store.put(KEY, body("a"))
        node.runtime.sleep(S)
        scene.note(store.read(KEY).body)

    scene.client("n1", script)
    assert scene.run().counts() == (1, 1, 0)
    assert scene.log[0][0] == body("a")


def test_delays_of_several_kinds_add_up() -> None:
    """delay and ghost_write of one request: it lands after both."""
    scene = one_write(Delay(id="f", by_ns=300 * MS), GhostWrite(id="g", by_ns=500 * MS))
    assert [row["at_ns"] for row in scene.rows(Kind.APPLIED)] == [800 * MS + LATENCY_NS]


def test_a_cut_point_is_reached_once() -> None:
    """c3: also if the answer is lost on leaving; and the duplicate of a request, which nobody waits for, has none."""
    pause = Pause(id="f", client="n3", when=Trigger(client="n1", cut="c3"), for_ns=5 * S)
    for beside in (LoseReply(id="g"), Duplicate(id="g", gap_ns=MS)):
        assert one_write(pause, beside).counts()[1:] == (1, 1)


def test_groups_of_a_partition() -> None:
    """Within a group nothing is cut, nor what is in none; one way cuts what leaves the first group, and no more."""
    both = Partition(id="f", at_ns=0, for_ns=1, groups=(("a", "b"), ("c",), ("d",)))
    one_way = both.model_copy(update={"one_way": True})
    pairs = [("a", "b"), ("a", "c"), ("c", "a"), ("c", "d"), ("a", "x"), ("x", "a")]
    assert [both.stops(*pair) for pair in pairs] == [False, True, True, True, False, False]
    assert [one_way.stops(*pair) for pair in pairs] == [False, True, False, False, False, False]
    with pytest.raises(ValidationError, match="groups share a member"):
        Partition(id="f", at_ns=0, for_ns=1, groups=(("a", "b"), ("b",)))


def test_each_service_has_a_connection_of_its_own() -> None:
    """reorder_replies: answers of two services, to one process, do not wait for each other's span."""
    scene = Scene(FaultPlan.of(ReorderReplies(id="f", within_ns=20 * MS)))
    scene.world.add("second", ObjectStoreService(dialect_of("gcs")), decode=OneRecord(decode))

    def script(node, store):
        second = scene.world.connect(node, "second", OBJECT_STORE, timeout_ns=TIMEOUT_NS)
        task = node.runtime.spawn(lambda: scene.note("first", store.read(KEY).outcome), name="first")
        node.runtime.sleep(15 * MS)
        scene.note("second", second.read(KEY).outcome)
        task.join()

    scene.client("n1", script)
    # The first leaves at 10 and arrives 40 later. The second leaves at 25 and opens a span of its own.
    assert scene.run().log == [("first", Outcome.APPLIED, 50), ("second", Outcome.APPLIED, 65)]


def test_a_reordered_answer_takes_as_long_as_the_span_says() -> None:
    """reorder_replies: whatever the network would take, the arrival is the departure mirrored at the span's end."""
    scene = one_write(ReorderReplies(id="f", within_ns=20 * MS), network=NetworkModel(latency_ns=(MS, 9 * MS)))
    [applied] = scene.rows(Kind.APPLIED)
    assert scene.log == [(Outcome.APPLIED, applied["at_ns"] / MS + 40)]


def test_nobody_slews_faster_than_the_kernel_lets_them() -> None:
    """slew: adjtimex(2) bounds a tick at 10 % off, in plans and in what a swarm draws."""
    assert Slew(id="f", client="n1", at_ns=0, by_ns=1, rate_ppm=100_000).forms() == ["slew forward"]
    assert Slew(id="f", client="n1", at_ns=0, by_ns=-1).forms() == ["slew back"]
    with pytest.raises(ValidationError, match="less than or equal to 100000"):
        Slew(id="f", client="n1", at_ns=0, by_ns=1, rate_ppm=100_001)
    shape = Shape(clients=("n1",), duration_ns=S, validity_ns=S, drift_bound_ns=S, rate_error_ppm=500_000)
    assert Slew.draw(Drawing(stream(1, "x"), shape))["rate_ppm"] == SLEW_PPM_MAX


def test_each_node_has_a_connection_of_its_own() -> None:
    """reorder_replies: the answer to n2 opens a span of its own, whatever n1 waits for."""
    scene = Scene(FaultPlan.of(ReorderReplies(id="f", within_ns=20 * MS)))

    def script(node, store):
        node.runtime.sleep(15 * MS if node.name == "n2" else 0)
        scene.note(node.name, store.read(KEY).outcome)

    scene.client("n1", script)
    scene.client("n2", script)
    assert scene.run().log == [("n1", Outcome.APPLIED, 50), ("n2", Outcome.APPLIED, 65)]


def test_a_store_that_overlooks_conditions_writes_where_nothing_is() -> None:
    """ignore_conditions: a version of an object that is not there is overlooked, too; to delete nothing stays a no."""
    scene = Scene(FaultPlan.of(IgnoreConditions(id="f")))

    def script(_node, store):
        scene.note(store.delete(KEY, Version("some")).outcome)
        scene.note(store.put_if_version(KEY, body("a"), Version("some")).outcome)

    scene.client("n1", script)
    assert [outcome for outcome, _ in scene.run().log] == [Outcome.PRECONDITION_FAILED, Outcome.APPLIED]
    assert scene.counts() == (2, 1, 1)


def test_an_operator_changes_the_object_that_he_names() -> None:
    """delete_object with a key: other lock records stay."""
    scene = Scene(FaultPlan.of(DeleteObject(id="f", key="b", at_ns=500 * MS)))

    def script(node, store):
        for key in ("a", "b", "c"):
            store.put(key, body("x"))
        node.runtime.sleep(S)

    scene.client("n1", script)
    scene.run()
    assert scene.store.present_keys() == ["a", "c"]
    assert scene.counts() == (1, 1, 1)


def test_a_clock_that_is_wrong_from_the_start_is_wrong_before_the_run() -> None:
    """A lock that is made before the world moves reads a clock that is wrong already; other nodes' clocks are right."""
    scene = Scene(FaultPlan.of(Offset(id="f", client="n1", at_ns=0, by_ns=S)))
    shown = [scene.world.node(name).process.runtime.wall_ns() - WALL_EPOCH_NS for name in ("n1", "n2")]
    assert shown == [S, 0]
    scene.run()
    assert scene.counts() == (1, 1, 1)
    assert scene.world.node("n1").process.runtime.wall_ns() - WALL_EPOCH_NS == S


def test_a_drift_that_is_drawn_stays_within_the_allowance() -> None:
    """drift: over its length it moves a clock by half the bound at most, so that two nodes differ by the bound."""
    shape = Shape(clients=("n1",), duration_ns=S, validity_ns=10 * S, drift_bound_ns=10 * MS, rate_error_ppm=500_000)
    drawn = [Drift.draw(Drawing(stream(seed, "x"), shape)) for seed in range(100)]
    moved = [abs(fields["rate_ppm"]) * fields["for_ns"] // PPM for fields in drawn if fields is not None]
    assert len(moved) > 50
    assert max(moved) <= 5 * MS
