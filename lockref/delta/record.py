"""The record of a lease as delta-rs' dynamodb_lock laid it out in a row of DynamoDB, with what that lacked.

| attribute           | type | meaning |
|---------------------|------|---------|
| key                 | S    | names the lock; the table's hash key |
| ownerName           | S    | whose lock it is, for people and for whoever resumes it |
| recordVersionNumber | S    | new with each write; conditions name it |
| leaseDuration       | S    | whole seconds that each waiter counts for itself (T1) |
| data                | S    | what the holder was about to do, for whoever takes over |
| isReleased          | S    | present: given back. The row stays, so the generation survives (T9) |
| isNonAcquirable     | any  | present: an operator lets nobody lock. A holder keeps what it has until it gives back |
| generation          | N    | the fencing token |
| generationMark      | N    | no token above it is in use, see `lockref/locks/fence.py` |
| incarnation         | S    | which of several locks of one owner name wrote it |
| process             | S    | the process of that lock, for the next one of its name: it may be seen to have ended |

dynamodb_lock writes the first five and honours `isReleased`. Up to 0.4.3 its `leaseDuration` is as here. 0.6 writes N,
the epoch second at which the lease ends, for DynamoDB's TTL to find (B1, B5, B8). Here it is a string always: TTL takes
numbers only, so it never deletes a live row (T10).

Every write on a row that is there is an UpdateItem of these attributes, except `key` and `isNonAcquirable`. So what
operators and other programs put into a row stays, also where they add it while the row is held: renewals, the release
and the next grant leave it as it is. An operator who closes a lock with `isNonAcquirable` does not change the version,
so a write that is under way at that moment still lands; whoever looks at the row after that is refused.

Source: delta-incubator/dynamodb-lock-rs, src/lib.rs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lockref.runtime import NS_PER_S

KEY: Final = "key"
VERSION: Final = "recordVersionNumber"
OWNER, DURATION, DATA, RELEASED, NOT_ACQUIRABLE = "ownerName", "leaseDuration", "data", "isReleased", "isNonAcquirable"
GENERATION, MARK, INCARNATION, PROCESS = "generation", "generationMark", "incarnation", "process"

NOTHING_TO_FINISH: Final = json.dumps({"source": "_delta_log/none", "destination": "_delta_log/none"})
"""The `data` of a holder that has nothing to be finished for it.

dynamodb_lock takes over a dead holder's row only to fail with "Missing lock data" where there is none, and each
successor fails likewise (B12). It tries this rename, finds no source, and goes on: seen of deltalake 0.13.0 and 0.14.0.
"""

KNOWN: Final = frozenset(
    {KEY, VERSION, OWNER, DURATION, DATA, RELEASED, NOT_ACQUIRABLE, GENERATION, MARK, INCARNATION, PROCESS}
)
"""The attributes that have a meaning here."""

OWN: Final = KNOWN - {KEY, NOT_ACQUIRABLE}
"""The attributes that this lock writes, or removes; every other one stays as it is."""


def whole_seconds(lease_ns: int) -> int:
    """A lease as a row tells it, rounded up: a waiter must not count less than the holder has."""
    return -(-lease_ns // NS_PER_S)


@dataclass(slots=True, eq=False)
class LeftWork:
    """The work that a dead holder announced, for the client that took its row.

    is_done: the new holder has finished it.
    """

    data: str
    is_done: bool = False

    def finish(self) -> None:
        """The new holder has done it."""
        self.is_done = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseItem:
    """One state of the row.

    name: `ownerName`. incarnation, process: "" in a row that another program wrote. nonce: `recordVersionNumber`.
    duration_s: None where the row tells an instant instead of a duration, as 0.6 does. ends_s: that instant.
    token, mark: None where the row has none. others: attributes that nobody here knows; no write changes them.
    left: what a dead holder left, where `data` is that one's; not part of the row. None in a row that was read.
    """

    name: str
    nonce: str
    duration_s: int | None
    ends_s: int | None = None
    incarnation: str = ""
    process: str = ""
    token: int | None = None
    mark: int | None = None
    is_released: bool = False
    is_acquirable: bool = True
    data: str | None = None
    others: Mapping[str, Any] = field(default_factory=dict)
    left: LeftWork | None = field(default=None, compare=False)

    @property
    def owner(self) -> str:
        """The client that wrote it: two processes of one name are two owners (T9, E33)."""
        return f"{self.name}/{self.incarnation}" if self.incarnation else self.name

    @property
    def expiry_ns(self) -> None:
        """Nothing: a duration is no instant (T1)."""
        return None

    def freed(self, nonce: str) -> LeaseItem:
        """The state that gives this one back. What was to be done is done, except for a dead holder's unfinished work.

        That stays in the row, for a take-over that nobody was told of, or that was lost before the work was done.
        """
        left = None if self.left is None or self.left.is_done else self.left.data
        return replace(self, nonce=nonce, is_released=True, data=left)
