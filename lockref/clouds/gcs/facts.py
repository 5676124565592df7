"""Facts about Google Cloud Storage: the form of its versions, and the meaning of each of its answers.

Source: Google's "HTTP status and error codes for JSON"; conditional-writes.md, section 1.
"""

from __future__ import annotations

import re
from typing import Final

from lockref.clouds.calls import COPYING, MEDIA, RESUMABLE, WriteMode
from lockref.clouds.statuses import OBJECT_STORES, ServerStatuses, StatusRow, Versions
from lockref.clouds.traffic import Readable
from lockref.stores.buckets import CHARS_MAX, common_fault
from lockref.words import Outcome

SERVICE: Final = "Google Cloud Storage"
NO_SUCH_OBJECT: Final = "noSuchObject"
NO_SUCH_BUCKET: Final = "noSuchBucket"

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

FORM: Final = "gs://BUCKET[/PREFIX][?endpoint=http://HOST:PORT]"
OPTIONS: Final = ("endpoint",)
"""The options of a URI."""

DOMAINS: Final = ("googleapis.com",)
"""The service itself, see `Cloud`."""

UNEQUAL: Final = frozenset({"ifGenerationNotMatch", "ifMetagenerationNotMatch"})
CONDITIONS: Final = UNEQUAL | {"ifGenerationMatch", "ifMetagenerationMatch"}
"""The parameters of a query that are conditions, and those of them that name a version to be avoided."""

STATUSES: Final = ServerStatuses(name="gcs", versions=Versions.RISING)

REFUSAL_CODES: Final = {403: "forbidden", 409: "conflict", 412: "conditionNotMet", 429: "rateLimitExceeded"}
"""By status, the reason of a refusal that a fault may send: with it, a client reads what `statuses.outcome_of` says."""

MODES: Final = (
    WriteMode(clause="C14", name=COPYING),
    WriteMode(clause="C15", name=MEDIA, can_race=True),
    WriteMode(clause="C15", name=RESUMABLE, can_race=True),
)

GENERATION_MAX: Final = 2**63 - 1
"""The service's own generations are microseconds. Emulators give nanoseconds, which have 19 digits."""

MARKS: Final = frozenset({"x-guploader-uploadid"})
"""Headers of every answer of the service. Emulators do not send them."""

READABLE: Final = Readable(
    headers=MARKS | {"x-goog-generation", "x-goog-if-generation-match", "x-goog-metageneration"},
    parameters=frozenset({"alt", "generation", "ifGenerationMatch", "ifMetagenerationMatch", "name", "uploadType"}),
    named_parameters=UNEQUAL | {"upload_id"},
)
"""What may be read in foreign traffic. The id of an upload is a capability."""

DOTTED_CHARS_MAX: Final = 222
"""The whole of a name with dots, of which each part has at most 63."""

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9._-]*[a-z0-9]")


def bucket_fault(name: str) -> str:
    """Why `name` is impossible, in words to follow "the bucket … is not possible:"; "" if it is possible."""
    if fault := common_fault(name):
        return fault
    if _BUCKET.fullmatch(name) is None:
        return (
            "a name has lower-case letters, digits, dots, hyphens and underscores, and a letter or digit at both ends"
        )
    if len(name) > DOTTED_CHARS_MAX or any(len(part) > CHARS_MAX for part in name.split(".")):
        return f"a name, or each part of one with dots, has {CHARS_MAX} characters at most"
    if name.startswith("goog") or "google" in name:
        return "Google keeps names that begin with goog or hold google"
    return ""
