"""The answers of Amazon DynamoDB, read from their bytes. Nothing is sent here."""

from __future__ import annotations

import base64
import json

from lockref.clouds.calls import PUT, READ, Answer, Call, HttpReply, Place
from lockref.clouds.dynamodb.facts import OUTCOMES, REFUSALS_BY_STATUS
from lockref.clouds.dynamodb.requests import BODY_ATTRIBUTE, VERSION_ATTRIBUTE, version_of
from lockref.clouds.http_reply import http_reply
from lockref.clouds.statuses import classify
from lockref.grammar import code_word
from lockref.strict_json import NotJson, read_object
from lockref.words import Outcome


def answer_to(_place: Place, call: Call, reply: HttpReply) -> Answer:
    """The answer to a call of ours."""
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
            version = item.get(VERSION_ATTRIBUTE, {}).get("S", "")
            body = base64.b64decode(item.get(BODY_ATTRIBUTE, {}).get("B", ""))
    elif outcome is Outcome.APPLIED and call.verb == PUT:
        version = version_of(call.body)
    return Answer(
        outcome=outcome, status=reply.status, code=code, version=version, is_missing=is_missing, body=body,
        reason=row.why,
    )  # fmt: skip


def write_refusal(status: int, reason: str) -> bytes:
    """The refusal that a fault may send, where others have this status.

    reason: for people; its first word is the code, where it is one of DynamoDB's.
    """
    status, code = REFUSALS_BY_STATUS.get(status, (status, "InternalServerError"))
    named = reason.partition(":")[0]
    if named.endswith(("Exception", "Exceeded")) and named.isalpha():
        code = named
    body = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": reason})
    return http_reply(status, ("Content-Type", "application/x-amz-json-1.0"), body=body.encode())
