"""Recording what a client process says to its store and hears from it.

`Journal` writes for one process: it fills in who and when, so that nobody else
reads clocks for the record. `RecordingChannel` stands before the channel to
any service, in both worlds. It numbers each request and writes a *sent* and a
*replied* event around it; a simulated service adds *applied* in between. Which
kind of write a request is (acquire, renew, release) follows from the record it
carries, never from the provider's word: a lock under test must not describe
itself.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from typing import TypeVar

from lockref.history import Recorder, Stamp
from lockref.lab.lock_rows import LockRows, sized
from lockref.ports import Channel, PortKind, PushChannel, Reply, Request, of_fields
from lockref.provider import LockView, StateDecoder
from lockref.runtime import Runtime
from lockref.stores.client import OBJECT_STORE, StoreChannel
from lockref.stores.port import ObjectStore
from lockref.words import Kind, Op, Outcome

# Python 3.11 takes long to find a member of an enumeration; these are asked for with every request.
_KIND_REPLIED = Kind.REPLIED
_KIND_SENT = Kind.SENT
_OP_ACQUIRE = Op.ACQUIRE
_OP_DELETE = Op.DELETE
_OP_NONE = Op.NONE
_OP_READ = Op.READ
_OP_RELEASE = Op.RELEASE
_OP_RENEW = Op.RENEW
_OP_WRITE = Op.WRITE
_OUTCOME_AMBIGUOUS = Outcome.AMBIGUOUS
_OUTCOME_APPLIED = Outcome.APPLIED

P = TypeVar("P")
_GrantName = tuple[str, int | None]


def host_stamp(runtime: Runtime) -> Callable[[], Stamp]:
    """Stamps of a real process. True time is the monotonic clock, which every process of one host shares.

    It is read before the wall clock. If the machine stops the thread between the two, a validity seems to end too
    early, never too late, so that no rightful takeover seems early (S5, S6).
    """

    def stamp() -> Stamp:
        mono_ns = runtime.monotonic_ns()
        return mono_ns, runtime.wall_ns(), mono_ns, runtime.current_task().name

    return stamp


class OpenCalls:
    """Which calls of a lock the clients of one process have open, and which of them hold it.

    A lock under test must not describe itself, and its record may be misread: a token that rises with each write makes
    a renewal look like an acquisition, a stamp that has passed makes a release look like a renewal. The calls are the
    harness's own, so a plan goes by them (`Request.serves`). Safe to share between threads: each step is one operation
    on a dictionary.
    """

    __slots__ = ("_holders", "_open")

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], Op] = {}
        self._holders: dict[tuple[str, str], None] = {}

    def began(self, lock: str, task: str, op: Op) -> None:
        """A client's task calls a lock to acquire or to release it."""
        self._open[lock, task] = op

    def returned(self, lock: str, task: str, *, is_granted: bool = False) -> None:
        """The call is over. is_granted: from now on the task holds the lock."""
        op = self._open.pop((lock, task), _OP_NONE)
        if is_granted:
            self._holders[lock, task] = None
        elif op is _OP_RELEASE:
            self._holders.pop((lock, task), None)

    def holds_on(self, lock: str, task: str) -> None:
        """After an inner release, the task holds the lock as before."""
        self._holders[lock, task] = None

    def served(self, lock: str, task: str, looks: Op) -> Op:
        """The operation that a write of a lock's record serves. looks: the operation that the record alone suggests.

        A record that says that it is free is a release, whoever asks for what. A write by a client's own task serves
        the call that this task has open. Any other write serves a holder, while there is one: it renews. What is left
        is known by its look alone: a task that the lock started for a call, or a write after the call.
        """
        if looks is _OP_RELEASE:
            return looks
        own = self._open.get((lock, task))
        if own is not None:
            return own
        for held, _task in tuple(self._holders):
            if held == lock:
                return _OP_RENEW
        return looks


class Journal:
    """Writes the events of one process into a run's recorder.

    record: the recorder's `event`. stamp: the clocks and the task; one call, because half the cost of an event is
    knowing when it was. numbers: gives request numbers, unique in the run. is_detailed: as of its recorder.
    calls: those of its clients.
    """

    __slots__ = ("calls", "is_detailed", "next_number", "node", "record", "stamp")

    def __init__(
        self,
        recorder: Recorder,
        *,
        node: str,
        stamp: Callable[[], Stamp],
        numbers: itertools.count[int],
    ) -> None:
        self.node = node
        self.record = recorder.event
        self.is_detailed = recorder.is_detailed
        self.calls = OpenCalls()
        self.stamp = stamp
        self.next_number = numbers.__next__


