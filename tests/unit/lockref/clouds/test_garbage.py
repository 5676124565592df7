"""Servers that answer something else than S3, GCS or Azure: what came is said in a few words, without its content."""

from __future__ import annotations

import pytest

from lockref.stores.port import Version
from lockref.words import Outcome
from tests.unit.lockref.clouds.test_stalled_bodies import ACCOUNT_IN, Answer, at_once, serving, store_at


def _answer(status: bytes, media: bytes, body: bytes) -> Answer:
    return at_once(
        b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (status, media, len(body), body)
    )


SECRET = b"hunter2"
GARBAGE = {
    "a page": _answer(b"200 OK", b"text/html; charset=utf-8", b"<html>%b</html>" % SECRET),
    "an object": _answer(b"200 OK", b"application/json", b'{"key": "%b"}' % SECRET),
    "a list": _answer(b"200 OK", b"application/json", b'["%b"]' % SECRET),
    "a string": _answer(b"200 OK", b"application/json", b'"%b"' % SECRET),
    "half of XML": _answer(b"200 OK", b"application/xml", b"<%b" % SECRET),
    "an error": _answer(b"200 OK", b"application/xml", b"<Error><Code>InternalError</Code></Error>"),
    "nothing": _answer(b"200 OK", b"text/plain", b""),
    "an odd type": _answer(b"200 OK", b"x" * 300 + b"/" + SECRET, b"x"),
}


@pytest.mark.parametrize("scheme", ACCOUNT_IN)
@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_is_an_answer_lost_and_told_as_what_came(scheme: str, what: str) -> None:
    """A1: 200 with what none of the clouds ever says is ambiguous, never an exception, and never called a 500."""
    with serving(GARBAGE[what]) as server, store_at(scheme, server, timeout_ms=20_000) as store:
        replies = [store.read("key"), store.put_if_absent("key", b"x"), store.put_if_version("key", b"x", Version("7"))]
    for reply in replies:
        assert (reply.outcome, reply.status) == (Outcome.AMBIGUOUS, 200)
        assert reply.reason.startswith("200 with ")
        assert "500" not in reply.reason
        assert SECRET.decode() not in reply.reason
    if what == "a page":
        assert all("20 bytes of text/html" in reply.reason for reply in replies)


@pytest.mark.parametrize("scheme", ACCOUNT_IN)
def test_a_status_is_told_once(scheme: str) -> None:
    """An error without a code of its own reads `502: …`, not `502 502: …`."""
    page = _answer(b"502 Bad Gateway", b"text/html", b"<html></html>")
    with serving(page) as server, store_at(scheme, server, timeout_ms=20_000) as store:
        reply = store.put_if_absent("key", b"x")
    assert (reply.outcome, reply.status) == (Outcome.AMBIGUOUS, 502)
    assert reply.reason.startswith("502: ")


def test_dummy_credentials_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """What is sent where nothing is configured is no secret; with credentials there is nothing to tell."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    with serving(GARBAGE["a page"]) as server:
        with store_at("s3", server, timeout_ms=20_000) as store:
            assert "dummy" in store.credentials_note
        with store_at("gs", server, timeout_ms=20_000) as store:
            assert "no Google credentials" in store.credentials_note
        with store_at("az", server, timeout_ms=20_000) as store:
            assert "well-known key" in store.credentials_note
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mine")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        with store_at("s3", server, timeout_ms=20_000) as store:
            assert store.credentials_note == ""
