"""E34: the version that a release left, and when it may be named without a read."""

from __future__ import annotations

from typing import Any

from lockref.locks.shortcut import RememberedVersion
from lockref.locks.values import Stored
from lockref.storage.lockfile import LockFile
from lockref.stores.port import Version


def stored(version: str) -> Stored[LockFile]:
    return Stored(Version(version), LockFile("me", 1, expired=True))


def test_a_version_that_another_client_replaced_is_not_trusted_again_before_a_look_finds_one_undisturbed():
    """The write on it was refused, and the look found something else."""
    memory: RememberedVersion[Any] = RememberedVersion()
    memory.released(stored("a"))
    assert memory.take() == stored("a")
    memory.looked(stored("of another client"))
    memory.released(stored("b"))
    assert memory.take() is None
    memory.looked(stored("b"))
    memory.released(stored("c"))
    assert memory.take() == stored("c")


def test_a_write_on_it_that_landed_has_shown_that_it_was_right():
    """So the next look, which finds another client's grant after our turn, says nothing against it."""
    memory: RememberedVersion[Any] = RememberedVersion()
    memory.released(stored("a"))
    assert memory.take() == stored("a")
    memory.released(stored("b"))
    memory.looked(stored("of another client"))
    memory.released(stored("c"))
    assert memory.take() == stored("c")


def test_a_version_is_taken_once():
    """A second write on it would be in vain."""
    memory: RememberedVersion[Any] = RememberedVersion()
    assert memory.take() is None
    memory.released(stored("a"))
    assert memory.take() == stored("a")
    assert memory.take() is None
