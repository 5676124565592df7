"""Where a reply to the probe ends: a reply whose end nobody knows is no answer, whatever it begins with."""

from __future__ import annotations

import http.client
import socket
import threading

import pytest

from lockref.clouds.bounded_exchange import BoundedSocket
from scenarios.probe.exchange import BODY_BYTES_MAX, _read_reply

HEAD = b'HTTP/1.1 200 OK\r\nETag: "a"\r\n'


def read(raw: bytes) -> tuple[bytes, bool]:
    """What is read of a server that says this and hangs up: the body, and whether the connection may be kept."""
    ours, theirs = socket.socketpair()
    ours.settimeout(10)

    def say() -> None:
        with theirs:
            # The reader may hang up first, where it has read enough.
            try:
                theirs.sendall(raw)
            except OSError:
                return

    server = threading.Thread(target=say)
    server.start()
    try:
        reply, is_reusable = _read_reply(BoundedSocket(ours), "GET")
    finally:
        ours.close()
        server.join()
    return reply.body, is_reusable


def test_a_reply_of_known_length_is_read() -> None:
    assert read(HEAD + b"Content-Length: 3\r\n\r\nabc") == (b"abc", True)
    assert read(HEAD + b"Content-Length:  3 \r\n\r\nabc") == (b"abc", True)
    assert read(HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n") == (b"abc", True)


def test_a_reply_without_a_length_ends_with_its_connection() -> None:
    assert read(HEAD + b"\r\nabc") == (b"abc", False)


@pytest.mark.parametrize("length", [b"-5", b"+3", b"0x3", b"3, 3", b"", b"9" * 10_000, "٣".encode()])
def test_a_length_that_is_no_number_is_no_answer(length: bytes) -> None:
    """The body would be read until the connection ends, and an object that was cut off would count as read."""
    with pytest.raises(http.client.HTTPException):
        read(HEAD + b"Content-Length: " + length + b"\r\n\r\nabc")


def test_a_body_that_is_cut_off_is_no_answer() -> None:
    with pytest.raises(http.client.IncompleteRead):
        read(HEAD + b"Content-Length: 5\r\n\r\nabc")


@pytest.mark.parametrize("head", [b"\r\n", b"Content-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1)])
def test_a_body_longer_than_any_answer_is_no_answer(head: bytes) -> None:
    """Its first 4 MiB were taken for the whole object."""
    with pytest.raises(http.client.IncompleteRead):
        read(HEAD + head + bytes(BODY_BYTES_MAX + 1))
    body, _ = read(HEAD + b"\r\n" + bytes(BODY_BYTES_MAX))
    assert len(body) == BODY_BYTES_MAX
