"""From a table's properties to its lock: one call, nothing to get wrong in between.

Bucket or row, key, timing and store all come from the properties that the
table's other writers use, so the lock is on what they lock: Hudi's lock object
for `hoodie.…`, a row of Delta's lock table for `DYNAMO_LOCK_…`.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from lockref.clouds.admission import NEEDED, Admission
from lockref.clouds.tables import table_channel
from lockref.clouds.uri import cloud_of, open_store, parse_store_uri
from lockref.delta.options import PARTITION_KEY_VALUE, PREFIX, LeaseOptions
from lockref.dynamodb.lease import DynamoLock
from lockref.dynamodb.table import TABLE
from lockref.errors import ConfigError
from lockref.storage.config import BASE_PATH, StorageLockConfig
from lockref.storage.lock import StorageLock
from lockref.storage.place import LOCAL_LOCK_KEY, local_store, store_uri
from lockref.storage.properties import check_lock_properties

if TYPE_CHECKING:
    from lockref.locks.notices import LossCallback
    from lockref.provider import LockListener
    from lockref.storage.audit import AuditTrail

_kept: Final[set[tuple[object, ...]]] = set()
"""The stores that kept their conditions when this process asked them."""


def open_lock(
    properties: Mapping[str, object] | str,
    *,
    endpoint: str = "",
    region: str = "",
    listener: LockListener | None = None,
    on_loss: LossCallback | None = None,
    audit: AuditTrail | None = None,
    fingerprint: Path | str | None = None,
    allows_unsafe: bool = False,
) -> StorageLock | DynamoLock:
    """The lock of the table that Hudi's or delta-rs' properties describe, on a store that keeps its conditions.

    A store that ignores a condition excludes nobody, and looks healthy until two writers meet. So a process asks each
    store once, before its first lock there: the quick form of `lockref probe` writes some small objects beside the
    lock, and removes them, in about two seconds. A fingerprint stands in for it, and then nothing is sent.

    properties: of Hudi, `hoodie.base.path` is required; `hoodie.write.lock.storage.*` gives the
        timing, with Hudi's defaults. `hoodie.write.lock.provider` must name Hudi's storage lock where it is given:
        writers with another provider lock elsewhere. Of delta-rs, `DYNAMO_LOCK_PARTITION_KEY_VALUE` is required and
        names the row, best by the table's URI; the other `DYNAMO_LOCK_*` have the defaults of dynamodb_lock 0.5. Other
        properties are left alone. A text is a base path with Hudi's defaults. For tests it may lie on this machine:
        `memory:NAME` for the threads of this process, `file:///FOLDER` for all processes. Hudi has no such lock, and
        these stores are not asked: they are this package's own.
    endpoint: `http://host:port` of another server than the cloud's own, for Azure `http://host:port/account`.
        region: of S3, where the environment does not say it. Credentials come from the environment, never from here.
    listener, on_loss, audit: as for `StorageLock`; a lock in a row has no audit.
    fingerprint: a file that `lockref probe URI --output FILE` wrote about this store. It must say that the store can
        carry a lock by compare-and-swap.
    allows_unsafe: take the store as it is, whatever it does with conditions. It is not asked.

    `close` the lock at the end. Its connections are closed when nobody refers to it any more,
    its own clean-up in the background included.

    Errors: ConfigError for properties that Hudi would refuse, a misspelt or contradicting property of the lock, a
        provider whose writers lock elsewhere, a scheme without a lock client, settings that contradict each other
        (T11), two mechanisms on one table, a table with another key, no credentials for
        the cloud, the fingerprint of another store. CapabilityMissing for a store that ignores a condition (C1 to C5,
        C21), or whose fingerprint does not let it carry the lock. BackendUnavailable where it does not answer.
    Source: RFC-91 "Configurations"; Hudi 1.2.0 `StorageLockClient`, `StorageSchemes`; dynamodb-lock-rs
        `DynamoDbOptions`.
    """
    if isinstance(properties, str):
        properties = {BASE_PATH: properties}
    if any(name.startswith(PREFIX) for name in properties):
        return _open_lease(
            properties, endpoint=endpoint, region=region, listener=listener, on_loss=on_loss, audit=audit,
            admission=Admission.by(_path(fingerprint), allows_unsafe=allows_unsafe, designs=(NEEDED,)),
        )  # fmt: skip
    config = StorageLockConfig.from_properties(properties)
    check_lock_properties(properties, config)
    local = local_store(config.base_path)
    if local is not None and (endpoint or region):
        raise ConfigError(f"{local} lies on this machine: leave out endpoint and region")
    uri = local or store_uri(config.location, endpoint=endpoint, region=region)
    timeout_ns = config.terms().request_timeout_ns
    store = open_store(uri, request_timeout_ns=timeout_ns)
    lock = StorageLock(
        store, config=config, key=LOCAL_LOCK_KEY if local else None, request_timeout_ns=timeout_ns, listener=listener,
        on_loss=on_loss, audit=audit,
    )  # fmt: skip
    weakref.finalize(lock, store.close).atexit = False
    admission = Admission.by(_path(fingerprint), allows_unsafe=allows_unsafe, designs=(NEEDED,))
    _admit(uri, admission, below=lock.cell.key.rpartition("/")[0], request_timeout_ns=timeout_ns)
    return lock


def _open_lease(
    properties: Mapping[str, object],
    *,
    endpoint: str,
    region: str,
    listener: LockListener | None,
    on_loss: LossCallback | None,
    audit: AuditTrail | None,
    admission: Admission,
) -> DynamoLock:
    beside = sorted(name for name in properties if name.startswith("hoodie."))
    if beside:
        raise ConfigError(
            f"{beside[0]} stands beside {PREFIX}…: Hudi's lock and a lease in a table do not exclude each other; "
            "give the properties of one of them"
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
    uri = f"dynamodb://{options.table_name}{'?' if where else ''}{where}"
    address = parse_store_uri(uri)
    channel = table_channel(address, request_timeout_ns=options.request_timeout_ns)
    lock = DynamoLock(
        TABLE.over(channel, options.request_timeout_ns), options.key, options, listener=listener, on_loss=on_loss,
        table_name=options.table_name,
    )  # fmt: skip
    weakref.finalize(lock, channel.close).atexit = False
    _admit(uri, admission, below="lockref-ready", request_timeout_ns=options.request_timeout_ns)
    return lock


def _path(named: Path | str | None) -> Path | None:
    return None if named is None else Path(named)


def _admit(uri: str, admission: Admission, *, below: str, request_timeout_ns: int) -> None:
    """Raise unless the store may be opened. One that this process has asked before is not asked again.

    Two threads may both be the first to ask: that costs some requests, and changes no answer.
    """
    if admission.fingerprint is not None:
        admission.measure(uri)
        return
    address = parse_store_uri(uri)
    if admission.allows_unsafe or cloud_of(address).is_on_this_machine:
        return
    store = tuple(address.store().values())
    if store not in _kept:
        admission.measure(uri, below=below, request_timeout_ns=request_timeout_ns)
        _kept.add(store)
