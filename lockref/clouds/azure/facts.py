"""What is known of Azure Blob Storage: what its versions are, and the meaning of each of its answers.

Source: Azure's "Blob Storage error codes"; conditional-writes.md, section 1.
"""

from __future__ import annotations

from typing import Final

from lockref.clouds.statuses import OBJECT_STORES, TOO_MANY, StatusRow
from lockref.stores.port import StoreCapabilities
from lockref.words import Outcome

SERVICE: Final = "Azure Blob Storage"
CAPABILITIES: Final = StoreCapabilities(dialect="azure", versions_repeat=False, conditional_delete=True)

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
