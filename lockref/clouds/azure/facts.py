"""Facts about Azure Blob Storage: the form of its versions, and the meaning of each of its answers.

Source: Azure's "Blob Storage error codes"; conditional-writes.md, section 1.
"""

from __future__ import annotations

import re
from typing import Final

from lockref.clouds.calls import BLOCKS, COPYING, LEASE, WriteMode
from lockref.clouds.statuses import OBJECT_STORES, TOO_MANY, ServerStatuses, StatusRow, Versions
from lockref.clouds.traffic import Readable
from lockref.stores.buckets import CHARS_MAX
from lockref.words import Outcome

SERVICE: Final = "Azure Blob Storage"

_FAILED = Outcome.PRECONDITION_FAILED
_NEVER: Final = "it cannot be written as a lock object"

OUTCOMES: Final[tuple[StatusRow, ...]] = (
    *OBJECT_STORES,
    StatusRow(
        status=412,
        code="LeaseIdMissing",
        outcome=Outcome.CONFLICT,
        why="somebody has a lease of Azure's on the object; break it, or wait until it ends",
    ),
    StatusRow(status=409, code="BlobAlreadyExists", outcome=_FAILED, why="the object is there already"),
    StatusRow(status=409, code="ContainerDisabled", outcome=Outcome.REJECTED, why="the container is disabled"),
    StatusRow(
        status=409,
        code="PublicAccessNotPermitted",
        outcome=Outcome.REJECTED,
        why="the account serves nobody without credentials",
    ),
    StatusRow(
        status=409, code="BlobImmutableDueToPolicy", outcome=Outcome.REJECTED, why=f"a retention policy: {_NEVER}"
    ),
    StatusRow(status=409, code="BlobImmutableDueToLegalHold", outcome=Outcome.REJECTED, why=f"a legal hold: {_NEVER}"),
    StatusRow(status=409, code="InvalidBlobType", outcome=Outcome.REJECTED, why=f"no block blob: {_NEVER}"),
    StatusRow(status=409, code="ResourceTypeMismatch", outcome=Outcome.REJECTED, why=f"a folder: {_NEVER}"),
    StatusRow(status=409, code="BlobArchived", outcome=Outcome.REJECTED, why=f"in the archive tier: {_NEVER}"),
    StatusRow(
        status=409, code="SnapshotsPresent", outcome=Outcome.REJECTED, why="the object has snapshots; delete them first"
    ),
    StatusRow(status=404, code="BlobNotFound", outcome=_FAILED, missing=True, why="there is no such object"),
    StatusRow(
        status=404,
        code="ContainerNotFound",
        outcome=Outcome.REJECTED,
        why="there is no such container; create it",
    ),
    StatusRow(status=404, outcome=Outcome.REJECTED, why="something other than the object is missing"),
    TOO_MANY,
    StatusRow(status=503, code="ServerBusy", outcome=Outcome.THROTTLED, why="too many requests; slow down"),
    StatusRow(
        status=403,
        code="AuthenticationFailed",
        outcome=Outcome.REJECTED,
        why="the signature is refused; check the key, or the token's end, and this machine's clock",
    ),
    StatusRow(status=403, outcome=Outcome.REJECTED, why="access denied; check roles, token and firewall"),
    StatusRow(status=3, outcome=Outcome.REJECTED, why="the endpoint sends us elsewhere; name the right one"),
)
"""Every answer of Azure (conditional-writes.md, section 1; Azure's "Blob Storage error codes") and what it means for
a write. Of OperationTimedOut, a 500, Azure itself says that the write may have landed."""

_AT: Final = "[/PREFIX][?endpoint=http://HOST:PORT/ACCOUNT]"
_ABFS: Final = f"abfs[s]://CONTAINER@ACCOUNT.dfs.core.windows.net{_AT}"
_WASB: Final = f"wasb[s]://CONTAINER@ACCOUNT.blob.core.windows.net{_AT}"
FORMS: Final = {"az": f"az://CONTAINER{_AT}", "abfs": _ABFS, "abfss": _ABFS, "wasb": _WASB, "wasbs": _WASB}
"""By scheme. All but the first name the account; they are those of Hadoop, and of RFC-91."""

NAMES_ACCOUNT: Final = {name: "@" in form for name, form in FORMS.items()}
"""By scheme: does the URI name the account? Without one it is the environment's."""

OPTIONS: Final = ("endpoint",)
"""The options of a URI."""

DOMAINS: Final = ("windows.net",)
"""The service itself, see `Cloud`."""

STATUSES: Final = ServerStatuses(name="azure", versions=Versions.UNIQUE, created=201, exists=409, deleted=202)

REFUSAL_CODES: Final = {
    403: "AuthorizationFailure",
    409: "PendingCopyOperation",
    412: "ConditionNotMet",
    429: "TooManyRequests",
    500: "OperationTimedOut",
    503: "ServiceUnavailable",
}
"""By status, the code of a refusal that a fault may send: with it, a client reads what `statuses.outcome_of` says.

Azure has several codes for 409. This one means a concurrent request; others say that the object is there, or never
will be.
"""

MODES: Final = (
    WriteMode(clause="C13", name=BLOCKS, can_race=True),
    WriteMode(clause="C14", name=COPYING),
    WriteMode(clause="C25", name=LEASE),
)

MARK: Final = "x-ms-request-id"
"""A header of every answer of the service."""

READABLE: Final = Readable(
    headers=frozenset(
        {MARK, "x-ms-blob-type", "x-ms-date", "x-ms-delete-snapshots", "x-ms-error-code", "x-ms-if-tags"}
    ),
    parameters=frozenset({"comp", "restype"}),
    named_parameters=frozenset({"snapshot", "versionid"}),
)
"""What may be read in foreign traffic."""

_CONTAINER: Final = re.compile(r"[a-z0-9](-?[a-z0-9])*")


def container_fault(name: str) -> str:
    """Why a container's name is impossible, to follow "the container … is not possible:"; "" if it is possible."""
    if not 3 <= len(name) <= CHARS_MAX:
        return f"a name has 3 to {CHARS_MAX} characters"
    if _CONTAINER.fullmatch(name) is None:
        return "a name has lower-case letters, digits and single hyphens, and a letter or digit at both ends"
    return ""
