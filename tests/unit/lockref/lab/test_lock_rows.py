"""What a recorder remembers of objects that tell of several locks."""

from __future__ import annotations

from lockref.lab import lock_rows
from lockref.lab.lock_rows import LockRows
from lockref.provider import LockView
from lockref.words import Op

NAMED = [LockView(owner="n1", lock="a"), LockView(owner="n1", lock="b")]


def left_out(rows: LockRows, key: str) -> list[str]:
    """The locks that a write of `a` alone gives back."""
    return [lock for lock, op, *_ in rows.rows(key, Op.WRITE, NAMED[:1]) if op is Op.RELEASE]


def test_a_lock_that_a_write_leaves_out_is_given_back() -> None:
    rows = LockRows()
    rows.remember("x", NAMED)
    assert left_out(rows, "x") == ["b"]
    rows.remember("x", ())
    assert left_out(rows, "x") == []


def test_the_object_that_was_not_looked_at_for_longest_is_forgotten(monkeypatch) -> None:
    """Each session of an instance has an object of its own. A recorder that kept them all grew as long as it ran."""
    monkeypatch.setattr(lock_rows, "OBJECTS_MAX", 3)
    rows = LockRows()
    for key in ("x", "y", "z", "x", "w"):
        rows.remember(key, NAMED)
    assert [left_out(rows, key) for key in ("w", "x", "y", "z")] == [["b"], ["b"], [], ["b"]]
