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

from collections.abc import Mapping
from typing import Final

from lockref.coordination.port import GET, Change, Operation, SessionState, Stat, WatchEvent, change, create, delete
from lockref.coordination.session import ReadRequest, Session
from lockref.errors import BackendUnavailable, ConfigError, LockLost, ReleaseFailed, StoreRejected
from lockref.helix.participant.application import Handlers, Listener, ParticipantSettings
from lockref.helix.participant.arrival import Arrival
from lockref.helix.participant.current_states import STATES_BYTES_MAX
from lockref.helix.participant.holdings import Holdings
from lockref.helix.participant.patience import REFUSED_PAUSES, RETRY_PAUSE_NS, Patience
from lockref.helix.participant.transitions import Transitions
from lockref.helix.records import layout
from lockref.helix.records.messages import Message
from lockref.helix.records.zn_record import ZNRecord
from lockref.ports import Reply
from lockref.runtime import NS_PER_S, MonoNs, Runtime
from lockref.words import Outcome

DEPARTURE_ATTEMPTS: Final = 3
"""So often an instance tries to say that it gives everything back, before it ends its session without saying so."""


class Participant:
    """One instance of a cluster, under one session at a time.

    session: not yet started; the participant ends it. instance: its name; two processes must not share one (Z18).
    handlers: by state model. listener: told of grants and losses.
    """

    transitions: type[Transitions] = Transitions
    """How it executes messages."""

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
        self._paths = paths = layout.InstancePaths(cluster, instance)
        self._instance = instance
        self._runtime = runtime
        self._handlers = handlers
        self._settings = ParticipantSettings() if settings is None else settings
        self._listener = Listener() if listener is None else listener
        mutex = runtime.mutex()
        self._joining = runtime.mutex()
        self._holdings = Holdings(session, mutex, self._settings, self._listener)
        self._patience = Patience(session, instance, runtime, self._holdings)
        self._arrival = Arrival(
            session,
            paths,
            runtime=runtime,
            patience=self._patience,
            handlers=handlers,
            requires_handlers=self._settings.requires_handlers,
            listener=self._listener,
        )
        self._transitions = self.transitions(
            session,
            paths,
            runtime=runtime,
            mutex=mutex,
            patience=self._patience,
            holdings=self._holdings,
            handlers=handlers,
            listener=self._listener,
            on_wait=self._look_again,
        )
        self._known: dict[str, None] = {}
        self._own_session = 0

    # Joining.

    def join(self, *, until_ns: MonoNs | None = None) -> None:
        """Go live and begin to execute messages, until `leave`.

        until_ns: when to give up, on the monotonic clock; None: never.
        Errors: ConfigError if the instance is not configured and the cluster lets nobody join by itself, if the cluster
        is not there, if a transition has no handler, or if another process lives under this name; BackendUnavailable.
        """
        session, settings = self._session, self._settings
        self._patience.until_ns = until_ns
        self._arrival.may_be_live = False
        session.start(self._runtime, timeout_ns=settings.session_timeout_ns, is_wanted=self._patience.may_go_on)
        self._own_session = session.id
        self._arrival.require_handled()
        self._arrival.require_configured()
        self._arrival.go_live()
        self._patience.until_ns = None
        self._runtime.spawn(self._serve, name=f"participant {self._instance}")

    @property
    def may_be_live(self) -> bool:
        """True if the cluster may know this instance by its present session: also where it could not join in time."""
        return self._arrival.may_be_live

    # Messages.

    def _serve(self) -> None:
        """Take the messages of one session after the other until the participant leaves (section 6, 5)."""
        while not self._patience.is_leaving:
            try:
                self._take_messages()
                event = self._session.next_event(self._session.timeout_ns)
                if event is SessionState.SUSPENDED:
                    self._holdings.suspend()
                elif event is SessionState.CONNECTED:
                    self._require_live()
                    self._holdings.resume()
                elif event == WatchEvent(Change.DELETED, self._paths.live, self._session.id):
                    self._require_live()
                elif event is SessionState.LOST:
                    raise LockLost("the session has ended", reason="session ended")
            except LockLost as error:
                if self._patience.is_leaving:
                    # The one that leaves ends the session. The next participant of this process may have its own.
                    return
                self._live_anew(error.reason)
            except (StoreRejected, ConfigError) as error:
                if self._patience.is_leaving:
                    return
                # Somebody has taken a right away, or written nonsense. What is held stays held; it may be mended.
                self._listener.alarm(str(error))
                self._runtime.sleep(self._session.timeout_ns // REFUSED_PAUSES)

    def _require_live(self) -> None:
        """Raises LockLost if somebody has removed the znode by which the cluster knows that this instance lives.

        Its locks go to others then, although its session lasts.
        """
        reply = self._session.exists(self._paths.live, is_watching=True)
        is_gone = reply.missing or (isinstance(reply.version, Stat) and reply.version.owner != self._session.id)
        if is_gone and not self._patience.is_leaving:
            self._listener.alarm(f"somebody has removed {self._paths.live}")
            raise LockLost(f"{self._paths.live} was removed", reason="removed from the live instances")

    def _live_anew(self, reason: str) -> None:
        """The session is over: forget what was held under it, and join under a new one, however long that takes."""
        self._holdings.lose_all(reason)
        self._known.clear()
        self._session.end(self._own_session)
        while not self._patience.is_leaving:
            try:
                with self._joining:
                    self._session.start(
                        self._runtime,
                        timeout_ns=self._settings.session_timeout_ns,
                        is_wanted=lambda: not self._patience.is_leaving,
                    )
                    self._own_session = self._session.id
                    self._arrival.go_live()
                return
            except (LockLost, BackendUnavailable, StoreRejected, ConfigError) as error:
                if not self._patience.is_leaving:
                    self._listener.alarm(f"{self._instance} cannot join again: {error}")
                    self._session.end(self._own_session)
                    self._runtime.sleep(RETRY_PAUSE_NS)

    def _take_messages(self) -> None:
        """Every message that is there and not yet known, oldest first."""
        names = self._patience.children(self._paths.messages, is_watching=True)
        self._known = {name: None for name in names if name in self._known}
        fresh: list[Message] = []
        unknown = [name for name in names if name not in self._known]
        replies = self._session.read_all(
            [ReadRequest(GET, self._paths.message(name), is_watching=False) for name in unknown]
        )
        for name, reply in zip(unknown, replies, strict=True):
            path = self._paths.message(name)
            found = reply if reply.outcome is Outcome.APPLIED else self._patience.read(path)
            if found.missing:
                continue
            self._known[name] = None
            message = self._readable(name, path, found)
            if message is not None:
                fresh.append(message)
        for message in sorted(fresh, key=lambda each: each.created_zxid):
            try:
                states = self._arrival.states_of(message.resource, message.model)
                self._transitions.enqueue(states, message)
            except ConfigError as error:
                # Not removed: a message that is gone counts as executed.
                self._listener.alarm(f"{self._paths.message(message.id)} cannot be executed: {error}")

    def _look_again(self, message: str) -> None:
        """A message that could not be begun is read again with the next one."""
        self._known.pop(message, None)

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

    # What the application asks.

    def holds(self, lock: str) -> bool:
        """May the application still act under this lock? Local: no request, no waiting."""
        return self._holdings.may_be_used(lock)

    def token(self, lock: str) -> int | None:
        """The fencing token of a lock that is held; None of another."""
        return self._holdings.token(lock)

    @property
    def held(self) -> tuple[str, ...]:
        """The locks that the cluster has given to this instance, sorted. Whether one may still be used says `holds`."""
        return self._holdings.locks

    def leave(self) -> None:
        """Give back every lock and end the session, so that others need not wait for its end. Idempotent.

        Errors: LockLost if the session turned out to be over, or if somebody had removed this instance from the
        cluster; ReleaseFailed if nobody answered.
        """
        if self._patience.is_leaving:
            return
        self._patience.is_leaving = True
        # A task that is about to open a new session stops at its next step: nothing may be opened after this.
        with self._joining:
            self._depart()

    def _depart(self) -> None:
        was_holding = self._holdings.give_up_all()
        is_confirmed, is_open, is_removed = not was_holding, False, False
        for _ in range(DEPARTURE_ATTEMPTS if was_holding else 0):
            if self._session.state is SessionState.LOST:
                break
            reply = self._session.multi(self._departure())
            # What is not there was removed by an attempt whose answer was lost, else by somebody else.
            is_confirmed = reply.outcome is Outcome.APPLIED or (reply.missing and is_open)
            is_removed = reply.missing and not is_open
            if is_confirmed or is_removed:
                break
            is_open |= reply.outcome is Outcome.AMBIGUOUS
        if was_holding and self._session.state is SessionState.LOST:
            raise LockLost(f"the session of {self._instance!r} was over before it left", reason="session ended")
        ended = self._session.end(self._own_session)
        if ended is not None and ended.outcome is not Outcome.APPLIED:
            raise ReleaseFailed(
                f"instance {self._instance!r} has left, and nobody confirmed it. Its session ends by itself within "
                f"{self._session.timeout_ns / NS_PER_S:g} s"
            )
        if is_removed:
            raise LockLost(f"{self._instance!r} was removed from the cluster before it left", reason="removed")
        if ended is not None and not is_confirmed:
            raise ReleaseFailed(
                f"instance {self._instance!r} has left, and its session has ended, but nobody confirmed that its "
                "states say so"
            )

    def _departure(self) -> list[Operation]:
        """Say that every lock is given back, and vanish, as one transaction."""
        operations = [delete(self._paths.live)]
        own = layout.session_name(self._session.id)
        for resource, states in self._arrival.resources.items():
            path = self._paths.current_state(own, resource)
            for replica in states.replicas.values():
                replica.before, replica.state, replica.token = replica.state, states.model.initial, None
            body = states.record(own).to_json(STATES_BYTES_MAX)
            operations.append(create(path, body) if states.version is None else change(path, body))
        return operations
