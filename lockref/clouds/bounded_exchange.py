"""One request on the wire: bounded as a whole, and held back at the start barrier of a race (`stores.probe`).

A time-out of urllib3 bounds each wait for bytes. A server that sends one byte a
second is never late for such a time-out, and holds the caller for as long as it
likes. So each store names a deadline for the whole request (`bounded`), and the
sockets of its connections wait no longer than what is left: for a connection,
the TLS handshake, a proxy's answer, the status line, headers, body and chunks.
Only the look-up of a host's name is beyond reach: the system bounds it.

The deadline belongs to the calling thread, not to the connection, so kept
connections serve the next request under its own deadline.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import re
import socket
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, cast

from urllib3.exceptions import ConnectTimeoutError, NewConnectionError
from urllib3.util.connection import allowed_gai_family

from lockref.grammar import decimal
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.stores.probe.start_barrier import is_racing, wait_for_start

if TYPE_CHECKING:
    from urllib3.connection import HTTPConnection
    from urllib3.response import HTTPResponse

    _Base = HTTPConnection
else:
    _Base = object

REPLY_BYTES_MAX: Final = 256 * 1024 * 1024
"""A reply of more is no answer: a server that never stops sending must not fill the memory until the deadline."""

_MEDIA_TYPE: Final = re.compile(r"[\w.+-]{1,30}/[\w.+-]{1,40}\s*(;|$)", re.ASCII)
_now_ns: Final = ThreadRuntime().monotonic_ns


class Exchange:
    """The request that a thread has on the wire, and what came back.

    status, headers: of the reply's head, whatever an SDK makes of it later; 0 and none while there is no reply. The
        names of headers are in lower case.
    """

    __slots__ = ("_length", "_media_type", "deadline_ns", "headers", "left_bytes", "status")

    def __init__(self, timeout_ns: int) -> None:
        self.deadline_ns = _now_ns() + timeout_ns
        self.left_bytes = REPLY_BYTES_MAX
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self._length = self._media_type = ""

    @property
    def is_success(self) -> bool:
        """True if the reply's head said that the request was done."""
        return self.status // 100 == 2

    @property
    def received(self) -> str:
        """The reply in a few words, such as `200 with 27 bytes of text/html`. Nothing of its body is told."""
        length = f"{self._length} bytes" if self._length else "a body"
        return f"{self.status} with {length}{f' of {self._media_type}' if self._media_type else ''}"

    def note(self, status: int, headers: Mapping[str, str]) -> None:
        """Take note of a reply's head."""
        self.status = status
        self.headers = {name.lower(): value for name, value in headers.items()}
        length, media = self.headers.get("content-length", ""), self.headers.get("content-type", "")
        self._length = length if length.isdecimal() and len(length) < 20 else ""
        self._media_type = media.partition(";")[0] if _MEDIA_TYPE.match(media) else ""

    def left_s(self) -> float:
        """Seconds until the deadline. Errors: TimeoutError if it has passed."""
        left_ns = self.deadline_ns - _now_ns()
        if left_ns <= 0:
            raise TimeoutError("the request's deadline has passed")
        return left_ns / NS_PER_S


# A context variable and no argument: between a call and its socket lie an SDK and urllib3, which pass nothing through.
# Rejected: the SDKs' own time-outs. They count from the last byte, so a server that sends a byte a second is waited for
# for ever; a lease has to know when a request is over.
_exchange: ContextVar[Exchange | None] = ContextVar("lockref_exchange", default=None)


@contextlib.contextmanager
def bounded(timeout_ns: int) -> Iterator[Exchange]:
    """Let this thread's requests inside the block end, as a whole, within `timeout_ns` from now."""
    exchange = Exchange(timeout_ns)
    token = _exchange.set(exchange)
    try:
        yield exchange
    finally:
        _exchange.reset(token)


