"""python_dynamodb_lock with its danger state: one late heartbeat, and the lock is never renewed again.

A sender thread renews every lock that is `LOCKED`. A checker thread marks a lock `IN_DANGER` once its last renewal is
older than the safe period, and tells the application. The sender skips what is in danger, so that lock lapses while its
holder works on (B15). Renewals are stamped after the answer, later than the row's truth.

Its rows have other names in the original (`lock_key`, `sort_key`, `owner_name`, a separate `expiry_time` for garbage).
Here the row is named as everywhere, its lease is text, and it is put as a whole. What it asks and answers between two
heartbeats is held to recorded traces of the original (tests/conformance/test_delta_recorded.py).

Source: mohankishore/python_dynamodb_lock be57d31, `DynamoDBLockClient` (`_send_heartbeat_loop`,
`_check_heartbeat_loop`, `acquire_lock`, `release_lock`).
"""

from __future__ import annotations

from lockref.delta.record import DURATION, OWNER
from lockref.dynamodb.shipped.row_lock import RowLock, version_in
from lockref.dynamodb.table import KEY, VERSION, Clause, Item, absent, equals, exists, text
from lockref.provider import LockContext
from lockref.runtime import NS_PER_S, Event
from lockref.words import Outcome

LOCKED, IN_DANGER, INVALID = "LOCKED", "IN_DANGER", "INVALID"


class PythonClient(RowLock):
    """The lock of one process, with its two threads.

    safe_ns: the safe period, two thirds of the lease, as by default. updated_ns: when the latest renewal was answered.
    """

    def __init__(self, context: LockContext) -> None:
        super().__init__(context)
        self.heartbeat_ns = context.settings.renew_interval_ns
        self.safe_ns = self.lease_ns * 2 // 3
        self.status = INVALID
        self.updated_ns = 0
        self._ended: Event | None = None

    def holds(self) -> bool:
        """LOCKED or IN_DANGER. The application is told of the danger once, and never that the lease has ended."""
        return self.held is not None and self.status != INVALID

    def acquire(self, *, may_wait: bool, until_ns: int) -> bool:
        """One attempt, see RowLock, as long as its caller allows. Raises CorruptRecord for a malformed lease."""
        # One call draws one version: the put after a refused one carries the same.
        version, watched, since_ns = self.new_version(), "", 0
        while True:
            row = self.row()
            now_ns = self.runtime.monotonic_ns()
            condition: tuple[Clause, ...] = ()
            if row is None:
                condition = (absent(KEY),)
            elif version_in(row) != watched:
                watched, since_ns = version_in(row), now_ns
            elif now_ns - since_ns > self.lease_in(row) * NS_PER_S:
                condition = (exists(KEY), equals(VERSION, text(watched)))
            if condition and self._put(version, condition):
                return True
            if not may_wait or self.runtime.monotonic_ns() + self.poll_ns > until_ns:
                return False
            self.runtime.sleep(self.poll_ns)

    def _row(self, version: str) -> Item:
        return {OWNER: text(self.owner), VERSION: text(version), DURATION: text(str(self.lease_ns // NS_PER_S))}

    def _put(self, version: str, condition: tuple[Clause, ...]) -> bool:
        if not self.is_applied(self.table.put(self.key, self._row(version), *condition)):
            return False
        self.held, self.status, self.updated_ns = version, LOCKED, self.runtime.monotonic_ns()
        self._ended = ended = self.runtime.event()
        self.runtime.spawn(lambda: self._send(ended), name="heartbeat-sender")
        self.runtime.spawn(lambda: self._check(ended), name="heartbeat-checker")
        return True

    def _send(self, ended: Event) -> None:
        while not ended.wait(self.heartbeat_ns):
            if self.status != LOCKED or self.held is None:
                continue
            version = self.new_version()
            ours = (exists(KEY), equals(VERSION, text(self.held)))
            reply = self.table.put(self.key, self._row(version), *ours)
            if ended.is_set():
                return
            if reply.outcome is Outcome.APPLIED:
                self.held, self.updated_ns = version, self.runtime.monotonic_ns()
            elif reply.outcome is Outcome.PRECONDITION_FAILED:
                self.status = INVALID

    def _check(self, ended: Event) -> None:
        while not ended.wait(self.heartbeat_ns):
            if self.status == LOCKED and self.runtime.monotonic_ns() - self.updated_ns > self.safe_ns:
                self.status = IN_DANGER

    def release(self, version: str) -> bool:
        if self._ended is not None:
            self._ended.set()
        self.status = INVALID
        ours = (exists(KEY), equals(VERSION, text(version)))
        return self.is_applied(self.table.delete(self.key, *ours))

    def close(self) -> None:
        super().close()
        if self._ended is not None:
            self._ended.set()
