"""One record under compare-and-set: look, swap, and settle, the one place where an open write is looked up (H5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Generic

from lockref.errors import CorruptRecord, StoreRejected
from lockref.locks import messages
from lockref.locks.notices import Notices
from lockref.locks.rules import Rules
from lockref.locks.values import Attempt, ConditionalStore, Lease, Look, Purpose, R, Sight, Stored
from lockref.runtime import Runtime
from lockref.stores.port import Version, WriteReply
from lockref.words import APPLIED, REJECTED

_WRITTEN_MAX = 1_000  # A read that lags by more writes of ours than this shows "somebody else's".


@dataclass(eq=False)
class Cell(Generic[R]):
    """The record at one key. serialize, parse: its bytes, and back; `parse(body, where=key)` raises CorruptRecord."""

    store: ConditionalStore
    key: str
    _: KW_ONLY
    serialize: Callable[[R], bytes]
    parse: Callable[..., R]
    rules: Rules
    runtime: Runtime
    notices: Notices
    # Its only state: the highest fencing token that it ever saw, and the nonces of its latest writes (A8).
    token_max: int = field(default=0, init=False)
    written: deque[str | None] = field(default_factory=lambda: deque(maxlen=_WRITTEN_MAX), init=False)

    def new_nonce(self) -> str:
        """H22: no two writes of ours have equal bytes, so their versions differ even where versions are hashes (A6)."""
        return self.runtime.token_bytes(8).hex() + self.notices.note()

    def backoff_ns(self, failures: int) -> int:
        """The pause after so many failures in a row, with a drawn jitter (H16)."""
        return self.rules.backoff_ns(failures, self.runtime.random.uniform(0.5, 1.0))

    def look(self) -> Stored[R] | None:
        """The record; None: no definite answer (H16). Raises CorruptRecord (H17), StoreRejected."""
        reply = self.notices.timed(self.store.read, self.key)
        if reply.outcome is REJECTED:
            raise messages.read_refused(self.key, reply)
        if reply.outcome is not APPLIED:
            return None
        if reply.body is None:
            return Stored(None, None)
        record = self.parse(reply.body, where=self.key)
        self.token_max = max(self.token_max, record.token or 0)
        return Stored(reply.version, record)

    def swap(self, if_version: Version | None, record: R, purpose: Purpose) -> WriteReply:
        """Write `record` if the cell still has `if_version`; None: if it is absent. Never without a condition (S6)."""
        body = self.serialize(record)
        self.written.append(record.nonce)
        if if_version is None:
            reply = self.notices.timed(self.store.put_if_absent, self.key, body)
        else:
            reply = self.notices.timed(self.store.put_if_version, self.key, body, if_version)
        if reply.outcome is APPLIED:
            self.token_max = max(self.token_max, record.token or 0)
        return reply

    def settle(self, writes: Sequence[Attempt[R]], *, expected: Version | None, released: R | None = None) -> Look[R]:
        """Look up what became of open writes, by one read (H5, H7).

        writes: ours that may have landed on `expected`, or after it. released: the released record that we wrote.
        """
        try:
            stored = self.look()
        except StoreRejected as error:
            return Look(Sight.UNKNOWN, error=error)
        except CorruptRecord as error:
            return Look(Sight.NO_RECORD, error=error)
        if stored is None:
            return Look(Sight.UNKNOWN)
        sight = self.rules.sight(stored, expected=expected, attempts=writes, released=released)
        if sight is not Sight.OURS:
            return Look(sight, stored)
        own = self.rules.recognise(stored.record, writes)
        assert own is not None, "a sight of ours without a write of ours"
        assert stored.version is not None, "a record has a version"
        return Look(sight, stored, Lease(stored.version, own))
