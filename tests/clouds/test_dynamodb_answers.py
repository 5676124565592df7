"""What DynamoDB's error codes mean for a write: a table of its own, so that no row of the facts changes unnoticed."""

from __future__ import annotations

import json

import pytest

from lockref.clouds.calls import PUT, Call, HttpReply, Place
from lockref.clouds.dynamodb.answers import answer_to
from lockref.clouds.dynamodb.facts import CODES
from lockref.words import Outcome

MEANINGS = {
    Outcome.PRECONDITION_FAILED: ["ConditionalCheckFailedException"],
    Outcome.CONFLICT: ["TransactionConflictException", "ReplicatedWriteConflictException"],
    Outcome.THROTTLED: ["ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded"],
    Outcome.AMBIGUOUS: ["RequestTimeout", "RequestTimeoutException", "InternalServerError", "ServiceUnavailable"],
    Outcome.REJECTED: [
        "ResourceNotFoundException",
        "ItemCollectionSizeLimitExceededException",
        "ValidationException",
        "SerializationException",
        "AccessDeniedException",
        "ExpiredTokenException",
        "UnrecognizedClientException",
        "InvalidSignatureException",
        "IncompleteSignatureException",
        "MissingAuthenticationTokenException",
    ],
}
PLACE = Place(origin="http://host", container="table", key_attribute="key")
WRITE = Call(verb=PUT, key="key", body=b"{}")


def meaning_of(status: int, body: object) -> Outcome:
    reply = HttpReply(status=status, headers={}, body=json.dumps(body).encode())
    return answer_to(PLACE, WRITE, reply).outcome


def test_every_code_has_a_meaning_here() -> None:
    assert sorted(CODES) == sorted(code for codes in MEANINGS.values() for code in codes)


@pytest.mark.parametrize(("code", "expected"), [(code, said) for said, codes in MEANINGS.items() for code in codes])
def test_a_code_decides(code: str, expected: Outcome) -> None:
    assert meaning_of(CODES[code], {"__type": f"com.amazonaws.dynamodb.v20120810#{code}"}) is expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (408, Outcome.AMBIGUOUS),
        (413, Outcome.REJECTED),
        (418, Outcome.REJECTED),
        (429, Outcome.THROTTLED),
        (500, Outcome.AMBIGUOUS),
        (501, Outcome.REJECTED),
        (503, Outcome.AMBIGUOUS),
        (302, Outcome.AMBIGUOUS),
    ],
)
def test_without_a_code_the_status_decides(status: int, expected: Outcome) -> None:
    assert meaning_of(status, {}) is expected


@pytest.mark.parametrize("is_listed", [True, False])
@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("ConditionalCheckFailed", Outcome.PRECONDITION_FAILED),
        ("TransactionConflict", Outcome.CONFLICT),
        ("ValidationError", Outcome.REJECTED),
    ],
)
def test_a_cancelled_transaction_says_why(is_listed: bool, reason: str, expected: Outcome) -> None:
    """Some servers have a list of reasons, others name them in the message."""
    told = {"CancellationReasons": [{"Code": "None"}, {"Code": reason}]} if is_listed else {"message": f"[{reason}]"}
    assert meaning_of(400, {"__type": "x#TransactionCanceledException", **told}) is expected
