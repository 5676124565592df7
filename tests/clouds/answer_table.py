"""What each cloud answers, byte for byte, and what the answer means: outcome, absence, version.

The rows are written out by hand from the documentation of the services (S3 "Error responses", GCS "HTTP status and
error codes for JSON", Azure "Blob Storage error codes") and from what emulators and proxies were seen to send. They are
the measure of every reader of answers, so no row is computed from a table of the product.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lockref.words import Outcome

CREATE: Final = "create"
REPLACE: Final = "replace"
DELETE: Final = "delete"
READ: Final = "read"
WRITES: Final = (CREATE, REPLACE)
CHANGES: Final = (CREATE, REPLACE, DELETE)
ALL: Final = (CREATE, REPLACE, DELETE, READ)
ON_OBJECT: Final = (REPLACE, DELETE, READ)
"""Requests that need the object. A create does without it."""

BODY: Final = b"record"
ETAG: Final = '"5eb63bbb"'
GENERATION: Final = "1700000000000001"
LONG: Final = "1795688437528436324"
"""A generation of nanoseconds, as emulators give it: 19 digits."""
_VERSIONS: Final = {"s3": ETAG, "gs": GENERATION, "az": ETAG, "dynamodb": "5eb63bbb"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One answer to one kind of request, and its meaning.

    scheme: of the cloud. asked: the kind of the request. answer: the bytes of the whole answer. outcome: what it means.
    is_absent: it says that there is no object. version: that it names; "" for none. condition: the version that a
    request for a replacement or a removal names.
    """

    scheme: str
    asked: str
    title: str
    answer: bytes
    outcome: Outcome
    is_absent: bool = False
    version: str = ""
    condition: str = ""

    def __post_init__(self) -> None:
        if not self.condition:
            object.__setattr__(self, "condition", _VERSIONS[self.scheme])

    def __str__(self) -> str:
        return f"{self.scheme} {self.asked}: {self.title}"


def http(status: int, *headers: tuple[str, str], body: bytes = b"") -> bytes:
    """One answer with a length, as a server on a kept connection sends it."""
    fields = (("Content-Length", str(len(body))), *headers)
    if status in (204, 304):
        # Such an answer has no body, and a length would belong to another message.
        fields = headers
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
    return f"HTTP/1.1 {status} Said\r\n{lines}\r\n".encode() + body


def _s3(status: int, code: str) -> bytes:
    """An error of S3: XML that names a code; without a body for ""."""
    if not code:
        return http(status)
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>Said</Message></Error>'
    return http(status, ("Content-Type", "application/xml"), body=body.encode())


def _gs(status: int, reason: str, message: str = "Said") -> bytes:
    """An error of GCS: JSON that names a reason; without a body for ""."""
    if not reason:
        return http(status)
    error = {"code": status, "message": message, "errors": [{"message": message, "domain": "global", "reason": reason}]}
    return http(status, ("Content-Type", "application/json"), body=json.dumps({"error": error}).encode())


def _az(status: int, code: str) -> bytes:
    """An error of Azure: a header and XML that name a code; neither for ""."""
    if not code:
        return http(status)
    body = f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code><Message>Said</Message></Error>'
    return http(status, ("x-ms-error-code", code), ("Content-Type", "application/xml"), body=body.encode())


def _dynamodb(status: int, code: str) -> bytes:
    """An error of DynamoDB: JSON that names a code; an empty object for ""."""
    error = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "Said"} if code else {}
    return _table(status, error)


def _table(status: int, told: object) -> bytes:
    """An answer of DynamoDB, which is always JSON."""
    return http(status, ("Content-Type", "application/x-amz-json-1.0"), body=json.dumps(told).encode())


_O = Outcome
_ERRORS: Final = {"s3": _s3, "gs": _gs, "az": _az, "dynamodb": _dynamodb}

