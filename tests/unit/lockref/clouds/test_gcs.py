"""GCS: the status table row by row, replies without an answer, the shape of a request."""

from __future__ import annotations

import io
import json
import threading

import pytest
import requests
from google.auth.exceptions import RefreshError
from urllib3.exceptions import MaxRetryError, NewConnectionError

from lockref.clouds.gcs.client import BODY_BYTES_MAX, GcsStore, make_session
from lockref.clouds.gcs.facts import NO_SUCH_BUCKET, NO_SUCH_OBJECT, OUTCOMES
from lockref.clouds.statuses import classify
from lockref.runtime import NS_PER_S
from lockref.stores.port import Version
from lockref.words import Outcome

O = Outcome  # noqa: E741
ENDPOINT = "http://127.0.0.1:1"


class FakeAdapter(requests.adapters.BaseAdapter):
    """Answers every request with one prepared response, or raises one prepared error."""

    def __init__(self):
        super().__init__()
        self.requests = []
        self.timeouts = []
        self.answer = (200, {}, b"{}")

    def send(self, request, timeout=None, **_arguments):
        self.requests.append(request)
        self.timeouts.append(timeout)
        if isinstance(self.answer, Exception):
            raise self.answer
        response = requests.Response()
        response.status_code, headers, body = self.answer
        response.headers.update(headers)
        response.raw = io.BytesIO(body)
        response.request = request
        response.url = request.url
        return response

    def close(self):
        pass


@pytest.fixture
def adapter():
    return FakeAdapter()


@pytest.fixture
def store(adapter):
    session = make_session(endpoint=ENDPOINT, pool_size=1)
    session.mount("http://", adapter)
    store = GcsStore(bucket="bucket", prefix="p", endpoint=ENDPOINT, request_timeout_ns=NS_PER_S, session=session)
    yield store
    store.close()


def _error(status: int, message: str = "no", reason: str = "") -> tuple[int, dict[str, str], bytes]:
    errors = [{"reason": reason, "message": message}] if reason else []
    body = {"error": {"code": status, "message": message, "errors": errors}}
    return status, {"Content-Type": "application/json"}, json.dumps(body).encode()


# Written out by hand, so that a changed row of the table fails here.
EXPECTED = {
    412: (O.PRECONDITION_FAILED, False),
    409: (O.CONFLICT, False),
    429: (O.THROTTLED, False),
    408: (O.AMBIGUOUS, False),
    304: (O.PRECONDITION_FAILED, False),
    400: (O.REJECTED, False),
    401: (O.REJECTED, False),
    403: (O.REJECTED, False),
    405: (O.REJECTED, False),
    501: (O.REJECTED, False),
    308: (O.REJECTED, False),
    500: (O.AMBIGUOUS, False),
    502: (O.AMBIGUOUS, False),
    503: (O.AMBIGUOUS, False),
    504: (O.AMBIGUOUS, False),
}
CALLS = {
    "create": lambda store: store.put_if_absent("k", b"1"),
    "replace": lambda store: store.put_if_version("k", b"1", Version("7")),
    "delete": lambda store: store.delete("k", Version("7")),
}


@pytest.mark.parametrize("status", EXPECTED)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_refused_write_is_classified_by_status(store, adapter, call, status):
    """A5: each answer has its own branch, and is asked for once."""
    adapter.answer = _error(status, reason="someReason")
    reply = call(store)
    assert (reply.outcome, reply.missing) == EXPECTED[status]
    assert (reply.status, reply.version) == (status, None)
    assert len(adapter.requests) == 1


