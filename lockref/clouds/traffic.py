"""A request and its answer as they passed on a wire, and what they mean: object, operation, condition and outcome.

Each cloud reads its own: `read_request` in its module `requests`, `reply_to` in its module `answers`. The results use
the words of the history: a version, a condition, an outcome of the closed set. What all clouds share stands here.

A store answers a read in many ways, and lock clients see few of them: a part of an object (206), "not modified" (304),
a condition or a range that does not hold (412, 416). Each is an answer, and a healthy one. An answer that does not show
the present content of the object says nothing about it, and nothing against the store.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote

from lockref.clouds.answers import Meaning, Question, RequestKind
from lockref.grammar import is_whole_range
from lockref.words import IF_ABSENT, Op, Outcome

BODY_KEPT_MAX: Final = 1 << 20
"""Bytes of a body that are kept; lock records and answers about them are far smaller."""

HEADERS_READ: Final = frozenset(
    {
        "content-range", "content-type", "etag", "if-match", "if-modified-since", "if-none-match", "if-range",
        "if-unmodified-since", "range",
    }
)  # fmt: skip
"""The headers that are read in the traffic of every cloud. The facts of each cloud name its own ones."""

UNKNOWN_SUBRESOURCE: Final = "?"
"""Stands among the parameters of a request whose query has a name without a value that no cloud's facts know.

S3 asks for other things than the object in this way. The name is not kept: it may be anything, also a secret.
"""

ANY_OBJECT: Final = "*"
"""Stands for every object, where a request may change some and names none that can be read."""

_PARTIAL: Final = 206
_INNER: Final = re.compile(
    rb"^(DELETE|PATCH|POST|PUT) (?:https?://[^/\s]+)?(/[^\s?]*)(?:\?(\S*))?[ \r\n]", re.MULTILINE
)
_CONDITIONS: Final = frozenset({"if-match", "if-modified-since", "if-none-match", "if-unmodified-since", "range"})
ANY_OTHER_VERSION: Final = "a condition on any other version"
_SEVERAL: Final = re.compile(r'"\s*,\s*(?:W/)?"')
_KINDS: Final = {Op.READ: RequestKind.READ, Op.WRITE: RequestKind.WRITE, Op.DELETE: RequestKind.DELETE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Readable:
    """The parts of foreign traffic that may be read for one cloud, beside `HEADERS_READ`. Others may be secret.

    headers: the cloud's own. parameters: of a query, with their values. named_parameters: their presence is read alone.
    """

    headers: frozenset[str] = frozenset()
    parameters: frozenset[str] = frozenset()
    named_parameters: frozenset[str] = frozenset()


NOTHING: Final = Readable()
"""The words of a store that is reached by no wire: none."""


@dataclass(slots=True)
class Body:
    """The body of a message, as far as it is kept. is_whole: `kept` is all of it. digest: of all of it, kept or not."""

    kept: bytes = b""
    is_whole: bool = True
    size: int = 0
    _hash: hashlib.blake2b | None = None

    def add(self, data: bytes) -> None:
        """These bytes came."""
        self.size += len(data)
        if self._hash is None and self.size <= BODY_KEPT_MAX:
            self.kept += data
            return
        self.is_whole = False
        if self._hash is None:
            self._hash = hashlib.blake2b(self.kept, digest_size=8)
        self._hash.update(data)

    @property
    def digest(self) -> str:
        return (self._hash or hashlib.blake2b(self.kept, digest_size=8)).hexdigest()


@dataclass(slots=True)
class Exchange:
    """One request and its answer, as far as they have passed.

    path: decoded, without the query. host: whom the client means to ask, as a name without a port. parameters: the kept
    ones, and "" for those that were only named.
    length: of the body, as the head tells it; 0 where it does not.
    asked_ns: when the client's first byte came, or later, where others were ahead of it on its connection.
    status: of the final answer; 0 while there is none.
    is_unfinished: the connection ended before the answer's body did, so not all that the server says is known.
    """

    method: str
    path: str
    parameters: Mapping[str, str]
    headers: Mapping[str, str]
    asked_ns: int
    host: str = ""
    body: Body = field(default_factory=Body)
    length: int = 0
    is_complete: bool = False
    status: int = 0
    answer_headers: Mapping[str, str] = field(default_factory=dict)
    answer: Body = field(default_factory=Body)
    answered_ns: int | None = None
    is_unfinished: bool = False


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
    unfollowed: each `bucket/key` that the request may change without telling the new content; `ANY_OBJECT` where it
        tells no names.
    unreadable: why the request is not understood; "" if it is. Nothing but `verb` and `unfollowed` is told then.
    """

    verb: str
    op: Op = Op.NONE
    key: str = ""
    condition: str = ""
    state: State | None = None
    keys: tuple[str, ...] = ()
    is_metadata: bool = False
    names_version: bool = False
    unfollowed: tuple[str, ...] = ()
    unreadable: str = ""


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


