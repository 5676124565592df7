"""The folder of this user in which downloads and built environments are kept, and one maker at a time for each."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


def user_cache() -> Path:
    """LOCKREF_CACHE, or ~/.cache/lockref. It need not exist yet."""
    root = os.environ.get("LOCKREF_CACHE")
    return Path(root) if root else Path.home() / ".cache" / "lockref"


@contextlib.contextmanager
def one_at_a_time(lock: Path) -> Iterator[None]:
    """Processes that make the same thing do so one after the other. lock: a file beside it. Raises OSError."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
