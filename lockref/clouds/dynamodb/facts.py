"""Every answer of Amazon DynamoDB, and what it means for a write. The modelled table answers by the same rows.

DynamoDB answers nearly everything with 400, and the error's code says which. What nobody foresaw is AMBIGUOUS, never a
definite answer (A1).

A throttled write was not applied: DynamoDB counts the cost before it writes. A 500 or 503 says nothing, and the write
may have landed. Source: Amazon DynamoDB Developer Guide, "Error handling with DynamoDB"; its API Reference, "Common
errors".
"""

from __future__ import annotations

from typing import Final

from lockref.clouds.calls import TRANSACTION, UPDATE, WriteMode
from lockref.clouds.statuses import ServerStatuses, StatusRow, Versions, classify, reason_text
from lockref.ports import Reply
from lockref.words import Outcome

SERVICE: Final = "DynamoDB"
LOCAL_REGION: Final = "us-east-1"
"""The region of servers on this machine."""


def _rows(outcome: Outcome, why: str, *codes: str, status: int = 400) -> tuple[StatusRow, ...]:
    """One row for each code."""
    return tuple(StatusRow(status=status, code=code, outcome=outcome, why=why) for code in codes)


OUTCOMES: Final[tuple[StatusRow, ...]] = (
    StatusRow(status=2, outcome=Outcome.APPLIED, why="done"),
    *_rows(Outcome.PRECONDITION_FAILED, "the item is not what the condition says", "ConditionalCheckFailedException"),
    *_rows(
        Outcome.CONFLICT,
        "another write of this item got in the way; try again",
        "TransactionConflictException",
        "ReplicatedWriteConflictException",
    ),
    *_rows(
        Outcome.THROTTLED,
        "too many requests; slow down",
        "ProvisionedThroughputExceededException",
        "ThrottlingException",
        "RequestLimitExceeded",
    ),
    StatusRow(status=429, outcome=Outcome.THROTTLED, why="too many requests; slow down"),
    *_rows(Outcome.AMBIGUOUS, "the server stopped waiting for us", "RequestTimeout", "RequestTimeoutException"),
    StatusRow(status=408, outcome=Outcome.AMBIGUOUS, why="the server stopped waiting for us"),
    *_rows(Outcome.REJECTED, "there is no such table; create it", "ResourceNotFoundException"),
    *_rows(
        Outcome.REJECTED,
        "the items of this key together are too large",
        "ItemCollectionSizeLimitExceededException",
    ),
    *_rows(
        Outcome.REJECTED,
        "the item (at most 400 kB) or the key of the table is not as expected",
        "ValidationException",
        "SerializationException",
    ),
    *_rows(Outcome.REJECTED, "access denied; check policies", "AccessDeniedException"),
    *_rows(
        Outcome.REJECTED,
        "the credentials have expired; renew them",
        "ExpiredTokenException",
    ),
    *_rows(
        Outcome.REJECTED,
        "the credentials are missing or refused",
        "UnrecognizedClientException",
        "InvalidSignatureException",
        "IncompleteSignatureException",
        "MissingAuthenticationTokenException",
    ),
    StatusRow(status=403, outcome=Outcome.REJECTED, why="the credentials are missing or refused"),
    StatusRow(status=413, outcome=Outcome.REJECTED, why="the request is too large"),
    StatusRow(status=4, outcome=Outcome.REJECTED, why="the request was refused"),
    *_rows(Outcome.AMBIGUOUS, "the server failed; the write may have landed", "InternalServerError", status=500),
    *_rows(
        Outcome.AMBIGUOUS, "the server is not there now; the write may have landed", "ServiceUnavailable", status=503
    ),
    StatusRow(status=501, outcome=Outcome.REJECTED, why="the server does not support this request"),
    StatusRow(status=5, outcome=Outcome.AMBIGUOUS, why="the server failed; the write may have landed"),
)
"""Every answer of DynamoDB and what it means for a write."""

CODES: Final = {row.code: row.status for row in OUTCOMES if row.code != "*"}
"""The HTTP status of each error code in the table."""

FORM: Final = "dynamodb://TABLE[?endpoint=http://HOST:PORT&region=REGION]"
OPTIONS: Final = ("endpoint", "region")
"""The options of a URI."""

STATUSES: Final = ServerStatuses(
    name="dynamodb",
    versions=Versions.CONTENT,
    exists=400,
    stale=400,
    absent=400,
    delete_absent=200,
    delete_conditional_absent=400,
    deleted=200,
)

REFUSALS_BY_STATUS: Final = {
    403: (400, "AccessDeniedException"),
    409: (400, "TransactionConflictException"),
    412: (400, "ConditionalCheckFailedException"),
    429: (400, "ThrottlingException"),
    503: (503, "ServiceUnavailable"),
}
"""DynamoDB refuses with 400 and a code where others have a status."""

MODES: Final = (
    WriteMode(clause="C15", name=UPDATE, can_race=True),
    WriteMode(clause="C15", name=TRANSACTION, can_race=True),
)


def refusal(code: str) -> Reply:
    """The answer with this error code, as DynamoDB gives it."""
    status = CODES[code]
    row = classify(OUTCOMES, status, code)
    return Reply(row.outcome, status=status, reason=reason_text(row.why, status, code))
