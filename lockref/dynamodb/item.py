"""The row of a lease in a DynamoDB table, as delta-rs' dynamodb_lock laid it out, with what that lacked.

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
from typing import Final

from lockref.clouds.grammar import decimal
from lockref.dynamodb.table import KEY, VERSION, Attribute, Item, number, text, to_bytes
from lockref.errors import CorruptRecord
from lockref.provider import LockView
from lockref.runtime import NS_PER_S, WallNs
from lockref.strict_json import NotJson, read_object

OWNER, DURATION, DATA, RELEASED, NOT_ACQUIRABLE = "ownerName", "leaseDuration", "data", "isReleased", "isNonAcquirable"
GENERATION, MARK, INCARNATION, PROCESS = "generation", "generationMark", "incarnation", "process"

NOTHING_TO_FINISH: Final = json.dumps({"source": "_delta_log/none", "destination": "_delta_log/none"})
"""The `data` of a holder that has nothing to be finished for it.

dynamodb_lock takes over a dead holder's row only to fail with "Missing lock data" where there is none, and each
successor fails likewise (B12). It tries this rename, finds no source, and goes on: seen of deltalake 0.13.0 and 0.14.0.
"""

_KNOWN: Final = frozenset(
    {KEY, VERSION, OWNER, DURATION, DATA, RELEASED, NOT_ACQUIRABLE, GENERATION, MARK, INCARNATION, PROCESS}
)
OWN: Final = _KNOWN - {KEY, NOT_ACQUIRABLE}
"""The attributes that this lock writes, or removes; every other one stays as it is."""

_NUMBER_MAX: Final = 2**62
"""A history keeps tokens in 64 bits, with a sign."""

_DURATION_S_MAX: Final = 10 * 365 * 24 * 3600
"""Ten years: more is an instant, and no duration."""


def whole_seconds(lease_ns: int) -> int:
    """A lease as a row tells it, rounded up: a waiter must not count less than the holder has."""
    return -(-lease_ns // NS_PER_S)


@dataclass(slots=True, eq=False)
class LeftWork:
    """What a dead holder was about to do, in the hands of whoever took its row. is_done: the new holder has said so."""

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
    others: Mapping[str, Attribute] = field(default_factory=dict)
    left: LeftWork | None = field(default=None, compare=False)

    @property
    def owner(self) -> str:
        """Who wrote it: two processes of one name are two owners (T9, E33)."""
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

    def attributes(self) -> Item:
        """The row, without its key."""
        item: dict[str, Attribute] = {**self.others, OWNER: text(self.name), VERSION: text(self.nonce)}
        assert self.duration_s is not None, "a row that we write tells a duration"
        item[DURATION] = text(str(self.duration_s))
        for attribute, value in ((GENERATION, self.token), (MARK, self.mark)):
            if value is not None:
                item[attribute] = number(value)
        for attribute, words in (
            (DATA, self.data),
            (INCARNATION, self.incarnation or None),
            (PROCESS, self.process or None),
        ):
            if words is not None:
                item[attribute] = text(words)
        if self.is_released:
            item[RELEASED] = text("1")
        return item


def serialize(record: LeaseItem) -> bytes:
    """The row as bytes, without its key."""
    return to_bytes(record.attributes())


def parse(body: bytes, *, where: str = "the row", table: str = "") -> LeaseItem:
    """Read a row.

    where, table: for the error: the row's key, and the name of its table, "" if nobody knows it.
    Raises CorruptRecord, which names row and attribute, for a row without a version or with a wrong type: whoever
    locked over it would take somebody's lease, so nobody can lock until it is repaired.
    """
    if table:
        where = f"{where} of table {table}"
    try:
        item = read_object(body)
    except NotJson as error:
        raise _corrupt(where, "is no item", body) from error

    def words(attribute: str, *, is_required: bool = False) -> str | None:
        if attribute not in item and not is_required:
            return None
        value = item.get(attribute)
        found = value.get("S") if isinstance(value, dict) else None
        if not isinstance(found, str) or (is_required and not found):
            raise _corrupt(where, f"has {attribute} {_shown(value)}, expected text (S)", body)
        return found

    def count(attribute: str) -> int | None:
        if attribute not in item:
            return None
        value = item[attribute]
        found = value.get("N") if isinstance(value, dict) else None
        number = decimal(found, most=_NUMBER_MAX) if isinstance(found, str) else None
        if number is None:
            raise _corrupt(where, f"has {attribute} {_shown(value)}, expected a whole number (N)", body)
        return number

    name, nonce = words(OWNER, is_required=True) or "", words(VERSION, is_required=True) or ""
    duration_s, ends_s = _lease_s(item.get(DURATION), where, body)
    return LeaseItem(
        name=name,
        nonce=nonce,
        duration_s=duration_s,
        ends_s=ends_s,
        incarnation=words(INCARNATION) or "",
        process=words(PROCESS) or "",
        token=count(GENERATION),
        mark=count(MARK),
        is_released=RELEASED in item,
        is_acquirable=NOT_ACQUIRABLE not in item,
        data=words(DATA),
        others={name: value for name, value in item.items() if name not in _KNOWN},
    )


def _lease_s(value: object, where: str, body: bytes) -> tuple[int | None, int | None]:
    """The duration in seconds and None; or None and the epoch second at which the lease ends, as 0.6 writes it."""
    if isinstance(value, dict) and len(value) == 1:
        [(kind, found)] = value.items()
        seconds = decimal(found) if isinstance(found, str) else None
        if seconds is not None:
            if kind == "S" and seconds <= _DURATION_S_MAX:
                return seconds, None
            if kind == "N":
                return None, seconds
    raise _corrupt(where, f"has {DURATION} {_shown(value)}, expected whole seconds as text (S)", body)


def _corrupt(where: str, what: str, body: bytes) -> CorruptRecord:
    return CorruptRecord(f"row {where} {what} ({len(body)} bytes): nobody can lock until it is repaired")


def _shown(value: object) -> str:
    words = "missing" if value is None else ascii(value)
    return words if len(words) <= 60 else f"{words[:57]}..."


def decode_state(key: str, body: bytes) -> list[LockView]:
    """What the checks see of a row; nothing where it is none. A `StateDecoder`."""
    try:
        record = parse(body, where=key)
    except CorruptRecord:
        return []
    duration_ns = None if record.duration_s is None else record.duration_s * NS_PER_S
    return [
        LockView(
            owner=record.owner,
            token=record.token,
            valid_until_ns=None if record.ends_s is None else WallNs(record.ends_s * NS_PER_S),
            duration_ns=duration_ns,
            is_released=record.is_released,
            nonce=record.nonce,
        )
    ]