_CODES: Final[tuple[tuple[str, tuple[str, ...], int, str, Outcome], ...]] = (
    # S3. A condition that does not hold, contention, throttling.
    ("s3", CHANGES, 412, "PreconditionFailed", _O.PRECONDITION_FAILED),
    ("s3", CHANGES, 412, "", _O.PRECONDITION_FAILED),
    ("s3", CHANGES, 409, "ConditionalRequestConflict", _O.CONFLICT),
    ("s3", CHANGES, 409, "OperationAborted", _O.CONFLICT),
    ("s3", ALL, 429, "TooManyRequests", _O.THROTTLED),
    ("s3", ALL, 503, "SlowDown", _O.THROTTLED),
    # The service failed, and a write may have landed.
    ("s3", ALL, 503, "ServiceUnavailable", _O.AMBIGUOUS),
    ("s3", ALL, 503, "", _O.AMBIGUOUS),
    ("s3", ALL, 500, "InternalError", _O.AMBIGUOUS),
    ("s3", ALL, 502, "", _O.AMBIGUOUS),
    ("s3", ALL, 504, "", _O.AMBIGUOUS),
    ("s3", ALL, 400, "RequestTimeout", _O.AMBIGUOUS),
    ("s3", ALL, 408, "", _O.AMBIGUOUS),
    # A refusal for ever.
    ("s3", ALL, 400, "InvalidArgument", _O.REJECTED),
    ("s3", ALL, 400, "ExpiredToken", _O.REJECTED),
    ("s3", ALL, 400, "InvalidRequest", _O.REJECTED),
    ("s3", ALL, 400, "AuthorizationHeaderMalformed", _O.REJECTED),
    ("s3", ALL, 401, "", _O.REJECTED),
    ("s3", ALL, 403, "AccessDenied", _O.REJECTED),
    ("s3", ALL, 403, "SignatureDoesNotMatch", _O.REJECTED),
    ("s3", ALL, 403, "RequestTimeTooSkewed", _O.REJECTED),
    ("s3", ALL, 403, "InvalidAccessKeyId", _O.REJECTED),
    ("s3", ALL, 404, "NoSuchBucket", _O.REJECTED),
    ("s3", CHANGES, 405, "MethodNotAllowed", _O.REJECTED),
    ("s3", CHANGES, 400, "NotImplemented", _O.REJECTED),
    ("s3", CHANGES, 501, "NotImplemented", _O.REJECTED),
    ("s3", ALL, 301, "PermanentRedirect", _O.REJECTED),
    ("s3", ALL, 307, "TemporaryRedirect", _O.REJECTED),
    ("s3", CHANGES, 413, "", _O.REJECTED),
    # GCS.
    ("gs", CHANGES, 412, "conditionNotMet", _O.PRECONDITION_FAILED),
    ("gs", CHANGES, 412, "", _O.PRECONDITION_FAILED),
    ("gs", CHANGES, 409, "conflict", _O.CONFLICT),
    ("gs", ALL, 429, "rateLimitExceeded", _O.THROTTLED),
    ("gs", ALL, 429, "", _O.THROTTLED),
    ("gs", ALL, 500, "internalError", _O.AMBIGUOUS),
    ("gs", ALL, 500, "backendError", _O.AMBIGUOUS),
    ("gs", ALL, 502, "", _O.AMBIGUOUS),
    ("gs", ALL, 503, "backendError", _O.AMBIGUOUS),
    ("gs", ALL, 504, "", _O.AMBIGUOUS),
    ("gs", ALL, 408, "uploadBrokenConnection", _O.AMBIGUOUS),
    ("gs", ALL, 400, "invalid", _O.REJECTED),
    ("gs", ALL, 403, "forbidden", _O.REJECTED),
    ("gs", ALL, 403, "accountDisabled", _O.REJECTED),
    ("gs", CHANGES, 405, "methodNotAllowed", _O.REJECTED),
    ("gs", CHANGES, 413, "uploadTooLarge", _O.REJECTED),
    ("gs", CHANGES, 501, "notImplemented", _O.REJECTED),
    ("gs", ALL, 302, "", _O.REJECTED),
    ("gs", ALL, 308, "", _O.REJECTED),
    # Azure.
    ("az", (CREATE,), 409, "BlobAlreadyExists", _O.PRECONDITION_FAILED),
    ("az", CHANGES, 412, "ConditionNotMet", _O.PRECONDITION_FAILED),
    ("az", CHANGES, 412, "", _O.PRECONDITION_FAILED),
    ("az", CHANGES, 412, "LeaseIdMissing", _O.CONFLICT),
    ("az", CHANGES, 409, "PendingCopyOperation", _O.CONFLICT),
    ("az", CHANGES, 409, "ContainerBeingDeleted", _O.CONFLICT),
    ("az", CHANGES, 409, "BlobImmutableDueToPolicy", _O.REJECTED),
    ("az", CHANGES, 409, "BlobArchived", _O.REJECTED),
    ("az", CHANGES, 409, "SnapshotsPresent", _O.REJECTED),
    ("az", CHANGES, 409, "InvalidBlobType", _O.REJECTED),
    ("az", ALL, 429, "", _O.THROTTLED),
    ("az", ALL, 503, "ServerBusy", _O.THROTTLED),
    ("az", ALL, 503, "", _O.AMBIGUOUS),
    ("az", ALL, 500, "InternalError", _O.AMBIGUOUS),
    ("az", ALL, 500, "OperationTimedOut", _O.AMBIGUOUS),
    ("az", ALL, 502, "", _O.AMBIGUOUS),
    ("az", ALL, 408, "", _O.AMBIGUOUS),
    ("az", ALL, 400, "InvalidHeaderValue", _O.REJECTED),
    ("az", ALL, 400, "InvalidInput", _O.REJECTED),
    ("az", ALL, 403, "AuthenticationFailed", _O.REJECTED),
    ("az", ALL, 403, "AuthorizationFailure", _O.REJECTED),
    ("az", ALL, 404, "ContainerNotFound", _O.REJECTED),
    ("az", CHANGES, 405, "UnsupportedHttpVerb", _O.REJECTED),
    ("az", CHANGES, 413, "RequestBodyTooLarge", _O.REJECTED),
    ("az", CHANGES, 501, "", _O.REJECTED),
    ("az", ALL, 307, "", _O.REJECTED),
    ("az", CHANGES, 409, "ContainerDisabled", _O.REJECTED),
    ("az", ALL, 409, "PublicAccessNotPermitted", _O.REJECTED),
    ("az", CHANGES, 409, "BlobImmutableDueToLegalHold", _O.REJECTED),
    ("az", CHANGES, 409, "ResourceTypeMismatch", _O.REJECTED),
    ("az", ALL, 401, "NoAuthenticationInformation", _O.REJECTED),
    ("gs", ALL, 401, "required", _O.REJECTED),
    ("s3", CHANGES, 404, "NoSuchUpload", _O.REJECTED),
    ("az", CHANGES, 400, "NotImplemented", _O.REJECTED),
    ("gs", CHANGES, 400, "NotImplemented", _O.REJECTED),
    # DynamoDB answers nearly everything with 400. A read has no condition that could fail.
    ("dynamodb", CHANGES, 400, "ConditionalCheckFailedException", _O.PRECONDITION_FAILED),
    ("dynamodb", (READ,), 400, "ConditionalCheckFailedException", _O.AMBIGUOUS),
    ("dynamodb", ALL, 400, "TransactionConflictException", _O.CONFLICT),
    ("dynamodb", ALL, 400, "ReplicatedWriteConflictException", _O.CONFLICT),
    ("dynamodb", ALL, 400, "ProvisionedThroughputExceededException", _O.THROTTLED),
    ("dynamodb", ALL, 400, "ThrottlingException", _O.THROTTLED),
    ("dynamodb", ALL, 400, "RequestLimitExceeded", _O.THROTTLED),
    ("dynamodb", ALL, 429, "", _O.THROTTLED),
    ("dynamodb", ALL, 400, "RequestTimeout", _O.AMBIGUOUS),
    ("dynamodb", ALL, 400, "RequestTimeoutException", _O.AMBIGUOUS),
    ("dynamodb", ALL, 408, "", _O.AMBIGUOUS),
    ("dynamodb", ALL, 500, "InternalServerError", _O.AMBIGUOUS),
    ("dynamodb", ALL, 500, "", _O.AMBIGUOUS),
    ("dynamodb", ALL, 502, "", _O.AMBIGUOUS),
    ("dynamodb", ALL, 503, "ServiceUnavailable", _O.AMBIGUOUS),
    ("dynamodb", ALL, 503, "", _O.AMBIGUOUS),
    ("dynamodb", ALL, 504, "", _O.AMBIGUOUS),
    ("dynamodb", ALL, 302, "", _O.AMBIGUOUS),
    ("dynamodb", ALL, 400, "ResourceNotFoundException", _O.REJECTED),
    ("dynamodb", CHANGES, 400, "ItemCollectionSizeLimitExceededException", _O.REJECTED),
    ("dynamodb", ALL, 400, "ValidationException", _O.REJECTED),
    ("dynamodb", ALL, 400, "SerializationException", _O.REJECTED),
    ("dynamodb", ALL, 400, "AccessDeniedException", _O.REJECTED),
    ("dynamodb", ALL, 400, "ExpiredTokenException", _O.REJECTED),
    ("dynamodb", ALL, 400, "UnrecognizedClientException", _O.REJECTED),
    ("dynamodb", ALL, 400, "InvalidSignatureException", _O.REJECTED),
    ("dynamodb", ALL, 400, "IncompleteSignatureException", _O.REJECTED),
    ("dynamodb", ALL, 400, "MissingAuthenticationTokenException", _O.REJECTED),
    ("dynamodb", ALL, 400, "", _O.REJECTED),
    ("dynamodb", ALL, 403, "", _O.REJECTED),
    ("dynamodb", ALL, 413, "", _O.REJECTED),
    ("dynamodb", ALL, 418, "", _O.REJECTED),
    ("dynamodb", ALL, 501, "", _O.REJECTED),
)
"""Scheme, requests, status, the service's word, outcome. Neither absence nor a version is told by these answers."""


