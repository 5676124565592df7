"""Whoever watches what goes through a proxy: every piece of bytes, and every strike."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from sim.faults.fault import Fault


class Direction(Enum):
    """Which way bytes went."""

    REQUEST = "request"  # From the client to the server.
    REPLY = "reply"  # To the client; an answer that the proxy itself gave, too.


class Observer(Protocol):
    """Whoever watches a proxy. Called on the proxy's own thread, so it must be quick and must not raise.

    connection: a number of the client's connection, unique in its proxy, from 1. at_ns: the host's monotonic clock.
    """

    def opened(self, connection: int, at_ns: int) -> None:
        """A client has connected."""

    def forwarded(self, connection: int, direction: Direction, data: bytes, at_ns: int) -> None:
        """These bytes are handed on, unmodified, right now. How they are cut into pieces means nothing."""

    def received(self, connection: int, data: bytes, at_ns: int) -> None:
        """The server sent these bytes. Whether they go on to the client is told by `forwarded`."""

    def struck(self, connection: int, fault: Fault, at_ns: int) -> None:
        """The fault takes effect on the request under way: its bytes that are held back are not forwarded."""

    def closed(self, connection: int, at_ns: int) -> None:
        """The client's connection is over, whoever ended it."""
