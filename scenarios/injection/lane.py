"""A lane: an address of ours in front of a server. A *conduct* may take single requests in hand.

Bytes are forwarded as they come, and unmodified, because a signature covers them.
A request that `conduct` takes in hand is read whole first; what then happens to it,
how often and when it reaches the server, and what its client hears, is up to that
conduct. It outlives the client's connection: a request that was held up may land
long after its client gave up.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import ssl
import struct
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from lockref.errors import ConfigError
from lockref.runtime import NS_PER_S
from lockref.stores.endpoints import TRANSPORTS
from scenarios.injection.http_messages import (
    HEAD_BYTES_MAX,
    PIECE_BYTES,
    Answer,
    BadMessage,
    Head,
    body_pieces,
    read_answer,
    read_request_head,
)
from scenarios.injection.observer import Direction, Observer

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LINGER_RESET: Final = struct.pack("ii", 1, 0)
LOOPBACK: Final = "127.0.0.1"
_DRIPS: Final = 20
"""Pieces of an answer that drips."""
_BUNDLES: Final = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """The server behind a lane. tls: how to speak TLS to it; None for plain HTTP."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to it. Raises OSError, of which TLS's own errors are a kind."""
        reader, writer = await asyncio.open_connection(
            self.host,
            self.port,
            ssl=self.tls,
            server_hostname=self.host if self.tls else None,
            limit=HEAD_BYTES_MAX,
        )
        _send_at_once(writer)
        return reader, writer


