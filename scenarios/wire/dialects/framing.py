"""Find where HTTP/1.1 messages begin and end in the bytes of one side of a connection (RFC 9112, section 6).

The caller hands over bytes as they come, and nothing here waits. `scenarios.injection.http_messages` reads a stream
instead, and waits for the bytes of a whole message.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, final

from scenarios.injection.http_messages import HEAD_BYTES_MAX, BadMessage

_END_OF_HEAD: Final = b"\r\n\r\n"
_END_OF_LINE: Final = b"\r\n"
_LINE_BYTES_MAX: Final = 1 << 13


class Framing(Enum):
    """How a body ends where no length says so."""

    CHUNKED = "chunked"
    TO_THE_END = "to the end"  # Of the connection.
    INTERIM = "interim"  # There is none, and the final message is still to come.


class _Place(Enum):
    """What the next bytes are."""

    HEAD = "head"
    BODY = "body"
    CHUNK_LENGTH = "chunk length"
    CHUNK = "chunk"
    TRAILER = "trailer"
    REST = "rest"


@final
class Messages:
    """The messages of one side of a connection, one after the other.

    head: told each head, blank line included; answers how the body ends, by its length in bytes or in another way.
    body: told each piece of a body, without the framing of chunks. end: told the end of a message; False lets what
    follows wait until `resume`.
    All may raise BadMessage, and so do `feed` and `resume`.
    """

    __slots__ = ("_body", "_buffer", "_end", "_head", "_is_waiting", "_left", "_place")

    def __init__(
        self, head: Callable[[bytes], Framing | int], body: Callable[[bytes], None], end: Callable[[], bool]
    ) -> None:
        self._head = head
        self._body = body
        self._end = end
        self._buffer = b""
        self._place = _Place.HEAD
        self._left = 0
        self._is_waiting = False

    @property
    def ends_by_close(self) -> bool:
        """True within a body that has no other end."""
        return self._place is _Place.REST

    def feed(self, data: bytes) -> None:
        """These bytes came."""
        self._buffer += data
        while self._buffer and not self._is_waiting and self._step():
            pass

    def resume(self) -> None:
        """What follows the last message may be read."""
        self._is_waiting = False
        self.feed(b"")

    def _step(self) -> bool:
        """Take one part of a message; False if it is not all here."""
        if self._place is _Place.HEAD:
            return self._take_head()
        if self._place is _Place.CHUNK_LENGTH:
            line = self._line()
            if line is None:
                return False
            try:
                length = int(line.partition(b";")[0], 16)
            except ValueError as error:
                raise BadMessage("a chunk does not begin with its length") from error
            # The line that ends a chunk is taken with it.
            self._place, self._left = (_Place.CHUNK, length + 2) if length else (_Place.TRAILER, 0)
            return True
        if self._place is _Place.TRAILER:
            line = self._line()
            if line == b"":
                self._finish()
            return line is not None
        self._take_body()
        return True

    def _take_head(self) -> bool:
        end = self._buffer.find(_END_OF_HEAD)
        if end < 0:
            if not self._buffer[:1].isalpha():
                # Such as TLS: no end of a head would ever come.
                raise BadMessage("a message does not begin with a word")
            if len(self._buffer) > HEAD_BYTES_MAX:
                raise BadMessage("the head of a message has no end")
            return False
        end += len(_END_OF_HEAD)
        raw, self._buffer = self._buffer[:end], self._buffer[end:]
        framing = self._head(raw)
        if framing is Framing.CHUNKED:
            self._place = _Place.CHUNK_LENGTH
        elif framing is Framing.TO_THE_END:
            self._place = _Place.REST
        elif isinstance(framing, int):
            self._place, self._left = _Place.BODY, framing
            if not framing:
                self._finish()
        return True

    def _take_body(self) -> None:
        if self._place is _Place.REST:
            piece, self._buffer = self._buffer, b""
            self._body(piece)
            return
        piece, self._buffer = self._buffer[: self._left], self._buffer[self._left :]
        if self._place is _Place.CHUNK:
            # Of what is left the last two bytes are the end of its line.
            self._body(piece[: max(0, self._left - 2)])
        else:
            self._body(piece)
        self._left -= len(piece)
        if not self._left:
            if self._place is _Place.CHUNK:
                self._place = _Place.CHUNK_LENGTH
            else:
                self._finish()

    def _line(self) -> bytes | None:
        line, separator, rest = self._buffer.partition(_END_OF_LINE)
        if not separator:
            if len(self._buffer) > _LINE_BYTES_MAX:
                raise BadMessage("a line of a chunked body has no end")
            return None
        self._buffer = rest
        return line

    def _finish(self) -> None:
        self._place = _Place.HEAD
        self._is_waiting = not self._end()
