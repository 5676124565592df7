"""The lease lock of Delta Lake on DynamoDB, corrected: what delta-rs' dynamodb_lock meant to be.

One row per lock. A holder renews it; a waiter takes over once the row has stood still for ρ times its lease. What it
does better than the crate, by its timing rules:

- durations, never instants, and monotonic clocks (T1, T2): no wall clock lets anybody take over (B2, B4). A holder also
  stops when its wall clock says so, for a monotonic clock may stand still in a suspended machine (U2): early is safe;
- the holder counts from before its write leaves, the waiter from after its read returns, and ρ lies between (T3–T5);
- the holder stops by itself, a margin before anybody may take over (T6);
- every answer that may be lost is looked up (T8, B6);
- a released row stays with its generation, which is the fencing token (T9), and TTL finds nothing to delete (T10, B5);
- after a crash the next process with the same owner name on that machine takes the lease back at once, if the operating
  system says that the process which wrote the lease has ended; two processes of one name are never confused;
- settings that contradict each other are refused (T11); a heartbeat goes on until the owner's task ends (T12);
- polling is jittered and learns (T13, B13).

`StorageLock` is made of the same parts (`lockref/locks`), and docs/the-lock.md tells the algorithm. What differs is the
record (`item.py`), the store (`rows.py`), and when a lease may be taken over (`watching.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Final, Self

from lockref.dynamodb import item
from lockref.dynamodb.item import NOTHING_TO_FINISH, LeaseItem, LeftWork, whole_seconds
from lockref.dynamodb.options import LeaseOptions
from lockref.dynamodb.rows import Marks, Rows
from lockref.dynamodb.table import TABLE
from lockref.dynamodb.watching import Watch, WatchingAcquisition, stands_for_ns
from lockref.errors import LockError, LockTimeout
from lockref.locks.adaptive_waiting import AdaptiveWaiting
from lockref.locks.assembly import Parts, assemble
from lockref.locks.fence import FenceMark
from lockref.locks.notices import LossCallback
from lockref.locks.rules import Rules
from lockref.locks.shortcut import RememberedVersion
from lockref.locks.values import Attempt, ConditionalStore, Lease, LeaseTerms, Moment, Reserved, Stored
from lockref.provider import Grant, LockContext, LockListener, LockSettings
from lockref.runtime import NS_PER_S, Event, Runtime, ThreadRuntime

_LOG: Final = logging.getLogger("lockref")


def is_lapsed(write: Attempt[LeaseItem], now: Moment, terms: LeaseTerms) -> bool:
    """Does a write of ours in which nobody believes keep nobody waiting any more?

    Others take over by themselves one lease after it was sent. Not `decisions.is_lapsed`: this record tells no instant.
    """
    return now.mono_ns >= write.sent.mono_ns + terms.validity_ns


@dataclass(slots=True)
class Carried:
    """What a row tells of its holder's work.

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
        """What a dead holder left is done."""
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
        carried: Carried | None = None,
    ) -> None:
        self.owner = owner
        self._name, _, self._incarnation = owner.rpartition("/")
        # A lock without a configured name has no next process that could resume its lease, so it names no process.
        self._process = runtime.process_mark() if self._name != self._incarnation else ""
        self.terms = terms
        self.rules = rules
        self.runtime = runtime
        self.new_nonce = new_nonce
        self._carried = carried or Carried()

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
        """What a dead holder was about to do, and nobody has done; None: nothing is told.

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


def _lapses_after_ns(options: LeaseOptions) -> int:
    """How long a lease with these options must have stood still before a waiter takes it over (T5)."""
    return stands_for_ns(whole_seconds(options.lease_ns), options.rate_ratio_ppm)


def new_owner(runtime: Runtime) -> str:
    """An owner that nobody else has."""
    return runtime.token_bytes(8).hex()


DELTA = Parts(
    rules=Rules(is_lapsed=is_lapsed),
    owner=new_owner,
    writer=LeaseItemWriter,
    waiting=AdaptiveWaiting,
    tokens=FenceMark,
    shortcut=RememberedVersion,
)
"""The parts of this lock."""


class DynamoLock:
    """A lease in a row of a DynamoDB table. Blocking, thread-safe, re-entrant for the task that holds.

    table: where the row lives, a `TableClient` or what else `stores` takes; each of its requests should take at most
        `options.request_timeout_ns`.
    key: of the row, such as the table's URI in S3: one lock per Delta table (D3).
    listener: told of every grant, renewal, loss and release. on_loss: told when a grant is lost.
    table_name: for errors; "" where nobody knows it.

    Errors of `lock` and `try_lock`: OutcomeUnknown (nothing definite was learned), CorruptRecord (a malformed row),
    LockNotAcquirable, StoreRejected, LockLost (this task's previous grant ended without its unlock), LockForked.
    """

    parts: ClassVar[Parts] = DELTA
    watch: ClassVar[Callable[[], Watch]] = Watch
    acquisition: ClassVar[type[WatchingAcquisition]] = WatchingAcquisition
    decode_state = staticmethod(item.decode_state)
    record_format = "delta-lease"
    default_lock_key = "table"
    protocol = "delta-lease"
    stands_on = TABLE.name
    is_reentrant = True
    claims = ("L4",)
    is_fork_safe = True
    can_resume = True

    def __init__(
        self,
        table: Any,
        key: str,
        options: LeaseOptions,
        *,
        runtime: Runtime | None = None,
        listener: LockListener | None = None,
        on_loss: LossCallback | None = None,
        table_name: str = "",
    ) -> None:
        self.runtime = runtime = runtime or ThreadRuntime()
        self.terms = options.terms()
        self._patience_ns = options.request_timeout_ns + _lapses_after_ns(options) + options.additional_wait_ns
        self._carried = Carried()
        incarnation = self.parts.owner(runtime)
        self.owner = f"{options.owner_name or incarnation}/{incarnation}"
        rows, marks = self.stores(table)
        parts = replace(
            self.parts,
            writer=partial(self.parts.writer, carried=self._carried),
            acquisition=partial(self.acquisition, watch=type(self).watch(), rate_ratio_ppm=options.rate_ratio_ppm),
            tokens=partial(self._tokens, self.parts.tokens, marks),
        )
        self.gated = assemble(
            parts, rows, key, owner=self.owner, serialize=item.serialize,
            parse=partial(item.parse, table=table_name), terms=self.terms, poll_interval_ns=options.poll_interval_ns,
            runtime=runtime, listener=listener, on_loss=on_loss,
        )  # fmt: skip

    @staticmethod
    def stores(table: Any) -> tuple[ConditionalStore, ConditionalStore]:
        """What keeps the record, and what keeps the fence's mark."""
        return Rows(table), Marks(table)

    @staticmethod
    def _tokens(
        tokens: Callable[..., Any], marks: ConditionalStore, _rows: ConditionalStore, key: str, **how: Any
    ) -> Any:
        """Make the part that gives tokens. Its mark is an item of its own beside the row, so it gets another store."""
        return tokens(marks, key, **how)

    @staticmethod
    def watch_ns(settings: LockSettings) -> int:
        """For how long a waiter must see an unchanged row before it takes over (T5)."""
        return _lapses_after_ns(LeaseOptions.from_settings(settings))

    @classmethod
    def from_context(cls, context: LockContext) -> Self:
        """A lock for one process of the laboratory. Errors: ConfigError for a timing that no lease can have."""
        options = LeaseOptions.from_settings(context.settings)
        table = context.open(TABLE, timeout_ns=options.request_timeout_ns)
        return cls(table, context.settings.key, options, runtime=context.runtime, listener=context.listener)

    # ---- what a holder asks: local, without I/O, from any task at any time ----

    def holds(self) -> bool:
        """May the holder still act? Asks the clock, nothing else; once no, it stays no for this grant (T6, B9)."""
        tenure = self.gated.tenure
        return tenure is not None and tenure.is_in_force()

    def remaining_ns(self) -> int:
        """How long the holder may still act unless a renewal lands; 0 if it may not."""
        tenure = self.gated.tenure
        return 0 if tenure is None else tenure.remaining_ns()

    def assert_held(self) -> None:
        """Call before each protected write. Raises LockLost, LockNotHeld if nothing was locked, LockForked."""
        self.gated.assert_held()

    @property
    def grant(self) -> Grant | None:
        """The grant in force; None when there is none."""
        return self.gated.grant

    @property
    def fencing_token(self) -> int | None:
        """The generation that a protected resource should check. None when nothing is held, or cannot be fenced."""
        grant = self.grant
        return None if grant is None else grant.token

    @property
    def loss(self) -> Event:
        """Set when the latest grant is lost; each grant has an event of its own."""
        return self.gated.client.loss

    # ---- what the holder is about to do (`lockref.provider.CarriesData`) ----

    @property
    def intent(self) -> str | None:
        return self._carried.intent

    @intent.setter
    def intent(self, intent: str | None) -> None:
        self._carried.intend(intent)

    @property
    def data(self) -> str | None:
        """What the row tells; None where nothing is held."""
        tenure = self.gated.tenure
        return None if tenure is None else tenure.lease.attempt.record.data

    @property
    def took_over(self) -> bool:
        """True while the row tells what a dead holder was about to do."""
        return self._carried.is_left(self.data)

    def update_data(self, data: str) -> None:
        """The row tells this from the next renewal on; until then a successor finds the work done, and skips it."""
        self.assert_held()
        self._carried.change(data)

    # ---- its calls ----

    def try_lock(self) -> bool:
        """One attempt, as `lock` with no time: at most two request timeouts (L5). False: somebody else has it."""
        return self.gated.acquire(0)

    def lock(self, timeout_s: float | None = None) -> bool:
        """Wait for a grant; no request begins after `timeout_s`, or one request timeout where that is longer (L5).

        timeout_s: None: until a lease of our own length that nobody renews has lapsed for every waiter, and
            `DYNAMO_LOCK_ADDITIONAL_TIME_TO_WAIT_MILLIS` longer.
        False: somebody else's lease was seen; OutcomeUnknown: nothing definite was.
        """
        return self.gated.acquire(self._patience_ns if timeout_s is None else round(timeout_s * NS_PER_S))

    def unlock(self) -> None:
        """Give the lock back; the outermost unlock of nested ones writes.

        Raises LockLost if the grant had ended before, LockNotHeld for a task that does not hold it, ReleaseFailed if
        the table could not be told: the protected work is done then, which no error of the release changes (B11).
        What a dead holder left, and nobody has said to be done (`update_data`, `finish_rename`), stays in the row for
        the next holder, and the log says so: to unlock is not to have finished it (B12).
        """
        tenure, depth = self.gated.client.tenure, self.gated.gate.depth
        if tenure is not None and depth == 1 and self.took_over and tenure.task == self.runtime.current_task():
            _LOG.warning("lock %s: given back with a dead holder's work unfinished; it stays in the row", tenure.key)
        try:
            self.gated.release()
        except LockError:
            raise
        except BaseException:
            self.gated.break_off(tenure, depth)
            raise

    def __enter__(self) -> Self:
        """Wait for a grant, for as long as `lock` does by itself. Raises LockTimeout where that says False."""
        if not self.lock():
            key = self.gated.gate.key
            raise LockTimeout(f"locking {key}: somebody else held it all the time; wait longer with lock()")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.gated.leave(self.unlock, error)

    def close(self) -> None:
        """End the heartbeat and give back what is held by the calling task. See `GatedClient.close`."""
        self.gated.close(self.unlock)

    def exit_hook(self) -> None:
        """For the end of the process: a grant still in use is marked lost and left to lapse."""
        self.gated.exit_hook(self.close)
