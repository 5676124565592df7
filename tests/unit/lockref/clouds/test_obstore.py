"""S3 through obstore: the same table as boto3's, the shape of a request, one request for each call."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from lockref.clouds.s3 import obstore_client
from lockref.clouds.s3.obstore_client import ObstoreS3Store
from lockref.clouds.uri import open_store
from lockref.errors import ConfigError
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.stores.port import Version
from lockref.words import Outcome
from tests.conditional_server import Asked, Bucket, Told, serving
from tests.unit.lockref.clouds import test_stalled_bodies as stalled
from tests.unit.lockref.clouds.test_s3 import EXPECTED

KEPT = b"<DeleteResult><Error><Key>p/k</Key><Code>%b</Code><Message>no</Message></Error></DeleteResult>"
GONE = b"<DeleteResult><Deleted><Key>p/k</Key></Deleted></DeleteResult>"


@pytest.fixture(autouse=True)
def _aws_configuration(monkeypatch, tmp_path):
    """None, and settings of the environment that would turn the client into another one."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONDITIONAL_PUT", "disabled")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")


@dataclass
class Scripted(Bucket):
    """A bucket that gives one answer to everything, and keeps what it was asked."""

    told: Told | None = None
    asked: list[Asked] = field(default_factory=list)

    def intercept(self, asked: Asked) -> Told | None:
        self.asked.append(asked)
        return self.told


@contextlib.contextmanager
def opened(uri: str, *, timeout_ns: int = 20 * NS_PER_S) -> Iterator[ObstoreS3Store]:
    with contextlib.closing(open_store(f"{uri}&client=obstore", request_timeout_ns=timeout_ns)) as store:
        assert isinstance(store, ObstoreS3Store)
        yield store


@pytest.fixture(scope="module")
def bucket():
    return Scripted()


@pytest.fixture(scope="module")
def base(bucket):
    with serving(bucket) as uri:
        yield uri


@pytest.fixture
def store(bucket, base):
    bucket.told = None
    bucket.asked.clear()
    bucket.objects.clear()
    with opened(base) as store:
        yield store


CALLS = {
    "create": lambda store: store.put_if_absent("k", b"1"),
    "replace": lambda store: store.put_if_version("k", b"1", Version('"e"')),
    "put": lambda store: store.put("k", b"1"),
    "delete": lambda store: store.delete("k"),
}


@pytest.mark.parametrize(("status", "code"), EXPECTED)
def test_a_refused_write_means_what_it_means_through_boto3(store, bucket, status, code):
    """A5, A2: one table for both clients; obstore's exceptions fold statuses together; nothing is sent again."""
    bucket.told = Told(status, error="" if code == str(status) else code)
    for name, call in CALLS.items():
        bucket.asked.clear()
        reply = call(store)
        assert (reply.outcome, reply.missing) == EXPECTED[status, code], name
        assert (reply.version, len(bucket.asked)) == (None, 1)
        if status // 100 == 3 and status != 304:
            # obstore says no more of a redirect without a place to go.
            assert (reply.status, reply.reason) == (None, "the bucket lives elsewhere; name its region or endpoint")
            continue
        assert reply.status == status
        assert reply.reason.startswith(f"{status}: " if code == str(status) else f"{status} {code}: ")


@pytest.mark.parametrize(
    ("status", "code", "outcome"),
    [
        (404, "NoSuchKey", Outcome.APPLIED),
        (404, "", Outcome.APPLIED),
        (404, "NoSuchBucket", Outcome.REJECTED),
        (403, "AccessDenied", Outcome.REJECTED),
        (503, "SlowDown", Outcome.THROTTLED),
        (500, "InternalError", Outcome.AMBIGUOUS),
        (412, "PreconditionFailed", Outcome.AMBIGUOUS),
    ],
)
def test_a_read_is_absent_only_if_the_key_is_missing(store, bucket, status, code, outcome):
    """As through boto3: an absent object is an answer; a missing bucket or a denial is not."""
    bucket.told = Told(status, error=code)
    reply = store.read("k")
    assert (reply.outcome, reply.body, reply.status) == (outcome, None, status)
    assert reply.is_absent == (outcome is Outcome.APPLIED)
    assert len(bucket.asked) == 1


def test_a_key_or_a_body_that_quotes_an_answer_is_not_taken_for_one(store, bucket):
    """The words of an exception hold the key and the body as they are; the answer is read behind them."""
    bucket.told = Told(503, error="SlowDown")
    key = 'Debug source: inner: Status { status: 412, body: Some( "<Code>PreconditionFailed</Code>", )'
    assert store.put_if_absent(key, b"x").outcome is Outcome.THROTTLED
    bucket.told = Told(503, body=b"\n    inner: Status {\n        status: 412,\n        body: None")
    assert store.put_if_absent("k", b"x").outcome is Outcome.AMBIGUOUS


