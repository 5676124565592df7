"""A participant: joins a cluster, takes and gives back the locks that a controller tells it to, and knows until when.

The life of a participant is Helix's. What an earlier session left is entered anew in the initial state. The instance
goes live under a session and executes messages: each moves one lock from one state to the next. Its handler is called,
and the new state is written in one transaction with the removal of the message. A controller that saw the message gone
and the state unchanged would grant the lock a second time (T28).

What is safer here than in the original:

* A lock is held only while the session cannot have ended: see `Session.safe_until_ns` (Z9, Z10, T17).
* A holder stops before it writes that it has stopped, and begins after it has written that it holds.
* A message of another session, or for another instance, is removed and never executed (Z20, HJ10).
* A participant whose handlers do not cover every transition of its state model does not start (Z8, T16).
* One record, message or znode that is nonsense stops nothing but itself (HJ9).

The fencing token of a lock is the transaction that created the message which granted it (czxid). At most one grant of a
lock is pending at a time, so tokens rise with every grant, over changes of holders, controllers and leaders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from lockref.coordination.port import (
    GET,
    Change,
    Failure,
    Operation,
    SessionState,
    Stat,
    WatchEvent,
    change,
    create,
    delete,
    is_failure,
)
from lockref.coordination.session import Read, Session
from lockref.errors import BackendUnavailable, ConfigError, LockError, LockLost, ReleaseFailed, StoreRejected
from lockref.helix import layout
from lockref.helix.messages import Message
from lockref.helix.state_model import DROPPED, ERROR, StateModel
from lockref.helix.views import TOKEN
from lockref.helix.zn_record import RECORD_BYTES_MAX, RecordTooLarge, ZNRecord, is_compressed
from lockref.ports import Reply
from lockref.runtime import NS_PER_MS, NS_PER_S, MonoNs, Runtime
from lockref.stores.port import Outcome

RETRY_PAUSE_NS: Final = 50 * NS_PER_MS
"""Before a request that nobody answered is sent again."""

REFUSED_PAUSES: Final = 8
"""So many times within one session timeout a refused request is tried again."""

DEPARTURE_ATTEMPTS: Final = 3
"""So often an instance tries to say that it gives everything back, before it ends its session without saying so."""

PUBLISHED_AT_ONCE: Final = 500
"""So many messages are answered with one writing of the states, where they wait for it."""

ENTRY_BYTES: Final = 160
"""What one lock takes in CURRENTSTATES beside its name, at most."""

COMPRESSION: Final = 4
"""A record of current states is compressed at least so well; in truth about ten times."""

JOIN_PATIENCE_NS: Final = 5_000_000_000
"""How much longer than a session timeout an instance waits for the session of its predecessor to end (Z18)."""


Handler = Callable[[Message], None]
"""Called for one transition of one lock. It may block. What it raises puts the lock into ERROR."""

Handlers = Mapping[tuple[str, str], Handler]
"""By source and target state. Every declared transition has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantSettings:
    """How a participant lives. Durations in nanoseconds.

    session_timeout_ns: how long the server waits for it when it is silent. rate_bound_ppm, margin_ns: see
    `Session.safe_until_ns`. fences_itself: it holds by its own clock too; False is the original (Z9, Z10).
    requires_handlers: it does not start with a transition that nobody handles; False is the original (Z8).
    """

    session_timeout_ns: int = 30_000_000_000
    rate_bound_ppm: int = 10_000
    margin_ns: int = 200 * NS_PER_MS
    fences_itself: bool = True
    requires_handlers: bool = True


@dataclass(slots=True)
class _Replica:
    """What one instance knows of one lock. queue: messages that wait for the one that is being executed.

    is_reported: CURRENTSTATES names it. What was dropped is not named, and counts as being in the initial state.
    """

    state: str
    is_reported: bool = True
    token: int | None = None
    since_ms: int = 0
    before: str = ""
    queue: list[Message] = field(default_factory=list)
    is_busy: bool = False


