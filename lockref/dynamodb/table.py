"""The table port: items under keys, read and written on conditions about their attributes.

The requests are Amazon DynamoDB's GetItem, PutItem, UpdateItem and DeleteItem on one table with a hash key. An item
is what DynamoDB's JSON says: each attribute with its type, `{"leaseDuration": {"S": "20"}}`. A lock that wrote a
number where others read a string kept everybody waiting for ever (B1), so types are never guessed or converted here.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from decimal import Context, Decimal, InvalidOperation
from enum import Enum
from functools import lru_cache
from typing import Any, Final, NamedTuple, Self

from lockref.delta import record
from lockref.errors import ConfigError
from lockref.ports import Channel, PortKind, Reply, Request
from lockref.words import IF_ABSENT, Op, Outcome

GET, GET_EVENTUAL, PUT, UPDATE, DELETE = "get", "get_eventual", "put", "update", "delete"
"""The verbs. `get_eventual` may show an older state: a read that is not strongly consistent."""

KEY: Final = record.KEY
"""The attribute that names the item; every item has it. A real table may call it otherwise: the channel renames it."""

VERSION: Final = record.VERSION
"""The attribute that tells two states of one item apart; each write gives a new value. A history names states by it."""

_DIGITS = Context(prec=38)
"""How many digits DynamoDB keeps of a number."""

_EXPONENT_MAX = 125
"""The largest number that DynamoDB takes is below ten to the power of one more than this."""

ITEM_BYTES_MAX = 400 * 1024
"""The largest item that DynamoDB takes: names and values of all attributes."""

Attribute = Mapping[str, Any]
"""A value with its type, such as `{"S": "20"}`."""

Item = Mapping[str, Attribute]


def text(value: str) -> Attribute:
    """A string, DynamoDB's type S."""
    return {"S": value}


def value_in(item: Mapping[str, Any], attribute: str, kind: str) -> object:
    """The value of this kind that an attribute has; None where it has none, and where no attribute stands there."""
    value = item.get(attribute)
    return value.get(kind) if isinstance(value, dict) else None


def number(value: int | Decimal) -> Attribute:
    """A number, DynamoDB's type N."""
    return {"N": f"{value.normalize(_DIGITS):f}" if isinstance(value, Decimal) else str(value)}


def number_of(value: Attribute) -> Decimal:
    """A number of type N, which may have a fraction or an exponent, such as "1.5" and "1e3". 38 digits, as DynamoDB's.

    Raises ConfigError for a value that DynamoDB takes for no number.
    """
    words = value.get("N")
    try:
        found = Decimal(str(words)) if words is not None else Decimal("NaN")
    except InvalidOperation:
        found = Decimal("NaN")
    if not found.is_finite() or found.adjusted() > _EXPONENT_MAX:
        raise ConfigError(f"an attribute is {dict(value)!r}; expected a number (N), such as 15, 1.5 or 1e3")
    return found


def flag(value: bool) -> Attribute:
    """A truth value, DynamoDB's type BOOL."""
    return {"BOOL": value}


class Comparison(Enum):
    """The comparison of one attribute in a clause."""

    EXISTS = "exists"
    ABSENT = "absent"
    EQUALS = "equals"


class Clause(NamedTuple):
    """One part of a condition; all parts must hold. value: for EQUALS."""

    attribute: str
    test: Comparison
    value: Attribute | None = None

    def holds(self, item: Item | None) -> bool:
        """Is it true of `item`? None is no item, which has no attribute."""
        found = None if item is None else item.get(self.attribute)
        if self.test is Comparison.EQUALS:
            return found is not None and dict(found) == dict(self.value or {})
        return (found is not None) is (self.test is Comparison.EXISTS)


def exists(attribute: str) -> Clause:
    """`attribute_exists(attribute)`"""
    return Clause(attribute, Comparison.EXISTS)


def absent(attribute: str) -> Clause:
    """`attribute_not_exists(attribute)`; of KEY: there is no such item."""
    return Clause(attribute, Comparison.ABSENT)


