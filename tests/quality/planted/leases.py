"""Variants of the guide's own example (docs/examples/lease_lock.py), as strangers would spoil it: one bug each."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

from lockref.errors import OutcomeUnknown
from lockref.lab.loading import load_provider
from lockref.provider import RecordView
from lockref.runtime import NS_PER_MS, NS_PER_S, MonoNs
from lockref.words import Outcome

EXAMPLE_FILE = Path(__file__).parents[3] / "docs" / "examples" / "lease_lock.py"
LeaseLock: Any = load_provider(f"{EXAMPLE_FILE}:LeaseLock").factory.made  # type: ignore[attr-defined]
EXAMPLE: Any = sys.modules[LeaseLock.__module__]


class _Store:
    """A store whose one method is replaced."""

    def __init__(self, store: Any, **methods: Any) -> None:
        self._store, self._methods = store, methods

    def __getattr__(self, name: str) -> Any:
        return self._methods.get(name) or getattr(self._store, name)


class InsistsOnConflict(LeaseLock):
    """409 is tried again at once, until it goes away (L5)."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        store = self._store

        def put_if_absent(key: str, body: bytes) -> Any:
            while (reply := store.put_if_absent(key, body)).outcome is Outcome.CONFLICT:
                self._runtime.sleep(50 * NS_PER_MS)
            return reply

        self._store = _Store(store, put_if_absent=put_if_absent)


class InsistsOnThrottle(LeaseLock):
    """429 and 503 are tried again, until they go away (L5)."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        store = self._store

        def put_if_absent(key: str, body: bytes) -> Any:
            while (reply := store.put_if_absent(key, body)).outcome is Outcome.THROTTLED:
                self._runtime.sleep(50 * NS_PER_MS)
            return reply

        self._store = _Store(store, put_if_absent=put_if_absent)


class CountsTheWaitOnTheWall(LeaseLock):
    """The timeout is an instant on the wall clock (L5, M3)."""

    def _acquire(self, timeout_ns: int) -> bool:
        end_ns = self._runtime.wall_ns() + max(timeout_ns, 3 * self._request_timeout_ns)
        while True:
            try:
                if super()._acquire(0):
                    return True
                is_denied = True
            except OutcomeUnknown:
                is_denied = False
            if timeout_ns == 0 or self._runtime.wall_ns() >= end_ns:
                if is_denied:
                    return False
                raise OutcomeUnknown("not granted")
            self._runtime.sleep(self._settings.poll_interval_ns)


class EmptyIsFree(LeaseLock):
    """`if not body`: an object of no bytes is no object (D6)."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        store = self._store

        def read(key: str) -> Any:
            found = store.read(key)
            return dataclasses.replace(found, body=found.body or None)

        self._store = _Store(store, read=read)


class FieldsHaveDefaults(LeaseLock):
    """`record.get(...)` with defaults: a record that says nothing is a released one (M12)."""

    @staticmethod
    def decode_record(body: bytes) -> RecordView | None:
        view = LeaseLock.decode_record(body)
        return view or RecordView(owner="", token=0, valid_until_ns=EXAMPLE.WallNs(0), is_released=True)


class CountsFromTheReply(LeaseLock):
    """The lease runs from the answer (M22)."""

    def _acquire(self, timeout_ns: int) -> bool:
        granted = super()._acquire(timeout_ns)
        if granted and self._grant is not None:
            length_ns = self._settings.validity_ns - EXAMPLE.MARGIN_NS
            deadline_ns = MonoNs(self._runtime.monotonic_ns() + length_ns)
            self._wall_deadline_ns = self._runtime.wall_ns() + length_ns
            self._grant = dataclasses.replace(self._grant, deadline_ns=deadline_ns)
        return granted


class ReleasesBlindly(LeaseLock):
    """The release has no condition (M4)."""

    def _release(self, grant: Any) -> None:
        self._store.put(self._settings.key, self._body(grant.token or 0, self._wall_deadline_ns, released=True))


class UnlockInsists(LeaseLock):
    """Unlock tries until the store takes it (L5)."""

    def _release(self, grant: Any) -> None:
        while True:
            try:
                return super()._release(grant)
            except EXAMPLE.ReleaseFailed:
                self._runtime.sleep(NS_PER_S)


class ForgetsTheToken(LeaseLock):
    """The token is its own count, whatever the record says (S2)."""

    def _acquire(self, timeout_ns: int) -> bool:
        self._token_seen = getattr(self, "_own", 0)
        granted = super()._acquire(timeout_ns)
        self._own = getattr(self, "_own", 0) + granted
        return granted

    def _attempt(self, give_up_ns: int) -> bool | None:
        decode = self.decode_record

        def without_token(body: bytes) -> Any:
            view = decode(body)
            return None if view is None else dataclasses.replace(view, token=0)

        self.decode_record = without_token
        try:
            return super()._attempt(give_up_ns)
        finally:
            del self.decode_record


class CarelessInACrowd(LeaseLock):
    """It asks no clock any more once it has seen four other owners (S3): few clients never bring it to that."""

    def _attempt(self, give_up_ns: int) -> bool | None:
        decode, seen = self.decode_record, self.__dict__.setdefault("_owners_seen", set())

        def remembering(body: bytes) -> Any:
            view = decode(body)
            if view is not None and view.owner != self._owner:
                seen.add(view.owner)
            return view

        self.decode_record = remembering
        try:
            return super()._attempt(give_up_ns)
        finally:
            del self.decode_record

    def holds(self) -> bool:
        if len(self.__dict__.get("_owners_seen", ())) >= 4:
            return self.grant is not None
        return super().holds()
