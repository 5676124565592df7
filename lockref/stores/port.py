"""The ObjectStore port: one object store, seen as conditional writes.

Every SDK's answers are folded into one closed set of outcomes, so that a lock
decides on *what may have happened*, never on a vendor's status code. The
question each outcome settles: may the write have landed?

    applied              it landed; `version` is what it made
    precondition failed  it did not: the object is not what the caller thought
    conflict             it did not: a concurrent request got in the way (409)
    throttled            it did not: slow down (429, 503 SlowDown)
    rejected             it did not and never will (403, 501, other 4xx)
    ambiguous            unknown: timeout, reset, 5xx; read before deciding (A1)

`missing` marks a precondition that failed because there is no object at all:
S3 answers 404 where GCS and Azure answer 412 (C5), and for a lock the object's
absence means something else than a successor (H15, U9).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType, Protocol, runtime_checkable

from lockref.frozen import filled_by_slots
from lockref.words import Outcome

Version = NewType("Version", str)
"""An opaque version token: an S3 or Azure ETag, a GCS generation. Equality is all it has."""


# Python 3.11 takes long to find a member of an enumeration, and this one is asked for with every reply.
_OUTCOME_APPLIED = Outcome.APPLIED


@filled_by_slots
@dataclass(frozen=True, slots=True)
class WriteReply:
    """The answer to a conditional write or delete. Only an applied write has a version.

    `status` is the HTTP status where there was one; None means that no
    response arrived (timeout, reset). `reason` is for people and logs.
    """

    outcome: Outcome
    version: Version | None = None
    missing: bool = False
    status: int | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        assert (self.version is not None) <= (self.outcome is _OUTCOME_APPLIED), "only an applied write has a version"

    def in_words(self) -> str:
        """The answer for messages."""
        parts = [self.outcome.name.lower().replace("_", " ")]
        if self.status is not None:
            parts.append(str(self.status))
        if self.reason:
            parts.append(self.reason)
        return " ".join(parts)


@filled_by_slots
@dataclass(frozen=True, slots=True)
class ReadReply:
    """The answer to a read: APPLIED with a body, APPLIED with neither (absent), or a failure."""

    outcome: Outcome
    body: bytes | None = None
    version: Version | None = None
    status: int | None = None
    reason: str = ""

    @property
    def is_absent(self) -> bool:
        """True if the store said that there is no such object."""
        return self.outcome is _OUTCOME_APPLIED and self.body is None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCapabilities:
    """The promises of a store, as far as a lock must know them.

    dialect: whose status codes it speaks: "s3", "gcs", "azure", "dynamodb" or "memory".
    versions_repeat: equal bytes give equal versions (S3's ETag; A6, ABA).
    conditional_delete: a delete honours its version.
    """

    dialect: str
    versions_repeat: bool
    conditional_delete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePlace:
    """The place of a store: `cloud` is "s3", "gs", "azure" or "file"; `container` the bucket or folder.

    prefix: what stands before every key, without slashes at its ends; "" for none.
    """

    cloud: str
    container: str
    prefix: str = ""

    def __str__(self) -> str:
        return f"{self.cloud}://{self.container}{f'/{self.prefix}' if self.prefix else ''}"


@runtime_checkable
class PlacedStore(Protocol):
    """A store that knows where it lies, so that a lock for another place can be refused."""

    @property
    def place(self) -> StorePlace: ...


class ObjectStore(Protocol):
    """One bucket or folder. Calls block; they answer within the store's request timeout.

    No call retries: a hidden retry turns a success into a failed precondition
    (A2). No call raises for what a store can answer; `ValueError` is for a
    caller's own mistake, such as an empty key.
    """

    @property
    def capabilities(self) -> StoreCapabilities: ...

    def read(self, key: str) -> ReadReply: ...

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        """Create `key`. PRECONDITION_FAILED if it exists."""
        ...

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply:
        """Replace `key` if it still has `version`. An absent key is PRECONDITION_FAILED with `missing`."""
        ...

    def put(self, key: str, body: bytes) -> WriteReply:
        """Replace `key` whatever it holds. Never for a lock object: it destroys a successor's grant."""
        ...

    def delete(self, key: str, version: Version | None = None) -> WriteReply:
        """Remove `key`, if it still has `version` where one is given. An absent key is `missing`."""
        ...

    def close(self) -> None:
        """Give back sockets and threads. Idempotent."""
        ...
