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
        LockError,
        LockForked,
        LockLost,
        LockNotHeld,
        LockrefError,
        LockTimeout,
        OutcomeUnknown,
        ReleaseFailed,
    )
    from lockref.opening import open_lock
    from lockref.provider import Grant, LockContext, LockProvider, LockSettings, LockView, RecordView
    from lockref.runtime import Runtime, ThreadRuntime
    from lockref.storage.config import StorageLockConfig
    from lockref.storage.lock import StorageLock
    from lockref.storage.operations import release_at_exit
    from lockref.stores.port import ObjectStore
    from lockref.words import Outcome

__version__ = "0.1.0"

_HOMES = {
    "Grant": "lockref.provider",
    "LockContext": "lockref.provider",
    "LockError": "lockref.errors",
    "LockForked": "lockref.errors",
    "LockLost": "lockref.errors",
    "LockNotHeld": "lockref.errors",
    "LockProvider": "lockref.provider",
    "LockSettings": "lockref.provider",
    "LockView": "lockref.provider",
    "LockTimeout": "lockref.errors",
    "LockrefError": "lockref.errors",
    "ObjectStore": "lockref.stores.port",
    "Outcome": "lockref.words",
    "OutcomeUnknown": "lockref.errors",
    "PendingRename": "lockref.delta.renaming",
    "RecordView": "lockref.provider",
    "ReleaseFailed": "lockref.errors",
    "Runtime": "lockref.runtime",
    "StorageLock": "lockref.storage.lock",
    "StorageLockConfig": "lockref.storage.config",
    "ThreadRuntime": "lockref.runtime",
    "finish_rename": "lockref.delta.renaming",
    "open_lock": "lockref.opening",
    "open_store": "lockref.clouds.uri",
    "release_at_exit": "lockref.storage.operations",
}

__all__ = [
    "Grant",
    "LockContext",
    "LockError",
    "LockForked",
    "LockLost",
    "LockNotHeld",
    "LockProvider",
    "LockSettings",
    "LockTimeout",
    "LockView",
    "LockrefError",
    "ObjectStore",
    "Outcome",
    "OutcomeUnknown",
    "PendingRename",
    "RecordView",
    "ReleaseFailed",
    "Runtime",
    "StorageLock",
    "StorageLockConfig",
    "ThreadRuntime",
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
