"""lockref: reference locks for cloud storage, and the laboratory that shows where locks break.

The names that an application needs are here; they load on first use, so that
`import lockref` stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockref.clouds.uri import open_store
    from lockref.delta.renaming import PendingRename, finish_rename
    from lockref.errors import (
        BackendUnavailable,
        CapabilityMissing,
        ConfigError,
        CorruptRecord,
        LockError,
        LockForked,
        LockLost,
        LockNotAcquirable,
        LockNotHeld,
        LockrefError,
        LockTimeout,
        OutcomeUnknown,
        ReleaseFailed,
        StoreRejected,
    )
    from lockref.opening import open_lock
    from lockref.provider import (
        Grant,
        LockContext,
        LockEvent,
        LockEventKind,
        LockListener,
        LockProvider,
        LockSettings,
        LockView,
        RecordView,
    )
    from lockref.runtime import NS_PER_S, MonoNs, Runtime, Task, ThreadRuntime, WallNs
    from lockref.storage.config import StorageLockConfig
    from lockref.storage.lock import StorageLock
    from lockref.storage.operations import release_at_exit
    from lockref.stores.client import OBJECT_STORE
    from lockref.stores.port import ObjectStore
    from lockref.words import Outcome

__version__ = "0.1.0"

_HOMES = {
    "BackendUnavailable": "lockref.errors",
    "CapabilityMissing": "lockref.errors",
    "ConfigError": "lockref.errors",
    "CorruptRecord": "lockref.errors",
    "Grant": "lockref.provider",
    "LockContext": "lockref.provider",
    "LockError": "lockref.errors",
    "LockEvent": "lockref.provider",
    "LockEventKind": "lockref.provider",
    "LockForked": "lockref.errors",
    "LockListener": "lockref.provider",
    "LockLost": "lockref.errors",
    "LockNotAcquirable": "lockref.errors",
    "LockNotHeld": "lockref.errors",
    "LockProvider": "lockref.provider",
    "LockSettings": "lockref.provider",
    "LockTimeout": "lockref.errors",
    "LockView": "lockref.provider",
    "LockrefError": "lockref.errors",
    "MonoNs": "lockref.runtime",
    "NS_PER_S": "lockref.runtime",
    "OBJECT_STORE": "lockref.stores.client",
    "ObjectStore": "lockref.stores.port",
    "Outcome": "lockref.words",
    "OutcomeUnknown": "lockref.errors",
    "PendingRename": "lockref.delta.renaming",
    "RecordView": "lockref.provider",
    "ReleaseFailed": "lockref.errors",
    "Runtime": "lockref.runtime",
    "StorageLock": "lockref.storage.lock",
    "StorageLockConfig": "lockref.storage.config",
    "StoreRejected": "lockref.errors",
    "Task": "lockref.runtime",
    "ThreadRuntime": "lockref.runtime",
    "WallNs": "lockref.runtime",
    "finish_rename": "lockref.delta.renaming",
    "open_lock": "lockref.opening",
    "open_store": "lockref.clouds.uri",
    "release_at_exit": "lockref.storage.operations",
}

__all__ = [
    "NS_PER_S",
    "OBJECT_STORE",
    "BackendUnavailable",
    "CapabilityMissing",
    "ConfigError",
    "CorruptRecord",
    "Grant",
    "LockContext",
    "LockError",
    "LockEvent",
    "LockEventKind",
    "LockForked",
    "LockListener",
    "LockLost",
    "LockNotAcquirable",
    "LockNotHeld",
    "LockProvider",
    "LockSettings",
    "LockTimeout",
    "LockView",
    "LockrefError",
    "MonoNs",
    "ObjectStore",
    "Outcome",
    "OutcomeUnknown",
    "PendingRename",
    "RecordView",
    "ReleaseFailed",
    "Runtime",
    "StorageLock",
    "StorageLockConfig",
    "StoreRejected",
    "Task",
    "ThreadRuntime",
    "WallNs",
    "finish_rename",
    "open_lock",
    "open_store",
    "release_at_exit",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'lockref' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    """The public names, loaded or not, for `dir` and for editors."""
    return sorted({*globals(), *__all__})
