"""What is written down of requests, and as what."""

from __future__ import annotations

import itertools
import pickle

import pytest

from lockref.history import Recorder, to_table
from lockref.lab.contract import OneRecord
from lockref.lab.recording import Journal, recorded_store
from lockref.storage.lockfile import LockFile, decode, serialize
from lockref.stores.memory import MemoryStore
from lockref.stores.port import Version
from lockref.words import Kind, Op

KEY = "lock.json"
LIVE = LockFile("me", 1000, expired=False, nonce="n")
RELEASED = LockFile("me", 1000, expired=True, nonce="n")


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def store(recorder):
    journal = Journal(recorder, node="n1", stamp=lambda: (1, 2, 3, "main"), numbers=itertools.count())
    return recorded_store(MemoryStore(), journal=journal, decode=OneRecord(decode))


def rows(recorder: Recorder, kind: Kind) -> list[dict]:
    return [row for row in to_table([recorder]).to_pylist() if row["kind"] == kind.name.lower()]


def operations(recorder: Recorder) -> list[str]:
    return [row["op"] for row in rows(recorder, Kind.SENT)]


def test_what_follows_a_grant_is_a_renewal_until_it_is_over(store, recorder):
    """A live record by the owner who last wrote one is a renewal; after a release or a deletion it is a new grant."""
    for end in (lambda: store.delete(KEY), lambda: store.put(KEY, serialize(RELEASED))):
        store.put(KEY, serialize(LIVE))
        store.put(KEY, serialize(LIVE))
        end()
    store.put(KEY, serialize(LIVE))
    assert operations(recorder) == ["acquire", "renew", "delete", "acquire", "renew", "release", "acquire"]


def test_a_refused_grant_is_followed_by_another_try(store, recorder):
    """Only a write that was applied makes its owner the holder."""
    store.put_if_version(KEY, serialize(LIVE), Version("7"))
    store.put_if_absent(KEY, serialize(LIVE))
    assert operations(recorder) == ["acquire", "acquire"]


def test_conditions_and_absence_are_written_down(store, recorder):
    """A create requires absence, a put nothing; a refusal tells whether there was no object at all."""
    store.put_if_version(KEY, serialize(LIVE), Version("7"))
    store.put_if_absent(KEY, serialize(LIVE))
    store.put_if_absent(KEY, serialize(LIVE))
    store.put(KEY, serialize(LIVE))
    assert [row["if_version"] for row in rows(recorder, Kind.SENT)] == ["7", "absent", "absent", None]
    assert [(row["detail"] or "").startswith("missing") for row in rows(recorder, Kind.REPLIED)] == [
        True, False, False, False,
    ]  # fmt: skip


def test_a_recorder_that_crossed_to_another_process_goes_on_as_it_was(recorder):
    """One text keeps one code, so a record that travelled has the digest of one that did not."""
    twin = Recorder()
    for one in (recorder, twin):
        one.event(Kind.CALL, (1, 1, 1, "main"), "n1", "lock", Op.ACQUIRE)
    recorder = pickle.loads(pickle.dumps(recorder))
    for one in (recorder, twin):
        one.event(Kind.RETURN, (2, 2, 2, "main"), "n1", "lock", Op.ACQUIRE)
    assert recorder.digest() == twin.digest()
