"""amazon-dynamodb-lock-client with `holdLockOnServiceUnavailable`: a heartbeat extends its lease without an answer.

The Java original of the family is careful: monotonic clock, a relative lease in milliseconds, the holder's time stamped
before the request. Its background heartbeat goes on for a hung worker, and with this option a 503 counts as a renewal:
the holder re-stamps its own lease, and nobody hears of it (B14). Two holders, by design. Where the original updates
single attributes, the whole row is put here; the row that comes of it is the same.

Source: awslabs/amazon-dynamodb-lock-client 601eab1, `AmazonDynamoDBLockClient` (`acquireLock`, `sendHeartbeat`,
`releaseLock`), `LockItem.isExpired`.
"""

from __future__ import annotations

import json

from lockref.dynamodb.item import DURATION, OWNER, RELEASED
from lockref.dynamodb.shipped.row_lock import RowLock, version_in, words_in
from lockref.dynamodb.table import KEY, VERSION, Clause, Item, absent, equals, exists, text
from lockref.errors import LockError
from lockref.provider import LockContext, LockView
from lockref.runtime import NS_PER_MS, Event
from lockref.stores.port import Outcome


class JavaClient(RowLock):
    """The lock of one process. A heartbeat runs from the grant to the release.

    looked_up_ns: the client's own stamp, from which it counts its lease: when the latest renewal was sent.
    """

    record_format = "awslabs"

    def __init__(self, context: LockContext) -> None:
        super().__init__(context)
        self.heartbeat_ns = context.settings.renew_interval_ns
        self.looked_up_ns = 0
        self._ended: Event | None = None

    @staticmethod
    def decode_state(_key: str, body: bytes) -> list[LockView]:
        """As the row is laid out, with milliseconds."""
        row = json.loads(body)
        owner, lease_ms = words_in(row, OWNER), words_in(row, DURATION)
        if owner is None or lease_ms is None or not lease_ms.isdecimal():
            return []
        is_released, duration_ns = RELEASED in row, int(lease_ms) * NS_PER_MS
        return [LockView(owner=owner, duration_ns=duration_ns, is_released=is_released, nonce=version_in(row))]

    def holds(self) -> bool:
        """`!isExpired()`: by the client's own clock and its own stamp."""
        return self.held is not None and self.runtime.monotonic_ns() - self.looked_up_ns <= self.lease_ns

    def acquire(self, *, may_wait: bool, until_ns: int) -> bool:
        """One attempt, see RowLock, as long as its caller allows. Raises CorruptRecord for a malformed lease."""
        watched, since_ns = "", 0
        while True:
            row = self.row()
            now_ns = self.runtime.monotonic_ns()
            condition: tuple[Clause, ...]
            if row is None:
                condition = (absent(KEY),)
            elif RELEASED in row:
                condition = (equals(VERSION, text(version_in(row))), exists(RELEASED))
            else:
                if version_in(row) != watched:
                    watched, since_ns = version_in(row), now_ns
                is_expired = now_ns - since_ns > self.lease_in(row) * NS_PER_MS
                condition = (equals(VERSION, text(watched)),) if is_expired else ()
            if condition and self._put(condition):
                return True
            if not may_wait or self.runtime.monotonic_ns() + self.poll_ns > until_ns:
                return False
            self.runtime.sleep(self.poll_ns)

    def _row(self, version: str) -> Item:
        return {OWNER: text(self.owner), VERSION: text(version), DURATION: text(str(self.lease_ns // NS_PER_MS))}

    def _put(self, condition: tuple[Clause, ...]) -> bool:
        version, sent_ns = self.new_version(), self.runtime.monotonic_ns()
        if not self.is_applied(self.table.put(self.key, self._row(version), *condition)):
            return False
        self.held, self.looked_up_ns = version, sent_ns
        self._ended = ended = self.runtime.event()
        self.runtime.spawn(lambda: self._beat(ended), name="heartbeat")
        return True

    def _beat(self, ended: Event) -> None:
        """The background thread: it knows nothing of the worker, which may hang."""
        while not ended.wait(self.heartbeat_ns):
            before = self.held
            if before is None or not self.holds():
                return
            version, sent_ns = self.new_version(), self.runtime.monotonic_ns()
            ours = (equals(OWNER, text(self.owner)), equals(VERSION, text(before)))
            reply = self.table.put(self.key, self._row(version), *ours)
            if ended.is_set():
                return
            if reply.outcome is Outcome.APPLIED:
                self.held, self.looked_up_ns = version, sent_ns
            elif reply.outcome is Outcome.PRECONDITION_FAILED:
                self.held = None
                return
            elif reply.status == 503:
                # holdLockOnServiceUnavailable: the stamp moves, the row does not.
                self.looked_up_ns = self.runtime.monotonic_ns()

    def release(self, version: str) -> bool:
        if self._ended is not None:
            self._ended.set()
        ours = (equals(OWNER, text(self.owner)), equals(VERSION, text(version)))
        return self.is_applied(self.table.delete(self.key, *ours))

    def unlock(self) -> None:
        if self.held is None and self._ended is not None and not self._ended.is_set():
            self._ended.set()
            raise LockError(f"releasing {self.key}: the row is another's by now")
        super().unlock()

    def close(self) -> None:
        super().close()
        if self._ended is not None:
            self._ended.set()