@pytest.mark.parametrize(
    ("call", "message", "outcome", "missing"),
    [
        ("create", "The specified bucket does not exist.", O.REJECTED, False),
        ("create", "Not Found", O.REJECTED, False),
        ("replace", "Not Found", O.REJECTED, False),
        ("delete", "No such object: bucket/p/k", O.PRECONDITION_FAILED, True),
        ("delete", "Not Found", O.PRECONDITION_FAILED, True),
        ("delete", "The specified bucket does not exist.", O.REJECTED, False),
        ("delete", "Live version of object my-bucket/p/k does not exist.", O.PRECONDITION_FAILED, True),
        ("delete", "No such object: bucket/p/bucket that does not exist", O.PRECONDITION_FAILED, True),
        ("delete", "Bucket bucket does not exist.", O.REJECTED, False),
        ("replace", "No such object: bucket/p/k", O.PRECONDITION_FAILED, True),
    ],
)
def test_a_404_is_the_bucket_or_the_object(store, adapter, call, message, outcome, missing):
    """GCS has one reason for both: an upload can miss only its bucket, a delete says which in its message."""
    adapter.answer = _error(404, message, "notFound")
    reply = CALLS[call](store)
    assert (reply.outcome, reply.missing, reply.status) == (outcome, missing, 404)


def test_every_row_of_the_table_has_an_expectation():
    """A row that no expectation above meets would be untested."""
    met = {classify(OUTCOMES, status).why for status in EXPECTED}
    met |= {classify(OUTCOMES, 404, code).why for code in (NO_SUCH_OBJECT, NO_SUCH_BUCKET)}
    met.add(classify(OUTCOMES, 400, "NotImplemented").why)
    met.add(classify(OUTCOMES, 200).why)
    assert met == {row.why for row in OUTCOMES}


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (_error(404, "No such object: bucket/p/k", "notFound"), O.APPLIED),
        ((404, {}, b"Not Found"), O.APPLIED),
        (_error(404, "The specified bucket does not exist.", "notFound"), O.REJECTED),
        (_error(403), O.REJECTED),
        (_error(401), O.REJECTED),
        (_error(429), O.THROTTLED),
        (_error(503), O.AMBIGUOUS),
        ((200, {}, b"body"), O.AMBIGUOUS),
    ],
)
def test_a_read_without_a_body_is_absent_only_if_the_object_is_missing(store, adapter, answer, outcome):
    """An absent object is an answer; a denial is not; data without a generation cannot be built upon."""
    adapter.answer = answer
    reply = store.read("k")
    assert (reply.outcome, reply.body) == (outcome, None)
    assert reply.is_absent == (outcome is O.APPLIED)
    assert len(adapter.requests) == 1


def test_a_read_takes_body_and_generation_from_one_answer(store, adapter):
    """Two requests could see two versions; the header of the data carries its own."""
    adapter.answer = (200, {"x-goog-generation": "17", "Content-Length": "4"}, b"body")
    reply = store.read("k")
    assert (reply.body, reply.version) == (b"body", "17")
    assert len(adapter.requests) == 1


@pytest.mark.parametrize(
    ("call", "condition"),
    [
        (CALLS["create"], "ifGenerationMatch=0"),
        (CALLS["replace"], "ifGenerationMatch=7"),
        (CALLS["delete"], "ifGenerationMatch=7"),
        (lambda store: store.put("k", b"1"), None),
    ],
)
def test_conditions_reach_the_request(store, adapter, call, condition):
    """A create asks for generation 0, a replacement for the one it read; a put sets no condition."""
    adapter.answer = (200, {"Content-Type": "application/json"}, json.dumps({"generation": "8"}).encode())
    # A removal makes no generation, and this answer has no sign of the service.
    assert call(store).outcome is (O.AMBIGUOUS if call is CALLS["delete"] else O.APPLIED)
    (request,) = adapter.requests
    assert (condition in request.url) if condition else ("ifGeneration" not in request.url)
    if request.method == "POST":
        assert "uploadType=multipart" in request.url
        assert b'"p/k"' in request.body
    else:
        assert "/o/p%2Fk?" in request.url


