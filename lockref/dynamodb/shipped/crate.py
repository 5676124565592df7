"""dynamodb_lock, the crate that delta-rs used: 0.4.3 (here `0.5`), 0.6.1, and 0.6.1 with the proposed fix.

One attempt: read; no row: put if absent; released: put if still released; otherwise remember the first holder and add
its lease to the time to wait; take over if the version stood still and counts as expired; else sleep and read again.
There is no heartbeat. Release deletes the row if version and owner match.

| build | leaseDuration | expired |
|---|---|---|
| 0.5 | S, seconds | wall clock: a lease after the version was first seen (B4) |
| 0.6.1 | N, the epoch second of its end | never: it is read as S, which it is not (B1); a lease as S counts as in 0.5 |
| 0.6.1 with PR #6 | the same, read as N | always: epoch seconds are compared with milliseconds (B2, B3); S never |

0.5 was never published: the crate went from 0.4.3, whose protocol this is, to 0.6.0. Requests and answers of all three
are those of the crate itself: recorded, and compared in tests/conformance/test_delta_recorded.py.

Source: dynamodb_lock 0.4.3 and 0.6.1, src/lib.rs (`acquire_lock`, `get_lock`, `is_expired`, `release_lock`); PR #6 of
delta-incubator/dynamodb-lock-rs, "fix get_lock to look at the numeric property for lease duration".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lockref.delta.record import DATA, DURATION, NOT_ACQUIRABLE, OWNER, RELEASED
from lockref.dynamodb.shipped.row_lock import AnotherAttempt, RowLock, number_in, version_in, words_in
from lockref.dynamodb.table import KEY, VERSION, Attribute, Clause, ItemReply, absent, equals, exists, number, text
from lockref.errors import CorruptRecord, LockError, LockNotAcquirable, LockNotHeld, quote
from lockref.grammar import decimal
from lockref.provider import LockContext
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.words import Outcome

ADDITIONAL_WAIT_NS = NS_PER_S
"""`additional_time_to_wait_for_lock` of 0.4.3. 0.6.1 waits ten seconds; scenarios here are shorter than that."""

RELEASED_MARK = text("1")
"""The value of `isReleased` that a put asks for. A row with any other counts as released, and every put is refused."""

YEAR_S = 365 * 86400
"""0.6.1 takes a longer lease for an epoch second."""

_WRAP_MS = 2**128
"""The crate's milliseconds are unsigned, 128 bits: a clock that went back gives a difference just below this (B4)."""


@dataclass(slots=True)
class _Sighting:
    """The holder that an attempt saw: its version and lease, and when by the wall clock, in milliseconds."""

    version: str
    lease_s: int | None
    at_ms: int


