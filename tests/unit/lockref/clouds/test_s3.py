"""S3: the status table row by row, replies without an answer, the shape of a request."""

from __future__ import annotations

import datetime
import io
import json

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    IncompleteReadError,
    NoCredentialsError,
    ReadTimeoutError,
    ResponseStreamingError,
)
from botocore.response import StreamingBody
from botocore.stub import Stubber
from freezegun import freeze_time

from lockref.clouds.s3.client import S3Store, make_client
from lockref.clouds.s3.facts import OUTCOMES
from lockref.clouds.s3.signing import S3Signer
from lockref.clouds.statuses import ANY_CODE, StatusRow
from lockref.clouds.uri import parse_store_uri
from lockref.errors import ConfigError
from lockref.runtime import NS_PER_S
from lockref.stores.port import Version
from lockref.words import Outcome

O = Outcome  # noqa: E741
OK = {"ResponseMetadata": {"HTTPStatusCode": 200}}


@pytest.fixture(autouse=True)
def _no_aws_configuration(monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.fixture
def client():
    client = make_client(endpoint="http://127.0.0.1:1", region="", request_timeout_ns=NS_PER_S, pool_size=1)
    yield client
    client.close()


@pytest.fixture(scope="module")
def stubbed_client():
    """One client for all stubbed tests: making one takes a fifth of a second."""
    client = make_client(endpoint="http://127.0.0.1:1", region="", request_timeout_ns=NS_PER_S, pool_size=1)
    yield client
    client.close()


@pytest.fixture
def stubber(stubbed_client):
    with Stubber(stubbed_client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def _store(client):
    return S3Store(bucket="bucket", prefix="p", request_timeout_ns=NS_PER_S, client=client)


@pytest.fixture
def store(stubbed_client):
    return _store(stubbed_client)


def _body(data: bytes) -> StreamingBody:
    return StreamingBody(io.BytesIO(data), len(data))


# status, code -> outcome, missing: written out by hand, so that a changed row of the table fails here.
EXPECTED = {
    (412, "PreconditionFailed"): (O.PRECONDITION_FAILED, False),
    (404, "NoSuchKey"): (O.PRECONDITION_FAILED, True),
    (404, "404"): (O.PRECONDITION_FAILED, True),
    (404, "NoSuchBucket"): (O.REJECTED, False),
    (404, "NoSuchUpload"): (O.REJECTED, False),
    (409, "ConditionalRequestConflict"): (O.CONFLICT, False),
    (409, "OperationAborted"): (O.CONFLICT, False),
    (429, "TooManyRequests"): (O.THROTTLED, False),
    (503, "SlowDown"): (O.THROTTLED, False),
    (503, "ServiceUnavailable"): (O.AMBIGUOUS, False),
    (500, "InternalError"): (O.AMBIGUOUS, False),
    (502, "BadGateway"): (O.AMBIGUOUS, False),
    (504, "GatewayTimeout"): (O.AMBIGUOUS, False),
    (400, "RequestTimeout"): (O.AMBIGUOUS, False),
    (408, "RequestTimeout"): (O.AMBIGUOUS, False),
    (400, "InvalidArgument"): (O.REJECTED, False),
    (401, "Unauthorized"): (O.REJECTED, False),
    (403, "AccessDenied"): (O.REJECTED, False),
    (403, "RequestTimeTooSkewed"): (O.REJECTED, False),
    (304, "304"): (O.PRECONDITION_FAILED, False),
    (400, "NotImplemented"): (O.REJECTED, False),
    (405, "MethodNotAllowed"): (O.REJECTED, False),
    (501, "NotImplemented"): (O.REJECTED, False),
    (301, "PermanentRedirect"): (O.REJECTED, False),
    (400, "AuthorizationHeaderMalformed"): (O.REJECTED, False),
    (307, "TemporaryRedirect"): (O.REJECTED, False),
    (600, "Odd"): (O.AMBIGUOUS, False),
}


@pytest.mark.parametrize(("status", "code"), EXPECTED)
@pytest.mark.parametrize(
    ("operation", "call"),
    [
        ("put_object", lambda store: store.put_if_absent("k", b"1")),
        ("put_object", lambda store: store.put_if_version("k", b"1", Version('"e"'))),
        ("delete_object", lambda store: store.delete("k", Version('"e"'))),
    ],
    ids=["create", "replace", "delete"],
)
def test_a_refused_write_is_classified_by_status_and_code(store, stubber, operation, call, status, code):
    """A5: each answer has its own branch; the reply carries the raw status and names the code."""
    stubber.add_client_error(operation, service_error_code=code, http_status_code=status)
    reply = call(store)
    assert (reply.outcome, reply.missing) == EXPECTED[status, code]
    assert (reply.status, reply.version) == (status, None)
    assert reply.reason.startswith(f"{status}: " if code == str(status) else f"{status} {code}: ")


def test_every_row_of_the_table_has_an_expectation():
    """A row that no expectation above meets would be untested."""
    for row in OUTCOMES:
        if row.outcome is O.APPLIED:
            continue
        assert any(_decides(row, status, code) for status, code in EXPECTED), row


def _decides(row: StatusRow, status: int, code: str) -> bool:
    return max(OUTCOMES, key=lambda other: other.fit(status, code)) is row and row.code in (ANY_CODE, code)


@pytest.mark.parametrize(
    ("status", "code", "outcome"),
    [
        (404, "NoSuchKey", O.APPLIED),
        (404, "NoSuchBucket", O.REJECTED),
        (403, "AccessDenied", O.REJECTED),
        (503, "SlowDown", O.THROTTLED),
        (500, "InternalError", O.AMBIGUOUS),
        (412, "PreconditionFailed", O.AMBIGUOUS),
    ],
)
def test_a_read_without_a_body_is_absent_only_if_the_key_is_missing(store, stubber, status, code, outcome):
    """An absent object is an answer; a missing bucket or a denial is not; a refused condition is impossible."""
    stubber.add_client_error("get_object", service_error_code=code, http_status_code=status)
    reply = store.read("k")
    assert (reply.outcome, reply.body, reply.status) == (outcome, None, status)
    assert reply.is_absent == (outcome is O.APPLIED)


def test_conditions_and_prefix_reach_the_request(store, stubber):
    """A create sends If-None-Match, a replacement If-Match, a put neither; the prefix stands before the key."""
    fixed = {"Bucket": "bucket", "Key": "p/k", "Body": b"1", "ContentType": "application/octet-stream"}
    answer = {"ETag": '"new"', **OK}
    stubber.add_response("put_object", answer, {**fixed, "IfNoneMatch": "*"})
    stubber.add_response("put_object", answer, {**fixed, "IfMatch": '"old"'})
    stubber.add_response("put_object", answer, fixed)
    gone = {"ResponseMetadata": {"HTTPStatusCode": 204}}
    stubber.add_response("delete_object", gone, {"Bucket": "bucket", "Key": "p/k", "IfMatch": '"old"'})
    stubber.add_response("get_object", {"Body": _body(b"1"), "ETag": '"new"', **OK}, {"Bucket": "bucket", "Key": "p/k"})
    for reply in (
        store.put_if_absent("k", b"1"),
        store.put_if_version("k", b"1", Version('"old"')),
        store.put("k", b"1"),
    ):
        assert (reply.outcome, reply.version, reply.status) == (O.APPLIED, '"new"', 200)
    assert store.delete("k", Version('"old"')).outcome is O.APPLIED
    read = store.read("k")
    assert (read.body, read.version) == (b"1", '"new"')


def test_a_success_without_an_etag_is_ambiguous(store, stubber):
    """A cut reply parses as 200 without an ETag; a lock must not build on it (backends.md, section 11)."""
    stubber.add_response("put_object", OK)
    stubber.add_response("get_object", {"Body": _body(b"1"), **OK})
    assert store.put_if_absent("k", b"1").outcome is O.AMBIGUOUS
    assert store.read("k").outcome is O.AMBIGUOUS


@pytest.mark.parametrize(
    ("error", "outcome", "hint"),
    [
        (EndpointConnectionError(endpoint_url="http://u:secret@h"), O.AMBIGUOUS, "nothing was sent"),
        (ConnectTimeoutError(endpoint_url="http://u:secret@h"), O.AMBIGUOUS, "nothing was sent"),
        (ReadTimeoutError(endpoint_url="http://u:secret@h"), O.AMBIGUOUS, "may have taken effect"),
        (ConnectionClosedError(endpoint_url="http://u:secret@h"), O.AMBIGUOUS, "may have taken effect"),
        (ResponseStreamingError(error="secret"), O.AMBIGUOUS, "may have taken effect"),
        (IncompleteReadError(actual_bytes=1, expected_bytes=2), O.AMBIGUOUS, "may have taken effect"),
        (NoCredentialsError(), O.REJECTED, "credentials"),
        # What a program that gives credentials printed: the SDK asks it within the call.
        (json.JSONDecodeError("secret", "", 0), O.AMBIGUOUS, "JSONDecodeError"),
    ],
)
def test_no_answer_is_ambiguous_and_says_whether_anything_was_sent(store, monkeypatch, error, outcome, hint):
    """A1: network errors mean unknown; the reason never repeats what the SDK quotes."""

    def fail(**_arguments):
        raise error

    monkeypatch.setattr(store._client, "put_object", fail)
    monkeypatch.setattr(store._client, "get_object", fail)
    for reply in (store.put_if_absent("k", b"1"), store.read("k")):
        assert (reply.outcome, reply.status) == (outcome, None)
        assert hint in reply.reason
        assert "secret" not in reply.reason


@pytest.mark.parametrize("error", [TypeError("ours"), AttributeError("ours"), KeyError("ours")])
def test_a_defect_of_ours_is_not_an_answer(store, monkeypatch, error):
    """Without a reply there is nothing to misunderstand."""

    def fail(**_arguments):
        raise error

    monkeypatch.setattr(store._client, "put_object", fail)
    monkeypatch.setattr(store._client, "get_object", fail)
    for call in (lambda: store.put_if_absent("k", b"1"), lambda: store.read("k")):
        with pytest.raises(type(error), match="ours"):
            call()


def _sent(client, call):
    """The request that `call` would have sent."""
    caught = []

    def catch(request, **_arguments):
        caught.append(request)
        raise ReadTimeoutError(endpoint_url="caught")

    client.meta.events.register("before-send.s3", catch)
    reply = call()
    assert reply.outcome is O.AMBIGUOUS
    assert len(caught) == 1, "more than one attempt"
    return caught[0]


def test_a_request_is_sent_once_without_expect_or_trailing_checksum(client):
    """A2 and backends.md section 9: one attempt, one round trip, the body as it is."""
    request = _sent(client, lambda: _store(client).put_if_absent("k", b"1"))
    headers = {name.lower() for name in request.headers}
    assert "expect" not in headers
    assert not {name for name in headers if name.startswith(("x-amz-checksum", "x-amz-trailer", "x-amz-sdk-checksum"))}
    assert request.url == "http://127.0.0.1:1/bucket/p/k"


@pytest.mark.parametrize("body", [b"", b"<Error><Code>PermanentRedirect</Code><Region>eu-west-1</Region></Error>"])
def test_a_redirect_is_an_answer_and_not_followed(client, body):
    """A2: boto3 would ask for the bucket's region and send the write again, for ever if that is redirected too."""
    sent = []

    def redirect(request, **_arguments):
        sent.append(request.method)
        return AWSResponse(request.url, 301, {}, RawBody(body))

    client.meta.events.register("before-send.s3", redirect)
    reply = _store(client).put_if_absent("k", b"1")
    assert (reply.outcome, reply.status, sent) == (O.REJECTED, 301, ["PUT"])
    assert "name its region or endpoint" in reply.reason


class RawBody(io.BytesIO):
    """A response's bytes as botocore reads them."""

    def stream(self, **_arguments):
        yield self.read()


def test_a_request_is_signed_with_the_clock_of_this_machine(client):
    """A machine an hour ahead signs an hour ahead, which S3 refuses with RequestTimeTooSkewed."""
    with freeze_time(datetime.datetime(2031, 5, 6, 7, 8, 9, tzinfo=datetime.UTC)):
        request = _sent(client, lambda: _store(client).put_if_absent("k", b"1"))
    date = request.headers["X-Amz-Date"]
    assert (date.decode() if isinstance(date, bytes) else date) == "20310506T070809Z"


def test_loopback_endpoints_get_dummy_credentials_unless_some_are_configured(monkeypatch):
    """A test server needs no configuration, and what the user configured wins."""

    def access_key():
        made = make_client(endpoint="http://127.0.0.1:1", region="", request_timeout_ns=NS_PER_S, pool_size=1)
        try:
            return made._request_signer._credentials.access_key
        finally:
            made.close()

    assert access_key() == "lockref"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mine")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "mine-too")
    assert access_key() == "mine"


def test_loopback_endpoints_use_no_proxy(monkeypatch):
    """A proxy from the environment must not see requests to this machine."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:2")
    monkeypatch.delenv("NO_PROXY", raising=False)
    made = make_client(endpoint="http://127.0.0.1:1", region="", request_timeout_ns=NS_PER_S, pool_size=1)
    assert made.meta.config.proxies == {}
    made.close()


def test_connecting_and_waiting_together_stay_within_the_timeout(client):
    """One request may take its time-out, not twice that."""
    assert client.meta.config.connect_timeout + client.meta.config.read_timeout == pytest.approx(1.0)


def test_an_empty_version_is_the_callers_mistake(store):
    """An empty If-Match would be no condition at all."""
    with pytest.raises(ValueError):
        store.put_if_version("k", b"1", Version(""))


def test_a_client_keeps_as_many_connections_as_asked_for():
    """One per thread that shares the store; with fewer, each surplus request would open and drop one."""
    client = make_client(endpoint="http://127.0.0.1:1", region="", request_timeout_ns=NS_PER_S, pool_size=37)
    assert client.meta.config.max_pool_connections == 37
    client.close()


def test_a_server_on_a_port_is_not_asked_by_the_buckets_name(monkeypatch):
    """`http://host/bucket/…`, never `http://bucket.host/…`, which no DNS knows."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not a real one")
    client = make_client(endpoint="http://minio.example:9000", region="", request_timeout_ns=NS_PER_S, pool_size=1)
    urls = []

    def answer(request, **_):
        urls.append(request.url)
        return AWSResponse(request.url, 404, {}, RawBody(b""))

    client.meta.events.register("before-send.s3", answer)
    S3Store(bucket="bucket", request_timeout_ns=NS_PER_S, client=client).read("k")
    client.close()
    assert urls == ["http://minio.example:9000/bucket/k"]


def test_a_body_is_read_and_its_connection_given_back(store, monkeypatch):
    """The stream is closed also when reading it fails: the pool gets its connection back."""
    for raw, outcome in ((io.BytesIO(b"body"), O.APPLIED), (io.BytesIO(b"bo"), O.AMBIGUOUS)):
        answer = {**OK, "ETag": '"e"', "Body": StreamingBody(raw, 4)}
        monkeypatch.setattr(store._client, "get_object", lambda answer=answer, **_: answer)
        assert store.read("k").outcome is outcome
        assert raw.closed


@pytest.mark.parametrize("region", ["", "eu-west-1"])
@pytest.mark.parametrize("configured", ["", "ap-south-1"])
def test_the_signer_goes_where_a_client_goes(monkeypatch, region, configured):
    """A probe of an endpoint learns origin and region without a client of the SDK, and learns the same."""
    if configured:
        monkeypatch.setenv("AWS_DEFAULT_REGION", configured)
    endpoint = "http://127.0.0.1:1"
    client = make_client(endpoint=endpoint, region=region, request_timeout_ns=NS_PER_S, pool_size=1)
    signer = S3Signer(
        parse_store_uri(f"s3://bucket/table?endpoint={endpoint}" + (f"&region={region}" if region else ""))
    )
    assert signer.place.origin == client.meta.endpoint_url
    assert signer._signer._region_name == client.meta.region_name
    client.close()


def test_the_signer_refuses_a_region_that_is_none():
    """As a client of the SDK does."""
    address = parse_store_uri("s3://bucket/table?endpoint=http://127.0.0.1:1&region=-a-")
    with pytest.raises(ConfigError, match="region"):
        S3Signer(address)
