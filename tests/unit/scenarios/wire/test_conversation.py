"""HTTP read from a copy of the bytes: where messages end, and what is kept of them."""

from __future__ import annotations

import pytest

from lockref.clouds.traffic import BODY_KEPT_MAX
from scenarios.injection.http_messages import HEAD_BYTES_MAX
from scenarios.wire.reading.conversation import Conversation

SECRET = "c4n4ry"
PUT = (
    b"PUT /bucket/locks/a%20b?X-Amz-Signature=c4n4ry&partNumber=1&sig=c4n4ry HTTP/1.1\r\nHost: 127.0.0.1:1\r\n"
    b"Authorization: AWS4-HMAC-SHA256 Credential=c4n4ry\r\nx-amz-security-token: c4n4ry\r\nCookie: c4n4ry\r\n"
    b'If-Match: "e1"\r\nContent-Length: 4\r\n\r\n'
)
DONE = b'HTTP/1.1 200 OK\r\nETag: "e2"\r\nSet-Cookie: c4n4ry\r\nContent-Length: 2\r\n\r\nok'


def test_a_request_and_its_answer_are_read_however_they_are_cut():
    """How bytes are cut into pieces means nothing."""
    talk = Conversation()
    for byte in PUT + b"body":
        talk.from_client(bytes([byte]), 5)
    exchange = talk.current
    assert exchange is not None
    assert exchange.is_complete
    assert (exchange.method, exchange.path, exchange.body.kept) == ("PUT", "/bucket/locks/a b", b"body")
    for byte in DONE:
        talk.from_server(bytes([byte]), 9)
    assert (exchange.status, exchange.answer.kept, exchange.answered_ns) == (200, b"ok", 9)
    assert exchange.answer_headers["etag"] == '"e2"'


def test_nothing_secret_leaves_the_reader():
    """Signatures, tokens, cookies and presigned parameters are dropped where they are read."""
    talk = Conversation()
    talk.from_client(PUT + b"body", 1)
    talk.from_server(DONE, 2)
    assert talk.current is not None
    assert SECRET not in repr(talk.current)
    assert talk.current.headers == {"if-match": '"e1"'}
    assert talk.current.parameters == {"partNumber": "1"}


@pytest.mark.parametrize("name", ["uploadId", "upload_id", "versionId", "versionid", "snapshot"])
def test_what_names_an_upload_or_a_version_is_no_more_than_named(name):
    """Who knows the name of an upload may go on with it: that it was there is known, and not what it is."""
    talk = Conversation()
    talk.from_client(b"PUT /b/k?%s=c4n4ry&partNumber=1 HTTP/1.1\r\nHost: h\r\n\r\n" % name.encode(), 1)
    assert talk.current is not None
    assert talk.current.parameters == {name: "", "partNumber": "1"}


