"""Requests as data: a store behind a channel answers as the store itself does."""

from __future__ import annotations

import itertools

import pytest

from lockref.errors import ConfigError
from lockref.history import Recorder, to_table
from lockref.lab.recording import Journal, recorded_store
from lockref.stores.client import OBJECT_STORE, StoreChannel
from lockref.stores.memory import MemoryStore
from lockref.stores.port import Version

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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda store: store.read(""), "read was given the key ''"),
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
