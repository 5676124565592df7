"""The port of an observer: it is told of every piece of bytes that goes through a lane."""

from __future__ import annotations

from enum import Enum
from typing import Protocol


class Direction(Enum):
    """Which way bytes went."""

    REQUEST = "request"  # From the client to the server.
    REPLY = "reply"  # To the client; an answer that the lane itself gave, too.


class Observer(Protocol):
    """An observer of a lane. Called on the lane's own thread, so it must be quick and must not raise.

    connection: a number of the client's connection, unique in its lane, from 1. at_ns: the host's monotonic clock.
    """

    def opened(self, connection: int, at_ns: int) -> None:
        """A client has connected."""

    def forwarded(self, connection: int, direction: Direction, data: bytes, at_ns: int) -> None:
        """These bytes are handed on, unmodified, no earlier than `at_ns`. How they are cut means nothing."""

    def ended(self, connection: int, at_ns: int) -> None:
        """The server has hung up: no bytes of its come any more on this connection."""

    def closed(self, connection: int, at_ns: int) -> None:
        """The client's connection has ended, by the client or by the lane."""