_UNNAMED = hashlib.blake2b(digest_size=8)
"""Copied for each body: to make a hash anew takes half as long again."""


def content_id(body: bytes) -> str:
    """A short name for the bytes of an object: equal exactly for equal bytes, for all practical ends."""
    name = _UNNAMED.copy()
    name.update(body)
    return name.hexdigest()


Look = Callable[[str, bytes], tuple[str, Sequence[LockView]]]
"""A body's short name and what it says about locks, under this key."""


def looking(decode: StateDecoder) -> Look:
    """Look at a body anew each time, as a process of a real run does."""

    def look(key: str, body: bytes) -> tuple[str, Sequence[LockView]]:
        return content_id(body), decode(key, body)

    return look


class RecordingChannel:
    """A channel that writes down every request about a state before it leaves and after it is answered.

    A body that tells of several locks leaves a row for each of them, with one request number.
    look: what the bodies of this service say about locks.
    """

    __slots__ = (
        "_asked",
        "_channel",
        "_granted",
        "_journal",
        "_lock_rows",
        "_look",
        "_own",
        "_receive",
        "_send",
        "client",
        "service",
    )

    def __init__(self, channel: Channel, *, journal: Journal, look: Look) -> None:
        self._channel = channel
        self._send = channel.send
        # Asked here once: `isinstance` of a protocol looks up each of its members.
        self._receive = channel.receive if isinstance(channel, PushChannel) else None
        self._journal = journal
        self._look = look
        self.client = journal.node
        self.service = channel.service
        # By lock: owner and token of the grant that this process last learned to be its own, from an answer or,
        # where no definite answer came, from reading its own bytes. To write the same two again is to renew; the
        # same owner under another token has asked anew.
        self._granted: dict[str, _GrantName] = {}
        self._asked: dict[str, tuple[str, _GrantName]] = {}
        # The locks whose record is, as far as this process knows, its own: to delete one of these is to give it back.
        self._own: set[str] = set()
        self._lock_rows = LockRows()

    @property
    def capabilities(self) -> object:
        return self._channel.capabilities

    def close(self) -> None:
        self._channel.close()

    def receive(self, timeout_ns: int | None) -> object | None:
        """See `PushChannel`. What a service pushes is not written down."""
        assert self._receive is not None, f"{self.service} pushes nothing"
        return self._receive(timeout_ns)

    def _classify(self, lock: str, view: LockView) -> Op:
        if view.is_released:
            return _OP_RELEASE
        return _OP_RENEW if self._granted.get(lock) == (view.owner, view.token) else _OP_ACQUIRE

    def _classify_each(self, key: str, views: Sequence[LockView]) -> tuple[Op, ...]:
        """The operation of a write on each lock in its body.

        A lock that the write carries along unchanged gets a plain WRITE.
        """
        known = self._lock_rows.known(key)
        return tuple(
            _OP_WRITE if known.get(view.lock) == view else self._classify(view.lock or key, view) for view in views
        )

    def send(self, request: Request, timeout_ns: int) -> Reply:
        client, service, verb, key, condition, body, op, _, _, _, _ = request
        if op is _OP_READ:
            return self._read(request, timeout_ns)
        if op is _OP_NONE:
            # About a connection, not about a state: a session that is kept alive, a list of names.
            return self._send(request, timeout_ns)
        journal = self._journal
        record, stamp, number = journal.record, journal.stamp, journal.next_number()
        content, views = ("", ()) if body is None else self._look(key, body)
        ops: tuple[Op, ...] = ()
        only_lock = ""
        if op is _OP_WRITE and views:
            if len(views) == 1 and self._lock_rows.is_only_lock(key, views[0].lock):
                only_lock = views[0].lock or key
                op = self._classify(only_lock, views[0])
            else:
                ops = self._classify_each(key, views)
        rows = self._lock_rows.rows(key, op, views, ops)
        length = len(body) if journal.is_detailed and body is not None else None
        serves = _OP_NONE
        for lock, its_op, view, token, owner, valid_until_ns, duration in rows:
            told = duration if length is None else sized(view, length)
            now = stamp()
            if only_lock:
                # By the stamp of the row: to ask for the task again would cost as much as to record the row.
                serves = journal.calls.served(only_lock, now[3], op)
            record(
                _KIND_SENT, now, client, lock, its_op, 0, number, 0, condition, "", content, token, owner,
                valid_until_ns, told,
            )  # fmt: skip
        gives_back = op is _OP_DELETE and any(row[0] in self._own for row in rows)
        fields = (client, service, verb, key, condition, body, op, number, ops, gives_back, serves)
        send = self._send
        reply = send(of_fields(Request, fields), timeout_ns)
        outcome, version, _body, missing, _status, reason = reply
        if missing:
            reason = f"missing {reason}"
        if op is _OP_DELETE:
            # The row of a deletion has no reason: rows of older versions have none, and digests of runs depend on it.
            reason = ""
        for lock, its_op, view, token, owner, valid_until_ns, _duration in rows:
            record(
                _KIND_REPLIED, stamp(), client, lock, its_op, outcome, number, 0, condition, version or "",
                content, token, owner, valid_until_ns, reason,
            )  # fmt: skip
            self._learn(lock, its_op, content, view, outcome)
        if outcome is _OUTCOME_APPLIED:
            self._lock_rows.remember(key, views)
        return reply

    def _learn(self, lock: str, op: Op, content: str, view: LockView | None, outcome: Outcome) -> None:
        """Learn from the answer to a write about the grants of this process."""
        if op is _OP_ACQUIRE:
            assert view is not None, "only a lock record asks for a lock"
            self._asked[lock] = (content, (view.owner, view.token))
            if outcome is _OUTCOME_APPLIED:
                self._granted[lock] = (view.owner, view.token)
            # A write that nobody has answered may have landed.
            if outcome is _OUTCOME_APPLIED or outcome is _OUTCOME_AMBIGUOUS:
                self._own.add(lock)
        elif outcome is _OUTCOME_APPLIED and (op is _OP_RELEASE or op is _OP_DELETE):
            self._granted.pop(lock, None)
            self._own.discard(lock)

    def _read(self, request: Request, timeout_ns: int) -> Reply:
        client, service, verb, key, condition, body, op, _, _, _, _ = request
        journal = self._journal
        record, stamp, number = journal.record, journal.stamp, journal.next_number()
        record(_KIND_SENT, stamp(), client, key, op, 0, number, 0)
        fields = (client, service, verb, key, condition, body, op, number, (), False, _OP_NONE)
        send = self._send
        reply = send(of_fields(Request, fields), timeout_ns)
        outcome, version, found, _missing, _status, reason = reply
        content, views = ("", ()) if found is None else self._look(key, found)
        for lock, its_op, view, token, owner, valid_until_ns, _duration in self._lock_rows.rows(key, op, views):
            record(
                _KIND_REPLIED, stamp(), client, lock, its_op, outcome, number, 0, "", version or "",
                content, token, owner, valid_until_ns, reason,
            )  # fmt: skip
            asked = self._asked.get(lock)
            if asked is not None and asked[0] == content:
                self._granted[lock] = asked[1]
            if outcome is _OUTCOME_APPLIED:
                if view is not None and self._granted.get(lock) == (view.owner, view.token):
                    self._own.add(lock)
                else:
                    self._own.discard(lock)
        if outcome is _OUTCOME_APPLIED:
            self._lock_rows.remember(key, views)
        return reply


def recorded_store(store: ObjectStore, *, journal: Journal, decode: StateDecoder) -> ObjectStore:
    """A real store as one process's lock sees it: every request is written down.

    The store keeps its own timeout, which no request shortens.
    """
    return recorded_port(OBJECT_STORE, StoreChannel(store), 0, journal=journal, decode=decode)


def recorded_port(kind: PortKind[P], channel: Channel, timeout_ns: int, *, journal: Journal, decode: StateDecoder) -> P:
    """A client of a real service as one process's lock sees it: every request is written down."""
    return kind.over(RecordingChannel(channel, journal=journal, look=looking(decode)), timeout_ns)
