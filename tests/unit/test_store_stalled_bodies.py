"""A server that sends the head of a response and then nothing: the answer is lost, whatever its status said."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from lockref.runtime import NS_PER_MS
from lockref.stores.port import Outcome, Version
from lockref.stores.uri import open_store

HEADS = {
    200: b'HTTP/1.1 200 OK\r\nETag: "abc"\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"a',
    404: b"HTTP/1.1 404 Not Found\r\nContent-Type: application/xml\r\nContent-Length: 100\r\n\r\n<E",
    412: b"HTTP/1.1 412 Precondition Failed\r\nContent-Type: application/xml\r\nContent-Length: 100\r\n\r\n<E",
}


@contextlib.contextmanager
def stalling(head: bytes) -> Iterator[int]:
    """The port of a server that answers every request with `head` and holds the connection until the end."""
    server = socket.create_server(("127.0.0.1", 0))
    open_connections: list[socket.socket] = []

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                open_connections.append(connection)
                connection.recv(65536)
                connection.sendall(head)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(10)
        for connection in open_connections:
            connection.close()


@pytest.mark.parametrize("scheme", ["s3", "gs"])
@pytest.mark.parametrize("status", sorted(HEADS))
def test_a_stalled_body_is_an_answer_lost(scheme: str, status: int) -> None:
    """A1: a read or a write whose response breaks off in the body is ambiguous, never an exception."""
    with stalling(HEADS[status]) as port:
        uri = f"{scheme}://bucket/p?endpoint=http://127.0.0.1:{port}"
        with contextlib.closing(open_store(uri, request_timeout_ns=300 * NS_PER_MS)) as store:
            assert store.read("key").outcome is Outcome.AMBIGUOUS
            if status != 200:
                assert store.put_if_absent("key", b"x").outcome is Outcome.AMBIGUOUS
                assert store.put_if_version("key", b"x", Version("1")).outcome is Outcome.AMBIGUOUS
