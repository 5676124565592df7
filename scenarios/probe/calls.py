"""What the probe asks, as data, and what came back.

A `Call` says what is meant, in no cloud's words: put this body if the object still has that version. A dialect turns it
into one HTTP request. So the same questions are put to every store, can be sent from another process, and can be shown
as a witness without anything that a signature holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

from lockref.stores.port import Outcome

READ: Final = "read"
PUT: Final = "put"
DELETE: Final = "delete"
LIST: Final = "list"
COPY: Final = "copy"
BEGIN_UPLOAD: Final = "begin upload"
PART: Final = "part"
COMPLETE: Final = "complete"
ABORT: Final = "abort"
UPLOADS: Final = "list uploads"
VERSIONING: Final = "versioning"
VERSIONS: Final = "list versions"
DELETE_VERSION: Final = "delete version"
LEASE: Final = "lease"

WRITES: Final = frozenset({PUT, DELETE, COPY, COMPLETE})
ANYTHING: Final = "*"
NO_VERSION: Final = "a success that names no version: does a store answer there?"
REASON_CHARS_MAX: Final = 160


class Inexpressible(Exception):
    """The cloud has no such request: the question does not arise there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request. It must be picklable: other processes send it.

    match: the version that the object must have; `*`: any. none_match: the version that it must not have; `*`: it must
        be absent. mode: the way in which a body goes up, one of the dialect's `modes`; "" for the usual one.
    upload: an upload that was begun. parts: what it consists of. source: the key that a copy is made of.
    source_match: the version that the source must have. version: of one of an object's versions.
    headers: further ones, of a dialect's own.
    """

    verb: str
    key: str = ""
    body: bytes = b""
    match: str | None = None
    none_match: str | None = None
    mode: str = ""
    upload: str = ""
    parts: tuple[str, ...] = ()
    source: str = ""
    source_match: str | None = None
    version: str = ""
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def condition(self) -> str:
        """The condition for people: `if-match "etag"`; "" for none."""
        told = []
        if self.match is not None:
            told.append(f"if-match {self.match}")
        if self.none_match is not None:
            told.append(f"if-none-match {self.none_match}")
        if self.source_match is not None:
            told.append(f"if the source matches {self.source_match}")
        return ", ".join(told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back. status: None where nothing did. code: the service's own word for the error.

    version: of the object that was written or read. body: of an object that was read. entries: what a listing named,
    each with its version ("" where it does not say). upload: of an upload that was begun.
    is_unsent: nothing can have arrived, because no connection was made.
    """

    outcome: Outcome
    status: int | None = None
    code: str = ""
    version: str = ""
    is_missing: bool = False
    body: bytes | None = None
    entries: tuple[tuple[str, str], ...] = ()
    upload: str = ""
    reason: str = ""
    server: str = ""
    date: str = ""
    duration_ns: int = 0
    is_unsent: bool = False

    @property
    def is_applied(self) -> bool:
        return self.outcome is Outcome.APPLIED

    @property
    def is_refused(self) -> bool:
        """The condition failed, so nothing was changed."""
        return self.outcome is Outcome.PRECONDITION_FAILED

    @property
    def looks_done(self) -> bool:
        """A client takes the status for a success, whatever the body says."""
        return self.is_applied or (self.status is not None and 200 <= self.status < 300 and not self.is_refused)

    @property
    def is_absent(self) -> bool:
        """Of a read: there is no such object."""
        return self.is_refused and self.is_missing

    @property
    def words(self) -> str:
        """Status and code for people."""
        if self.status is None:
            return self.reason or "no answer"
        told = f"{self.status}{f' {self.code}' if self.code and self.code != str(self.status) else ''}"
        return told[:REASON_CHARS_MAX]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A signed request. target: path and query. It may hold credentials: it is sent and never shown."""

    method: str
    target: str
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)

    def encoded(self) -> bytes:
        """As it goes over the wire."""
        lines = [f"{self.method} {self.target} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers.items())]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + self.body


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """Head and body of a reply; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMode:
    """Another way to write an object, judged under `clause`. name: for people. can_race: completions may race."""

    clause: str
    name: str
    can_race: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusals:
    """The statuses that the cloud's own service gives when a condition fails; 0: it has no statuses."""

    exists: int
    stale: int
    absent: int
    delete_absent: int


class Dialect(Protocol):
    """One cloud's way to write requests and answers."""

    name: str
    origin: str
    """`http://host[:port]` or `https://host[:port]`: where requests go."""
    refusals: Refusals
    modes: tuple[WriteMode, ...]
    amplifiers: tuple[tuple[tuple[str, str], ...], ...]
    """Headers that make a server of this kind look longer at a body before it writes. A race may use them."""

    def form(self, call: Call) -> HttpRequest:
        """The signed request. Errors: Inexpressible where the cloud has no such request."""
        ...

    def answer(self, call: Call, reply: HttpReply) -> Answer:
        """What a reply means."""
        ...
