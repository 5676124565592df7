"""A table on Amazon DynamoDB, and on every server that speaks its protocol, by boto3.

One call is one request (A2), with one exception: where a condition failed and the answer shows no item, a read follows.
What an answer means is in `statuses.py`.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from lockref.clouds.aws import NOT_READ, aws_client, lost, status_and_code
from lockref.clouds.bounded_exchange import bounded
from lockref.clouds.dynamodb.facts import OUTCOMES
from lockref.clouds.statuses import classify, reason_text
from lockref.dynamodb.table import (
    DELETE,
    GET,
    GET_EVENTUAL,
    KEY,
    PUT,
    UPDATE,
    Clause,
    Comparison,
    Condition,
    Item,
    absent,
    changes_of,
    text,
    to_bytes,
    version_of,
)  # fmt: skip
from lockref.errors import BackendUnavailable, ConfigError
from lockref.grammar import is_json_object
from lockref.ports import Reply, Request
from lockref.runtime import NS_PER_S
from lockref.words import Outcome

if TYPE_CHECKING:
    from boto3.session import Session

    from lockref.stores.address import StoreAddress

_CREATING_PAUSE_NS: Final = 50_000_000
"""How long to wait between two looks at a table that is being made."""


class Naming(Protocol):
    """The names of attributes in one table: those of what the table port calls `key`, and those of the rest of an item.

    attributes: the table's key, all of type S: the hash key, then the range key if there is one.
    """

    attributes: tuple[str, ...]

    def key_as_sent(self, key: str) -> Item:
        """The key attributes of that item."""
        ...

    def as_sent(self, item: Item) -> Item:
        """An item of the port's as the table has it."""
        ...

    def as_kept(self, item: Item) -> Item:
        """The reverse."""
        ...

    def clause(self, clause: Clause) -> Clause:
        """A condition of the port's about the table's own attributes."""
        ...


class HashKey:
    """A table with a hash key alone, called `attribute`; every other attribute has the same name on both sides."""

    def __init__(self, attribute: str = KEY) -> None:
        self.attributes = (attribute,)

    def key_as_sent(self, key: str) -> Item:
        return {self.attributes[0]: text(key)}

    def as_sent(self, item: Item) -> Item:
        return {self.attributes[0] if name == KEY else name: value for name, value in item.items()}

    def as_kept(self, item: Item) -> Item:
        return {KEY if name == self.attributes[0] else name: value for name, value in item.items()}

    def clause(self, clause: Clause) -> Clause:
        return clause._replace(attribute=self.attributes[0]) if clause.attribute == KEY else clause


def make_client(
    *, endpoint: str, region: str, request_timeout_ns: int, pool_size: int, session: Session | None = None
) -> Any:
    """A client that sends each request once, and takes no success that is not DynamoDB's. See `aws_client`."""
    client = aws_client(
        "dynamodb",
        endpoint=endpoint,
        region=region,
        request_timeout_ns=request_timeout_ns,
        pool_size=pool_size,
        session=session,
    )
    client.meta.events.register("after-call.dynamodb", _expect_json)
    return client


def _expect_json(http_response: Any, **_: object) -> None:
    """Raise for a success that holds no object of JSON, such as the page of a proxy.

    botocore makes an answer without attributes of it: a write that was applied, or an item that is not there.
    """
    if http_response.status_code < 300 and not is_json_object(http_response.content):
        raise ResponseParserError("a success without JSON")


