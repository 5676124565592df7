"""Servers that stop or drip: the request ends at its deadline as a whole, and its answer counts as lost.

The drips are finite: a client that bounds only each wait would sit them out and
take the reply, and the assertion on the outcome fails. Nothing asserts on speed.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lockref.clouds import bounded_exchange
from lockref.clouds.uri import create_container, open_store, parse_store_uri
from lockref.errors import BackendUnavailable
from lockref.runtime import NS_PER_MS
from lockref.stores.port import Version
from lockref.words import Outcome
from tests.certificate import made_certificate

TIMEOUT_MS = 500
DRIP_S = 0.05
DRIPS = 40  # 2 s in all: four times as long as the request may take.

HEADS = {
    200: b'HTTP/1.1 200 OK\r\nETag: "abc"\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"a',
    404: b"HTTP/1.1 404 Not Found\r\nContent-Type: application/xml\r\nContent-Length: 100\r\n\r\n<E",
    412: b"HTTP/1.1 412 Precondition Failed\r\nContent-Type: application/xml\r\nContent-Length: 100\r\n\r\n<E",
}

Answer = Callable[[socket.socket, threading.Event], None]


class Server:
    """Answers the requests of each connection, one after the other, by the answers given; the last one for ever."""

    def __init__(self, answers: list[Answer], context: ssl.SSLContext | None = None) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.connections = 0
        self.requests = 0
        self.head = b""
        """Of the last request."""
        self._answers = answers
        self._context = context
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._open: list[socket.socket] = []
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self.connections += 1
                self._open.append(connection)
                thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
                self._open.append(connection)
            while self._request(connection):
                answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
                answer(connection, self._over)

    def _request(self, connection: socket.socket) -> bool:
        """Read one request, head and body."""
        received = b""
        while b"\r\n\r\n" not in received:
            more = connection.recv(65536)
            if not more:
                return False
            received += more
        head, _, body = received.partition(b"\r\n\r\n")
        lengths = [
            int(line.partition(b":")[2]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
        ]
        missing = (lengths or [0])[0] - len(body)
        while missing > 0:
            missing -= len(connection.recv(65536))
        self.requests += 1
        self.head = head
        return True

    def close(self) -> None:
        self._over.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for connection in self._open:
            connection.close()


def at_once(data: bytes) -> Answer:
    return lambda connection, _over: connection.sendall(data)


def dripped(first: bytes, drop: bytes, last: bytes, *, drips: int = DRIPS) -> Answer:
    """`first` at once, then `drop` again and again, then `last`: a complete reply in the end."""

    def answer(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(first)
        for _ in range(drips):
            if over.wait(DRIP_S):
                return
            connection.sendall(drop)
        connection.sendall(last)

    return answer


BODY = b'{"name":"p/key","bucket":"bucket","generation":"7"}'
"""What an upload to GCS is answered with; as the body of a reading it is as good as any."""
GOOD_HEADERS = b'ETag: "abc"\r\nx-goog-generation: 7\r\nContent-Type: application/json\r\n'
GOOD = b"HTTP/1.1 200 OK\r\n" + GOOD_HEADERS + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
ERROR = b"HTTP/1.1 412 Precondition Failed\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % (DRIPS + 1)

DRIPPING = {
    "a status line": dripped(b"HTTP/1.1 200 ", b"O", b"\r\n" + GOOD.partition(b"\r\n")[2]),
    "headers": dripped(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"o", b"\r\n" + GOOD.partition(b"\r\n")[2]),
    "answers to come": dripped(b"", b"HTTP/1.1 100 Continue\r\n\r\n", GOOD),
    "a body": dripped(
        b"HTTP/1.1 200 OK\r\n" + GOOD_HEADERS + b"Content-Length: %d\r\n\r\n" % (len(BODY) + DRIPS), b" ", BODY
    ),
    "chunks": dripped(
        b"HTTP/1.1 200 OK\r\n" + GOOD_HEADERS + b"Transfer-Encoding: chunked\r\n\r\n",
        b"1\r\n \r\n",
        b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY),
    ),
    "a body without a length": dripped(
        b"HTTP/1.1 200 OK\r\n" + GOOD_HEADERS + b"Connection: close\r\n\r\n", b" ", BODY
    ),
    "the body of an error": dripped(ERROR, b"x", b"x"),
}


LONG_DRIPS = 400
LONG = dripped(
    b"HTTP/1.1 200 OK\r\n" + GOOD_HEADERS + b"Content-Length: %d\r\n\r\n" % (len(BODY) + LONG_DRIPS),
    b" ",
    BODY,
    drips=LONG_DRIPS,
)
"""For tests in which other requests must be answered in time, on a crowded machine as well: 20 s."""
LONG_TIMEOUT_MS = 3_000


@contextlib.contextmanager
def serving(*answers: Answer, context: ssl.SSLContext | None = None) -> Iterator[Server]:
    server = Server(list(answers), context)
    try:
        yield server
    finally:
        server.close()


ACCOUNT_IN = {"s3": "", "gs": "", "az": "/devstoreaccount1"}
"""Scheme to what follows the port in an endpoint: an emulator of Azure has the account there."""


@contextlib.contextmanager
def store_at(scheme: str, server: Server, *, protocol: str = "http", timeout_ms: int = TIMEOUT_MS):
    uri = f"{scheme}://bucket/p?endpoint={protocol}://127.0.0.1:{server.port}{ACCOUNT_IN[scheme]}"
    with contextlib.closing(open_store(uri, request_timeout_ns=timeout_ms * NS_PER_MS)) as store:
        yield store


every = pytest.mark.parametrize("scheme", ACCOUNT_IN)
one = pytest.mark.parametrize(
    "scheme", [pytest.param(scheme, marks=[] if scheme == "s3" else [pytest.mark.long]) for scheme in ACCOUNT_IN]
)
"""All three stand on one HTTP session: what waits for seconds asks one of them, and `make test-all` all."""


@every
@pytest.mark.parametrize("status", sorted(HEADS))
def test_a_stalled_body_is_an_answer_lost(scheme: str, status: int) -> None:
    """A1: a read or a write whose response breaks off in the body is ambiguous, never an exception."""
    with serving(at_once(HEADS[status])) as server, store_at(scheme, server, timeout_ms=300) as store:
        assert store.read("key").outcome is Outcome.AMBIGUOUS
        if status != 200:
            assert store.put_if_absent("key", b"x").outcome is Outcome.AMBIGUOUS
            assert store.put_if_version("key", b"x", Version("1")).outcome is Outcome.AMBIGUOUS


@one
@pytest.mark.parametrize("what", DRIPPING)
def test_a_dripping_server_is_late_as_a_whole(scheme: str, what: str) -> None:
    """A1: the deadline covers the whole reply; bytes that keep coming do not move it."""
    with serving(DRIPPING[what]) as server, store_at(scheme, server) as store:
        read = store.read("key")
        assert (read.outcome, read.body) == (Outcome.AMBIGUOUS, None)
        assert store.put_if_absent("key", b"x").outcome is Outcome.AMBIGUOUS


@one
def test_a_deadline_belongs_to_one_request(scheme: str) -> None:
    """A kept connection serves the next request under that one's own deadline, and a late one is not used again."""
    answers = [at_once(GOOD), at_once(GOOD), LONG, at_once(GOOD)]
    with serving(*answers) as server, store_at(scheme, server, timeout_ms=LONG_TIMEOUT_MS) as store:
        assert store.read("key").outcome is Outcome.APPLIED
        assert threading.Event().wait(1.2 * LONG_TIMEOUT_MS / 1000) is False
        assert store.read("key").outcome is Outcome.APPLIED
        assert server.connections == 1
        assert store.read("key").outcome is Outcome.AMBIGUOUS
        assert store.read("key").body == BODY
        assert server.connections == 2


