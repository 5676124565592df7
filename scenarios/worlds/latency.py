"""The latency of a store in memory: without it requests of a real run hardly ever overlap, and no race shows.

`memory:` answers within microseconds, so a lock that checks and then writes is
caught by chance alone. Here each request waits before the store applies it, and
its answer waits before the caller has it, as on a network. The spans are drawn
from the run's seed; how the threads interleave is still the machine's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lockref.ports import Channel, Reply, Request
from lockref.runtime import NS_PER_MS
from sim.kernel.streams import Stream

ONE_WAY_NS: Final = (NS_PER_MS // 2, 3 * NS_PER_MS)
"""Least and most of a message's way, as between two machines of one data centre."""


class LatentChannel:
    """A channel whose requests and answers are under way for a while. drawn: of one client. sleep: nanoseconds."""

    __slots__ = ("_channel", "_drawn", "_sleep", "client", "service")

    def __init__(self, channel: Channel, drawn: Stream, sleep: Callable[[int], None]) -> None:
        self._channel = channel
        self._drawn = drawn
        self._sleep = sleep
        self.client = channel.client
        self.service = channel.service

    @property
    def capabilities(self) -> object:
        return self._channel.capabilities

    def send(self, request: Request, timeout_ns: int) -> Reply:
        # Both are drawn before the request leaves: two threads of one client take them in pairs.
        there_ns, back_ns = self._drawn.randint(*ONE_WAY_NS), self._drawn.randint(*ONE_WAY_NS)
        self._sleep(there_ns)
        reply = self._channel.send(request, timeout_ns)
        self._sleep(back_ns)
        return reply

    def close(self) -> None:
        self._channel.close()
