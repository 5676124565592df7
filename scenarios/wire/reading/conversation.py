"""Read HTTP requests and answers from a copy of the bytes of one connection.

The bytes themselves go on unmodified, and do not wait for this. `framing` finds where a message begins and ends. Only
those parts of a message are kept that a history may hold: method, path, the values of a few named query parameters and
headers, and the body. Everything else (signatures, tokens, cookies, presigned parameters) is dropped here. So a later
mistake cannot write a secret down.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, unquote

from lockref.clouds.traffic import HEADERS_READ, UNKNOWN_SUBRESOURCE, Exchange
from lockref.clouds.uri import CLOUDS
from scenarios.injection.http_messages import BODILESS_STATUSES, INTERIM, BadMessage, BodyEnd, body_end, status_of
from scenarios.wire.reading.framing import Framing, Messages

_TEXT_CHARS_MAX: Final = 1024
_REQUEST: Final = re.compile(rb"([A-Z]+) ([^ \r\n]+) HTTP/1\.[01]\r\n")
_ABSOLUTE: Final = re.compile(r"https?://([^/?]*)")


@dataclass(slots=True)
class _Fields:
    """The header fields of one message: those that are kept, how its body ends, and the host."""

    kept: dict[str, str]
    end: BodyEnd
    host: str


class _Kept:
    """The parts of traffic that may be kept, of every cloud. Nothing else leaves this module.

    headers: by their names as bytes. parameters: of a query, with their values. named: whose presence is noted.
    """

    def __init__(self) -> None:
        kinds = [cloud.readable for cloud in CLOUDS.values()]
        self.headers = {name.encode(): name for name in HEADERS_READ.union(*(kind.headers for kind in kinds))}
        self.parameters = frozenset[str]().union(*(kind.parameters for kind in kinds))
        self.named = self.parameters.union(*(kind.named_parameters for kind in kinds))


def _fields(raw: bytes, headers: Mapping[bytes, str]) -> _Fields:
    """Raises BadMessage for a head that does not tell one end of its body."""
    end = body_end(raw)
    kept: dict[str, str] = {}
    host = ""
    for line in raw.split(b"\r\n")[1:-2]:
        name, _, value = line.partition(b":")
        name = name.lower()
        if name == b"host":
            host = value.strip().decode("latin-1")
        elif name in headers:
            kept[headers[name]] = value.strip().decode("latin-1")[:_TEXT_CHARS_MAX]
    return _Fields(kept, end, host)


def _parameters(query: str, kept: _Kept) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in kept.named:
            found[name] = value[:_TEXT_CHARS_MAX] if name in kept.parameters else ""
        elif not value:
            found[UNKNOWN_SUBRESOURCE] = ""
    return found


class Conversation:
    """The exchanges of one connection, one after the other.

    current: the exchange under way, or the last one until the next begins. begun: all of them, for whoever takes them
    out, in order: a client may send one request behind the other. client_ns: when its last bytes came.
    unreadable: why the bytes are no HTTP that can be followed; "" while they are. Nothing is read from then on.
    """

    def __init__(self) -> None:
        self._requests = Messages(self._request, self._asked, self._request_end)
        self._answers = Messages(self._answer, self._answered, self._answer_end)
        self._kept = _Kept()
        self._at_ns = 0
        self.client_ns = 0
        self.current: Exchange | None = None
        self.begun: deque[Exchange] = deque()
        self.unreadable = ""

    def from_client(self, data: bytes, at_ns: int) -> None:
        """The client sent these bytes."""
        self.client_ns = at_ns
        self._read(self._requests, data, at_ns)

    def from_server(self, data: bytes, at_ns: int) -> None:
        """The server sent these bytes."""
        self._read(self._answers, data, at_ns)

    def server_closed(self, at_ns: int) -> None:
        """Nothing more comes from the server; an answer without a length ends here."""
        self._close(at_ns, is_end=self._answers.ends_by_close)

    def closed(self, at_ns: int) -> None:
        """The connection is over. Where the server had not hung up before, the client did.

        A client may hang up as soon as it has read the status. That is an answer, too, though not all of it is known:
        a refusal stands, and `Dialect.reply` takes no success from it.
        """
        self._close(at_ns, is_end=False)

    def _close(self, at_ns: int, *, is_end: bool) -> None:
        exchange = self.current
        if self.unreadable or exchange is None or not exchange.status or exchange.answered_ns is not None:
            return
        exchange.is_unfinished = not is_end
        exchange.answer.is_whole = exchange.answer.is_whole and is_end
        exchange.answered_ns = at_ns

    def _read(self, messages: Messages, data: bytes, at_ns: int) -> None:
        if self.unreadable:
            return
        self._at_ns = at_ns
        try:
            messages.feed(data)
        except BadMessage as error:
            self.unreadable = f"no HTTP/1.1 that can be followed ({error})"

    def _request(self, raw: bytes) -> Framing | int:
        line = _REQUEST.match(raw)
        if line is None:
            raise BadMessage("a request does not begin with a request line")
        fields = _fields(raw, self._kept.headers)
        target = line[2].decode("ascii", "replace")
        absolute = _ABSOLUTE.match(target)
        path, _, query = target[absolute.end() if absolute else 0 :].partition("?")
        self.current = Exchange(
            method=line[1].decode("ascii"),
            path=unquote(path),
            parameters=_parameters(query, self._kept) if query else {},
            headers=fields.kept,
            asked_ns=self.client_ns,
            host=(absolute[1] if absolute else fields.host).partition(":")[0].lower(),
            length=fields.end.length or 0,
        )
        self.begun.append(self.current)
        return Framing.CHUNKED if fields.end.is_chunked else fields.end.length or 0

    def _asked(self, data: bytes) -> None:
        assert self.current is not None, "a body follows its head"
        self.current.body.add(data)

    def _request_end(self) -> bool:
        assert self.current is not None, "an end follows its head"
        self.current.is_complete = True
        # The next request is read once this one was answered.
        return self.current.answered_ns is not None

    def _answer(self, raw: bytes) -> Framing | int:
        status = status_of(raw)
        exchange = self.current
        if exchange is None or exchange.answered_ns is not None:
            raise BadMessage("an answer has no request")
        if status < INTERIM:
            return Framing.INTERIM
        fields = _fields(raw, self._kept.headers)
        exchange.status, exchange.answer_headers = status, fields.kept
        if exchange.method == "HEAD" or status in BODILESS_STATUSES:
            return 0
        if fields.end.is_chunked:
            return Framing.CHUNKED
        return Framing.TO_THE_END if fields.end.length is None else fields.end.length

    def _answered(self, data: bytes) -> None:
        assert self.current is not None, "a body follows its head"
        self.current.answer.add(data)

    def _answer_end(self) -> bool:
        assert self.current is not None, "an end follows its head"
        self.current.answered_ns = self._at_ns
        self._requests.resume()
        return True
