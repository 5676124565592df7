"""amazon-dynamodb-lock-client with `holdLockOnServiceUnavailable`: a heartbeat extends its lease without an answer.

The Java original of the family is careful: monotonic clock, a relative lease in milliseconds, the holder's time stamped
before the request. Its background heartbeat goes on for a hung worker, and with this option a 503 counts as a renewal:
the holder re-stamps its own lease, and nobody hears of it (B14). Two holders, by design. Where the original updates
single attributes, the whole row is put here; the row that comes of it is the same.

Requests and answers are those of the original: recorded, and compared in tests/conformance/test_delta_recorded.py.
When its background thread beats, and how that meets a release, is from the source.

Source: awslabs/amazon-dynamodb-lock-client 1.2.0, `AmazonDynamoDBLockClient` (`acquireLock`, `sendHeartbeat`,
`releaseLock`), `LockItem.isExpired`.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

from lockref.delta.record import DURATION, OWNER, RELEASED
from lockref.dynamodb.shipped.crate import RELEASED_MARK
from lockref.dynamodb.shipped.row_lock import AnotherAttempt, RowLock, version_in, words_in
from lockref.dynamodb.table import KEY, VERSION, Clause, Item, ItemReply, absent, equals, exists, text
from lockref.errors import CorruptRecord, LockError, LockNotHeld
from lockref.grammar import decimal
from lockref.provider import LockContext, LockView
from lockref.runtime import NS_PER_MS, NS_PER_S, Event
from lockref.strict_json import NotJson, read_object
from lockref.words import Outcome

ADDITIONAL_WAIT_NS: Final = NS_PER_S
"""How long an attempt lasts beyond the lease of the first holder that it sees, if the caller does not say."""


class JavaClient(RowLock):
    """The lock of one process. A heartbeat runs from the grant to the release.

    looked_up_ns: the client's own stamp, from which it counts its lease: when the latest renewal was sent.
    additional_ns: how long an attempt lasts beyond the lease of the first holder that it sees.
    """

    record_format = "awslabs"

    def __init__(self, context: LockContext) -> None:
        super().__init__(context)
        self.heartbeat_ns = context.settings.renew_interval_ns
        self.looked_up_ns = 0
        self.additional_ns = ADDITIONAL_WAIT_NS
        self._ended: Event | None = None
        self._is_listed = False  # Among the locks that the client renews. A refused heartbeat takes it off.

    @staticmethod
    def decode_state(_key: str, body: bytes) -> list[LockView]:
        """As the row is laid out, with milliseconds."""
        try:
            row = read_object(body)
        except NotJson:
            return []
        owner, lease_ms = words_in(row, OWNER), decimal(words_in(row, DURATION) or "")
        if owner is None or lease_ms is None:
            return []
        is_released, duration_ns = RELEASED in row, lease_ms * NS_PER_MS
        return [LockView(owner=owner, duration_ns=duration_ns, is_released=is_released, nonce=version_in(row))]

    def is_expired(self) -> bool:
        """`LockItem.isExpired`: by the client's clock and stamp alone, also after a refused heartbeat."""
        return self.runtime.monotonic_ns() - self.looked_up_ns > self.lease_ns

    def holds(self) -> bool:
        """`hasLock`: no heartbeat was refused, and the lease is not over by the client's own clock and stamp."""
        return self.held is not None and self._is_listed and not self.is_expired()

    def acquire(self, *, may_wait: bool, until_ns: int) -> bool:
        """One attempt, see RowLock. Raises AnotherAttempt when its own time is over; CorruptRecord for a malformed row.

        A request without an answer, or throttled, does not end an attempt that may wait (B6).
        """
        began_ns, timeout_ns = self.runtime.monotonic_ns(), self.additional_ns
        watched, since_ns = "", 0
        while True:
            reply = self.table.get(self.key)
            if not (may_wait and _is_passed_over(reply)):
                row = self._readable(reply)
                now_ns = self.runtime.monotonic_ns()
                condition: tuple[Clause, ...] = ()
                if row is None:
                    condition = (absent(KEY),)
                elif RELEASED in row:
                    condition = (exists(KEY), equals(RELEASED, RELEASED_MARK))
                elif version_in(row) != watched:
                    if not watched:
                        timeout_ns += self.lease_in(row) * NS_PER_MS
                    watched, since_ns = version_in(row), now_ns
                elif now_ns - since_ns > self.lease_in(row) * NS_PER_MS:
                    condition = (exists(KEY), equals(VERSION, text(watched)))
                if condition and self._put(condition, may_wait=may_wait):
                    return True
            now_ns = self.runtime.monotonic_ns()
            if not may_wait or now_ns + self.poll_ns > until_ns:
                return False
            if now_ns - began_ns > timeout_ns:
                raise AnotherAttempt(f"locking {self.key}: timed out")
            self.runtime.sleep(self.poll_ns)

    def _readable(self, reply: ItemReply) -> dict[str, Any] | None:
        """The row of an answer. Raises CorruptRecord for one without lease, owner or version, on which Java fails."""
        self.require_answer(reply)
        item = reply.item()
        if item is None:
            return None
        row = dict(item)
        self.lease_in(row)
        for attribute in (OWNER, VERSION):
            if words_in(row, attribute) is None:
                raise CorruptRecord(f"locking {self.key}: the row has no {attribute} of type S")
        return row

    def _row(self, version: str) -> Item:
        return {OWNER: text(self.owner), VERSION: text(version), DURATION: text(str(self.lease_ns // NS_PER_MS))}

    def _put(self, condition: tuple[Clause, ...], *, may_wait: bool) -> bool:
        version, sent_ns = self.new_version(), self.runtime.monotonic_ns()
        reply = self.table.put(self.key, self._row(version), *condition)
        if (may_wait and _is_passed_over(reply)) or not self.is_applied(reply):
            return False
        self.held, self.looked_up_ns, self._is_listed = version, sent_ns, True
        self._ended = ended = self.runtime.event()
        self.runtime.spawn(lambda: self._beat(ended), name="heartbeat")
        return True

    def _beat(self, ended: Event) -> None:
        """The background thread: it knows nothing of the worker, which may hang."""
        while not ended.wait(self.heartbeat_ns):
            with contextlib.suppress(LockError):  # The original logs it, and beats again while the lock is listed.
                self.send_heartbeat()
            if not self._is_listed:
                return

    def send_heartbeat(self) -> None:
        """Renew the lease. A 503 counts as a renewal, of which the row does not tell (`holdLockOnServiceUnavailable`).

        Raises LockNotHeld where the lease is over already, without a request; LockError if the row is another's by now;
        OutcomeUnknown or StoreRejected without an answer that tells.
        """
        before = self.held
        if before is None or self.is_expired():
            self._is_listed = False
            raise LockNotHeld(f"renewing {self.key}: nothing is held, or its lease is over")
        version, sent_ns = self.new_version(), self.runtime.monotonic_ns()
        reply = self.table.put(self.key, self._row(version), *self._ours(before))
        if self.held != before:
            return  # Released meanwhile.
        if reply.status == 503:
            self.looked_up_ns = self.runtime.monotonic_ns()
        elif self.is_applied(reply):
            self.held, self.looked_up_ns = version, sent_ns
        else:
            self._is_listed = False
            raise LockError(f"renewing {self.key}: the row is another's by now")

    def _ours(self, version: str) -> tuple[Clause, ...]:
        return (exists(KEY), equals(OWNER, text(self.owner)), equals(VERSION, text(version)))

    def release(self, version: str) -> bool:
        if self._ended is not None:
            self._ended.set()
        self._is_listed = False
        return self.is_applied(self.table.delete(self.key, *self._ours(version)))

    def close(self) -> None:
        """Give back what the client still renews. A lock whose heartbeat was refused is left alone."""
        if not self._is_listed:
            self.held = None
        super().close()
        if self._ended is not None:
            self._ended.set()


def _is_passed_over(reply: ItemReply) -> bool:
    """True for what an attempt logs and looks again after: no answer at all, or too many requests."""
    return reply.outcome is Outcome.THROTTLED or (reply.outcome is Outcome.AMBIGUOUS and reply.status is None)
