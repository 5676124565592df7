"""Requests and answers go to bytes and back: what one side of a cloud writes, the other side reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lockref.clouds.answers import Question
from lockref.clouds.calls import COPY, MEDIA, Call, Place
from lockref.clouds.traffic import Exchange
from lockref.clouds.uri import CLOUDS
from lockref.words import Op
from scenarios.wire.reading.conversation import Conversation
from scenarios.wire.reading.dialect import dialect_of
from tests.clouds.round_trips import (
    BODIES,
    CONDITIONS,
    KEYS,
    QUESTIONS,
    REPLIES,
    Trip,
    refuses_as_simulated,
    takes_any_reply,
)


def _place(prefix: str, root: str = "") -> Place:
    return Place(origin="http://127.0.0.1:9", container="bucket", prefix=prefix, root=root)


TRIPS: Final = {
    "s3": Trip("s3", _place("p/"), '"5eb63bbb"', "5eb63bbb"),
    "gs": Trip("gs", _place(""), "1700000000000001", "1700000000000001.*"),
    "az": Trip("az", _place("p p/", "/account"), '"0x8D"', "0x8D"),
}
SCHEMES: Final = tuple(TRIPS)


def test_each_cloud_that_the_wire_reads_is_here() -> None:
    """A cloud that is added to `CLOUDS` is tried by the same rules."""
    assert set(SCHEMES) == {next(iter(cloud.forms)) for cloud in CLOUDS.values() if cloud.traffic is not None}


@pytest.mark.parametrize("scheme", SCHEMES)
@given(key=KEYS, body=BODIES, condition=CONDITIONS)
@example(key="k", body=b"--lockref-probe-part\r\nContent-Type: x\r\n\r\nnot this", condition="version")
def test_a_write_is_read_as_it_was_written(scheme: str, key: str, body: bytes, condition: str) -> None:
    """Key, condition and content survive, in every way to write that is one request."""
    for mode in ("", MEDIA) if scheme == "gs" else ("",):
        TRIPS[scheme].keeps_a_write(key, body, condition, mode=mode)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(key=KEYS, condition=CONDITIONS)
def test_reads_and_deletes_are_read_as_they_were_written(scheme: str, key: str, condition: str) -> None:
    TRIPS[scheme].keeps_a_read_and_a_delete(key, condition)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(source=KEYS, key=KEYS)
def test_a_copy_names_the_object_that_it_makes(scheme: str, source: str, key: str) -> None:
    """Its content stands in no request. GCS's copies are told as changes that are not followed."""
    if scheme == "gs" and ("/rewriteTo/" in source or "/copyTo/" in source):
        return
    found = TRIPS[scheme].read_back(Call(verb=COPY, key=key, source=source))
    place = f"bucket/{TRIPS[scheme].place.prefix}{key}"
    assert (found.key or "".join(found.unfollowed), found.state) == (place, None)


@pytest.mark.parametrize(
    ("scheme", "method", "target", "headers", "why"),
    [
        ("s3", "PUT", "/bucket/k", b'If-Match: "a", "b"', "one of several versions"),
        ("s3", "PUT", "/bucket/k", b'If-None-Match: "a"', "any other version"),
        ("s3", "DELETE", "/bucket/k", b"If-Unmodified-Since: Wed, 21 Oct 2015 07:28:00 GMT", "a date"),
        ("az", "PUT", "/account/bucket/k", b'x-ms-blob-type: BlockBlob\r\nIf-None-Match: "a"', "any other version"),
        ("gs", "DELETE", "/storage/v1/b/bucket/o/k?ifGenerationNotMatch=7", b"", "any other version"),
        ("s3", "PUT", "/bucket/%ff", b"", "no UTF-8"),
    ],
)
def test_what_has_no_word_in_a_history_is_unreadable(
    scheme: str, method: str, target: str, headers: bytes, why: str
) -> None:
    """Such a condition was left out, and a guarded write was a blind one. The object counts as changed unseen."""
    talk = Conversation()
    more = headers + b"\r\n" if headers else b""
    talk.from_client(f"{method} {target} HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n".encode() + more + b"\r\n", 1)
    assert talk.current is not None, talk.unreadable
    found = dialect_of(scheme, "bucket").request(talk.current)
    assert (why in found.unreadable, found.op, found.state, bool(found.unfollowed)) == (True, Op.NONE, None, True)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_foreign_request_is_read_or_unreadable_and_raises_nothing(scheme: str) -> None:
    """An XML encoding that nobody knows ended the reader."""
    TRIPS[scheme].takes_any_request(4000)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: each.kind.name)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_answer_of_the_table_survives_writing_and_reading(scheme: str, question: Question) -> None:
    TRIPS[scheme].keeps_each_answer(question)


@pytest.mark.parametrize("scheme", [*SCHEMES, "dynamodb"])
@given(status=st.sampled_from((200, 204, 304, 400, 404, 409, 412, 503)), body=REPLIES)
@example(status=200, body=b'{"Item": {"lockref_body": {"B": "no base64!"}}}')
@example(status=200, body=b'{"Item": []}')
@example(status=400, body=b'{"__type": "x#TransactionCanceledException", "CancellationReasons": [null]}')
@example(status=200, body=b'{"items": [{"generation": 7}]}')
@example(status=200, body=b'{"versioning": true}')
def test_any_reply_to_a_call_of_ours_is_read(scheme: str, status: int, body: bytes) -> None:
    """Items and listings of another form ended the readers of DynamoDB and GCS with errors of Python."""
    takes_any_reply(scheme, _place(""), status, body)


@given(reason=st.text(max_size=60))
@example(reason="Exception")
@example(reason="AbcException: d")
@example(reason="RequestLimitExceeded: d")
@example(reason="*")
@pytest.mark.parametrize("scheme", [*SCHEMES, "dynamodb"])
def test_a_refusal_keeps_its_code_whatever_its_reason_says(scheme: str, reason: str) -> None:
    """A reason with `<` made XML that no parser takes. A reason that looked like a code of DynamoDB became the code."""
    refuses_as_simulated(scheme, reason)


def test_an_exchange_is_what_is_read() -> None:
    """The reader needs no connection: the facts of one request are enough."""
    exchange = Exchange(method="GET", path="/bucket/k", parameters={}, headers={}, asked_ns=1)
    assert dialect_of("s3", "bucket").request(exchange).key == "bucket/k"


@pytest.mark.parametrize(
    ("scheme", "told"),
    [
        ("s3", "x-amz-copy-source-if-match"),
        ("az", "x-ms-source-if-match"),
        ("gs", "ifSourceGenerationMatch=17"),
    ],
)
def test_a_copy_names_the_version_of_its_source(scheme: str, told: str) -> None:
    """C14: without it, a copy of another version than the one that was seen would be accepted."""
    requests, _ = CLOUDS[scheme].protocol or pytest.fail("a cloud is asked by HTTP")
    copy = Call(verb=COPY, key="key", source="from", source_match="17", match="3")
    with_it = requests.write_request(TRIPS[scheme].place, copy)
    without = requests.write_request(TRIPS[scheme].place, replace(copy, source_match=None))
    said = {f"{name}: {value}" for name, value in with_it.headers.items()} | {with_it.target}
    unsaid = {f"{name}: {value}" for name, value in without.headers.items()} | {without.target}
    (new,) = said - unsaid
    assert new.startswith(f"{told}: 17") or told in new
