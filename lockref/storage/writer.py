"""The records that RFC-91's lock writes: who, until when, and under which number."""

from __future__ import annotations

from collections.abc import Callable

from lockref.locks.rules import Rules
from lockref.locks.values import Attempt, Lease, LeaseTerms, Moment, Reserved, Stored
from lockref.runtime import Runtime
from lockref.storage.lockfile import LockFile


class LockFileWriter:
    """Makes the writes of one owner."""

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
        until_ms = self.rules.valid_until_ms(sent.wall_ns, self.terms)
        return Attempt(
            record=LockFile(self.owner, until_ms, False, self.new_nonce(), reserved.token, reserved.mark),
            sent=sent,
            deadline=self.rules.deadline_after(sent, self.terms),
            wall_estimate_ns=sent.wall_ns,
            if_version=known.version,
        )

    def renewal(self, current: Lease[LockFile]) -> Attempt[LockFile]:
        """The write that extends `current`: validUntil never falls (H19), the token stays (H21)."""
        previous, record = current.attempt, current.attempt.record
        sent = Moment(self.runtime.wall_ns(), self.runtime.monotonic_ns())
        estimate_ns = self.rules.estimate_wall(previous, sent, self.terms)
        until_ms = self.rules.renewed_valid_until_ms(previous, estimate_ns, self.terms)
        return Attempt(
            record=LockFile(self.owner, until_ms, False, self.new_nonce(), record.fence, record.mark),
            sent=sent,
            deadline=self.rules.deadline_after(sent, self.terms),
            wall_estimate_ns=estimate_ns,
            if_version=current.version,
        )
