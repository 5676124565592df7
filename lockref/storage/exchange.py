"""One client's exchange with the store about one lock record.

How a record is written and read, what an answer leaves open, and what the
listener hears of it. Nothing is decided about the lock here, and nothing is
kept but the highest fencing token that was ever read.

This is the lowest layer of the hardened lock. `exchange`, `tenure`, `entry`,
`renewal`, `release`, `acquisition`, `provider`: each stands on those before it
and overrides nothing of theirs. They are layers of one class rather than parts
that hold each other, so that a variant of the lock can break any single step
by overriding its name.
"""

from __future__ import annotations

from dataclasses import dataclass

from lockref.errors import CorruptRecord, LockError, LockForked, StoreRejected
from lockref.provider import Grant, LockEventKind, LockListener
from lockref.runtime import NS_PER_MS, NS_PER_S, Runtime
from lockref.storage import lease, lockfile
from lockref.storage.audit import AuditTrail
from lockref.storage.lease import LeaseTerms, Moment, Step, Stored
from lockref.storage.lockfile import LockFile
from lockref.storage.notices import LossCallback, Notices
from lockref.stores.port import ObjectStore, Outcome, Version, WriteReply

_BACKOFF_FIRST_NS = 50 * NS_PER_MS
_BACKOFF_NS_MAX = 2 * NS_PER_S

_NOT_OURS = Stored(Version(""), LockFile(None, 0, expired=False))
"""Stands for an object that is no lock record: whoever wrote it, it is not what we wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """What one lock is made of; each layer takes what it needs. Durations in nanoseconds."""

    runtime: Runtime
    store: ObjectStore
    key: str
    terms: LeaseTerms
    poll_interval_ns: int
    listener: LockListener | None
    on_loss: LossCallback | None
    audit: AuditTrail | None


class Exchange:
    """Reads and writes the lock object at one key, as one owner."""

    def __init__(self, wiring: Wiring) -> None:
        self._runtime = wiring.runtime
        self._store = wiring.store
        self._key = wiring.key
        self.terms = wiring.terms
        self._notices = Notices(wiring.key, listener=wiring.listener, on_loss=wiring.on_loss)
        self._process_id = self._runtime.process_id()
        # H22: one owner per instance, whatever the process or host.
        self.owner = _uuid_text(self._runtime.token_bytes(16))
        self._closing = self._runtime.event()
        self._fence_seen_max = 0

    def _now(self) -> Moment:
        return Moment(self._runtime.wall_ns(), self._runtime.monotonic_ns())

    def _new_nonce(self) -> str:
        """H22: no two writes of ours have equal bytes, so their versions differ even where versions are hashes (A6)."""
        return self._runtime.token_bytes(8).hex()

    # ---- one write, one read, and what they tell ----

    def _write(self, if_version: Version | None, record: LockFile) -> WriteReply:
        body = lockfile.serialize(record)
        started_ns = self._runtime.monotonic_ns()
        if if_version is None:
            reply = self._store.put_if_absent(self._key, body)
        else:
            reply = self._store.put_if_version(self._key, body, if_version)
        self._metric("lock.request.latency", (self._runtime.monotonic_ns() - started_ns) / NS_PER_S)
        if reply.outcome is Outcome.AMBIGUOUS:
            self._metric("lock.state.unknown")
        elif reply.outcome is Outcome.THROTTLED:
            self._metric("lock.throttled")
        return reply

    def _interpret(self, reply: WriteReply) -> Step:
        """What an answer leaves open (H5, H16)."""
        return lease.next_step(reply)

    def _read(self) -> Stored | None:
        """The record and its version; None where the store gave no definite answer (H16).

        Raises CorruptRecord (H17), StoreRejected.
        """
        started_ns = self._runtime.monotonic_ns()
        reply = self._store.read(self._key)
        self._metric("lock.request.latency", (self._runtime.monotonic_ns() - started_ns) / NS_PER_S)
        if reply.outcome is Outcome.REJECTED:
            raise StoreRejected(
                f"reading {self._key}: the store refused ({reply.status} {reply.reason}): "
                f"give this client the right to read there, or choose another store"
            )
        if reply.outcome is not Outcome.APPLIED:
            self._metric("lock.state.unknown")
            return None
        if reply.body is None:
            return Stored(None, None)
        record = lockfile.parse(reply.body, where=self._key)
        self._fence_seen_max = max(self._fence_seen_max, record.fence or 0)
        return Stored(reply.version, record)

    def _read_or_none(self) -> Stored | None:
        """For a release: what cannot be read is looked at again; what is no record is somebody else's."""
        try:
            return self._read()
        except StoreRejected:
            return None
        except CorruptRecord:
            return _NOT_OURS

    def _backoff_ns(self, failures: int) -> int:
        """Exponential, jittered over its upper half."""
        longest_ns = min(_BACKOFF_FIRST_NS << min(failures - 1, 10), _BACKOFF_NS_MAX)
        return round(longest_ns * self._runtime.random.uniform(0.5, 1.0))

    # ---- may this object still be used? ----

    def _check_process(self) -> None:
        if self._runtime.process_id() != self._process_id:
            # H9: a forked child shares owner and memory with its parent; only one of them may act.
            raise LockForked(
                f"using the lock {self._key} in process {self._runtime.process_id()}, a forked child of the process "
                f"{self._process_id} that made it: only the parent may act; make a new lock in the child"
            )

    def _check_usable(self) -> None:
        self._check_process()
        if self._closing.is_set():
            raise LockError(f"locking {self._key} with a lock that is closed: make a new one")

    # ---- the listener ----

    def _tell(self, kind: LockEventKind, grant: Grant, reason: str = "") -> None:
        self._notices.tell(kind, grant, reason)

    def _metric(self, name: str, value: float = 1.0) -> None:
        self._notices.metric(name, value)


def version_of(reply: WriteReply) -> Version:
    assert reply.version is not None, "an applied write has a version"
    return reply.version


def describe(reply: WriteReply) -> str:
    """An answer in words, for messages."""
    parts = [reply.outcome.name.lower().replace("_", " ")]
    if reply.status is not None:
        parts.append(str(reply.status))
    if reply.reason:
        parts.append(reply.reason)
    return " ".join(parts)


def _uuid_text(entropy: bytes) -> str:
    """The usual form of a random UUID (version 4), which is what Hudi writes as owner."""
    number = bytearray(entropy)
    number[6] = number[6] & 0x0F | 0x40
    number[8] = number[8] & 0x3F | 0x80
    text = number.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
