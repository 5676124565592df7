"""HTTP requests and answers in the words of an object store: object, operation, condition and outcome.

Each cloud has a module that translates its requests (`s3`, `gcs`, `azure`). The results use the words of the history:
a version, a condition, an outcome of the closed set. Statuses are read by the tables of our own stores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from lockref.words import Op, Outcome
from scenarios.wire.dialects.conversation import Exchange


@dataclass(frozen=True, slots=True)
class State:
    """The content of an object, as far as it was seen.

    content: a short name; states with equal names are equal to the judge. body: for the decoder; b"" for none. The body
    may tell more than the name, such as when the server stored the object.
    """

    content: str
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRequest:
    """One request about one object.

    op: READ, WRITE or DELETE; NONE for a request that neither shows nor changes the content of an object.
    key: `bucket/key`; "" for a request that is not about a single object.
    condition: as in `lockref.ports.Request`. It may name a part of a version (`7.*`, `*.2`), and then holds for every
        version with this part.
    state: the content to be written; None if it is unknown, or nothing is written.
    keys: the objects to be deleted, for a request that deletes several.
    is_metadata: the request changes the metadata of an object, and not its bytes.
    names_version: the request is about one named version, which may be an old one. Its answer does not tell the present
        content of the object.
    unfollowed: the `bucket/key` that the request may change without telling the new content; "" for none.
    """

    verb: str
    op: Op = Op.NONE
    key: str = ""
    condition: str = ""
    state: State | None = None
    keys: tuple[str, ...] = ()
    is_metadata: bool = False
    names_version: bool = False
    unfollowed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectReply:
    """The store's answer.

    version: that was written or read. state: the content that the answer shows. is_absent: there was no object.
    condition: the version that a write replaced, if only the answer tells it; else "".
    exceptions: by key, for a request that deletes several objects: the deletions with an outcome of their own.
    """

    outcome: Outcome
    version: str = ""
    state: State | None = None
    is_absent: bool = False
    reason: str = ""
    condition: str = ""
    exceptions: Mapping[str, ObjectReply] = field(default_factory=dict)


class Dialect(Protocol):
    """How to read the requests and answers of one cloud."""

    @property
    def name(self) -> str: ...

    def request(self, exchange: Exchange) -> ObjectRequest:
        """The meaning of a complete request."""
        ...

    def reply(self, exchange: Exchange, request: ObjectRequest) -> ObjectReply:
        """The meaning of a complete answer to this request."""
        ...


def content_of(body: bytes) -> str:
    """A short name for the bytes of an object, as everywhere in a history."""
    return hashlib.blake2b(body, digest_size=8).hexdigest()
