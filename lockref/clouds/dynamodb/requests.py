"""The requests of Amazon DynamoDB, written from a call: each object is an item of a table. Nothing is sent here.

A table has no version of its own; a condition compares an attribute. So the item carries a version that is the hash of
its body, and equal bytes give equal versions.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any, Final

from lockref.clouds.calls import (
    ANYTHING,
    DELETE,
    PUT,
    READ,
    TRANSACTION,
    UPDATE,
    Call,
    HttpRequest,
    Inexpressible,
    Place,
)  # fmt: skip

VERSION_ATTRIBUTE: Final = "lockref_version"
BODY_ATTRIBUTE: Final = "lockref_body"


def write_request(place: Place, call: Call) -> HttpRequest:
    """The request that states this call. Errors: Inexpressible where a table has no such request."""
    operation, content = _content(place, call)
    body = json.dumps({"TableName": place.container, **content} if operation != TRANSACTION else content).encode()
    headers = {
        "Host": place.host,
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": f"DynamoDB_20120810.{operation}",
        "Content-Length": str(len(body)),
    }
    return HttpRequest(method="POST", target="/", headers=headers, body=body)


def _content(place: Place, call: Call) -> tuple[str, dict[str, Any]]:
    key = {place.key_attribute: {"S": call.key}}
    if call.verb == READ and call.match is None:
        return "GetItem", {"Key": key, "ConsistentRead": True}
    condition = _condition(place, call)
    if call.verb == DELETE:
        return "DeleteItem", {"Key": key, **condition}
    if call.verb != PUT:
        raise Inexpressible(call.verb)
    version, body = {"S": version_of(call.body)}, {"B": base64.b64encode(call.body).decode()}
    if call.mode == UPDATE:
        names = {"#b": BODY_ATTRIBUTE, "#v": VERSION_ATTRIBUTE, **condition.pop("ExpressionAttributeNames", {})}
        values = {":b": body, ":n": version, **condition.pop("ExpressionAttributeValues", {})}
        update = {"UpdateExpression": "SET #b = :b, #v = :n", "ExpressionAttributeNames": names}
        return UPDATE, {"Key": key, **update, "ExpressionAttributeValues": values, **condition}
    put = {"Item": {**key, VERSION_ATTRIBUTE: version, BODY_ATTRIBUTE: body}, **condition}
    if call.mode == TRANSACTION:
        return TRANSACTION, {"TransactItems": [{"Put": {"TableName": place.container, **put}}]}
    return "PutItem", put


def _condition(place: Place, call: Call) -> dict[str, Any]:
    if call.match is None and call.none_match is None:
        return {}
    if call.match is not None and call.none_match is not None:
        raise Inexpressible(call.condition)
    if call.none_match == ANYTHING:
        return {
            "ConditionExpression": "attribute_not_exists(#k)",
            "ExpressionAttributeNames": {"#k": place.key_attribute},
        }
    if call.match == ANYTHING:
        return {"ConditionExpression": "attribute_exists(#k)", "ExpressionAttributeNames": {"#k": place.key_attribute}}
    if call.none_match is not None:
        raise Inexpressible(call.condition)
    return {
        "ConditionExpression": "#v = :v",
        "ExpressionAttributeNames": {"#v": VERSION_ATTRIBUTE},
        "ExpressionAttributeValues": {":v": {"S": call.match}},
    }


def version_of(body: bytes) -> str:
    """The version that an item with this body carries."""
    return hashlib.sha256(body).hexdigest()[:32]
