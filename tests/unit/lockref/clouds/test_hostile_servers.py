"""Servers that mean no good, asked by the probe and by the client of a lock, in the words of each cloud.

Whatever they say, a request ends by its deadline with an outcome, nothing is raised, no secret that a request carried
is repeated, and no other place is asked.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest
import requests

from lockref.clouds import bounded_exchange, http_session
from lockref.clouds.calls import DELETE, LIST, PUT, READ, Answer, Call
from lockref.clouds.dynamodb.client import DynamoChannel
from lockref.dynamodb.table import GET
from lockref.errors import BackendUnavailable, ConfigError
from lockref.ports import Request
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.stores.port import ObjectStore, ReadReply, Version, WriteReply
from lockref.words import Outcome
from scenarios.probe.exchange import WireStore
from scenarios.probe.opening import addresses_of, open_endpoint
from tests.unit.lockref.clouds.test_stalled_bodies import ACCOUNT_IN, Server, at_once, serving, store_at

TIMEOUT_NS = 300 * NS_PER_MS
LATE_NS = 20 * NS_PER_S
"""Far beyond the time-out, on the slowest machine: whoever waits for such a server for ever is found."""

KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The published key of the emulators of Azure."""
SECRETS = ("hunter2", "not-for-your-eyes", KEY[:20], "SharedKey ", "AWS4-HMAC", "Signature=")

Says = Callable[[bytes, threading.Event], Iterator[bytes]]
"""What is sent, given the request. An iterator without an end is ended by the event."""


def once(data: bytes) -> Says:
    return lambda _asked, _over: iter([data])


