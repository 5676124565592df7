"""What is known of Google Cloud Storage: what its versions are, and the meaning of each of its answers.

Source: Google's "HTTP status and error codes for JSON"; conditional-writes.md, section 1.
"""

from __future__ import annotations

from typing import Final

from lockref.clouds.statuses import OBJECT_STORES, StatusRow
from lockref.stores.port import StoreCapabilities
from lockref.words import Outcome

SERVICE: Final = "Google Cloud Storage"
NO_SUCH_OBJECT: Final = "noSuchObject"
NO_SUCH_BUCKET: Final = "noSuchBucket"
CAPABILITIES: Final = StoreCapabilities(dialect="gcs", versions_repeat=False, conditional_delete=True)

OUTCOMES: Final[tuple[StatusRow, ...]] = (
    *OBJECT_STORES,
    # The service has one reason, notFound, for both; the two codes are ours.
    StatusRow(
        status=404,
        code=NO_SUCH_OBJECT,
        outcome=Outcome.PRECONDITION_FAILED,
        missing=True,
        why="there is no such object",
    ),
    StatusRow(status=404, code=NO_SUCH_BUCKET, outcome=Outcome.REJECTED, why="there is no such bucket; create it"),
    StatusRow(status=429, outcome=Outcome.THROTTLED, why="more than one write per second on an object; slow down"),
    StatusRow(status=403, outcome=Outcome.REJECTED, why="access denied; check credentials and bucket policy"),
    StatusRow(status=3, outcome=Outcome.REJECTED, why="the endpoint sends us elsewhere; name the right one"),
)
"""Every answer of GCS (conditional-writes.md, section 1) and what it means for a write."""
