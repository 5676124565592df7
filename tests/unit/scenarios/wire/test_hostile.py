"""Requests and answers that break the rules of HTTP: a reader ends with a word about it, and never stands still."""

from __future__ import annotations

import asyncio
import random

import pytest

from lockref.grammar import code_word, decimal, hexadecimal, is_whole_range
from lockref.history import Recorder
from lockref.runtime import ThreadRuntime
from scenarios.injection.http_messages import BadMessage, body_pieces, read_answer, read_request_head
from scenarios.injection.observer import Direction
from scenarios.wire.decoders import load_decoder
from scenarios.wire.reading.conversation import Conversation
from scenarios.wire.reading.dialect import dialect_of
from scenarios.wire.reading.framing import Framing, Messages
from scenarios.wire.recorder import WireRecorder
from scenarios.wire.tap import Tap

CHUNKED = b"PUT /b/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
LENGTHS = [b"-5", b"+5", b"1_0", b" 5", b"0x5", "٥".encode(), b"", b"g", b"9" * 10_000, b"f" * 16, b"5\n"]


@pytest.mark.parametrize("text", ["-5", "+5", "1_0", " 5", "5 ", "٥", "²", "", "0x5", "9" * 5000, "9" * 19, "5\n"])
def test_a_number_of_a_wire_format_is_ascii_digits_alone(text):
    """What `int` would read, or would raise an error over, is no number."""
    assert decimal(text) is None
    assert hexadecimal(text) is None


def test_what_is_a_number_is_read():
    """Of both bases, from text and from bytes."""
    assert (decimal("007"), decimal(b"12"), hexadecimal("fF"), hexadecimal(b"10")) == (7, 12, 255, 16)
    assert is_whole_range("bytes 0-9/10")
    assert not any(is_whole_range(told) for told in ("bytes 0-9/11", "bytes 1-9/10", "bytes 0-+9/10", "bytes */10", ""))


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ("NoSuchKey", "NoSuchKey"),
        (" SlowDown ", "SlowDown"),
        ("404", "404"),
        ("AuthFailure.Signature", "AuthFailure.Signature"),
        ("IQoJb3JpZ2luX2VjEJr+/==", ""),
        ("eyJhbGciOiJIUzI1NiJ9.e30", ""),
        ("<script>", ""),
        ("No\x1b[31mKey", ""),
        ("A" * 61, ""),
    ],
)
def test_a_code_is_printed_only_if_it_has_the_form_of_one(said, word):
    """A server may put a token that a request carried in the place of its code."""
    assert code_word(said) == word


@pytest.mark.parametrize("length", LENGTHS)
def test_a_chunk_without_a_length_ends_the_reading(length):
    """In the copy of the bytes, and in the stream that is read whole."""
    talk = Conversation()
    talk.from_client(CHUNKED + length + b"\r\nhello\r\n0\r\n\r\n", 1)
    assert "no HTTP" in talk.unreadable

    async def whole() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(CHUNKED + length + b"\r\nhello\r\n0\r\n\r\n")
        reader.feed_eof()
        head = await read_request_head(reader)
        assert head is not None
        async for _ in body_pieces(reader, head.length):
            pass

    with pytest.raises(BadMessage):
        asyncio.run(whole())


