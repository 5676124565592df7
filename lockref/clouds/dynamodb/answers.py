"""The answers of Amazon DynamoDB, read from their bytes. Nothing is sent here."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeGuard

from lockref.clouds.answers import Meaning, Question, RequestKind, silence
from lockref.clouds.calls import PUT, READ, Answer, Call, HttpReply, Place
from lockref.clouds.dynamodb.facts import CODES, OUTCOMES, REFUSALS_BY_STATUS
from lockref.clouds.dynamodb.requests import BODY_ATTRIBUTE, VERSION_ATTRIBUTE, version_of
from lockref.clouds.http_reply import http_reply
from lockref.clouds.statuses import classify
from lockref.grammar import code_word, is_json_object, json_object
from lockref.words import Outcome

_NO_JSON: Final = "no JSON came back"
_NO_ITEM: Final = "an item came back that none of ours is"


def read_answer(question: Question, status: int, _headers: Mapping[str, str], body: bytes) -> Meaning:
    """The meaning of an answer. A table tells no version of a write: that is the hash of the body, see `answer_to`."""
    if status < 300 and not is_json_object(body):
        # A success that is none of DynamoDB's, such as the page of a proxy.
        return silence(Outcome.AMBIGUOUS, _NO_JSON, status=status)
    found = json_object(body)
    code = _code(found)
    row = classify(OUTCOMES, status, code)
    if row.outcome is Outcome.PRECONDITION_FAILED and question.kind is RequestKind.READ:
        # There was no condition that could fail.
        return Meaning(outcome=Outcome.AMBIGUOUS, status=status, code=code, why=row.why)
    if row.outcome is not Outcome.APPLIED or question.kind is not RequestKind.READ:
        return Meaning(outcome=row.outcome, status=status, code=code, why=row.why)
    item = found.get("Item")
    if item is None:
        return Meaning(outcome=row.outcome, status=status, is_absent=True, why=row.why)
    shown = _shown(item)
    if shown is None:
        return silence(Outcome.AMBIGUOUS, _NO_ITEM, status=status)
    return Meaning(outcome=row.outcome, status=status, version=shown[0], why=row.why)


def _code(found: Mapping[str, Any]) -> str:
    """The code of an error; of a transaction that was cancelled, the code of what cancelled it."""
    code = code_word(str(found.get("__type", "")).rpartition("#")[2])
    if code != "TransactionCanceledException":
        return code
    listed = found.get("CancellationReasons")
    reasons = [str(each.get("Code", "")) for each in listed if isinstance(each, dict)] if _is_list(listed) else []
    # Servers that give no list of reasons name them in the message.
    told = reasons or [str(found.get("message") or found.get("Message") or "")]
    if any("ConditionalCheckFailed" in each for each in told):
        return "ConditionalCheckFailedException"
    return "TransactionConflictException" if any("TransactionConflict" in each for each in told) else code


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _shown(item: object) -> tuple[str, bytes] | None:
    """The version and the body of an item, each "" where it has none; None for what is no item of ours."""
    if not isinstance(item, dict):
        return None
    version, body = item.get(VERSION_ATTRIBUTE, {"S": ""}), item.get(BODY_ATTRIBUTE, {"B": ""})
    if not (isinstance(version, dict) and isinstance(body, dict)):
        return None
    told, held = version.get("S"), body.get("B")
    if not (isinstance(told, str) and isinstance(held, str)):
        return None
    try:
        return told, base64.b64decode(held, validate=True)
    except ValueError:
        return None


def answer_to(_place: Place, call: Call, reply: HttpReply) -> Answer:
    """The answer to a call of ours."""
    found = read_answer(call.question, reply.status, reply.headers, reply.body)
    shown = None
    if found.outcome is Outcome.APPLIED and call.verb == READ:
        shown = _shown(json_object(reply.body).get("Item"))
    elif found.outcome is Outcome.APPLIED and call.verb == PUT:
        found = replace(found, version=version_of(call.body))
    return Answer.of(found, status=reply.status, body=shown[1] if shown else None)


def write_refusal(status: int, reason: str) -> bytes:
    """The refusal that a fault may send, where others have this status.

    reason: for people; its first word is the code, where the table has it and it means the same as the status does.
    """
    status, code = REFUSALS_BY_STATUS.get(status, (status, "InternalServerError"))
    named = reason.partition(":")[0]
    meant = classify(OUTCOMES, status, code).outcome
    if CODES.get(named) == status and classify(OUTCOMES, status, named).outcome is meant:
        code = named
    body = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": reason})
    return http_reply(status, ("Content-Type", "application/x-amz-json-1.0"), body=body.encode())