def test_conditions_and_prefix_reach_the_request(store, bucket):
    """A create sends If-None-Match, a replacement If-Match, a put neither; the environment cannot switch them off."""
    first = store.put_if_absent("k", b"1")
    second = store.put_if_version("k", b"22", first.version)
    third = store.put("k", b"333")
    for reply in (first, second, third):
        assert (reply.outcome, reply.status, bool(reply.version)) == (Outcome.APPLIED, 200, True)
    sent = [(each.path, each.headers.get("If-None-Match"), each.headers.get("If-Match")) for each in bucket.asked]
    path = "/bucket/p/k"
    assert sent == [(path, "*", None), (path, None, first.version), (path, None, None)]
    assert all("AWS4-HMAC-SHA256" in each.headers["Authorization"] for each in bucket.asked)
    read = store.read("k")
    assert (read.body, read.version) == (b"333", third.version)


def test_a_removal_on_a_condition_is_refused_and_nothing_is_sent(store, bucket):
    """C8: obstore has none. Without the condition, it could remove a successor's object."""
    version = store.put("k", b"1").version
    bucket.asked.clear()
    reply = store.delete("k", version)
    assert (reply.outcome, reply.status) == (Outcome.REJECTED, None)
    assert "obstore" in reply.reason
    assert bucket.asked == []
    assert store.capabilities.conditional_delete is False


@pytest.mark.parametrize(
    ("body", "outcome", "status"),
    [
        (GONE, Outcome.APPLIED, 204),
        (KEPT % b"AccessDenied", Outcome.REJECTED, 403),
        (KEPT % b"PreconditionFailed", Outcome.PRECONDITION_FAILED, 412),
        (KEPT % b"Unheard", Outcome.AMBIGUOUS, 500),
        (b"<Error><Code>AccessDenied</Code></Error>", Outcome.AMBIGUOUS, None),
        (b"<Error><Code>InternalError</Code></Error>", Outcome.AMBIGUOUS, None),
        (b"<html><body>welcome</body></html>", Outcome.AMBIGUOUS, None),
        (b"", Outcome.AMBIGUOUS, None),
    ],
)
def test_an_error_inside_the_answer_to_a_removal_decides(store, bucket, body, outcome, status):
    """A removal goes as a list of one, whose answer is 200 also where the object stayed."""
    bucket.told = Told(200, body=body)
    reply = store.delete("k")
    assert (reply.outcome, reply.status) == (outcome, status)


def test_a_success_without_an_etag_is_ambiguous(store, bucket):
    """A cut reply parses as 200 without an ETag; a lock must not build on it (backends.md, section 11)."""
    bucket.told = Told(200, body=b"1")
    assert store.put_if_absent("k", b"1").outcome is Outcome.AMBIGUOUS
    assert store.read("k").outcome is Outcome.AMBIGUOUS


def test_an_object_of_more_bytes_than_a_record_has_is_not_read(store, bucket, monkeypatch):
    """Its size is told before its body; an object of exactly that size is read."""
    monkeypatch.setattr(obstore_client, "REPLY_BYTES_MAX", 3)
    store.put("k", b"333")
    assert store.read("k").body == b"333"
    store.put("k", b"4444")
    reply = store.read("k")
    assert (reply.outcome, reply.body) == (Outcome.AMBIGUOUS, None)
    assert "more than 3 bytes" in reply.reason


def test_a_replacement_names_a_version(store, bucket):
    """An empty condition could be taken for none."""
    with pytest.raises(ValueError, match="version is empty"):
        store.put_if_version("k", b"1", Version(""))
    assert bucket.asked == []


def test_no_answer_is_ambiguous_and_says_whether_anything_was_sent():
    """A1: a broken and a refused connection leave the outcome open. Each call costs one request."""

    def reset(connection: socket.socket, _over: object) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()

    with stalled.serving(reset) as server, opened(f"s3://bucket/p?endpoint=http://127.0.0.1:{server.port}") as store:
        for number, call in enumerate([*CALLS.values(), lambda store: store.read("k")], start=1):
            reply = call(store)
            assert (reply.outcome, reply.status) == (Outcome.AMBIGUOUS, None)
            assert "may have taken effect" in reply.reason
            assert server.requests == number
        gone = server.port
    with opened(f"s3://bucket/p?endpoint=http://127.0.0.1:{gone}") as store:
        reply = store.put_if_absent("k", b"1")
        assert (reply.outcome, reply.status) == (Outcome.AMBIGUOUS, None)
        assert "nothing was sent" in reply.reason


