"""The common part of the shipped locks: one row, one grant at a time, and a caller who tries again and again.

A shipped lock says that it holds from its grant to its release: none has a public way to ask its lease (B9). So `holds`
answers from memory, unless a build has a state of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

from lockref.delta.record import DURATION, whole_seconds
from lockref.dynamodb import item
from lockref.dynamodb.table import TABLE, VERSION, ItemReply, TableClient, value_in
from lockref.errors import CorruptRecord, LockError, LockNotHeld, OutcomeUnknown, StoreRejected, quote
from lockref.grammar import decimal
from lockref.locks.values import LeaseTerms
from lockref.provider import Grant, LockContext, LockSettings
from lockref.runtime import NS_PER_S
from lockref.stores.port import Version
from lockref.words import Outcome


class AnotherAttempt(LockError):
    """An attempt ended without the lock, at the end of the build's own time or as throttled; its caller tries again."""


class RowLock(ABC):
    """A lock in a row. A subclass says how it acquires, renews and releases.

    `try_lock` is one attempt that does not wait. `lock` repeats attempts of the build's own length until the caller's
    time is over, as delta-rs does (D7).
    held: the version of the row while this client holds the lock, as far as it knows; None: it holds nothing.
    """

    decode_state = staticmethod(item.decode_state)
    record_format: ClassVar[str] = "delta-lease"
    default_lock_key: ClassVar[str] = "table"
    protocol = "delta-lease"
    stands_on = TABLE.name

    def __init__(self, context: LockContext) -> None:
        settings = context.settings
        self.runtime = context.runtime
        self.key = settings.key
        self.lease_ns = self.lease_of(settings)
        self.poll_ns = settings.poll_interval_ns
        self.table: TableClient = context.open(
            TABLE, timeout_ns=LeaseTerms.default_request_timeout_ns(settings.renew_interval_ns)
        )
        self.owner = settings.options.get("owner_name") or self.new_version()
        self.held: str | None = None

    @classmethod
    def from_context(cls, context: LockContext) -> Self:
        return cls(context)

    @staticmethod
    def lease_of(settings: LockSettings) -> int:
        """L in nanoseconds: the crate and its kin count whole seconds."""
        return whole_seconds(settings.validity_ns) * NS_PER_S

    @classmethod
    def watch_ns(cls, settings: LockSettings) -> int:
        """For how long an unchanged row must have been seen: one lease of its holder."""
        return cls.lease_of(settings)

    def new_version(self) -> str:
        """A record version number that nobody else has: a random UUID in the originals."""
        return self.runtime.token_bytes(16).hex()

    @abstractmethod
    def acquire(self, *, may_wait: bool, until_ns: int) -> bool:
        """One attempt: True if granted, False if somebody else has it.

        may_wait: look again until the lock is granted or the time is over; otherwise look once. until_ns: no wait goes
        beyond this instant of the monotonic clock. Errors: AnotherAttempt where the build's own time ends before that.
        """

    @abstractmethod
    def release(self, version: str) -> bool:
        """Give the row back if it still has this version. False: it was taken."""

    # ---- the provider ----

    @property
    def grant(self) -> Grant | None:
        """The grant, from memory. No deadline: these locks do not fence themselves."""
        return None if self.held is None else Grant(owner=self.owner, version=Version(self.held))

    def holds(self) -> bool:
        """From the grant to the release (B9)."""
        return self.held is not None

    def try_lock(self) -> bool:
        try:
            return self.acquire(may_wait=False, until_ns=self.runtime.monotonic_ns())
        except AnotherAttempt:
            return False

    def lock(self, timeout_s: float) -> bool:
        until_ns = self.runtime.monotonic_ns() + round(timeout_s * NS_PER_S)
        while True:
            try:
                return self.acquire(may_wait=True, until_ns=until_ns)
            except AnotherAttempt:
                # The caller tries again at once. The new attempt's time and its watch of the row begin anew (B7).
                if self.runtime.monotonic_ns() >= until_ns:
                    return False

    def unlock(self) -> None:
        """Raises LockError if the row was taken: callers report a failure then, although their work is done (B11)."""
        if self.held is None:
            raise LockNotHeld(f"releasing {self.key}: nothing is held")
        version, self.held = self.held, None
        if not self.release(version):
            raise LockError(f"releasing {self.key}: the row is another's by now")

    def close(self) -> None:
        """Give back what is held, as the Java client and the Python port do; an error of that is logged and lost."""
        if self.held is not None:
            version, self.held = self.held, None
            try:
                self.release(version)
            except LockError:
                return

    # ---- answers ----

    def row(self) -> dict[str, Any] | None:
        """The row by a strongly consistent read; None where there is none. Raises LockError."""
        reply = self.table.get(self.key)
        self.require_answer(reply)
        item = reply.item()
        return None if item is None else dict(item)

    def lease_in(self, row: dict[str, Any]) -> int:
        """The lease that a row tells as text, in the unit in which the build writes it.

        Raises CorruptRecord for any other, on which the originals fail as well.
        """
        found = decimal(words_in(row, DURATION) or "")
        if found is None:
            raise CorruptRecord(
                f"locking {self.key}: {DURATION} is {quote(row.get(DURATION))}; expected a whole number as text"
            )
        return found

    def is_applied(self, reply: ItemReply) -> bool:
        """Did a conditional write take effect? False if its condition failed. Raises LockError for any other answer."""
        if reply.outcome is Outcome.PRECONDITION_FAILED:
            return False
        self.require_answer(reply)
        return True

    def require_answer(self, reply: ItemReply) -> None:
        """Raise StoreRejected or OutcomeUnknown unless the request took effect.

        The originals hand every error of the SDK to their caller, and do not ask what it means for the row (B6).
        """
        if reply.outcome is Outcome.APPLIED:
            return
        if reply.outcome is Outcome.REJECTED:
            raise StoreRejected(f"locking {self.key}: {reply.reason}")
        raise OutcomeUnknown(f"locking {self.key}: {reply.outcome.name.lower()} ({reply.reason})")


def version_in(row: dict[str, Any]) -> str:
    """The record version number of a row; "" where it has none."""
    return str(value_in(row, VERSION, "S") or "")


def words_in(row: dict[str, Any], attribute: str) -> str | None:
    """A text attribute, as the originals read it: None where it is absent or of another type (B1)."""
    found = value_in(row, attribute, "S")
    return found if isinstance(found, str) else None


def number_in(row: dict[str, Any], attribute: str) -> int | None:
    """A whole number, as the originals read it: None where it is absent, of another type, or has a fraction (B8)."""
    found = value_in(row, attribute, "N")
    return decimal(found) if isinstance(found, str) else None
