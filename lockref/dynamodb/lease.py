"""Delta Lake's lease in a row of a DynamoDB table, where delta-rs keeps it."""

from __future__ import annotations

from typing import Self

from lockref.delta.lease import DeltaLease, Place
from lockref.delta.options import LeaseOptions
from lockref.dynamodb import item
from lockref.dynamodb.rows import Marks, Rows
from lockref.dynamodb.table import TABLE, TableClient
from lockref.locks.notices import LossCallback
from lockref.provider import LockContext, LockListener
from lockref.runtime import Runtime


class DynamoLock(DeltaLease):
    """A lease in a row of a DynamoDB table. See `DeltaLease` and `LeaseLock` for its calls and errors.

    table: where the row lives, a `TableClient`; each of its requests should take at most `options.request_timeout_ns`.
    key: of the row, such as the table's URI in S3: one lock per Delta table (D3).
    table_name: for errors; "" where nobody knows it. The other arguments are those of `DeltaLease`.
    """

    decode_state = staticmethod(item.decode_state)
    record_format = "delta-lease"
    stands_on = TABLE.name

    def __init__(
        self,
        table: TableClient,
        key: str,
        options: LeaseOptions,
        *,
        runtime: Runtime | None = None,
        listener: LockListener | None = None,
        on_loss: LossCallback | None = None,
        table_name: str = "",
    ) -> None:
        place = Place(records=Rows(table), marks=Marks(table), codec=item.CODEC, table=table_name)
        super().__init__(place, key, options, runtime=runtime, listener=listener, on_loss=on_loss)

    @classmethod
    def from_context(cls, context: LockContext) -> Self:
        """A lock for one process of the laboratory. Errors: ConfigError for a timing that no lease can have."""
        options = LeaseOptions.from_settings(context.settings)
        table = context.open(TABLE, timeout_ns=options.request_timeout_ns)
        return cls(table, context.settings.key, options, runtime=context.runtime, listener=context.listener)
