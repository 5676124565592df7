"""The lease of Delta Lake, corrected: what delta-rs' dynamodb_lock meant to be, wherever its record is kept.

One record per lock. A holder renews it; a waiter takes over once the record has stood still for ρ times its lease. What
it does better than the crate, by its timing rules:

- durations, never instants, and monotonic clocks (T1, T2): no wall clock lets anybody take over (B2, B4). A holder also
  stops when its wall clock says so, for a monotonic clock may stand still in a suspended machine (U2): early is safe;
- the holder counts from before its write leaves, the waiter from after its read returns, and ρ lies between (T3–T5);
- the holder stops by itself, a margin before anybody may take over (T6);
- every answer that may be lost is looked up (T8, B6);
- a released record stays with its generation, which is the fencing token (T9), and TTL finds nothing to delete
  (T10, B5);
- after a crash the next process with the same owner name on that machine takes the lease back at once, if the operating
  system says that the process which wrote the lease has ended; two processes of one name are never confused;
- settings that contradict each other are refused (T11); a heartbeat goes on until the owner's task ends (T12);
- polling is jittered and learns (T13, B13).

`StorageLock` is made of the same parts (`lockref/locks`), and docs/the-lock.md tells the algorithm. What differs is the
record (`record.py`), and when a lease may be taken over (`watching.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final

from lockref.delta.codec import LeaseCodec
from lockref.delta.options import LeaseOptions
from lockref.delta.record import LeaseItem, whole_seconds
from lockref.delta.watching import Watch, WatchingAcquisition, stands_for_ns
from lockref.delta.writer import HolderWork, LeaseItemWriter
from lockref.locks.adaptive_waiting import AdaptiveWaiting
from lockref.locks.assembly import Parts, assemble
from lockref.locks.fence import FenceMark
from lockref.locks.lease_lock import LeaseLock
from lockref.locks.notices import LossCallback
from lockref.locks.rules import Rules
from lockref.locks.shortcut import RememberedVersion
from lockref.locks.values import Attempt, ConditionalStore, LeaseTerms, Moment
from lockref.provider import LockListener, LockSettings
from lockref.runtime import Runtime, ThreadRuntime

_LOG: Final = logging.getLogger("lockref")


def is_lapsed(write: Attempt[LeaseItem], now: Moment, terms: LeaseTerms) -> bool:
    """True if a write of ours, which is no grant, no longer makes other clients wait.

    Others take over by themselves one lease after it was sent. Not `decisions.is_lapsed`: this record tells no instant.
    """
    return now.mono_ns >= write.sent.mono_ns + terms.validity_ns


def _lapses_after_ns(options: LeaseOptions) -> int:
    """The time for which a lease with these options must have stood still before a waiter takes it over (T5)."""
    return stands_for_ns(whole_seconds(options.lease_ns), options.rate_ratio_ppm)


def new_owner(runtime: Runtime) -> str:
    """An owner that nobody else has."""
    return runtime.token_bytes(8).hex()


DELTA: Final[Parts[LeaseItem]] = Parts(
    rules=Rules(is_lapsed=is_lapsed),
    owner=new_owner,
    writer=LeaseItemWriter,
    waiting=AdaptiveWaiting,
    tokens=FenceMark,
    shortcut=RememberedVersion,
)
"""The parts of this lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of a lease: the stores of its records and of its fence marks.

    records, marks: the records, and the marks of the fence. codec: the notation of the records.
    table: the table's name, for errors; "" where there is none, or nobody knows it.
    """

    records: ConditionalStore
    marks: ConditionalStore
    codec: LeaseCodec
    table: str = ""


class DeltaLease(LeaseLock[LeaseItem]):
    """A lease that tells a duration. `LeaseLock` has its calls; beside them a holder says what it is about to do.

    place: where the lease is kept. key: of the record, such as the table's URI in S3: one lock per Delta table (D3).
    listener: told of every grant, renewal, loss and release. on_loss: told when a grant is lost.

    Errors of `lock` and `try_lock`, beside those of `LeaseLock`: LockNotAcquirable.
    """

    parts: ClassVar[Parts[LeaseItem]] = DELTA
    watch: ClassVar[Callable[[], Watch]] = Watch
    acquisition: ClassVar[type[WatchingAcquisition]] = WatchingAcquisition
    default_lock_key = "table"
    protocol = "delta-lease"
    can_resume = True

    def __init__(
        self,
        place: Place,
        key: str,
        options: LeaseOptions,
        *,
        runtime: Runtime | None = None,
        listener: LockListener | None = None,
        on_loss: LossCallback | None = None,
    ) -> None:
        runtime = runtime or ThreadRuntime()
        self._carried = HolderWork()
        incarnation = self.parts.owner(runtime)
        parts = replace(
            self.parts,
            writer=partial(self.parts.writer, carried=self._carried),
            acquisition=partial(self.acquisition, watch=type(self).watch(), rate_ratio_ppm=options.rate_ratio_ppm),
            tokens=partial(self._tokens, self.parts.tokens, place.marks),
        )
        codec = place.codec
        gated = assemble(
            parts, place.records, key, owner=f"{options.owner_name or incarnation}/{incarnation}",
            serialize=codec.serialize, parse=partial(codec.parse, table=place.table), terms=options.terms(),
            poll_interval_ns=options.poll_interval_ns, runtime=runtime, listener=listener, on_loss=on_loss,
        )  # fmt: skip
        patience_ns = options.request_timeout_ns + _lapses_after_ns(options) + options.additional_wait_ns
        super().__init__(gated, patience_ns=patience_ns)

    @staticmethod
    def _tokens(
        tokens: Callable[..., Any], marks: ConditionalStore, _records: ConditionalStore, key: str, **how: Any
    ) -> Any:
        """Make the part that gives tokens. Its mark is kept beside the record, so it gets another store."""
        return tokens(marks, key, **how)

    @staticmethod
    def watch_ns(settings: LockSettings) -> int:
        """For how long a waiter must see an unchanged record before it takes over (T5)."""
        return _lapses_after_ns(LeaseOptions.from_settings(settings))

    # ---- what the holder is about to do (`lockref.provider.CarriesData`) ----

    @property
    def intent(self) -> str | None:
        return self._carried.intent

    @intent.setter
    def intent(self, intent: str | None) -> None:
        self._carried.intend(intent)

    @property
    def data(self) -> str | None:
        """The row's text; None where nothing is held."""
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

    def unlock(self) -> None:
        """As `LeaseLock.unlock`.

        What a dead holder left, and nobody has said to be done (`update_data`, `finish_rename`), stays in the record
        for the next holder, and the log says so: to unlock is not to have finished it (B12).
        """
        tenure = self.client.tenure
        is_outermost = tenure is not None and self.gate.depth == 1
        if tenure is not None and is_outermost and self.took_over and tenure.task == self.runtime.current_task():
            _LOG.warning("lock %s: given back with a dead holder's work unfinished; it stays in the row", tenure.key)
        super().unlock()
