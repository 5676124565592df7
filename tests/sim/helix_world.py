"""A cluster in virtual time: participants, controllers and an operator, each behind a channel that a test may disturb.

A test drives the cluster from one task outside all nodes, on true time. What the service holds it reads directly, so
no request of its own comes between those of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lockref.coordination.port import Call, Stat
from lockref.coordination.session import COORDINATION, Session
from lockref.helix.cluster.configured import creates
from lockref.helix.cluster.declared import Cluster, RebalanceMode, Resource
from lockref.helix.controller.controller import Controller, ControllerSettings, Pass
from lockref.helix.lock import ALL_HANDLED, LOCK_UNLOCK
from lockref.helix.participant.application import Handlers, Listener, ParticipantSettings
from lockref.helix.participant.participant import Participant
from lockref.helix.pipeline import Alarm
from lockref.helix.records import layout
from lockref.helix.records.messages import Message
from lockref.helix.records.zn_record import ZNRecord
from lockref.ports import PushChannel, Reply, Request
from lockref.runtime import NS_PER_MS, NS_PER_S
from sim.faults.plan import EMPTY_PLAN, FaultPlan
from sim.machine.network import NetworkModel
from sim.services.coordination import CoordinationService
from sim.world import World

CLUSTER, RESOURCE = "c", "g"
SESSION_NS = 2 * NS_PER_S
PATHS = layout.ClusterPaths(CLUSTER)

Asked = Callable[[Request], Reply]
Disturbance = Callable[[Request, Asked], Reply]
"""Gets a request, and how to ask it of the service; returns what the client hears."""


def undisturbed(request: Request, ask: Asked) -> Reply:
    return ask(request)


def paths_of(request: Request) -> list[str]:
    """Every znode that a write names, in its order."""
    assert isinstance(request.body, Call), "a request of the coordination port is a Call"
    return [each.path for each in request.body.operations]


class DisturbedChannel:
    """Hands each request to `disturb`, which a test may replace at any time."""

    capabilities = None

    def __init__(self, inner: PushChannel) -> None:
        self.client, self.service = inner.client, inner.service
        self.disturb: Disturbance = undisturbed
        self._inner = inner

    def send(self, request: Request, timeout_ns: int) -> Reply:
        return self.disturb(request, lambda each: self._inner.send(each, timeout_ns))

    def receive(self, timeout_ns: int | None) -> object | None:
        return self._inner.receive(timeout_ns)

    def close(self) -> None:
        self._inner.close()


class Ear(Listener):
    """Writes down what a participant is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []
        self.alarms: list[str] = []

    def granted(self, lock: str, token: int) -> None:
        self.heard.append(("granted", lock, token))

    def revoked(self, lock: str) -> None:
        self.heard.append(("revoked", lock))

    def lost(self, lock: str, reason: str) -> None:
        self.heard.append(("lost", lock, reason))

    def alarm(self, text: str) -> None:
        self.alarms.append(text)


