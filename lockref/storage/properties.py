"""Do these properties of Hudi describe a table whose writers lock in storage? Asked before a lock is opened.

A lock excludes those who take the same lock. Hudi's `hoodie.write.lock.provider` says where the writers of a table
lock: in ZooKeeper, in a table of DynamoDB, in the Hive metastore, in a file system, or in storage, as RFC-91's lock
does. A lock in storage beside writers that lock elsewhere works, and excludes none of them. So every
`hoodie.write.lock.…` that is given is read: an unknown name, a number that is none or beyond its bounds, and two names
that contradict each other are refused.

Source: Hudi 1.2.0 `HoodieLockConfig`, `LockConfiguration`, `DynamoDbBasedLockConfig`, `StorageBasedLockConfig`,
`AzureStorageLockConfig`; RFC-91 "Configurations".
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from lockref.errors import ConfigError, did_you_mean
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.storage.config import (
    CLIENT_RETRIES,
    CLIENT_RETRY_WAIT,
    HEARTBEAT_POLL,
    RENEW_INTERVAL,
    VALIDITY,
    WAIT_TIME,
    StorageLockConfig,
    whole_number,
)

LOCK: Final = "hoodie.write.lock."
PROVIDER: Final = f"{LOCK}provider"
STORAGE_PROVIDER: Final = "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider"

_ELSEWHERE: Final[Mapping[str, str]] = {
    "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider": "in a table of DynamoDB",
    "org.apache.hudi.aws.transaction.lock.DynamoDBBasedImplicitPartitionKeyLockProvider": "in a table of DynamoDB",
    "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider": "in ZooKeeper",
    "org.apache.hudi.client.transaction.lock.ZookeeperBasedImplicitBasePathLockProvider": "in ZooKeeper",
    "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider": "by a file that they create and delete",
    "org.apache.hudi.client.transaction.lock.InProcessLockProvider": "within one process each",
    "org.apache.hudi.client.transaction.lock.NoopLockProvider": "nowhere",
    "org.apache.hudi.hive.HiveMetastoreBasedLockProvider": "in the Hive metastore",
    "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider": "in the Hive metastore",
}
"""Where writers with another provider of Hudi's lock."""

_COUNTS: Final = (
    WAIT_TIME,
    CLIENT_RETRIES,
    CLIENT_RETRY_WAIT,
    f"{LOCK}num_retries",
    f"{LOCK}wait_time_ms_between_retry",
    f"{LOCK}max_wait_time_ms_between_retry",
    f"{LOCK}heartbeat_interval_ms",
)
"""Whole numbers that are not negative."""

_GENERAL: Final = (PROVIDER, *_COUNTS, f"{LOCK}conflict.resolution.strategy", VALIDITY, RENEW_INTERVAL, HEARTBEAT_POLL)

_FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    "filesystem.": ("path", "expire"),
    "hivemetastore.": ("database", "table", "uris"),
    "zookeeper.": ("url", "port", "base_path", "lock_key", "session_timeout_ms", "connection_timeout_ms"),
    "dynamodb.": (
        "table", "partition_key", "region", "endpoint_url", "billing_mode", "read_capacity", "write_capacity",
        "table_creation_timeout",
    ),
}  # fmt: skip
"""The properties of Hudi's other providers, by the beginning of their names."""

_AZURE: Final = tuple(
    f"{LOCK}azure.{name}"
    for name in (
        "connection.string", "sas.token", "managed.identity.client.id",
        "client.tenant.id", "client.id", "client.secret",
    )
)  # fmt: skip

_OTHERS: Final = tuple(f"{LOCK}{family}{name}" for family, names in _FAMILIES.items() for name in names)
_KNOWN: Final = (*_GENERAL, *_AZURE, *_OTHERS)
_LOG: Final = logging.getLogger("lockref")


def check_lock_properties(properties: Mapping[str, object], config: StorageLockConfig) -> None:
    """Raise ConfigError, which names the property, unless the writers with these properties lock in storage.

    config: what was read from them. What is allowed and perhaps not meant is logged as a warning. No value of a
    credential is ever told.
    """
    given = [name for name, value in properties.items() if name.startswith(LOCK) and value is not None]
    for name in given:
        if name not in _KNOWN:
            raise ConfigError(f"{name} is no property of Hudi's locks.{did_you_mean(name, _KNOWN)}")
    _check_provider(properties, given)
    for name in _COUNTS:
        if whole_number(properties, name, default=0) < 0:
            raise ConfigError(f"{name} is {properties[name]!r}; expected a whole number, 0 or more")
    if RENEW_INTERVAL in given and HEARTBEAT_POLL in given:
        renew_s, poll_s = (whole_number(properties, name, default=0) for name in (RENEW_INTERVAL, HEARTBEAT_POLL))
        if renew_s != poll_s:
            raise ConfigError(
                f"{RENEW_INTERVAL} is {renew_s} and {HEARTBEAT_POLL} is {poll_s}: they are two names of one interval; "
                "give the first alone"
            )
    _tell_what_may_surprise(given, config)


def _check_provider(properties: Mapping[str, object], given: list[str]) -> None:
    provider = properties.get(PROVIDER)
    if provider is None:
        beside = next((name for name in given if name in _OTHERS), None)
        if beside is not None:
            raise ConfigError(
                f"{beside} belongs to another lock of Hudi's, and {PROVIDER} does not say which one the table's "
                f"writers use; if they lock in storage, give {PROVIDER}={STORAGE_PROVIDER}"
            )
        return
    if provider == STORAGE_PROVIDER:
        return
    where = _ELSEWHERE.get(provider) if isinstance(provider, str) else None
    told = f"the table's writers lock {where}" if where else "it is not known where the table's writers lock"
    hint = "" if where else did_you_mean(str(provider), (STORAGE_PROVIDER,))
    raise ConfigError(
        f"{PROVIDER} is {provider!r}: {told}, and a lock in storage would exclude none of them. Open it only where "
        f"every writer of the table has {STORAGE_PROVIDER}.{hint}"
    )


def _tell_what_may_surprise(given: list[str], config: StorageLockConfig) -> None:
    if WAIT_TIME in given and config.wait_time_ns < config.validity_ns:
        _LOG.warning(
            "%s is %d ms, and a lease lasts %g s: Hudi's writers give up an attempt before the lease of a dead holder "
            "ends. Here, lock(timeout_s) says how long to wait",
            WAIT_TIME, config.wait_time_ns // NS_PER_MS, config.validity_ns / NS_PER_S,
        )  # fmt: skip
    for name in given:
        if name in _AZURE:
            _LOG.warning("%s is not used: credentials come from the environment", name)
