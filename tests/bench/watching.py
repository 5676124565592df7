"""`lockref wire`: what it costs a program that its requests are forwarded, read and recorded.

The client is a process of its own, as a program under test is; it sends the same request to the server and to the
endpoint in turn, so that both meet the same machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection

import psutil

from lockref.clouds.uri import parse_store_uri
from lockref.history import Recorder
from lockref.runtime import ThreadRuntime
from scenarios.backends import start_backend
from scenarios.injection.lane import Upstream, upstream_of
from scenarios.injection.observer import Direction
from scenarios.injection.routes import through
from scenarios.wire.decoders import load_decoder
from scenarios.wire.endpoints import Endpoints
from scenarios.wire.reading.dialect import dialect_of
from scenarios.wire.recorder import WireRecorder
from scenarios.wire.tap import Tap
from scenarios.wire.upstream import upstream
from sim.faults.plan import EMPTY_PLAN
from tests.bench.figures import Figure, Spread
from tests.bench.wire import OVERHEAD_AIM, RATE_AIM, p50_s, per_core_second

REQUESTS = 2000
LOOPS = 5
_BODY = b'{"expired":false,"validUntil":1795453200000,"owner":"0d3c"}'
_PUT = (
    b"PUT /lockref/table_lock.json HTTP/1.1\r\nHost: 127.0.0.1:1\r\nAuthorization: AWS4-HMAC-SHA256 " + b"x" * 200
    + b'\r\nx-amz-date: 20261123T000000Z\r\nIf-Match: "e1"\r\nContent-Length: %d\r\n\r\n' % len(_BODY) + _BODY
)  # fmt: skip
_DONE = b'HTTP/1.1 200 OK\r\nETag: "e1"\r\nServer: s\r\nContent-Length: 0\r\n\r\n'
_CLIENT = """
import http.client, statistics, sys, time
places = [http.client.HTTPConnection("127.0.0.1", int(port)) for port in sys.argv[1:]]
took = [[] for _ in places]
for number in range(400):
    for place, own in zip(places, took):
        began = time.perf_counter()
        place.request("GET", "/lockref/nothing")
        place.getresponse().read()
        own.append(time.perf_counter() - began)
print(*(statistics.median(own[50:]) for own in took))
"""


def _wire() -> WireRecorder:
    return WireRecorder(
        Recorder(),
        dialect_of("s3", "b"),
        load_decoder("auto"),
        protects=(),
        runtime=ThreadRuntime(),
        clock_offsets_ns={},
    )


def _exchanges_per_s() -> float:
    """Of processor time: reading, decoding and recording one write of a lock record and its answer."""
    tap, now = Tap("n1", _wire()), time.monotonic_ns
    tap.opened(1, now())
    began = time.process_time()
    for _ in range(REQUESTS):
        tap.forwarded(1, Direction.REQUEST, _PUT, now())
        tap.forwarded(1, Direction.REPLY, _DONE, now())
    return REQUESTS / (time.process_time() - began)


@contextlib.contextmanager
def _endpoints(server: Upstream) -> Iterator[Endpoints]:
    """One client's endpoint without faults."""
    with Endpoints(
        EMPTY_PLAN, seed=1, clients=("n1",), upstream=server, scheme="s3", wire=_wire(), recorder=Recorder(),
        runtime=ThreadRuntime(), store=None, tls=None,
    ) as endpoints:  # fmt: skip
        yield endpoints


def _serve(server: Upstream, control: Connection) -> None:
    """An endpoint in a process of its own, as `lockref wire` is one, until the control says so."""
    with _endpoints(server) as endpoints:
        control.send(endpoints.address("n1"))
        control.recv()


@contextlib.contextmanager
def _served(server: Upstream) -> Iterator[tuple[str, psutil.Process]]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(server, there), daemon=True)
    process.start()
    try:
        yield here.recv(), psutil.Process(process.pid)
    finally:
        here.send(None)
        process.join(10)
        process.kill()


def _port(endpoint: str) -> int:
    return int(endpoint.rpartition(":")[2])


def _medians_s(ports: tuple[int, int]) -> tuple[float, float]:
    done = subprocess.run([sys.executable, "-c", _CLIENT, *map(str, ports)], capture_output=True, text=True, check=True)
    direct, through = map(float, done.stdout.split())
    return direct, through


def measure() -> list[Figure]:
    """Processor time of the reader, requests for each second of one core, and what a request and an SDK's request take
    through an endpoint beside what they take without one."""
    rates = Spread(tuple(_exchanges_per_s() for _ in range(LOOPS)))
    with start_backend("ministack") as running:
        address = parse_store_uri(running.uri)
        server = upstream(address)
        with _served(server) as (endpoint, _):
            pairs = [_medians_s((server.port, _port(endpoint))) for _ in range(LOOPS)]
            by_sdk = [p50_s(running.uri, through(running.uri, endpoint)) for _ in range(LOOPS + 1)][1:]
    added = Spread(tuple((passed - direct) * 1e6 for direct, passed in pairs))
    ratio = statistics.median(passed / direct for direct, passed in pairs)
    of_sdk = Spread(tuple(passed / direct for direct, passed in by_sdk))
    per_core = asyncio.run(per_core_second(lambda at: _served(upstream_of(at)), request=_PUT))
    return [
        Figure.of("wire: exchanges read and recorded, of CPU", rates, "1/s", aim="> 2000", is_met=rates.median > 2000),
        Figure.of(
            "wire: requests through an endpoint, recorded", per_core, "/s/core", aim=f">= {RATE_AIM:,}",
            is_met=per_core.median >= RATE_AIM, note="requests for each second of the process' time",
        ),
        Figure.of(f"wire: added to a bare request at p50 (x {ratio:.2f})", added, "us"),
        Figure.of(
            "wire: an SDK's requests through an endpoint, p50", of_sdk, "× direct", aim=f"<= {OVERHEAD_AIM}",
            is_met=of_sdk.median <= OVERHEAD_AIM,
        ),
    ]  # fmt: skip
