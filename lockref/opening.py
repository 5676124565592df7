"""From a table's properties to its lock: one call, nothing to get wrong in between.

Bucket or row, key, timing and store all come from the properties that the
table's other writers use, so the lock is on what they lock: Hudi's lock object
for `hoodie.…`, a row of Delta's lock table for `DYNAMO_LOCK_…`.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from lockref.dynamodb.lease import DynamoLock
from lockref.dynamodb.options import PARTITION_KEY_VALUE, PREFIX, LeaseOptions
from lockref.dynamodb.place import table_channel
from lockref.dynamodb.table import TABLE
from lockref.errors import ConfigError
from lockref.storage.config import StorageLockConfig
from lockref.storage.lock import StorageLock
from lockref.storage.place import store_uri
from lockref.stores.uri import open_store, parse_store_uri

if TYPE_CHECKING:
    from lockref.locks.notices import LossCallback
    from lockref.provider import LockListener
    from lockref.storage.audit import AuditTrail


def open_lock(
    properties: Mapping[str, object],
    *,
    endpoint: str = "",
    region: str = "",
    listener: LockListener | None = None,
    on_loss: LossCallback | None = None,
    audit: AuditTrail | None = None,
) -> StorageLock | DynamoLock:
    """The lock of the table that Hudi's or delta-rs' properties describe. No request is sent.

    properties: of Hudi, `hoodie.base.path` is required; `hoodie.write.lock.storage.*` gives the
        timing, with Hudi's defaults. Of delta-rs, `DYNAMO_LOCK_PARTITION_KEY_VALUE` is required and names the row, best
        by the table's URI; the other `DYNAMO_LOCK_*` have the defaults of dynamodb_lock 0.5. Other properties are
        left alone.
    endpoint: `http://host:port` of another server than the cloud's own, for Azure `http://host:port/account`.
        region: of S3, where the environment does not say it. Credentials come from the environment, never from here.
    listener, on_loss, audit: as for `StorageLock`; a lock in a row has no audit.

    `close` the lock at the end. Its connections are closed when nobody refers to it any more,
    its own clean-up in the background included.

    Errors: ConfigError for properties that Hudi would refuse, a misspelt property of the lock, a scheme without a
        lock client, settings that contradict each other (T11), two mechanisms on one table, no credentials for
        the cloud.
    Source: RFC-91 "Configurations"; Hudi 1.2.0 `StorageLockClient`, `StorageSchemes`; dynamodb-lock-rs
        `DynamoDbOptions`.
    """
    if any(name.startswith(PREFIX) for name in properties):
        return _open_lease(
            properties, endpoint=endpoint, region=region, listener=listener, on_loss=on_loss, audit=audit
        )
    config = StorageLockConfig.from_properties(properties)
    uri = store_uri(config.location, endpoint=endpoint, region=region)
    timeout_ns = config.terms().request_timeout_ns
    store = open_store(uri, request_timeout_ns=timeout_ns)
    lock = StorageLock(
        store, config=config, request_timeout_ns=timeout_ns, listener=listener, on_loss=on_loss, audit=audit
    )
    weakref.finalize(lock, store.close).atexit = False
    return lock


def _open_lease(
    properties: Mapping[str, object],
    *,
    endpoint: str,
    region: str,
    listener: LockListener | None,
    on_loss: LossCallback | None,
    audit: AuditTrail | None,
) -> DynamoLock:
    beside = sorted(name for name in properties if name.startswith("hoodie."))
    if beside:
        raise ConfigError(
            f"{beside[0]} stands beside {PREFIX}…: two mechanisms on one table exclude nobody; "
            "give the properties of one"
        )
    if audit is not None:
        raise ConfigError("a lock in a row of a table has no audit; leave it out")
    options = LeaseOptions.from_properties(properties)
    if options.key is None:
        raise ConfigError(
            f"{PARTITION_KEY_VALUE} is missing; give the table's URI. delta-rs' default, 'delta-rs', is one lock for "
            "all tables (D3): give that if you share it with such writers"
        )
    where = urlencode({name: value for name, value in (("endpoint", endpoint), ("region", region)) if value})
    address = parse_store_uri(f"dynamodb://{options.table_name}{'?' if where else ''}{where}")
    channel = table_channel(address, request_timeout_ns=options.request_timeout_ns)
    lock = DynamoLock(
        TABLE.over(channel, options.request_timeout_ns), options.key, options, listener=listener, on_loss=on_loss,
        table_name=options.table_name,
    )  # fmt: skip
    weakref.finalize(lock, channel.close).atexit = False
    return lock
