"""How each cloud writes down the probe's requests, and what its answers mean."""

from __future__ import annotations

from typing import Any

import pytest

from lockref.clouds.calls import (
    BEGIN_UPLOAD,
    COMPLETE,
    COPY,
    DELETE,
    LEASE,
    LIST,
    PART,
    PUT,
    READ,
    VERSIONING,
    Call,
    HttpReply,
    Inexpressible,
)
from lockref.clouds.uri import CLOUDS, parse_store_uri
from lockref.errors import ConfigError
from lockref.words import Outcome
from scenarios.probe.dialect import dialect_of
from scenarios.probe.findings import witness_of
from scenarios.probe.opening import addresses_of, open_endpoint

SECRET = "probe-secret"


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "probe-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


def dialect(scheme: str) -> Any:
    """The cloud's dialect, at an address where nothing listens."""
    if scheme == "s3":
        return dialect_of(parse_store_uri("s3://bucket/p?endpoint=http://127.0.0.1:9"))
    if scheme == "gs":
        return dialect_of(parse_store_uri("gs://bucket/p?endpoint=http://127.0.0.1:9"))
    return dialect_of(parse_store_uri("az://bucket/p?endpoint=http://127.0.0.1:9/devstoreaccount1"))


@pytest.mark.parametrize(
    ("scheme", "call", "line", "condition"),
    [
        ("s3", Call(verb=PUT, key="k", none_match="*"), "PUT /bucket/p/k", ("If-None-Match", "*")),
        ("s3", Call(verb=DELETE, key="k", match='"e"'), "DELETE /bucket/p/k", ("If-Match", '"e"')),
        ("s3", Call(verb=LIST, key="x/"), "GET /bucket?list-type=2&prefix=p%2Fx%2F", None),
        ("s3", Call(verb=COPY, key="k", source="s"), "PUT /bucket/p/k", ("x-amz-copy-source", "/bucket/p/s")),
        (
            "gs",
            Call(verb=PUT, key="k", none_match="*"),
            "POST /upload/storage/v1/b/bucket/o?uploadType=multipart&ifGenerationMatch=0",
            None,
        ),
        ("gs", Call(verb=DELETE, key="k", match="7"), "DELETE /storage/v1/b/bucket/o/p%2Fk?ifGenerationMatch=7", None),
        ("gs", Call(verb=VERSIONING), "GET /storage/v1/b/bucket?fields=kind%2Cversioning", None),
        ("az", Call(verb=PUT, key="k", match="e"), "PUT /devstoreaccount1/bucket/p/k", ("If-Match", "e")),
    ],
)
def test_a_call_becomes_one_request(scheme: str, call: Call, line: str, condition: tuple[str, str] | None) -> None:
    """Method, path and condition, below the store's prefix; signed where there are credentials; no secret in it."""
    request = dialect(scheme).form(call)
    assert f"{request.method} {request.target}" == line
    if condition is not None:
        assert request.headers[condition[0]] == condition[1]
    assert ("Authorization" in request.headers) is (scheme != "gs")
    assert SECRET.encode() not in request.encoded()
    assert "Authorization" not in repr(request)


@pytest.mark.parametrize(
    ("scheme", "call"),
    [
        ("gs", Call(verb=PUT, key="k", match="*")),
        ("gs", Call(verb=PUT, key="k", match="7", none_match="*")),
        ("az", Call(verb=BEGIN_UPLOAD, key="k")),
        ("s3", Call(verb=PUT, key="k", mode="media upload")),
    ],
)
def test_what_a_cloud_cannot_say_is_not_asked(scheme: str, call: Call) -> None:
    """The question does not arise there, which is no refusal."""
    with pytest.raises(Inexpressible):
        dialect(scheme).form(call)


ERROR = b'<?xml version="1.0"?><Error><Code>PreconditionFailed</Code></Error>'
ETAG = {"etag": '"e"'}


