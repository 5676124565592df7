"""HTTP as it passes: requests and answers, read from a copy of the bytes of one connection.

The bytes themselves go on unmodified; nobody waits for this. h11 finds where a message begins and ends, for both sides.
Of a message only what a history may hold is kept: method, path, the values of a few named query parameters and headers,
and the body. Everything else (signatures, tokens, cookies, presigned parameters) is dropped here, before anybody else
sees it, so that no later mistake can write it down.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote

import h11

BODY_KEPT_MAX: Final = 1 << 20
"""Bytes of a body that are kept; lock records and answers about them are far smaller."""

HEADERS_KEPT: Final = frozenset(
    {
        "content-encoding", "content-type", "etag", "if-match", "if-none-match", "range", "x-amz-copy-source",
        "x-amz-decoded-content-length", "x-goog-generation", "x-goog-metageneration", "x-goog-if-generation-match",
    }
)  # fmt: skip
"""The only headers that leave this module."""

PARAMETERS_KEPT: Final = frozenset(
    {
        "acl", "alt", "comp", "delete", "ifGenerationMatch", "ifMetagenerationMatch", "legal-hold", "list-type", "name",
        "partNumber", "restype", "retention", "select", "tagging", "uploadType", "uploads", "versioning", "versions",
    }
)  # fmt: skip
"""The only query parameters whose values leave this module."""

PARAMETERS_NAMED: Final = PARAMETERS_KEPT | {"uploadId", "upload_id", "versionId"}
"""Of these it is also known that they were there."""

_TEXT_CHARS_MAX: Final = 1024


@dataclass(slots=True)
class Body:
    """What a message carried. is_whole: `kept` is all of it. digest: of all of it, kept or not."""

    kept: bytes = b""
    is_whole: bool = True
    size: int = 0
    _hash: hashlib.blake2b = field(default_factory=lambda: hashlib.blake2b(digest_size=8))

    def add(self, data: bytes) -> None:
        """These bytes came."""
        self._hash.update(data)
        self.size += len(data)
        if len(self.kept) + len(data) <= BODY_KEPT_MAX:
            self.kept += data
        else:
            self.is_whole = False

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


@dataclass(slots=True)
class Exchange:
    """One request and its answer, as far as they have passed.

    path: decoded, without the query. parameters: the kept ones, and "" for those that were only named.
    length: of the body, as the head tells it; 0 where it does not.
    asked_ns: when the client's first byte came. forwarded_ns: when its last byte went to the server; None before.
    status: of the final answer; 0 while there is none. is_delivered: the whole answer went on to the client.
    """

    method: str
    path: str
    parameters: Mapping[str, str]
    headers: Mapping[str, str]
    asked_ns: int
    body: Body = field(default_factory=Body)
    length: int = 0
    is_complete: bool = False
    forwarded_ns: int | None = None
    status: int = 0
    answer_headers: Mapping[str, str] = field(default_factory=dict)
    answer: Body = field(default_factory=Body)
    answered_ns: int | None = None
    is_delivered: bool = False


def _kept_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    named = ((name.decode("ascii", "replace").lower(), value) for name, value in headers)
    return {name: value.decode("latin-1")[:_TEXT_CHARS_MAX] for name, value in named if name in HEADERS_KEPT}


def _kept_parameters(query: str) -> dict[str, str]:
    return {
        name: value[:_TEXT_CHARS_MAX] if name in PARAMETERS_KEPT else ""
        for name, value in parse_qsl(query, keep_blank_values=True)
        if name in PARAMETERS_NAMED
    }


class Conversation:
    """The exchanges of one connection, one after the other.

    current: the exchange under way, or the last one until the next begins.
    unreadable: why the bytes are no HTTP that can be followed; "" while they are. Nothing is read from then on.
    """

    def __init__(self) -> None:
        self._server = h11.Connection(h11.SERVER)  # It reads what the client says,
        self._client = h11.Connection(h11.CLIENT)  # and this one what the server answers.
        self.current: Exchange | None = None
        self.unreadable = ""

    def from_client(self, data: bytes, at_ns: int) -> None:
        """The client sent these bytes."""
        self._read(self._server, data, self._request_event, at_ns)

    def from_server(self, data: bytes, at_ns: int) -> None:
        """The server sent these bytes."""
        self._read(self._client, data, self._answer_event, at_ns)

    def server_closed(self, at_ns: int) -> None:
        """Nothing more comes from the server; an answer without a length ends here.

        A client may hang up as soon as it has read the status. That is an answer, too, though not all of it is known.
        """
        exchange = self.current
        if self.unreadable or exchange is None or not exchange.status or exchange.answered_ns is not None:
            return
        with contextlib.suppress(h11.RemoteProtocolError):
            self._client.receive_data(b"")
            while not isinstance(event := self._client.next_event(), h11.ConnectionClosed | type):
                self._answer_event(event, at_ns)
        if exchange.answered_ns is None:
            exchange.answer.is_whole = False
            exchange.answered_ns = at_ns

    def _read(self, reader: h11.Connection, data: bytes, take: Callable[[h11.Event, int], None], at_ns: int) -> None:
        if self.unreadable:
            return
        try:
            reader.receive_data(data)
            while True:
                event = reader.next_event()
                if event in (h11.NEED_DATA, h11.PAUSED) or isinstance(event, h11.ConnectionClosed):
                    return
                take(event, at_ns)  # type: ignore[arg-type]
        except (h11.ProtocolError, UnicodeDecodeError) as error:
            self.unreadable = f"no HTTP/1.1 that can be followed ({type(error).__name__})"

    def _request_event(self, event: h11.Event, at_ns: int) -> None:
        # What one side said is repeated to the reader of the other side: it must know the method to find where the
        # answer ends. The bytes that this makes go nowhere.
        if isinstance(event, h11.Request):
            target = event.target.decode("ascii", "replace")
            lengths = [value for name, value in event.headers if name == b"content-length"]
            path, _, query = target.partition("?")
            self.current = Exchange(
                method=event.method.decode("ascii", "replace"),
                path=unquote(path),
                parameters=_kept_parameters(query),
                headers=_kept_headers(event.headers),
                asked_ns=at_ns,
                length=int(lengths[0]) if lengths else 0,
            )
            self._client.send(h11.Request(method=event.method, target=b"/", headers=[(b"Host", b"-")]))
        elif isinstance(event, h11.Data) and self.current is not None:
            self.current.body.add(bytes(event.data))
        elif isinstance(event, h11.EndOfMessage) and self.current is not None:
            self._client.send(h11.EndOfMessage())
            self.current.is_complete = True

    def _answer_event(self, event: h11.Event, at_ns: int) -> None:
        exchange = self.current
        if exchange is None:
            return
        if isinstance(event, h11.Response):
            exchange.status = event.status_code
            exchange.answer_headers = _kept_headers(event.headers)
            self._server.send(h11.Response(status_code=event.status_code, headers=list(event.headers)))
        elif isinstance(event, h11.Data):
            exchange.answer.add(bytes(event.data))
            self._server.send(h11.Data(data=bytes(event.data)))
        elif isinstance(event, h11.EndOfMessage):
            self._server.send(h11.EndOfMessage())
            exchange.answered_ns = at_ns
            self._next_cycle()

    def _next_cycle(self) -> None:
        states = (self._server.our_state, self._server.their_state, self._client.our_state, self._client.their_state)
        if all(state is h11.DONE for state in states):
            self._server.start_next_cycle()
            self._client.start_next_cycle()
