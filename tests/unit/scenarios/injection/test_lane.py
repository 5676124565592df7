"""A lane: bytes pass unmodified; a request in hand reaches the server as often as its conduct says."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lockref.errors import ConfigError
from scenarios.injection.answers import refusal
from scenarios.injection.certificates import throwaway_authority
from scenarios.injection.http_messages import Head
from scenarios.injection.lane import Conduct, Exchange, Lane, Upstream, let_pass, upstream_of
from scenarios.injection.observer import Direction

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
PUT = b"PUT /b/k HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"
CHUNKED = b"PUT /b/k HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n2;x=y\r\ndy\r\n0\r\n\r\n"
GET = b"GET /b/k HTTP/1.1\r\nHost: h\r\n\r\n"
HEAD = b"HEAD /b/k HTTP/1.1\r\nHost: h\r\n\r\n"


class Watcher:
    """An observer that keeps what it is told; `is_over` when the client's connection is."""

    def __init__(self) -> None:
        self.seen: list[tuple[object, ...]] = []
        self.instants: list[int] = []
        self.is_over = threading.Event()

    def opened(self, connection: int, at_ns: int) -> None:
        self._note(at_ns, "opened", connection)

    def forwarded(self, connection: int, direction: Direction, data: bytes, at_ns: int) -> None:
        self._note(at_ns, direction, connection, data)

    def ended(self, connection: int, at_ns: int) -> None:
        self._note(at_ns, "ended", connection)

    def closed(self, connection: int, at_ns: int) -> None:
        self._note(at_ns, "closed", connection)
        self.is_over.set()

    def _note(self, at_ns: int, *what: object) -> None:
        self.instants.append(at_ns)
        self.seen.append(what)

    def bytes_of(self, direction: Direction) -> bytes:
        return b"".join(each[2] for each in self.seen if each[0] is direction)


class Server:
    """Answers each whole request with `answer`; `received` is every byte, per connection."""

    def __init__(self, answer: bytes = ANSWER) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.received: list[bytes] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            pending = b""
            while piece := connection.recv(65536):
                pending += piece
                while request := _whole(pending):
                    pending = pending[len(request) :]
                    self.received.append(request)
                    connection.sendall(self._answer)
                    if b"Connection: close" in self._answer:
                        return

    def close(self) -> None:
        # Closing alone would leave a thread that is accepting to accept once more.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _whole(data: bytes) -> bytes:
    """The first request, if it is all here; those of this module are known by heart."""
    return next((known for known in (PUT, CHUNKED, GET, HEAD, EXPECTING) if data.startswith(known)), b"")


EXPECTING = b"PUT /b/k HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\nbody"