def test_requests_on_one_connection_follow_each_other():
    """A kept connection carries one exchange after the other; `100 Continue` is no answer."""
    talk = Conversation()
    talk.from_client(PUT, 1)
    talk.from_server(b"HTTP/1.1 100 Continue\r\n\r\n", 2)
    first = talk.current
    assert first is not None
    assert not first.is_complete
    assert first.length == 4
    talk.from_client(b"body", 3)
    talk.from_server(DONE, 4)
    talk.from_client(b"HEAD /bucket/key HTTP/1.1\r\nHost: h\r\n\r\n", 5)
    second = talk.current
    assert second is not None
    assert second is not first
    assert second.is_complete
    talk.from_server(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n", 6)
    assert second.answered_ns == 6, "the answer to HEAD has no body, whatever its length says"
    assert talk.unreadable == ""


@pytest.mark.parametrize("end", [b"0\r\n\r\n", b"0\r\nx-trailer: 1\r\n\r\n"])
def test_a_chunked_answer_is_read_to_its_end(end):
    """An answer without a length ends with its last chunk."""
    talk = Conversation()
    talk.from_client(b"GET /b/k HTTP/1.1\r\nHost: h\r\n\r\n", 1)
    talk.from_server(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", 2)
    assert talk.current is not None
    assert talk.current.answered_ns is None
    talk.from_server(end, 3)
    assert talk.current.answered_ns == 3
    assert talk.current.answer.kept == b"abc"


def test_an_answer_without_a_length_ends_with_its_connection():
    """HTTP/1.0 servers close to end an answer."""
    talk = Conversation()
    talk.from_client(b"GET /b/k HTTP/1.1\r\nHost: h\r\n\r\n", 1)
    talk.from_server(b"HTTP/1.0 200 OK\r\n\r\nabc", 2)
    talk.server_closed(7)
    assert talk.current is not None
    assert talk.current.answered_ns == 7


def test_a_client_that_hangs_up_after_the_status_has_its_answer():
    """`curl --fail` reads no further than that; what the server did is known all the same."""
    talk = Conversation()
    talk.from_client(b"PUT /b/k HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", 1)
    talk.from_server(b"HTTP/1.1 412 Precondition Failed\r\nContent-Length: 90\r\n\r\n<Err", 2)
    talk.closed(3)
    assert talk.current is not None
    assert (talk.current.status, talk.current.answered_ns, talk.unreadable) == (412, 3, "")
    assert not talk.current.answer.is_whole
    assert talk.current.is_unfinished


@pytest.mark.parametrize("told", ["Content-Length: 90", "Transfer-Encoding: chunked", "Connection: close"])
def test_an_answer_whose_client_hangs_up_first_is_unfinished(told):
    """A server that sends bytes for ever has not said that it is done, however the end was to be told."""
    talk = Conversation()
    talk.from_client(b"PUT /b/k HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", 1)
    talk.from_server(b"HTTP/1.1 200 OK\r\n%b\r\n\r\n5\r\nhello\r\n" % told.encode(), 2)
    talk.closed(3)
    assert talk.current is not None
    assert (talk.current.answered_ns, talk.current.is_unfinished) == (3, True)


def test_a_target_may_name_its_host():
    """A client that speaks as to a proxy writes the whole address; the path is the same."""
    talk = Conversation()
    talk.from_client(b"GET http://other:81/b/k%20x?acl HTTP/1.1\r\nHost: h:80\r\n\r\n", 1)
    assert talk.current is not None
    assert (talk.current.host, talk.current.path, talk.current.parameters) == ("other", "/b/k x", {"acl": ""})
    plain = Conversation()
    plain.from_client(b"GET /b/k HTTP/1.1\r\nHost: H:80\r\n\r\n", 1)
    assert plain.current is not None
    assert (plain.current.host, plain.current.path) == ("h", "/b/k")


def test_of_a_large_body_the_digest_stays():
    """A body is not kept without bound; two of them can still be told apart."""
    digests = []
    for fill in (b"a", b"b"):
        talk = Conversation()
        size = BODY_KEPT_MAX + 1
        talk.from_client(b"PUT /b/k HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % size, 1)
        talk.from_client(fill * size, 2)
        assert talk.current is not None
        assert talk.current.is_complete
        assert not talk.current.body.is_whole
        assert len(talk.current.body.kept) <= BODY_KEPT_MAX
        digests.append(talk.current.body.digest)
    assert digests[0] != digests[1]
    talk = Conversation()
    talk.from_client(b"PUT /b/k HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % BODY_KEPT_MAX + b"a" * BODY_KEPT_MAX, 1)
    assert talk.current is not None
    assert (talk.current.body.is_whole, len(talk.current.body.kept)) == (True, BODY_KEPT_MAX)


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_that_has_no_body_has_none_whatever_its_length_says(status):
    """RFC 9112, 6.3: the next answer follows at once."""
    talk = Conversation()
    for path in (b"one", b"two"):
        talk.from_client(b"GET /b/%s HTTP/1.1\r\nHost: h\r\n\r\n" % path, 1)
        talk.from_server(b"HTTP/1.1 %d X\r\nContent-Length: 5\r\n\r\n" % status, 2)
        assert talk.current is not None
        assert (talk.current.path, talk.current.answered_ns) == (f"/b/{path.decode()}", 2)
    assert talk.unreadable == ""


def test_a_head_without_an_end_is_not_kept_without_bound():
    """Such a connection is told of, and not read any further."""
    talk = Conversation()
    talk.from_client(b"GET /b/k HTTP/1.1\r\nx: " + b"y" * HEAD_BYTES_MAX, 1)
    assert "the head of a message has no end" in talk.unreadable


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_chunks_and_what_follows_them_are_told_apart_however_they_are_cut(size):
    """The framing of chunks is no body, and a request that came too early is read after the answer before it."""
    talk = Conversation()
    asked = b"PUT /b/k HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n2;x=y\r\ndy\r\n0\r\nt: 1\r\n\r\n"
    both = asked + b"GET /b/next HTTP/1.1\r\nHost: h\r\n\r\n"
    for begin in range(0, len(both), size):
        talk.from_client(both[begin : begin + size], 1)
    first = talk.current
    assert first is not None
    assert (first.path, first.body.kept, first.is_complete) == ("/b/k", b"body", True)
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
    for begin in range(0, len(answer), size):
        talk.from_server(answer[begin : begin + size], 2)
    assert (first.status, first.answer.kept, first.answered_ns) == (200, b"ok", 2)
    assert talk.current is not None
    assert (talk.current.path, talk.current.is_complete) == ("/b/next", True)
    assert talk.unreadable == ""


@pytest.mark.parametrize(
    "request_head",
    [b"Content-Length: 2\r\nContent-Length: 3", b"Content-Length: -1", b"Content-Length: 0x2", b"no field at all"],
)
def test_a_head_that_two_could_read_differently_is_not_followed(request_head):
    """Where a body ends must not be a guess."""
    talk = Conversation()
    talk.from_client(b"PUT /b/k HTTP/1.1\r\n" + request_head + b"\r\n\r\n", 1)
    assert "no HTTP" in talk.unreadable


def test_what_is_no_http_is_told_and_left_alone():
    """A connection that speaks something else is not read, and says so."""
    talk = Conversation()
    talk.from_client(b"\x16\x03\x01\x02\x00\x01\x00\x01", 1)
    assert "no HTTP" in talk.unreadable
    talk.from_client(PUT, 2)
    assert talk.current is None
