"""Read whole HTTP/1.1 messages from a stream: where each begins and ends (RFC 9112, section 6), and nothing else.

A message is kept as the bytes that came, so that it can be sent again byte for byte. What a head says about its body is
read here for every reader of messages. It is read strictly: where two readers could see different ends, there is none.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from lockref.grammar import decimal, hexadecimal

HEAD_BYTES_MAX: Final = 1 << 18
PIECE_BYTES: Final = 1 << 16
LINE_BYTES_MAX: Final = 1 << 13
"""The longest line of a chunk's length, and the longest trailer field."""

_END_OF_HEAD: Final = b"\r\n\r\n"
_FIELDS: Final = re.compile(rb"[^\r\n]*\r\n((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n]*\r\n)*)\r\n")
_LENGTH: Final = re.compile(rb"^content-length:([^\r\n]*)\r$", re.IGNORECASE | re.MULTILINE)
_ENCODING: Final = re.compile(rb"^transfer-encoding:([^\r\n]*)\r$", re.IGNORECASE | re.MULTILINE)
_EXPECTS: Final = re.compile(rb"^expect:[ \t]*100-continue[ \t]*\r$", re.IGNORECASE | re.MULTILINE)
_CLOSES: Final = re.compile(rb"^connection:[ \t]*close[ \t]*\r$", re.IGNORECASE | re.MULTILINE)
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})[ \r]")
BODILESS_STATUSES: Final = (204, 304)
INTERIM: Final = 200
"""Statuses below this one are interim: the final message is still to come."""


class BadMessage(Exception):
    """These bytes are no HTTP/1.1 message, or its head is larger than `HEAD_BYTES_MAX`."""


@dataclass(frozen=True, slots=True)
class BodyEnd:
    """The end of a body, as its head announces it. length: in bytes; None where it names none."""

    length: int | None
    is_chunked: bool


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


def body_end(raw: bytes) -> BodyEnd:
    """The end of the body behind this head (RFC 9112, section 6.3). raw: the head, blank line included.

    Raises BadMessage for a line that is no field, for lengths that differ or are no number, and for an encoding that
    does not end in chunks.
    """
    fields = _FIELDS.fullmatch(raw)
    if fields is None:
        raise BadMessage("a header field has no colon, or its name is none")
    lengths = {part.strip() for value in _LENGTH.findall(fields[1]) for part in value.split(b",")}
    length = decimal(next(iter(lengths))) if len(lengths) == 1 else None
    if lengths and length is None:
        raise BadMessage("the length of a body is not one number")
    encodings = _ENCODING.findall(fields[1])
    if encodings and encodings[-1].rpartition(b",")[2].strip().lower() != b"chunked":
        raise BadMessage("a body has an encoding that does not tell its end")
    return BodyEnd(length, bool(encodings))


def chunk_length(line: bytes) -> int:
    """The length of a chunk by its first line, without the line's end. Raises BadMessage for any other form."""
    length = hexadecimal(line.partition(b";")[0].rstrip(b" \t"))
    if length is None:
        raise BadMessage("a chunk does not begin with its length")
    return length


def status_of(raw: bytes) -> int:
    """The status of the answer with this head. Raises BadMessage if it begins with no status line."""
    found = _STATUS_LINE.match(raw)
    if found is None:
        raise BadMessage("an answer does not begin with a status line")
    return int(found[1])


async def read_request_head(reader: asyncio.StreamReader) -> Head | None:
    """The next request's head; None where the client has hung up.

    Raises BadMessage.
    """
    raw = await _head(reader)
    if raw is None:
        return None
    end = body_end(raw)
    return Head(raw, None if end.is_chunked else end.length or 0, _EXPECTS.search(raw) is not None)


async def body_pieces(reader: asyncio.StreamReader, length: int | None) -> AsyncIterator[bytes]:
    """A body of this length as it comes, framing of chunks included. Raises BadMessage if it ends early."""
    if length is None:
        async for piece in _chunks(reader):
            yield piece
        return
    while length > 0:
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
        status = status_of(raw)
        if status >= INTERIM:
            break
    closes = _CLOSES.search(raw) is not None
    end = body_end(raw)
    if method == b"HEAD" or status in BODILESS_STATUSES:
        return Answer(raw, status, not closes)
    if not end.is_chunked and end.length is None:
        return Answer(raw + await reader.read(), status, False)
    pieces = [piece async for piece in body_pieces(reader, None if end.is_chunked else end.length)]
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


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        line = await _line(reader)
        yield line
        length = chunk_length(line[:-2])
        if length == 0:
            break
        async for piece in body_pieces(reader, length):
            yield piece
        line = await _line(reader)
        yield line
        if line != b"\r\n":
            raise BadMessage("a chunk is longer than its length")
    # Trailer fields, up to a blank line.
    while True:
        line = await _line(reader)
        yield line
        if line == b"\r\n":
            return


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        line = await reader.readuntil(b"\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise BadMessage("a chunked body ends early") from error
    if len(line) > LINE_BYTES_MAX:
        raise BadMessage("a line of a chunked body has no end")
    return line
