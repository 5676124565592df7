"""A lease in one znode: what Helix' ZKDistributedNonblockingLock meant to be (Z19), of the parts of every lease.

Parts, rules of time and record are those of Delta Lake's lease (`lockref/delta`); place and notation differ.
Beside Helix' lock:

- durations and monotonic clocks, where it writes an instant of the holder's wall clock;
- what cannot be read is an error, where it is a free lock (HJ1); only the holder gives back (HJ2);
- a fencing token that rises over every take-over, where it has none (HJ7);
- whoever waits looks, and so sees a lease that ends during its wait (HJ5).

It has no priorities: to take a lock from a holder that works is what a lease exists to prevent.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, Self

from lockref.coordination.znode_store import ZNODES, ZnodeStore, key_of
from lockref.delta.codec import LeaseCodec, Notation
from lockref.delta.lease import DeltaLease, Place
from lockref.delta.options import LeaseOptions
from lockref.locks.notices import LossCallback
from lockref.provider import LockContext, LockListener, LockView
from lockref.runtime import Runtime


def _text_in(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number_in(value: Any, most: int) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most else None


CODEC: Final = LeaseCodec(
    Notation(
        place="znode", form="JSON object", text=str, number=int, text_in=_text_in, number_in=_number_in,
        text_name="text", number_name="a whole number",
    )
)  # fmt: skip
"""The record as plain JSON: text and whole numbers, not a table's types."""


def decode_state(key: str, body: bytes) -> list[LockView]:
    """The lock that the content of a znode describes; an empty list if the content is no lease. A `StateDecoder`."""
    lock = key_of(key)
    return [] if lock == key else [replace(view, lock=lock) for view in CODEC.decode_state(lock, body)]


class ZnodeLease(DeltaLease):
    """A lease in one znode of ZooKeeper. See `DeltaLease` and `LeaseLock` for its calls and errors.

    store: the znodes of the folder where leases and fence marks are kept. The others: `DeltaLease`.
    """

    decode_state = staticmethod(decode_state)
    record_format = "znode-lease"
    stands_on = ZNODES.name
    is_fork_safe = False  # A forked child would speak on its parent's connection.

    def __init__(
        self,
        store: ZnodeStore,
        key: str,
        options: LeaseOptions,
        *,
        runtime: Runtime | None = None,
        listener: LockListener | None = None,
        on_loss: LossCallback | None = None,
    ) -> None:
        place = Place(records=store, marks=store, codec=CODEC)
        super().__init__(place, key, options, runtime=runtime, listener=listener, on_loss=on_loss)

    @classmethod
    def from_context(cls, context: LockContext) -> Self:
        """A lock for one process of the laboratory. Errors: ConfigError for a timing that no lease can have."""
        options = LeaseOptions.from_settings(context.settings)
        store = context.open(ZNODES, timeout_ns=options.request_timeout_ns)
        return cls(store, context.settings.key, options, runtime=context.runtime, listener=context.listener)
