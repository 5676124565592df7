"""One client's way to the server: a proxy of its own, whose bytes are read as they pass.

The proxy forwards bytes and carries out faults; the tap reads a copy of them, tells the recorder, and asks the plan
what shall befall each request. What a request does to a lock is known when its last byte has come; that is the piece
which a fault strikes. Until then nothing has taken effect, so the pieces before it pass. A large upload is decided by
its head: no lock record is that long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lockref.runtime import ThreadRuntime
from scenarios.backends.faultproxy import FaultProxy
from scenarios.backends.observer import Direction
from scenarios.wire.conversation import BODY_KEPT_MAX, Conversation
from scenarios.wire.recorder import Asked, WireRecorder
from sim.faults.fault import Fault, Interference, Treatment

Strike = tuple[Fault | None, Interference]


class Striker(Protocol):
    """Whoever carries out a plan of faults on the requests of one client."""

    def before(self, asked: Asked) -> Strike:
        """A request has come and has not been forwarded: what befalls it."""
        ...

    def applied(self, asked: Asked) -> None:
        """The server has answered, and the client has not heard it yet."""
        ...

    def delivered(self, asked: Asked) -> None:
        """The whole answer has gone to the client."""
        ...

    def gone(self, asked: Asked) -> None:
        """The connection has ended: nothing more comes of this request."""
        ...


@dataclass(slots=True)
class _Line:
    """One connection. is_ahead: the piece that comes next has been read already, before it was forwarded."""

    conversation: Conversation
    asked: Asked | None = None
    is_ahead: bool = False
    received: int = 0
    delivered: int = 0


class Tap:
    """Reads the connections of one client. An `Observer` of its proxy.

    unreadable: why some connection could not be read; "" if all were. contacts: how many connections there were.
    """

    def __init__(self, client: str, recorder: WireRecorder, striker: Striker | None) -> None:
        self._client = client
        self._recorder = recorder
        self._striker = striker
        self._runtime = ThreadRuntime()
        self._lines: dict[int, _Line] = {}
        self.unreadable = ""
        self.contacts = 0

    def opened(self, connection: int, at_ns: int) -> None:
        """See `Observer`."""
        self.contacts += 1
        line = _Line(Conversation())
        self._lines[connection] = line

    def choose(self, connection: int, piece: bytes) -> Strike | None:
        """These bytes of a request have come and are not forwarded yet: what befalls it; None while nobody knows."""
        line = self._lines[connection]
        if line.asked is not None and line.asked.is_answered:
            line.asked = None
        line.is_ahead = True
        line.conversation.from_client(piece, self._runtime.monotonic_ns())
        exchange = line.conversation.current
        if exchange is None or exchange.answered_ns is not None:
            return None  # Not even its head has come as a whole.
        if not exchange.is_complete and exchange.length <= BODY_KEPT_MAX:
            return None
        asked = self._known(line)
        if asked is None or self._striker is None:
            return None, Interference()
        return self._striker.before(asked)

    def forwarded(self, connection: int, direction: Direction, data: bytes, at_ns: int) -> None:
        """See `Observer`."""
        line = self._lines[connection]
        if direction is Direction.REQUEST:
            if not line.is_ahead:
                line.conversation.from_client(data, at_ns)
            line.is_ahead = False
            self._note_sent(line, at_ns)
            return
        line.delivered += len(data)
        asked = line.asked
        if asked is not None and asked.is_answered and line.delivered >= line.received:
            asked.exchange.is_delivered = True
            if self._striker is not None:
                self._striker.delivered(asked)

    def received(self, connection: int, data: bytes, at_ns: int) -> None:
        """See `Observer`."""
        line = self._lines[connection]
        line.received += len(data)
        line.conversation.from_server(data, at_ns)
        self._note_answer(line, at_ns)

    def struck(self, connection: int, fault: Fault, at_ns: int) -> None:
        """See `Observer`."""
        line = self._lines[connection]
        asked = self._known(line)
        act = fault.interference()
        said = {} if asked is None else {"op": asked.op.name.lower(), "object": asked.request.key}
        if act is not None:
            # What stops or ends a process is told by whoever does it.
            self._recorder.fault(self._client, at_ns, id=fault.id, kind=fault.kind, phase="fired", **said)
        if asked is not None and not asked.is_answered and act is not None and act.request is not Treatment.PASS:
            self._recorder.kept_from_server(asked, at_ns, f"kept from the server by fault {fault.id}")

    def closed(self, connection: int, at_ns: int) -> None:
        """See `Observer`."""
        line = self._lines.pop(connection)
        line.conversation.server_closed(at_ns)
        self._note_answer(line, at_ns)
        if line.asked is not None and self._striker is not None:
            self._striker.gone(line.asked)
        self.unreadable = self.unreadable or line.conversation.unreadable

    def _known(self, line: _Line) -> Asked | None:
        """The request under way, as far as it is known; asked for anew while its body is still coming."""
        exchange = line.conversation.current
        if exchange is None:
            return None
        if line.asked is None or (line.asked.exchange is exchange and not _is_settled(line.asked)):
            line.asked = self._recorder.asked(self._client, exchange)
        return line.asked

    def _note_sent(self, line: _Line, at_ns: int) -> None:
        exchange = line.conversation.current
        if exchange is None or not exchange.is_complete or exchange.forwarded_ns is not None:
            return
        asked = self._recorder.asked(self._client, exchange) if line.asked is None else self._known(line)
        assert asked is not None, "a complete request is known"
        exchange.forwarded_ns = at_ns
        line.asked = asked
        self._recorder.sent(asked, at_ns)

    def _note_answer(self, line: _Line, at_ns: int) -> None:
        asked = line.asked
        if asked is None or asked.is_answered or asked.exchange.answered_ns is None:
            return
        if asked.exchange.forwarded_ns is None:
            # Answered before the body had come: the server has read the head only.
            asked.exchange.forwarded_ns = asked.exchange.asked_ns
            self._recorder.sent(asked, asked.exchange.asked_ns)
        self._recorder.answered(asked, at_ns)
        if self._striker is not None:
            self._striker.applied(asked)


def _is_settled(asked: Asked) -> bool:
    """True once nothing more can be learned of what it asks for."""
    return asked.is_answered or asked.exchange.forwarded_ns is not None


class ClientEndpoint(FaultProxy):
    """The endpoint of one client."""

    def __init__(self, upstream: tuple[str, int], tap: Tap) -> None:
        super().__init__(upstream, observer=tap)
        self._tap = tap

    def take(self, head: bytes, *, connection: int) -> Strike | None:
        """The plan of the run decides; nothing is asked for by hand."""
        return self._tap.choose(connection, head)
