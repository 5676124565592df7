"""The address of the hardened lock in interface version 1; the lock itself is in `lock.py`."""

from lockref.storage.lock import StorageLock
from lockref.storage.operations import release_at_exit

__all__ = ["StorageLock", "release_at_exit"]
