"""What a Ctrl-C leaves of a call: an entry that was broken off counts for nothing, a release for whole.

CPython may raise KeyboardInterrupt between any two calls, and a killed greenlet
something similar. What may stand in the store then is undone by the lease itself
(H6, L6); here the count of nested entries is put right. A port to a
language without such exceptions needs none of this.
"""

from __future__ import annotations

from lockref.errors import LockError
from lockref.locks.client import LeaseClient
from lockref.locks.tenure import Tenure
from lockref.locks.values import R


def acquire(client: LeaseClient[R], timeout_ns: int) -> bool:
    """`LeaseClient.acquire`; a nested entry that is broken off counts for nothing (H9)."""
    held, depth = client.tenure, client.gate.depth
    try:
        return client.acquire(timeout_ns)
    except LockError:
        raise
    except BaseException:
        if held is not None and client.tenure is held and client.gate.is_mine():
            client.gate.set_depth(depth)
        raise


def break_off(client: LeaseClient[R], tenure: Tenure[R] | None, depth: int) -> None:
    """Something struck the release of `tenure`. The caller has left its critical section all the same (H6)."""
    if tenure is not None and tenure is client.tenure and tenure.task == client.runtime.current_task():
        client.gate.set_depth(depth - 1)
        if depth == 1:
            client.end_use(tenure)