class DynamoChannel:
    """A channel to one table.

    naming: how this table calls the key; items have it as `key` everywhere else.
    request_timeout_ns: bounds each request as a whole, whatever the request itself says.
    made: for tests: a client to use instead of making one.
    """

    capabilities = None

    def __init__(
        self,
        table: str,
        *,
        naming: Naming | None = None,
        endpoint: str = "",
        region: str = "",
        request_timeout_ns: int,
        pool_size: int = 10,
        client: str = "",
        service: str = "table",
        made: Any = None,
    ) -> None:
        self.client = client
        self.service = service
        self._table = table
        self._naming = HashKey() if naming is None else naming
        self._request_timeout_ns = request_timeout_ns
        self._made = made or make_client(
            endpoint=endpoint, region=region, request_timeout_ns=request_timeout_ns, pool_size=pool_size
        )

    def send(self, request: Request, timeout_ns: int) -> Reply:
        """One request. Raises nothing for what the service can answer."""
        with bounded(min(timeout_ns, self._request_timeout_ns)) as exchange:
            try:
                return self._applied(request, self._ask(request))
            except ClientError as error:
                status, code = status_and_code(error)
                row = classify(OUTCOMES, status, code)
                outcome, is_missing = row.outcome, False
                if outcome is Outcome.PRECONDITION_FAILED:
                    if isinstance(request.condition, Condition):
                        is_missing = "Item" not in error.response and self._is_absent(request.key, request.condition)
                    else:
                        outcome = Outcome.AMBIGUOUS  # There was no condition that could fail.
                reason = reason_text(row.why, status, code)
                if outcome is Outcome.REJECTED:
                    reason = f"{reason}; table {self._table!r}{self._advice(code)}"
                return Reply(outcome, missing=is_missing, status=status, reason=reason)
            except NOT_READ as error:
                outcome, reason = lost(error, exchange)
                return Reply(outcome, reason=reason)

    def _applied(self, request: Request, answer: Any) -> Reply:
        """The reply of a success. Errors: those of `NOT_READ` for an item that is none."""
        status = int(answer["ResponseMetadata"]["HTTPStatusCode"])
        found = _as_kept(answer.get("Item") or answer.get("Attributes"))
        item = None if found is None else self._naming.as_kept(found)
        if request.verb == PUT:
            item = json.loads(_written(request))
        elif request.verb == DELETE:
            item = None
        return Reply(Outcome.APPLIED, version_of(item), None if item is None else to_bytes(item), status=status)

    def _is_absent(self, row_key: str, condition: Condition) -> bool:
        """Is there no item, as an answer without one seems to say?

        A server that knows nothing of `ReturnValuesOnConditionCheckFailure`, such as dynalite, never returns the item.
        A lock that took its own row for deleted would stop to look after it, so the claim is confirmed by a read.
        """
        if absent(KEY) in condition.clauses:
            return False
        try:
            key = self._naming.key_as_sent(row_key)
            return "Item" not in self._made.get_item(TableName=self._table, Key=key, ConsistentRead=True)
        except (ClientError, *NOT_READ):
            return False

    def _ask(self, request: Request) -> Any:
        verb, key = request.verb, self._naming.key_as_sent(request.key)
        if verb in (GET, GET_EVENTUAL):
            return self._made.get_item(TableName=self._table, Key=key, ConsistentRead=verb == GET)
        condition = request.condition if isinstance(request.condition, Condition) else Condition(())
        expressions = _Expressions()
        how = expressions.condition([self._naming.clause(clause) for clause in condition.clauses])
        if how:
            # Tells an item that is another from one that is absent, without a second request.
            how["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        if verb == PUT:
            item = _as_sent(self._naming.as_sent(json.loads(_written(request))))
            return self._made.put_item(TableName=self._table, Item=item, **how, **expressions.names_and_values())
        if verb == DELETE:
            return self._made.delete_item(TableName=self._table, Key=key, **how, **expressions.names_and_values())
        assert verb == UPDATE, f"a table knows no {verb!r}"
        how["UpdateExpression"] = expressions.update(changes_of(_written(request)))
        return self._made.update_item(
            TableName=self._table, Key=key, ReturnValues="ALL_NEW", **how, **expressions.names_and_values()
        )

    def require_table(self) -> None:
        """Raise ConfigError for a table with another key, BackendUnavailable where there is none or none answers."""
        with bounded(self._request_timeout_ns) as exchange:
            try:
                described = self._made.describe_table(TableName=self._table).get("Table", {})
            except ClientError as error:
                status, code = status_and_code(error)
                told = reason_text(classify(OUTCOMES, status, code).why, status, code)
                raise BackendUnavailable(f"table {self._table!r} cannot be used: {told}") from None
            except NOT_READ as error:
                raise BackendUnavailable(f"table {self._table!r} does not answer: {lost(error, exchange)[1]}") from None
        schema = {kind: name for name, kind in key_schema(described)}
        types = attribute_types(described)
        wanted = dict(self._schema)
        if schema != wanted or any(types.get(name) != "S" for name in wanted.values()):
            found = ", ".join(f"{name} ({kind}, {types.get(name, '?')})" for kind, name in schema.items())
            expected = ", ".join(f"{name} ({kind}, S)" for kind, name in self._schema)
            raise ConfigError(f"table {self._table!r} has the key {found}; expected {expected} and nothing else")

    def _advice(self, code: str) -> str:
        """Advice about a table that is not there, or whose key may be another one."""
        if code not in ("ResourceNotFoundException", "ValidationException"):
            return ""
        names = [name for _kind, name in self._schema]
        keys = " and ".join(f"{name!r} ({kind}, text)" for kind, name in self._schema)
        key = f"{keys} and nothing else" if len(names) > 1 else f"the text attribute {names[0]!r}, without a sort key"
        if code == "ValidationException":
            return f"; its key must be {key}"
        attributes = " ".join(f"AttributeName={name},AttributeType=S" for name in names)
        schema = " ".join(f"AttributeName={name},KeyType={kind}" for kind, name in self._schema)
        return (
            f", whose key must be {key}: aws dynamodb create-table --table-name {self._table} "
            f"--billing-mode PAY_PER_REQUEST --attribute-definitions {attributes} --key-schema {schema}"
        )

    @property
    def _schema(self) -> list[tuple[str, str]]:
        """DynamoDB's kind of each key attribute, and its name."""
        return list(zip(("HASH", "RANGE"), self._naming.attributes, strict=False))

    def create_table(self) -> None:
        """Make the table, on demand capacity, and wait until it is there; one that is there already is fine.

        Errors: BackendUnavailable if it cannot be made, or is not there within a request's time.
        """
        with bounded(self._request_timeout_ns) as exchange:
            try:
                self._made.create_table(
                    TableName=self._table,
                    KeySchema=[{"AttributeName": name, "KeyType": kind} for kind, name in self._schema],
                    AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for _, name in self._schema],
                    BillingMode="PAY_PER_REQUEST",
                )
            except ClientError as error:
                status, code = status_and_code(error)
                if code != "ResourceInUseException":
                    told = reason_text(classify(OUTCOMES, status, code).why, status, code)
                    raise BackendUnavailable(f"table {self._table!r} cannot be made: {told}") from None
            except NOT_READ as error:
                raise BackendUnavailable(f"table {self._table!r} cannot be made: {lost(error, exchange)[1]}") from None
            looks = max(1, self._request_timeout_ns // _CREATING_PAUSE_NS)
            pause = {"Delay": _CREATING_PAUSE_NS / NS_PER_S, "MaxAttempts": looks}
            try:
                self._made.get_waiter("table_exists").wait(TableName=self._table, WaiterConfig=pause)
            except NOT_READ as error:  # The waiter's own error is among these.
                raise BackendUnavailable(f"table {self._table!r} was made and is not there: {error}") from None

    def close(self) -> None:
        self._made.close()


def key_schema(described: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The name and the kind of each key attribute of a table, as DynamoDB describes it; [] for none."""
    return [(str(part.get("AttributeName")), str(part.get("KeyType"))) for part in described.get("KeySchema", ())]


def attribute_types(described: Mapping[str, Any]) -> dict[str, str]:
    """The type of each attribute that a table's description names."""
    told = described.get("AttributeDefinitions", ())
    return {str(each.get("AttributeName")): str(each.get("AttributeType")) for each in told}


def open_channel(
    address: StoreAddress, request_timeout_ns: int, pool_size: int, naming: Naming | None
) -> DynamoChannel:
    """See `Tables`. Errors: ConfigError for an AWS configuration that cannot be used."""
    try:
        return DynamoChannel(
            address.container,
            naming=naming,
            endpoint=address.endpoint,
            region=address.region,
            request_timeout_ns=request_timeout_ns,
            pool_size=pool_size,
        )
    except (BotoCoreError, ValueError) as error:
        raise ConfigError(f"the table {address} cannot be opened with this AWS configuration: {error}") from error


def require_table(address: StoreAddress, request_timeout_ns: int, may_create: bool, naming: Naming | None) -> None:
    """See `Tables`. Errors: ConfigError for a table with another key; BackendUnavailable for no table, or no answer."""
    channel = open_channel(address, request_timeout_ns, 1, naming)
    try:
        if may_create:
            channel.create_table()
        channel.require_table()
    finally:
        channel.close()


def _written(request: Request) -> bytes:
    """The bytes of a put or an update."""
    assert request.body is not None, f"{request.verb} of {request.key} writes nothing"
    return request.body


def _as_kept(item: Mapping[str, Any] | None) -> Item | None:
    """An item of boto3's, whose binary values are bytes, as DynamoDB's JSON has it."""
    return None if item is None else {name: _value_as_kept(value) for name, value in item.items()}


def _as_sent(item: Item) -> dict[str, Any]:
    """The reverse of `_as_kept`."""
    return {name: _value_as_sent(value) for name, value in item.items()}


def _value_as_kept(value: Mapping[str, Any]) -> dict[str, Any]:
    return _each_binary(value, lambda binary: base64.b64encode(binary).decode())


def _value_as_sent(value: Mapping[str, Any]) -> dict[str, Any]:
    return _each_binary(value, base64.b64decode)


def _each_binary(value: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """The value, each binary one in it replaced by what `change` makes of it, in lists and maps too."""
    (kind, held), *_ = value.items()
    if kind == "B":
        return {kind: change(held)}
    if kind == "BS":
        return {kind: [change(each) for each in held]}
    if kind == "L":
        return {kind: [_each_binary(each, change) for each in held]}
    if kind == "M":
        return {kind: {name: _each_binary(each, change) for name, each in held.items()}}
    return dict(value)


class _Expressions:
    """DynamoDB's expressions: names and values stand in them by placeholders only, whatever an attribute is called."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._names: dict[str, str] = {}
        self._values: dict[str, Any] = {}

    def _name(self, attribute: str) -> str:
        placeholder = f"#n{next(self._numbers)}"
        self._names[placeholder] = attribute
        return placeholder

    def _value(self, value: Mapping[str, Any] | None) -> str:
        assert value is not None, "a comparison has a value"
        placeholder = f":v{next(self._numbers)}"
        self._values[placeholder] = _value_as_sent(dict(value))
        return placeholder

    def condition(self, clauses: Sequence[Clause]) -> dict[str, Any]:
        """`ConditionExpression`, or nothing."""
        forms = {Comparison.EXISTS: "attribute_exists({})", Comparison.ABSENT: "attribute_not_exists({})"}
        parts = [
            f"{self._name(clause.attribute)} = {self._value(clause.value)}"
            if clause.test is Comparison.EQUALS
            else forms[clause.test].format(self._name(clause.attribute))
            for clause in clauses
        ]
        return {"ConditionExpression": " AND ".join(parts)} if parts else {}

    def update(self, changes: Mapping[str, Any]) -> str:
        """`UpdateExpression` of what an update's body says."""
        parts = {
            "SET": [f"{self._name(name)} = {self._value(value)}" for name, value in changes["SET"].items()],
            "REMOVE": [self._name(name) for name in changes["REMOVE"]],
            "ADD": [f"{self._name(name)} {self._value(value)}" for name, value in changes["ADD"].items()],
        }
        return " ".join(f"{word} {', '.join(each)}" for word, each in parts.items() if each)

    def names_and_values(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self._names:
            found["ExpressionAttributeNames"] = self._names
        if self._values:
            found["ExpressionAttributeValues"] = self._values
        return found
