"""Facts about S3: the form of its versions, and the meaning of each of its answers.

Other servers speak S3, too. One whose answers have the same meanings needs nothing here. A `Dialect` tells what another
one says otherwise, and gets a scheme of its own: see docs/adding-a-cloud.md.

Source: Amazon's "Error responses" and "Conditional writes"; conditional-writes.md, section 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lockref.clouds.calls import COPYING, MULTIPART, WriteMode
from lockref.clouds.statuses import OBJECT_STORES, TOO_MANY, ServerStatuses, StatusRow, Versions
from lockref.clouds.traffic import Readable
from lockref.stores.buckets import CHARS_MAX, common_fault
from lockref.words import Outcome

SCHEME: Final = "s3"

MARKS: Final = frozenset({"x-amz-id-2", "x-amz-request-id"})
"""Headers of every answer of S3. Not every server that speaks S3 sends one."""

BODILESS_404: Final = "404"
"""The code of a 404 without a body, which names none."""

OUTCOMES: Final[tuple[StatusRow, ...]] = (
    *OBJECT_STORES,
    StatusRow(
        status=404,
        code="NoSuchKey",
        outcome=Outcome.PRECONDITION_FAILED,
        missing=True,
        why="there is no such object (C5)",
    ),
    # Some servers answer 404 without a body for a missing key. botocore then takes the status as the code.
    StatusRow(
        status=404, code=BODILESS_404, outcome=Outcome.PRECONDITION_FAILED, missing=True, why="there is no such object"
    ),
    StatusRow(status=404, code="NoSuchBucket", outcome=Outcome.REJECTED, why="there is no such bucket; create it"),
    StatusRow(status=404, outcome=Outcome.REJECTED, why="something other than the object is missing"),
    TOO_MANY,
    StatusRow(status=503, code="SlowDown", outcome=Outcome.THROTTLED, why="too many requests; slow down"),
    StatusRow(status=400, code="RequestTimeout", outcome=Outcome.AMBIGUOUS, why="the server stopped waiting for us"),
    StatusRow(
        status=400,
        code="AuthorizationHeaderMalformed",
        outcome=Outcome.REJECTED,
        why="the bucket lives elsewhere; name its region or endpoint",
    ),
    StatusRow(
        status=403,
        code="RequestTimeTooSkewed",
        outcome=Outcome.REJECTED,
        why="this machine's clock is too far from the server's; set it right",
    ),
    StatusRow(status=403, outcome=Outcome.REJECTED, why="access denied; check credentials and bucket policy"),
    StatusRow(status=3, outcome=Outcome.REJECTED, why="the bucket lives elsewhere; name its region or endpoint"),
)
"""Every answer of S3 (conditional-writes.md, section 1) and what it means for a write."""

STATUS_OF: Final[Mapping[str, int]] = {
    "AccessDenied": 403,
    "ConditionalRequestConflict": 409,
    "NoSuchKey": 404,
    "PreconditionFailed": 412,
}
"""The status for an error code that comes inside the body of a 200. Any other code there counts as 500: ambiguous."""

_FORM: Final = "BUCKET[/PREFIX][?endpoint=http://HOST:PORT&region=REGION&client=obstore]"
OPTIONS: Final = ("endpoint", "region", "client")
"""The options of a URI."""

CLIENTS: Final = ("boto3", "obstore")
"""The libraries that can send the requests of a store; the first does where a URI names none."""

DOMAINS: Final = ("amazonaws.com", "amazonaws.com.cn")
"""The service itself, see `Cloud`."""

STATUSES: Final = ServerStatuses(
    name="s3", versions=Versions.CONTENT, absent=404, delete_absent=204, unknown_condition=501, tells_absence=True
)

REFUSAL_CODES: Final[Mapping[int, str]] = {
    403: "AccessDenied",
    409: "ConditionalRequestConflict",
    412: "PreconditionFailed",
    429: "TooManyRequests",
    500: "InternalError",
    501: "NotImplemented",
    503: "ServiceUnavailable",
}
"""By status, the code of a refusal that a fault may send: with it, a client reads what `statuses.outcome_of` says. So a
503 has no `SlowDown` beside it, which says that nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The answers of one server that speaks S3. What is left out is Amazon's.

    scheme: of its URIs, `s3+NAME`. title: for people. statuses: with which it answers, and under which name scenarios
        know it.
    outcomes: the meanings of statuses and codes. Rows of its own stand before `OUTCOMES`: of two that fit equally well,
        the first decides.
    status_of: the status for a code of its own inside the body of a 200, see `STATUS_OF`.
    refusal_codes: by status, the code of a refusal that a fault may send, see `REFUSAL_CODES`.
    marks: headers of which its answer to a removal has one, where that is no 204. has_empty_removals: its answer to a
    removal may be a success without a body and without such a header. A page of a proxy has a body.
    """

    scheme: str
    title: str
    statuses: ServerStatuses
    outcomes: tuple[StatusRow, ...] = OUTCOMES
    status_of: Mapping[str, int] = field(default_factory=lambda: STATUS_OF)
    refusal_codes: Mapping[int, str] = field(default_factory=lambda: REFUSAL_CODES)
    marks: frozenset[str] = MARKS
    has_empty_removals: bool = False

    @property
    def form(self) -> str:
        """The form of a URI with this scheme, as people are told it."""
        return f"{self.scheme}://{_FORM}"


AMAZON: Final = Dialect(scheme=SCHEME, title="S3", statuses=STATUSES)

MODES: Final = (
    WriteMode(clause="C13", name=MULTIPART, can_race=True),
    WriteMode(clause="C14", name=COPYING),
)
AMPLIFIERS: Final = ((("x-amz-sdk-checksum-algorithm", "SHA256"),),)
"""Servers that are told to check a sum have the whole body in their hands between the check and the write.

moto computes the sum where the request names an algorithm alone. Amazon answers 400 to that, so a race leaves the form
out there; every body comes with its Content-MD5 anyway.
"""

READABLE: Final = Readable(
    headers=MARKS
    | {
        "content-encoding",
        "x-amz-copy-source",
        "x-amz-date",
        "x-amz-decoded-content-length",
        "x-amz-if-match-last-modified-time",
        "x-amz-if-match-size",
        "x-amz-rename-source",
        "x-amz-write-offset-bytes",
    },
    parameters=frozenset(
        {
            "acl",
            "attributes",
            "delete",
            "legal-hold",
            "list-type",
            "partNumber",
            "renameObject",
            "restore",
            "retention",
            "select",
            "tagging",
            "torrent",
            "uploads",
            "versioning",
            "versions",
        }
    ),
    named_parameters=frozenset({"uploadId", "versionId"}),
)
"""What may be read in foreign traffic."""

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]*[a-z0-9]")


def bucket_fault(name: str) -> str:
    """Why `name` is impossible, in words to follow "the bucket … is not possible:"; "" if it is possible."""
    if fault := common_fault(name):
        return fault
    if len(name) > CHARS_MAX:
        return f"a name has {CHARS_MAX} characters at most"
    if _BUCKET.fullmatch(name) is None:
        return "a name has lower-case letters, digits, dots and hyphens, and a letter or digit at both ends"
    return ""
