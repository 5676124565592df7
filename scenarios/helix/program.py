"""The recipe's program on a real ZooKeeper: start everybody, print who holds what, stop the first, print again.

It waits for convergence, not for seconds: until a pass of the controller has found every instance that shall be live,
no message under way, and nothing to send.

Instances and the controller live in this process, each with a session of its own; other processes may take part in the
same cluster.

Source: `LockManagerDemo` of Helix' recipe user-defined-rebalancer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lockref.coordination.session import COORDINATION, Session
from lockref.coordination.zookeeper import ZooKeeperChannel
from lockref.errors import BackendUnavailable, LockError, StoreRejected
from lockref.helix.cluster.declared import Cluster, Instance
from lockref.helix.controller.controller import Controller, ControllerSettings, Pass
from lockref.helix.measures import measure
from lockref.helix.operations.adding import apply_cluster
from lockref.helix.operations.operator import Operator
from lockref.helix.participant.application import Handlers, Listener, ParticipantSettings
from lockref.helix.participant.participant import Participant
from lockref.helix.pipeline import Alarm, AlarmKind
from lockref.helix.records import layout
from lockref.helix.records.messages import Message
from lockref.helix.state_model import StateModel
from lockref.runtime import NS_PER_S, Runtime, ThreadRuntime
from reports.checks.facts.surroundings.host import NOTICED_NS, lateness_text
from scenarios.worlds.host_watch import HostWatch

CONTROLLER: Final = "controller"
REQUEST_TIMEOUT_NS: Final = 5 * NS_PER_S
CONVERGE_TIMEOUT_NS: Final = 60 * NS_PER_S

_UNDECIDED: Final = (AlarmKind.REBALANCER_FAILED, AlarmKind.NOTHING_ASSIGNED)
"""With one of these, the rule has not decided who holds what."""


class Change(StrEnum):
    """The change before a phase.

    START: every listed instance. LEAVE: the first one stops. RETURN: it comes back. NONE: all stop.
    FOURTH: an instance joins that the file does not list.
    """

    START = "start"
    LEAVE = "leave"
    RETURN = "return"
    NONE = "none"
    FOURTH = "fourth"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """The state of the cluster when it has converged, and the cost of getting there.

    holders: by lock, its holders, sorted. moved, unnecessary, least: see `lockref.helix.measures.Change`; 0 where there
    was nothing before. messages, passes: what the controller needed. seconds: until it had converged. host_late_ns: by
    how much this machine woke a thread too late meanwhile, at its worst. alarms: what an operator was told meanwhile.
    is_decided: False if a rebalancer failed, so that holders are those of before, or says
    that nobody shall hold anything.
    """

    change: Change
    live: tuple[str, ...]
    holders: Mapping[str, tuple[str, ...]]
    moved: int
    unnecessary: int
    least: int
    messages: int
    passes: int
    seconds: float
    host_late_ns: int = 0
    alarms: tuple[str, ...] = ()
    is_decided: bool = True

    def document(self) -> dict[str, object]:
        """For `--json`. A lock with one holder, as usual, has its name; one with none, null."""
        return {
            "change": self.change.value,
            "live": list(self.live),
            "holders": {lock: ",".join(each) or None for lock, each in self.holders.items()},
            "moved": self.moved,
            "unnecessary": self.unnecessary,
            "least": self.least,
            "messages": self.messages,
            "passes": self.passes,
            "seconds": round(self.seconds, 3),
            "host_late_seconds": round(self.host_late_ns / NS_PER_S, 3),
            "alarms": list(self.alarms),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressCallbacks:
    """Callbacks for the progress of a program. say: with a line for people. seen: with every pass of the controller."""

    say: Callable[[str], None]
    seen: Callable[[Pass], None] = lambda _pass: None


class ClusterProgram:
    """A cluster with its instances and one controller. `close` ends them all; the cluster stays configured.

    auth: scheme and credential, shown to the server by every session.
    Errors of all methods: BackendUnavailable where no server answers or takes what is written, or the cluster does not
    converge; ConfigError where the address has no such folder, or an instance's name is in use.
    """

    def __init__(
        self,
        hosts: str,
        cluster: Cluster,
        *,
        callbacks: ProgressCallbacks,
        controller: ControllerSettings,
        session_timeout_ns: int,
        auth: tuple[tuple[str, str], ...] = (),
        runtime: Runtime | None = None,
    ) -> None:
        self._hosts = hosts
        self._auth = auth
        self._cluster = cluster
        self._callbacks = callbacks
        self._settings = controller
        self._session_timeout_ns = session_timeout_ns
        self._runtime = ThreadRuntime() if runtime is None else runtime
        self._participants: dict[str, Participant] = {}
        self._controller: Controller | None = None
        self._failure: Exception | None = None
        self._mutex = self._runtime.mutex()
        self._changed = self._runtime.event()
        self._last: Pass | None = None
        self._passes = 0
        self._messages = 0
        self._alarms: list[str] = []
        self._before: Mapping[str, tuple[str, ...]] = {}

    def configure(self) -> int:
        """Write what the file says and is not there yet, as one transaction. Returns how many znodes were made.

        Errors: ClusterDiffers if the cluster that is there is another one.
        """
        session = self._session("setup")
        try:
            session.start(self._runtime, timeout_ns=self._session_timeout_ns)
            self._tell_timeout(session.timeout_ns)
            return apply_cluster(Operator(session, self._runtime, self._hosts), self._cluster)
        finally:
            session.close()

    def _tell_timeout(self, timeout_ns: int) -> None:
        """Tell if the server chose another session timeout: by default it allows 2 to 20 of its ticks."""
        if timeout_ns != self._session_timeout_ns:
            self._callbacks.say(
                f"The server gives sessions of {timeout_ns / NS_PER_S:g} s in the place of "
                f"{self._session_timeout_ns / NS_PER_S:g} s: its bounds are 2 and 20 ticks, if nothing else is set"
            )

    def phase(self, change: Change) -> Phase:
        """Make the change, wait for convergence, and tell what the cluster is then."""
        try:
            with HostWatch(self._runtime) as host:
                return self._phase(change, host)
        except StoreRejected as error:
            raise BackendUnavailable(f"the cluster {self._cluster.name!r} cannot go on: {error}") from error

    def _phase(self, change: Change, host: HostWatch) -> Phase:
        with self._mutex:
            self._passes = self._messages = 0
            self._last = None
            self._alarms.clear()
        began_ns = self._runtime.monotonic_ns()
        listed = [instance.name for instance in self._cluster.instances]
        if change is Change.START:
            for name in listed:
                self._start(name)
            self._start_controller()
        elif change is Change.LEAVE:
            self._callbacks.say("Stopping the first participant")
            self._stop(listed[0])
        elif change is Change.RETURN:
            self._start(listed[0])
        elif change is Change.NONE:
            for name in list(self._participants):
                self._stop(name)
        else:
            self._add(_next_instance(self._cluster))
        self._touch()
        return self._converged(change, began_ns, host)

    def _touch(self) -> None:
        """Make the controller run a pass. It runs on events, and a change that needs no work causes none."""
        with self._mutex:
            self._changed.set()

    def _converged(self, change: Change, began_ns: int, host: HostWatch) -> Phase:
        deadline_ns = began_ns + CONVERGE_TIMEOUT_NS
        wanted = tuple(sorted(self._participants))
        while True:
            with self._mutex:
                last, self._failure, failure = self._last, None, self._failure
                passes, messages = self._passes, self._messages
                self._changed.clear()
            if failure is not None:
                raise failure
            if last is not None and _is_settled(last, wanted):
                break
            # The cluster is not blamed for the time in which this machine ran nobody.
            remaining_ns = deadline_ns + host.late_ns - self._runtime.monotonic_ns()
            if remaining_ns <= 0:
                late = f"; {lateness_text(host.late_ns)}" if host.late_ns >= NOTICED_NS else ""
                live = "unknown" if last is None else ", ".join(last.snapshot.live) or "none"
                raise BackendUnavailable(
                    f"the cluster {self._cluster.name!r} did not converge within {CONVERGE_TIMEOUT_NS // NS_PER_S} s: "
                    f"live instances are {live}; expected {', '.join(wanted) or 'none'}{late}"
                )
            self._changed.wait(remaining_ns)
        holders = _holders(last)
        before, self._before = self._before, holders
        with self._mutex:
            alarms = tuple(self._alarms)
        cost = measure(before, holders, wanted) if before and wanted else None
        return Phase(
            change=change,
            live=wanted,
            holders=holders,
            moved=0 if cost is None else cost.moved,
            unnecessary=0 if cost is None else cost.unnecessary,
            least=0 if cost is None else cost.least,
            messages=messages,
            passes=passes,
            seconds=(self._runtime.monotonic_ns() - began_ns) / NS_PER_S,
            host_late_ns=host.late_ns,
            alarms=alarms,
            is_decided=all(each.kind not in _UNDECIDED for each in last.decision.alarms),
        )

    def close(self) -> None:
        """End every instance, then the controller. Idempotent."""
        for name in list(self._participants):
            self._leave(name)
        controller, self._controller = self._controller, None
        if controller is not None:
            controller.stop()

    # Instances.

    def _session(self, client: str) -> Session:
        channel = ZooKeeperChannel(self._hosts, client=client, service="zookeeper", auth=self._auth)
        return COORDINATION.over(channel, REQUEST_TIMEOUT_NS)

    def _start(self, name: str) -> None:
        self._callbacks.say(f"STARTING {name}")
        models = {resource.model.name: resource.model for resource in self._cluster.resources}
        participant = Participant(
            self._session(name),
            cluster=self._cluster.name,
            instance=name,
            runtime=self._runtime,
            handlers={model.name: self._handlers(model, name) for model in models.values()},
            settings=ParticipantSettings(session_timeout_ns=self._session_timeout_ns),
            listener=_Alarming(self._alarm),
        )
        self._participants[name] = participant
        participant.join()
        self._callbacks.say(f"STARTED {name}")

    def _handlers(self, model: StateModel, instance: str) -> Handlers:
        """The recipe's callbacks, which print. A lock that is given back is told for every target state."""

        def handler(message: Message) -> None:
            if message.target == model.top:
                self._callbacks.say(f"{instance} acquired lock:{message.lock}")
            elif message.source == model.top:
                self._callbacks.say(f"{instance} releasing lock:{message.lock}")

        return {(each.source, each.target): handler for each in model.transitions}

    def _stop(self, name: str) -> None:
        self._leave(name)
        self._callbacks.say(f"{name} Interrupted")

    def _leave(self, name: str) -> None:
        try:
            self._participants.pop(name).leave()
        except LockError as error:
            # Its session ends by itself; the others are told by the server.
            self._callbacks.say(f"{name}: {error}")

    def _add(self, instance: Instance) -> None:
        """Configure an instance that the file does not list, and start it."""
        session = self._session("setup")
        try:
            session.start(self._runtime, timeout_ns=self._session_timeout_ns)
            made = layout.instance_creates(self._cluster.name, instance.name, host=instance.host, port=instance.port)
            session.multi(made)
        finally:
            session.close()
        self._start(instance.name)

    # The controller.

    def _start_controller(self) -> None:
        self._callbacks.say(f"STARTING {CONTROLLER}")
        controller = self._controller = Controller(
            self._session(CONTROLLER),
            cluster=self._cluster.name,
            name=CONTROLLER,
            runtime=self._runtime,
            settings=self._settings,
            on_pass=self._passed,
            on_alarm=self._alarmed,
        )
        self._runtime.spawn(lambda: self._run(controller), name=CONTROLLER)

    def _run(self, controller: Controller) -> None:
        try:
            controller.run()
        except Exception as error:  # noqa: BLE001 - told to the task that waits for it
            with self._mutex:
                self._failure = error
                self._changed.set()

    def _passed(self, done: Pass) -> None:
        with self._mutex:
            self._last = done
            self._passes += 1
            self._messages += done.sent
            self._changed.set()
        self._callbacks.seen(done)

    def _alarmed(self, alarm: Alarm) -> None:
        self._alarm(f"{alarm.kind.value}: {alarm.text}")

    def _alarm(self, text: str) -> None:
        with self._mutex:
            self._alarms.append(text)
        self._callbacks.say(f"ALARM {text}")