@contextlib.contextmanager
def lane_before(
    server: Server,
    choose: Callable[[Head], Conduct | None] = let_pass,
    *,
    observer: Watcher | None = None,
    lanes: list[Lane] | None = None,
) -> Iterator[socket.socket]:
    """A client's connection through a lane, which is added to `lanes`."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    lane = Lane(Upstream(host="127.0.0.1", port=server.port), choose, observer=observer)
    if lanes is not None:
        lanes.append(lane)
    try:
        asyncio.run_coroutine_threadsafe(lane.open(), loop).result(10)
        with socket.create_connection(("127.0.0.1", lane.port), 10) as client:
            yield client
    finally:
        asyncio.run_coroutine_threadsafe(lane.close(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
        server.close()


def read(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := client.recv(count - len(data))):
        data += more
    return data


async def twice(exchange: Exchange) -> None:
    await exchange.apply()
    await exchange.answer((await exchange.apply()).raw)


async def unheard(exchange: Exchange) -> None:
    await exchange.apply()
    await exchange.silence()


async def refused(exchange: Exchange) -> None:
    await exchange.answer(refusal("s3", 503, "busy"))


async def reset(exchange: Exchange) -> None:
    exchange.reset()


def only(method: bytes, conduct: Conduct) -> Callable[[Head], Conduct | None]:
    return lambda head: conduct if head.method == method else None


@pytest.mark.parametrize("request_bytes", [PUT, CHUNKED, GET], ids=["length", "chunked", "bodiless"])
@pytest.mark.parametrize("size", [1, 7, 1000], ids=["byte by byte", "in pieces", "whole"])
def test_requests_pass_byte_for_byte_however_they_are_cut(request_bytes: bytes, size: int) -> None:
    """A signature covers the bytes; where a message ends does not depend on packets."""
    server = Server()
    with lane_before(server) as client:
        for _ in range(2):
            for begin in range(0, len(request_bytes), size):
                client.sendall(request_bytes[begin : begin + size])
            assert read(client, len(ANSWER)) == ANSWER
    assert server.received == [request_bytes] * 2


@pytest.mark.parametrize("request_bytes", [PUT, CHUNKED, GET], ids=["length", "chunked", "bodiless"])
def test_a_request_in_hand_is_sent_as_it_came(request_bytes: bytes) -> None:
    """A copy that the network made: the server has it twice, its client one answer."""
    server = Server()
    with lane_before(server, lambda _head: twice) as client:
        client.sendall(request_bytes)
        assert read(client, len(ANSWER)) == ANSWER
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.recv(1)
    assert server.received == [request_bytes] * 2


@pytest.mark.parametrize(("choose", "times"), [(let_pass, 1), (lambda _head: twice, 2)], ids=["passed", "in hand"])
def test_a_lane_counts_the_bytes_that_it_carries(choose: Callable[[Head], Conduct | None], times: int) -> None:
    """Requests count as often as the server has them, answers as often as the client has them."""
    lanes: list[Lane] = []
    with lane_before(Server(), choose, lanes=lanes) as client:
        client.sendall(PUT)
        assert read(client, len(ANSWER)) == ANSWER
    assert lanes[0].carried == {Direction.REQUEST: times * len(PUT), Direction.REPLY: len(ANSWER)}


def test_a_lost_reply_is_silence_and_the_write_has_landed() -> None:
    """E11: the connection stays open, nothing comes, and the server has the request."""
    server = Server()
    with lane_before(server, only(b"PUT", unheard)) as client:
        client.sendall(GET)
        assert read(client, len(ANSWER)) == ANSWER
        client.sendall(PUT)
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
    assert server.received == [GET, PUT]


def test_a_refusal_in_the_place_of_a_request_never_reaches_the_server() -> None:
    """c1: 503 before applying, on a connection that goes on."""
    server = Server()
    answer = refusal("s3", 503, "busy")
    with lane_before(server, only(b"PUT", refused)) as client:
        client.sendall(PUT)
        assert read(client, len(answer)) == answer
        client.sendall(GET)
        assert read(client, len(ANSWER)) == ANSWER
    assert server.received == [GET]


def test_a_reset_is_a_reset_and_no_orderly_end() -> None:
    """c1 with status reset."""
    server = Server()
    with lane_before(server, only(b"PUT", reset)) as client:
        client.sendall(PUT)
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    assert server.received == []


def test_a_client_that_waits_for_continue_gets_it_before_its_request_is_held() -> None:
    """Whoever sends `Expect: 100-continue` sends its body only then (RFC 9110, section 10.1.1)."""
    server = Server()
    with lane_before(server, only(b"PUT", twice)) as client:
        client.sendall(EXPECTING[:-4])
        assert read(client, 25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"body")
        assert read(client, len(ANSWER)) == ANSWER
    assert server.received == [EXPECTING] * 2


def test_a_request_outlives_the_client_that_gave_it_up() -> None:
    """E30: a ghost write lands after its client has hung up."""
    server, may_go, has_landed = Server(), threading.Event(), threading.Event()

    async def late(exchange: Exchange) -> None:
        while not may_go.is_set() or not exchange.is_abandoned:
            await asyncio.sleep(0.01)
        await exchange.apply()
        has_landed.set()

    with lane_before(server, lambda _head: late) as client:
        client.sendall(PUT)
        client.close()
        may_go.set()
        assert has_landed.wait(10)
    assert server.received == [PUT]


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    """RFC 9112, 6.3: a request in hand gets it whole."""
    head = b"HTTP/1.1 200 OK\r\n\r\n"

    class Closing(Server):
        def _serve(self, connection: socket.socket) -> None:
            with connection:
                connection.recv(65536)
                connection.sendall(head + b"to the end")

    async def once(exchange: Exchange) -> None:
        await exchange.answer((await exchange.apply()).raw)

    with lane_before(Closing(), lambda _head: once) as client:
        client.sendall(GET)
        assert read(client, len(head) + 10) == head + b"to the end"


def test_a_server_that_is_gone_resets_the_client() -> None:
    """Whether a request passes or is in hand: an error at once, no hang."""
    for choose in (let_pass, only(b"GET", twice)):
        server = Server()
        server.close()
        with lane_before(server, choose) as client:
            client.sendall(GET)
            with pytest.raises(ConnectionResetError):
                client.recv(1)


def test_an_observer_sees_what_passes_and_what_is_done_by_hand() -> None:
    """`lockref wire` records from here."""
    watcher, server = Watcher(), Server()
    with lane_before(server, only(b"PUT", twice), observer=watcher) as client:
        client.sendall(GET)
        assert read(client, len(ANSWER)) == ANSWER
        client.sendall(PUT)
        assert read(client, len(ANSWER)) == ANSWER
        client.close()
        assert watcher.is_over.wait(10)
    assert watcher.bytes_of(Direction.REQUEST) == GET + PUT + PUT
    assert watcher.bytes_of(Direction.REPLY) == ANSWER * 2


@pytest.mark.parametrize("choose", [let_pass, lambda _head: heard], ids=["passing", "in hand"])
def test_an_observer_is_told_who_hangs_up_first(choose: Callable[[Head], Conduct | None]) -> None:
    """An answer without a length is whole if the server ended it, and not if its client gave up."""
    watcher, server = Watcher(), Server(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc")
    with lane_before(server, choose, observer=watcher) as client:
        client.sendall(GET)
        while client.recv(1024):
            pass
        client.close()
        assert watcher.is_over.wait(10)
    assert [each[0] for each in watcher.seen if isinstance(each[0], str)] == ["opened", "ended", "closed"]
    watcher = Watcher()
    with lane_before(Server(), let_pass, observer=watcher) as client:
        client.sendall(GET)
        assert read(client, len(ANSWER)) == ANSWER
        client.close()
        assert watcher.is_over.wait(10)
    assert [each[0] for each in watcher.seen if isinstance(each[0], str)] == ["opened", "closed"]


@pytest.mark.parametrize("endpoint", ["ftp://h:1", "h:1", "http://", "https://:3"])
def test_an_endpoint_that_is_none_is_refused(endpoint: str) -> None:
    """One line that names the form."""
    with pytest.raises(ConfigError, match=r"not of the form http://HOST:PORT"):
        upstream_of(endpoint)


def test_a_port_follows_from_the_scheme() -> None:
    """https without a port is 443, and speaks TLS."""
    assert (upstream_of("http://h").port, upstream_of("http://h:9").port) == (80, 9)
    secure = upstream_of("https://h")
    assert secure.port == 443
    assert secure.tls is not None


async def heard(exchange: Exchange) -> None:
    await exchange.hear(await exchange.apply())


async def as_it_is(exchange: Exchange) -> None:
    await exchange.answer((await exchange.apply()).raw)


@pytest.mark.parametrize("choose", [let_pass, lambda _head: as_it_is], ids=["passing", "in hand"])
def test_a_lane_speaks_tls_to_its_server_and_its_client(
    tmp_path: Path, choose: Callable[[Head], Conduct | None]
) -> None:
    """Plain HTTP or TLS on either side: the client trusts what it is told to, and the bytes are the same."""
    authority = throwaway_authority(tmp_path / "tls", now_s=int(time.time()))
    server = Server()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    # The first lane is the TLS server; the second speaks TLS to it, and the third to its client, too.
    behind = Lane(Upstream(host="127.0.0.1", port=server.port), tls=authority.server)
    asyncio.run_coroutine_threadsafe(behind.open(), loop).result(10)
    secure = upstream_of(behind.endpoint, trusted=authority.trusting())
    lanes = [behind, Lane(secure, choose), Lane(secure, choose, tls=authority.server)]
    try:
        for lane in lanes[1:]:
            asyncio.run_coroutine_threadsafe(lane.open(), loop).result(10)
            with contextlib.ExitStack() as stack:
                client = stack.enter_context(socket.create_connection(("127.0.0.1", lane.port), 10))
                if lane.endpoint.startswith("https"):
                    client = stack.enter_context(authority.trusting().wrap_socket(client, server_hostname="127.0.0.1"))
                for request in (PUT, GET):
                    client.sendall(request)
                    assert read(client, len(ANSWER)) == ANSWER
        assert server.received == [PUT, GET, PUT, GET]
        with (
            socket.create_connection(("127.0.0.1", lanes[2].port), 10) as stranger,
            pytest.raises(ssl.SSLCertVerificationError),
        ):
            ssl.create_default_context().wrap_socket(stranger, server_hostname="127.0.0.1")
    finally:
        for lane in reversed(lanes):
            asyncio.run_coroutine_threadsafe(lane.close(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
        server.close()


def test_a_server_whose_certificate_nobody_trusts_gets_no_request(tmp_path: Path) -> None:
    """TLS that cannot be verified is no connection: the client is reset, and nothing was sent."""
    authority = throwaway_authority(tmp_path / "tls", now_s=int(time.time()))
    server = Server()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    behind = Lane(Upstream(host="127.0.0.1", port=server.port), tls=authority.server)
    asyncio.run_coroutine_threadsafe(behind.open(), loop).result(10)
    lane = Lane(upstream_of(behind.endpoint))
    asyncio.run_coroutine_threadsafe(lane.open(), loop).result(10)
    try:
        with socket.create_connection(("127.0.0.1", lane.port), 10) as client:
            client.sendall(PUT)
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        assert server.received == []
    finally:
        for each in (lane, behind):
            asyncio.run_coroutine_threadsafe(each.close(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
        server.close()


def test_the_bundle_that_the_sdks_trust_counts_here_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS_CA_BUNDLE: the same file for the clients and for the lanes; one that is no bundle is one line."""
    authority = throwaway_authority(tmp_path / "tls", now_s=int(time.time()))
    monkeypatch.setenv("AWS_CA_BUNDLE", str(authority.certificate))
    secure = upstream_of("https://127.0.0.1:1")
    assert secure.tls is not None
    assert [dict(pair[0] for pair in each["issuer"]) for each in secure.tls.get_ca_certs()] == [
        {"commonName": "lockref throw-away authority"}
    ]
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "none.pem"))
    with pytest.raises(ConfigError, match="AWS_CA_BUNDLE names no readable file"):
        upstream_of("https://127.0.0.1:1")
