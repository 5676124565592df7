"""Send the probe's requests: each call is one request, over connections that are kept open.

Nothing here repeats a request, follows a redirect or waits for `100 Continue`. A race first sends every request but
for its last byte. The server's handlers then wait where they read the body. The last bytes leave in one tight loop, so
the handlers wake within microseconds of each other. Threads would be slower: they would still build and sign requests.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import os
import re
import select
import socket
import ssl
from collections.abc import Sequence
from typing import Final, cast
from urllib.parse import urlsplit

from lockref.clouds.bounded_exchange import BoundedSocket, bounded
from lockref.clouds.calls import READ, RESOURCE, Answer, Call, HttpReply, HttpRequest, Inexpressible, Unsigned
from lockref.errors import ConfigError
from lockref.grammar import decimal
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.stores.endpoints import TRANSPORTS
from lockref.words import Outcome
from scenarios.probe.dialect import Dialect

REQUEST_TIMEOUT_NS: Final = 10 * NS_PER_S
BODY_BYTES_MAX: Final = 4 * 1024 * 1024
"""No answer to the probe is longer: its objects are small, and a listing names a thousand keys at most."""
_BUNDLES: Final = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE")
_CONNECT_TIMEOUT_S: Final = 3.0
_LOST: Final = (OSError, http.client.HTTPException, ValueError)
"""Errors of an exchange without an answer in HTTP. A status that is no number raises ValueError."""
_ODD: Final = (KeyError, IndexError, AttributeError, TypeError, ValueError)
"""Errors over an answer that is not of the service's form. Nobody knows whether such a request took effect."""
_SECRET_FIELDS: Final = ("authorization", "x-amz-security-token")
_SIGNED_NAMES: Final = re.compile(r"SignedHeaders=[^,]*")
_SIGNED_QUERY: Final = re.compile(r"(?:^|&)sig=([^&]+)")
_BETWEEN_WORDS: Final = re.compile(r"[\s,;=&:]+")
_SECRET_LENGTH_MIN: Final = 24
"""Signatures and tokens are longer; ids of accounts, names and dates are shorter."""
_PIECE: Final = 12
_SUCCESS: Final = 200
_RESOURCE_TRIES_MAX: Final = 3
_now_ns: Final = ThreadRuntime().monotonic_ns


class HeldRequest:
    """A request that was sent without its last byte; `release` sends that."""

    def __init__(self, store: WireStore, call: Call) -> None:
        self._store = store
        self._call = call
        self._sock: BoundedSocket | None = None
        self._is_reused = False
        self._failure: Answer | None = None
        self._rest = b""
        self._method = ""
        self._secrets: tuple[str, ...] = ()
        self._began_ns = _now_ns()

    def send_most(self) -> None:
        """Send everything but the last byte."""
        try:
            request = self._store.dialect.form(self._call)
        except Unsigned as error:
            self._failure = _lost(error, is_unsent=True)
            return
        encoded, self._method, self._secrets = request.encoded(), request.method, _secrets_of(request)
        try:
            self._sock, self._is_reused = self._store.connect()
        except OSError as error:
            self._failure = _lost(error, is_unsent=True)
            return
        self._began_ns = _now_ns()
        try:
            self._sock.sendall(encoded[:-1])
        except OSError as error:
            # A server may refuse after the head and hang up. Its answer may still be there to read.
            self._failure = _lost(error)
        self._rest = encoded[-1:]

    def send_rest(self) -> None:
        """Send the last byte."""
        if self._sock is None or self._failure is not None:
            return
        try:
            self._sock.sendall(self._rest)
        except OSError as error:
            self._failure = _lost(error)

    def finish(self) -> Answer:
        """Wait for the answer."""
        if self._sock is None:
            return self._failure or _lost(OSError("never sent"), is_unsent=True)
        try:
            reply, is_reusable = _read_reply(self._sock, self._method)
        except _LOST as error:
            self._sock.close()
            if self._is_reused and not isinstance(error, TimeoutError):
                # A server may hang up after an answer without a word. From now on each request has its own connection.
                self._store.keeps_connections = False
            return self._failure or _lost(error)
        self._store.give_back(self._sock, is_reusable and self._failure is None)
        try:
            answer = self._store.dialect.answer(self._call, reply)
        except _ODD as error:
            return dataclasses.replace(_lost(error), duration_ns=_now_ns() - self._began_ns)
        server, date = reply.headers.get("server", "")[:80], reply.headers.get("date", "")[:40]
        told = (answer.reason, answer.version, answer.code, server, date)
        if any(secret in text for secret in self._secrets for text in told):
            # These are printed and stored.
            answer, server, date = _lost(_RepeatsSecretsError()), "", ""
        return dataclasses.replace(answer, duration_ns=_now_ns() - self._began_ns, server=server, date=date)

    def release(self) -> Answer:
        """Send the last byte and wait for the answer."""
        with bounded(self._store.timeout_ns):
            self.send_rest()
            return self.finish()

    def drop(self) -> None:
        """Hang up: the server never gets the whole request."""
        if self._sock is not None:
            self._sock.close()


