"""Helix' own lock at the very instant at which a lease ends."""

from __future__ import annotations

from typing import Any

import pytest

from lockref.helix.shipped.lock_info import LockInfo
from lockref.helix.shipped.nonblocking_lock import HelixException, LockConfig, NonblockingLock
from lockref.runtime import NS_PER_MS
from tests.hardened_rig import ManualRuntime


def lock_object(user: str, runtime: Any) -> NonblockingLock:
    # What a record comes to is decided without any request.
    accessor: Any = None
    return NonblockingLock(accessor, runtime, "/c/LOCK/RESOURCE/r", LockConfig(user=user, lease_ms=10))


@pytest.mark.parametrize(("after_ms", "is_owned", "is_free"), [(-1, True, False), (0, False, False), (1, False, True)])
def test_at_the_end_of_a_lease_the_lock_is_nobodys_and_not_free(after_ms: int, is_owned: bool, is_free: bool) -> None:
    """The owner has it before that millisecond, everybody after it; in it, the owner itself is refused."""
    runtime = ManualRuntime()
    stored = LockInfo(owner="ann", timeout_ms=runtime.wall_ns() // NS_PER_MS - after_ms).record()
    for user, may in (("ann", is_owned or is_free), ("bob", is_free)):
        asking = lock_object(user, runtime)
        wanted = LockInfo(owner=user)
        if may:
            assert asking._asked(stored, wanted) == wanted.record()
        else:
            with pytest.raises(HelixException, match=f"User {user} failed to acquire"):
                asking._asked(stored, wanted)