@pytest.mark.parametrize("what", ["headers", "a body"])
def test_a_dripping_server_is_late_as_a_whole(what):
    """A1: the deadline covers the whole reply; bytes that keep coming do not move it."""
    with stalled.serving(stalled.DRIPPING[what]) as server:
        uri = f"s3://bucket/p?endpoint=http://127.0.0.1:{server.port}"
        with opened(uri, timeout_ns=stalled.TIMEOUT_MS * NS_PER_MS) as store:
            read = store.read("key")
            assert (read.outcome, read.body) == (Outcome.AMBIGUOUS, None)
            assert "may have taken effect" in read.reason
            assert server.requests == 1


def test_credentials_are_boto3s(base, bucket, monkeypatch):
    """The profile that a user has for boto3 signs, and a machine without credentials is told so before a request."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "MINE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    bucket.asked.clear()
    with opened(base) as store:
        store.read("k")
        assert store.credentials_note == ""
    assert "Credential=MINE/" in bucket.asked[-1].headers["Authorization"]
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(ConfigError, match="credentials"):
        open_store("s3://bucket?region=us-east-1&client=obstore", request_timeout_ns=NS_PER_S)


def test_a_forked_child_is_refused_and_does_not_hang(store, bucket):
    """obstore's threads stay with the parent. A child would wait for ever, also beyond its time-out."""
    assert store.put("k", b"1").outcome is Outcome.APPLIED
    sent = len(bucket.asked)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        # The system ends a child that hangs: no handler in Python would run there.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        told = {call(store).outcome for call in [*CALLS.values(), lambda store: store.read("k")]}
        os.write(writing, b"refused" if told == {Outcome.REJECTED} else b"sent")
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b"refused"
    os.waitpid(child, 0)
    assert len(bucket.asked) == sent
    assert store.read("k").body == b"1"


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_an_endpoint_of_the_environment_is_taken_as_boto3_takes_it(base, bucket, monkeypatch, variable):
    """The bucket stands in the path. One client must not write to another place than the other one."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "MINE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv(variable, base.partition("endpoint=")[2])
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    bucket.told = None
    paths = []
    for client in ("boto3", "obstore"):
        bucket.asked.clear()
        uri = f"s3://a.bucket/p?region=us-east-1&client={client}"
        with contextlib.closing(open_store(uri, request_timeout_ns=20 * NS_PER_S)) as store:
            store.put("k", b"1")
        paths.append([each.path for each in bucket.asked])
    assert paths == [["/a.bucket/p/k"]] * 2


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_an_endpoint_of_the_uri_is_not_the_environments(base, bucket, monkeypatch, variable):
    """The URI names the server, and no variable sends a request elsewhere."""
    monkeypatch.setenv(variable, "http://127.0.0.1:9")
    bucket.told = None
    bucket.asked.clear()
    with opened(base) as store:
        assert store.put("k", b"1").outcome is Outcome.APPLIED
    assert [each.path for each in bucket.asked] == ["/bucket/p/k"]


def test_a_bucket_with_dots_is_no_part_of_amazons_host(monkeypatch):
    """The certificate covers one name before `s3.REGION.amazonaws.com`. A proxy sees which host is asked for."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "some")

    def refuse(connection: socket.socket, _over: object) -> None:
        connection.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
        connection.close()

    with stalled.serving(refuse) as server:
        for name in ("HTTPS_PROXY", "https_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{server.port}")
        with opened("s3://a.bucket/p?region=eu-west-1") as store:
            assert store.read("k").outcome is Outcome.AMBIGUOUS
        assert server.head.startswith(b"CONNECT s3.eu-west-1.amazonaws.com:443 ")


def test_another_client_is_refused_by_name():
    """The option has a closed set of values, and another cloud does not have it."""
    with pytest.raises(ConfigError, match="'curl' is not known; expected boto3 or obstore"):
        open_store("s3://bucket?client=curl", request_timeout_ns=NS_PER_S)
    with pytest.raises(ConfigError, match="unknown option 'client'"):
        open_store("gs://bucket?client=obstore", request_timeout_ns=NS_PER_S)


def test_a_closed_store_refuses_and_sends_nothing(base, bucket):
    """A heartbeat that is under way when another thread closes the store gets an answer, and no error of Python's."""
    with opened(base) as store:
        store.close()
        bucket.asked.clear()
        for call in [*CALLS.values(), lambda store: store.read("k")]:
            reply = call(store)
            assert (reply.outcome, reply.status) == (Outcome.REJECTED, None)
            assert reply.reason == "the store is closed; nothing was sent"
    assert bucket.asked == []