class Exchange:
    """A request that was taken in hand. We have all of it, and the server has none of it yet."""

    def __init__(self, connection: _Connection, head: Head, body: bytes) -> None:
        self.head = head
        self.body = body
        self._connection = connection
        self._is_answered = False

    async def apply(self) -> Answer:
        """Send the request to the server and return its answer. The client has not heard it yet. May be called again.

        Raises OSError and BadMessage if the server gives no answer.
        """
        return await self._connection.lane.exchange(self.head, self.body, self._connection.number)

    @property
    def is_abandoned(self) -> bool:
        """True once its client has hung up."""
        return self._connection.is_over.is_set()

    async def answer(self, raw: bytes, *, drip_ns: int = 0) -> None:
        """Send these bytes to the client. drip_ns: send them in pieces that are spread evenly over this time."""
        pieces = min(len(raw), _DRIPS) if drip_ns else 1
        size = -(-len(raw) // pieces)
        for begin in range(0, len(raw), size):
            if drip_ns:
                await asyncio.sleep(drip_ns / pieces / NS_PER_S)
            if self._connection.writer.is_closing():
                return
            with contextlib.suppress(OSError):
                self._connection.forward(Direction.REPLY, self._connection.writer, raw[begin : begin + size])
                await self._connection.writer.drain()

    async def hear(self, answer: Answer, *, drip_ns: int = 0) -> None:
        """Send a server's answer to the client. If the server ended its connection, end the client's as well."""
        await self.answer(answer.raw, drip_ns=drip_ns)
        if not answer.keeps_connection:
            self._connection.server_ended()
            self.close()

    def close(self) -> None:
        """End the client's connection in order, after all that was sent to it."""
        self._connection.writer.close()

    def reset(self) -> None:
        """Reset the client's connection."""
        self._connection.reset()

    async def silence(self) -> None:
        """Send nothing, and leave the connection open until the client hangs up."""
        await self._connection.is_over.wait()


Conduct = Callable[[Exchange], Awaitable[None]]
Choice = Callable[[Head], Conduct | None]
"""Called with the head of each request: returns the conduct that takes the request in hand, or None to let it pass."""


def let_pass(_head: Head) -> None:
    """Take no request in hand."""


class Lane:
    """One listening address. Lives on the event loop in which `open` was awaited.

    tls: with the lane's own certificate, for clients that insist on TLS; None for plain HTTP.
    carried: bytes of requests that were sent to the server, and of answers that were sent to clients.
    """

    def __init__(
        self,
        upstream: Upstream,
        choose: Choice = let_pass,
        *,
        observer: Observer | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.upstream = upstream
        self.choose = choose
        self.observer = observer
        self.carried = dict.fromkeys(Direction, 0)
        self.port = 0
        self._tls = tls
        self._numbers = itertools.count(1)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    @property
    def endpoint(self) -> str:
        """The address to which clients connect instead of to the server."""
        return f"{'https' if self._tls else 'http'}://{LOOPBACK}:{self.port}"

    async def open(self) -> None:
        """Listen on a free port of this machine."""
        self._server = await asyncio.start_server(self._accept, LOOPBACK, 0, ssl=self._tls, limit=HEAD_BYTES_MAX)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening, and end what is under way."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for _, writer in self._idle:
            writer.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a connection is served in a task"
        self._keep(task)
        number = next(self._numbers)
        if self.observer is not None:
            self.observer.opened(number, time.monotonic_ns())
        try:
            await _Connection(self, number, reader, writer).serve()
        except asyncio.CancelledError:
            # Only the end of the lane cancels a connection, so no error needs to be reported.
            return
        finally:
            if self.observer is not None:
                self.observer.closed(number, time.monotonic_ns())

    def conduct(self, conduct: Conduct, exchange: Exchange) -> asyncio.Task[None]:
        """Run the conduct in a task of its own. The end of the client's connection does not end the task."""
        task = asyncio.ensure_future(_quietly(conduct, exchange))
        self._keep(task)
        return task

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def exchange(self, head: Head, body: bytes, number: int) -> Answer:
        """Send a whole request and return its whole answer. Raises OSError and BadMessage."""
        while True:
            is_fresh = not self._idle
            reader, writer = await self.upstream.connect() if is_fresh else self._idle.pop()
            if not is_fresh and (reader.at_eof() or writer.is_closing()):
                writer.close()
                continue
            break
        is_clean = False
        try:
            if self.observer is not None:
                self.observer.forwarded(number, Direction.REQUEST, head.raw + body, time.monotonic_ns())
            self.carried[Direction.REQUEST] += len(head.raw) + len(body)
            writer.write(head.raw + body)
            await writer.drain()
            answer = await read_answer(reader, head.method)
            is_clean = answer.keeps_connection
            return answer
        finally:
            if is_clean:
                self._idle.append((reader, writer))
            else:
                writer.close()


async def _quietly(conduct: Conduct, exchange: Exchange) -> None:
    """Run the conduct; if the server gives no answer, reset the client's connection."""
    try:
        await conduct(exchange)
    except (OSError, BadMessage):
        exchange.reset()


class _Connection:
    """One client's connection. Requests on it follow each other."""

    def __init__(self, lane: Lane, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.lane = lane
        self.number = number
        self.reader = reader
        self.writer = writer
        self.is_over = asyncio.Event()
        self._server: asyncio.StreamWriter | None = None
        self._replies: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Serve the client until it hangs up, or its connection is ended here."""
        _send_at_once(self.writer)
        try:
            with contextlib.suppress(OSError, BadMessage):
                while (head := await read_request_head(self.reader)) is not None:
                    conduct = self.lane.choose(head)
                    if conduct is None:
                        await self._pass(head)
                    else:
                        await self._hand_over(head, conduct)
        finally:
            self.is_over.set()
            if self._replies is not None:
                self._replies.cancel()
                await asyncio.gather(self._replies, return_exceptions=True)
            for writer in (self._server, self.writer):
                if writer is not None:
                    writer.close()
                    with contextlib.suppress(OSError):
                        await writer.wait_closed()

    async def _pass(self, head: Head) -> None:
        server = await self._to_server()
        if head.length == 0:
            self.forward(Direction.REQUEST, server, head.raw)
            return
        ahead = head.raw
        if head.expects_continue:
            self.forward(Direction.REQUEST, server, ahead)
            ahead = b""
        async for piece in body_pieces(self.reader, head.length):
            # The head goes with what comes of the body: one segment, which wakes the server once.
            self.forward(Direction.REQUEST, server, ahead + piece)
            ahead = b""
            await server.drain()

    async def _to_server(self) -> asyncio.StreamWriter:
        """The connection on which requests pass. Raises OSError, after a reset to the client."""
        if self._server is None:
            try:
                reader, self._server = await self.lane.upstream.connect()
            except OSError:
                self.reset()
                raise
            self._replies = asyncio.ensure_future(self._pass_replies(reader))
        return self._server

    async def _pass_replies(self, server: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while piece := await server.read(PIECE_BYTES):
                self.forward(Direction.REPLY, self.writer, piece)
                await self.writer.drain()
            # Told of an orderly end alone: after a reset nobody knows whether more was to come.
            self.server_ended()
        # The server has hung up, and so does this side: the reader of requests sees the end.
        self.writer.close()

    async def _hand_over(self, head: Head, conduct: Conduct) -> None:
        if head.expects_continue:
            # The server's own comes when it has the head, which may be much later.
            self.forward(Direction.REPLY, self.writer, _CONTINUE)
        body = b"".join([piece async for piece in body_pieces(self.reader, head.length)])
        conducted = self.lane.conduct(conduct, Exchange(self, head, body))
        hung_up = asyncio.ensure_future(self._await_end())
        try:
            await asyncio.wait((conducted, hung_up), return_when=asyncio.FIRST_COMPLETED)
        finally:
            hung_up.cancel()
            await asyncio.gather(hung_up, return_exceptions=True)
        if self.writer.is_closing() or self.reader.at_eof():
            self.is_over.set()
            raise BadMessage("the connection is over")

    async def _await_end(self) -> None:
        """Wait until the client hangs up. Bytes that it sends before it was answered stay for the next reading."""
        while not self.reader.at_eof() and not self.writer.is_closing():
            await asyncio.sleep(_LOOK_S)

    def forward(self, direction: Direction, writer: asyncio.StreamWriter, data: bytes) -> None:
        """Hand these bytes on, and tell the observer afterwards, so that the bytes do not wait for it."""
        at_ns = time.monotonic_ns()
        writer.write(data)
        self.lane.carried[direction] += len(data)
        if self.lane.observer is not None:
            self.lane.observer.forwarded(self.number, direction, data, at_ns)

    def server_ended(self) -> None:
        """Tell the observer that the server has hung up, while the client is still there to hear it."""
        if self.lane.observer is not None and not self.writer.is_closing():
            self.lane.observer.ended(self.number, time.monotonic_ns())

    def reset(self) -> None:
        """Close with a reset: lingering for no time throws unsent data away."""
        if not self.writer.is_closing():
            self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
            self.writer.transport.abort()


_LOOK_S: Final = 0.02


def _send_at_once(writer: asyncio.StreamWriter) -> None:
    """Send small pieces at once (TCP_NODELAY). Otherwise a piece may wait 40 ms for the acknowledgement before it."""
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def upstream_of(endpoint: str, *, trusted: ssl.SSLContext | None = None) -> Upstream:
    """The server at `http://HOST:PORT` or `https://HOST[:PORT]`.

    trusted: whose certificates count. Default those that the clouds' SDKs trust: the file that AWS_CA_BUNDLE or
    REQUESTS_CA_BUNDLE names, else what the system trusts.
    Raises ConfigError for another form, and for a file of certificates that cannot be read.
    """
    parts = urlsplit(endpoint)
    transport = TRANSPORTS.get(parts.scheme)
    if transport is None or not parts.hostname:
        raise ConfigError(f"the endpoint {endpoint!r} is not of the form http://HOST:PORT or https://HOST")
    tls = (trusted or _trusted_by_sdks()) if transport.is_encrypted else None
    return Upstream(host=parts.hostname, port=parts.port or transport.port, tls=tls)


def _trusted_by_sdks() -> ssl.SSLContext:
    name = next((name for name in _BUNDLES if os.environ.get(name)), None)
    if name is None:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cafile=os.environ[name])
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{name} names no readable file of certificates: {os.environ[name]}") from error
