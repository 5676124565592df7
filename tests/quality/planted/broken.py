"""What planted bugs of the reference lock are made of: another part, another rule, one kind of write broken alone.

A bug is a `StorageLock` whose `parts` differ from the reference's in one place,
or whose public method does. Whoever needs more than one place says why.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lockref.errors import CorruptRecord, StoreRejected
from lockref.locks.assembly import Parts
from lockref.locks.cell import Cell
from lockref.locks.fence import FenceMark
from lockref.locks.values import Attempt, Deadline, Lease, LeaseTerms, Moment, Purpose, Refusal, Reserved, Stored
from lockref.runtime import NS_PER_MS, MonoNs, WallNs
from lockref.storage.lock import StorageLock
from lockref.storage.lockfile import LockFile
from lockref.storage.writer import LockFileWriter
from lockref.stores.port import Version, WriteReply

FOREVER_NS = 4 * 10**18
"""Later than any clock of a simulated process."""


def other(**makers: Any) -> Parts:
    """The reference's parts, except those named."""
    return replace(StorageLock.parts, **makers)


def other_rules(**functions: Any) -> Parts:
    """The reference's parts, with other decisions."""
    return other(rules=replace(StorageLock.parts.rules, **functions))


class WritesApart(Cell[LockFile]):
    """The reference's cell: its three kinds of writes are methods of their own, so that one can be broken alone."""

    def swap(self, if_version: Version | None, record: LockFile, purpose: Purpose) -> WriteReply:
        match purpose:
            case Purpose.ACQUIRE:
                return self.acquire(if_version, record)
            case Purpose.RENEW:
                return self.renew(if_version, record)
            case Purpose.RELEASE:
                return self.release(if_version, record)

    def acquire(self, if_version: Version | None, record: LockFile) -> WriteReply:
        return super().swap(if_version, record, Purpose.ACQUIRE)

    def renew(self, if_version: Version | None, record: LockFile) -> WriteReply:
        return super().swap(if_version, record, Purpose.RENEW)

    def release(self, if_version: Version | None, record: LockFile) -> WriteReply:
        return super().swap(if_version, record, Purpose.RELEASE)

    def overwrite(self, record: LockFile) -> WriteReply:
        """Without any condition."""
        return self.store.put(self.key, self.serialize(record))  # type: ignore[attr-defined]


class RenewalsApart(LockFileWriter):
    """The reference's writer: its renewals pass `changed`."""

    def renewal(self, current: Lease[LockFile]) -> Attempt[LockFile]:
        return self.changed(super().renewal(current))

    def changed(self, renewal: Attempt[LockFile]) -> Attempt[LockFile]:
        raise NotImplementedError


class OtherNumbers(FenceMark):
    """The reference's tokens: each passes `number`."""

    def reserve(self, stored: Stored[LockFile], *, seen: int, is_over: Any) -> Reserved | Refusal:
        reserved = super().reserve(stored, seen=seen, is_over=is_over)
        if isinstance(reserved, Refusal):
            return reserved
        return Reserved(self.number(stored, reserved.token), reserved.mark)

    def number(self, stored: Stored[LockFile], token: int | None) -> int | None:
        raise NotImplementedError


def look_or_none(cell: Cell[LockFile]) -> Stored[LockFile] | None:
    """What stands in the cell; None where that is not known, or is no record."""
    try:
        return cell.look()
    except (StoreRejected, CorruptRecord):
        return None


def extended(record: LockFile, cell: Cell[LockFile], terms: LeaseTerms) -> LockFile:
    """`record` as a renewal that is sent now would write it."""
    until_ms = (cell.runtime.wall_ns() + terms.validity_ns) // NS_PER_MS
    return replace(record, valid_until_ms=until_ms, expired=False, nonce=cell.new_nonce())


def ending(attempt: Attempt[LockFile], deadline: Deadline) -> Attempt[LockFile]:
    """The same write, believed until another deadline."""
    return replace(attempt, deadline=deadline)


def counted_from_now(lease: Lease[LockFile], runtime: Any) -> Lease[LockFile]:
    """The same lease, as if its write had been sent only now."""
    attempt = lease.attempt
    wall_ns, mono_ns = runtime.wall_ns() - attempt.sent.wall_ns, runtime.monotonic_ns() - attempt.sent.mono_ns
    return Lease(lease.version, ending(attempt, postponed(attempt.deadline, wall_ns, mono_ns)))


def postponed(deadline: Deadline, wall_ns: int, mono_ns: int) -> Deadline:
    return Deadline(WallNs(deadline.wall_ns + wall_ns), MonoNs(deadline.mono_ns + mono_ns))


def after(sent: Moment, reach_ns: int) -> Deadline:
    """The deadline `reach_ns` after a write was sent."""
    return Deadline(WallNs(sent.wall_ns + reach_ns), MonoNs(sent.mono_ns + reach_ns))
