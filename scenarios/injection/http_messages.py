"""Read whole HTTP/1.1 messages from a stream: where each begins and ends (RFC 9112, section 6), and nothing else.

A message is kept as the bytes that came, so that it can be sent again byte for byte.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

HEAD_BYTES_MAX: Final = 1 << 20
PIECE_BYTES: Final = 1 << 16
_END_OF_HEAD: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)[ \t]*\r\n", re.IGNORECASE)
_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding:[^\r\n]*chunked[ \t]*\r\n", re.IGNORECASE)
_EXPECTS: Final = re.compile(rb"\r\nexpect:[ \t]*100-continue[ \t]*\r\n", re.IGNORECASE)
_CLOSES: Final = re.compile(rb"\r\nconnection:[ \t]*close[ \t]*\r\n", re.IGNORECASE)
_BODILESS_STATUSES: Final = (204, 304)
_INTERIM: Final = 200


class BadMessage(Exception):
    """These bytes are no HTTP/1.1 message, or its head is larger than `HEAD_BYTES_MAX`."""


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a request: its bytes, blank line included. length: of the body; None for a chunked one."""

    raw: bytes
    length: int | None
    expects_continue: bool

    @property
    def method(self) -> bytes:
        return self.raw.split(b" ", 1)[0]


@dataclass(frozen=True, slots=True)
class Answer:
    """A final reply, whole. keeps_connection: another request may follow on the connection that it came on."""

    raw: bytes
    status: int
    keeps_connection: bool


async def read_request_head(reader: asyncio.StreamReader) -> Head | None:
    """The next request's head; None where the client has hung up.

    Raises BadMessage.
    """
    raw = await _head(reader)
    if raw is None:
        return None
    if _CHUNKED.search(raw) is not None:
        return Head(raw, None, _EXPECTS.search(raw) is not None)
    length = _LENGTH.search(raw)
    return Head(raw, 0 if length is None else int(length[1]), _EXPECTS.search(raw) is not None)


async def body_pieces(reader: asyncio.StreamReader, length: int | None) -> AsyncIterator[bytes]:
    """A body of this length as it comes, framing of chunks included. Raises BadMessage if it ends early."""
    if length is None:
        async for piece in _chunks(reader):
            yield piece
        return
    while length:
        piece = await reader.read(min(length, PIECE_BYTES))
        if not piece:
            raise BadMessage("the body ends before its length")
        length -= len(piece)
        yield piece


async def read_answer(reader: asyncio.StreamReader, method: bytes) -> Answer:
    """The final reply to a request with this method; interim ones are dropped.

    Raises BadMessage, also where the server hangs up before the end.
    """
    while True:
        raw = await _head(reader)
        if raw is None:
            raise BadMessage("the server hung up before it answered")
        status = _status(raw)
        if status >= _INTERIM:
            break
    closes = _CLOSES.search(raw) is not None
    if method == b"HEAD" or status in _BODILESS_STATUSES:
        return Answer(raw, status, not closes)
    length = _LENGTH.search(raw)
    if _CHUNKED.search(raw) is None and length is None:
        return Answer(raw + await reader.read(), status, False)
    body_length = None if _CHUNKED.search(raw) is not None or length is None else int(length[1])
    pieces = [piece async for piece in body_pieces(reader, body_length)]
    return Answer(raw + b"".join(pieces), status, not closes)


async def _head(reader: asyncio.StreamReader) -> bytes | None:
    try:
        return await reader.readuntil(_END_OF_HEAD)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise BadMessage("the head of a message ends early") from error
        return None
    except asyncio.LimitOverrunError as error:
        raise BadMessage("the head of a message has no end") from error


def _status(raw: bytes) -> int:
    version, _, rest = raw.partition(b" ")
    if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
        raise BadMessage("a reply does not begin with a status line")
    return int(rest[:3])


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        line = await _line(reader)
        yield line
        try:
            length = int(line.split(b";", 1)[0], 16)
        except ValueError as error:
            raise BadMessage("a chunk does not begin with its length") from error
        if length == 0:
            break
        async for piece in body_pieces(reader, length + 2):
            yield piece
    # Trailer fields, up to a blank line.
    while True:
        line = await _line(reader)
        yield line
        if line == b"\r\n":
            return


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise BadMessage("a chunked body ends early") from error