class BoundedSocket:
    """A connected socket, plain or TLS, whose every wait ends at the deadline of the thread that waits."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._timeout_s = sock.gettimeout()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def fileno(self) -> int:
        return self._sock.fileno()

    def settimeout(self, timeout_s: float | None) -> None:
        self._timeout_s = timeout_s
        self._sock.settimeout(timeout_s)

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        # Armed before each wait anew, since a time-out of a socket is for one call and the deadline is for all of them.
        exchange = self._arm()
        count = self._sock.recv_into(buffer, nbytes, flags)
        if exchange is not None:
            # Bytes as they come from the wire. A body that is unpacked is bounded where it is unpacked.
            exchange.left_bytes -= count
            if exchange.left_bytes < 0:
                raise TimeoutError(f"the reply has more than {REPLY_BYTES_MAX} bytes")
        return count

    def sendall(self, data: Any, flags: int = 0) -> None:
        rest = memoryview(data).cast("B")
        if is_racing():
            # All but the last byte: servers of the racers have read their requests, and stand where they check.
            self._send(rest[:-1], flags)
            wait_for_start()
            rest = rest[-1:]
        self._send(rest, flags)

    def _send(self, rest: memoryview, flags: int) -> None:
        while rest:
            # A TLS socket's own sendall would take the time-out anew for each record.
            self._arm()
            rest = rest[self._sock.send(rest, flags) :]

    def makefile(self, mode: str = "rb", buffering: int | None = None, **_: object) -> io.BufferedIOBase:
        """As `socket.makefile("rb")`, which is all that http.client asks for; the bytes come through `recv_into`."""
        raw = socket.SocketIO(cast("socket.socket", self), "r")
        # What makefile itself does: the socket stays open until its last file is closed.
        cast("Any", self._sock)._io_refs += 1  # noqa: SLF001
        return _Reader(raw, buffering if buffering and buffering > 1 else io.DEFAULT_BUFFER_SIZE)

    def _arm(self) -> Exchange | None:
        exchange = _exchange.get()
        if exchange is not None:
            left_s = exchange.left_s()
            self._sock.settimeout(left_s if self._timeout_s is None else min(left_s, self._timeout_s))
        return exchange


class _Reader(io.BufferedReader):
    """The bytes of a reply. http.client asks for as many as the server says that there are.

    It takes a chunk of -5 bytes for a length, and one of 2^60. The buffer would answer with a ValueError, an
    OverflowError or a MemoryError, which no client expects; a chunk of -1 would be read until the connection ends.
    """

    def read(self, size: int | None = None, /) -> bytes:
        if size is not None and not 0 <= size <= REPLY_BYTES_MAX:
            raise http.client.IncompleteRead(b"")
        return super().read(size)


class BoundedConnection(_Base):
    """Mix-in for urllib3's connections, plain and TLS: all that they do ends at the calling thread's deadline."""

    def _new_conn(self) -> socket.socket:
        exchange = _exchange.get()
        if exchange is None:
            return super()._new_conn()
        named, timeout = self._dns_host, self.timeout
        failure: Exception | None = None
        try:
            # urllib3 would give each address of a host the whole time-out. Here they share what is left.
            for address in _addresses(named, self.port):
                self._dns_host = address
                self.timeout = _shorter_s(timeout, exchange)
                try:
                    return super()._new_conn()
                except (ConnectTimeoutError, NewConnectionError) as error:
                    failure = error
        finally:
            self._dns_host, self.timeout = named, timeout
        if failure is not None:
            raise failure
        # No address: urllib3 finds that out again, and says it in its own exception.
        return super()._new_conn()

    def connect(self) -> None:
        super().connect()
        if isinstance(self.sock, socket.socket):
            self.sock = cast("socket.socket", BoundedSocket(self.sock))

    def getresponse(self) -> HTTPResponse:  # type: ignore[override]
        response = super().getresponse()
        length = response.headers.get("Content-Length")
        if length is not None and decimal(length.strip()) is None:
            # http.client takes such a length for none, and reads until the connection ends; botocore asks int().
            raise http.client.HTTPException("Content-Length is no length")
        exchange = _exchange.get()
        if exchange is not None:
            exchange.note(response.status, response.headers)
        return response

    def _tunnel(self) -> None:
        """Ask a proxy for a tunnel. TLS needs the plain socket afterwards."""
        plain = self.sock
        if isinstance(plain, socket.socket):
            self.sock = cast("socket.socket", BoundedSocket(plain))
        super()._tunnel()
        self.sock = plain


def _shorter_s(timeout: Any, exchange: Exchange) -> float:
    """The time for one address. Errors: ConnectTimeoutError if the deadline has passed: nothing was sent."""
    try:
        left_s = exchange.left_s()
    except TimeoutError as error:
        raise ConnectTimeoutError(str(error)) from error
    return min(left_s, timeout) if isinstance(timeout, int | float) else left_s


def _addresses(host: str, port: int) -> list[str]:
    """The host's addresses, in the order in which to try them; none if there is no such host."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, allowed_gai_family(), socket.SOCK_STREAM)
    except OSError:
        return []
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
