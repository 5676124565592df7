"""A TCP proxy that carries out faults on real connections: the network between a client and a store.

The faults are those of the simulator (`sim/faults`). Each kind says in
`Fault.interference` what it does to the bytes of one request and of its reply.

It stays below HTTP, because an S3 signature covers the host header: bytes are
forwarded, never rewritten; only a final reply may be replaced by a bare status.
Of HTTP it knows one thing, where a final reply begins. `100 Continue` blocks
come before the write takes effect and are let through; to cut there would test
something else.

Faults are asked for one request at a time, in order: `proxy.next(LoseReply(id="f"))`
strikes the next request on whatever connection it comes, whatever filter the
fault has. `proxy.when(b"x-amz-copy-source", LoseRequest(id="f"))` strikes the next
one with these bytes in its head. Requests that nobody asked a fault for pass.

An `Observer` sees what goes through, as it goes through: every piece of bytes that
is handed on, with the connection, the direction and the instant, and every strike.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import itertools
import socket
import struct
import threading
import time
from types import TracebackType
from typing import Final, Self

from lockref.errors import ConfigError
from lockref.runtime import NS_PER_S
from scenarios.backends.observer import Direction, Observer
from sim.faults.fault import Fault, Interference, Treatment

CHUNK_BYTES: Final = 65_536
_START_TIMEOUT_S: Final = 10
_STATUS_LINE: Final = b"HTTP/1."
_END_OF_HEAD: Final = b"\r\n\r\n"
_ANSWER: Final = "HTTP/1.1 {} Injected\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_LINGER_RESET: Final = struct.pack("ii", 1, 0)


_NOTHING: Final = Interference()


class FaultProxy:
    """Forwards connections to `upstream`, with a fault now and then. A context manager.

    struck: the faults that have taken effect, in order. counted: by marker, in lower case, see `count`.
    observer: told of everything that passes.
    """

    def __init__(self, upstream: tuple[str, int], *, observer: Observer | None = None) -> None:
        self._upstream = upstream
        self.observer = observer
        self._connection_numbers = itertools.count(1)
        self._wanted: collections.deque[tuple[Fault | None, Interference]] = collections.deque()
        self._awaited: list[tuple[bytes, Fault, Interference]] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self._server: asyncio.Server | None = None
        self._is_let_go = asyncio.Event()
        self.struck: list[Fault] = []
        self.counted: dict[bytes, int] = {}
        self.port = 0

    @property
    def endpoint(self) -> str:
        """Where clients connect instead of to the server."""
        return f"http://127.0.0.1:{self.port}"

    def next(self, *faults: Fault | None) -> None:
        """The next requests meet these faults, one each; None lets one pass.

        Raises ConfigError for a fault that cannot be done below HTTP.
        """
        for fault in faults:
            self._wanted.append((fault, _NOTHING if fault is None else _interference(fault)))

    def when(self, marker: bytes, fault: Fault) -> None:
        """The next request with `marker` in its head, upper or lower case, meets this fault. Else as `next`.

        The head must come in one piece, as clients send it.
        """
        self._awaited.append((marker.lower(), fault, _interference(fault)))

    def forget(self) -> None:
        """Faults that were asked for and have not struck yet are dropped."""
        self._wanted.clear()
        self._awaited.clear()

    def count(self, marker: bytes) -> None:
        """Count the requests with `marker` in their head from now on, in `counted`."""
        self.counted[marker.lower()] = 0

    def let_go(self) -> None:
        """What a delay holds back goes on its way now."""
        self._loop.call_soon_threadsafe(self._is_let_go.set)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(_START_TIMEOUT_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(_START_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_START_TIMEOUT_S)
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _shut(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await _Connection(self, next(self._connection_numbers), reader, writer).run()
        except asyncio.CancelledError:
            # Only the proxy's own end cancels a connection: there is nobody to tell.
            return
        finally:
            self._connections.discard(task)

    def take(self, head: bytes, *, connection: int) -> tuple[Fault | None, Interference] | None:
        """The fault of the request that begins so, and what it does. A proxy that knows more of HTTP overrides this.

        It may answer None, "not known yet": then this piece passes, and it is asked again with the next one.

        connection: the number of the client's connection, as the observer is told it.
        """
        head = head.lower()
        for marker in self.counted:
            self.counted[marker] += marker in head
        for awaited in self._awaited:
            marker, fault, act = awaited
            if marker in head:
                self._awaited.remove(awaited)
                return fault, act
        return self._wanted.popleft() if self._wanted else (None, _NOTHING)

    async def pause(self, for_ns: int) -> None:
        """A delay, which `let_go` ends early."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_let_go.wait(), for_ns / NS_PER_S)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the server."""
        return await asyncio.open_connection(*self._upstream)


