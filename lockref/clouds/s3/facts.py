"""What is known of S3: what its versions are, and the meaning of each of its answers.

Source: Amazon's "Error responses" and "Conditional writes"; conditional-writes.md, section 1.
"""

from __future__ import annotations

from typing import Final

from lockref.clouds.statuses import OBJECT_STORES, TOO_MANY, StatusRow
from lockref.stores.port import StoreCapabilities
from lockref.words import Outcome

SERVICE: Final = "S3"
CAPABILITIES: Final = StoreCapabilities(dialect="s3", versions_repeat=True, conditional_delete=True)

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

STATUS_OF: Final = {
    "AccessDenied": 403,
    "ConditionalRequestConflict": 409,
    "NoSuchKey": 404,
    "PreconditionFailed": 412,
}
"""The status for an error code that comes inside the body of a 200. Any other code there counts as 500: ambiguous."""
