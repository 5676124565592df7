"""The records that RFC-91's lock writes: who, until when, and under which number."""

from __future__ import annotations

from collections.abc import Callable

from lockref.locks.rules import Rules
from lockref.locks.values import Attempt, Lease, LeaseTerms, Moment, Reserved, Stored
from lockref.runtime import NS_PER_MS, Runtime
from lockref.storage.lockfile import LockFile


class LockFileWriter:
    """Makes the writes of one owner. Its stamps are wall time, because others compare them with their own clocks."""

    def __init__(
        self, owner: str, *, terms: LeaseTerms, rules: Rules, runtime: Runtime, new_nonce: Callable[[], str]
    ) -> None:
        self.owner = owner
        self.terms = terms
        self.rules = rules
        self.runtime = runtime
        self.new_nonce = new_nonce

    def attempt(self, known: Stored[LockFile], reserved: Reserved) -> Attempt[LockFile]:
        """The acquiring write on `known`. Both clocks are read before it leaves (H1, M22)."""
        sent = Moment(self.runtime.wall_ns(), self.runtime.monotonic_ns())
        until_ms = self.valid_until_ms(sent.wall_ns, self.terms)
        record = LockFile(self.owner, until_ms, False, self.new_nonce(), reserved.token, reserved.mark)
        return Attempt(record, sent, self.rules.deadline_after(sent, self.terms), sent.wall_ns, known.version)

    def renewal(self, current: Lease[LockFile]) -> Attempt[LockFile]:
        """The write that extends `current`: validUntil never falls (H19), the token stays (H21)."""
        previous, record = current.attempt, current.attempt.record
        sent = Moment(self.runtime.wall_ns(), self.runtime.monotonic_ns())
        estimate_ns = self.estimate_wall(previous, sent, self.terms)
        until_ms = self.renewed_valid_until_ms(previous, estimate_ns, self.terms)
        renewed = LockFile(self.owner, until_ms, False, self.new_nonce(), record.fence, record.mark)
        return Attempt(renewed, sent, self.rules.deadline_after(sent, self.terms), estimate_ns, current.version)

    @staticmethod
    def valid_until_ms(wall_ns: int, terms: LeaseTerms) -> int:
        """The stamp of a write sent at `wall_ns`; rounded up, so that it never promises less than we believe (H1)."""
        return -(-(wall_ns + terms.validity_ns) // NS_PER_MS)

    @staticmethod
    def estimate_wall(previous: Attempt[LockFile], now: Moment, terms: LeaseTerms) -> int:
        """The wall time now, by the monotonic clock since `previous` if the wall clock was set back (H19, E31)."""
        expected_ns = previous.wall_estimate_ns + (now.mono_ns - previous.sent.mono_ns)
        return expected_ns if expected_ns - now.wall_ns > terms.margin_ns else now.wall_ns

    @staticmethod
    def renewed_valid_until_ms(previous: Attempt[LockFile], wall_estimate_ns: int, terms: LeaseTerms) -> int:
        """The stamp of a renewal: never lower than before (H19)."""
        return max(previous.record.expiry_ns // NS_PER_MS, LockFileWriter.valid_until_ms(wall_estimate_ns, terms))
