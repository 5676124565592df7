"""A lock that a controller assigns, in the smallest form: two programs and two objects in a service of their own.

Who wants the lock says so in `wanted`; the controller writes who has it in `assigned`.
"""

from __future__ import annotations

from lockref.errors import LockNotHeld
from lockref.provider import Grant, LockContext, RecordView
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.stores.client import OBJECT_STORE
from lockref.stores.port import ObjectStore
from lockref.words import Outcome

SERVICE = "assignments"
TIMEOUT_NS = 500 * NS_PER_MS
LOOK_NS = 50 * NS_PER_MS
WANTED, ASSIGNED = "wanted", "assigned"


def _text(store: ObjectStore, key: str) -> str:
    body = store.read(key).body
    return "" if body is None else body.decode()


class Controller:
    """Assigns the lock to whoever wants it while nobody has it."""

    def __init__(self, context: LockContext) -> None:
        self._runtime = context.runtime
        self._store = context.open(OBJECT_STORE, timeout_ns=TIMEOUT_NS, service=SERVICE)
        self._look_ns = int(context.settings.options.get("look_ms", "50")) * NS_PER_MS

    def run(self) -> None:
        while True:
            wanted = self._store.read(WANTED)
            if wanted.body is not None and not _text(self._store, ASSIGNED):
                self._store.put(ASSIGNED, wanted.body)
                self._store.delete(WANTED)
            self._runtime.sleep(self._look_ns)


class Raises:
    """A program with a mistake in it."""

    def __init__(self, context: LockContext) -> None:
        self._runtime = context.runtime

    def run(self) -> None:
        self._runtime.sleep(NS_PER_S)
        raise KeyError("nobody")


class NoProgram:
    """It has no `run`."""


class AssignedLock:
    """The client's side."""

    protocol = "calls"

    def __init__(self, context: LockContext) -> None:
        self._runtime = context.runtime
        self._store = context.open(OBJECT_STORE, timeout_ns=TIMEOUT_NS, service=SERVICE)
        self._me = context.runtime.token_bytes(4).hex()
        self._held = False

    @staticmethod
    def decode_record(_body: bytes) -> RecordView | None:
        return None

    @property
    def grant(self) -> Grant | None:
        return Grant(owner=self._me) if self._held else None

    def try_lock(self) -> bool:
        return self.lock(0)

    def lock(self, timeout_s: float) -> bool:
        deadline_ns = self._runtime.monotonic_ns() + int(timeout_s * NS_PER_S)
        while not self._held:
            if _text(self._store, ASSIGNED) == self._me:
                self._held = True
            elif self._runtime.monotonic_ns() >= deadline_ns:
                return False
            else:
                self._store.put_if_absent(WANTED, self._me.encode())
                self._runtime.sleep(LOOK_NS)
        return True

    def unlock(self) -> None:
        if not self._held:
            raise LockNotHeld("it was not assigned")
        self._held = False
        while self._store.put(ASSIGNED, b"").outcome is not Outcome.APPLIED:
            self._runtime.sleep(LOOK_NS)

    def holds(self) -> bool:
        return self._held

    def close(self) -> None:
        if self._held:
            self.unlock()
