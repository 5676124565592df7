"""What a lane costs that strikes nothing: latency of an SDK's requests, and requests for each second of one core.

The lane has a process of its own, as the clients of a run have theirs. Its requests are counted against its processor
time, so that a busy machine and the load itself do not count.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from multiprocessing.connection import Connection

import psutil

from lockref.clouds.uri import open_store, parse_store_uri
from lockref.runtime import NS_PER_S
from lockref.words import Outcome
from scenarios.backends import start_backend
from scenarios.injection.lane import Conduct, Exchange, Lane, Upstream, upstream_of
from scenarios.injection.routes import through
from tests.bench.figures import ROUNDS, Figure, Spread

REQUESTS = 100
CONNECTIONS = 8
LOAD = 10_000
OVERHEAD_AIM = 1.1
RATE_AIM = 2_000

_REQUEST = b"GET /bucket/key HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n" + bytes(200)


async def _as_it_is(exchange: Exchange) -> None:
    await exchange.answer((await exchange.apply()).raw)


def _serve(upstream: Upstream, is_in_hand: bool, control: Connection) -> None:
    """A lane in a process of its own, until the control says so."""

    async def serve() -> None:
        conduct: Conduct | None = _as_it_is if is_in_hand else None
        lane = Lane(upstream, lambda _head: conduct)
        await lane.open()
        control.send(lane.port)
        await asyncio.get_running_loop().run_in_executor(None, control.recv)
        await lane.close()

    asyncio.run(serve())


@contextlib.contextmanager
def lane_before(endpoint: str, *, is_in_hand: bool = False) -> Iterator[tuple[str, psutil.Process]]:
    """A lane before a server: its address and its process."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(upstream_of(endpoint), is_in_hand, there), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}", psutil.Process(process.pid)
    finally:
        here.send(None)
        process.join(10)
        process.kill()


def p50_s(*uris: str) -> list[float]:
    """The medians of writes and reads by each address, one request after the other and by each address in turn."""
    took: list[list[float]] = [[] for _ in uris]
    with contextlib.ExitStack() as stack:
        stores = [
            stack.enter_context(contextlib.closing(open_store(uri, request_timeout_ns=10 * NS_PER_S))) for uri in uris
        ]
        for number in range(REQUESTS):
            for store, its in zip(stores, took, strict=True):
                began = time.perf_counter()
                reply = store.read("bench") if number % 2 else store.put("bench", b"x" * 200)
                its.append(time.perf_counter() - began)
                assert reply.outcome is Outcome.APPLIED, reply.reason
    return [statistics.median(its) for its in took]


def _overhead() -> Figure:
    with start_backend("ministack") as running, lane_before(parse_store_uri(running.uri).endpoint) as (endpoint, _):
        rounds = [p50_s(running.uri, through(running.uri, endpoint)) for _ in range(ROUNDS + 1)][1:]
    ratio = Spread(tuple(laned / direct for direct, laned in rounds))
    direct_ms = 1e3 * statistics.median(direct for direct, _ in rounds)
    return Figure.of(
        "S3 requests through a lane without faults, p50",
        ratio,
        "× direct",
        aim=f"<= {OVERHEAD_AIM}",
        is_met=ratio.median <= OVERHEAD_AIM,
        note=f"direct {direct_ms:.2f} ms, ministack",
    )


async def _load(port: int, requests: int, request: bytes) -> None:
    """So many requests on a few connections that stay."""

    async def ask() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(requests // CONNECTIONS):
            writer.write(request)
            await reader.readexactly(len(_ANSWER))
        writer.close()

    await asyncio.gather(*(ask() for _ in range(CONNECTIONS)))


async def _answer_for_ever(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body_bytes: int) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
        while await reader.readuntil(b"\r\n\r\n"):
            await reader.readexactly(body_bytes)
            writer.write(_ANSWER)
    writer.close()


async def per_core_second(
    before: Callable[[str], AbstractContextManager[tuple[str, psutil.Process]]], *, request: bytes = _REQUEST
) -> Spread:
    """Requests for each second of processor time of what `before` puts before a server at an address."""
    body_bytes = len(request.partition(b"\r\n\r\n")[2])
    server = await asyncio.start_server(partial(_answer_for_ever, body_bytes=body_bytes), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with before(f"http://127.0.0.1:{port}") as (endpoint, process):
        rates = []
        for _ in range(4):
            began = process.cpu_times()
            await _load(int(endpoint.rpartition(":")[2]), LOAD, request)
            ended = process.cpu_times()
            rates.append(LOAD / (ended.user + ended.system - began.user - began.system))
    server.close()
    # The first round opens the connections.
    return Spread(tuple(rates[1:]))


def measure() -> list[Figure]:
    figures = [_overhead()]
    for name, is_in_hand in (("passing", False), ("in hand, struck by nothing", True)):
        rate = asyncio.run(per_core_second(partial(lane_before, is_in_hand=is_in_hand)))
        figures.append(
            Figure.of(
                f"lane, requests {name}",
                rate,
                "/s/core",
                aim=f">= {RATE_AIM:,}",
                is_met=rate.median >= RATE_AIM,
                note="requests for each second of the lane's processor time",
            )
        )
    return figures
