"""Read the bytes that pass one client's endpoint, and tell the recorder.

The lane forwards each piece of bytes first. Then the tap reads a copy of it, before the lane takes the next piece.
"""

from __future__ import annotations

from dataclasses import dataclass

from scenarios.injection.observer import Direction
from scenarios.wire.conversation import Conversation
from scenarios.wire.recorder import Asked, WireRecorder


@dataclass(slots=True)
class _Line:
    """One connection, and the request under way on it."""

    conversation: Conversation
    asked: Asked | None = None


class Tap:
    """Reads the connections of one client. An `Observer` of its lane.

    unreadable: why some connection could not be read; "" if all were.
    """

    def __init__(self, client: str, recorder: WireRecorder) -> None:
        self._client = client
        self._recorder = recorder
        self._lines: dict[int, _Line] = {}
        self.unreadable = ""

    def opened(self, connection: int, at_ns: int) -> None:
        """See `Observer`."""
        self._lines[connection] = _Line(Conversation())

    def forwarded(self, connection: int, direction: Direction, data: bytes, at_ns: int) -> None:
        """See `Observer`."""
        line = self._lines[connection]
        if direction is Direction.REQUEST:
            line.conversation.from_client(data, at_ns)
            self._note_sent(line, at_ns)
        else:
            line.conversation.from_server(data, at_ns)
            self._note_answer(line, at_ns)
            # A pipelined request, which came before the answer to the request ahead of it, is read now.
            self._note_sent(line, at_ns)

    def closed(self, connection: int, at_ns: int) -> None:
        """See `Observer`."""
        line = self._lines.pop(connection)
        line.conversation.server_closed(at_ns)
        self._note_answer(line, at_ns)
        self.unreadable = self.unreadable or line.conversation.unreadable

    def _note_sent(self, line: _Line, at_ns: int) -> None:
        exchange = line.conversation.current
        if exchange is None or not exchange.is_complete or exchange.forwarded_ns is not None:
            return
        line.asked = self._recorder.asked(self._client, exchange)
        exchange.forwarded_ns = at_ns
        self._recorder.sent(line.asked, at_ns)

    def _note_answer(self, line: _Line, at_ns: int) -> None:
        is_known = line.asked is not None and not line.asked.is_answered
        exchange = line.asked.exchange if line.asked is not None and is_known else line.conversation.current
        if exchange is None or exchange.answered_ns is None:
            return
        if exchange.forwarded_ns is None:
            # The server answered before the whole body had come: it has read only the head.
            exchange.forwarded_ns = exchange.asked_ns
            line.asked = self._recorder.asked(self._client, exchange)
            self._recorder.sent(line.asked, exchange.asked_ns)
        if line.asked is not None and not line.asked.is_answered:
            self._recorder.answered(line.asked, at_ns)