def _interference(fault: Fault) -> Interference:
    act = fault.interference()
    if act is None:
        raise ConfigError(f"fault {fault!r} cannot be done to a connection: the proxy stays below HTTP")
    return act


class _Connection:
    """One client's connection and its twin to the server. Requests on it follow each other."""

    def __init__(
        self, proxy: FaultProxy, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._number = number
        self._observer = proxy.observer
        self._reader = reader
        self._writer = writer
        self._fault: Fault | None = None
        self._act = _NOTHING
        self._is_struck = False
        self._is_undecided = False
        self._is_answered = True  # So that the first bytes begin a request.
        self._head = b""  # What came of a reply whose first block is not whole yet.

    async def run(self) -> None:
        """Until either side hangs up or a fault ends it."""
        if self._observer is None:
            await self._run()
            return
        self._observer.opened(self._number, time.monotonic_ns())
        try:
            await self._run()
        finally:
            self._observer.closed(self._number, time.monotonic_ns())

    async def _run(self) -> None:
        _send_at_once(self._writer)
        try:
            server_reader, server_writer = await self._proxy.connect()
        except OSError:
            self._reset()
            return
        _send_at_once(server_writer)
        try:
            ways = [
                asyncio.ensure_future(self._forward_requests(server_writer)),
                asyncio.ensure_future(self._forward_replies(server_reader)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            for writer in (server_writer, self._writer):
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()

    async def _forward_requests(self, server: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await self._reader.read(CHUNK_BYTES):
                if self._is_answered or self._is_undecided:
                    self._is_answered = False
                    self._is_struck = False
                    decided = self._proxy.take(chunk, connection=self._number)
                    self._is_undecided = decided is None
                    self._fault, self._act = decided or (None, _NOTHING)
                    if self._act.request is Treatment.RESET:
                        self._strike()
                        self._reset()
                        return
                if self._act.request is Treatment.HOLD:
                    self._strike()
                    continue
                await self._wait(self._act.request_ns)
                if self._observer is not None:
                    self._observer.forwarded(self._number, Direction.REQUEST, chunk, time.monotonic_ns())
                server.write(chunk)
                await server.drain()

    async def _forward_replies(self, server: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while chunk := await server.read(CHUNK_BYTES):
                if self._observer is not None:
                    self._observer.received(self._number, chunk, time.monotonic_ns())
                passing, final = self._split(chunk)
                if passing:
                    await self._to_client(passing)
                if not final:
                    continue
                if self._act.reply is Treatment.RESET:
                    self._strike()
                    self._reset()
                    return
                if self._act.answer:
                    self._strike()
                    await self._to_client(_ANSWER.format(self._act.answer).encode())
                    return
                if self._act.reply is Treatment.HOLD:
                    self._strike()
                    await asyncio.Event().wait()
                await self._to_client(final)

    def _split(self, chunk: bytes) -> tuple[bytes, bytes]:
        """Interim blocks, which may pass, and the beginning or the rest of a final reply.

        A block that is not whole yet is kept back until its end shows what it is.
        """
        if self._is_answered:
            return b"", chunk
        self._head += chunk
        interim = b""
        while _END_OF_HEAD in self._head:
            assert self._head.startswith(_STATUS_LINE), "a reply does not begin with a status line"
            if self._head.split(b" ", 2)[1].startswith(b"1"):
                block, _, self._head = self._head.partition(_END_OF_HEAD)
                interim += block + _END_OF_HEAD
            else:
                final, self._head = self._head, b""
                self._is_answered = True
                return interim, final
        return interim, b""

    async def _to_client(self, data: bytes) -> None:
        await self._wait(self._act.reply_ns)
        if self._observer is not None:
            self._observer.forwarded(self._number, Direction.REPLY, data, time.monotonic_ns())
        self._writer.write(data)
        await self._writer.drain()

    async def _wait(self, for_ns: int) -> None:
        """Let a chunk wait."""
        if for_ns:
            self._strike()
            await self._proxy.pause(for_ns)

    def _strike(self) -> None:
        if not self._is_struck:
            self._is_struck = True
            assert self._fault is not None, "something was done to a request that no fault was asked for"
            self._proxy.struck.append(self._fault)
            if self._observer is not None:
                self._observer.struck(self._number, self._fault, time.monotonic_ns())

    def _reset(self) -> None:
        """Close with a reset: lingering for no time throws unsent data away."""
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
        self._writer.transport.abort()


def _send_at_once(writer: asyncio.StreamWriter) -> None:
    """Small pieces go as they come: held back for the ones before them, each would wait for 40 ms."""
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
