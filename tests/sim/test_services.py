"""What a service may do besides answering: push, have timers, be reached into; and how a request gets there."""

from __future__ import annotations

from typing import Any

import pytest

from lockref.errors import ConfigError
from lockref.ports import TIMED_OUT, PushChannel, Reply, Request
from lockref.provider import LockView
from lockref.stores.port import Version
from lockref.words import IF_ABSENT, Kind, Op, Outcome
from sim.faults.network import Partition
from sim.faults.plan import FaultPlan
from sim.faults.process import Crash
from sim.faults.stores import DeleteObject
from sim.machine.network import Network, NetworkModel
from sim.services.service import ServiceContext, refused, unknown_act
from tests.sim.scripted import KEY, MS, TIMEOUT_NS, Scene, body


class WatchedCell:
    """One value that lapses `ttl_ns` after it was written; whoever watches it hears of every change."""

    capabilities = None
    refuse = staticmethod(refused)

    def __init__(self, ttl_ns: int = 1000 * MS) -> None:
        self.value: bytes | None = None
        self._ttl_ns = ttl_ns
        self._watchers: list[str] = []

    def start(self, context: ServiceContext) -> None:
        self._context = context

    def apply(self, request: Request, at_ns: int) -> Reply:
        if request.verb == "watch":
            self._watchers.append(request.client)
            return Reply(Outcome.APPLIED)
        self._become(request.body)
        self._context.call_at(at_ns + self._ttl_ns, lambda: self.tamper("expire", request.key))
        return Reply(Outcome.APPLIED, "1")

    def _become(self, value: bytes | None) -> None:
        self.value = value
        for node in self._watchers:
            self._context.push(node, ("changed", value))

    def present_keys(self) -> list[str]:
        return [] if self.value is None else [KEY]

    def past(self, key: str, lag_ns: int) -> Reply:
        return Reply(Outcome.APPLIED, body=self.value)

    def tamper(self, act: str, key: str, **how: Any) -> int:
        if act != "expire":
            raise unknown_act(act, ("expire",))
        if self.value is None:
            return 0
        self._become(None)
        self._context.changed(Op.DELETE, key)
        return 1


class _Raw:
    """The port that is no port: the channel itself."""

    name = "raw"

    def over(self, channel: Any, timeout_ns: int) -> PushChannel:
        return channel


def _connect(scene: Scene, node) -> PushChannel:
    return scene.world.connect(node, "cell", _Raw(), timeout_ns=TIMEOUT_NS)


def _ask(channel: PushChannel, verb: str, value: bytes | None = None) -> Reply:
    op = Op.READ if value is None else Op.WRITE
    return channel.send(Request(channel.client, channel.service, verb, KEY, "", value, op), TIMEOUT_NS)


def _nothing(_key: str, _body: bytes) -> tuple[LockView, ...]:
    return ()


def watched(plan: FaultPlan, *, waits_ms: int = 3000) -> tuple[Scene, WatchedCell]:
    """n1 watches the cell, n2 writes it at 100 ms; what n1 is told is noted."""
    scene, cell = Scene(plan), WatchedCell()
    scene.world.add("cell", cell, decode=_nothing)

    def watcher(node, _store):
        channel = _connect(scene, node)
        _ask(channel, "watch")
        while (message := channel.receive(waits_ms * MS)) is not None:
            scene.note(*message)
        scene.note("silence")

    def writer(node, _store):
        node.runtime.sleep(100 * MS)
        assert _ask(_connect(scene, node), "write", b"x").outcome is Outcome.APPLIED

    scene.client("n1", watcher)
    scene.client("n2", writer)
    return scene.run(linger_ms=5000), cell


def test_a_service_pushes_and_its_timer_acts():
    """A watch event travels one way to the node; a TTL ends a value at its instant, without a request."""
    scene, cell = watched(FaultPlan())
    assert scene.log == [("changed", b"x", 120), ("changed", None, 1120), ("silence", 4120)]
    assert cell.value is None