def content_of(body: bytes) -> str:
    """A short name for the bytes of an object, as everywhere in a history."""
    return hashlib.blake2b(body, digest_size=8).hexdigest()


def understood(exchange: Exchange, request: ObjectRequest, *, odd: str = "") -> ObjectRequest:
    """The request as a cloud read it; an unreadable one where something that decides over its effect has no word here.

    odd: a condition of the cloud's own that has no word here; "" for none.
    To leave out a condition would make a guarded write a blind one.
    """
    changes = request.op in (Op.WRITE, Op.DELETE)
    problem = (odd or _odd_condition(exchange)) if changes else ""
    if "\ufffd" in exchange.path:
        # Several names of objects would be one.
        problem = "the path is no UTF-8"
    if not problem:
        return request
    return ObjectRequest(
        verb=request.verb, unfollowed=(request.key,) if changes else request.unfollowed, unreadable=problem
    )


def batch(exchange: Exchange, read: Callable[[Exchange], ObjectRequest]) -> ObjectRequest:
    """A request that holds others. It is not followed: which of its objects it changes is all that is read.

    read: what one of the inner requests means.
    """
    inner = [
        Exchange(
            method=found[1].decode(),
            path=unquote(found[2].decode("utf-8", "replace")),
            parameters=dict(parse_qsl((found[3] or b"").decode("utf-8", "replace"), keep_blank_values=True)),
            headers={},
            asked_ns=exchange.asked_ns,
            is_complete=True,
        )
        for found in _INNER.finditer(exchange.body.kept)
    ]
    changed: dict[str, None] = {}
    for request in map(read, inner):
        changed |= dict.fromkeys((request.key,) if request.op in (Op.WRITE, Op.DELETE) else request.unfollowed)
    is_read = exchange.body.is_whole and bool(inner)
    told = tuple(changed) if is_read else (ANY_OBJECT,)
    return ObjectRequest(verb=f"{exchange.method} batch", unfollowed=told, unreadable="a batch of requests")


def _odd_condition(exchange: Exchange) -> str:
    """A condition of a change that is neither "absent" nor one version; "" for none."""
    headers = exchange.headers
    if _SEVERAL.search(headers.get("if-match", "")):
        return "a condition on one of several versions"
    if headers.get("if-none-match", "*").strip() != "*":
        return ANY_OTHER_VERSION
    if "if-unmodified-since" in headers or "if-modified-since" in headers:
        return "a condition on a date"
    return ""


def question_of(
    exchange: Exchange, request: ObjectRequest, *, has_status_inside: bool = False, has_condition: bool = False
) -> Question:
    """The facts about the request on which the meaning of its answer depends.

    has_status_inside: a success may hold an error in its body. has_condition: it has a condition of the cloud's own.
    """
    kind = _KINDS.get(request.op)
    if kind is None:
        # A request that deletes several objects may fail inside its answer, too.
        return Question(kind=RequestKind.OTHER, needs_object=False, has_status_inside=has_status_inside)
    return Question(
        kind=kind,
        needs_object=kind is not RequestKind.WRITE or request.condition not in ("", IF_ABSENT),
        is_conditional=has_condition or bool(_CONDITIONS & exchange.headers.keys()),
        has_status_inside=has_status_inside,
    )


def error_body(exchange: Exchange) -> bytes:
    """The body of the answer, as far as it was kept. A body that was cut off before its first byte is not empty."""
    answer = exchange.answer
    return answer.kept or (b"" if answer.is_whole and answer.size == 0 else b"?")


def object_reply(found: Meaning, *, version: str, state: State | None = None) -> ObjectReply:
    """The answer in the words of a history. version: as requests name it in their conditions."""
    is_done = found.outcome is Outcome.APPLIED
    return ObjectReply(
        outcome=found.outcome,
        version=version if is_done else "",
        state=state if is_done and not found.is_absent else None,
        is_absent=found.is_absent,
        reason=found.reason,
    )


def shown_bytes(exchange: Exchange) -> State | None:
    """The object's bytes, if the answer has all of them.

    Some clients ask for a range by habit. A partial answer that has all bytes is the whole object, and says so. A
    success that does not say which bytes it has, though a range was asked for, may be a part.
    """
    if exchange.method != "GET" or not exchange.answer.is_whole:
        return None
    told = exchange.answer_headers.get("content-range", "")
    is_all = is_whole_range(told) if told else exchange.status == 200 and "range" not in exchange.headers
    if exchange.status not in (200, _PARTIAL) or not is_all:
        return None
    body = exchange.answer.kept
    return State(content_of(body), body)
