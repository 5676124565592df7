"""The fault proxy itself: where a final reply begins, and what it does to whom."""

from __future__ import annotations

import contextlib
import socket
import threading

import pytest

from lockref.errors import ConfigError
from lockref.runtime import NS_PER_MS
from scenarios.backends.faultproxy import FaultProxy
from scenarios.backends.observer import Direction
from sim.faults.answers import Error
from sim.faults.fault import Fault, Interference, Treatment
from sim.faults.network import Delay, Duplicate, LoseReply, LoseRequest

FINAL = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
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
        while True:
            connection, _ = self._listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while request := connection.recv(1000):
                    if request == b"end":
                        return
                    self.received.append(request)
                    for chunk in self._chunks:
                        connection.sendall(chunk)

    def close(self) -> None:
        with socket.create_connection(self.address) as last:
            last.sendall(b"end")
        self._thread.join()
        self._listener.close()


class Watcher:
    """An observer that keeps what it is told; `is_over` when the client's connection is."""

    def __init__(self) -> None:
        self.seen: list[tuple[object, ...]] = []
        self.instants: list[int] = []
        self.is_over = threading.Event()
        self.from_server = b""

    def opened(self, connection: int, at_ns: int) -> None:
        self._note(at_ns, "opened", connection)

    def forwarded(self, connection: int, direction: Direction, data: bytes, at_ns: int) -> None:
        self._note(at_ns, direction, connection, data)

    def received(self, connection: int, data: bytes, at_ns: int) -> None:
        self.from_server += data

    def struck(self, connection: int, fault: Fault, at_ns: int) -> None:
        self._note(at_ns, "struck", connection, fault)

    def closed(self, connection: int, at_ns: int) -> None:
        self._note(at_ns, "closed", connection)
        self.is_over.set()

    def _note(self, at_ns: int, *what: object) -> None:
        self.instants.append(at_ns)
        self.seen.append(what)

    def bytes_of(self, direction: Direction) -> bytes:
        return b"".join(each[2] for each in self.seen if each[0] is direction)


@contextlib.contextmanager
def _talk(chunks: list[bytes], *faults: Fault | None, observer: Watcher | None = None):
    """A client's connection through a proxy to a server that answers with `chunks`."""
    upstream = Upstream(chunks)
    try:
        with FaultProxy(upstream.address, observer=observer) as proxy:
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
            client.sendall(b"request")
            assert _read(client, len(whole)) == whole
        assert upstream.received == [b"request"] * 2
        assert proxy.struck == []


@pytest.mark.parametrize("glue", [False, True], ids=["own segment", "one segment"])
def test_a_cut_reply_lets_interim_blocks_through(glue):
    """`100 Continue` comes before the write: a cut there would test something else."""
    chunks = [CONTINUE + FINAL] if glue else [CONTINUE, FINAL]
    with _talk(chunks, HANG_REPLY) as (client, upstream, proxy):
        client.sendall(b"request")
        assert _read(client, len(CONTINUE)) == CONTINUE
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.recv(1)
        assert upstream.received == [b"request"]
        assert proxy.struck == [HANG_REPLY]


def test_a_reset_reply_reached_the_server_and_resets_the_client():
    """Commit then reset: a reset, not an orderly end, and the request was served."""
    with _talk([FINAL], RESET_REPLY) as (client, upstream, proxy):
        client.sendall(b"request")
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        assert upstream.received == [b"request"]
        assert proxy.struck == [RESET_REPLY]


def test_a_reset_before_never_reached_the_server():
    """The other half of what a client cannot tell apart."""
    with _talk([FINAL], RESET_BEFORE) as (client, upstream, _proxy):
        client.sendall(b"request")
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        assert upstream.received == []


def test_a_request_that_is_lost_reaches_nobody():
    """The connection stays open, and nothing ever comes back: only the client's timeout ends it."""
    lost = LoseRequest(id="lost")
    with _talk([FINAL], lost) as (client, upstream, proxy):
        client.sendall(b"request")
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.recv(1)
        assert upstream.received == []
        assert proxy.struck == [lost]


def test_a_delayed_reply_arrives_whole():
    """A delay of the reply changes no byte of it."""
    slow = Delay(id="slow", by_ns=NS_PER_MS, direction="reply")
    with _talk([FINAL], slow) as (client, _upstream, proxy):
        client.sendall(b"request")
        assert _read(client, len(FINAL)) == FINAL
        assert proxy.struck == [slow]


def test_an_observer_sees_every_byte_and_every_strike_in_order():
    """Whoever records a program from the wire sees what both sides saw, and what was done to it."""
    watcher = Watcher()
    with _talk([CONTINUE, FINAL], None, RESET_REPLY, observer=watcher) as (client, _upstream, _proxy):
        client.sendall(b"first")
        assert _read(client, len(CONTINUE + FINAL)) == CONTINUE + FINAL
        client.sendall(b"second")
        assert _read(client, len(CONTINUE)) == CONTINUE
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        assert watcher.is_over.wait(10)
    assert watcher.bytes_of(Direction.REQUEST) == b"firstsecond"
    assert watcher.bytes_of(Direction.REPLY) == CONTINUE + FINAL + CONTINUE
    # What the server answered is seen even where the client never hears it.
    assert watcher.from_server == (CONTINUE + FINAL) * 2
    assert [each[0] for each in watcher.seen if isinstance(each[0], str)] == ["opened", "struck", "closed"]
    assert watcher.seen[-2] == ("struck", 1, RESET_REPLY)
    assert watcher.instants == sorted(watcher.instants)


def test_what_cannot_be_done_below_http_is_refused():
    """A status is no business of a proxy that rewrites nothing."""
    with FaultProxy(("127.0.0.1", 1)) as proxy, pytest.raises(ConfigError, match="below HTTP"):
        proxy.next(Error(id="busy", status=503))


def test_faults_strike_requests_one_by_one():
    """A kept connection serves several requests: only the one that was meant is struck."""
    with _talk([FINAL], None, RESET_REPLY) as (client, upstream, _proxy):
        client.sendall(b"first")
        assert _read(client, len(FINAL)) == FINAL
        client.sendall(b"second")
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        assert upstream.received == [b"first", b"second"]


def test_a_server_that_is_not_there_resets_the_client():
    """No upstream: an error, not a hang."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        # The reset may come so soon that connecting itself meets it.
        with (
            FaultProxy(unused.getsockname()) as proxy,
            pytest.raises(ConnectionResetError),
            socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as client,
        ):
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