class WireStore:
    """A store at one endpoint.

    connect_to: host and port to connect to instead of the dialect's, such as those of a fault proxy. The request stays
    the same, byte for byte. keeps_connections: False for a server that serves one connection at a time: it would wait
    for the next request on an idle connection, and serve no other one. reads_name_no_version: the versions of what was
    read are those of the objects' resources. A lock reads in one request, so it has none.
    """

    is_wire = True

    def __init__(
        self, dialect: Dialect, *, connect_to: tuple[str, int] | None = None, timeout_ns: int = REQUEST_TIMEOUT_NS
    ) -> None:
        self.dialect = dialect
        self.timeout_ns = timeout_ns
        parts = urlsplit(dialect.origin)
        self._host = parts.hostname or ""
        transport = TRANSPORTS[parts.scheme]
        self._address = connect_to or (self._host, parts.port or transport.port)
        self.is_encrypted = transport.is_encrypted
        self._context = _trust() if self.is_encrypted else None
        self._idle: list[BoundedSocket] = []
        self.keeps_connections = True
        self.reads_name_no_version = False

    def by(self, connect_to: tuple[str, int], *, timeout_ns: int = 0) -> WireStore:
        """The same store through another address, with connections of its own."""
        other = WireStore(self.dialect, connect_to=connect_to, timeout_ns=timeout_ns or self.timeout_ns)
        other.keeps_connections = self.keeps_connections
        return other

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self._address

    def send(self, call: Call) -> Answer:
        """Send one request; a failure of the network is an answer, too. Errors: only Inexpressible.

        A read that shows no version is asked again with the object's resource before and after it.
        """
        answer = self._sent(call)
        is_plain = call.verb == READ and not call.condition and not call.version
        if is_plain and answer.outcome is Outcome.AMBIGUOUS and answer.status == _SUCCESS:
            return self._read_with_resource(call, answer)
        return answer

    def _read_with_resource(self, call: Call, shown: Answer) -> Answer:
        """The read with the version that the resource tells; `shown` where there is none, or where it changes.

        One more request would not do: an object that is replaced in between would have the version of other bytes.
        """
        about = Call(verb=RESOURCE, key=call.key)
        for _ in range(_RESOURCE_TRIES_MAX):
            try:
                before = self._sent(about)
            except Inexpressible:
                return shown
            if before.is_absent:
                return before
            if not before.is_applied:
                return shown
            found = self._sent(dataclasses.replace(call, version=before.version))
            if found.is_applied and self._sent(about).version == before.version:
                self.reads_name_no_version = True
                return found
        return shown

    def _sent(self, call: Call) -> Answer:
        held = HeldRequest(self, call)
        with bounded(self.timeout_ns):
            held.send_most()
            held.send_rest()
            return held.finish()

    def hold(self, call: Call) -> HeldRequest:
        """Send a request without its last byte. The caller must `release` or `drop` it."""
        held = HeldRequest(self, call)
        with bounded(self.timeout_ns):
            held.send_most()
        return held

    def send_and_hang_up(self, call: Call) -> bool:
        """Send a request, wait for the first byte of its answer, and hang up. False if no answer came."""
        with bounded(self.timeout_ns):
            try:
                sock, _ = self.connect()
                with contextlib.closing(sock):
                    sock.sendall(self.dialect.form(call).encoded())
                    # TLS also receives bytes that belong to no answer, so wait for one byte of the answer itself.
                    return sock.recv_into(bytearray(1)) > 0
            except OSError:
                return False

    def connect(self) -> tuple[BoundedSocket, bool]:
        """A connection, and whether it was used before: an idle one that the server has not closed, or a new one.

        Errors: OSError.
        """
        while self._idle:
            sock = self._idle.pop()
            if self.keeps_connections and not select.select([sock], [], [], 0)[0]:
                return sock, True
            sock.close()
        plain = socket.create_connection(self._address, timeout=min(_CONNECT_TIMEOUT_S, self.timeout_ns / NS_PER_S))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._context is None:
            return BoundedSocket(plain), False
        try:
            return BoundedSocket(self._context.wrap_socket(plain, server_hostname=self._host)), False
        except OSError:
            plain.close()
            raise

    def give_back(self, sock: BoundedSocket, is_reusable: bool) -> None:
        """Keep a connection for the next request, or close it."""
        if is_reusable and self.keeps_connections:
            self._idle.append(sock)
        else:
            sock.close()

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()


