"""What an HTTP exchange means to an object store: the object, what is done to it, the condition, and the outcome.

Each cloud's words are one module (`s3`, `gcs`). What they mean here is what the history's columns mean: a version, a
condition, an outcome of the closed set. The tables of statuses are those of our own stores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from lockref.history import Op
from lockref.stores.port import Outcome
from scenarios.wire.conversation import Exchange


@dataclass(frozen=True, slots=True)
class State:
    """What an object holds, as far as it was seen. content: a short name. body: what a decoder reads; b"" for none.

    Two states with one content are the same for whoever compares; the body may say more, such as when the server
    stored it.
    """

    content: str
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRequest:
    """One request about one object.

    key: `bucket/key`; "" where the request is about no single object. op: READ, WRITE, DELETE; NONE for what neither
    shows nor changes what an object holds. condition: as in `lockref.ports.Request`. state: what is written; None where
    it is not known or nothing is written. keys: what a request about several objects deletes.
    is_metadata: it writes what stands beside the bytes of an object. A condition that names a version in part, as
    `7.*` or `*.2`, holds for any version that has this part. names_version: it is about this one version of the object,
    be it the present one or not, so its answer tells nothing of what the object holds. unfollowed: the `bucket/key`
    that it may change in a way that cannot be read off; "" for none.
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
    """What the store answered. version: that was made or found. state: what a read, or the answer to a write, shows.

    is_absent: there was no object. condition: which version a write replaced, where only the answer tells; "" else.
    exceptions: of the request's `keys`, those whose deletion did not end as the request as a whole, and how it did.
    """

    outcome: Outcome
    version: str = ""
    state: State | None = None
    is_absent: bool = False
    reason: str = ""
    condition: str = ""
    exceptions: Mapping[str, ObjectReply] = field(default_factory=dict)


class Dialect(Protocol):
    """How one cloud's requests and answers are read."""

    @property
    def name(self) -> str: ...

    def request(self, exchange: Exchange) -> ObjectRequest:
        """What a complete request asks for."""
        ...

    def reply(self, exchange: Exchange, request: ObjectRequest) -> ObjectReply:
        """What a complete answer says."""
        ...


def content_of(body: bytes) -> str:
    """A short name for the bytes of an object, as everywhere in a history."""
    return hashlib.blake2b(body, digest_size=8).hexdigest()
