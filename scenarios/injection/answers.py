"""What a server says when it refuses a request, in the words of each cloud's protocol.

The clients read a status and a code; both are those of the status tables in `lockref.stores`.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Final

_S3_CODES: Final = {
    403: "AccessDenied",
    409: "ConditionalRequestConflict",
    412: "PreconditionFailed",
    429: "TooManyRequests",
    500: "InternalError",
    501: "NotImplemented",
    503: "SlowDown",
}
_GCS_REASONS: Final = {403: "forbidden", 409: "conflict", 412: "conditionNotMet", 429: "rateLimitExceeded"}
_TABLE_ANSWERS: Final = {
    403: (400, "AccessDeniedException"),
    409: (400, "TransactionConflictException"),
    412: (400, "ConditionalCheckFailedException"),
    429: (400, "ThrottlingException"),
}
"""DynamoDB refuses with 400 and a code where others have a status."""


def refusal(scheme: str, status: int, reason: str) -> bytes:
    """A whole reply with this status. scheme: of the store's URI. reason: for people; of a table its first word is
    the code, where it is one of DynamoDB's."""
    if scheme == "s3":
        code = _S3_CODES.get(status, "InternalError")
        body = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>{reason}</Message></Error>"
        return _reply(status, "application/xml", body)
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


def _reply(status: int, kind: str, body: str) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Injected"
    content = body.encode()
    return (
        f"HTTP/1.1 {status} {phrase}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n".encode()
        + content
    )
