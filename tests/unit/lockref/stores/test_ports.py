"""Requests as data: a store behind a channel answers as the store itself does."""

from __future__ import annotations

import itertools

import pytest

from lockref.errors import ConfigError
from lockref.history import Recorder, to_table
from lockref.lab.recording import Journal, recorded_store
from lockref.stores.client import OBJECT_STORE, StoreChannel
from lockref.stores.memory import MemoryStore
from lockref.stores.port import ReadReply, Version, WriteReply
from lockref.words import Outcome

CALLS = [
    lambda store, _: store.read("k"),
    lambda store, _: store.put_if_version("k", b"x", Version("none")),
    lambda store, _: store.put_if_absent("k", b"a"),
    lambda store, _: store.put_if_absent("k", b"b"),
    lambda store, seen: store.put_if_version("k", b"c", seen[2].version),
    lambda store, seen: store.put_if_version("k", b"d", seen[2].version),
    lambda store, _: store.put("k", b"e"),
    lambda store, _: store.read("k"),
    lambda store, seen: store.delete("k", seen[2].version),
    lambda store, seen: store.delete("k", seen[6].version),
    lambda store, _: store.delete("k"),
]


def answers(store) -> list:
    seen: list = []
    for call in CALLS:
        seen.append(call(store, seen))
    return seen


def test_a_store_behind_a_channel_answers_as_itself():
    """Every call through request and reply gives the reply that the store gives."""
    plain, channelled = MemoryStore(), OBJECT_STORE.over(StoreChannel(MemoryStore()), 0)
    assert answers(channelled) == answers(plain)
    assert channelled.capabilities == plain.capabilities


def test_a_recorded_store_answers_as_itself():
    """Recording changes no answer, and gives every request two rows under one number."""
    recorder = Recorder()
    journal = Journal(recorder, node="n1", stamp=lambda: (1, 2, 3, "main"), numbers=itertools.count())
    assert answers(recorded_store(MemoryStore(), journal=journal, decode=lambda _key, _body: ())) == answers(
        MemoryStore()
    )
    rows = [(row["kind"], row["request"]) for row in to_table([recorder]).to_pylist()]
    assert rows == [(kind, number) for number in range(len(CALLS)) for kind in ("sent", "replied")]


class Refuses(MemoryStore):
    """Answers every call with a status and a reason, and notes that it was closed."""

    is_closed = False

    def read(self, key):
        return ReadReply(outcome=Outcome.REJECTED, status=403, reason="not yours")

    def put(self, key, body):
        return WriteReply(outcome=Outcome.THROTTLED, status=429, reason="slow down")

    def close(self):
        self.is_closed = True


def test_status_and_reason_come_through_a_channel():
    """What a store says beside its outcome is for people and logs; nothing of it is lost on the way."""
    store = Refuses()
    channelled = OBJECT_STORE.over(StoreChannel(store), 0)
    assert channelled.read("k") == store.read("k")
    assert channelled.put("k", b"x") == store.put("k", b"x")


def test_who_closes_a_client_closes_its_store():
    """close: sockets and threads of the store are given back, recorded or not."""
    journal = Journal(Recorder(), node="n1", stamp=lambda: (1, 2, 3, "main"), numbers=itertools.count())
    plain, recorded = Refuses(), Refuses()
    OBJECT_STORE.over(StoreChannel(plain), 0).close()
    recorded_store(recorded, journal=journal, decode=lambda _key, _body: ()).close()
    assert (plain.is_closed, recorded.is_closed) == (True, True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda store: store.read(""), "read was given the key ''"),
        (lambda store: store.delete(""), "delete was given the key ''"),
        (lambda store: store.put_if_absent("k", "text"), "put_if_absent was given the body 'text'"),
        (lambda store: store.put("k", "text"), "put was given the body 'text'"),
        (lambda store: store.put_if_version("k", b"", None), "put_if_version was given the version None"),
        (lambda store: store.put_if_version("k", b"", ""), "put_if_version was given the version ''"),
        (lambda store: store.put_if_version("k", b"", "absent"), "put_if_version was given the version 'absent'"),
        (lambda store: store.delete("k", 7), "delete was given the version 7"),
    ],
)
def test_what_is_no_request_is_refused(call, message):
    """A condition on nothing would be no condition: the mistake is named before anything is sent."""
    with pytest.raises(ConfigError, match=message):
        call(OBJECT_STORE.over(StoreChannel(MemoryStore()), 0))
