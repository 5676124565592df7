"""A lane whose faults are asked for by hand, one request at a time.

The faults are those of the simulator (`sim/faults`). Each kind says in `Fault.interference` what it does to the bytes
of one request and of its reply. Bytes are forwarded, never rewritten, because a signature covers them; only a final
reply may be replaced by a bare status.

`proxy.next(LoseReply(id="f"))` strikes the next request on whatever connection it comes, whatever filter the fault has.
`proxy.when(b"x-amz-copy-source", LoseRequest(id="f"))` strikes the next one with these bytes in its head. Requests that
nobody asked a fault for pass.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import threading
from functools import partial
from types import TracebackType
from typing import Final, Self

from lockref.errors import ConfigError
from lockref.runtime import NS_PER_S
from scenarios.injection.http_messages import Head
from scenarios.injection.lane import Conduct, Exchange, Lane, Upstream
from sim.faults.fault import Fault, Interference, Treatment

_START_TIMEOUT_S: Final = 10
_ANSWER: Final = "HTTP/1.1 {} Injected\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class FaultProxy:
    """Forwards requests to `upstream`, with a fault now and then. A context manager.

    struck: the faults that have taken effect, in order. counted: by marker, in lower case, see `count`.
    """

    def __init__(self, upstream: tuple[str, int]) -> None:
        host, port = upstream
        self._lane = Lane(Upstream(host=host, port=port), self._choose)
        self._wanted: collections.deque[tuple[Fault, Interference] | None] = collections.deque()
        self._awaited: list[tuple[bytes, Fault, Interference]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self._is_let_go = asyncio.Event()
        self.struck: list[Fault] = []
        self.counted: dict[bytes, int] = {}

    @property
    def port(self) -> int:
        return self._lane.port

    @property
    def endpoint(self) -> str:
        """The address to which clients connect instead of to the server."""
        return self._lane.endpoint

    def next(self, *faults: Fault | None) -> None:
        """The next requests meet these faults, one each; None lets one pass.

        Raises ConfigError for a fault that cannot be done below HTTP.
        """
        for fault in faults:
            self._wanted.append(None if fault is None else (fault, _interference(fault)))

    def when(self, marker: bytes, fault: Fault) -> None:
        """The next request with `marker` in its head, upper or lower case, meets this fault. Else as `next`."""
        self._awaited.append((marker.lower(), fault, _interference(fault)))

    def forget(self) -> None:
        """Drop the faults that were asked for and have not struck yet."""
        self._wanted.clear()
        self._awaited.clear()

    def count(self, marker: bytes) -> None:
        """Count the requests with `marker` in their head from now on, in `counted`."""
        self.counted[marker.lower()] = 0

    def let_go(self) -> None:
        """Let every delayed request go on now."""
        self._loop.call_soon_threadsafe(self._is_let_go.set)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._lane.open(), self._loop).result(_START_TIMEOUT_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._lane.close(), self._loop).result(_START_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_START_TIMEOUT_S)
        self._loop.close()

    def _choose(self, head: Head) -> Conduct | None:
        raw = head.raw.lower()
        for marker in self.counted:
            self.counted[marker] += marker in raw
        for awaited in self._awaited:
            marker, fault, act = awaited
            if marker in raw:
                self._awaited.remove(awaited)
                return partial(self._conduct, fault, act)
        wanted = self._wanted.popleft() if self._wanted else None
        return None if wanted is None else partial(self._conduct, *wanted)

    async def _conduct(self, fault: Fault, act: Interference, exchange: Exchange) -> None:
        if act.request is not Treatment.PASS:
            self.struck.append(fault)
            await _end(exchange, act.request)
            return
        await self._wait(fault, act.request_ns)
        answer = await exchange.apply()
        if act.reply is not Treatment.PASS:
            self.struck.append(fault)
            await _end(exchange, act.reply)
            return
        await self._wait(fault, act.reply_ns)
        if act.answer:
            self.struck.append(fault)
            await exchange.answer(_ANSWER.format(act.answer).encode())
            exchange.close()
            return
        await exchange.hear(answer)

    async def _wait(self, fault: Fault, for_ns: int) -> None:
        """A delay, which `let_go` ends early."""
        if for_ns:
            self.struck.append(fault)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_let_go.wait(), for_ns / NS_PER_S)


async def _end(exchange: Exchange, treatment: Treatment) -> None:
    if treatment is Treatment.RESET:
        exchange.reset()
    else:
        await exchange.silence()


def _interference(fault: Fault) -> Interference:
    act = fault.interference()
    if act is None:
        raise ConfigError(f"fault {fault!r} cannot be done to a connection: the proxy works below HTTP")
    return act