class Helix:
    """A world with one ZooKeeper and one configured cluster. lags_ns: of its servers; see `CoordinationService`."""

    def __init__(self, *, locks: int = 1, rebalancer: str = "sticky", plan: FaultPlan = EMPTY_PLAN,
                 lags_ns: tuple[int, ...] = (0,)) -> None:  # fmt: skip
        network = NetworkModel(latency_ns=(1 * NS_PER_MS, 3 * NS_PER_MS))
        self.world = World(seed=1, network=network, plan=plan)
        self.service = CoordinationService(lags_ns=lags_ns)
        self.world.add("zk", self.service, decode=lambda _key, _body: ())
        resource = Resource(
            name=RESOURCE, locks=locks, replicas=1, mode=RebalanceMode.USER_DEFINED, rebalancer=rebalancer,
            model=LOCK_UNLOCK,
        )  # fmt: skip
        self._cluster = Cluster(name=CLUSTER, resources=(resource,), instances=(), allows_joining=True)
        self.passes: list[Pass] = []
        self.alarms: list[Alarm] = []
        self._named = 0
        self._tree = self.service._leader.tree

    # Who takes part.

    def session(self, name: str) -> tuple[Session, DisturbedChannel]:
        """Not yet started."""
        inner = self.world.connect(self.world.node(name), "zk", COORDINATION, timeout_ns=NS_PER_S // 2)
        assert isinstance(inner._channel, PushChannel), "the modelled service pushes"
        channel = DisturbedChannel(inner._channel)
        return COORDINATION.over(channel, NS_PER_S // 2), channel

    def participant(
        self, name: str, *, node: str = "", handlers: Handlers = ALL_HANDLED, **how: Any
    ) -> tuple[Participant, Ear, DisturbedChannel]:
        """Not yet joined. node: where it runs; its name, if none is given."""
        session, channel = self.session(node or name)
        ear = Ear()
        made = Participant(
            session,
            cluster=CLUSTER,
            instance=name,
            runtime=self.world.node(node or name).process.runtime,
            handlers={LOCK_UNLOCK.name: handlers},
            settings=ParticipantSettings(session_timeout_ns=SESSION_NS, margin_ns=0, **how),
            listener=ear,
        )
        return made, ear, channel

    def controller(self, name: str = "controller", **how: Any) -> tuple[Controller, DisturbedChannel]:
        """Not yet running."""
        session, channel = self.session(name)
        made = Controller(
            session,
            cluster=CLUSTER,
            name=name,
            runtime=self.world.node(name).process.runtime,
            settings=ControllerSettings(session_timeout_ns=SESSION_NS, **how),
            on_pass=self.passes.append,
            on_alarm=self.alarms.append,
        )
        return made, channel

    def start(self, node: str, work: Callable[[], None]) -> None:
        """Let `work` run on a node, which stays alive when it returns, until the script has ended."""

        def living() -> None:
            work()
            self.world.node(node).process.runtime.sleep(3600 * NS_PER_S)

        self.world.node(node).start(living, is_awaited=False)

    def on(self, node: str, work: Callable[[], Any]) -> Any:
        """Do `work` in a task of the node, and wait for its end. Raises what it raised."""
        found: list[Any] = []

        def done() -> None:
            try:
                found.append((work(), None))
            except Exception as error:  # noqa: BLE001 - handed on to the test
                found.append((None, error))

        self.world.node(node).process.runtime.spawn(done, name="a test's work")
        self.until(lambda: bool(found), "the work ends")
        value, error = found[0]
        if error is not None:
            raise error
        return value

    # The test's own task.

    def play(self, script: Callable[[], None]) -> None:
        """Configure the cluster, run the script, and raise what it raised, or what is raised soon after its end."""
        ended: list[bool] = []

        def observed() -> None:
            applied = self.service._decide(0, tuple(creates(self._cluster)))
            assert applied.failure is None, applied
            script()
            ended.append(True)

        self.world.observe(observed, is_awaited=True)
        self.world.run(until_ns=600 * NS_PER_S, linger_ns=5 * NS_PER_S)
        assert ended, "the script did not come to its end"

    def sleep_ms(self, duration_ms: int) -> None:
        self.world.kernel.wait(duration_ms * NS_PER_MS)

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until something holds, in steps of 1 ms; for a minute at most."""
        for _ in range(60_000):
            if holds():
                return
            self.sleep_ms(1)
        raise AssertionError(f"not within a minute: {what}")

    def join(self, participant: Participant, node: str) -> None:
        self.start(node, participant.join)
        self.until(lambda: self._tree.stat(PATHS.instance(node).live) is not None, f"{node} is live")

    def join_as(self, participant: Participant, name: str, node: str) -> None:
        """As `join`, where the node has another name than the instance."""
        self.start(node, participant.join)
        self.until(lambda: self._tree.stat(PATHS.instance(name).live) is not None, f"{name} is live")

    # What the service holds, and what an operator does to it.

    def body(self, path: str) -> bytes | None:
        return self._tree.body(path)

    def stat(self, path: str) -> Stat | None:
        return self._tree.stat(path)

    @property
    def zxid(self) -> int:
        """The number of the last transaction."""
        return self._tree.zxid

    def names(self, path: str) -> list[str]:
        return sorted(self._tree.children(path))

    def put(self, path: str, body: bytes) -> None:
        assert self.service.tamper("put", path, body=body) == 1

    def remove(self, path: str) -> None:
        assert self.service.tamper("delete", path) == 1

    def live_session(self, instance: str) -> str:
        stat = self.stat(PATHS.instance(instance).live)
        assert stat is not None, "the instance is live"
        return layout.session_name(stat.owner)

    def states(self, instance: str) -> Mapping[str, Mapping[str, str]]:
        """What the instance reports under the session that is live."""
        path = PATHS.instance(instance).current_state(self.live_session(instance), RESOURCE)
        body = self.body(path)
        return {} if body is None else ZNRecord.from_json(body, path).maps

    def state(self, instance: str, lock: str = f"{RESOURCE}_0") -> str:
        return self.states(instance).get(lock, {}).get("CURRENT_STATE", "")

    def pending(self, instance: str) -> list[str]:
        return self.names(PATHS.instance(instance).messages)

    def send(self, instance: str, source: str, target: str, *, name: str = "", **how: Any) -> int:
        """Write a message as a controller does. Returns the transaction that created it.

        name: of its znode; a new one, if none is given.
        """
        self._named += 1
        name = name or f"m{self._named}"
        message = Message(
            id=name,
            instance=how.pop("addressee", instance),
            session=how.pop("session", None) or self.live_session(instance),
            resource=RESOURCE,
            lock=how.pop("lock", f"{RESOURCE}_0"),
            model=LOCK_UNLOCK.name,
            source=source,
            target=target,
        )
        assert not how, how
        path = PATHS.instance(instance).message(name)
        self.put(path, message.to_record().to_json())
        stat = self.stat(path)
        assert stat is not None, "it was just written"
        return stat.created_zxid

    def executed(self, instance: str, source: str, target: str, **how: Any) -> int:
        """Send a message, and wait until it is gone and everything that follows is done."""
        zxid = self.send(instance, source, target, **how)
        self.until(lambda: not self.pending(instance), "the message is gone")
        self.sleep_ms(20)
        return zxid
