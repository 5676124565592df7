"""Recording what a client process says to its store and hears from it.

`Journal` is one process's pen: it fills in who and when, so that nobody else
reads clocks for the record. `RecordingStore` wraps any `ObjectStore`, in both
worlds, and writes a *sent* and a *replied* event around every request; the
simulated store adds *applied* in between. Which kind of write a request is
(acquire, renew, release) follows from the record it carries, never from the
provider's word: a lock under test must not describe itself.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable

from lockref.history import ABSENT, IF_ABSENT, Kind, Op, Recorder
from lockref.lab.contract import require_key, require_version, require_write
from lockref.provider import RecordDecoder, RecordView
from lockref.runtime import Runtime
from lockref.stores.port import ObjectStore, Outcome, ReadReply, StoreCapabilities, Version, WriteReply

_GrantName = tuple[str, int | None]

Stamp = tuple[int, int, int, str]
"""When and who, read together: true time, wall and monotonic reading of the process, name of the running task."""


def host_stamp(runtime: Runtime) -> Callable[[], Stamp]:
    """Stamps of a real process. True time is the monotonic clock, which every process of one host shares."""

    def stamp() -> Stamp:
        mono_ns = runtime.monotonic_ns()
        return mono_ns, runtime.wall_ns(), mono_ns, runtime.current_task().name

    return stamp


class Journal:
    """One process's pen on a run's recorder.

    stamp: the clocks and the task; one call, because half the cost of an event is knowing when it was.
    numbers: gives request numbers, unique in the run.
    """

    __slots__ = ("_record", "_stamp", "current_op", "current_request", "next_number", "node")

    def __init__(
        self,
        recorder: Recorder,
        *,
        node: str,
        stamp: Callable[[], Stamp],
        numbers: itertools.count[int],
    ) -> None:
        self.node = node
        self._record = recorder.event
        self._stamp = stamp
        self.next_number = numbers.__next__
        # Set just before a request goes to the store below, so that a simulated
        # store can join its own events to ours; nothing runs in between.
        self.current_request = ABSENT
        self.current_op = Op.NONE

    def event(
        self,
        kind: int,
        lock: str = "",
        op: int = 0,
        outcome: int = 0,
        request: int = ABSENT,
        attempt: int = ABSENT,
        if_version: str = "",
        version: str = "",
        content: str = "",
        token: int | None = None,
        owner: str = "",
        valid_until_ns: int | None = None,
        detail: str = "",
    ) -> None:
        """Append an event of this process, stamped now."""
        true_ns, wall_ns, mono_ns, task = self._stamp()
        self._record(
            kind,
            true_ns,
            wall_ns,
            mono_ns,
            self.node,
            task,
            lock,
            op,
            outcome,
            request,
            attempt,
            if_version,
            version,
            content,
            ABSENT if token is None else token,
            owner,
            ABSENT if valid_until_ns is None else valid_until_ns,
            detail,
        )


def content_id(body: bytes) -> str:
    """A short name for the bytes of an object: equal exactly for equal bytes, for all practical ends."""
    return hashlib.blake2b(body, digest_size=8).hexdigest()


class RecordingStore:
    """An `ObjectStore` that writes down every request before it leaves and after it is answered."""

    def __init__(self, store: ObjectStore, *, journal: Journal, decode: RecordDecoder) -> None:
        self._store = store
        self._journal = journal
        self._decode = decode
        # By key: owner and token of the grant that this process last learned to be its own, from an answer or,
        # where that told nothing, from reading its own bytes. To write the same two again is to renew; the
        # same owner under another token has asked anew.
        self._granted: dict[str, _GrantName] = {}
        self._asked: dict[str, tuple[str, _GrantName]] = {}

    @property
    def capabilities(self) -> StoreCapabilities:
        return self._store.capabilities

    def _classify(self, key: str, view: RecordView | None) -> Op:
        if view is None:
            return Op.WRITE
        if view.is_released:
            return Op.RELEASE
        return Op.RENEW if self._granted.get(key) == (view.owner, view.token) else Op.ACQUIRE

    def _write(self, key: str, body: bytes, if_version: str, send: Callable[[], WriteReply]) -> WriteReply:
        journal = self._journal
        view = self._decode(body)
        op = self._classify(key, view)
        number = journal.next_number()
        content = content_id(body)
        token, owner, valid_until = (view.token, view.owner, view.valid_until_ns) if view else (None, "", None)
        journal.event(Kind.SENT, key, op, 0, number, 0, if_version, "", content, token, owner, valid_until)
        journal.current_request, journal.current_op = number, op
        reply = send()
        journal.event(
            Kind.REPLIED, key, op, reply.outcome, number, 0, if_version, reply.version or "", content, token, owner,
            valid_until, f"missing {reply.reason}" if reply.missing else reply.reason,
        )  # fmt: skip
        if view is not None:
            if op is Op.ACQUIRE:
                self._asked[key] = (content, (view.owner, view.token))
                if reply.outcome is Outcome.APPLIED:
                    self._granted[key] = (view.owner, view.token)
            elif op is Op.RELEASE and reply.outcome is Outcome.APPLIED:
                self._granted.pop(key, None)
        return reply

    def read(self, key: str) -> ReadReply:
        require_key("read", key)
        journal = self._journal
        number = journal.next_number()
        journal.event(Kind.SENT, key, Op.READ, 0, number, 0)
        journal.current_request, journal.current_op = number, Op.READ
        reply = self._store.read(key)
        view = self._decode(reply.body) if reply.body is not None else None
        token, owner, valid_until = (view.token, view.owner, view.valid_until_ns) if view else (None, "", None)
        content = "" if reply.body is None else content_id(reply.body)
        journal.event(
            Kind.REPLIED, key, Op.READ, reply.outcome, number, 0, "", reply.version or "", content, token, owner,
            valid_until, reply.reason,
        )  # fmt: skip
        asked = self._asked.get(key)
        if asked is not None and asked[0] == content:
            self._granted[key] = asked[1]
        return reply

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        require_write("put_if_absent", key, body)
        return self._write(key, body, IF_ABSENT, lambda: self._store.put_if_absent(key, body))

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        require_write("put_if_version", key, body, version)
        return self._write(key, body, version, lambda: self._store.put_if_version(key, body, version))

    def put(self, key: str, body: bytes) -> WriteReply:
        require_write("put", key, body)
        return self._write(key, body, "", lambda: self._store.put(key, body))

    def delete(self, key: str, version: Version | None = None) -> WriteReply:
        require_key("delete", key)
        if version is not None:
            require_version("delete", version)
        journal = self._journal
        number = journal.next_number()
        journal.event(Kind.SENT, key, Op.DELETE, 0, number, 0, version or "")
        journal.current_request, journal.current_op = number, Op.DELETE
        reply = self._store.delete(key, version)
        journal.event(Kind.REPLIED, key, Op.DELETE, reply.outcome, number, 0, version or "", reply.version or "")
        if reply.outcome is Outcome.APPLIED:
            self._granted.pop(key, None)
        return reply

    def close(self) -> None:
        self._store.close()
