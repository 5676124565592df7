"""What a service may do besides answering: push, have timers, be reached into; and how a request gets there."""

from __future__ import annotations

from typing import Any

import pytest

from lockref.errors import ConfigError
from lockref.history import IF_ABSENT, Kind, Op
from lockref.ports import TIMED_OUT, PushChannel, Reply, Request
from lockref.provider import LockView
from lockref.stores.port import Outcome, Version
from sim.faults.network import Partition
from sim.faults.plan import FaultPlan
from sim.faults.process import Crash
from sim.faults.stores import DeleteObject
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


def test_the_dead_are_told_nothing():
    """crash: what was pushed to a process does not reach its successor, which has not asked yet."""
    crash = Crash(id="f", client="n1", at_ns=115 * MS, restart_after_ns=2000 * MS)
    scene, _ = watched(FaultPlan.of(crash))
    assert [what for what, *_ in scene.log] == ["silence"]


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
