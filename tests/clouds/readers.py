"""Every reader of a cloud's answers, behind one call: the bytes of an answer in, its meaning out."""

from __future__ import annotations

import contextlib
import http.client
import io
import socketserver
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lockref.clouds.answers import A_CREATE, A_READ
from lockref.clouds.calls import DELETE as PROBE_DELETE
from lockref.clouds.calls import PUT as PROBE_PUT
from lockref.clouds.calls import READ as PROBE_READ
from lockref.clouds.calls import Answer as ProbeAnswer
from lockref.clouds.calls import Call, HttpReply, Place
from lockref.clouds.statuses import StatusRow, classify
from lockref.clouds.uri import CLOUDS, open_store, parse_store_uri
from lockref.ports import Request
from lockref.runtime import NS_PER_S
from lockref.stores.client import DELETE as STORE_DELETE
from lockref.stores.client import PUT as STORE_PUT
from lockref.stores.port import ObjectStore, Version
from lockref.words import IF_ABSENT, Outcome
from scenarios.injection.answers import reply_of
from scenarios.injection.http_messages import Answer
from scenarios.probe.opening import open_endpoint
from scenarios.wire.reading.conversation import Conversation
from scenarios.wire.reading.dialect import dialect_of
from sim.services.objectstore import ObjectStoreService
from tests.clouds.answer_table import BODY, CHANGES, CREATE, DELETE, READ, REPLACE, Row

_KEY: Final = "k"


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
    path = "" if CLOUDS[scheme].is_table else "/p"
    return f"{scheme}://bucket{path}?endpoint=http://127.0.0.1:{port}{CLOUDS[scheme].local_path}"


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
        # A2: one call is one request, whatever the answer. A table's failed condition may be looked into by a read.
        assert not any(b"GetItem" not in each for each in self._server.requests[1:]), self._server.requests
        assert CLOUDS[row.scheme].is_table or len(self._server.requests) == 1, self._server.requests
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
        version = row.condition
        call = {
            CREATE: Call(verb=PROBE_PUT, key=_KEY, body=BODY, none_match="*"),
            REPLACE: Call(verb=PROBE_PUT, key=_KEY, body=BODY, match=version),
            DELETE: Call(verb=PROBE_DELETE, key=_KEY, match=version),
            READ: Call(verb=PROBE_READ, key=_KEY),
        }[row.asked]
        answer = self._answer(row.scheme, call, parsed_reply(row.answer))
        return Meaning(answer.outcome, answer.is_missing, _plain(answer.version))

    def _answer(self, scheme: str, call: Call, reply: HttpReply) -> ProbeAnswer:
        protocol = CLOUDS[scheme].protocol
        if CLOUDS[scheme].is_table and protocol is not None:
            # To open it would ask the table for the name of its key.
            return protocol[1].answer_to(Place(origin="http://h", container="t", key_attribute="key"), call, reply)
        if scheme not in self._dialects:
            self._dialects[scheme] = open_endpoint(parse_store_uri(uri_of(scheme, 9))).dialect
        found: ProbeAnswer = self._dialects[scheme].answer(call, reply)
        return found


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
        dialect = dialect_of(row.scheme, "bucket")
        reply = dialect.reply(exchange, dialect.request(exchange))
        version = reply.version
        if row.scheme == "gs":
            # The wire knows versions of the metadata, too. It reads the first one of each generation here.
            version = version.removesuffix(".1")
        return Meaning(reply.outcome, reply.is_absent, version)


class FaultsReader:
    """What faults on a real server make of its answer. They ask for the outcome of a change that was not applied."""

    def __call__(self, row: Row) -> Outcome | None:
        """None where faults ask for nothing, or do not know enough of the request."""
        head = row.answer.partition(b"\r\n")[0]
        status = int(head.split(b" ")[1])
        if row.asked not in CHANGES or (status == 404 and row.asked != DELETE):
            return None
        method = b"DELETE" if row.asked == DELETE else b"PUT"
        return reply_of(row.scheme, method, Answer(row.answer, status, keeps_connection=True)).outcome


class Readers:
    """Every reader of answers."""

    def __init__(self, server: CannedServer) -> None:
        self._store = StoreReader(server)
        self._probe = ProbeReader()
        self._wire = WireReader(self._store)
        self._faults = FaultsReader()

    def told(self, row: Row) -> dict[str, Meaning]:
        """The meaning of the answer by each reader; what a reader does not tell is as the table has it."""
        told = {"store": self._store(row), "probe": self._probe(row)}
        if CLOUDS[row.scheme].is_table and row.asked in CHANGES:
            # A table answers a write without a version: a client knows the one that it has written.
            told = {reader: replace(meaning, version="") for reader, meaning in told.items()}
        if CLOUDS[row.scheme].traffic is not None:
            told["wire"] = self._wire(row)
        outcome = self._faults(row)
        if outcome is not None:
            told["faults"] = replace(meaning_of(row), outcome=outcome)
        return told

    def close(self) -> None:
        self._store.close()


def untried(rows: Iterable[Row]) -> dict[str, list[str]]:
    """By scheme, the rows of the cloud's own table that decide over none of these answers."""
    reached: dict[str, set[StatusRow]] = {}
    for row in rows:
        cloud = CLOUDS[row.scheme]
        assert cloud.protocol is not None, "the cloud is asked by HTTP"
        reply = parsed_reply(row.answer)
        # A read, and a write without a condition: the two kinds of questions by which a 404 is told apart.
        for question in (A_READ, A_CREATE):
            found = cloud.protocol[1].read_answer(question, reply.status, reply.headers, reply.body)
            reached.setdefault(row.scheme, set()).add(classify(cloud.outcomes, found.status, found.code))
    return {
        scheme: [f"{row.status} {row.code}" for row in CLOUDS[scheme].outcomes if row not in found]
        for scheme, found in reached.items()
    }


def assert_simulated(scheme: str, rows: Iterable[Row]) -> None:
    """Each answer of a simulated server has the status, the outcome and the absence of an answer in the table."""
    statuses = CLOUDS[scheme].statuses
    known = {
        (row.asked, parsed_reply(row.answer).status, row.outcome, row.is_absent) for row in rows if row.scheme == scheme
    }
    service = ObjectStoreService(statuses)

    def ask(asked: str, verb: str, condition: str = "", *, key: str = "k") -> None:
        reply = service.apply(Request("n1", "store", verb, key, condition=condition, body=BODY), 1)
        if reply.status:
            assert (asked, reply.status, reply.outcome, reply.missing) in known, (asked, condition, reply)

    ask(CREATE, STORE_PUT, IF_ABSENT)
    ask(CREATE, STORE_PUT, IF_ABSENT)
    ask(REPLACE, STORE_PUT, "another version")
    ask(REPLACE, STORE_PUT, "another version", key="absent")
    ask(DELETE, STORE_DELETE, "another version")
    ask(DELETE, STORE_DELETE, "another version", key="absent")
    ask(DELETE, STORE_DELETE)


def _plain(version: str | None) -> str:
    return (version or "").strip('"')


def _write(store: ObjectStore, row: Row) -> Any:
    version = Version(row.condition)
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


def parsed_reply(answer: bytes) -> HttpReply:
    """The head and the body of an answer."""
    response = http.client.HTTPResponse(_Socket(answer))  # type: ignore[arg-type]
    response.begin()
    body = response.read()
    return HttpReply(
        status=response.status, headers={name.lower(): value for name, value in response.getheaders()}, body=body
    )
