"""Whether a fault changed something: a fault that struck and changed nothing is the first to go when shrinking."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from lockref.clouds.uri import server_statuses
from lockref.errors import ConfigError
from lockref.lab.contract import OneRecord
from lockref.stores.client import OBJECT_STORE
from lockref.stores.port import Version
from lockref.words import Kind, Outcome
from sim.faults.answers import Error, GhostWrite, HiddenRetry
from sim.faults.clocks import SLEW_PPM_MAX, Drift, Freeze, Offset, Slew, Step
from sim.faults.drawing import Drawing, Shape
from sim.faults.fault import Fault, RequestFault, Trigger
from sim.faults.network import Delay, Drip, Duplicate, LoseReply, LoseRequest, Partition, ReorderReplies
from sim.faults.plan import FaultPlan, parse_fault
from sim.faults.process import Crash, Pause, Suspend
from sim.faults.stores import CorruptObject, DeleteObject, IgnoreConditions, StaleRead
from sim.kernel.clocks import PPM, WALL_EPOCH_NS
from sim.kernel.streams import stream
from sim.machine.network import NetworkModel
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


def test_a_ghost_that_its_condition_stops_has_mattered() -> None:
    """ghost_write: n1's write was missing while n1 waited, so that n2 won; when it arrives, the store refuses it."""
    scene = Scene(FaultPlan.of(GhostWrite(id="f", client="n1", by_ns=500 * MS)))
    for name in ("n1", "n2"):
        scene.client(name, lambda _node, store: store.put_if_absent(KEY, body("a")))
    assert scene.run(linger_ms=1000).counts() == (1, 1, 1)


def test_a_ghost_that_never_arrives_has_not_mattered() -> None:
    """ghost_write on a network that loses everything: no store ever answers it."""
    assert one_write(GhostWrite(id="f", by_ns=S), network=NetworkModel(loss=1.0)).counts() == (1, 1, 0)


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
    scene.world.add("second", ObjectStoreService(server_statuses("gcs")), decode=OneRecord(decode))

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
    # No process was started, so the wrong clock has changed nothing.
    assert scene.run().counts() == (1, 1, 0)
    assert scene.world.node("n1").process.runtime.wall_ns() - WALL_EPOCH_NS == S