def equals(attribute: str, value: Attribute) -> Clause:
    """`attribute = value`, types included."""
    return Clause(attribute, Comparison.EQUALS, value)


class Condition(str):
    """The condition of a request. As a string it is what a history compares: the version that it names, or IF_ABSENT.

    It is "" where it names neither, such as `attribute_exists(isReleased)`. The service evaluates `clauses`.
    """

    __slots__ = ("clauses",)

    def __new__(cls, clauses: Sequence[Clause]) -> Self:
        """All of these; without any, no condition."""
        return super().__new__(cls, _version_named(clauses))

    def __init__(self, clauses: Sequence[Clause]) -> None:
        self.clauses = tuple(clauses)

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        # To another process it goes by its clauses: a string alone would arrive without them.
        return type(self), (self.clauses,)

    def holds(self, item: Item | None) -> bool:
        return all(clause.holds(item) for clause in self.clauses)


def _version_named(clauses: Sequence[Clause]) -> str:
    for clause in clauses:
        if clause.test is Comparison.EQUALS and clause.attribute == VERSION:
            return version_of({VERSION: clause.value or {}}) or ""
        if clause.test is Comparison.ABSENT and clause.attribute == KEY:
            return IF_ABSENT
    return ""


def version_of(item: Item | None) -> str | None:
    """The version of an item, as text; None of no item, and of one that has none."""
    value = None if item is None else item.get(VERSION)
    return None if not value else str(next(iter(value.values())))


def to_bytes(body: Mapping[str, Any]) -> bytes:
    """An item, or an update, as bytes: equal items give equal bytes."""
    return _ITEM.encode(body).encode()


_ITEM: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@lru_cache(maxsize=32)
def _read(document: bytes) -> Item:
    """The item in a state of a table. Remembered: each of a row's states is asked for several times in a row."""
    found: Item = json.loads(document)
    return found


class Merge(bytes):
    """The body of an update by a writer that knows which item it should make: its own attributes, and what is beside.

    As bytes it is that item, as the body of a put is, so a history compares it with what is read later. The service
    applies `changes`: the writer's own attributes are set, or removed where `item` has none; others stay as they are.
    """

    changes: Mapping[str, Any]
    item: Item

    def __new__(cls, item: Item, own: Collection[str]) -> Self:
        """item: with its key. own: the names of the attributes that the writer sets or removes."""
        return super().__new__(cls, to_bytes(item))

    def __init__(self, item: Item, own: Collection[str]) -> None:
        self._parts = dict(item), tuple(own)
        put = {name: value for name, value in item.items() if name in own}
        self.changes = {"ADD": {}, "REMOVE": sorted(set(own) - put.keys()), "SET": put}
        self.item = item

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        # To another process it goes by its parts: bytes alone would arrive without the changes.
        return type(self), self._parts


def changes_of(body: bytes) -> Mapping[str, Any]:
    """The changes that the body of an update names: SET, REMOVE and ADD."""
    found: Mapping[str, Any] = body.changes if isinstance(body, Merge) else json.loads(body)
    return found


def updated(key: str, present: Item | None, changes: Mapping[str, Any]) -> Item:
    """The item that an update makes of the present one, or of none. A number is added to what is there, or to 0."""
    before: Item = present or {KEY: text(key)}
    sums = {
        name: number(_DIGITS.add(number_of(value), number_of(before.get(name, number(0)))))
        for name, value in changes["ADD"].items()
    }
    kept = {name: value for name, value in before.items() if name not in changes["REMOVE"]}
    return {**kept, **changes["SET"], **sums}


def item_bytes(item: Item) -> int:
    """The size of an item as DynamoDB counts it: the UTF-8 of names and values, without the marks of types."""
    return sum(
        len(name.encode()) + sum(len(str(each).encode()) for each in value.values()) for name, value in item.items()
    )


def _is_too_large(document: bytes) -> bool:
    """Nearly every item is far from the limit. As JSON it takes more than a quarter of what DynamoDB counts."""
    return len(document) > ITEM_BYTES_MAX // 4 and item_bytes(_read(document)) > ITEM_BYTES_MAX


