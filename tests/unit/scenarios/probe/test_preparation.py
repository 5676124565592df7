"""Each way to write, down to its bytes: what a question says must stand in a request, or the question asks nothing."""

from __future__ import annotations

from base64 import b64encode
from typing import Final

import pytest

from lockref.clouds.calls import BEGIN_UPLOAD, LEASE, PART, PUT, READ, Answer, Call, Place, WriteMode
from lockref.clouds.uri import CLOUDS
from lockref.words import Outcome
from scenarios.probe.preparation import prepared
from tests.scripted_store import S3Like, ScriptedStore, session_of

PLACE: Final = Place(origin="http://127.0.0.1:9", container="bucket", prefix="p/", key_attribute="key")
CONDITIONS: Final = {
    "s3": (b"If-None-Match: *", b'If-Match: "7"'),
    "gs": (b"ifGenerationMatch=0", b"ifGenerationMatch=%227%22"),
    "az": (b"If-None-Match: *", b'If-Match: "7"'),
    "dynamodb": (b"attribute_not_exists(#k)", rb'":v": {"S": "\"7\""}'),
}
"""As each cloud writes "absent", and the version `"7"`."""
WAYS: Final = [(scheme, mode) for scheme in CONDITIONS for mode in CLOUDS[scheme].modes if mode.name != LEASE]


def takes_uploads(_store: ScriptedStore, call: Call) -> Answer | None:
    if call.verb == BEGIN_UPLOAD:
        return Answer(outcome=Outcome.APPLIED, status=200, upload="http://127.0.0.1:9/up?upload_id=u1")
    return Answer(outcome=Outcome.APPLIED, status=200, version='"e1"') if call.verb == PART else None


def requests_of(scheme: str, mode: WriteMode, call: Call) -> tuple[list[tuple[Call, bytes]], Call]:
    """All requests of one write in that mode, with their bytes, and the last of them, which is not sent yet."""
    store = ScriptedStore(takes_uploads, dialect=S3Like(modes=(mode,)))
    final = prepared(session_of(store), mode, call)
    assert isinstance(final, Call)
    protocol = CLOUDS[scheme].protocol
    assert protocol is not None
    return [(each, protocol[0].write_request(PLACE, each).encoded()) for each in (*store.calls, final)], final


@pytest.mark.parametrize(("scheme", "mode"), WAYS, ids=lambda each: getattr(each, "name", each))
@pytest.mark.parametrize("is_create", [True, False])
def test_one_request_of_a_write_carries_its_condition_and_one_its_body(
    scheme: str, mode: WriteMode, is_create: bool
) -> None:
    """An upload of GCS states the condition when it begins, those of S3 and Azure when they are completed."""
    call = Call(
        verb=PUT, key="k", body=b"record", none_match="*" if is_create else None, match=None if is_create else '"7"'
    )
    sent, _ = requests_of(scheme, mode, call)
    condition = CONDITIONS[scheme][not is_create]
    assert [each.verb for each, raw in sent if each.key == "k" and condition in raw] == [
        BEGIN_UPLOAD if mode.name == "resumable upload" else sent[-1][0].verb
    ]
    body = b64encode(b"record") if scheme == "dynamodb" else b"record"
    assert len([each for each, raw in sent if body in raw]) == 1


@pytest.mark.parametrize(("scheme", "mode"), WAYS, ids=lambda each: getattr(each, "name", each))
def test_a_completion_names_what_was_sent_before(scheme: str, mode: WriteMode) -> None:
    """The id of the upload, the ETag or the name of the part, the source of the copy."""
    sent, final = requests_of(scheme, mode, Call(verb=PUT, key="k", body=b"record", none_match="*"))
    before = [each for each, _ in sent[:-1]]
    raw = sent[-1][1]
    if mode.name == "multipart upload":
        assert b'<PartNumber>1</PartNumber><ETag>"e1"</ETag>' in raw
        assert b"uploadId=" in raw
    elif mode.name == "block list":
        assert f"<Latest>{before[0].upload}</Latest>".encode() in raw
    elif mode.name == "resumable upload":
        assert raw.startswith(b"PUT /up?upload_id=u1 ")
    elif mode.name == "copy":
        assert final.source == before[0].key
        assert before[0].key.rpartition("/")[2].encode() in raw
    else:
        assert (before, final.mode) == ([], mode.name)


def test_a_read_of_a_table_is_a_consistent_one() -> None:
    """A table shows an old item otherwise, now and then, and the probe would call it a lost write."""
    protocol = CLOUDS["dynamodb"].protocol
    assert protocol is not None
    assert b'"ConsistentRead": true' in protocol[0].write_request(PLACE, Call(verb=READ, key="k")).encoded()