@pytest.mark.parametrize(("endpoint", "uses_proxies"), [(ENDPOINT, False), ("http://10.0.0.1:1", True)])
def test_loopback_endpoints_use_no_proxy(endpoint, uses_proxies):
    """A proxy from the environment must not see requests to this machine."""
    session = make_session(endpoint=endpoint, pool_size=1)
    assert session.trust_env is uses_proxies
    session.close()


def test_an_upload_reports_the_generation_it_made(store, adapter):
    """The version is the generation, as text; a success without one is ambiguous."""
    adapter.answer = (200, {}, json.dumps({"generation": "8"}).encode())
    assert store.put("k", b"1").version == "8"
    adapter.answer = (200, {}, b"{}")
    assert store.put("k", b"1").outcome is O.AMBIGUOUS
    adapter.answer = (200, {}, b'{"generation"')
    cut = store.put("k", b"1")
    assert (cut.outcome, cut.version) == (O.AMBIGUOUS, None)


def _refused() -> requests.ConnectionError:
    return requests.ConnectionError(MaxRetryError(None, "/", NewConnectionError(None, "refused, secret")))


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (_refused(), "nothing was sent"),
        (requests.ConnectTimeout("secret"), "nothing was sent"),
        (RefreshError("secret"), "nothing was sent"),
        (requests.ReadTimeout("secret"), "may have taken effect"),
        (requests.ConnectionError("secret"), "may have taken effect"),
        (requests.exceptions.ChunkedEncodingError("secret"), "may have taken effect"),
    ],
)
def test_no_answer_is_ambiguous_and_says_whether_anything_was_sent(store, adapter, error, hint):
    """A1: network errors mean unknown, are not retried, and are not quoted."""
    adapter.answer = error
    for call in (*CALLS.values(), lambda store: store.read("k")):
        adapter.requests.clear()
        reply = call(store)
        assert (reply.outcome, reply.status) == (O.AMBIGUOUS, None)
        assert hint in reply.reason
        assert "secret" not in reply.reason
        assert len(adapter.requests) == 1


def test_no_request_starts_a_thread(store, adapter, monkeypatch):
    """The client's own bucket lookup in the background would be a second request that nobody bounds."""
    started = []
    monkeypatch.setattr(threading.Thread, "start", lambda thread: started.append(thread.name))
    for call in (*CALLS.values(), lambda store: store.read("k")):
        call(store)
    assert started == []


def test_connecting_and_waiting_together_stay_within_the_timeout(store, adapter):
    """One request may take its time-out, not twice that."""
    store.put("k", b"1")
    assert sum(adapter.timeouts[0]) == pytest.approx(1.0)


@pytest.mark.parametrize("version", ["", "0", "-1", "abc", '"etag"'])
def test_a_version_that_is_no_generation_is_the_callers_mistake(store, version):
    """Generation 0 means "absent": passed as a version it would turn a replacement into a create."""
    with pytest.raises(ValueError):
        store.put_if_version("k", b"1", Version(version))
    with pytest.raises(ValueError):
        store.delete("k", Version(version))


def test_a_body_that_needs_several_requests_is_refused(store):
    """Above 8 MiB the client would switch to a resumable upload, whose conditions some servers ignore."""
    with pytest.raises(ValueError):
        store.put("k", bytes(BODY_BYTES_MAX + 1))


def test_a_session_sends_once_and_keeps_as_many_connections_as_asked_for():
    """A2: urllib3 does not send again by itself; one connection per thread that shares the store."""
    session = make_session(endpoint=ENDPOINT, pool_size=37)
    for scheme in ("http://", "https://"):
        adapter = session.get_adapter(scheme)
        assert (adapter.max_retries.total, adapter._pool_maxsize) == (0, 37)
    session.close()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_redirect_is_an_answer_and_is_not_followed(store, adapter, call):
    """A2: to follow it would be a second request, perhaps to another host."""
    adapter.answer = (307, {"Location": "http://127.0.0.1:9/elsewhere"}, b"")
    reply = call(store)
    assert (reply.outcome, reply.status) == (O.REJECTED, 307)
    assert len(adapter.requests) == 1
