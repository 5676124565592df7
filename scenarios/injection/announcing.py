"""A client process's side of a plan: its store by operation, and its word before and after each request.

Used in worker processes; the other side is `scenarios.injection.session`.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Final

from lockref.ports import Channel, PushChannel, Reply, Request
from lockref.runtime import Mutex
from sim.journey import plan_op

_CONNECT_S: Final = 10


GIVING_BACK: Final = "give back"
"""The lane of a deletion that gives a lock back: plans call it a delete and a release."""


def lane_of(request: Request) -> str:
    """The lane on which a request goes, and the word with which it is announced."""
    return GIVING_BACK if request.gives_back else plan_op(request)


class RoutedChannel:
    """A channel that takes the way of each request's operation. opened: a channel for each operation."""

    def __init__(self, opened: Mapping[str, Channel]) -> None:
        self._ways = opened
        first = next(iter(opened.values()))
        self.client = first.client
        self.service = first.service
        self.capabilities: object = first.capabilities

    def send(self, request: Request, timeout_ns: int) -> Reply:
        return self._ways[lane_of(request)].send(request, timeout_ns)

    def close(self) -> None:
        for way in self._ways.values():
            way.close()


class Announcements:
    """The line on which a process says what it is about to do, and waits for the word to go on.

    A fault that strikes at that very point stops or kills the process while it waits.
    """

    def __init__(self, port: int, mutex: Mutex) -> None:
        self._mutex = mutex
        self._socket = socket.create_connection(("127.0.0.1", port), _CONNECT_S)
        # A process may be stopped for as long as a plan likes.
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")

    def made(self, client: str, request: Request) -> int:
        """A request is about to leave. Its number."""
        return self._say({"made": client, "op": lane_of(request), "verb": request.verb, "key": request.key})

    def heard(self, number: int) -> None:
        """Note that the answer is here."""
        self._say({"heard": number})

    def _say(self, what: Mapping[str, object]) -> int:
        with self._mutex:
            self._socket.sendall(json.dumps(what).encode() + b"\n")
            return int(self._answers.readline() or 0)


class AnnouncingChannel:
    """A channel whose requests are announced. client: in whose name."""

    def __init__(self, channel: Channel, announcements: Announcements, client: str) -> None:
        self._channel = channel
        self._announcements = announcements
        self._client = client
        self.client = channel.client
        self.service = channel.service

    @property
    def capabilities(self) -> object:
        return self._channel.capabilities

    def send(self, request: Request, timeout_ns: int) -> Reply:
        number = self._announcements.made(self._client, request)
        reply = self._channel.send(request, timeout_ns)
        self._announcements.heard(number)
        return reply

    def receive(self, timeout_ns: int | None) -> object | None:
        assert isinstance(self._channel, PushChannel), f"{self.service} pushes nothing"
        return self._channel.receive(timeout_ns)

    def close(self) -> None:
        self._channel.close()
