"""A store in the memory of this process: the yardstick for the others.

Every request takes effect at one instant under one mutex, and versions come
from one counter that is never reset, so that they do not repeat even after a
delete (no ABA, A6). Stores of one name share their objects until the process
ends; a store without a name is private.

The mutex comes from the Runtime port like everybody's, and nothing is called
while it is held: the store serves real threads and gated substrates alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lockref.runtime import Mutex, Runtime, ThreadRuntime
from lockref.stores.keys import check_key
from lockref.stores.port import ReadReply, StoreCapabilities, Version, WriteReply
from lockref.words import Outcome

CAPABILITIES = StoreCapabilities(dialect="memory", versions_repeat=False, conditional_delete=True)


@dataclass(slots=True)
class _Objects:
    """The objects that all stores of one name share."""

    mutex: Mutex
    bodies: dict[str, tuple[bytes, Version]] = field(default_factory=dict)
    versions_made: int = 0

    def replace(self, key: str, body: bytes) -> WriteReply:
        """Store the body under a new version. The mutex is held."""
        self.versions_made += 1
        version = Version(str(self.versions_made))
        self.bodies[key] = (body, version)
        return WriteReply(outcome=Outcome.APPLIED, version=version)


_shared: dict[str, _Objects] = {}
_shared_mutex = ThreadRuntime().mutex()


def _objects(name: str, runtime: Runtime) -> _Objects:
    if not name:
        return _Objects(runtime.mutex())
    with _shared_mutex:
        if name not in _shared:
            _shared[name] = _Objects(runtime.mutex())
        return _shared[name]


def _absent() -> WriteReply:
    return WriteReply(outcome=Outcome.PRECONDITION_FAILED, missing=True, reason="no such object")


class MemoryStore:
    """An `ObjectStore` in memory.

    name: stores of one name share their objects within this process; "" gives a private store.
    runtime: where the mutex comes from; the first store of a name decides.
    """

    def __init__(self, name: str = "", *, runtime: Runtime | None = None) -> None:
        self.name = name
        self._objects = _objects(name, runtime or ThreadRuntime())

    @property
    def capabilities(self) -> StoreCapabilities:
        return CAPABILITIES

    def read(self, key: str) -> ReadReply:
        check_key(key)
        with self._objects.mutex:
            body, version = self._objects.bodies.get(key, (None, None))
        return ReadReply(outcome=Outcome.APPLIED, body=body, version=version)

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        check_key(key)
        objects = self._objects
        with objects.mutex:
            if key in objects.bodies:
                return WriteReply(outcome=Outcome.PRECONDITION_FAILED, reason="the object exists")
            return objects.replace(key, bytes(body))

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        check_key(key)
        objects = self._objects
        with objects.mutex:
            refusal = self._refusal(key, version)
            return objects.replace(key, bytes(body)) if refusal is None else refusal

    def put(self, key: str, body: bytes) -> WriteReply:
        check_key(key)
        with self._objects.mutex:
            return self._objects.replace(key, bytes(body))

    def delete(self, key: str, version: Version | None = None) -> WriteReply:
        check_key(key)
        objects = self._objects
        with objects.mutex:
            refusal = self._refusal(key, version)
            if refusal is None:
                del objects.bodies[key]
                return WriteReply(outcome=Outcome.APPLIED)
            return refusal

    def close(self) -> None:
        """Nothing to give back; stores of the same name keep their objects."""

    def _refusal(self, key: str, version: Version | None) -> WriteReply | None:
        """Why the object at `key` is not what the caller thought; None if it is. The mutex is held."""
        held = self._objects.bodies.get(key)
        if held is None:
            return _absent()
        if version is not None and held[1] != version:
            return WriteReply(outcome=Outcome.PRECONDITION_FAILED, reason=f"the object has version {held[1]}")
        return None
