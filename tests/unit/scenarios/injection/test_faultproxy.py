"""The fault proxy itself: where a final reply begins, and what it does to whom."""

from __future__ import annotations

import contextlib
import socket
import threading

import pytest

from lockref.errors import ConfigError
from lockref.runtime import NS_PER_MS
from scenarios.injection.faultproxy import FaultProxy
from sim.faults.answers import Error
from sim.faults.fault import Fault, Interference, Treatment
from sim.faults.network import Delay, Duplicate, LoseReply, LoseRequest

FINAL = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
GET = b"GET /b/k HTTP/1.1\r\nHost: h\r\n\r\n"
PUT = b"PUT /b/k HTTP/1.1\r\nHost: h\r\nX-Mark: yes\r\n\r\n"
RESET_BEFORE = Error(id="reset before", status="reset", cut="c1")
RESET_REPLY = Error(id="commit then reset", status="reset", cut="c2")
HANG_REPLY = LoseReply(id="commit then hang")


class Upstream:
    """Answers every request that ends in a blank line with the same chunks, and remembers what it got."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        self.received: list[bytes] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while request := connection.recv(1000):
                self.received.append(request)
                for chunk in self._chunks:
                    connection.sendall(chunk)

    def close(self) -> None:
        # Closing alone would leave a thread that is accepting to accept once more.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@contextlib.contextmanager
def _talk(chunks: list[bytes], *faults: Fault | None):
    """A client's connection through a proxy to a server that answers with `chunks`."""
    upstream = Upstream(chunks)
    try:
        with FaultProxy(upstream.address) as proxy:
            proxy.next(*faults)
            with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as client:
                yield client, upstream, proxy
    finally:
        upstream.close()


def _read(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := client.recv(count - len(data))):
        data += more
    return data


@pytest.mark.parametrize(
    "chunks",
    [
        [FINAL],
        [CONTINUE, FINAL],
        [CONTINUE + CONTINUE + FINAL],
        [CONTINUE[:5], CONTINUE[5:] + FINAL[:7], FINAL[7:]],
    ],
    ids=["plain", "continue", "two continues in one segment", "split anywhere"],
)
def test_a_reply_passes_byte_for_byte(chunks):
    """Without a fault the proxy is a wire."""
    whole = b"".join(chunks)
    with _talk(chunks) as (client, upstream, proxy):
        for _ in range(2):
            client.sendall(GET)
            assert _read(client, len(whole)) == whole
        assert upstream.received == [GET] * 2
        assert proxy.struck == []


def test_a_lost_reply_reached_the_server():
    """Commit then hang: silence, and the request was served. Its interim answers are no final ones."""
    with _talk([CONTINUE, FINAL], HANG_REPLY) as (client, upstream, proxy):
        client.sendall(GET)
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
        assert upstream.received == [GET]
        assert proxy.struck == [HANG_REPLY]


def test_a_marked_request_is_counted_and_struck_wherever_it_comes():
    """`when` waits for its marker, in upper or lower case, and `forget` takes it back."""
    with _talk([FINAL]) as (client, upstream, proxy):
        proxy.count(b"x-mark")
        proxy.when(b"X-MARK", RESET_BEFORE)
        proxy.when(b"x-none", RESET_BEFORE)
        client.sendall(GET)
        assert _read(client, len(FINAL)) == FINAL
        proxy.forget()
        client.sendall(PUT)
        assert _read(client, len(FINAL)) == FINAL
        assert (proxy.counted, proxy.struck) == ({b"x-mark": 1}, [])
        proxy.when(b"X-MARK", RESET_BEFORE)
        client.sendall(PUT)
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        assert (proxy.counted, proxy.struck) == ({b"x-mark": 2}, [RESET_BEFORE])
        assert upstream.received == [GET, PUT]


def test_a_reset_reply_reached_the_server_and_resets_the_client():
    """Commit then reset: a reset, not an orderly end, and the request was served."""
    with _talk([FINAL], RESET_REPLY) as (client, upstream, proxy):
        client.sendall(GET)
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        assert upstream.received == [GET]
        assert proxy.struck == [RESET_REPLY]


def test_a_reset_before_never_reached_the_server():
    """The other half of what a client cannot tell apart."""
    with _talk([FINAL], RESET_BEFORE) as (client, upstream, _proxy):
        client.sendall(GET)
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        assert upstream.received == []


def test_a_request_that_is_lost_reaches_nobody():
    """The connection stays open, and nothing ever comes back: only the client's timeout ends it."""
    lost = LoseRequest(id="lost")
    with _talk([FINAL], lost) as (client, upstream, proxy):
        client.sendall(GET)
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.recv(1)
        assert upstream.received == []
        assert proxy.struck == [lost]


def test_a_delayed_reply_arrives_whole():
    """A delay of the reply changes no byte of it."""
    slow = Delay(id="slow", by_ns=NS_PER_MS, direction="reply")
    with _talk([FINAL], slow) as (client, _upstream, proxy):
        client.sendall(GET)
        assert _read(client, len(FINAL)) == FINAL
        assert proxy.struck == [slow]


def test_what_cannot_be_done_below_http_is_refused():
    """A status is no business of a proxy that rewrites nothing."""
    with FaultProxy(("127.0.0.1", 1)) as proxy, pytest.raises(ConfigError, match="below HTTP"):
        proxy.next(Error(id="busy", status=503))


def test_faults_strike_requests_one_by_one():
    """A kept connection serves several requests: only the one that was meant is struck."""
    with _talk([FINAL], None, RESET_REPLY) as (client, upstream, _proxy):
        client.sendall(GET)
        assert _read(client, len(FINAL)) == FINAL
        client.sendall(PUT)
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        assert upstream.received == [GET, PUT]


def test_a_server_that_is_not_there_resets_the_client():
    """No upstream: an error, not a hang."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with (
            FaultProxy(unused.getsockname()) as proxy,
            socket.create_connection(("127.0.0.1", proxy.port), 10) as client,
        ):
            client.sendall(GET)
            with pytest.raises(ConnectionResetError):
                client.recv(1)


@pytest.mark.parametrize(
    ("fault", "act"),
    [
        (Delay(id="f", by_ns=5), Interference(request_ns=5)),
        (Delay(id="f", by_ns=5, direction="reply"), Interference(reply_ns=5)),
        (LoseRequest(id="f"), Interference(request=Treatment.HOLD)),
        (LoseReply(id="f"), Interference(reply=Treatment.HOLD)),
        (Error(id="f", status="reset"), Interference(request=Treatment.RESET)),
        (Error(id="f", status="reset", cut="c2"), Interference(reply=Treatment.RESET)),
        (Error(id="f", status="timeout"), Interference(request=Treatment.HOLD)),
        (Error(id="f", status="timeout", cut="c2"), Interference(reply=Treatment.HOLD)),
        (Error(id="f", status=503), None),
        (Error(id="f", status=503, cut="c2"), Interference(answer=503)),
        (Duplicate(id="f"), None),
    ],
)
def test_what_a_fault_does_to_a_connection(fault: Fault, act: Interference | None) -> None:
    """Before the server or after it, held or reset; None where it cannot be done below HTTP."""
    assert fault.interference() == act
