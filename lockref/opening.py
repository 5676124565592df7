"""From a table's properties to its lock: one call, nothing to get wrong in between.

Bucket, key, timing and store all come from the properties that the table's
other writers use, so the lock is on the object that they lock.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lockref.storage.config import StorageLockConfig
from lockref.storage.lock import StorageLock
from lockref.storage.place import store_uri
from lockref.stores.uri import open_store

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
) -> StorageLock:
    """The lock of the table that Hudi's properties describe. No request is sent.

    properties: `hoodie.base.path` is required; `hoodie.write.lock.storage.*` gives the
        timing, with Hudi's defaults. Properties of other parts of Hudi are left alone.
    endpoint: `http://host:port` of another server than the cloud's own. region: of S3, where the
        environment does not say it. Credentials come from the environment, never from here.
    listener, on_loss, audit: as for `StorageLock`.

    `close` the lock at the end. Its connections are closed when nobody refers to it any more,
    its own clean-up in the background included.

    Errors: ConfigError for properties that Hudi would refuse, a misspelt storage-lock
        property, a scheme without a lock client; CapabilityMissing for Azure.
    Source: RFC-91 "Configurations"; Hudi 1.2.0 `StorageLockClient`, `StorageSchemes`.
    """
    config = StorageLockConfig.from_properties(properties)
    uri = store_uri(config.location, endpoint=endpoint, region=region)
    timeout_ns = config.terms().request_timeout_ns
    store = open_store(uri, request_timeout_ns=timeout_ns)
    lock = StorageLock(
        store, config=config, request_timeout_ns=timeout_ns, listener=listener, on_loss=on_loss, audit=audit
    )
    weakref.finalize(lock, store.close).atexit = False
    return lock