def rows() -> Iterator[Row]:
    """All rows."""
    for scheme, asked_in, status, code, outcome in _CODES:
        for asked in asked_in:
            title = f"{status} {code}".strip()
            yield Row(scheme=scheme, asked=asked, title=title, answer=_ERRORS[scheme](status, code), outcome=outcome)
    yield from _successes()
    yield from _without_object()
    yield from _of_other_servers()
    yield from _of_tables()


def _successes() -> Iterator[Row]:
    """A write that was applied, and a read of the object."""
    for scheme, created in (("s3", 200), ("az", 201)):
        for asked in WRITES:
            yield Row(
                scheme=scheme, asked=asked, title=f"{created}", answer=http(created, ("ETag", ETAG)),
                outcome=_O.APPLIED, version=ETAG,
            )  # fmt: skip
        yield Row(
            scheme=scheme, asked=READ, title="200", answer=http(200, ("ETag", ETAG), body=BODY), outcome=_O.APPLIED,
            version=ETAG,
        )  # fmt: skip
        yield Row(
            scheme=scheme, asked=READ, title="200, an empty object", answer=http(200, ("ETag", ETAG)),
            outcome=_O.APPLIED, version=ETAG,
        )  # fmt: skip
    resource = json.dumps({"kind": "storage#object", "name": "p/k", "generation": GENERATION, "metageneration": "1"})
    for asked in WRITES:
        answer = http(200, ("Content-Type", "application/json"), body=resource.encode())
        yield Row(scheme="gs", asked=asked, title="200", answer=answer, outcome=_O.APPLIED, version=GENERATION)
        answer = http(200, ("Content-Type", "application/json"), body=resource.replace(GENERATION, LONG).encode())
        yield Row(
            scheme="gs", asked=asked, title="200, in nanoseconds", answer=answer, outcome=_O.APPLIED, version=LONG
        )
    told = (("x-goog-generation", GENERATION), ("x-goog-metageneration", "1"))
    for title, body in (("200", BODY), ("200, an empty object", b"")):
        yield Row(
            scheme="gs", asked=READ, title=title, answer=http(200, *told, body=body), outcome=_O.APPLIED,
            version=GENERATION,
        )  # fmt: skip
    for scheme, status in (("s3", 204), ("gs", 204), ("az", 202)):
        yield Row(scheme=scheme, asked=DELETE, title=f"{status}", answer=http(status), outcome=_O.APPLIED)
    for scheme, sign in _SIGNS:
        for status in (202,) if scheme == "az" else (200, 202, 204):
            answer = http(
                status, (sign, "4442587FB7D0A2F9"), body=b"<Done/>" if scheme == "s3" and status != 204 else b""
            )
            yield Row(scheme=scheme, asked=DELETE, title=f"{status} with {sign}", answer=answer, outcome=_O.APPLIED)
    # fake-gcs-server.
    null = http(200, ("Content-Type", "application/json"), body=b"null\n")
    yield Row(scheme="gs", asked=DELETE, title="200, null", answer=null, outcome=_O.APPLIED)


