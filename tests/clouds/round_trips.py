"""What each cloud keeps: requests and answers go to bytes and back, and no bytes of a stranger end a reader."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import dataclass
from typing import Any, Final

import pytest
from hypothesis import strategies as st

from lockref.clouds.answers import A_CREATE, A_DELETE, A_READ, A_WRITE, Meaning, Question, RequestKind
from lockref.clouds.calls import (
    ANYTHING,
    COPY,
    DELETE,
    LIST,
    PUT,
    READ,
    UPLOADS,
    VERSIONING,
    VERSIONS,
    Call,
    HttpReply,
    Place,
)
from lockref.clouds.statuses import ANY_CODE, outcome_of
from lockref.clouds.traffic import ObjectRequest, State, content_of
from lockref.clouds.uri import CLOUDS
from lockref.words import IF_ABSENT, Op, Outcome
from scenarios.wire.reading.conversation import Conversation
from scenarios.wire.reading.dialect import dialect_of
from tests.clouds.readers import parsed_reply

STATUSES: Final = (403, 408, 409, 412, 429, 500, 501, 502, 503, 504, 599)
"""The statuses under which a fault may send a refusal."""

ODD_KEYS: Final = (
    "a/b", "ä€😀", "100%", "%2F", "a?b=c&d", "a+b c", "#", "a\nb", "..", "a//b", "k.", "compose", "\\", "'\"",
)  # fmt: skip
KEYS = st.one_of(
    st.sampled_from(ODD_KEYS), st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
).filter(lambda key: not key.startswith("/") and "\ufffd" not in key)
BODIES = st.one_of(st.binary(max_size=80), st.sampled_from([b"\r\n--lockref-probe-part--\r\n", b"\r\n\r\n", b"--"]))
CONDITIONS = st.sampled_from(["", "absent", "version"])

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
QUESTIONS: Final = (A_CREATE, A_WRITE, A_DELETE, A_READ)


@dataclass(frozen=True, slots=True)
class Trip:
    """A cloud whose requests are written and read back.

    version: one of its versions, as a call names it. as_read: the same as a history has it. beginnings, headers: of
    requests to it, beside those that all clouds are tried with.
    """

    scheme: str
    place: Place
    version: str
    as_read: str
    beginnings: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()

    def read_back(self, call: Call) -> ObjectRequest:
        """What the wire makes of the request that the probe writes."""
        requests, _ = CLOUDS[self.scheme].protocol or pytest.fail("a cloud is asked by HTTP")
        talk = Conversation()
        talk.from_client(requests.write_request(self.place, call).encoded(), 1)
        assert talk.current is not None, talk.unreadable
        assert talk.current.is_complete
        return dialect_of(self.scheme, self.place.container).request(talk.current)

    def conditional(self, condition: str) -> tuple[dict[str, str], str]:
        """The condition as arguments of a call, and as a history has it."""
        if condition == "absent":
            return {"none_match": ANYTHING}, IF_ABSENT
        return ({"match": self.version}, self.as_read) if condition else ({}, "")

    def keeps_a_write(self, key: str, body: bytes, condition: str, *, mode: str = "") -> None:
        """Key, condition and content survive."""
        named, told = self.conditional(condition)
        found = self.read_back(Call(verb=PUT, key=key, body=body, mode=mode, **named))
        assert (found.op, found.key, found.condition, found.unreadable) == (Op.WRITE, self._full(key), told, "")
        assert found.state == State(content_of(body), body)

    def keeps_a_read_and_a_delete(self, key: str, condition: str) -> None:
        """Key and condition survive; a read has no condition in a history."""
        named, told = self.conditional(condition)
        read = self.read_back(Call(verb=READ, key=key, **named))
        assert (read.op, read.key, read.condition, read.unreadable) == (Op.READ, self._full(key), "", "")
        deleted = self.read_back(Call(verb=DELETE, key=key, **named))
        assert (deleted.op, deleted.key, deleted.condition, deleted.unreadable) == (
            Op.DELETE, self._full(key), told, ""
        )  # fmt: skip

    def _full(self, key: str) -> str:
        return f"{self.place.container}/{self.place.prefix}{key}"

    def takes_any_request(self, times: int) -> None:
        """Requests of shuffled parts, and their answers, are read or told to be unreadable; nothing is raised."""
        draw = random.Random(7)
        dialect = dialect_of(self.scheme, self.place.container)
        seen: dict[Op, int] = {}
        for _ in range(times):
            target = draw.choice(BEGINNINGS + self.beginnings) + "".join(draw.choices(PIECES, k=draw.randint(0, 6)))
            head = "\r\n".join(draw.sample(HEADERS + self.headers, k=draw.randint(0, 3)))
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
        assert min(seen.get(op, 0) for op in (Op.NONE, Op.READ, Op.WRITE, Op.DELETE)) > times // 200, seen

    def keeps_each_answer(self, question: Question) -> None:
        """`read(write(a)) == a`, for every row of the cloud's table: meaning, version, status, code and reason."""
        rows, module = CLOUDS[self.scheme].outcomes, answers_of(self.scheme)
        named = {row.code for row in rows if row.code != ANY_CODE}
        statuses = sorted({row.status for row in rows if row.status >= 100} | {200, 201, 500, 503})
        for status, code in itertools.product(statuses, ("", *sorted(named))):
            is_success = status // 100 == 2
            version = self.version if is_success and question.kind is not RequestKind.DELETE else ""
            # An answer as its own bytes are read: the first reading, which writing and reading must keep.
            seed = Meaning(outcome=Outcome.APPLIED, status=status, code="" if is_success else code, version=version)
            first = read(self.scheme, question, module.write_answer(question, seed, body=b"record"))
            assert read(self.scheme, question, module.write_answer(question, first, body=b"record")) == first
            assert (first.status, first.version) == (status, version)


