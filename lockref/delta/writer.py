"""The writes of a lease that tells a duration, and what its record says of the holder's work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lockref.delta.record import NOTHING_TO_FINISH, LeaseItem, LeftWork, whole_seconds
from lockref.locks.rules import Rules
from lockref.locks.values import Attempt, Lease, LeaseTerms, Moment, Reserved, Stored
from lockref.runtime import Runtime


@dataclass(slots=True)
class HolderWork:
    """The part of a row that tells of its holder's work.

    intent: what this client is about to do, which its next acquiring write tells. left: what the latest acquiring write
    found in a dead holder's row and kept there, until it is done; None: it found nothing. update: what the next renewal
    tells instead of what the row tells now; None: the same.
    """

    intent: str | None = None
    left: LeftWork | None = None
    update: str | None = None

    def intend(self, intent: str | None) -> None:
        """The next acquiring write tells this, unless a dead holder left something. The present row is not changed."""
        self.intent = intent

    def begin(self, left: str | None) -> str:
        """An acquiring write is made, on a row in which a dead holder left this. Returns the `data` of that write."""
        self.left, self.update = None if left is None else LeftWork(left), None
        return left or self.intent or NOTHING_TO_FINISH

    def change(self, data: str) -> None:
        """The next renewal tells this, and what a dead holder left is done."""
        self.update = data
        self.finish()

    def finish(self) -> None:
        """Mark the work that a dead holder left as done."""
        if self.left is not None:
            self.left.finish()

    def is_left(self, data: str | None) -> bool:
        """Is this, which the row tells, a dead holder's work that is still to be finished?"""
        left = self.left
        return left is not None and not left.is_done and data == left.data


class LeaseItemWriter:
    """Makes the writes of one owner.

    owner: its name, a slash, and which process of that name it is. terms: how long the lease lasts. rules: decide when
    a holder must have stopped. new_nonce: gives a record version number that nobody else has. carried: what the row
    tells of the work.
    """

    def __init__(
        self,
        owner: str,
        *,
        terms: LeaseTerms,
        rules: Rules,
        runtime: Runtime,
        new_nonce: Callable[[], str],
        carried: HolderWork | None = None,
    ) -> None:
        self.owner = owner
        self._name, _, self._incarnation = owner.rpartition("/")
        # A lock without a configured name has no next process that could resume its lease, so it names no process.
        self._process = runtime.process_mark() if self._name != self._incarnation else ""
        self.terms = terms
        self.rules = rules
        self.runtime = runtime
        self.new_nonce = new_nonce
        self._carried = carried or HolderWork()

    def attempt(self, known: Stored[LeaseItem], reserved: Reserved) -> Attempt[LeaseItem]:
        """The acquiring write on `known`. What a dead holder was about to do stays in the row, to be finished (B12)."""
        sent = self._now()
        before = known.record
        data = self._carried.begin(self._left_in(before))
        record = LeaseItem(
            name=self._name,
            incarnation=self._incarnation,
            process=self._process,
            nonce=self.new_nonce(),
            duration_s=whole_seconds(self.terms.validity_ns),
            token=reserved.token,
            mark=reserved.mark,
            data=data,
            others={} if before is None else before.others,
            left=self._carried.left,
        )
        return self._sent(record, sent, known)

    def _left_in(self, before: LeaseItem | None) -> str | None:
        """The work that a dead holder announced in this row, and no client has done; None if the row announces none.

        Our own row still tells it where no grant came of our take-over, or the grant was lost before the work was done.
        A row that is released tells it where this lock undid such a take-over. Whoever else releases has nothing left.
        """
        if before is None or before.data is None or before.data == NOTHING_TO_FINISH:
            return None
        if before.owner == self.owner:
            return before.data if self._carried.is_left(before.data) else None
        is_given_back = before.is_released and not before.incarnation
        return None if is_given_back else before.data

    def renewal(self, current: Lease[LeaseItem]) -> Attempt[LeaseItem]:
        """The write that extends `current`: only its version is new, and `data` where that was updated."""
        sent = self._now()
        before = current.attempt.record
        record = replace(before, nonce=self.new_nonce(), data=self._carried.update or before.data)
        return self._sent(record, sent, current)

    def _now(self) -> Moment:
        return Moment(self.runtime.wall_ns(), self.runtime.monotonic_ns())

    def _sent(self, record: LeaseItem, sent: Moment, on: Stored[LeaseItem] | Lease[LeaseItem]) -> Attempt[LeaseItem]:
        deadline = self.rules.deadline_after(sent, self.terms)
        return Attempt(
            record=record, sent=sent, deadline=deadline, wall_estimate_ns=sent.wall_ns, if_version=on.version
        )