_SIGNS: Final = (
    ("s3", "x-amz-request-id"), ("s3", "x-amz-id-2"), ("gs", "X-GUploader-UploadID"), ("az", "x-ms-request-id"),
)  # fmt: skip
"""Headers that a cloud sends with each of its answers."""


def _without_object() -> Iterator[Row]:
    """There is no object: a failed condition of a write, and an answer to a read (C5)."""
    named = {
        "s3": [("404 NoSuchKey", _s3(404, "NoSuchKey")), ("404 without a body", _s3(404, ""))],
        "gs": [
            ("404 notFound, No such object", _gs(404, "notFound", "No such object: bucket/p/k")),
            ("404 in plain words", http(404, ("Content-Type", "text/html"), body=b"No such object: bucket/p/k")),
            ("404 notFound, Not Found", _gs(404, "notFound", "Not Found")),
            ("404 without a body", http(404)),
        ],
        "az": [("404 BlobNotFound", _az(404, "BlobNotFound"))],
    }
    for scheme, answers in named.items():
        for title, answer in answers:
            for asked in ON_OBJECT:
                outcome = _O.APPLIED if asked == READ else _O.PRECONDITION_FAILED
                is_absent = True
                if scheme == "gs" and asked == REPLACE and "No such object" not in title and "plain" not in title:
                    # An upload needs nothing but the bucket: a condition that does not hold is answered with 412.
                    outcome, is_absent = _O.REJECTED, False
                yield Row(scheme=scheme, asked=asked, title=title, answer=answer, outcome=outcome, is_absent=is_absent)
    yield Row(
        scheme="s3",
        asked=CREATE,
        title="404 without a body",
        answer=_s3(404, ""),
        outcome=_O.PRECONDITION_FAILED,
        is_absent=True,
    )
    for asked in ALL:
        for message in (
            "The specified bucket does not exist.",
            "Bucket not found",
            "The requested bucket bucket was not found",
        ):
            yield Row(
                scheme="gs", asked=asked, title=f"404 notFound, {message}", answer=_gs(404, "notFound", message),
                outcome=_O.REJECTED,
            )  # fmt: skip
    yield Row(
        scheme="gs", asked=CREATE, title="404 notFound, Not Found", answer=_gs(404, "notFound", "Not Found"),
        outcome=_O.REJECTED,
    )  # fmt: skip
    yield Row(scheme="az", asked=READ, title="404 without a code", answer=_az(404, ""), outcome=_O.REJECTED)


