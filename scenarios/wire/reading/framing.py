"""Find where HTTP/1.1 messages begin and end in the bytes of one side of a connection (RFC 9112, section 6).

The caller hands over bytes as they come, and nothing here waits. `scenarios.injection.http_messages` reads a stream
instead, and waits for the bytes of a whole message.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, final

from scenarios.injection.http_messages import HEAD_BYTES_MAX, LINE_BYTES_MAX, BadMessage, chunk_length

_END_OF_HEAD: Final = b"\r\n\r\n"
_END_OF_LINE: Final = b"\r\n"


class Framing(Enum):
    """The end of a body without a stated length."""

    CHUNKED = "chunked"
    TO_THE_END = "to the end"  # Of the connection.
    INTERIM = "interim"  # There is none, and the final message is still to come.


class _Place(Enum):
    """The part of a message to which the next bytes belong."""

    HEAD = "head"
    BODY = "body"
    CHUNK_LENGTH = "chunk length"
    CHUNK = "chunk"
    CHUNK_END = "end of a chunk"
    TRAILER = "trailer"
    REST = "rest"


@final
class Messages:
    """The messages of one side of a connection, one after the other.

    head: told each head, blank line included; answers how the body ends, by its length in bytes or in another way.
    body: told each piece of a body, without the framing of chunks. end: told the end of a message; False lets what
    follows wait until `resume`.
    All may raise BadMessage, and so do `feed` and `resume`. steps: how many parts of messages were taken; each takes
    time by its own length, however the bytes were cut and whatever waits behind it.
    """

    __slots__ = ("_body", "_buffer", "_end", "_head", "_is_waiting", "_left", "_place", "_searched", "steps")

    def __init__(
        self, head: Callable[[bytes], Framing | int], body: Callable[[bytes], None], end: Callable[[], bool]
    ) -> None:
        self._head = head
        self._body = body
        self._end = end
        self._buffer = bytearray()
        self._place = _Place.HEAD
        self._left = 0
        self._searched = 0
        self._is_waiting = False
        self.steps = 0

    @property
    def ends_by_close(self) -> bool:
        """True within a body that has no other end."""
        return self._place is _Place.REST

    def feed(self, data: bytes) -> None:
        """These bytes came."""
        # Prior art: h11's `ReceiveBuffer`, which also remembers where its last search ended. h11 itself is not used
        # here: it refuses what it finds odd, and a watcher must follow whatever the two sides accept from each other.
        self._buffer += data
        while self._buffer and not self._is_waiting and self._step():
            pass

    def resume(self) -> None:
        """Go on with the bytes behind the last message."""
        self._is_waiting = False
        self.feed(b"")

    def _step(self) -> bool:
        """Take one part of a message; False if it is not all here."""
        self.steps += 1
        if self._place is _Place.HEAD:
            return self._take_head()
        if self._place is _Place.CHUNK_LENGTH:
            line = self._line()
            if line is None:
                return False
            self._left = chunk_length(line)
            self._place = _Place.CHUNK if self._left else _Place.TRAILER
            return True
        if self._place is _Place.CHUNK_END:
            # An empty line ends each chunk. To skip two bytes unseen would let a wrong chunk length shift every later
            # message, and a request smuggled in so would be credited to the wrong call (RFC 9112, section 11.2).
            line = self._line()
            if line:
                raise BadMessage("a chunk is longer than its length")
            if line is not None:
                self._place = _Place.CHUNK_LENGTH
            return line is not None
        # Trailer fields are passed over: none of the clouds puts anything there that decides the meaning of an answer.
        if self._place is _Place.TRAILER:
            line = self._line()
            if line == b"":
                self._finish()
            return line is not None
        self._take_body()
        return True

    def _take_head(self) -> bool:
        end = self._buffer.find(_END_OF_HEAD, self._searched)
        if end < 0:
            if not self._buffer[:1].isalpha():
                # Such as TLS: no end of a head would ever come.
                raise BadMessage("a message does not begin with a word")
            if len(self._buffer) > HEAD_BYTES_MAX:
                raise BadMessage("the head of a message has no end")
            self._searched = max(0, len(self._buffer) - len(_END_OF_HEAD) + 1)
            return False
        self._searched = 0
        # The caller decides, since the end of a response depends on its request: an answer to HEAD has a length and no
        # body.
        framing = self._head(self._taken(end + len(_END_OF_HEAD)))
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
            self._body(self._taken(len(self._buffer)))
            return
        piece = self._taken(min(self._left, len(self._buffer)))
        self._body(piece)
        self._left -= len(piece)
        if not self._left:
            if self._place is _Place.CHUNK:
                self._place = _Place.CHUNK_END
            else:
                self._finish()

    def _line(self) -> bytes | None:
        end = self._buffer.find(_END_OF_LINE, 0, LINE_BYTES_MAX)
        if end < 0:
            if len(self._buffer) >= LINE_BYTES_MAX:
                raise BadMessage("a line of a chunked body has no end")
            return None
        line = self._taken(end)
        del self._buffer[: len(_END_OF_LINE)]
        return line

    def _taken(self, count: int) -> bytes:
        """The first bytes, which leave the buffer. To shorten a bytearray at its front does not move the rest."""
        piece = bytes(self._buffer if count == len(self._buffer) else self._buffer[:count])
        del self._buffer[:count]
        return piece

    def _finish(self) -> None:
        self._place = _Place.HEAD
        # Pipelining: the next request waits until the answer to this one is known, or the wire would pair the wrong
        # two.
        self._is_waiting = not self._end()