def race(entries: Sequence[tuple[WireStore, Call]]) -> list[Answer]:
    """Send all requests at once, each on a connection of its own; the answers in the order of the entries."""
    held = [HeldRequest(store, call) for store, call in entries]
    timeout_ns = max((store.timeout_ns for store, _ in entries), default=REQUEST_TIMEOUT_NS)
    with bounded(timeout_ns):
        for each in held:
            each.send_most()
    return released(held, timeout_ns=timeout_ns)


def released(held: Sequence[HeldRequest], *, timeout_ns: int = REQUEST_TIMEOUT_NS) -> list[Answer]:
    """Send the last bytes of all requests in one tight loop, then collect the answers."""
    with bounded(timeout_ns):
        for each in held:
            each.send_rest()
        return [each.finish() for each in held]


def _trust() -> ssl.SSLContext:
    """Trust what the SDKs trust: the system's authorities, and those in files that the environment names for the SDKs.

    Errors: ConfigError for such a file that cannot be read.
    """
    context = ssl.create_default_context()
    for name in _BUNDLES:
        if path := os.environ.get(name):
            try:
                context.load_verify_locations(cafile=path)
            except (OSError, ssl.SSLError) as error:
                raise ConfigError(f"{name} names {path!r}, which holds no certificates: {error}") from None
    return context


def _read_reply(sock: BoundedSocket, method: str) -> tuple[HttpReply, bool]:
    """The reply, and whether its connection may be used again.

    Errors: those of `_LOST`. A reply whose end nobody knows is no answer: the object in it may be cut off.
    """
    response = http.client.HTTPResponse(cast("socket.socket", sock), method=method)
    try:
        response.begin()
        length = response.getheader("Content-Length")
        if length is not None and decimal(length.strip()) is None:
            # Python takes such a length for none, and reads until the connection ends.
            raise http.client.HTTPException("Content-Length is no length")
        body = response.read(BODY_BYTES_MAX + 1)
        if len(body) > BODY_BYTES_MAX or response.length:
            # Python tells of a body that was cut off only where the whole of it is asked for.
            raise http.client.IncompleteRead(body[:0], response.length)
        headers = {name.lower(): value for name, value in response.getheaders()}
        is_reusable = not response.will_close and response.isclosed()
        return HttpReply(status=response.status, headers=headers, body=body), is_reusable
    finally:
        response.close()


class _RepeatsSecretsError(Exception):
    """A reply that holds what its request had to prove who sent it. No service does that."""


def _secrets_of(request: HttpRequest) -> tuple[str, ...]:
    """Pieces of the request that nobody else may see, such as of a token: so long that no other word has them in it.

    A part of a token is enough, since a reply's fields are cut off.
    """
    fields = [value for name, value in request.headers.items() if name.lower() in _SECRET_FIELDS]
    in_query = _SIGNED_QUERY.findall(urlsplit(request.target).query)
    words = _BETWEEN_WORDS.split(_SIGNED_NAMES.sub("", " ".join([*fields, *in_query])))
    return tuple({word[:_PIECE] for word in words if len(word) >= _SECRET_LENGTH_MIN})


def _lost(error: Exception, *, is_unsent: bool = False) -> Answer:
    """The answer that stands for a failed exchange: the error's class, and what may have happened to the request."""
    what = "no connection; nothing was sent" if is_unsent else "no answer; the request may have taken effect"
    return Answer(outcome=Outcome.AMBIGUOUS, reason=f"{type(error).__name__}: {what}", is_unsent=is_unsent)
