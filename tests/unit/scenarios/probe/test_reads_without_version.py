"""A read that shows no version: its version is that of the object's resource, if the object stood still meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lockref.clouds.calls import DELETE, READ, RESOURCE, Answer, Call, HttpReply, Inexpressible
from lockref.clouds.uri import parse_store_uri
from lockref.words import Outcome
from scenarios.probe.exchange import WireStore
from scenarios.probe.opening import open_endpoint

BARE = HttpReply(status=200, headers={}, body=b"held")
READ_K = Call(verb=READ, key="k")


def resource(generation: str) -> HttpReply:
    return HttpReply(
        status=200, headers={}, body=b'{"kind": "storage#object", "generation": "%b"}' % generation.encode()
    )


ABSENT = HttpReply(status=404, headers={}, body=b'{"error": {"message": "No such object: b/k"}}')
PAGE = HttpReply(status=200, headers={}, body=b"<html>")


def wire_store(uri: str = "gs://bucket?endpoint=http://127.0.0.1:9") -> WireStore:
    store = open_endpoint(parse_store_uri(uri))
    assert isinstance(store, WireStore)
    return store


class Scripted(WireStore):
    """A store that gives these replies in turn. asked: the requests, as they would be sent."""

    def __init__(self, uri: str, replies: Sequence[HttpReply]) -> None:
        super().__init__(wire_store(uri).dialect)
        self._replies = list(replies)
        self.asked: list[str] = []

    def _sent(self, call: Call) -> Answer:
        request = self.dialect.form(call)
        self.asked.append(f"{request.method} {request.target}")
        return self.dialect.answer(call, self._replies.pop(0))


def scripted(*replies: HttpReply, uri: str = "gs://bucket?endpoint=http://127.0.0.1:9") -> Scripted:
    return Scripted(uri, replies)


def test_the_version_is_that_of_the_resource_around_the_read() -> None:
    """gcp-storage-emulator: the probe ended at its first read, and a store that ignores conditions was none of its."""
    store = scripted(BARE, resource("7"), BARE, resource("7"))
    found = store.send(READ_K)
    assert (found.outcome, found.version, found.body) == (Outcome.APPLIED, "7", b"held")
    assert store.reads_name_no_version
    about = "GET /storage/v1/b/bucket/o/k"
    first, *rest = store.asked
    assert first == "GET /download/storage/v1/b/bucket/o/k?alt=media"
    assert rest == [about, "GET /download/storage/v1/b/bucket/o/k?alt=media&generation=7", about]


def test_an_object_that_changes_meanwhile_is_read_again() -> None:
    """Its bytes are of one version or the other, and nobody knows of which."""
    store = scripted(BARE, resource("7"), BARE, resource("8"), resource("8"), BARE, resource("8"))
    assert store.send(READ_K).version == "8"
    restless = [BARE, *(resource(str(n)) if n % 3 != 1 else BARE for n in range(9))]
    store = scripted(*restless)
    assert store.send(READ_K).outcome is Outcome.AMBIGUOUS
    assert not store.reads_name_no_version


@pytest.mark.parametrize(
    ("replies", "outcome", "is_absent"),
    [
        ([BARE, ABSENT], Outcome.APPLIED, True),
        ([BARE, PAGE], Outcome.AMBIGUOUS, False),
        ([BARE, resource("7"), HttpReply(status=503, headers={}, body=b"")] * 3, Outcome.AMBIGUOUS, False),
    ],
)
def test_a_resource_that_tells_no_version_leaves_the_read_as_it_was(
    replies: list[HttpReply], outcome: Outcome, is_absent: bool
) -> None:
    found = scripted(*replies).send(READ_K)
    assert (found.outcome, found.is_absent) == (outcome, is_absent)


@pytest.mark.parametrize(
    "uri", ["s3://bucket?endpoint=http://127.0.0.1:9", "az://bucket?endpoint=http://127.0.0.1:9/devstoreaccount1"]
)
def test_where_there_is_no_resource_nothing_more_is_asked(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer of S3 and of Azure tells the version, or the read is not understood."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "devstoreaccount1")
    monkeypatch.setenv("AZURE_STORAGE_KEY", "c2VjcmV0")
    store = scripted(BARE, uri=uri)
    assert store.send(READ_K).outcome is Outcome.AMBIGUOUS
    assert len(store.asked) == 1
    with pytest.raises(Inexpressible):
        store.dialect.form(Call(verb=RESOURCE, key="k"))


def test_what_is_understood_is_asked_once() -> None:
    """A read with its generation, one under a condition, and what is no read."""
    whole = HttpReply(status=200, headers={"x-goog-generation": "7"}, body=b"held")
    for call, reply in (
        (READ_K, whole),
        (Call(verb=READ, key="k", match="7"), BARE),
        (Call(verb=DELETE, key="k"), PAGE),
    ):
        store = scripted(reply)
        store.send(call)
        assert len(store.asked) == 1
