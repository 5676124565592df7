"""Requests and answers go to bytes and back: what one side of a cloud writes, the other side reads."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lockref.clouds.answers import A_CREATE, A_DELETE, A_READ, A_WRITE, Answered, Asked, Question
from lockref.clouds.azure import answers as azure_answers
from lockref.clouds.azure import facts as azure_facts
from lockref.clouds.calls import ANYTHING, COPY, DELETE, MEDIA, PUT, READ, Call, HttpReply, Place
from lockref.clouds.gcs import answers as gcs_answers
from lockref.clouds.gcs import facts as gcs_facts
from lockref.clouds.s3 import answers as s3_answers
from lockref.clouds.s3 import facts as s3_facts
from lockref.clouds.statuses import ANY_CODE
from lockref.clouds.traffic import Exchange, ObjectRequest, State, content_of
from lockref.clouds.uri import CLOUDS
from lockref.words import IF_ABSENT, Op
from scenarios.wire.reading.conversation import Conversation
from scenarios.wire.reading.dialect import dialect_of
from tests.clouds.readers import _http_reply as parsed_reply

SCHEMES: Final = ("s3", "gs", "az")
PLACES: Final = {
    scheme: Place(origin="http://127.0.0.1:9", container="bucket", prefix=prefix, root="/account" * (scheme == "az"))
    for scheme, prefix in (("s3", "p/"), ("gs", ""), ("az", "p p/"))
}
ODD_KEYS: Final = (
    "a/b", "ä€😀", "100%", "%2F", "a?b=c&d", "a+b c", "#", "a\nb", "..", "a//b", "k.", "compose", "\\", "'\"",
)  # fmt: skip
KEYS = st.one_of(
    st.sampled_from(ODD_KEYS), st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
).filter(lambda key: not key.startswith("/") and "\ufffd" not in key)
BODIES = st.one_of(st.binary(max_size=80), st.sampled_from([b"\r\n--lockref-probe-part--\r\n", b"\r\n\r\n", b"--"]))
CONDITIONS = st.sampled_from(["", "absent", "version"])
VERSION: Final = {"s3": '"5eb63bbb"', "gs": "1700000000000001", "az": '"0x8D"'}
AS_READ: Final = {"s3": "5eb63bbb", "gs": "1700000000000001.*", "az": "0x8D"}


def read_back(scheme: str, call: Call) -> ObjectRequest:
    """What the wire makes of the request that the probe writes."""
    requests, _ = CLOUDS[scheme].protocol or pytest.fail("a cloud is asked by HTTP")
    sent = requests.write_request(PLACES[scheme], call).encoded()
    talk = Conversation()
    talk.from_client(sent, 1)
    assert talk.current is not None, talk.unreadable
    assert talk.current.is_complete
    return dialect_of(scheme, "bucket").request(talk.current)


def conditional(scheme: str, condition: str) -> tuple[dict[str, str], str]:
    """The condition as arguments of a call, and as a history has it."""
    if condition == "absent":
        return {"none_match": ANYTHING}, IF_ABSENT
    return ({"match": VERSION[scheme]}, AS_READ[scheme]) if condition else ({}, "")


@pytest.mark.parametrize("scheme", SCHEMES)
@given(key=KEYS, body=BODIES, condition=CONDITIONS)
@example(key="k", body=b"--lockref-probe-part\r\nContent-Type: x\r\n\r\nnot this", condition="version")
def test_a_write_is_read_as_it_was_written(scheme: str, key: str, body: bytes, condition: str) -> None:
    """Key, condition and content survive, in every way to write that is one request."""
    named, told = conditional(scheme, condition)
    modes = ("", MEDIA) if scheme == "gs" else ("",)
    for mode in modes:
        found = read_back(scheme, Call(verb=PUT, key=key, body=body, mode=mode, **named))
        assert (found.op, found.key, found.condition, found.unreadable) == (
            Op.WRITE, f"bucket/{PLACES[scheme].prefix}{key}", told, ""
        )  # fmt: skip
        assert found.state == State(content_of(body), body)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(key=KEYS, condition=CONDITIONS)
def test_reads_and_deletes_are_read_as_they_were_written(scheme: str, key: str, condition: str) -> None:
    """A read has no condition in a history."""
    named, told = conditional(scheme, condition)
    place = f"bucket/{PLACES[scheme].prefix}{key}"
    read = read_back(scheme, Call(verb=READ, key=key, **named))
    assert (read.op, read.key, read.condition, read.unreadable) == (Op.READ, place, "", "")
    deleted = read_back(scheme, Call(verb=DELETE, key=key, **named))
    assert (deleted.op, deleted.key, deleted.condition, deleted.unreadable) == (Op.DELETE, place, told, "")


@pytest.mark.parametrize("scheme", SCHEMES)
@given(source=KEYS, key=KEYS)
def test_a_copy_names_the_object_that_it_makes(scheme: str, source: str, key: str) -> None:
    """Its content stands in no request. GCS's copies are told as changes that are not followed."""
    if scheme == "gs" and ("/rewriteTo/" in source or "/copyTo/" in source):
        return
    found = read_back(scheme, Call(verb=COPY, key=key, source=source))
    place = f"bucket/{PLACES[scheme].prefix}{key}"
    assert (found.key or found.unfollowed, found.state) == (place, None)


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


