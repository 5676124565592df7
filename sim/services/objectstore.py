"""A modelled object store: conditional writes with one linearization point.

A request is applied at one instant of true time; there, and nowhere else, the
truth is recorded (APPLIED rows). Dialects decide statuses and version tokens,
faults decide which requests get there, when, and what the client hears.

The clients' handle speaks the ObjectStore port and is wrapped in a
RecordingStore, so that a simulated history has the same rows as a real one.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, cast

from lockref.history import ABSENT, IF_ABSENT, Kind, Op
from lockref.lab.recording import RecordingStore, content_id
from lockref.provider import RecordDecoder, RecordView
from lockref.stores.port import ObjectStore, Outcome, ReadReply, StoreCapabilities, Version, WriteReply
from sim.kernel.clocks import WALL_EPOCH_NS
from sim.machine.nodes import Node, Process
from sim.services.dialects import Dialect, Versions, dialect_of, outcome_of
from sim.services.wire import Exchange, Refusal

if TYPE_CHECKING:
    from sim.world import World

OPERATOR = "operator"
"""Node name of whoever reaches into the store from outside the game."""

Stored = tuple[bytes, Version]


class ObjectStoreService:
    """One bucket. Made by `World.object_store`.

    decode: reads lock records, for the owner, token and validity in APPLIED rows.
    """

    def __init__(self, world: World, *, name: str = "store", dialect: str = "s3", decode: RecordDecoder) -> None:
        self._world = world
        self.name = name
        self.dialect: Dialect = dialect_of(dialect)
        self.capabilities = StoreCapabilities(
            dialect=dialect, versions_repeat=self.dialect.versions is Versions.CONTENT, conditional_delete=True
        )
        self._decode = decode
        self._seen: dict[bytes, tuple[str, RecordView | None]] = {}
        self._objects: dict[str, Stored] = {}
        # Past states by key, newest last, for stale reads: (since, state).
        self._past: dict[str, list[tuple[int, Stored | None]]] = {}
        self._writes = 0
        world.stores[name] = self

    def connect(self, node: Node, request_timeout_ns: int) -> ObjectStore:
        """This store as the node's present process sees it; its requests time out on that node's clock."""
        client = _StoreClient(self, node.process, request_timeout_ns)
        return RecordingStore(client, journal=node.journal, decode=self.decode)

    def decode(self, body: bytes) -> RecordView | None:
        """As the decoder given, remembered: one body is looked at by client, service and reader."""
        return self._look(body)[1]

    def _look(self, body: bytes) -> tuple[str, RecordView | None]:
        seen = self._seen.get(body)
        if seen is None:
            seen = self._seen[body] = (content_id(body), self._decode(body))
        return seen

    def present_keys(self) -> list[str]:
        """The keys of present objects, sorted."""
        return sorted(self._objects)

    def peek(self, key: str, lag_ns: int = 0) -> Stored | None:
        """Body and version, as of `lag_ns` ago; None if absent. No request, for observers and faults."""
        if lag_ns:
            as_of = self._world.kernel.now_ns - lag_ns
            for since_ns, state in reversed(self._past.get(key, ())):
                if since_ns <= as_of:
                    return state
            return None
        return self._objects.get(key)

    # Applying. Runs on the kernel.

    def _set(self, key: str, body: bytes) -> Version:
        self._writes += 1
        versions = self.dialect.versions
        if versions is Versions.CONTENT:
            version = hashlib.md5(body, usedforsecurity=False).hexdigest()
        elif versions is Versions.RISING:
            version = str(WALL_EPOCH_NS // 1000 + self._writes)
        else:
            version = f"0x8DC{self._writes:012X}"
        self._objects[key] = (body, Version(version))
        self._remember(key)
        return Version(version)

    def _remember(self, key: str) -> None:
        self._past.setdefault(key, []).append((self._world.kernel.now_ns, self._objects.get(key)))

    def _condition_status(self, key: str, if_version: str) -> int | None:
        """The status with which a condition fails; None if it holds."""
        present = self._objects.get(key)
        if if_version == IF_ABSENT:
            return None if present is None else self.dialect.exists
        if present is None:
            return self.dialect.absent
        return None if present[1] == if_version else self.dialect.stale

    def apply_write(self, exchange: Exchange, body: bytes, if_version: str) -> WriteReply:
        """A put takes effect, or its condition fails."""
        key = exchange.key
        status = self._condition_status(key, if_version) if if_version else None
        if status is not None and self._is_condition_ignored(exchange):
            status = None
        if status is None:
            version = self._set(key, body)
            reply = WriteReply(outcome=Outcome.APPLIED, version=version, status=self.dialect.created)
        else:
            reply = WriteReply(
                outcome=Outcome.PRECONDITION_FAILED,
                missing=key not in self._objects,
                status=status,
                reason="condition not met",
            )
        content, view = self._look(body)
        self._record(exchange, reply, if_version, content, view)
        return reply

    def apply_delete(self, exchange: Exchange, if_version: str) -> WriteReply:
        """A delete takes effect, or its condition fails."""
        key, dialect = exchange.key, self.dialect
        present = self._objects.get(key)
        is_stale = present is not None and if_version not in ("", present[1])
        if is_stale and self._is_condition_ignored(exchange):
            is_stale = False
        if present is None:
            status = dialect.delete_conditional_absent if if_version else dialect.delete_absent
            outcome = Outcome.APPLIED if status < 300 else Outcome.PRECONDITION_FAILED
            reply = WriteReply(outcome=outcome, missing=True, status=status, reason="no such object")
        elif is_stale:
            reply = WriteReply(outcome=Outcome.PRECONDITION_FAILED, status=dialect.stale, reason="condition not met")
        else:
            del self._objects[key]
            self._remember(key)
            reply = WriteReply(outcome=Outcome.APPLIED, status=dialect.deleted)
        self._record(exchange, reply, if_version, "", None)
        return reply

    def apply_read(self, exchange: Exchange) -> ReadReply:
        """A read is answered from the present state, or from an old one where a fault says so."""
        state = self.peek(exchange.key, exchange.stale_ns)
        if state is None:
            return ReadReply(outcome=Outcome.APPLIED, status=404)
        return ReadReply(outcome=Outcome.APPLIED, body=state[0], version=state[1], status=200)

    def _is_condition_ignored(self, exchange: Exchange) -> bool:
        """A condition is about to fail; True if a fault makes the store overlook it (M16, U13)."""
        return self._world.injector.is_condition_ignored(exchange)

    def _record(
        self, exchange: Exchange, reply: WriteReply, if_version: str, content: str, view: RecordView | None
    ) -> None:
        now = self._world.kernel.now_ns
        token, owner, valid_until = (view.token, view.owner, view.valid_until_ns) if view else (None, "", None)
        self._world.recorder.event(
            Kind.APPLIED, now, WALL_EPOCH_NS + now, now, exchange.client, self.name, exchange.key,
            Op[exchange.op.upper()], reply.outcome, exchange.request, exchange.applications - 1, if_version,
            reply.version or "", content, ABSENT if token is None else token, owner,
            ABSENT if valid_until is None else valid_until,
        )  # fmt: skip

    # The operator, who needs no network (U9, H17).

    def operator_put(self, key: str, body: bytes) -> None:
        """Overwrite an object from outside the game."""
        version = self._set(key, body)
        self._record_operator(key, Op.WRITE, version, body)

    def operator_delete(self, key: str) -> bool:
        """Remove an object from outside the game; False if there was none."""
        if self._objects.pop(key, None) is None:
            return False
        self._remember(key)
        self._record_operator(key, Op.DELETE, "", None)
        return True

    def _record_operator(self, key: str, op: Op, version: str, body: bytes | None) -> None:
        now = self._world.kernel.now_ns
        content, view = ("", None) if body is None else self._look(body)
        self._world.recorder.event(
            Kind.APPLIED, now, WALL_EPOCH_NS + now, now, OPERATOR, self.name, key, op, Outcome.APPLIED,
            version=version, content=content, owner=view.owner if view else "",
        )  # fmt: skip


class _StoreClient:
    """One process's handle: the ObjectStore port over the wire."""

    def __init__(self, service: ObjectStoreService, process: Process, request_timeout_ns: int) -> None:
        self._service = service
        self._process = process
        self._timeout_ns = request_timeout_ns
        self._wire = service._world.wire  # noqa: SLF001 - one mechanism in one file
        self._kernel = service._world.kernel  # noqa: SLF001 - as above

    @property
    def capabilities(self) -> StoreCapabilities:
        return self._service.capabilities

    def _exchange(self, key: str, apply: object, refuse: object) -> object | None:
        process = self._process
        journal = process.journal
        exchange = Exchange(
            process=process,
            task=self._kernel.current,
            service=self._service.name,
            op=Op(journal.current_op).name.lower(),
            request=journal.current_request,
            key=key,
            apply=apply,  # type: ignore[arg-type]
            refuse=refuse,  # type: ignore[arg-type]
        )
        return self._wire.call(exchange, self._timeout_ns)

    def _write(self, key: str, body: bytes, if_version: str) -> WriteReply:
        service = self._service
        reply = self._exchange(key, lambda exchange: service.apply_write(exchange, body, if_version), _refuse_write)
        return _TIMED_OUT if reply is None else cast("WriteReply", reply)

    def read(self, key: str) -> ReadReply:
        reply = self._exchange(key, self._service.apply_read, _refuse_read)
        return _READ_TIMED_OUT if reply is None else cast("ReadReply", reply)

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        return self._write(key, body, IF_ABSENT)

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        return self._write(key, body, version)

    def put(self, key: str, body: bytes) -> WriteReply:
        return self._write(key, body, "")

    def delete(self, key: str, version: Version | None = None) -> WriteReply:
        service = self._service
        reply = self._exchange(key, lambda exchange: service.apply_delete(exchange, version or ""), _refuse_write)
        return _TIMED_OUT if reply is None else cast("WriteReply", reply)

    def close(self) -> None:
        """Nothing to give back: there are no sockets here."""


_TIMED_OUT = WriteReply(outcome=Outcome.AMBIGUOUS, reason="timeout")
_READ_TIMED_OUT = ReadReply(outcome=Outcome.AMBIGUOUS, reason="timeout")


def _refuse_write(_exchange: Exchange, refusal: Refusal) -> WriteReply:
    status, reason = refusal
    return WriteReply(outcome=outcome_of(status), missing=status == 404, status=status, reason=reason)


def _refuse_read(_exchange: Exchange, refusal: Refusal) -> ReadReply:
    status, reason = refusal
    if status == 404:
        return ReadReply(outcome=Outcome.APPLIED, status=404, reason=reason)
    outcome = outcome_of(status)
    if outcome is Outcome.PRECONDITION_FAILED:
        outcome = Outcome.REJECTED
    return ReadReply(outcome=outcome, status=status, reason=reason)
