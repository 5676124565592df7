"""A server's answers: refusals that we send in its place, and what its own answers say to faults.

A refusal is in the words of each cloud's protocol. The clients read a status and a code, by the status tables in
`lockref.clouds`. The code is one with which the cloud's own client hears what a simulated client hears
(`sim.services.dialects.outcome_of`): so a 503 has no `SlowDown` beside it, which says that nothing was written.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Final

from lockref.ports import Reply
from lockref.stores.uri import AZURE
from lockref.words import Outcome
from scenarios.injection.http_messages import Answer
from sim.services.dialects import outcome_of

_CONDITION_FAILED: Final = b"ConditionalCheckFailed"
"""DynamoDB's word for a failed condition, whose status is 400."""

_S3_CODES: Final = {
    403: "AccessDenied",
    409: "ConditionalRequestConflict",
    412: "PreconditionFailed",
    429: "TooManyRequests",
    500: "InternalError",
    501: "NotImplemented",
    503: "ServiceUnavailable",
}
_AZURE_CODES: Final = {
    403: "AuthorizationFailure",
    409: "PendingCopyOperation",
    412: "ConditionNotMet",
    429: "TooManyRequests",
    500: "OperationTimedOut",
    503: "ServiceUnavailable",
}
"""Azure has several codes for 409. This one means a concurrent request; others say that the object is there, or never
will be."""
_GCS_REASONS: Final = {403: "forbidden", 409: "conflict", 412: "conditionNotMet", 429: "rateLimitExceeded"}
_TABLE_ANSWERS: Final = {
    403: (400, "AccessDeniedException"),
    409: (400, "TransactionConflictException"),
    412: (400, "ConditionalCheckFailedException"),
    429: (400, "ThrottlingException"),
    503: (503, "ServiceUnavailable"),
}
"""DynamoDB refuses with 400 and a code where others have a status."""


def reply_of(answer: Answer) -> Reply:
    """A server's answer as faults see it: whether the request was applied, and what kind of refusal it met if not."""
    if 200 <= answer.status < 300:
        return Reply(Outcome.APPLIED, status=answer.status)
    is_failed_condition = _CONDITION_FAILED in answer.raw
    outcome = Outcome.PRECONDITION_FAILED if is_failed_condition else outcome_of(answer.status)
    return Reply(outcome, status=answer.status)


def refusal(scheme: str, status: int, reason: str) -> bytes:
    """A whole reply with this status. scheme: of the store's URI. reason: for people; of a table its first word is
    the code, where it is one of DynamoDB's."""
    if scheme == "s3":
        return _reply(status, "application/xml", _xml(_S3_CODES.get(status, "InternalError"), reason))
    if scheme in AZURE:
        code = _AZURE_CODES.get(status, "InternalError")
        return _reply(status, "application/xml", _xml(code, reason), ("x-ms-error-code", code))
    if scheme == "dynamodb":
        status, code = _TABLE_ANSWERS.get(status, (status, "InternalServerError"))
        named = reason.partition(":")[0]
        if named.endswith(("Exception", "Exceeded")) and named.isalpha():
            code = named
        body = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": reason})
        return _reply(status, "application/x-amz-json-1.0", body)
    word = _GCS_REASONS.get(status, "backendError")
    error = {"code": status, "message": reason, "errors": [{"message": reason, "domain": "global", "reason": word}]}
    return _reply(status, "application/json", json.dumps({"error": error}))


def _xml(code: str, reason: str) -> str:
    return f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>{reason}</Message></Error>"


def _reply(status: int, kind: str, body: str, *more: tuple[str, str]) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Injected"
    content = body.encode()
    headers = (("Content-Type", kind), ("Content-Length", str(len(content))), *more)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"HTTP/1.1 {status} {phrase}\r\n{lines}\r\n".encode() + content