def _of_other_servers() -> Iterator[Row]:
    """What no cloud says, and what emulators, proxies and captive portals were seen to say."""
    page = http(200, ("Content-Type", "text/html"), body=b"<html>Log in</html>")
    for scheme in ("s3", "gs", "az"):
        for asked in WRITES:
            yield Row(scheme=scheme, asked=asked, title="200, a web page", answer=page, outcome=_O.AMBIGUOUS)
            yield Row(scheme=scheme, asked=asked, title="304 for 412", answer=http(304), outcome=_O.PRECONDITION_FAILED)
        for asked in (READ, DELETE):
            yield Row(scheme=scheme, asked=asked, title="200, a web page", answer=page, outcome=_O.AMBIGUOUS)
        for status in (201, 202):
            foreign = http(status, ("Content-Type", "application/json"), body=b'{"status": "ok"}')
            yield Row(
                scheme=scheme, asked=DELETE, title=f"{status}, JSON of a gateway", answer=foreign, outcome=_O.AMBIGUOUS
            )
        empty = http(200, ("Content-Type", "application/json"), body=b"{}")
        yield Row(scheme=scheme, asked=DELETE, title="200, {} of a gateway", answer=empty, outcome=_O.AMBIGUOUS)
        # gcp-storage-emulator answers a removal so. A page has a body.
        nothing = _O.APPLIED if scheme == "gs" else _O.AMBIGUOUS
        yield Row(scheme=scheme, asked=DELETE, title="200 and nothing", answer=http(200), outcome=nothing)
        # A read of ours has no condition, so these are no answers to it.
        yield Row(scheme=scheme, asked=READ, title="412", answer=http(412), outcome=_O.AMBIGUOUS)
        for status in (418, 451, 507, 599):
            outcome = _O.REJECTED if status < 500 else _O.AMBIGUOUS
            yield Row(
                scheme=scheme, asked=CREATE, title=f"{status}, which is not documented", answer=http(status),
                outcome=outcome,
            )  # fmt: skip
        yield Row(scheme=scheme, asked=CREATE, title="no status of HTTP", answer=http(600), outcome=_O.AMBIGUOUS)
    for title, body in (
        ("403, a page", b"<html><body>Forbidden</body></html>"),
        ("403, JSON of a gateway", b'{"message": "Forbidden"}'),
    ):
        for scheme in ("s3", "gs", "az"):
            yield Row(scheme=scheme, asked=CREATE, title=title, answer=http(403, body=body), outcome=_O.REJECTED)


def _of_tables() -> Iterator[Row]:
    """What a table answers where nothing is wrong, and what no table says."""
    for asked in CHANGES:
        yield Row(scheme="dynamodb", asked=asked, title="200", answer=_table(200, {}), outcome=_O.APPLIED)
    item = {"key": {"S": "k"}, "recordVersionNumber": {"S": "7"}, "lockref_version": {"S": "7"}}
    bodies = {"lockref_body": {"B": "cmVjb3Jk"}, "bytes": {"B": "cmVjb3Jk"}}
    yield Row(
        scheme="dynamodb", asked=READ, title="200, an item", answer=_table(200, {"Item": item | bodies}),
        outcome=_O.APPLIED, version="7",
    )  # fmt: skip
    for title, body in (("200, no item", {}), ("200, metrics alone", {"ConsumedCapacity": {"TableName": "t"}})):
        yield Row(
            scheme="dynamodb", asked=READ, title=title, answer=_table(200, body), outcome=_O.APPLIED, is_absent=True
        )
    page = http(200, ("Content-Type", "text/html"), body=b"<html>Log in</html>")
    for asked in ALL:
        yield Row(scheme="dynamodb", asked=asked, title="200, a web page", answer=page, outcome=_O.AMBIGUOUS)
