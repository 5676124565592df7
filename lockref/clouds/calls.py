"""Requests to an object store without any cloud's words, as data, and their answers.

A `Call` states a request, such as: put this body if the object still has that version. Each cloud's `write_request`
turns the call into one HTTP request, which a `Signer` signs. So every store can be asked the same questions. A call can
also be sent by another process, and shown as a witness, because it holds no signature.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import urlsplit

from lockref.clouds.answers import A_DELETE, A_READ, SOMETHING_ELSE, Meaning, Question, RequestKind, write_question
from lockref.words import Outcome

READ: Final = "read"
RESOURCE: Final = "read resource"
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

MULTIPART: Final = "multipart upload"
COPYING: Final = "copy"
RESUMABLE: Final = "resumable upload"
BLOCKS: Final = "block list"
MEDIA: Final = "media upload"
UPDATE: Final = "UpdateItem"
TRANSACTION: Final = "TransactWriteItems"
"""Ways to write, see `WriteMode`. The last two are DynamoDB's."""

WRITES: Final = frozenset({PUT, DELETE, COPY, COMPLETE})
ANYTHING: Final = "*"
Entries = tuple[tuple[str, str], ...]
REASON_CHARS_MAX: Final = 160


class Inexpressible(Exception):
    """The cloud has no such request: the question does not arise there."""


class Unsigned(Exception):
    """The request cannot be signed, such as where an access token has expired and no new one came. Nothing was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place to which the requests of one store go.

    origin: `http://host[:port]` or `https://host[:port]`. container: the bucket, container or table. root: the path
    before it, such as an account of Azure's emulators: `/ACCOUNT`; "" for none. prefix: what stands before every key,
    with a slash at its end; "" for none. key_attribute: of a table, the name of its key. source_query: what the address
    of a source to copy from needs behind it, such as a shared access signature.
    """

    origin: str
    container: str
    root: str = ""
    prefix: str = ""
    key_attribute: str = ""
    source_query: str = field(default="", repr=False)

    @property
    def host(self) -> str:
        """Host and port of the origin."""
        return urlsplit(self.origin).netloc


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request. It must be picklable: other processes send it.

    match: the version that the object must have; `*` for any. none_match: the version that it must not have; `*`: the
        object must be absent. mode: the way to upload the body, one of the cloud's `modes`; "" for the usual one.
    upload: the id of an upload that was begun. parts: the versions of its parts. source: the key to copy from.
    source_match: the version that the source must have. version: names one of several kept versions of the object.
    A `RESOURCE` describes the object, and holds none of its bytes.
    headers: further headers of a cloud's own.
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

    @property
    def question(self) -> Question:
        """The facts about the call on which the meaning of its answer depends."""
        if self.verb == READ:
            return replace(A_READ, is_conditional=self.match is not None or self.none_match is not None)
        if self.verb == RESOURCE:
            return replace(A_READ, is_about_metadata=True)
        if self.verb in (COPY, COMPLETE):
            return Question(kind=RequestKind.WRITE, has_status_inside=True)
        if self.verb == PUT:
            return write_question(names_version=self.match is not None)
        return A_DELETE if self.verb == DELETE else SOMETHING_ELSE


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a call. status: the HTTP status; None without an answer. code: the service's own word for an error.

    version: of the object that was written or read. body: of an object that was read. entries: keys in a listing, each
    with its version, or "" if the listing names none. upload: the id of an upload that was begun.
    is_unsent: no connection was made, so the request cannot have arrived.
    """

    outcome: Outcome
    status: int | None = None
    code: str = ""
    version: str = ""
    is_missing: bool = False
    body: bytes | None = None
    entries: Entries = ()
    upload: str = ""
    reason: str = ""
    server: str = ""
    date: str = ""
    duration_ns: int = 0
    is_unsent: bool = False

    @staticmethod
    def of(
        found: Meaning, *, status: int, body: bytes | None = None, upload: str = "", entries: Entries = ()
    ) -> Answer:
        """An answer with this meaning, and what a success brought beside it. status: of the reply's first line."""
        is_done = found.outcome is Outcome.APPLIED
        return Answer(
            outcome=found.outcome, status=status, code=found.code, version=found.version,
            is_missing=found.is_absent, body=body if is_done and not found.is_absent else None, reason=found.why,
            upload=upload if is_done else "", entries=entries if is_done else (),
        )  # fmt: skip

    @property
    def is_applied(self) -> bool:
        return self.outcome is Outcome.APPLIED

    @property
    def is_refused(self) -> bool:
        """The condition failed, so nothing was changed."""
        return self.outcome is Outcome.PRECONDITION_FAILED

    @property
    def looks_done(self) -> bool:
        """True if the status says success. A client that does not read the body takes the request for done."""
        return self.is_applied or (self.status is not None and 200 <= self.status < 300 and not self.is_refused)

    @property
    def is_absent(self) -> bool:
        """The answer to a read of an object that does not exist."""
        return self.is_applied and self.is_missing

    @property
    def words(self) -> str:
        """Status and code for people."""
        if self.status is None:
            return self.reason or "no answer"
        told = f"{self.status}{f' {self.code}' if self.code and self.code != str(self.status) else ''}"
        return told[:REASON_CHARS_MAX]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request. target: path and query. Once signed it may hold credentials: it is sent and never shown."""

    method: str
    target: str
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)

    def encoded(self) -> bytes:
        """The bytes of the request on the wire."""
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
    """Another way to write an object, judged under `clause`. name: for people. can_race: several may run in a race."""

    clause: str
    name: str
    can_race: bool = False
