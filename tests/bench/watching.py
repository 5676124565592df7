"""`lockref wire`: what it costs a program that its requests are forwarded, read and recorded.

The client is a process of its own, as a program under test is; it sends the same request to the server and to the
endpoint in turn, so that both meet the same machine.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from lockref.history import Recorder
from lockref.runtime import ThreadRuntime
from lockref.stores.uri import parse_store_uri
from scenarios.backends import start_backend
from scenarios.backends.observer import Direction
from scenarios.wire.decoders import load_decoder
from scenarios.wire.recorder import WireRecorder
from scenarios.wire.s3 import S3Dialect
from scenarios.wire.tap import ClientEndpoint, Tap
from scenarios.wire.upstream import upstream
from tests.bench.figures import Figure, Spread

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


def _tap() -> Tap:
    recorder = WireRecorder(
        Recorder(), S3Dialect(), load_decoder("auto"), protects=(), runtime=ThreadRuntime(), clock_offsets_ns={}
    )
    return Tap("n1", recorder, None)


def _exchanges_per_s() -> float:
    """Of processor time: reading, decoding and recording one write of a lock record and its answer."""
    tap, now = _tap(), time.monotonic_ns
    tap.opened(1, now())
    began = time.process_time()
    for _ in range(REQUESTS):
        tap.choose(1, _PUT)
        tap.forwarded(1, Direction.REQUEST, _PUT, now())
        tap.received(1, _DONE, now())
        tap.forwarded(1, Direction.REPLY, _DONE, now())
    return REQUESTS / (time.process_time() - began)


def _medians_s(ports: tuple[int, int]) -> tuple[float, float]:
    done = subprocess.run([sys.executable, "-c", _CLIENT, *map(str, ports)], capture_output=True, text=True, check=True)
    direct, through = map(float, done.stdout.split())
    return direct, through


def measure() -> list[Figure]:
    """Processor time of the reader, and latency through an endpoint beside latency without one."""
    rates = Spread(tuple(_exchanges_per_s() for _ in range(LOOPS)))
    with start_backend("ministack") as running:
        server = upstream(parse_store_uri(running.uri))
        with ClientEndpoint(server, _tap()) as endpoint:
            pairs = [_medians_s((server[1], endpoint.port)) for _ in range(LOOPS)]
    added = Spread(tuple((through - direct) * 1e6 for direct, through in pairs))
    ratio = statistics.median(through / direct for direct, through in pairs)
    return [
        Figure.of("wire: exchanges read and recorded, of CPU", rates, "1/s", aim="> 2000", is_met=rates.median > 2000),
        Figure.of(f"wire: added to a request at p50 (x {ratio:.2f})", added, "us"),
    ]