TOO_LARGE = Reply(Outcome.REJECTED, status=400, reason="ValidationException: the item has more than 400 kB")


def applied(item: bytes | None) -> Reply:
    """The answer to a request that took effect: the item that was found or made."""
    return Reply(Outcome.APPLIED, None if item is None else version_of(_read(item)), item, status=200)


def answer(request: Request, state: bytes | None) -> tuple[Reply, bytes | None]:
    """The answer of a table with this state of the item to a write, and the state after the write.

    Conditions, updates and sizes of every table that is not Amazon's: the modelled one, and the one in memory.
    """
    present = None if state is None else _read(state)
    condition = request.condition
    if isinstance(condition, Condition) and not condition.holds(present):
        reason = "ConditionalCheckFailedException: the item is not what the condition says"
        return Reply(Outcome.PRECONDITION_FAILED, missing=present is None, status=400, reason=reason), state
    item = request.body
    if request.verb == UPDATE:
        assert item is not None, "an update says what it changes"
        try:
            made = updated(request.key, present, changes_of(item))
            # Nearly every update makes just the item that its writer expects, whose bytes are those of the body.
            item = bytes(item) if isinstance(item, Merge) and made == item.item else to_bytes(made)
        except ConfigError as error:
            return Reply(Outcome.REJECTED, status=400, reason=f"ValidationException: {error}"), state
    if item is not None and _is_too_large(item):
        return TOO_LARGE, state
    return applied(item), item


class ItemReply(NamedTuple):
    """The answer of a table, as `Reply`. document: the item that was found or made, as bytes; None for nothing."""

    outcome: Outcome
    version: str | None
    document: bytes | None
    missing: bool
    status: int | None
    reason: str

    def item(self) -> Item | None:
        """The item that was found or made, read from `document` with each call; None for nothing."""
        return None if self.document is None else json.loads(self.document)


class TableClient:
    """A table over a channel.

    Every write is conditional on all of its clauses, and unconditional without any.
    """

    def __init__(self, channel: Channel, timeout_ns: int) -> None:
        self._channel, self._timeout_ns = channel, timeout_ns

    def get(self, key: str, *, is_consistent: bool = True) -> ItemReply:
        """The item. is_consistent False: it may be an older state of it."""
        return self._ask(GET if is_consistent else GET_EVENTUAL, key, Op.READ)

    def put(self, key: str, item: Item, *clauses: Clause) -> ItemReply:
        """Write the whole item: what the present one has beside it is gone."""
        return self._ask(PUT, key, Op.WRITE, to_bytes({KEY: text(key), **item}), clauses)

    def update(
        self, key: str, *clauses: Clause, put: Item | None = None, remove: Sequence[str] = (), add: Item | None = None
    ) -> ItemReply:
        """Change some attributes of the item, which is made where there is none.

        put: new values. remove: attributes that go. add: numbers to add to what is there, or to 0.
        """
        body = {"ADD": add or {}, "REMOVE": sorted(remove), "SET": put or {}}
        return self._ask(UPDATE, key, Op.WRITE, to_bytes(body), clauses)

    def merge(self, key: str, item: Item, own: Collection[str], *clauses: Clause) -> ItemReply:
        """Make the attributes `own` of the item those of `item`; what else is there stays. See `Merge`."""
        return self._ask(UPDATE, key, Op.WRITE, Merge({KEY: text(key), **item}, own), clauses)

    def delete(self, key: str, *clauses: Clause) -> ItemReply:
        """Remove the item. To remove nothing succeeds, unless a clause says otherwise."""
        return self._ask(DELETE, key, Op.DELETE, None, clauses)

    def _ask(self, verb: str, key: str, op: Op, body: bytes | None = None, clauses: Sequence[Clause] = ()) -> ItemReply:
        condition = Condition(clauses) if clauses else ""
        request = Request(self._channel.client, self._channel.service, verb, key, condition, body, op)
        return ItemReply(*self._channel.send(request, self._timeout_ns))

    def close(self) -> None:
        self._channel.close()


TABLE: Final = PortKind("table", TableClient)