def sized(body: bytes, *fields: bytes, status: bytes = b"200 OK") -> bytes:
    lines = [b"HTTP/1.1 " + status, b'ETag: "e"', *fields, b"Content-Length: %d" % len(body)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def for_ever(first: bytes, piece: bytes, *, pause_s: float = 0.0) -> Says:
    def say(_asked: bytes, over: threading.Event) -> Iterator[bytes]:
        yield first
        while not over.wait(pause_s) if pause_s else not over.is_set():
            yield piece

    return say


def mute(_asked: bytes, over: threading.Event) -> Iterator[bytes]:
    over.wait()
    yield b""


def echo(form: str) -> Says:
    """The request's own head, where a server may put words: it holds the signature and the session's token."""

    def say(asked: bytes, _over: threading.Event) -> Iterator[bytes]:
        head = asked.replace(b"<", b"")[:2000]
        flat = re.sub(rb"[\r\n]+", b" ", head)
        if form == "code":
            yield sized(b"<Error><Code>%b</Code></Error>" % flat, b"Content-Type: application/xml", status=b"403 No")
        elif form == "message":
            yield sized(
                b"<Error><Code>AccessDenied</Code><Message>%b</Message></Error>" % head,
                b"Content-Type: application/xml", status=b"403 No",
            )  # fmt: skip
        elif form == "json":
            error = {"code": 401, "message": head.decode("latin1"), "errors": [{"reason": flat.decode("latin1")}]}
            body = json.dumps({"error": error}).encode()
            yield sized(body, b"Content-Type: application/json", status=b"401 No")
        elif form == "phrase":
            yield sized(b"", status=b"400 " + flat[:600])
        else:
            yield sized(b"", b"x-ms-error-code: " + flat[:600], b"Server: " + flat[:600], status=b"409 No")

    return say


BOMB = gzip.compress(bytes(20_000_000))
ENTITIES = b"".join(b'<!ENTITY e%d "%b">' % (n, b"&e%d;" % (n - 1) * 10) for n in range(1, 12))
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

NO_ANSWERS: dict[str, Says] = {
    "a chunk of -5": once(CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n"),
    "a chunk of 10k digits": once(CHUNKED + b"9" * 10_000 + b"\r\nhello\r\n0\r\n\r\n"),
    "a chunk of -1": once(CHUNKED + b"-1\r\nhello\r\n0\r\n\r\n"),
    "a chunk of 2^60": once(CHUNKED + b"1" + b"0" * 15 + b"\r\nhello\r\n0\r\n\r\n"),
    "a length of 2^60": once(sized(b"hello").replace(b"Length: 5", b"Length: %d" % 2**60)),
    "a length of 10k digits": once(b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 10_000 + b"\r\n\r\nhello"),
    "a length of -5": once(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello"),
    "a body that is cut off": once(sized(b"hello").replace(b"Length: 5", b"Length: 500")),
    "headers for ever": for_ever(b"HTTP/1.1 200 OK\r\n", b"X-A: " + b"y" * 1000 + b"\r\n"),
    "a header for ever": for_ever(b"HTTP/1.1 200 OK\r\nX: ", b"y" * 1000),
    "a body for ever": for_ever(b'HTTP/1.1 200 OK\r\nETag: "e"\r\nConnection: close\r\n\r\n', b"y" * 65536),
    "chunks for ever": for_ever(CHUNKED, b"1000\r\n" + b"y" * 4096 + b"\r\n"),
    "a chunk's extension for ever": for_ever(CHUNKED + b"5;", b"y" * 4096),
    "trailers for ever": for_ever(CHUNKED + b"0\r\n", b"X: y\r\n", pause_s=0.001),
    "100 Continue for ever": for_ever(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 50, pause_s=0.001),
    "a drip": for_ever(sized(bytes(1000))[:-1000], b"y", pause_s=0.02),
    "nothing at all": mute,
    "a closed connection": once(b""),
    "HTTP/0.9": once(b"hello there\n"),
    "bytes of chance": once(bytes(range(128, 256)) * 4),
    "a status of words": once(b"HTTP/1.1 20O OK\r\n\r\n"),
}
"""Whatever is asked, nobody knows what became of it."""

ODD_ANSWERS: dict[str, Says] = {
    "status 999": once(b"HTTP/1.1 999 X\r\nContent-Length: 0\r\n\r\n"),
    "another protocol": once(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n"),
    "a bomb of gzip": once(sized(BOMB, b"Content-Encoding: gzip", b"x-goog-generation: 7")),
    "what is no gzip": once(sized(b"hello", b"Content-Encoding: gzip", b"x-goog-generation: 7")),
    "a bomb of XML": once(
        sized(b'<!DOCTYPE l [<!ENTITY e0 "aaaaaaaaaa">%b]><E><Code>&e11;</Code></E>' % ENTITIES, b"x: y")
    ),
    "deep XML": once(sized(b"<a>" * 100_000, b"Content-Type: application/xml")),
    "deep JSON": once(sized(b"[" * 100_000, b"Content-Type: application/json")),
    "a page": once(sized(b"<html><body>Sign in</body></html>", b"Content-Type: text/html")),
    "a page of JSON": once(sized(b"[]", b"Content-Type: application/json")),
    "null": once(sized(b"null", b"Content-Type: application/json")),
    "a generation of 5k digits": once(
        sized(b'{"generation":"%b","metageneration":1e999}' % (b"9" * 5000), b"x-goog-generation: " + b"9" * 5000)
    ),
    "busy until next year": once(b"HTTP/1.1 503 B\r\nRetry-After: 31536000\r\nContent-Length: 0\r\n\r\n"),
    "dates of no calendar": once(sized(b"", b"Date: Thu, 99 Foo 99999 99:99:99", b"Last-Modified: never")),
    **{f"an echo as {form}": echo(form) for form in ("code", "message", "json", "phrase", "field")},
}

SLOW = ("trailers for ever", "100 Continue for ever", "a drip", "nothing at all")
"""They end at the deadline. A lock's client is asked about the like in test_store_stalled_bodies."""


@dataclass
class Cloud:
    """A server that says what is set here to each request, and then hangs up; and the client of a lock for it.

    Making a client takes longer than all that is asked here.
    """

    scheme: str
    server: Server
    lock: ObjectStore
    says: Says

    def asked_by_the_probe(self, verbs: Sequence[str]) -> list[Answer]:
        """Each request over a connection of its own."""
        uri = f"{self.scheme}://bucket/p?endpoint=http://127.0.0.1:{self.server.port}{ACCOUNT_IN[self.scheme]}"
        store = open_endpoint(addresses_of(uri)[0])
        assert isinstance(store, WireStore)
        store.timeout_ns = TIMEOUT_NS
        store.keeps_connections = False
        calls = [Call(verb=verb, key="k", body=b"x" if verb == PUT else b"") for verb in verbs]
        began_ns = time.monotonic_ns()
        answers = [store.send(call) for call in calls]
        assert time.monotonic_ns() - began_ns < LATE_NS
        return answers

    def asked_by_a_lock(self) -> list[ReadReply | WriteReply]:
        store = self.lock
        began_ns = time.monotonic_ns()
        replies = [store.read("k"), store.put_if_absent("k", b"x"), store.put_if_version("k", b"x", Version("7"))]
        assert time.monotonic_ns() - began_ns < 3 * LATE_NS
        return replies


@pytest.fixture(scope="module", params=ACCOUNT_IN)
def cloud(request: pytest.FixtureRequest) -> Iterator[Cloud]:
    here: list[Cloud] = []

    def answer(connection: socket.socket, over: threading.Event) -> None:
        for data in here[0].says(here[0].server.head, over):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_RDWR)

    with pytest.MonkeyPatch.context() as environment:
        # What a client reads at most would take seconds to send.
        environment.setattr(bounded_exchange, "REPLY_BYTES_MAX", 8 * 1024 * 1024)
        environment.setenv("AWS_ACCESS_KEY_ID", "AKID")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
        environment.setenv("AWS_SESSION_TOKEN", "not-for-your-eyes-at-all")
        environment.setenv("AZURE_STORAGE_ACCOUNT", "devstoreaccount1")
        environment.setenv("AZURE_STORAGE_KEY", KEY)
        environment.delenv("AZURE_STORAGE_CONNECTION_STRING", raising=False)
        with serving(answer) as server, store_at(request.param, server, timeout_ms=LATE_NS // NS_PER_MS) as lock:
            here.append(Cloud(request.param, server, lock, mute))
            yield here[0]


def assert_no_secret(told: object) -> None:
    assert not [secret for secret in SECRETS if secret in repr(told)]


@pytest.mark.parametrize(
    "what",
    [
        pytest.param(what, marks=[pytest.mark.long] if what in SLOW or what.endswith(" ever") else [])
        for what in NO_ANSWERS
    ],
)
def test_what_is_no_answer_leaves_open_what_became_of_a_request(cloud: Cloud, what: str) -> None:
    """For the probe as for a lock: the request may have taken effect. S3's client raised over lengths that are none."""
    cloud.says = NO_ANSWERS[what]
    answers = cloud.asked_by_the_probe((READ,) if what in SLOW else (READ, LIST, PUT, DELETE))
    assert {answer.outcome for answer in answers} == {Outcome.AMBIGUOUS}
    if what not in SLOW:
        assert {reply.outcome for reply in cloud.asked_by_a_lock()} == {Outcome.AMBIGUOUS}


@pytest.mark.parametrize("what", ODD_ANSWERS)
def test_an_odd_answer_raises_nothing_and_no_secret_comes_back(cloud: Cloud, what: str) -> None:
    """Whatever it counts as. It is no listing of a bucket, and what it repeats of a request is told nowhere."""
    cloud.says = ODD_ANSWERS[what]
    answers = cloud.asked_by_the_probe((READ, LIST, PUT, DELETE))
    assert answers[1].outcome is not Outcome.APPLIED
    assert_no_secret([(answer.outcome, answer.reason, answer.server, answer.date) for answer in answers])
    assert_no_secret([(reply.outcome, reply.reason, reply.version) for reply in cloud.asked_by_a_lock()])


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_other_place_is_asked(cloud: Cloud, status: int) -> None:
    """A redirect that were followed would be a second request, and would carry the first one's secrets there."""
    before = cloud.server.requests
    with serving(at_once(sized(b""))) as other:
        away = b"Location: http://127.0.0.1:%d/there" % other.port
        cloud.says = once(sized(b"", away, status=b"%d Elsewhere" % status))
        replies = [*cloud.asked_by_the_probe((READ, LIST, PUT, DELETE)), *cloud.asked_by_a_lock()]
        # A client may send over a connection that the server has just closed: such a request is not counted here.
        assert other.connections == 0
        assert cloud.server.requests - before <= 4 + 3
    assert Outcome.APPLIED not in {reply.outcome for reply in replies}


def test_a_field_that_a_server_may_choose_is_told(cloud: Cloud) -> None:
    """Only one that repeats a secret is not."""
    cloud.says = once(sized(b"", b"Server: MinIO", b"Date: Thu, 26 Nov 2026 04:00:00 GMT", status=b"403 No"))
    [answer] = cloud.asked_by_the_probe((READ,))
    assert (answer.status, answer.server, answer.date) == (403, "MinIO", "Thu, 26 Nov 2026 04:00:00 GMT")


def test_a_few_bytes_of_gzip_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is read as a whole is unpacked by requests: 20 KB were 20 MB, and each 10 MB of answer 10 GB."""
    monkeypatch.setattr(http_session, "DECODED_BYTES_MAX", 10_000)
    at = "http://127.0.0.1:%d/"
    with requests.Session() as session:
        http_session.bound_connections(session, pool_size=1)
        with serving(at_once(sized(gzip.compress(bytes(10_000)), b"Content-Encoding: gzip"))) as server:
            assert session.get(at % server.port, timeout=20).content == bytes(10_000)
        with (
            serving(at_once(sized(BOMB, b"Content-Encoding: gzip"))) as server,
            pytest.raises(requests.exceptions.ContentDecodingError, match="grows"),
        ):
            session.get(at % server.port, timeout=20)


TABLE_ANSWERS = [
    b"", b"null", b"[]", b'"x"', b"{", b'{"Item": 5}', b'{"Item": "x"}', b'{"Item": {"k": 5}}', b'{"Item": {"k": {}}}',
    b'{"Item": {"k": {"L": 7}}}', b'{"Item": {"k": {"M": {"a": {}}}}}', b"[" * 100_000,
    b'{"Table": {}}', b'{"Table": {"KeySchema": 5}}', b'{"Table": {"KeySchema": [{}], "AttributeDefinitions": []}}',
    b'{"Table": {"CreationDateTime": "never", "KeySchema": [], "AttributeDefinitions": []}}',
]  # fmt: skip


@pytest.fixture(scope="module")
def table() -> Iterator[tuple[DynamoChannel, list[bytes]]]:
    """A table whose service says the one body of the list to each request."""
    bodies = [b""]

    def answer(connection: socket.socket, _over: threading.Event) -> None:
        connection.sendall(sized(bodies[0], b"Content-Type: application/x-amz-json-1.0"))

    with serving(answer) as server:
        endpoint = f"http://127.0.0.1:{server.port}"
        channel = DynamoChannel("mine", endpoint=endpoint, region="us-east-1", request_timeout_ns=LATE_NS)
        with contextlib.closing(channel):
            yield channel, bodies


class _OurMistake:
    """A client that fails before it sends anything."""

    def get_item(self, **_arguments: object) -> None:
        raise TypeError("ours")


def test_a_mistake_before_anything_came_is_no_answer_of_a_table() -> None:
    """It was read as a request that may have taken effect."""
    channel = DynamoChannel("mine", request_timeout_ns=TIMEOUT_NS, made=_OurMistake())
    with pytest.raises(TypeError, match="ours"):
        channel.send(Request("n", "table", GET, "k"), TIMEOUT_NS)


@pytest.mark.parametrize("body", TABLE_ANSWERS, ids=lambda body: body[:40].decode())
def test_an_odd_answer_of_a_table_is_one_that_was_lost(table: tuple[DynamoChannel, list[bytes]], body: bytes) -> None:
    """An item that is none ended the call of the lock with an error of Python's. What has no item is an absent one."""
    channel, bodies = table
    bodies[0] = body
    reply = channel.send(Request("n1", "table", GET, "key"), LATE_NS)
    has_item = b"Item" in body
    assert reply.outcome is Outcome.AMBIGUOUS or (reply.body is None and not has_item)
    with pytest.raises((BackendUnavailable, ConfigError)):
        channel.require_table()