@dataclass(slots=True)
class _Resource:
    """The current states of one resource under the present session.

    version: of the znode; None before it is there. unwritten: messages that were executed and are not yet answered.
    is_writing: a task answers them, those that come meanwhile, too. entries, compressed_bytes: of the record as it was
    written last; 0 bytes while it is plain.
    """

    model: StateModel
    version: int | None = None
    replicas: dict[str, _Replica] = field(default_factory=dict)
    unwritten: dict[str, Message] = field(default_factory=dict)
    is_writing: bool = False
    entries: int = 0
    compressed_bytes: int = 0


class Listener:
    """What an application is told. Override what it wants to hear; nothing here may block for long."""

    def granted(self, lock: str, token: int) -> None:
        """The lock is held, and the cluster knows."""

    def revoked(self, lock: str) -> None:
        """The controller takes the lock back. It is not held any more, and not yet given to another."""

    def lost(self, lock: str, reason: str) -> None:
        """The session has ended, or may have, while the lock was held. If it had not, `granted` follows, same token."""

    def alarm(self, text: str) -> None:
        """Something is not as it should be: a message that cannot be read, a handler that failed."""


class Participant:
    """One instance of a cluster, under one session at a time.

    session: not yet started; the participant ends it. instance: its name; two processes must not share one (Z18).
    handlers: by state model. listener: told of grants and losses.
    """

    def __init__(
        self,
        session: Session,
        *,
        cluster: str,
        instance: str,
        runtime: Runtime,
        handlers: Mapping[str, Handlers],
        settings: ParticipantSettings | None = None,
        listener: Listener | None = None,
    ) -> None:
        self._session = session
        self._paths = layout.InstancePaths(cluster, instance)
        self._cluster_paths = layout.ClusterPaths(cluster)
        self._instance = instance
        self._runtime = runtime
        self._handlers = handlers
        self._settings = ParticipantSettings() if settings is None else settings
        self._listener = Listener() if listener is None else listener
        self._mutex = runtime.mutex()
        self._joining = runtime.mutex()
        self._models: dict[str, StateModel] = {}
        self._resources: dict[str, _Resource] = {}
        # Token by lock: what is held, and what was held until the session fell silent.
        self._held: dict[str, int] = {}
        self._suspended: dict[str, int] = {}
        self._known: dict[str, None] = {}
        self._join_until_ns: MonoNs | None = None
        self._is_leaving = False

    # Joining.

    def join(self, *, until_ns: MonoNs | None = None) -> None:
        """Go live and begin to execute messages, until `leave`.

        until_ns: when to give up, on the monotonic clock; None: never.
        Errors: ConfigError if the instance is not configured and the cluster lets nobody join by itself, if the cluster
        is not there, if a transition has no handler, or if another process lives under this name; BackendUnavailable.
        """
        session, settings = self._session, self._settings
        self._join_until_ns = until_ns
        session.start(self._runtime, timeout_ns=settings.session_timeout_ns, is_wanted=self._may_go_on)
        for name in self._handlers:
            self._models[name] = self._handled_model(name)
        self._require_configured()
        self._go_live()
        self._join_until_ns = None
        self._runtime.spawn(self._serve, name=f"participant {self._instance}")

    def _may_go_on(self) -> bool:
        return self._join_until_ns is None or self._runtime.monotonic_ns() < self._join_until_ns

    def _model(self, name: str) -> StateModel:
        path = self._cluster_paths.state_model(name)
        reply = self._read(path)
        if reply.missing:
            raise ConfigError(f"the cluster {self._paths.cluster!r} has no state model {name!r}: {path} is not there")
        model = StateModel.from_record(ZNRecord.from_json(reply.body or b"", path))
        problems = model.problems()
        if problems:
            raise ConfigError(f"{path} holds no state model: {problems[0]}")
        return model

    def _handled_model(self, name: str) -> StateModel:
        model, handlers = self._model(name), self._handlers[name]
        missing = [
            f"{each.source}-{each.target}" for each in model.transitions if (each.source, each.target) not in handlers
        ]
        if missing and self._settings.requires_handlers:
            raise ConfigError(
                f"state model {name!r}: no handler for {', '.join(missing)}. A holder that is told to make such a "
                "transition would lose its lock without hearing of it (Z8)"
            )
        return model

    def _require_configured(self) -> None:
        cluster, config = self._paths.cluster, self._cluster_paths.config
        while self._read(self._paths.config).missing:
            found = self._read(config)
            if found.missing:
                raise ConfigError(f"there is no cluster {cluster!r}: {config} is not there")
            if ZNRecord.from_json(found.body or b"", config).simple.get(layout.AUTO_JOIN) != "true":
                raise ConfigError(
                    f"instance {self._instance!r} is not configured in cluster {cluster!r}, and the cluster does not "
                    f"let instances join by themselves ({layout.AUTO_JOIN} in {config})"
                )
            reply = self._session.multi(layout.instance_creates(cluster, self._instance))
            if reply.outcome in (Outcome.AMBIGUOUS, Outcome.REJECTED):
                self._pause(reply)

    def _read(self, path: str) -> Reply:
        """Ask until somebody answers. Raises LockLost when the session has ended."""
        while True:
            reply = self._session.get(path)
            if reply.outcome is Outcome.APPLIED:
                return reply
            self._pause(reply)

    def _pause(self, reply: Reply) -> None:
        """Before asking again. Raises LockLost if the session is over, StoreRejected if asking is of no use."""
        if self._is_leaving:
            raise LockLost(f"instance {self._instance!r} leaves", reason="left")
        if self._join_until_ns is not None and self._runtime.monotonic_ns() >= self._join_until_ns:
            raise BackendUnavailable(f"{self._session.service} did not let {self._instance!r} join: {reply.reason}")
        if self._session.state is SessionState.LOST or is_failure(reply, Failure.SESSION_EXPIRED):
            raise LockLost("the session has ended", reason="session ended")
        if reply.outcome is Outcome.REJECTED:
            raise StoreRejected(f"{self._session.service} refuses: {reply.reason}")
        # Whoever asks may ask for as long as nobody answers, and takes no event meanwhile.
        self._suspend()
        self._runtime.sleep(RETRY_PAUSE_NS)

    def _go_live(self) -> None:
        """Enter what an earlier session left in the initial state, and appear, as one transaction (T13).

        The znode of an earlier session of this instance is waited for (Z18). A request whose answer is lost is settled
        by looking whose znode is there (T20).
        """
        session, paths = self._session, self._paths
        patience_ns = session.timeout_ns + JOIN_PATIENCE_NS
        deadline_ns = self._runtime.monotonic_ns() + patience_ns
        while True:
            reply = session.multi(self._arrival())
            live = session.exists(paths.live, is_watching=True)
            if isinstance(live.version, Stat) and live.version.owner == session.id:
                return
            if reply.outcome is Outcome.REJECTED or live.outcome is not Outcome.APPLIED:
                self._pause(live if reply.outcome is Outcome.APPLIED else reply)
            if self._runtime.monotonic_ns() > deadline_ns:
                raise ConfigError(
                    f"instance {self._instance!r} lives already: {paths.live} belongs to session "
                    f"{layout.session_name(live.version.owner if isinstance(live.version, Stat) else 0)} and did not "
                    f"end within {patience_ns // NS_PER_S} s. Two processes must not share a name (Z18)"
                )
            self._runtime.sleep(RETRY_PAUSE_NS)

    def _arrival(self) -> list[Operation]:
        """What appears with a new session, and what goes with the old ones."""
        session, paths = self._session, self._paths
        own = layout.session_name(session.id)
        live = ZNRecord(self._instance, {"SESSION_ID": own, "LIVE_INSTANCE": self._runtime.process_mark() or own})
        operations = [create(paths.live, live.to_json(), is_ephemeral=True)]
        self._resources.clear()
        # What strangers have put below goes, too: a folder that is not empty could not be removed.
        earlier = [delete(path) for name in self._children(paths.sessions) for path in self._left(name, own)]
        operations += [*earlier, create(paths.current_states(own))]
        for resource, states in self._resources.items():
            operations.append(create(paths.current_state(own, resource), self._record(resource).to_json()))
            states.version = 0
        return operations

    def _left(self, session: str, own: str) -> list[str]:
        """What one session has left, children before parents. What an earlier one says is carried over."""
        folder = self._paths.current_states(session)
        found = [folder]
        for path in found:  # Grows while it is walked.
            found += [f"{path}/{name}" for name in self._children(path)]
        for resource in self._children(folder) if session != own else ():
            path = self._paths.current_state(session, resource)
            try:
                self._carry_over(resource, path)
            except ConfigError as error:
                self._listener.alarm(f"{error}. What {self._instance} held there in an earlier session is not entered")
        return found[::-1]

    def _carry_over(self, resource: str, path: str) -> None:
        found = self._read(path)
        if found.missing:
            return
        record = ZNRecord.from_json(found.body or b"", path)
        states = self._states_of(resource, record.simple.get("STATE_MODEL_DEF", ""))
        for lock in record.maps:
            states.replicas[lock] = _Replica(states.model.initial)

    def _children(self, path: str, *, is_watching: bool = False) -> list[str]:
        while True:
            reply = self._session.children(path, is_watching=is_watching)
            if reply.outcome is Outcome.APPLIED:
                return list(reply.body or ())
            self._pause(reply)

    def _states_of(self, resource: str, model: str) -> _Resource:
        """A model for which this instance has no handlers is read, too: what it is told of it ends in ERROR."""
        known = self._resources.get(resource)
        if known is None:
            if model not in self._models:
                self._models[model] = self._model(model)
            known = self._resources[resource] = _Resource(self._models[model])
        return known

    # Messages.

    def _serve(self) -> None:
        """Until the participant leaves: what a session brings, then, if it ended, a new one (section 6, 5)."""
        while not self._is_leaving:
            try:
                self._take_messages()
                event = self._session.next_event(self._session.timeout_ns)
                if event is SessionState.SUSPENDED:
                    self._suspend()
                elif event is SessionState.CONNECTED:
                    self._require_live()
                    self._resume()
                elif event == WatchEvent(Change.DELETED, self._paths.live, self._session.id):
                    self._require_live()
                elif event is SessionState.LOST:
                    raise LockLost("the session has ended", reason="session ended")
            except LockLost as error:
                self._live_anew(error.reason)
            except (StoreRejected, ConfigError) as error:
                # Somebody has taken a right away, or written nonsense. What is held stays held; it may be mended.
                self._listener.alarm(str(error))
                self._runtime.sleep(self._session.timeout_ns // REFUSED_PAUSES)

    def _require_live(self) -> None:
        """Raises LockLost if somebody has removed the znode by which the cluster knows that this instance lives.

        Its locks go to others then, although its session lasts.
        """
        reply = self._session.exists(self._paths.live, is_watching=True)
        is_gone = reply.missing or (isinstance(reply.version, Stat) and reply.version.owner != self._session.id)
        if is_gone and not self._is_leaving:
            self._listener.alarm(f"somebody has removed {self._paths.live}")
            raise LockLost(f"{self._paths.live} was removed", reason="removed from the live instances")

    def _live_anew(self, reason: str) -> None:
        """The session is over: forget what was held under it, and join under a new one, however long that takes."""
        with self._mutex:
            held, self._held, self._suspended = self._held, {}, {}
        for lock in held:
            self._listener.lost(lock, reason)
        self._known.clear()
        self._session.end()
        while not self._is_leaving:
            try:
                with self._joining:
                    self._session.start(
                        self._runtime,
                        timeout_ns=self._settings.session_timeout_ns,
                        is_wanted=lambda: not self._is_leaving,
                    )
                    self._go_live()
                return
            except (LockLost, BackendUnavailable, StoreRejected, ConfigError) as error:
                if not self._is_leaving:
                    self._listener.alarm(f"{self._instance} cannot join again: {error}")
                    self._session.end()
                    self._runtime.sleep(RETRY_PAUSE_NS)

    def _suspend(self) -> None:
        """Nobody answers. A participant that fences itself stops here; the original goes on (Z10).

        If somebody answers by now, nothing is lost. Looked at under the mutex: `_resume` comes after the answer.
        """
        with self._mutex:
            if not self._settings.fences_itself or self._session.state is not SessionState.SUSPENDED:
                return
            held, self._held = self._held, {}
            self._suspended |= held
        for lock in held:
            self._listener.lost(lock, "session suspended")

    def _resume(self) -> None:
        """The session is still alive: what was held before it fell silent may be used again, under the same tokens."""
        with self._mutex:
            back, self._suspended = self._suspended, {}
            self._held |= back
        for lock, token in back.items():
            self._listener.granted(lock, token)

    def _take_messages(self) -> None:
        """Every message that is there and not yet known, oldest first."""
        names = self._children(self._paths.messages, is_watching=True)
        self._known = {name: None for name in names if name in self._known}
        fresh: list[Message] = []
        unknown = [name for name in names if name not in self._known]
        replies = self._session.read_all([Read(GET, self._paths.message(name), is_watching=False) for name in unknown])
        for name, reply in zip(unknown, replies, strict=True):
            path = self._paths.message(name)
            found = reply if reply.outcome is Outcome.APPLIED else self._read(path)
            if found.missing:
                continue
            self._known[name] = None
            message = self._readable(name, path, found)
            if message is not None:
                fresh.append(message)
        for message in sorted(fresh, key=lambda each: each.created_zxid):
            try:
                self._enqueue(message)
            except ConfigError as error:
                # Not removed: a message that is gone counts as executed.
                self._listener.alarm(f"{self._paths.message(message.id)} cannot be executed: {error}")

    def _readable(self, name: str, path: str, reply: Reply) -> Message | None:
        """The message, if it is for this session of this instance; another is removed unexecuted (Z20, HJ10)."""
        assert isinstance(reply.version, Stat), "a znode that was read has a stat"
        try:
            record = ZNRecord.from_json(reply.body or b"", path)
            message = Message.from_record(record, created_zxid=reply.version.created_zxid)
        except ConfigError as error:
            self._listener.alarm(f"a message that cannot be read is removed: {error}")
            self._session.delete(path)
            return None
        is_mine = message.instance == self._instance and message.id == name
        if not is_mine or message.session != layout.session_name(self._session.id):
            self._listener.alarm(f"{path} is for session {message.session} of {message.instance}; removed unexecuted")
            self._session.delete(path)
            return None
        return message

    def _enqueue(self, message: Message) -> None:
        """Messages of one lock are executed one after the other, those of different locks side by side."""
        states = self._states_of(message.resource, message.model)
        with self._mutex:
            replica = states.replicas.setdefault(message.lock, _Replica(states.model.initial, is_reported=False))
            replica.queue.append(message)
            if replica.is_busy:
                return
            replica.is_busy = True
        self._runtime.spawn(lambda: self._work_off(states, replica), name=f"{self._instance} {message.lock}")

    def _work_off(self, states: _Resource, replica: _Replica) -> None:
        """Execute the next message of one lock. Whoever answers it goes on with the one behind it."""
        message = replica.queue[0]
        try:
            is_to_answer = self._is_executed(states, replica, message)
        except LockLost:
            return  # The session is over, and the message with it.
        if not is_to_answer:
            self._go_on(states, replica)
            return
        with self._mutex:
            states.unwritten[message.id] = message
            if states.is_writing:
                return
            states.is_writing = True
        self._answer_all(states)

    def _go_on(self, states: _Resource, replica: _Replica) -> None:
        """The first message of its queue is done with."""
        with self._mutex:
            replica.queue.pop(0)
            replica.is_busy = bool(replica.queue)
            if not replica.is_busy:
                return
            name = f"{self._instance} {replica.queue[0].lock}"
        self._runtime.spawn(lambda: self._work_off(states, replica), name=name)

    def _answer_all(self, states: _Resource) -> None:
        """Write the states and remove the messages, many at once: at a start, all locks change at the same time."""
        told = ""
        while True:
            with self._mutex:
                batch = list(states.unwritten.values())[:PUBLISHED_AT_ONCE]
                states.is_writing = bool(batch)
            if not batch:
                return
            try:
                self._write_states(states, batch)
                for message in batch:
                    self._answered(states, message)
            except LockLost:
                return
            except (StoreRejected, RecordTooLarge) as error:
                # Nothing is begun that is not answered: a right that was taken away may be given back.
                if str(error) != told:
                    self._listener.alarm(str(error))
                told = str(error)
                self._runtime.sleep(self._session.timeout_ns // REFUSED_PAUSES)

    def _answered(self, states: _Resource, message: Message) -> None:
        """The cluster knows: whoever was granted a lock holds it from now on. Raises LockLost."""
        top, replica = states.model.top, states.replicas[message.lock]
        is_granted = replica.state == top == message.target and replica.token is not None
        with self._mutex:
            self._require_session(message)
            del states.unwritten[message.id]
            if is_granted and replica.token is not None:
                self._held[message.lock] = replica.token
        if is_granted and replica.token is not None:
            self._listener.granted(message.lock, replica.token)
        self._go_on(states, replica)

    def _is_executed(self, states: _Resource, replica: _Replica, message: Message) -> bool:
        """One transition (section 3, participant side). False if the message has to wait."""
        top = states.model.top
        if replica.state not in (message.source, message.target):
            self._listener.alarm(f"{message.lock} is {replica.state}; a message wants it from {message.source}")
        elif replica.state == message.source != message.target:
            if not self._fits(states, message):
                return False
            if message.source == top:
                # The holder stops before anybody can read that it has stopped.
                self._give_up(message.lock)
            replica.before, replica.since_ms = replica.state, self._runtime.wall_ns() // NS_PER_MS
            after = self._handled(message)
            self._require_session(message)
            replica.is_reported = after != DROPPED
            replica.state = states.model.initial if after == DROPPED else after
            replica.token = message.created_zxid if replica.state == top else None
        # A duplicate, and a message that does not fit, are answered with the state as it is.
        return True

    def _require_session(self, message: Message) -> None:
        """Raises LockLost if the session has ended, for which the message was: a handler may take longer than that.

        Also if the instance leaves: it has said that it holds nothing, and others get its locks before that ends.
        """
        if self._is_leaving:
            raise LockLost(f"instance {self._instance!r} leaves", reason="left")
        is_over = self._session.state is SessionState.LOST
        if is_over or message.session != layout.session_name(self._session.id):
            raise LockLost(f"the session ended while {message.lock} was moved", reason="session ended")

    def _fits(self, states: _Resource, message: Message) -> bool:
        """Can the new state be written? If not, the message waits, and is looked at again with the next one."""
        entry_bytes = ENTRY_BYTES + len(message.lock)
        to_come = len(states.unwritten) + 1
        is_small = (states.entries + to_come) * entry_bytes <= COMPRESSION * RECORD_BYTES_MAX
        has_room = 0 < states.compressed_bytes <= RECORD_BYTES_MAX - to_come * entry_bytes
        if message.target == DROPPED or is_small or has_room:
            return True
        self._listener.alarm(
            f"{message.lock} is not taken: {self._instance} has {len(states.replicas)} locks, whose record takes "
            f"{states.compressed_bytes} bytes, compressed; a znode takes {RECORD_BYTES_MAX}"
        )
        self._known.pop(message.id, None)
        return False

    def _handled(self, message: Message) -> str:
        """Call the handler. Returns the state that the lock has then."""
        handler = self._handlers.get(message.model, {}).get((message.source, message.target))
        if handler is None:
            # ERROR is left for DROPPED without a handler, as in the original (Z8).
            return DROPPED if (message.source, message.target) == (ERROR, DROPPED) else ERROR
        try:
            handler(message)
        except LockError as error:
            self._listener.alarm(f"{message.lock}: {message.source}-{message.target} failed: {error}")
            return ERROR
        except Exception as error:  # noqa: BLE001 - a handler is the application's; it may raise anything (T15)
            self._listener.alarm(
                f"{message.lock}: {message.source}-{message.target} raised {type(error).__name__}: {error}"
            )
            return ERROR
        return message.target

    def _give_up(self, lock: str) -> None:
        with self._mutex:
            self._suspended.pop(lock, None)
            was_held = self._held.pop(lock, None) is not None
        if was_held:
            self._listener.revoked(lock)

    def _record(self, resource: str) -> ZNRecord:
        """What CURRENTSTATES says of one resource."""
        states = self._resources[resource]
        simple = {"SESSION_ID": layout.session_name(self._session.id), "STATE_MODEL_DEF": states.model.name}
        maps = {lock: _entry(replica) for lock, replica in sorted(states.replicas.items()) if replica.is_reported}
        return ZNRecord(resource, simple, maps)

    def _write_states(self, states: _Resource, batch: Sequence[Message]) -> None:
        """One transaction, settled before it returns. Raises LockLost, StoreRejected, RecordTooLarge."""
        resource = batch[0].resource
        path = self._paths.current_state(batch[0].session, resource)
        pending = [self._paths.message(each.id) for each in batch]
        while True:
            self._require_session(batch[0])
            record = self._record(resource)
            body = record.to_json()
            write = create(path, body) if states.version is None else change(path, body, states.version)
            reply = self._session.multi([write, *map(delete, pending)])
            states.compressed_bytes = len(body) if is_compressed(body) else 0
            states.entries = len(record.maps)
            if reply.outcome is Outcome.APPLIED:
                states.version = 0 if states.version is None else states.version + 1
                return
            # Nobody said yes. Somebody may have removed a message, or written the znode: so look.
            found = self._read(path)
            pending = [each for each in pending if not self._read(each).missing]
            states.version = found.version.version if isinstance(found.version, Stat) else None
            if found.body == body and not pending:
                return
            if reply.outcome is not Outcome.PRECONDITION_FAILED:
                self._pause(reply)

    # What the application asks.

    def holds(self, lock: str) -> bool:
        """May the application still act under this lock? Local: no request, no waiting."""
        if lock not in self._held:
            return False
        if not self._settings.fences_itself:
            return True
        settings = self._settings
        return self._session.is_safe(rate_bound_ppm=settings.rate_bound_ppm, margin_ns=settings.margin_ns)

    def token(self, lock: str) -> int | None:
        """The fencing token of a lock that is held; None of another."""
        return self._held.get(lock)

    @property
    def held(self) -> tuple[str, ...]:
        """The locks that the cluster has given to this instance, sorted. Whether one may still be used says `holds`."""
        return tuple(sorted(self._held))

    def leave(self) -> None:
        """Give back every lock and end the session, so that others need not wait for its end. Idempotent.

        Errors: LockLost if the session turned out to be over; ReleaseFailed if nobody answered.
        """
        if self._is_leaving:
            return
        self._is_leaving = True
        # Whoever is about to open a new session stops at its next step: nothing may be opened after this.
        with self._joining:
            self._depart()

    def _depart(self) -> None:
        with self._mutex:
            held, self._held = self._held, {}
        for lock in held:
            self._listener.revoked(lock)
        reply = None
        for _ in range(DEPARTURE_ATTEMPTS if held else 0):
            if self._session.state is SessionState.LOST:
                break
            reply = self._session.multi(self._departure())
            if reply.outcome is Outcome.APPLIED or reply.missing:
                break
        if held and self._session.state is SessionState.LOST:
            raise LockLost(f"the session of {self._instance!r} was over before it left", reason="session ended")
        ended = self._session.end()
        is_confirmed = reply is None or reply.outcome is Outcome.APPLIED
        if ended is not None and not (is_confirmed and ended.outcome is Outcome.APPLIED):
            raise ReleaseFailed(
                f"instance {self._instance!r} has left, and nobody confirmed it. Its session ends by itself within "
                f"{self._session.timeout_ns / NS_PER_S:g} s"
            )

    def _departure(self) -> list[Operation]:
        """Say that every lock is given back, and vanish, as one transaction."""
        operations = [delete(self._paths.live)]
        own = layout.session_name(self._session.id)
        for resource, states in self._resources.items():
            path = self._paths.current_state(own, resource)
            for replica in states.replicas.values():
                replica.before, replica.state, replica.token = replica.state, states.model.initial, None
            body = self._record(resource).to_json()
            operations.append(create(path, body) if states.version is None else change(path, body))
        return operations


def _entry(replica: _Replica) -> dict[str, str]:
    """One lock in CURRENTSTATES."""
    entry = {"CURRENT_STATE": replica.state}
    if replica.before:
        entry |= {"PREVIOUS_STATE": replica.before, "START_TIME": str(replica.since_ms)}
    if replica.token is not None:
        entry[TOKEN] = str(replica.token)
    return entry
