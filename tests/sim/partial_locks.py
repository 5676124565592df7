"""The hardened lock without the parts that docs/the-lock.md calls optional, one at a time and all at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lockref.locks.acquisition import Acquisition
from lockref.locks.decisions import next_token
from lockref.locks.unfenced import WithinTheMark
from lockref.locks.values import Reserved
from lockref.locks.waiting import FixedWaiting
from lockref.runtime import Runtime
from lockref.storage.lock import StorageLock


def fixed(poll_interval_ns: int, _validity_ns: int, _runtime: Runtime) -> FixedWaiting:
    return FixedWaiting(poll_interval_ns)


class WithoutFence(StorageLock):
    """`lockref/locks/fence.py` is left out."""

    parts = replace(StorageLock.parts, tokens=WithinTheMark)


class WithoutReturning(StorageLock):
    """`lockref/locks/returning.py` and `lockref/locks/shortcut.py` are left out."""

    parts = replace(StorageLock.parts, acquisition=Acquisition)


class WithoutLearning(StorageLock):
    """`lockref/locks/adaptive_waiting.py`, `lockref/locks/pace.py` and `lockref/locks/turn_note.py` are left out."""

    parts = replace(StorageLock.parts, waiting=fixed)


class Bare(StorageLock):
    """All of them are left out."""

    parts = replace(StorageLock.parts, tokens=WithinTheMark, acquisition=Acquisition, waiting=fixed)


class _CountsOn(WithinTheMark[Any]):
    def reserve(self, stored: Any, *, seen: int, is_over: Any) -> Reserved:
        return Reserved(next_token(stored, seen), None)


class CountsByTheRecord(StorageLock):
    """What the page once allowed: no fence object, and the record's token + 1, or 1 where it has none."""

    parts = replace(StorageLock.parts, tokens=_CountsOn)