@pytest.mark.parametrize(
    ("scheme", "verb", "status", "headers", "body", "outcome"),
    [
        ("s3", PUT, 200, ETAG, b"", Outcome.APPLIED),
        ("s3", PUT, 200, {}, b"<html>", Outcome.AMBIGUOUS),
        ("s3", PUT, 412, {}, ERROR, Outcome.PRECONDITION_FAILED),
        ("s3", COMPLETE, 200, {}, ERROR, Outcome.PRECONDITION_FAILED),
        ("s3", COMPLETE, 200, {}, b"<Error><Code>SomethingNew</Code></Error>", Outcome.AMBIGUOUS),
        ("s3", COMPLETE, 200, {}, b"<R><ETag>e</ETag></R>", Outcome.APPLIED),
        ("s3", READ, 404, {}, b"", Outcome.APPLIED),
        ("s3", PART, 200, ETAG, b"", Outcome.APPLIED),
        ("s3", PART, 200, {}, b"", Outcome.AMBIGUOUS),
        ("s3", PART, 403, {}, b"<Error><Code>AccessDenied</Code></Error>", Outcome.REJECTED),
        ("s3", PUT, 404, {}, b"<Error><Code>NoSuchBucket</Code></Error>", Outcome.REJECTED),
        ("s3", LIST, 200, {}, b"not xml", Outcome.AMBIGUOUS),
        ("s3", LIST, 200, {}, b"<html><body/></html>", Outcome.AMBIGUOUS),
        ("s3", LIST, 200, {}, b"<ListBucketResult/>", Outcome.APPLIED),
        ("gs", PUT, 200, {}, b'{"generation": "7"}', Outcome.APPLIED),
        ("gs", PUT, 200, {}, b"{}", Outcome.AMBIGUOUS),
        ("gs", LIST, 200, {}, b"not json", Outcome.AMBIGUOUS),
        ("gs", LIST, 200, {}, b"[]", Outcome.AMBIGUOUS),
        ("gs", LIST, 200, {}, b'{"kind": "storage#objects"}', Outcome.APPLIED),
        ("gs", VERSIONING, 200, {}, b"<html>", Outcome.AMBIGUOUS),
        ("gs", VERSIONING, 200, {}, b'{"kind": "storage#bucket"}', Outcome.APPLIED),
        ("gs", DELETE, 200, {"content-type": "text/html"}, b"null", Outcome.AMBIGUOUS),
        ("gs", DELETE, 404, {}, b'{"error": {"message": "No such object"}}', Outcome.PRECONDITION_FAILED),
        ("gs", PUT, 404, {}, b'{"error": {"message": "The bucket does not exist"}}', Outcome.REJECTED),
        ("az", PUT, 409, {"x-ms-error-code": "BlobAlreadyExists"}, b"", Outcome.PRECONDITION_FAILED),
        ("az", PUT, 412, {"x-ms-error-code": "LeaseIdMissing"}, b"", Outcome.CONFLICT),
        ("az", LIST, 200, {}, b"not xml", Outcome.AMBIGUOUS),
        ("az", LIST, 200, {}, b"<html><body/></html>", Outcome.AMBIGUOUS),
        ("az", LIST, 200, {}, b"<EnumerationResults><Blobs/></EnumerationResults>", Outcome.APPLIED),
        ("az", LEASE, 409, {"x-ms-error-code": "LeaseAlreadyPresent"}, b"", Outcome.PRECONDITION_FAILED),
        ("az", LEASE, 412, {"x-ms-error-code": "LeaseIdMismatchWithLeaseOperation"}, b"", Outcome.PRECONDITION_FAILED),
        ("az", LEASE, 412, {"x-ms-error-code": "LeaseIdMissing"}, b"", Outcome.PRECONDITION_FAILED),
        ("az", PUT, 409, {"x-ms-error-code": "LeaseAlreadyPresent"}, b"", Outcome.CONFLICT),
        ("az", PUT, 201, {}, b"", Outcome.AMBIGUOUS),
        ("az", PUT, 201, {"etag": '"e"'}, b"", Outcome.APPLIED),
        ("az", READ, 200, {}, b"body", Outcome.AMBIGUOUS),
    ],
)
def test_what_an_answer_means(
    scheme: str, verb: str, status: int, headers: dict[str, str], body: bytes, outcome: Outcome
) -> None:
    """The status is kept as it came; an error inside a success is an error; a success without a version is none."""
    answer = dialect(scheme).answer(Call(verb=verb, key="k"), HttpReply(status=status, headers=headers, body=body))
    assert (answer.outcome, answer.status) == (outcome, status)
    assert outcome is Outcome.APPLIED or not answer.version


def test_a_code_is_a_word_or_nothing() -> None:
    """Whatever else stands in that header is not repeated."""
    for code, kept in (
        ("ConditionNotMet", "ConditionNotMet"),
        ("see https://x/?sig=s", ""),
        ("x" * 61, ""),
        ("t0k3n9a8b7", ""),
    ):
        reply = HttpReply(status=412, headers={"x-ms-error-code": code}, body=b"")
        assert dialect("az").answer(Call(verb=PUT, key="k"), reply).code == kept


def test_a_token_goes_into_the_query_and_into_the_source_of_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Azure: a shared access signature counts for both, and for the condition on the source nothing is left out."""
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=c4n4ry")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "lake")
    shared = dialect_of(parse_store_uri("abfss://tables@lake.dfs.core.windows.net/p"))
    assert shared.form(Call(verb=PUT, key="k")).target == "/tables/p/k?sv=1&sig=c4n4ry"
    assert shared.form(Call(verb=LIST, key="x/")).target.endswith("&sv=1&sig=c4n4ry")
    copied = shared.form(Call(verb=COPY, key="k", source="s", source_match='"e"')).headers
    source = "https://lake.blob.core.windows.net/tables/p/s?sv=1&sig=c4n4ry"
    assert (copied["x-ms-copy-source"], copied["x-ms-source-if-match"]) == (source, '"e"')


def test_the_statuses_of_refusals_are_those_of_each_cloud() -> None:
    """Azure answers a create over an object with 409, and a replacement of what is gone with 412."""
    told = CLOUDS["az"].statuses
    assert (told.exists, told.stale, told.absent, told.delete_conditional_absent) == (409, 412, 412, 404)


def test_a_witness_holds_what_was_asked_and_answered() -> None:
    """Verb, key, condition, status and code; not the address of an upload, which is a password."""
    call = Call(verb=COMPLETE, key="k", upload="upload-capability", match="7")
    answer = dialect("gs").answer(call, HttpReply(status=412, headers={}, body=b"{}"))
    told = witness_of(call, answer, note="stale")
    assert (told["request"], told["condition"], told["status"]) == ("complete", "if-match 7", 412)
    assert "upload-capability" not in str(told)


def test_a_bundle_that_holds_no_certificates_is_a_wrong_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable and the file are named."""
    monkeypatch.setenv("AWS_CA_BUNDLE", "/nowhere.pem")
    (address,) = addresses_of("s3://bucket?endpoint=https://127.0.0.1:9")
    with pytest.raises(ConfigError, match=r"AWS_CA_BUNDLE names '/nowhere.pem'"):
        open_endpoint(address)
