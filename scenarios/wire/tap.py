"""Read the bytes that pass one client's endpoint, and tell the recorder.

The lane forwards each piece of bytes first. Then the tap reads a copy of it, before the lane takes the next piece.
"""

from __future__ import annotations

from dataclasses import dataclass

from scenarios.injection.observer import Direction
from scenarios.wire.reading.conversation import Conversation
from scenarios.wire.recorder import OpenRequest, WireRecorder


@dataclass(slots=True)
class _Line:
    """One connection, and the first request on it that was not answered, once it is on record."""

    conversation: Conversation
    asked: OpenRequest | None = None


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
        else:
            line.conversation.from_server(data, at_ns)
        self._note(line, at_ns)

    def ended(self, connection: int, at_ns: int) -> None:
        """See `Observer`."""
        line = self._lines[connection]
        line.conversation.server_closed(at_ns)
        self._note(line, at_ns)

    def closed(self, connection: int, at_ns: int) -> None:
        """See `Observer`."""
        line = self._lines.pop(connection)
        line.conversation.closed(at_ns)
        self._note(line, at_ns)
        self.unreadable = self.unreadable or line.conversation.unreadable

    def _note(self, line: _Line, at_ns: int) -> None:
        """Tell what was sent and answered by now, each request before the one behind it."""
        begun = line.conversation.begun
        while begun:
            exchange = begun[0]
            if line.asked is None:
                if not exchange.is_complete and exchange.answered_ns is None:
                    return
                line.asked = self._recorder.asked(self._client, exchange)
                # Answered before the body had come: the server has read the head only.
                sent_ns = line.conversation.client_ns if exchange.is_complete else exchange.asked_ns
                self._recorder.sent(line.asked, sent_ns)
            if exchange.answered_ns is None:
                return
            self._recorder.answered(line.asked, at_ns)
            line.asked = None
            begun.popleft()
