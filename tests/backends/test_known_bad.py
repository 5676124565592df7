"""Controls: servers known to be bad, which must be found out. A probe that passes them is no probe.

moto checks a condition and writes without a lock around both (K1). Client threads rarely meet in between, because
building and signing a request takes longer than the gap. So the requests are sent whole but for their last byte, and
the last bytes together; and the server's interpreter is told to switch threads a thousand times more often.
"""

from __future__ import annotations

import dataclasses
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenarios.backends import BACKENDS, RunningBackend, backend_status
from scenarios.backends.pins import LOOPBACK, Launch
from scenarios.backends.start import BUCKET_DEFAULT, _started_process

WRITERS = 12
AUTHORIZATION = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00"
"""moto wants to be told who asks and does not check it."""
ROUNDS_MAX = 1000
"""A clean round leaves room for doubt; so many would leave none: two winners come in one round of about twenty."""


def _amplified(programs: Path, port: int, _data: Path) -> Launch:
    code = (
        "import sys; sys.setswitchinterval(1e-5); from moto.server import main; "
        f"main(['-H', '{LOOPBACK}', '-p', '{port}'])"
    )
    return Launch(argv=(str(programs / "python"), "-c", code))


@pytest.fixture
def amplified_moto(tmp_path: Path) -> Iterator[RunningBackend]:
    """moto with its race opened wide, in moto's own environment."""
    moto = BACKENDS["moto"]
    status = backend_status("moto")
    if not status.available:
        pytest.skip(f"moto: {status.reason}")
    if sys.version_info >= (3, 12):
        pytest.skip("the race was opened on Python 3.11; other interpreters switch threads elsewhere")
    native = dataclasses.replace(moto.natives[0], launch=_amplified)
    leaky = dataclasses.replace(moto, natives=(native,))
    with _started_process(
        leaky, bucket=BUCKET_DEFAULT, timeout_s=90, log_path=tmp_path / "moto.log", folder=tmp_path
    ) as running:
        yield running


def creates(port: int, key: str) -> list[bytes]:
    """One conditional create per writer, bodies all different."""
    requests = []
    for writer in range(WRITERS):
        body = f"writer {writer:02d}".encode()
        head = (
            f"PUT /{BUCKET_DEFAULT}/{key} HTTP/1.1\r\nHost: {LOOPBACK}:{port}\r\nIf-None-Match: *\r\n"
            f"Authorization: {AUTHORIZATION}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        requests.append(head.encode() + body)
    return requests


def fire(port: int, requests: list[bytes]) -> list[int]:
    """Send all requests but for the last byte, then the last bytes together; the statuses, in order."""
    connections = []
    for request in requests:
        connection = socket.create_connection((LOOPBACK, port), timeout=30)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(request[:-1])
        connections.append(connection)
    for connection, request in zip(connections, requests, strict=True):
        connection.sendall(request[-1:])
    statuses = []
    for connection in connections:
        with connection:
            statuses.append(int(connection.recv(65536).split()[1]))
    return statuses


@pytest.mark.realbackend
@pytest.mark.xdist_group("moto")
def test_an_amplified_race_shows_two_winners(amplified_moto: RunningBackend) -> None:
    """K1, U13, M17: of twelve conditional creates of one key, two succeed within a thousand rounds."""
    port = int(amplified_moto.uri.partition("127.0.0.1:")[2].partition("&")[0].rstrip("/"))
    for number in range(ROUNDS_MAX):
        statuses = fire(port, creates(port, f"race-{number}"))
        # The same race makes moto stumble now and then: a 500 is nobody's win.
        assert set(statuses) <= {200, 412, 500}, statuses
        assert statuses.count(200) >= 1, "nobody won a race for an absent key"
        if statuses.count(200) > 1:
            return
    pytest.fail(f"one winner in each of {ROUNDS_MAX} rounds: the control is no control any more")
