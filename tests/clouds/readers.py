"""Every reader of a cloud's answers, behind one call: the bytes of an answer in, its meaning out."""

from __future__ import annotations

import contextlib
import http.client
import io
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from lockref.clouds.calls import DELETE as PROBE_DELETE
from lockref.clouds.calls import PUT as PROBE_PUT
from lockref.clouds.calls import READ as PROBE_READ
from lockref.clouds.calls import Call, HttpReply
from lockref.clouds.uri import open_store, parse_store_uri
from lockref.runtime import NS_PER_S
from lockref.stores.port import ObjectStore, Version
from lockref.words import Outcome
from scenarios.probe.opening import open_endpoint
from scenarios.wire.reading.conversation import Conversation
from scenarios.wire.reading.dialect import dialect_of
from tests.clouds.answer_table import BODY, CREATE, DELETE, ETAG, GENERATION, READ, REPLACE, Row

_KEY: Final = "k"
_OLD_VERSIONS: Final = {"s3": ETAG, "gs": GENERATION, "az": ETAG}
_WIRE: Final = {
    "s3": dialect_of("s3", "bucket"),
    "gs": dialect_of("gs", "b"),
    "az": dialect_of("az", "b"),
}


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a reader makes of an answer. version: in the cloud's own form, without quotes; "" for none."""

    outcome: Outcome
    is_absent: bool
    version: str


def meaning_of(row: Row) -> Meaning:
    """What the table says."""
    return Meaning(row.outcome, row.is_absent, row.version.strip('"'))


@dataclass(slots=True)
class CannedServer:
    """A server that gives the same bytes to every request. requests: the bytes of those that came."""

    port: int = 0
    answer: bytes = b""
    requests: list[bytes] = field(default_factory=list)


@contextlib.contextmanager
def canned_server() -> Iterator[CannedServer]:
    """A server on a free port of this machine."""
    told = CannedServer()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while head := self._head():
                lines = head.lower().split(b"\r\n")
                length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
                if b"expect: 100-continue" in lines:
                    self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                told.requests.append(head + self.rfile.read(length))
                self.wfile.write(told.answer)

        def _head(self) -> bytes:
            found = b""
            while not found.endswith(b"\r\n\r\n"):
                line = self.rfile.readline()
                if not line:
                    return b""
                found += line
            return found

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that hangs up is none."""

    with Server(("127.0.0.1", 0), Handler) as server:
        told.port = server.server_address[1]
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        serving.start()
        try:
            yield told
        finally:
            server.shutdown()
            serving.join()


def uri_of(scheme: str, port: int) -> str:
    account = "/devstoreaccount1" if scheme == "az" else ""
    return f"{scheme}://bucket/p?endpoint=http://127.0.0.1:{port}{account}"


class StoreReader:
    """Our own store: the cloud's SDK, over a connection to a server that gives the answer."""

    def __init__(self, server: CannedServer) -> None:
        self._server = server
        self._stores: dict[str, ObjectStore] = {}

    def __call__(self, row: Row) -> Meaning:
        self._server.answer = row.answer
        self._server.requests.clear()
        store = self._store(row.scheme)
        if row.asked == READ:
            found = store.read(_KEY)
            assert (found.body is not None) <= (found.outcome is Outcome.APPLIED)
            told = Meaning(found.outcome, found.is_absent, _plain(found.version))
        else:
            reply = _write(store, row)
            told = Meaning(reply.outcome, reply.missing, _plain(reply.version))
        # A2: one call is one request, whatever the answer.
        assert len(self._server.requests) == 1, self._server.requests
        return told

    def request(self, row: Row) -> bytes:
        """The bytes that the SDK sends for such a request."""
        self(row)
        return self._server.requests[0]

    def close(self) -> None:
        for store in self._stores.values():
            store.close()

    def _store(self, scheme: str) -> ObjectStore:
        if scheme not in self._stores:
            self._stores[scheme] = open_store(uri_of(scheme, self._server.port), request_timeout_ns=5 * NS_PER_S)
        return self._stores[scheme]


class ProbeReader:
    """The probe's dialects, which read an answer without an SDK."""

    def __init__(self) -> None:
        self._dialects: dict[str, Any] = {}

    def __call__(self, row: Row) -> Meaning:
        if row.scheme not in self._dialects:
            self._dialects[row.scheme] = open_endpoint(parse_store_uri(uri_of(row.scheme, 9))).dialect
        version = _OLD_VERSIONS[row.scheme]
        call = {
            CREATE: Call(verb=PROBE_PUT, key=_KEY, body=BODY, none_match="*"),
            REPLACE: Call(verb=PROBE_PUT, key=_KEY, body=BODY, match=version),
            DELETE: Call(verb=PROBE_DELETE, key=_KEY, match=version),
            READ: Call(verb=PROBE_READ, key=_KEY),
        }[row.asked]
        answer = self._dialects[row.scheme].answer(call, _http_reply(row.answer))
        return Meaning(answer.outcome, answer.is_missing, _plain(answer.version))


class WireReader:
    """The wire's dialects, which read a copy of the bytes that a foreign client and its server exchange."""

    def __init__(self, requests: StoreReader) -> None:
        self._requests = requests
        self._sent: dict[tuple[str, str], bytes] = {}

    def __call__(self, row: Row) -> Meaning:
        kind = row.scheme, row.asked
        if kind not in self._sent:
            self._sent[kind] = self._requests.request(row)
        talk = Conversation()
        talk.from_client(self._sent[kind], 1)
        talk.from_server(row.answer, 2)
        assert not talk.unreadable, talk.unreadable
        exchange = talk.current
        assert exchange is not None, "the request was read"
        assert exchange.answered_ns == 2, "the whole answer was read"
        dialect = _WIRE[row.scheme]
        reply = dialect.reply(exchange, dialect.request(exchange))
        version = reply.version
        if row.scheme == "gs":
            # The wire knows versions of the metadata, too. It reads the first one of each generation here.
            version = version.removesuffix(".1")
        return Meaning(reply.outcome, reply.is_absent, version)


def _plain(version: str | None) -> str:
    return (version or "").strip('"')


def _write(store: ObjectStore, row: Row) -> Any:
    version = Version(_OLD_VERSIONS[row.scheme])
    if row.asked == CREATE:
        return store.put_if_absent(_KEY, BODY)
    if row.asked == REPLACE:
        return store.put_if_version(_KEY, BODY, version)
    return store.delete(_KEY, version)


class _Socket:
    """The bytes of an answer, where `http.client` looks for a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, *_: object) -> io.BytesIO:
        return io.BytesIO(self._data)


def _http_reply(answer: bytes) -> HttpReply:
    response = http.client.HTTPResponse(_Socket(answer))  # type: ignore[arg-type]
    response.begin()
    body = response.read()
    return HttpReply(
        status=response.status, headers={name.lower(): value for name, value in response.getheaders()}, body=body
    )