PIECES: Final = (
    "/", "bucket", "k", "%2F", "%", "%ff", "?", "&", "=", "+", "uploadId", "uploads", "delete", "comp", "blocklist",
    "/storage/v1/b/bucket/o/", "/upload/storage/v1/b/bucket/o", "uploadType=multipart", "uploadType=resumable", "name=",
    "/compose", "/rewriteTo/b/bucket/o/", "generation=x", "ifMetagenerationMatch=", "versionId", "//", "é",
)  # fmt: skip
BEGINNINGS: Final = (
    "/", "/bucket/k", "/account/bucket/k", "/storage/v1/b/bucket/o/k",
    "/upload/storage/v1/b/bucket/o?uploadType=media&name=k",
)  # fmt: skip
HEADERS: Final = (
    "If-Match: *", 'If-Match: W/"a"', "If-None-Match: *", "Content-Type: multipart/related; boundary=é",
    "Content-Type: multipart/form-data", "x-amz-copy-source: /", "Content-Encoding: aws-chunked", "Range: bytes=0-",
    "x-ms-blob-type: BlockBlob", "Content-Type: multipart/related; boundary=b",
)  # fmt: skip
CONTENTS: Final = (
    b"", b"{", b"[" * 5000, b"[]",
    b'{"name": 7}', b"<a", b'<?xml version="1.0" encoding="foo"?><Delete/>',
    b'<?xml version="1.0" encoding="utf-32"?><Delete/>', b"ffffffffffffffff\r\n",
    b"--b\r\n\r\n{\r\n--b\r\n", b"\xff\xfe",
    b"<Delete><Object><Key>k</Key></Object></Delete>", b'name="key"\r\n\r\n\xff\r\n',
)  # fmt: skip


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_foreign_request_is_read_or_unreadable_and_raises_nothing(scheme: str) -> None:
    """4,000 requests of shuffled parts, and their answers. An XML encoding that nobody knows ended the reader."""
    draw = random.Random(7)
    dialect = dialect_of(scheme, "bucket")
    seen: dict[Op, int] = {}
    for _ in range(4000):
        target = draw.choice(BEGINNINGS) + "".join(draw.choices(PIECES, k=draw.randint(0, 6)))
        head = "\r\n".join(draw.sample(HEADERS, k=draw.randint(0, 3)))
        body = draw.choice(CONTENTS)
        method = draw.choice(("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"))
        lines = f"{method} {target} HTTP/1.1\r\nHost: bucket.h\r\nContent-Length: {len(body)}\r\n{head}"
        talk = Conversation()
        talk.from_client(lines.rstrip("\r\n").encode() + b"\r\n\r\n" + body, 1)
        if talk.current is None:
            assert talk.unreadable
            continue
        found = dialect.request(talk.current)
        seen[found.op] = seen.get(found.op, 0) + 1
        answer = draw.choice(CONTENTS)
        status = draw.choice((200, 204, 404, 412, 503))
        talk.from_server(f"HTTP/1.1 {status} Said\r\nContent-Length: {len(answer)}\r\n\r\n".encode() + answer, 2)
        dialect.reply(talk.current, found)
    assert min(seen.get(op, 0) for op in (Op.NONE, Op.READ, Op.WRITE, Op.DELETE)) > 20, seen


TABLES: Final = {
    "s3": (s3_facts.OUTCOMES, s3_answers),
    "gs": (gcs_facts.OUTCOMES, gcs_answers),
    "az": (azure_facts.OUTCOMES, azure_answers),
}
QUESTIONS: Final = (A_CREATE, A_WRITE, A_DELETE, A_READ)


def meant(scheme: str, question: Question, status: int, code: str, version: str) -> Answered:
    """An answer as its own bytes are read: the first reading, which writing and reading must keep."""
    rows = TABLES[scheme][1]
    seed = Answered(outcome=s3_facts.OUTCOMES[0].outcome, status=status, code=code, version=version)
    return read(scheme, question, rows.write_answer(question, seed, body=b"record"))


def read(scheme: str, question: Question, answer: bytes) -> Answered:
    """The meaning of these bytes."""
    reply: HttpReply = parsed_reply(answer)
    return TABLES[scheme][1].read_answer(question, reply.status, reply.headers, reply.body)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: each.asked.name)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_answer_of_the_table_survives_writing_and_reading(scheme: str, question: Question) -> None:
    """`read(write(a)) == a`: outcome, absence, version, status, code and reason, for every row of the cloud's table."""
    rows, module = TABLES[scheme]
    told = 0
    named = {row.code for row in rows if row.code != ANY_CODE}
    statuses = sorted({row.status for row in rows if row.status >= 100} | {200, 201, 500, 503})
    for status, code in itertools.product(statuses, ("", *sorted(named))):
        version = VERSION[scheme] if status // 100 == 2 and question.asked is not Asked.DELETE else ""
        first = meant(scheme, question, status, "" if status // 100 == 2 else code, version)
        assert read(scheme, question, module.write_answer(question, first, body=b"record")) == first
        assert first.status == status
        assert first.version == version
        told += 1
    assert told >= 40


@given(reason=st.text(max_size=60))
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_refusal_keeps_its_code_whatever_its_reason_says(scheme: str, reason: str) -> None:
    """A reason with `<` made XML that no parser takes."""
    write = CLOUDS[scheme].refusal
    assert write is not None
    for status in (403, 409, 412, 429, 500, 503):
        plain = read(scheme, A_WRITE, write(status, "injected"))
        assert read(scheme, A_WRITE, write(status, reason)) == plain


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
    with_it = requests.write_request(PLACES[scheme], copy)
    without = requests.write_request(PLACES[scheme], replace(copy, source_match=None))
    said = {f"{name}: {value}" for name, value in with_it.headers.items()} | {with_it.target}
    unsaid = {f"{name}: {value}" for name, value in without.headers.items()} | {without.target}
    (new,) = said - unsaid
    assert new.startswith(f"{told}: 17") or told in new
