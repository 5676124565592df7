"""The transitions of one instance's locks: messages are executed, and answered with the state that they led to.

The handler of a transition is called, and the new state is written in one transaction with the removal of the message.
A controller that saw the message gone and the state unchanged would grant the lock a second time (T28).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from lockref.coordination.port import Stat, change, create, delete
from lockref.coordination.session import Session
from lockref.errors import LockError, LockLost, StoreRejected
from lockref.helix.participant.application import Handlers, Listener
from lockref.helix.participant.current_states import STATES_BYTES_MAX, Replica, States
from lockref.helix.participant.holdings import Holdings
from lockref.helix.participant.patience import REFUSED_PAUSES, Patience
from lockref.helix.records import layout
from lockref.helix.records.messages import Message
from lockref.helix.records.zn_record import RecordTooLarge
from lockref.helix.state_model import DROPPED, ERROR
from lockref.runtime import NS_PER_MS, Mutex, Runtime
from lockref.words import Outcome

PUBLISHED_AT_ONCE: Final = 500
"""So many messages are answered with one writing of the states, where they wait for it."""


class Transitions:
    """Executes messages: those of one lock one after the other, those of different locks side by side.

    mutex: of the participant. on_wait: told the id of a message that could not be begun, and is to be enqueued again.
    """

    def __init__(
        self,
        session: Session,
        paths: layout.InstancePaths,
        *,
        runtime: Runtime,
        mutex: Mutex,
        patience: Patience,
        holdings: Holdings,
        handlers: Mapping[str, Handlers],
        listener: Listener,
        on_wait: Callable[[str], None],
    ) -> None:
        self._session = session
        self._paths = paths
        self._instance = paths.name
        self._runtime = runtime
        self._mutex = mutex
        self._patience = patience
        self._holdings = holdings
        self._handlers = handlers
        self._listener = listener
        self._on_wait = on_wait

    def enqueue(self, states: States, message: Message) -> None:
        """The message is executed once the earlier ones of the same lock are."""
        with self._mutex:
            replica = states.replicas.setdefault(message.lock, Replica(states.model.initial, is_reported=False))
            replica.queue.append(message)
            if replica.is_busy:
                return
            replica.is_busy = True
        self._runtime.spawn(lambda: self._work_off(states, replica), name=f"{self._instance} {message.lock}")

    def _work_off(self, states: States, replica: Replica) -> None:
        """Execute the next message of one lock. The thread that answers it then executes the message behind it."""
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

    def _go_on(self, states: States, replica: Replica) -> None:
        """The first message of its queue is done with."""
        with self._mutex:
            replica.queue.pop(0)
            replica.is_busy = bool(replica.queue)
            if not replica.is_busy:
                return
            name = f"{self._instance} {replica.queue[0].lock}"
        self._runtime.spawn(lambda: self._work_off(states, replica), name=name)

    def _answer_all(self, states: States) -> None:
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

    def _answered(self, states: States, message: Message) -> None:
        """The cluster knows the new states: locks that were granted are held from now on. Raises LockLost."""
        top, replica = states.model.top, states.replicas[message.lock]
        is_granted = replica.state == top == message.target and replica.token is not None
        with self._mutex:
            self._patience.require_session(message)
            del states.unwritten[message.id]
            if is_granted and replica.token is not None:
                self._holdings.take(message.lock, replica.token)
        if is_granted and replica.token is not None:
            self._listener.granted(message.lock, replica.token)
        self._go_on(states, replica)

    def _is_executed(self, states: States, replica: Replica, message: Message) -> bool:
        """One transition (section 3, participant side). False if the message has to wait. Raises LockLost."""
        # Who leaves has entered every lock as given back: what was sent meanwhile does not fit, and need not.
        self._patience.require_session(message)
        top = states.model.top
        if replica.state not in (message.source, message.target):
            self._listener.alarm(f"{message.lock} is {replica.state}; a message wants it from {message.source}")
        elif replica.state == message.source != message.target:
            if not self._fits(states, message):
                return False
            if message.source == top:
                # The holder stops before anybody can read that it has stopped.
                self._holdings.give_up(message.lock)
            replica.before, replica.since_ms = replica.state, self._runtime.wall_ns() // NS_PER_MS
            after = self._handled(message)
            self._patience.require_session(message)
            replica.is_reported = after != DROPPED
            replica.state = states.model.initial if after == DROPPED else after
            replica.token = message.created_zxid if replica.state == top else None
        # A duplicate, and a message that does not fit, are answered with the state as it is.
        return True

    def _fits(self, states: States, message: Message) -> bool:
        """Can the new state be written? If not, the message waits, and is looked at again with the next one."""
        if states.fits(message):
            return True
        self._listener.alarm(
            f"{message.lock} is not taken: {self._instance} has {len(states.replicas)} locks, whose record takes "
            f"{states.compressed_bytes} bytes, compressed; there is room for {STATES_BYTES_MAX}"
        )
        self._on_wait(message.id)
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

    def _write_states(self, states: States, batch: Sequence[Message]) -> None:
        """One transaction, settled before it returns. Raises LockLost, StoreRejected, RecordTooLarge."""
        path = self._paths.current_state(batch[0].session, states.resource)
        pending = [self._paths.message(each.id) for each in batch]
        while True:
            self._patience.require_session(batch[0])
            record = states.record(batch[0].session)
            body = record.to_json(STATES_BYTES_MAX)
            write = create(path, body) if states.version is None else change(path, body, states.version)
            reply = self._session.multi([write, *map(delete, pending)])
            states.written(record, body)
            if reply.outcome is Outcome.APPLIED:
                states.version = 0 if states.version is None else states.version + 1
                written = reply.version
                break
            # Nobody said yes. Somebody may have removed a message, or written the znode: so look.
            found = self._patience.read(path)
            pending = [each for each in pending if not self._patience.read(each).missing]
            states.version = found.version.version if isinstance(found.version, Stat) else None
            if found.body == body and not pending:
                written = found.version
                break
            if reply.outcome is not Outcome.PRECONDITION_FAILED:
                self._patience.pause(reply)
        # As in Helix, whose tools take an instance for evacuated once it has no such znode. Tried once, for nothing
        # else rests on it: the next write finds what is there. By version, so that a late one removes nothing newer.
        if not record.maps and isinstance(written, Stat):
            gone = self._session.delete(path, written)
            states.version = None if gone.outcome is Outcome.APPLIED else states.version
