"""H20, E34: what a record tells those who wait for the lock."""

from __future__ import annotations

import pytest

from lockref.locks.turn_note import LEFT_MAX, TurnNote
from lockref.storage.lockfile import LockFile, parse, parse_strictly_as_hudi, serialize


def record(nonce: str | None) -> LockFile:
    return LockFile("somebody", 1_700_000_000_000, expired=False, nonce=nonce, fence=1)


def test_note_survives_the_bytes_of_a_record():
    """A note is the end of a nonce, so a record that carries one is read by both readers as before."""
    body = serialize(record("00ff" + TurnNote(3, 140, 77).text()))
    assert TurnNote.of(parse(body)) == TurnNote(3, 140, 77)
    assert parse_strictly_as_hudi(body).owner == "somebody"


@pytest.mark.parametrize(
    "nonce", [None, "", "00ff", "00ff.3", "00ff.3.1", "00ff.-3.1.5", "00ff.3.1.5.", "00ff.3.1.5\n", "00ff.333.1.5"]
)
def test_a_nonce_without_a_note_tells_nothing(nonce):
    """Records of Hudi and of older clients, and damaged ones."""
    assert TurnNote.of(record(nonce)) == TurnNote()


def test_a_note_cannot_claim_a_longer_turn_than_there_is():
    """A wrong note makes waiters slower for one turn at most."""
    assert TurnNote.of(record("00ff.99.999999.7")) == TurnNote(LEFT_MAX, 999_999, 7)