def test_what_a_timer_changes_is_on_record():
    """Truth: a change that no request made has an APPLIED row of nobody's request."""
    scene, _ = watched(FaultPlan())
    rows = [(row["node"], row["op"], row["request"] is None, row["at_ns"] // MS) for row in scene.rows(Kind.APPLIED)]
    assert rows == [("n2", "write", False, 110), ("operator", "delete", True, 1110)]


def test_a_partition_stops_pushes_that_leave_during_it():
    """partition: cut from service to node, later pushes arrive."""
    cut = Partition(id="f", groups=(("cell",), ("n1",)), at_ns=50 * MS, for_ns=500 * MS, one_way=True)
    scene, _ = watched(FaultPlan.of(cut))
    assert scene.log == [("changed", None, 1120), ("silence", 4120)]
    assert scene.counts()[2] == 1


class Ticker:
    """Answers each request, and pushes ten numbers to its sender, 1 ms apart."""

    capabilities = None
    refuse = staticmethod(refused)

    def start(self, context: ServiceContext) -> None:
        self._context = context

    def apply(self, request: Request, at_ns: int) -> Reply:
        for number in range(10):
            due_ns = at_ns + number * MS
            self._context.call_at(due_ns, lambda number=number: self._context.push(request.client, number))
        return Reply(Outcome.APPLIED)


def ticks(scene: Scene) -> list[tuple[int, float]]:
    """What n1 hears of a ticker, and when."""
    scene.world.add("ticker", Ticker(), decode=_nothing)

    def script(node, _store):
        channel = scene.world.connect(node, "ticker", _Raw(), timeout_ns=TIMEOUT_NS)
        channel.send(Request(channel.client, channel.service, "begin", KEY, "", None, Op.READ), TIMEOUT_NS)
        while (number := channel.receive(2000 * MS)) is not None:
            scene.note(number)

    scene.client("n1", script)
    return scene.run(linger_ms=5000).log


HOLDS_BACK = NetworkModel(latency_ns=(MS, 50 * MS), reorder=0.5, reorder_ns=200 * MS)


def test_pushes_of_one_connection_arrive_in_the_order_in_which_they_left():
    """Order: a push that takes longer holds back those behind it, and no other; watches of ZooKeeper rely on it."""
    heard = ticks(Scene(network=HOLDS_BACK))
    assert [number for number, _ in heard] == list(range(10))
    network, at_ms, last_ms = Network(HOLDS_BACK, 1), heard[0][1], 0.0
    left_ms = at_ms - network.draw("ticker", "n1", 0).to_client_ns / MS
    for number, came_ms in heard:
        last_ms = max(last_ms, left_ms + number + network.draw("ticker", "n1", number).to_client_ns / MS)
        assert came_ms == last_ms, number


class _LastFirst:
    """Of what is due at the same time, lets the last go first."""

    is_fifo = False

    def choose(self, _decision: int, actors) -> int:
        return len(actors) - 1


def test_no_schedule_changes_the_order_of_pushes():
    """Order: pushes that are due at the same instant are taken in the order of their departure all the same."""
    scene = Scene(network=NetworkModel(latency_ns=(MS, 50 * MS)), schedule=_LastFirst())
    heard = ticks(scene)
    assert [number for number, _ in heard] == list(range(10))
    assert len({at_ms for _, at_ms in heard}) < 10
    assert scene.world.deviations


def test_a_push_may_be_lost_and_the_next_arrives():
    """Loss: a push is lost by the draws of its own place on its way, as a reply is; the others come in order."""
    model = NetworkModel(latency_ns=(10 * MS, 10 * MS), loss=0.3)
    seed = next(seed for seed in range(100) if not any(Network(model, seed).draw("n1", "ticker", 0)[2:4]))
    heard = ticks(Scene(network=model, seed=seed))
    draws = [Network(model, seed).draw("ticker", "n1", number) for number in range(10)]
    assert [number for number, _ in heard] == [number for number, draw in enumerate(draws) if not draw.is_reply_lost]
    assert 0 < len(heard) < 10


def test_the_dead_are_told_nothing():
    """crash: what was pushed to a process does not reach its successor, which has not asked yet."""
    crash = Crash(id="f", client="n1", at_ns=115 * MS, restart_after_ns=2000 * MS)
    scene, _ = watched(FaultPlan.of(crash))
    assert [what for what, *_ in scene.log] == ["silence"]


def test_a_process_hears_what_is_pushed_after_it_has_connected():
    """crash: the successor asks anew, and hears what its predecessor would have heard; nobody else hears it."""
    scene = Scene(FaultPlan.of(Crash(id="f", client="n1", at_ns=115 * MS, restart_after_ns=100 * MS)))
    scene.world.add("cell", WatchedCell(), decode=_nothing)

    def listener(node, _store):
        channel = _connect(scene, node)
        if node.name == "n1":
            _ask(channel, "watch")
        while (message := channel.receive(3000 * MS)) is not None:
            scene.note(node.name, *message)

    def writer(node, _store):
        for value in (b"x", b"y"):
            node.runtime.sleep(100 * MS)
            _ask(_connect(scene, node), "write", value)
            node.runtime.sleep(180 * MS)

    scene.client("n1", listener)
    scene.client("n2", listener)
    scene.client("n3", writer)
    # The cell remembers the watch of each process of n1: its successor is told twice.
    assert scene.run(linger_ms=1000).log[:2] == [("n1", "changed", b"y", 420)] * 2
    assert {name for name, *_ in scene.log} == {"n1"}


def test_what_is_pushed_to_nobody_is_lost():
    """A node that has no connection hears nothing, and no other node hears it in its place."""
    scene = Scene()
    hosted = scene.world.add("cell", WatchedCell(), decode=_nothing)

    def script(node, _store):
        channel = _connect(scene, node)
        hosted.push("n2", "for n2")
        hosted.push("n1", "for n1")
        hosted.push("n1", "then")
        node.runtime.sleep(100 * MS)
        scene.note(*[channel.receive(10 * MS) for _ in range(3)])

    scene.client("n1", script)
    assert scene.run().log == [("for n1", "then", None, 110)]


def test_an_act_that_a_service_does_not_know_is_refused():
    """A fault that asks a service for what it cannot do is a mistake in the plan; the message names what there is."""
    scene, _ = watched(FaultPlan())
    with pytest.raises(ConfigError, match="'corrupt'; this service knows expire"):
        scene.world.services["cell"].tamper("corrupt", KEY)
    with pytest.raises(ConfigError, match="service 'shop'; this world has store, cell"):
        watched(FaultPlan.of(DeleteObject(id="f", service="shop", at_ns=0)))


def test_every_request_carries_its_number_and_kind():
    """A service sees what the recorder wrote down: number, sender, and which kind of write it is."""
    scene, seen = Scene(), []
    store = scene.store

    def spying(request: Request, at_ns: int) -> Reply:
        seen.append(request)
        return store.service.apply(request, at_ns)

    store.apply = spying

    def script(_node, client):
        made = client.put_if_absent(KEY, body("a"))
        client.put_if_version(KEY, body("a"), made.version)
        client.read(KEY)
        client.delete(KEY)

    scene.client("n1", script)
    scene.run()
    assert [(each.client, each.verb, each.op, each.number) for each in seen] == [
        ("n1", "put", Op.ACQUIRE, 0),
        ("n1", "put", Op.RENEW, 1),
        ("n1", "read", Op.READ, 2),
        ("n1", "delete", Op.DELETE, 3),
    ]
    assert [each.condition for each in seen] == [IF_ABSENT, Version(seen[1].condition), "", ""]
    assert [row["request"] for row in scene.rows(Kind.SENT)] == [0, 1, 2, 3]


def test_no_answer_is_one_value():
    """A request that nobody answers in time is TIMED_OUT, whatever the service."""
    cut = Partition(id="f", groups=(("n1",), ("cell",)), at_ns=0, for_ns=1000 * MS)
    scene = Scene(FaultPlan.of(cut))
    scene.world.add("cell", WatchedCell(), decode=_nothing)
    scene.client("n1", lambda node, _store: scene.note(_ask(_connect(scene, node), "write", b"x") == TIMED_OUT))
    assert scene.run().log == [(True, 100)]