@every
def test_a_bucket_is_not_waited_for_beyond_the_deadline(scheme: str) -> None:
    """A server that drips while its bucket is made is one that does not answer."""
    with serving(DRIPPING["headers"]) as server:
        address = parse_store_uri(f"{scheme}://bucket?endpoint=http://127.0.0.1:{server.port}{ACCOUNT_IN[scheme]}")
        with pytest.raises(BackendUnavailable, match=r"creating the (bucket|container)"):
            create_container(address, request_timeout_ns=TIMEOUT_MS * NS_PER_MS)


@every
def test_a_slow_reply_within_the_deadline_is_a_reply(scheme: str) -> None:
    """Slow is not lost: the same drip, with time enough."""
    with serving(DRIPPING["chunks"]) as server, store_at(scheme, server, timeout_ms=60_000) as store:
        assert store.read("key").body == b" " * DRIPS + BODY


@every
def test_a_reply_without_end_does_not_fill_the_memory(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast the bytes come: beyond a bound they are no answer."""
    monkeypatch.setattr(bounded_exchange, "REPLY_BYTES_MAX", 1_000_000)
    head = b"HTTP/1.1 200 OK\r\n" + GOOD_HEADERS + b"Content-Length: 2000000\r\n\r\n"
    with serving(at_once(head + b"x" * 2_000_000)) as server, store_at(scheme, server, timeout_ms=60_000) as store:
        assert store.read("key").outcome is Outcome.AMBIGUOUS


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, ssl.SSLContext]:
    """A certificate of this test's own for 127.0.0.1, and a server's context with it."""
    return made_certificate(tmp_path)


@pytest.mark.parametrize(("scheme", "bundle"), [("s3", "AWS_CA_BUNDLE"), ("az", "REQUESTS_CA_BUNDLE")])
def test_the_deadline_holds_under_tls(certificate, monkeypatch: pytest.MonkeyPatch, scheme: str, bundle: str) -> None:
    """A reply through TLS is a reply, a dripping one is late, and a foreign certificate is still refused."""
    path, context = certificate
    with serving(at_once(GOOD), LONG, context=context) as server:
        with store_at(scheme, server, protocol="https") as stranger:
            refused = stranger.put_if_absent("key", b"x")
            assert (refused.outcome, "SSLError" in refused.reason) == (Outcome.AMBIGUOUS, True)
        monkeypatch.setenv(bundle, str(path))
        with store_at(scheme, server, protocol="https", timeout_ms=LONG_TIMEOUT_MS) as store:
            assert store.read("key").body == BODY
            assert store.read("key").outcome is Outcome.AMBIGUOUS


def test_a_name_with_several_addresses_is_tried_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first address refuses, the next one answers: as urllib3 does it, but within one deadline."""
    monkeypatch.setattr(bounded_exchange, "_addresses", lambda *_: ["127.0.0.9", "127.0.0.1"])
    with serving(at_once(GOOD)) as server, store_at("s3", server) as store:
        assert store.read("key").body == BODY