def answers_of(scheme: str) -> Any:
    """The cloud's reader and writer of answers."""
    _, answers = CLOUDS[scheme].protocol or pytest.fail("a cloud is asked by HTTP")
    return answers


def read(scheme: str, question: Question, answer: bytes) -> Meaning:
    """The meaning of these bytes."""
    reply = parsed_reply(answer)
    found: Meaning = answers_of(scheme).read_answer(question, reply.status, reply.headers, reply.body)
    return found


_WORDS: Final = (
    "Item", "lockref_version", "lockref_body", "S", "B", "__type", "CancellationReasons", "Code", "message", "items",
    "name", "generation", "versioning", "enabled", "error", "errors", "reason", "resource", "fault",
)  # fmt: skip
_CODES: Final = ("x#TransactionCanceledException", "x#ThrottlingException", "notFound", "cmVj")
_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.sampled_from(_CODES)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(_WORDS), inner, max_size=4)),
    max_leaves=8,
)
REPLIES = st.one_of(
    st.dictionaries(st.sampled_from(_WORDS), _VALUES, max_size=4).map(lambda found: json.dumps(found).encode()),
    st.sampled_from(CONTENTS),
    st.binary(max_size=40),
)
"""Bodies of answers: JSON with the words of all clouds in wrong places, pieces of XML, and bytes."""
CALLS: Final = tuple(
    Call(verb=verb, key="k", body=b"record") for verb in (READ, PUT, DELETE, LIST, COPY, UPLOADS, VERSIONING, VERSIONS)
)


def takes_any_reply(scheme: str, place: Place, status: int, body: bytes) -> None:
    """Whatever a server answers to a call of ours is read, and nothing is raised. No success is made of a failure."""
    for call in CALLS:
        reply = HttpReply(status=status, headers={"content-type": "application/json"}, body=body)
        found = answers_of(scheme).answer_to(place, call, reply)
        assert status < 300 or found.outcome is not Outcome.APPLIED or (call.verb == READ and found.is_missing)


def refuses_as_simulated(scheme: str, reason: str) -> None:
    """A refusal that a fault sends means to the cloud's client what it means in a simulation, whatever its reason."""
    write = CLOUDS[scheme].refusal or pytest.fail("a cloud is reached by HTTP")
    for status in STATUSES:
        assert read(scheme, A_WRITE, write(status, reason)).outcome is outcome_of(status)
        code, usual = (read(scheme, A_WRITE, write(status, each)).code for each in (reason, "x"))
        # A reason may name another code of DynamoDB's that means the same.
        named = reason.partition(":")[0] if scheme == "dynamodb" else usual
        assert code in (usual, named)