class Crate(RowLock):
    """0.5: the lease is text, and counted by the waiter, on its wall clock.

    intent: what the holder is about to do, which its rows carry as `data`. data: what the row says, which is a dead
    holder's intent after a take-over.
    """

    def __init__(self, context: LockContext) -> None:
        super().__init__(context)
        self.additional_ns = ADDITIONAL_WAIT_NS
        self.intent: str | None = None
        self.data: str | None = None
        self.took_over = False

    def lease_attribute(self) -> Attribute:
        """The value that a write puts into `leaseDuration`."""
        return text(str(self.lease_ns // NS_PER_S))

    def lease_s(self, row: dict[str, Any]) -> int | None:
        """The seconds that a reader understands in `leaseDuration`; None if there is no value.

        Raises CorruptRecord for a value that is no whole number.
        """
        words = words_in(row, DURATION)
        if words is None:
            return None
        found = decimal(words)
        if found is None:
            raise CorruptRecord(f"locking {self.key}: {DURATION} is {quote(words)}; expected whole seconds")
        return found

    def is_expired(self, lease_s: int | None, seen_ms: int) -> bool:
        """`is_expired`: without a lease it never is."""
        return lease_s is not None and (self._wall_ms() - seen_ms) % _WRAP_MS > lease_s * 1000

    def _wall_ms(self) -> int:
        return self.runtime.wall_ns() // NS_PER_MS

    def row(self) -> dict[str, Any] | None:
        """The row. Raises CorruptRecord for one without an owner or a version; AnotherAttempt if throttled."""
        reply = self.table.get(self.key)
        self._require_unthrottled(reply)
        self.require_answer(reply)
        item = reply.item()
        if item is None:
            return None
        row = dict(item)
        self.lease_s(row)  # Raises for a malformed lease, also where nobody asks how long it is.
        for attribute in (OWNER, VERSION):
            if words_in(row, attribute) is None:
                raise CorruptRecord(f"locking {self.key}: the row has no {attribute} of type S")
        return row

    def acquire(self, *, may_wait: bool, until_ns: int) -> bool:
        """One attempt, see RowLock. Raises AnotherAttempt when its own time is over, or when it is throttled."""
        began_ns, timeout_ns = self.runtime.monotonic_ns(), self.additional_ns
        seen: _Sighting | None = None
        while True:
            row = self.row()
            if row is None:
                if self._put(self.intent, absent(KEY)):
                    return True
            elif NOT_ACQUIRABLE in row:
                raise LockNotAcquirable(f"locking {self.key}: the row is marked {NOT_ACQUIRABLE}")
            elif RELEASED in row:
                if self._put(self.intent, exists(KEY), equals(RELEASED, RELEASED_MARK)):
                    return True
            elif seen is None:
                seen = self._sighting(row)
                # Only the first holder's lease makes the attempt longer (B7). A lease that is an epoch second makes it
                # 54 years longer, and the fraction of a second that the attempt had is lost (B3).
                lease_s = self.lease_ns // NS_PER_S if seen.lease_s is None else seen.lease_s
                timeout_ns = (timeout_ns // NS_PER_S + lease_s) * NS_PER_S
            elif seen.version != version_in(row):
                seen = self._sighting(row)
            elif self.is_expired(seen.lease_s, seen.at_ms) and self._take_over(row, seen.version):
                return True
            if not may_wait or self.runtime.monotonic_ns() + self.poll_ns > until_ns:
                return False
            # B1: once a holder was seen whose lease cannot be read, the attempt does not end by itself.
            is_endless = seen is not None and seen.lease_s is None
            if self.runtime.monotonic_ns() - began_ns > timeout_ns and not is_endless:
                raise AnotherAttempt(f"locking {self.key}: timed out")
            self.runtime.sleep(self.poll_ns)

    def _sighting(self, row: dict[str, Any]) -> _Sighting:
        return _Sighting(version_in(row), self.lease_s(row), self._wall_ms())

    def _take_over(self, row: dict[str, Any], version: str) -> bool:
        """Copy the data of a dead holder into our own record, also where it is empty (B12)."""
        self.took_over = self._put(words_in(row, DATA), exists(KEY), equals(VERSION, text(version)))
        return self.took_over

    def _put(self, data: str | None, *clauses: Clause) -> bool:
        """Write the row as ours. False if the condition failed. Raises AnotherAttempt if throttled."""
        version = self.new_version()
        row = {OWNER: text(self.owner), VERSION: text(version), DURATION: self.lease_attribute()}
        if data is not None:
            row[DATA] = text(data)
        reply = self.table.put(self.key, row, *clauses)
        self._require_unthrottled(reply)
        if not self.is_applied(reply):
            return False
        self.held, self.data, self.took_over = version, data, False
        return True

    def _require_unthrottled(self, reply: ItemReply) -> None:
        """Raise AnotherAttempt if the request was throttled: to the caller this is as if the attempt had timed out."""
        if reply.outcome is Outcome.THROTTLED:
            raise AnotherAttempt(f"locking {self.key}: {reply.reason}")

    def update_data(self, data: str) -> None:
        """`update_data`: the row again with other data and a new version, which is the crate's only renewal.

        Raises LockNotHeld; LockError if the row is another's by now or there is no definite answer.
        """
        if self.held is None:
            raise LockNotHeld(f"updating {self.key}: nothing is held")
        if not self._put(data, *self._ours(self.held)):
            raise LockError(f"updating {self.key}: the row is another's by now")

    def _ours(self, version: str) -> tuple[Clause, ...]:
        return (exists(KEY), equals(VERSION, text(version)), equals(OWNER, text(self.owner)))

    def close(self) -> None:
        """Forget the lock. The crate gives nothing back when its objects go: who leaves early keeps the lock (B12)."""
        self.held = None

    def release(self, version: str) -> bool:
        """Delete the row, and with it everything that a row could count from grant to grant (T9)."""
        return self.is_applied(self.table.delete(self.key, *self._ours(version)))


class CrateWithTimeToLive(Crate):
    """0.6.1: `leaseDuration` is also the table's time-to-live attribute, so it became a number (B5)."""

    def lease_attribute(self) -> Attribute:
        return number((self.runtime.wall_ns() + self.lease_ns) // NS_PER_S)

    def is_expired(self, lease_s: int | None, seen_ms: int) -> bool:
        """A lease longer than a year is an epoch second: compared with milliseconds, it is always over (B2)."""
        if lease_s is None or lease_s < YEAR_S:
            return super().is_expired(lease_s, seen_ms)
        return lease_s < seen_ms


class CrateWithFix(CrateWithTimeToLive):
    """0.6.1 with PR #6: a lease as a number is read, one as text no longer. The comparison is that of 0.6.1 (B2)."""

    def lease_s(self, row: dict[str, Any]) -> int | None:
        return number_in(row, DURATION)
