"""A lock that stands on the made-up service."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from lockref.provider import LockContext
from lockref.stores.port import ObjectStore
from tests.sim.interface_1_locks.plain_lock import PlainLock
from tests.sim.made_up.revisions import REVISIONS


class RevisionLock(PlainLock):
    """A plain lock whose record is the value of a key."""

    stands_on = REVISIONS.name

    def __init__(self, context: LockContext) -> None:
        def opened(timeout_ns: int) -> ObjectStore:
            client: Any = context.open(REVISIONS, timeout_ns=timeout_ns)
            return cast("ObjectStore", client)

        super().__init__(replace(context, open_store=opened))
