"""Asking a store with patience, and what to say when it cannot be used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from lockref.errors import BackendUnavailable, CapabilityMissing
from lockref.runtime import NS_PER_MS, MonoNs, Runtime
from lockref.stores.port import ObjectStore, ReadReply, Version, WriteReply
from lockref.stores.probe.measured import Measurements
from lockref.words import Outcome

_PAUSE_NS: Final = 100 * NS_PER_MS
DENIALS: Final = (401, 403)
"""Refusals of whoever asks, which say nothing about what the store knows."""

_Reply = TypeVar("_Reply", WriteReply, ReadReply)


class Asking:
    """A store that is asked with patience, and what it says when it cannot be used."""

    def __init__(
        self, store: ObjectStore, found: Measurements, *, address: str, patience_ns: int, runtime: Runtime
    ) -> None:
        self.store = store
        self.found = found
        self.runtime = runtime
        self._address = address
        self._started_ns = runtime.monotonic_ns()
        self._deadline_ns = MonoNs(self._started_ns + patience_ns)

    def write(self, send: Callable[[], WriteReply]) -> WriteReply:
        """The answer to a write, which is repeated as `_patiently` says."""
        return self._patiently(send)

    def _patiently(self, send: Callable[[], _Reply]) -> _Reply:
        """Send until the store neither throttles nor reports a conflict, or the patience is used up."""
        while True:
            began_ns = self.runtime.monotonic_ns()
            reply = send()
            now_ns = self.runtime.monotonic_ns()
            self.found.request_ns.append(now_ns - began_ns)
            if reply.outcome not in (Outcome.THROTTLED, Outcome.CONFLICT) or now_ns >= self._deadline_ns:
                return reply
            self.runtime.sleep(_PAUSE_NS)

    def version(
        self, what: str, send: Callable[[], WriteReply], *, plainly: Callable[[], WriteReply] | None = None
    ) -> Version:
        """The version that a write makes, which must succeed. what: the action, a verb phrase for the error message.

        plainly: the same write without its condition. If the store refuses the one and takes the other, it has no
        conditional writes, and raises CapabilityMissing. A store says that with 501, 400 or 405.
        """
        self._require_time(what)
        reply = self.write(send)
        if reply.outcome is Outcome.APPLIED and reply.version is not None:
            return reply.version
        is_unknown = reply.outcome is Outcome.REJECTED and reply.status not in DENIALS
        if is_unknown and plainly is not None and self.write(plainly).outcome is Outcome.APPLIED:
            raise CapabilityMissing(
                f"{self._address} has no conditional writes: asked to {what} under a condition it answered "
                f"{reply.reason}; the same write without a condition was accepted. Choose another store"
            )
        raise self.unavailable(what, reply)

    def refused(self, what: str, send: Callable[[], WriteReply]) -> bool:
        """True if a write was refused for its condition, False if it was applied."""
        self._require_time(f"be refused {what}")
        reply = self.write(send)
        if reply.outcome not in (Outcome.APPLIED, Outcome.PRECONDITION_FAILED):
            raise self.unavailable(f"be refused {what}", reply)
        return reply.outcome is Outcome.PRECONDITION_FAILED

    def read(self, key: str) -> ReadReply:
        """The reply to a read of the object; a read that is throttled is sent again."""
        self._require_time("read an object")
        reply = self._patiently(lambda: self.store.read(key))
        if reply.outcome is not Outcome.APPLIED:
            raise self.unavailable("read an object", reply)
        return reply

    def unavailable(self, what: str, reply: WriteReply | ReadReply) -> BackendUnavailable:
        answer = reply.reason or reply.outcome.name.lower().replace("_", " ")
        return self._gave_up(what, f"got: {answer}")

    def _require_time(self, what: str) -> None:
        if self.runtime.monotonic_ns() >= self._deadline_ns:
            raise self._gave_up(what, "that is too slow to be measured")

    def _gave_up(self, what: str, why: str) -> BackendUnavailable:
        waited_ms = (self.runtime.monotonic_ns() - self._started_ns) / NS_PER_MS
        return BackendUnavailable(
            f"{self._address} cannot be used: tried to {what}, waited {waited_ms:.0f} ms in all, and {why}"
        )

    def extend(self, patience_ns: int) -> None:
        """Give as much patience again, from now on."""
        self._deadline_ns = MonoNs(self.runtime.monotonic_ns() + patience_ns)
