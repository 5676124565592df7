"""The remembered version: a client that locks again after its own release need not read first.

Its release made a version, and that version probably still stands. The next
acquiring write may name it as its condition at once. The condition settles
whether the memory was right, so this is never unsafe; it saves a request per
cycle of a client that is alone. Once another client was seen to write in
between, the memory is not used until a look finds a release undisturbed again.

Optional: a lock without it reads before each acquiring write.
"""

from __future__ import annotations

from typing import Generic

from lockref.locks.values import R, Stored


class RememberedVersion(Generic[R]):
    """The record and version that our last release left.

    The next acquiring write may name that version without a read. After a look that found another version there, it
    may not, until a look finds a release of ours still in place.
    """

    def __init__(self) -> None:
        self._left: Stored[R] | None = None
        # The record that was remembered, while the next acquiring write relies on it without a read.
        self._unchecked: Stored[R] | None = None
        self._is_trusted = True

    def take(self) -> Stored[R] | None:
        """The record of our own release, if it probably still stands. It is taken once."""
        self._unchecked, self._left = self._left, None
        return self._unchecked if self._is_trusted else None

    def looked(self, stored: Stored[R]) -> None:
        """Note a look at the record: did another client come in between?"""
        left, self._unchecked = self._unchecked, None
        if left is not None:
            self._is_trusted = left.version == stored.version

    def released(self, left: Stored[R]) -> None:
        """A release of ours has landed, and this is what it left."""
        # A write that relied on the memory and landed has shown that it was right.
        self._left, self._unchecked = left, None