def test_a_drift_that_is_drawn_stays_within_the_allowance() -> None:
    """drift: over its length it moves a clock by half the bound at most, so that two nodes differ by the bound."""
    shape = Shape(clients=("n1",), duration_ns=S, validity_ns=10 * S, drift_bound_ns=10 * MS, rate_error_ppm=500_000)
    drawn = [Drift.draw(Drawing(stream(seed, "x"), shape)) for seed in range(100)]
    moved = [abs(fields["rate_ppm"]) * fields["for_ns"] // PPM for fields in drawn if fields is not None]
    assert len(moved) > 50
    assert max(moved) <= 5 * MS


@pytest.mark.parametrize(
    "fault",
    [
        Crash(id="f", client="n2", at_ns=500 * MS),
        Pause(id="f", client="n2", at_ns=500 * MS, for_ns=S),
        Drift(id="f", client="n2", at_ns=500 * MS, rate_ppm=1000),
        Offset(id="f", client="n2", at_ns=500 * MS, by_ns=S),
        Step(id="f", client="n2", at_ns=500 * MS, by_ns=S),
        Slew(id="f", client="n2", at_ns=500 * MS, by_ns=S),
        Freeze(id="f", client="n2", at_ns=500 * MS, for_ns=S),
        Partition(id="f", at_ns=500 * MS, for_ns=S, groups=(("n2",), ("store",))),
        DeleteObject(id="f", at_ns=0),
        CorruptObject(id="f", at_ns=0),
    ],
    ids=lambda fault: fault.kind,
)
def test_a_fault_of_what_is_not_there_has_not_mattered(fault: Fault) -> None:
    """n2 has ended before, and there is no lock record yet: nobody and nothing is struck."""
    assert one_write(fault).counts() == (1, 1, 0)


def test_a_wrong_clock_matters_once_a_process_reads_it() -> None:
    """offset: n2 is down when its clock is set, and a process that starts later reads the wrong clock."""
    crash = Crash(id="e", client="n3", at_ns=500 * MS, restart_after_ns=500 * MS)
    for_good = Offset(id="f", client="n3", at_ns=600 * MS, by_ns=S)
    assert one_write(crash, for_good).counts("f") == (1, 1, 1)
    over_before = for_good.model_copy(update={"for_ns": 100 * MS})
    assert one_write(crash, over_before).counts("f") == (1, 1, 0)


@pytest.mark.parametrize(
    "fault", [LoseReply(id="f", client="n2"), Error(id="f", client="n2", status=500, cut="c2")], ids=lambda f: f.kind
)
def test_the_lost_answer_to_a_refused_write_has_not_mattered(fault: RequestFault) -> None:
    """lose_reply, error at c2: n1 has created the object, so n2's create changes nothing, and its answer hides nothing.

    With `applied` the fault lets the refused create pass, and strikes the write that takes effect.
    """

    def run(fault: RequestFault) -> Scene:
        scene = Scene(FaultPlan.of(fault))
        scene.client("n1", lambda _node, store: scene.note("n1", store.put_if_absent(KEY, body("a")).outcome))

        def second(node, store):
            node.runtime.sleep(200 * MS)
            scene.note("create", store.put_if_absent(KEY, body("b")).outcome)
            scene.note("put", store.put(KEY, body("b")).outcome)

        scene.client("n2", second)
        return scene.run()

    first_only = fault.model_copy(update={"nth": 1})
    refused = run(first_only)
    assert refused.counts() == (1, 1, 0)
    assert [entry[:2] for entry in refused.log[1:]] == [("create", Outcome.AMBIGUOUS), ("put", Outcome.APPLIED)]
    struck = run(first_only.model_copy(update={"applied": True}))
    assert struck.counts() == (1, 1, 1)
    assert [entry[:2] for entry in struck.log[1:]] == [
        ("create", Outcome.PRECONDITION_FAILED),
        ("put", Outcome.AMBIGUOUS),
    ]
    in_a_trigger = type(fault).model_validate(
        {**fault.model_dump(exclude={"client"}), "when": Trigger(client="n2", cut="c2", applied=True)}
    )
    assert run(in_a_trigger).log == struck.log


def test_what_strikes_on_the_way_there_cannot_ask_whether_it_was_applied() -> None:
    """applied: only faults on the way back may ask, and each of those may."""
    late: list[dict[str, object]] = [
        {"kind": "lose_reply"}, {"kind": "error", "status": 500, "cut": "c2"}, {"kind": "drip", "over_ns": 1},
        {"kind": "delay", "by_ns": 1, "direction": "reply"}, {"kind": "reorder_replies", "within_ns": 1},
    ]  # fmt: skip
    for fields in late:
        assert parse_fault({"id": "f", "applied": True, **fields}).is_late  # type: ignore[attr-defined]
    early: list[dict[str, object]] = [
        {"kind": "lose_request"}, {"kind": "error", "status": 500}, {"kind": "delay", "by_ns": 1},
        {"kind": "ghost_write", "by_ns": 1}, {"kind": "duplicate"}, {"kind": "hidden_retry"},
        {"kind": "stale_read", "lag_ns": 1}, {"kind": "ignore_conditions"}, {"kind": "throttle", "reads": 1},
    ]  # fmt: skip
    for fields in early:
        with pytest.raises(ConfigError, match="nobody knows whether it will be applied"):
            parse_fault({"id": "f", "applied": True, **fields})


@pytest.mark.parametrize("fault", [Delay(id="f", by_ns=50 * MS, direction="reply"), Drip(id="f", over_ns=50 * MS)])
def test_only_the_answer_to_an_applied_request_is_held_up(fault: RequestFault) -> None:
    """delay of the reply, drip, with `applied`: the refused create is answered after 20 ms, the write after 70 ms."""
    scene = Scene(FaultPlan.of(fault.model_copy(update={"applied": True, "client": "n1"})))

    def script(_node, store):
        scene.note(store.put(KEY, body("a")).outcome)
        scene.note(store.put_if_absent(KEY, body("a")).outcome)

    scene.client("n1", script)
    assert scene.run().log == [(Outcome.APPLIED, 70), (Outcome.PRECONDITION_FAILED, 90)]
