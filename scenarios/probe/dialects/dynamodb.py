"""A table of Amazon DynamoDB: each object is an item, its version an attribute made from the contents.

A table has no version of its own; a condition compares an attribute. So the item carries a version that is the hash of
its body, and equal bytes give equal versions.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError, ClientError

from lockref.clouds.aws import NO_ANSWER, aws_client, aws_session, explain, status_and_code
from lockref.clouds.grammar import code_word
from lockref.clouds.statuses import classify, reason_text
from lockref.dynamodb.statuses import OUTCOMES
from lockref.errors import BackendUnavailable, ConfigError
from lockref.runtime import NS_PER_S
from lockref.strict_json import NotJson, read_object
from lockref.words import Outcome
from scenarios.probe.calls import (
    ANYTHING,
    DELETE,
    PUT,
    READ,
    Answer,
    Call,
    HttpReply,
    HttpRequest,
    Inexpressible,
    Refusals,
    WriteMode,
)  # fmt: skip

if TYPE_CHECKING:
    from lockref.stores.uri import StoreAddress

UPDATE: Final = "UpdateItem"
TRANSACTION: Final = "TransactWriteItems"
_VERSION: Final = "lockref_version"
_BODY: Final = "lockref_body"
_DESCRIBE_NS: Final = 5 * NS_PER_S


class DynamoDialect:
    """One table whose key is one attribute of type S, whatever it is called. The table is asked for it.

    Errors: ConfigError for a configuration of AWS that cannot be used, and for a table with another key;
    BackendUnavailable where there is no table, or no answer.
    """

    name = "dynamodb"
    refusals = Refusals(exists=400, stale=400, absent=400, delete_absent=400)
    modes: tuple[WriteMode, ...] = (
        WriteMode(clause="C15", name=UPDATE, can_race=True),
        WriteMode(clause="C15", name=TRANSACTION, can_race=True),
    )
    amplifiers: tuple[tuple[tuple[str, str], ...], ...] = ()

    def __init__(self, address: StoreAddress) -> None:
        try:
            session = aws_session(address.endpoint)
            found = session.get_credentials()
            client = aws_client(
                "dynamodb", endpoint=address.endpoint, region=address.region, request_timeout_ns=_DESCRIBE_NS,
                pool_size=1, session=session,
            )  # fmt: skip
        except (BotoCoreError, ValueError) as error:
            raise ConfigError(f"the table {address} cannot be opened with this AWS configuration: {error}") from error
        if found is None:
            raise ConfigError(f"the table {address} has no AWS credentials: set AWS_PROFILE or AWS_ACCESS_KEY_ID")
        self._table = address.container
        self.origin = str(client.meta.endpoint_url).rstrip("/")
        self._signer = SigV4Auth(found.get_frozen_credentials(), "dynamodb", client.meta.region_name or "us-east-1")
        try:
            self._key = _key_of(client, address)
        finally:
            client.close()

    def form(self, call: Call) -> HttpRequest:
        operation, content = self._content(call)
        body = json.dumps({"TableName": self._table, **content} if operation != TRANSACTION else content).encode()
        headers = {
            "Host": urlsplit(self.origin).netloc,
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": f"DynamoDB_20120810.{operation}",
        }
        request = AWSRequest(method="POST", url=f"{self.origin}/", data=body, headers=headers)
        self._signer.add_auth(request)
        signed = {**dict(request.headers.items()), "Content-Length": str(len(body))}
        return HttpRequest(method="POST", target="/", headers=signed, body=body)

    def _content(self, call: Call) -> tuple[str, dict[str, Any]]:
        key = {self._key: {"S": call.key}}
        if call.verb == READ and call.match is None:
            return "GetItem", {"Key": key, "ConsistentRead": True}
        condition = self._condition(call)
        if call.verb == DELETE:
            return "DeleteItem", {"Key": key, **condition}
        if call.verb != PUT:
            raise Inexpressible(call.verb)
        version, body = {"S": version_of(call.body)}, {"B": base64.b64encode(call.body).decode()}
        if call.mode == UPDATE:
            names = {"#b": _BODY, "#v": _VERSION, **condition.pop("ExpressionAttributeNames", {})}
            values = {":b": body, ":n": version, **condition.pop("ExpressionAttributeValues", {})}
            update = {"UpdateExpression": "SET #b = :b, #v = :n", "ExpressionAttributeNames": names}
            return UPDATE, {"Key": key, **update, "ExpressionAttributeValues": values, **condition}
        put = {"Item": {**key, _VERSION: version, _BODY: body}, **condition}
        if call.mode == TRANSACTION:
            return TRANSACTION, {"TransactItems": [{"Put": {"TableName": self._table, **put}}]}
        return "PutItem", put

    def _condition(self, call: Call) -> dict[str, Any]:
        if call.match is None and call.none_match is None:
            return {}
        if call.match is not None and call.none_match is not None:
            raise Inexpressible(call.condition)
        if call.none_match == ANYTHING:
            return {"ConditionExpression": "attribute_not_exists(#k)", "ExpressionAttributeNames": {"#k": self._key}}
        if call.match == ANYTHING:
            return {"ConditionExpression": "attribute_exists(#k)", "ExpressionAttributeNames": {"#k": self._key}}
        if call.none_match is not None:
            raise Inexpressible(call.condition)
        return {
            "ConditionExpression": "#v = :v",
            "ExpressionAttributeNames": {"#v": _VERSION},
            "ExpressionAttributeValues": {":v": {"S": call.match}},
        }

    def answer(self, call: Call, reply: HttpReply) -> Answer:
        try:
            found = read_object(reply.body) if reply.body else {}
        except NotJson:
            # A success whose body is none of DynamoDB's.
            return Answer(outcome=Outcome.AMBIGUOUS, status=reply.status, reason="no JSON came back")
        code = code_word(str(found.get("__type", "")).rpartition("#")[2])
        if code == "TransactionCanceledException":
            reasons = [str(each.get("Code", "")) for each in found.get("CancellationReasons") or []]
            # Servers that give no list of reasons name them in the message.
            told = reasons or [str(found.get("message") or found.get("Message") or "")]
            if any("ConditionalCheckFailed" in each for each in told):
                code = "ConditionalCheckFailedException"
            elif any("TransactionConflict" in each for each in told):
                code = "TransactionConflictException"
        row = classify(OUTCOMES, reply.status, code)
        outcome = row.outcome
        version, body, is_missing = "", None, False
        if outcome is Outcome.APPLIED and call.verb == READ:
            item = found.get("Item")
            if item is None:
                is_missing = True
            else:
                version = item.get(_VERSION, {}).get("S", "")
                body = base64.b64decode(item.get(_BODY, {}).get("B", ""))
        elif outcome is Outcome.APPLIED and call.verb == PUT:
            version = version_of(call.body)
        return Answer(
            outcome=outcome, status=reply.status, code=code, version=version, is_missing=is_missing, body=body,
            reason=row.why,
        )  # fmt: skip


def version_of(body: bytes) -> str:
    """The version that an item with this body carries."""
    return hashlib.sha256(body).hexdigest()[:32]


def _key_of(client: Any, address: StoreAddress) -> str:
    """The name of the table's key attribute."""
    try:
        described = client.describe_table(TableName=address.container)["Table"]
    except ClientError as error:
        status, code = status_and_code(error)
        told = reason_text(classify(OUTCOMES, status, code).why, status, code)
        raise BackendUnavailable(f"{address} cannot be used: {told}") from None
    except NO_ANSWER as error:
        raise BackendUnavailable(f"{address} does not answer: {explain(error)[1]}") from None
    types = {each["AttributeName"]: each["AttributeType"] for each in described["AttributeDefinitions"]}
    keys = [str(part["AttributeName"]) for part in described["KeySchema"]]
    if len(keys) != 1 or types.get(keys[0]) != "S":
        shown = ", ".join(f"{name} ({types.get(name, '?')})" for name in keys)
        raise ConfigError(f"{address} has the key {shown}; the probe needs a table with one key attribute of type S")
    return keys[0]
