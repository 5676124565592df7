"""A store without a wire, `memory:` or a folder, asked by the same calls.

Its requests have no status, cannot lose a reply on the way, and race as threads.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lockref.clouds.calls import ANYTHING, DELETE, PUT, READ, Answer, Call, Inexpressible, WriteMode
from lockref.clouds.statuses import NO_STATUSES
from lockref.runtime import ThreadRuntime
from lockref.stores.localfs import FileStore
from lockref.stores.port import Version
from lockref.stores.probe import start_barrier

if TYPE_CHECKING:
    from lockref.stores.port import ObjectStore, WriteReply

_runtime: Final = ThreadRuntime()


class LocalDialect:
    """The dialect of a store on this machine."""

    name = "memory"
    origin = ""
    statuses = NO_STATUSES
    modes: tuple[WriteMode, ...] = ()
    amplifiers: tuple[tuple[tuple[str, str], ...], ...] = ()


class LocalStore:
    """Calls on an `ObjectStore` of this process."""

    is_wire = False
    is_encrypted = False

    def __init__(self, store: ObjectStore) -> None:
        self.dialect = LocalDialect()
        self._store = store

    def send(self, call: Call) -> Answer:
        """One request. Errors: Inexpressible for what the port does not have."""
        began_ns = _runtime.monotonic_ns()
        if call.headers or call.mode or (call.none_match not in (None, ANYTHING)) or call.match == ANYTHING:
            raise Inexpressible(call.condition)
        if call.verb == READ and call.match is None:
            read = self._store.read(call.key)
            return Answer(
                outcome=read.outcome, body=read.body, version=read.version or "",
                is_missing=read.is_absent, reason=read.reason, duration_ns=_runtime.monotonic_ns() - began_ns,
            )  # fmt: skip
        reply = self._written(call)
        return Answer(
            outcome=reply.outcome, version=reply.version or "", is_missing=reply.missing, reason=reply.reason,
            duration_ns=_runtime.monotonic_ns() - began_ns,
        )  # fmt: skip

    def _written(self, call: Call) -> WriteReply:
        if call.match is not None and call.none_match is not None:
            raise Inexpressible(call.condition)
        if call.verb == DELETE:
            return self._store.delete(call.key, None if call.match is None else Version(call.match))
        if call.verb != PUT:
            raise Inexpressible(call.verb)
        if call.none_match is not None:
            return self._store.put_if_absent(call.key, call.body)
        if call.match is not None:
            return self._store.put_if_version(call.key, call.body, Version(call.match))
        return self._store.put(call.key, call.body)

    def keys(self, start: str) -> list[str]:
        """The keys in a folder that begin so; none for a store in memory, which ends with its process.

        Errors: OSError for a folder that cannot be read.
        """
        return self._store.keys(start) if isinstance(self._store, FileStore) else []

    def close(self) -> None:
        self._store.close()


def race(entries: Sequence[tuple[LocalStore, Call]]) -> list[Answer]:
    """Each call in a thread of its own, all at once."""
    return start_barrier.race(_runtime, [functools.partial(store.send, call) for store, call in entries])
