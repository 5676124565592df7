"""A controller: one of several that are ready, elected by a znode; it reads the cluster, decides, and sends messages.

Each pass looks at everything anew (`reading`). `sync` comes first after an election, and after every break of the
connection: nothing that an earlier leader sent is overlooked (Z12, Z14).

What a deposed leader sends must not land (Z11, T18). Every batch of messages is a transaction that also checks two
znodes: LEADER, which ends with this session, and HISTORY, to which each leader appends its name. A later leader has
changed HISTORY, so a batch that left before, and arrives after, fails as a whole. A leader that hears nothing of its
own batch changes HISTORY, too, before it decides again: that batch cannot land later, beside what is decided then.

Prior art: Helix #1066 asks whether it is still leader before it sends; the answer may be old when the batch arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lockref.coordination.port import (
    Change,
    Failure,
    Operation,
    SessionState,
    Stat,
    WatchEvent,
    check,
    create,
    is_failure,
)  # fmt: skip
from lockref.coordination.session import Event, Session
from lockref.errors import BackendUnavailable, ConfigError, LockLost, StoreRejected
from lockref.helix import layout
from lockref.helix.messages import Message
from lockref.helix.pipeline import (
    Alarm,
    AlarmKind,
    Decision,
    Semantics,
    Snapshot,
    ThrottleRule,
    decide,
)
from lockref.helix.reading import ClusterReader
from lockref.helix.zn_record import ZNRecord
from lockref.ports import Reply
from lockref.runtime import NS_PER_MS, NS_PER_S, Runtime
from lockref.stores.port import Outcome

RETRY_PAUSE_NS: Final = 50 * NS_PER_MS
"""Before a request that nobody answered is sent again."""

REFUSED_PAUSES: Final = 8
"""So many times within one session timeout a controller tries again after a refusal."""

BATCH_BYTES_MAX: Final = 500_000
"""How much of a transaction the messages of one batch may fill."""

HISTORY_LENGTH: Final = 10
"""So many leaders stay in HISTORY, as in Helix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """How a controller works. Durations in nanoseconds.

    session_timeout_ns: how long the server waits for it when it is silent. period_ns: it decides again after so long
    without an event. rebalancer: overrides that of every resource; "" for none. is_descending: the order in which a
    rebalancer is given the live instances. checks_leadership: batches check that nobody else leads; False is the
    original.
    """

    session_timeout_ns: int = 30_000_000_000
    period_ns: int = 60 * NS_PER_S
    semantics: Semantics = Semantics.OURS
    rebalancer: str = ""
    is_descending: bool = False
    throttles: tuple[ThrottleRule, ...] = ()
    checks_leadership: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One pass of a leader: what it read and decided, how many messages it sent, and how long all that took."""

    snapshot: Snapshot
    decision: Decision
    sent: int
    took_ns: int


class _Interrupted(Exception):
    """A request of this pass was not answered, or was answered no: begin again."""


class Controller:
    """One controller. name: as others see it. on_pass: told of every pass; on_alarm: of what an operator must hear."""

    def __init__(
        self,
        session: Session,
        *,
        cluster: str,
        name: str,
        runtime: Runtime,
        settings: ControllerSettings | None = None,
        on_pass: Callable[[Pass], None] = lambda _pass: None,
        on_alarm: Callable[[Alarm], None] = lambda _alarm: None,
    ) -> None:
        self._session = session
        self._paths = layout.ClusterPaths(cluster)
        self._name = name
        self._runtime = runtime
        self._settings = ControllerSettings() if settings is None else settings
        self._on_pass = on_pass
        self._on_alarm = on_alarm
        self._term: int | None = None
        self._reader = ClusterReader(
            session,
            self._paths,
            settled=self._settled,
            semantics=self._settings.semantics,
            rebalancer=self._settings.rebalancer,
            on_alarm=on_alarm,
        )
        self._told: tuple[Alarm, ...] = ()
        self._sent_views: dict[str, bytes] = {}
        self._has_led = False
        self._is_stopping = False

    @property
    def is_leader(self) -> bool:
        """Does it believe that it leads? Only the server knows."""
        return self._term is not None

    def run(self) -> None:
        """Stand by, lead, stand by again, until `stop`, however long no server answers.

        Errors, before it has led for the first time: BackendUnavailable if no server answers; ConfigError where the
        cluster is not as it must be; StoreRejected for what asking again cannot mend. Later it raises alarms instead.
        """
        self._session.start(self._runtime, timeout_ns=self._settings.session_timeout_ns)
        while not self._is_stopping:
            try:
                self._lead_or_stand_by()
            except LockLost:
                self._begin_anew()
            except (StoreRejected, ConfigError) as error:
                if not self._has_led:
                    raise
                # It has worked before: somebody has taken a right away, or written nonsense, and may mend it.
                self._on_alarm(Alarm(AlarmKind.REFUSED, str(error)))
                self._runtime.sleep(self._session.timeout_ns // REFUSED_PAUSES)

    def _begin_anew(self) -> None:
        """The session is over, and with it the leadership."""
        self._term = None
        self._reader.forget()
        while not self._is_stopping:
            try:
                self._session.start(self._runtime, timeout_ns=self._settings.session_timeout_ns)
                return
            except BackendUnavailable:
                self._runtime.sleep(RETRY_PAUSE_NS)

    def stop(self) -> None:
        """End the session: another controller may lead at once. Idempotent."""
        self._is_stopping = True
        self._term = None
        self._session.close()

    def _lead_or_stand_by(self) -> None:
        self._answered(lambda: self._session.sync())
        self._term = self._elected()
        while not self._is_stopping:
            if self._term is None:
                self._await_event(None)
                self._term = self._elected()
            else:
                try:
                    event = self._pass_and_wait()
                except _Interrupted:
                    self._runtime.sleep(RETRY_PAUSE_NS)
                    event = SessionState.CONNECTED
                if event is SessionState.CONNECTED:
                    # What happened while nobody answered was told to nobody (Z14).
                    self._answered(lambda: self._session.sync())
                    self._term = self._still_leading()

    # Leadership.

    def _elected(self) -> int | None:
        """Try to become the leader. Returns the version of HISTORY that says so; None if another one leads."""
        session, paths = self._session, self._paths
        own = layout.session_name(session.id)
        record = ZNRecord(self._name, {"LIVE_INSTANCE": own, "SESSION_ID": own})
        while True:
            session.create(paths.leader, record.to_json(), is_ephemeral=True)
            found = self._answered(lambda: session.exists(paths.leader, is_watching=True))
            if not isinstance(found.version, Stat):
                if self._answered(lambda: session.exists(paths.root)).missing:
                    raise ConfigError(f"there is no cluster {self._paths.cluster!r}: {paths.root} is not there")
                continue
            # A create whose answer was lost may have succeeded: the znode tells whose it is (T20).
            if found.version.owner != session.id:
                return None
            return self._written_into_history()

    def _written_into_history(self) -> int:
        paths = self._paths
        while True:
            found = self._answered(lambda: self._session.get(paths.leader_history))
            if not isinstance(found.version, Stat):
                raise ConfigError(f"the cluster {paths.cluster!r} is not whole: {paths.leader_history} is not there")
            record = ZNRecord.from_json(found.body, paths.leader_history) if found.body else ZNRecord("HISTORY")
            entry = f"{{CONTROLLER={self._name}, SESSION={layout.session_name(self._session.id)}}}"
            entries = [*record.lists.get("HISTORY", ()), entry][-HISTORY_LENGTH:]
            names = [*record.lists.get(paths.cluster, ()), self._name][-HISTORY_LENGTH:]
            body = ZNRecord("HISTORY", record.simple, record.maps, {"HISTORY": entries, paths.cluster: names}).to_json()
            expected = found.version
            reply = self._session.set(paths.leader_history, body, expected)
            if reply.outcome is Outcome.APPLIED and isinstance(reply.version, Stat):
                return reply.version.version
            self._pause(reply)

    def _still_leading(self) -> int | None:
        found = self._answered(lambda: self._session.exists(self._paths.leader, is_watching=True))
        if isinstance(found.version, Stat) and found.version.owner == self._session.id:
            return self._term
        return self._elected()

    def _await_event(self, timeout_ns: int | None) -> Event | None:
        event = self._session.next_event(timeout_ns)
        if event is SessionState.LOST or (event is None and self._session.state is SessionState.LOST):
            raise LockLost("the controller's session has ended", reason="session ended")
        if event is not None:
            self._reader.heard(event)
        return event

    # One pass.

    def _pass_and_wait(self) -> Event | None:
        """Decide until there is nothing to send, then wait for an event. Raises _Interrupted, LockLost."""
        began_ns = self._runtime.monotonic_ns()
        snapshot, by_resource = self._reader.read()
        decision = decide(
            snapshot,
            by_resource,
            semantics=self._settings.semantics,
            throttles=self._settings.throttles,
            is_descending=self._settings.is_descending,
        )
        self._remove(decision.removals)
        sent = self._send(decision.messages)
        self._show(decision)
        for alarm in decision.alarms:
            if alarm not in self._told:
                self._on_alarm(alarm)
        self._told = decision.alarms
        self._has_led = True
        took_ns = self._runtime.monotonic_ns() - began_ns
        self._on_pass(Pass(snapshot=snapshot, decision=decision, sent=sent, took_ns=took_ns))
        event = self._await_event(self._settings.period_ns)
        # Events come in crowds: one pass answers all that have arrived.
        while event is not SessionState.CONNECTED and (more := self._session.next_event(0)) is not None:
            self._reader.heard(more)
            event = more
        if event is SessionState.LOST:
            raise LockLost("the controller's session has ended", reason="session ended")
        if event == WatchEvent(Change.DELETED, self._paths.leader, self._session.id):
            return SessionState.CONNECTED
        return event

    # What a pass does.

    def _send(self, messages: Sequence[Message]) -> int:
        """Send them in batches that fail as a whole once another controller leads (Z11, T18)."""
        sent = 0
        batch: list[Operation] = []
        paths: list[tuple[str, Message]] = []
        size = 0
        for message in messages:
            message_id = self._runtime.token_bytes(16).hex()
            named = replace(message, id=message_id)
            record = named.to_record(
                controller=self._name,
                controller_session=layout.session_name(self._session.id),
                now_ms=self._runtime.wall_ns() // NS_PER_MS,
            )
            body = record.to_json()
            if batch and size + len(body) > BATCH_BYTES_MAX:
                sent += self._commit(batch, paths)
                batch, paths, size = [], [], 0
            path = self._paths.instance(message.instance).message(message_id)
            batch.append(create(path, body))
            paths.append((path, named))
            size += len(body)
        return sent + (self._commit(batch, paths) if batch else 0)

    def _commit(self, batch: Sequence[Operation], messages: Sequence[tuple[str, Message]]) -> int:
        guards: list[Operation] = []
        if self._settings.checks_leadership:
            assert self._term is not None, "only a leader sends"
            guards = [check(self._paths.leader), check(self._paths.leader_history, self._term)]
        reply = self._session.multi([*guards, *batch])
        if reply.outcome is Outcome.APPLIED:
            self._reader.sent(messages)
            return len(batch)
        self._pause(reply)
        # Another one leads, an instance was removed meanwhile, or nobody knows whether the batch will land.
        self._term = self._still_leading()
        if self._term is not None and reply.outcome is Outcome.AMBIGUOUS:
            self._term = self._written_into_history()
        raise _Interrupted

    def _remove(self, paths: Sequence[str]) -> None:
        """Messages that nobody will execute (Z20)."""
        for path in paths:
            self._settled(self._session.delete(path))

    def _show(self, decision: Decision) -> None:
        """Write EXTERNALVIEW where it changed. Nobody decides by it: a lost write is made good with the next change."""
        for resource, view in decision.views.items():
            path = self._paths.external_view(resource)
            body = ZNRecord(resource, {"NUM_PARTITIONS": str(len(view))}, view).to_json()
            if self._sent_views.get(resource) == body:
                continue
            reply = self._session.set(path, body)
            if reply.missing:
                reply = self._session.create(path, body)
            if reply.outcome is Outcome.APPLIED:
                self._sent_views[resource] = body

    # Asking.

    def _answered(self, ask: Callable[[], Reply]) -> Reply:
        """Ask until somebody answers."""
        while True:
            reply = ask()
            if reply.outcome is Outcome.APPLIED:
                return reply
            self._pause(reply)

    def _settled(self, reply: Reply) -> Reply:
        """An answer; what is not there is one. A pass that hears none begins again."""
        if reply.outcome is Outcome.APPLIED or reply.missing:
            return reply
        self._pause(reply)
        raise _Interrupted

    def _pause(self, reply: Reply) -> None:
        """Before asking again. Raises LockLost if the session has ended, StoreRejected if asking is of no use."""
        if self._session.state is SessionState.LOST or is_failure(reply, Failure.SESSION_EXPIRED):
            raise LockLost("the controller's session has ended", reason="session ended")
        if reply.outcome is Outcome.REJECTED:
            raise StoreRejected(f"{self._session.service} refuses: {reply.reason}")
        self._runtime.sleep(RETRY_PAUSE_NS)