@pytest.mark.parametrize(
    "field",
    [*(b"Content-Length: " + length for length in LENGTHS if length not in (b" 5", b"5\n")),
     b"Content-Length: 1\r\nContent-Length: 2", b"Content-Length: 1, 2", b"Content-Length : 1", b" folded",
     b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked, gzip", b"no colon"],
)  # fmt: skip
def test_a_head_that_tells_no_end_of_its_body_ends_the_reading(field):
    """Of a request and of an answer alike."""
    talk = Conversation()
    talk.from_client(b"PUT /b/x HTTP/1.1\r\nHost: h\r\n" + field + b"\r\n\r\n", 1)
    assert "no HTTP" in talk.unreadable

    async def answer() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(b"HTTP/1.1 200 OK\r\n" + field + b"\r\n\r\nbody")
        reader.feed_eof()
        await read_answer(reader, b"GET")

    with pytest.raises(BadMessage):
        asyncio.run(answer())


@pytest.mark.parametrize(
    "line", [b"HTTP/1.1 99 X", b"HTTP/1.1 000 X", b"HTTP/1.1 2000", b"HTTP/2 200 OK", b"ICY 200 OK"]
)
def test_an_answer_without_a_status_is_none(line):
    """A status is three digits, and the first is not 0."""
    talk = Conversation()
    talk.from_client(b"GET /b/x HTTP/1.1\r\nHost: h\r\n\r\n", 1)
    talk.from_server(line + b"\r\nContent-Length: 0\r\n\r\n", 2)
    assert "no HTTP" in talk.unreadable


def test_a_chunk_that_is_longer_than_its_length_ends_the_reading():
    """What follows a chunk is the end of its line, and nothing else."""
    talk = Conversation()
    talk.from_client(CHUNKED + b"2\r\nhello\r\n0\r\n\r\n", 1)
    assert "longer than its length" in talk.unreadable


def test_tiny_chunks_take_a_step_for_each_part():
    """However many parts one piece of bytes has, each is taken once."""
    bodies: list[bytes] = []
    messages = Messages(lambda _head: Framing.CHUNKED, bodies.append, lambda: True)
    messages.feed(CHUNKED + b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n")
    assert len(bodies) == 20_000
    assert messages.steps <= 3 * 20_000 + 4


PIECES = [
    CHUNKED,
    b"5\r\nhello\r\n",
    b"0\r\n\r\n",
    b"-5\r\n",
    b"\r\n",
    b"\r\n\r\n",
    b"GET /b/x?uploads HTTP/1.1\r\n",
    b"Host: h\r\n",
    b"Content-Length: 2\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"{}",
    b"\x00\xff",
    b"[" * 3000,
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 304 X\r\n",
    b"HTTP/1.1 206 X\r\n",
    b"Content-Range: bytes 0-1/2\r\n",
    b"Content-Range: bytes -/\r\n",
    b'ETag: "e"\r\n',
    b"x-goog-generation: \xb2\r\n",
    b'{"expires_at": 1e999}',
    b'{"generation": 1e5, "expires_at": "x"}',
    b'{"error": {"errors": [1]}}',
    b"<Error><Code>",
    b"PUT /b/x HTTP/1.1\r\n",
    b"PUT /upload/storage/v1/b/b/o?uploadType=multipart HTTP/1.1\r\n",
    b"Range: bytes=0-1\r\n",
    b"x-amz-date: \xc2\xb22026\r\n",
    b"x-ms-date: Mon, 99 Foo 9999 99:99:99 GMT\r\n",
    b"content-encoding: aws-chunked\r\n",
]


BEGINNINGS = (
    b"",
    b"PUT /b/x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n",
    b"PUT /b/x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello",
    b"GET /b/x HTTP/1.1\r\nHost: h\r\n\r\n",
    b"POST /upload/storage/v1/b/b/o?uploadType=media&name=x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}",
)


@pytest.mark.parametrize(
    "dialect", [dialect_of("s3", "b"), dialect_of("gs", "b"), dialect_of("az", "b")], ids=["s3", "gcs", "azure"]
)
def test_whatever_comes_the_reader_goes_on(dialect):
    """Two thousand connections of shuffled parts of messages: no error, and no part that is taken for ever.

    Four of five begin as a request does, because shuffled parts alone seldom come as far as the end of a head.
    """
    events = Recorder()
    recorder = WireRecorder(
        events, dialect, load_decoder("auto"), protects=("state/*",), runtime=ThreadRuntime(), clock_offsets_ns={}
    )
    tap = Tap("n1", recorder)
    chance = random.Random(7)
    for number in range(2000):
        tap.opened(number, 1)
        tap.forwarded(number, Direction.REQUEST, BEGINNINGS[number % len(BEGINNINGS)], 1)
        tap.forwarded(number, Direction.REPLY, chance.choice((b"", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n")), 1)
        for at_ns in range(2, 8):
            direction = Direction.REQUEST if at_ns % 2 == 0 or chance.random() < 0.5 else Direction.REPLY
            tap.forwarded(number, direction, b"".join(chance.choices(PIECES, k=4)), at_ns)
        tap.closed(number, 9)
    assert recorder.failure is None
    assert tap.unreadable, "some of it is nonsense"
    assert len(events) > 3 * 2000 // len(BEGINNINGS), "some of it is answered, beside the requests that are whole"


@pytest.mark.parametrize(
    "body",
    [b'{"expires_at": 1e999}', b'{"expires_at": NaN}', b'{"expires_at": %s}' % (b"9" * 400), b"[" * 100_000,
     b'{"generation": %s, "expires_at": "2026-01-01T00:00:00Z"}' % (b"9" * 400),
     b'{"metadata": {"lock_owner": "a", "expires_sec": "%s"}, "updated": "2026-01-01T00:00:00Z"}' % (b"9" * 5000)],
)  # fmt: skip
def test_a_number_that_no_history_holds_is_no_time(body):
    """A record is a stranger's, too."""
    for view in load_decoder("auto")("b/x", body):
        assert view.valid_until_ns is None or -(2**63) < view.valid_until_ns < 2**63
        assert view.token is None or -(2**63) < view.token < 2**63
