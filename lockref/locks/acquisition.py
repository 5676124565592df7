"""Getting a grant: look, decide, write on condition, until granted, denied or out of time (L5)."""

from __future__ import annotations

from typing import Generic

from lockref.locks import messages
from lockref.locks.client import LeaseClient
from lockref.locks.values import Attempt, Lease, Purpose, R, Refusal, Reserved, Sight, Step, Stored, Take, Wait
from lockref.runtime import NS_PER_MS, MonoNs
from lockref.words import Outcome

# Looks and writes of one pass before it pauses; how long before its time is up a waiter looks for the last time.
_ROUNDS_MAX, _LAST_LOOK_NS = 4, 5 * NS_PER_MS


class Acquisition(Generic[R]):
    """One acquiring call: its limits, its writes, and what it has learned."""

    def __init__(self, client: LeaseClient[R], timeout_ns: int, called_at_ns: MonoNs) -> None:
        self.client = client
        self.cell = client.cell
        self.rules = client.cell.rules
        self.runtime = client.cell.runtime
        self.waits_until_ns = called_at_ns + timeout_ns  # How long the caller waits for somebody else to finish.
        # L5: no request begins from then on; the last one may take one request timeout more.
        self.deadline_ns = called_at_ns + max(timeout_ns, client.terms.request_timeout_ns)
        self.attempts: list[Attempt[R]] = []  # All writes of this call, in order; a look recognises any (H5).
        self.base: R | None = None  # The record that the last of them replaces.
        self.is_unresolved = False  # A write of ours stands in the store, or may yet, without being our grant.
        self.has_seen_other = False
        self.answer: Outcome | None = None  # The store's answer to the last write.
        self.has_missed_mark = False  # Another client was quicker to raise the mark of the tokens.
        self.passes, self.failures = 0, 0
        self.trouble = ""  # Why nothing definite was learned, for the caller.

    def run(self) -> bool:
        """Pass after pass: True if granted, False if another's lease was seen, else raises OutcomeUnknown (L5, S7)."""
        while True:
            self.passes += 1
            if (pause_ns := self.make_pass()) is None:
                return True
            now_ns = self.runtime.monotonic_ns()
            is_denied = self.rules.is_denied(has_seen_other=self.has_seen_other, is_unresolved=self.is_unresolved)
            # The last look falls just before the end of the caller's time.
            left_ns = self.waits_until_ns - _LAST_LOOK_NS - now_ns
            if left_ns <= 0 and not is_denied:
                left_ns = self.deadline_ns - _LAST_LOOK_NS - now_ns
            if left_ns <= 0:
                if is_denied:
                    return False
                raise messages.not_granted(self.cell.key, is_unresolved=self.is_unresolved, trouble=self.trouble)
            self.client.gate.pause(min(pause_ns, left_ns))

    def make_pass(self, known: Stored[R] | None = None) -> int | None:
        """Look, decide, write: None if granted, else the pause. known: the record, where it need not be read."""
        client = self.client
        for _ in range(_ROUNDS_MAX):
            # H16: a read that failed is tried again while the caller has time.
            if known is None and (self.is_late() or (known := self.look()) is None):
                break
            if self._is_granted(known):
                return None
            decision = self.decide(known)
            if isinstance(decision, Wait):
                assert known.record is not None, "nobody waits for an absent record"
                self._note(known.record)
                # H20: never beyond the end of the lease in the way.
                now_ns = self.runtime.wall_ns()
                return client.waiting.pause_ns(known.record, now_wall_ns=now_ns, lapses_in_ns=decision.for_ns)
            reserved = client.tokens.reserve(known, seen=self.cell.token_max, is_over=self.is_late)
            self.has_missed_mark = reserved is Refusal.LOST_RACE
            if reserved is Refusal.LOST_RACE:
                known = None
                continue
            if reserved is Refusal.TROUBLE:
                self.trouble = "the fence object, which keeps tokens rising, could not be asked"
                break
            if self.is_late():
                break
            step, known = self.write(known, reserved)
            if step is Step.AGAIN:
                break
            if known is not None and self._is_granted(known):
                return None
        return self.pause_after_failure_ns()

    def pause_after_failure_ns(self) -> int:
        """The pause after a pass that learned nothing definite: longer each time (H16)."""
        self.failures += 1
        # Never longer than a poll, so that a release is noticed in time whatever happened before (L3).
        return min(self.cell.backoff_ns(self.failures), self.client.poll_interval_ns)

    def _is_granted(self, known: Stored[R]) -> bool:
        """Does a write of ours stand there (H5)? One that is too late to be believed is our own to take again (H3)."""
        own = self.rules.recognise(known.record, self.attempts)
        return own is not None and known.version is not None and self.client.begin(Lease(known.version, own))

    def is_late(self) -> bool:
        """No further request begins: the caller's time is up (L5)."""
        return self.runtime.monotonic_ns() >= self.deadline_ns

    def _note(self, record: R | None) -> None:
        """S7: only another's lease is a reason to say no. A read that lags may show a former one of our own (A8)."""
        tenure = self.client.tenure  # Of a task that died inside: its grant is left to lapse (H13).
        is_siblings = tenure is not None and self.rules.is_own_past(record, tenure.lease.attempt.record)
        if is_siblings or self.rules.shows_other(record, written=self.cell.written, token_max=self.cell.token_max):
            self.has_seen_other = True

    def look(self) -> Stored[R] | None:
        """Read, and see what became of our last write (H5). None: the read failed."""
        expected = self.attempts[-1].if_version if self.attempts else None
        found = self.cell.settle(self.attempts, expected=expected)
        if found.error is not None:
            raise found.error
        if (stored := found.stored) is None:
            self.trouble = "the lock object could not be read"
            return None
        # A live base may have been renewed meanwhile, with its owner and token: such a record is newer, not older.
        is_past = self.base is not None and self.base.is_released and self.rules.is_past(stored.record, self.base)
        if self.attempts and found.sight in (Sight.OTHER, Sight.ABSENT) and stored.version != expected and not is_past:
            # The state that we wrote on has been replaced, and not by us: our write cannot land any more.
            self.is_unresolved = False
            self._note(stored.record)
        return stored

    def decide(self, known: Stored[R]) -> Take | Wait:
        """May the lock be taken? A lease that has lapsed is taken over only β after its end (H1, E3)."""
        nonces = {write.record.nonce for write in self.client.cleanup.orphans}  # This call's writes are among them.
        owner, terms, now_ns = self.client.writer.owner, self.client.terms, self.runtime.wall_ns()
        return self.rules.decide(known, owner=owner, own_nonces=nonces, now_wall_ns=now_ns, terms=terms)

    def write(self, known: Stored[R], reserved: Reserved) -> tuple[Step, Stored[R] | None]:
        """One acquiring write on what is known; what its answer means, and what is known then."""
        attempt = self.client.writer.attempt(known, reserved)
        # Entered before it leaves: whatever becomes of it, an exception included, it may land (H6).
        self.attempts.append(attempt)
        self.base = known.record
        was_unresolved, self.is_unresolved = self.is_unresolved, True
        self.client.cleanup.add([attempt])
        reply = self.cell.swap(attempt.if_version, attempt.record, Purpose.ACQUIRE)
        step = self.rules.next_step(reply)
        self.answer = reply.outcome
        if step is Step.DONE:
            return step, Stored(reply.version, attempt.record)
        self.trouble = reply.in_words()
        if step is Step.GONE or step is Step.REFUSED:
            # It did not land. A lost answer, a 412 or a "not now" does not tell that (H5): a proxy may send it twice.
            self.is_unresolved = was_unresolved
        if step is Step.REFUSED:
            raise messages.write_refused(self.cell.key, self.trouble)
        return step, Stored(None, None) if step is Step.GONE else None