class _Alarming(Listener):
    """Tells what a participant finds wrong."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def alarm(self, text: str) -> None:
        self._say(text)


def _is_settled(done: Pass, live: tuple[str, ...]) -> bool:
    """Has this pass found everybody, nothing under way, and nothing to send?"""
    is_quiet = not done.snapshot.pending and not done.decision.messages and not done.decision.removals
    return is_quiet and tuple(done.snapshot.live) == live


def _holders(done: Pass) -> dict[str, tuple[str, ...]]:
    """By lock, in lexicographic order, who holds it by what the instances report."""
    found: dict[str, tuple[str, ...]] = {}
    for group in done.snapshot.groups:
        for lock in group.locks:
            states = done.snapshot.of(lock)
            found[lock] = tuple(sorted(each for each, replica in states.items() if replica.state == group.model.top))
    return dict(sorted(found.items()))


def _next_instance(cluster: Cluster) -> Instance:
    """One more instance than the file lists, named as its last one is: the next port."""
    last = cluster.instances[-1]
    port = last.port + 1
    return Instance(name=f"{last.host}_{port}", host=last.host, port=port)


def table(phase: Phase) -> str:
    """The table that the recipe prints."""
    rows = [f"{lock}\t{','.join(holders) or 'NONE'}" for lock, holders in phase.holders.items()]
    return "\n".join(["lockName\tacquired By", "=" * 38, *rows])
