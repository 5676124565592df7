"""dynamodb_lock, the crate that delta-rs used: 0.5, 0.6.1, and 0.6.1 with the proposed fix.

One attempt: read; no row: put if absent; released: put if still released; otherwise remember the first holder and add
its lease to the time to wait; take over if the version stood still and counts as expired; else sleep and read again.
There is no heartbeat. Release deletes the row if version and owner match.

| build | leaseDuration | expired |
|---|---|---|
| 0.5 | S, seconds | wall clock: a lease after the version was first seen (B4) |
| 0.6.1 | N, the epoch second of its end | never: it is read as S, which it is not (B1) |
| 0.6.1 with PR #6 | the same, read as N | always: epoch seconds are compared with milliseconds (B2, B3) |

Source: delta-incubator/dynamodb-lock-rs 562263f, src/lib.rs (`acquire_lock`, `is_expired`, `release_lock`); PR #6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lockref.dynamodb.item import DATA, DURATION, NOT_ACQUIRABLE, OWNER, RELEASED
from lockref.dynamodb.shipped.row_lock import AnotherAttempt, RowLock, number_in, version_in, words_in
from lockref.dynamodb.table import KEY, VERSION, Attribute, Clause, absent, equals, exists, number, text
from lockref.errors import LockNotAcquirable
from lockref.provider import LockContext
from lockref.runtime import NS_PER_MS, NS_PER_S

ADDITIONAL_WAIT_NS = NS_PER_S
"""`additional_time_to_wait_for_lock` of 0.5. 0.6.1 waits ten seconds; scenarios here are shorter than that."""


@dataclass(slots=True)
class _Sighting:
    """The holder that an attempt saw: its version, and when by the wall clock, in milliseconds."""

    version: str
    at_ms: int


class Crate(RowLock):
    """0.5: the lease is text, and counted by the waiter, on its wall clock."""

    def __init__(self, context: LockContext) -> None:
        super().__init__(context)
        self.data: str | None = None
        self.took_over = False

    def lease_attribute(self) -> Attribute:
        """What a write puts into `leaseDuration`."""
        return text(str(self.lease_ns // NS_PER_S))

    def lease_s(self, row: dict[str, Any]) -> int | None:
        """What a reader understands of `leaseDuration`; None: nothing."""
        words = words_in(row, DURATION)
        return int(words) if words is not None and words.isdecimal() else None

    def is_expired(self, lease_s: int | None, seen_ms: int) -> bool:
        """`is_expired`: without a lease it never is."""
        return lease_s is not None and self._wall_ms() - seen_ms > lease_s * 1000

    def _wall_ms(self) -> int:
        return self.runtime.wall_ns() // NS_PER_MS

    def acquire(self, *, may_wait: bool, until_ns: int) -> bool:
        began_ms, timeout_ms = self._wall_ms(), ADDITIONAL_WAIT_NS // NS_PER_MS
        seen: _Sighting | None = None
        while True:
            row = self.row()
            if row is None:
                if self._put(None, absent(KEY)):
                    return True
            elif NOT_ACQUIRABLE in row:
                raise LockNotAcquirable(f"locking {self.key}: the row is marked {NOT_ACQUIRABLE}")
            elif RELEASED in row:
                if self._put(row, exists(RELEASED)):
                    return True
            else:
                lease_s = self.lease_s(row)
                if seen is None:
                    # Only the first holder's lease is waited for (B7); epoch seconds are 54 years (B3).
                    timeout_ms += (lease_s or 0) * 1000
                    seen = _Sighting(version_in(row), self._wall_ms())
                elif seen.version != version_in(row):
                    seen = _Sighting(version_in(row), self._wall_ms())
                elif self.is_expired(lease_s, seen.at_ms) and self._put(row, equals(VERSION, text(seen.version))):
                    self.took_over = True
                    return True
            if not may_wait or self.runtime.monotonic_ns() + self.poll_ns > until_ns:
                return False
            if self._wall_ms() - began_ms > timeout_ms and not self._waits_for_ever(row):
                raise AnotherAttempt(f"locking {self.key}: timed out")
            self.runtime.sleep(self.poll_ns)

    def _waits_for_ever(self, _row: dict[str, Any] | None) -> bool:
        """Does a holder keep the attempt's own timeout from firing?"""
        return False

    def _put(self, before: dict[str, Any] | None, *clauses: Clause) -> bool:
        """Write the row as ours. What a dead holder was about to do is copied forward (B12)."""
        version = self.new_version()
        self.data = None if before is None else words_in(before, DATA)
        row = {OWNER: text(self.owner), VERSION: text(version), DURATION: self.lease_attribute()}
        if self.data is not None:
            row[DATA] = text(self.data)
        if not self.is_ours(self.table.put(self.key, row, *clauses)):
            return False
        self.held, self.took_over = version, False
        return True

    def release(self, version: str) -> bool:
        """Delete the row; whatever counted in it is gone (T9)."""
        clauses = (equals(OWNER, text(self.owner)), equals(VERSION, text(version)))
        return self.is_ours(self.table.delete(self.key, *clauses))


class CrateWithTimeToLive(Crate):
    """0.6.1: `leaseDuration` is also the table's time-to-live attribute, so it became a number (B5)."""

    def lease_attribute(self) -> Attribute:
        return number((self.runtime.wall_ns() + self.lease_ns) // NS_PER_S)

    def _waits_for_ever(self, row: dict[str, Any] | None) -> bool:
        """B1: while somebody holds, an attempt never times out."""
        return row is not None and self.lease_s(row) is None


class CrateWithFix(CrateWithTimeToLive):
    """0.6.1 with PR #6: the number is read, and compared with what it is not."""

    def lease_s(self, row: dict[str, Any]) -> int | None:
        found = number_in(row, DURATION)
        return super().lease_s(row) if found is None else found

    def is_expired(self, lease_s: int | None, seen_ms: int) -> bool:
        """Epoch seconds against milliseconds: always (B2)."""
        return lease_s is not None and seen_ms > lease_s

    def _waits_for_ever(self, row: dict[str, Any] | None) -> bool:
        return False
