"""Every `hoodie.write.lock.…` is read before a lock is opened: the table's writers must lock where this lock does."""

from __future__ import annotations

import logging

import pytest

from lockref import open_lock
from lockref.clouds.dynamodb.client import DynamoChannel
from lockref.errors import ConfigError
from lockref.runtime import NS_PER_S
from lockref.storage.properties import PROVIDER, STORAGE_PROVIDER

BASE = {"hoodie.base.path": "s3a://lake/orders"}
_HUDI = "org.apache.hudi"


def opened(**properties: object) -> tuple[str, int]:
    """Open and close; nothing listens at the address, and nothing is asked. Returns its object and renew interval."""
    lock = open_lock({**BASE, **properties}, endpoint="http://127.0.0.1:9", region="us-east-1", allows_unsafe=True)
    lock.close()
    return lock.cell.key, lock.terms.renew_interval_ns


@pytest.mark.parametrize(
    "provider",
    [
        f"{_HUDI}.aws.transaction.lock.DynamoDBBasedLockProvider",
        f"{_HUDI}.client.transaction.lock.ZookeeperBasedLockProvider",
        f"{_HUDI}.client.transaction.lock.FileSystemBasedLockProvider",
        f"{_HUDI}.client.transaction.lock.InProcessLockProvider",
        f"{_HUDI}.hive.transaction.lock.HiveMetastoreBasedLockProvider",
        f"{_HUDI}.client.transaction.lock.NoopLockProvider",
        "com.example.StorageBasedLockProvider",
        STORAGE_PROVIDER.rpartition(".")[2],
        "com.example.OurOwnLockProvider",
        "",
        7,
    ],
)
def test_writers_that_lock_elsewhere_are_not_joined(provider: object) -> None:
    """A lock in storage excludes no writer with another provider, and would look as if it did."""
    with pytest.raises(ConfigError, match=f"{PROVIDER} is .* would exclude none of them"):
        opened(**{PROVIDER: provider})


@pytest.mark.parametrize(
    ("provider", "where"),
    [
        ("aws.transaction.lock.DynamoDBBasedLockProvider", "in a table of DynamoDB"),
        ("aws.transaction.lock.DynamoDBBasedImplicitPartitionKeyLockProvider", "in a table of DynamoDB"),
        ("client.transaction.lock.ZookeeperBasedLockProvider", "in ZooKeeper"),
        ("client.transaction.lock.ZookeeperBasedImplicitBasePathLockProvider", "in ZooKeeper"),
        ("client.transaction.lock.FileSystemBasedLockProvider", "by a file"),
        ("client.transaction.lock.InProcessLockProvider", "within one process each"),
        ("client.transaction.lock.NoopLockProvider", "nowhere"),
        ("hive.HiveMetastoreBasedLockProvider", "in the Hive metastore"),
        ("hive.transaction.lock.HiveMetastoreBasedLockProvider", "in the Hive metastore"),
    ],
)
def test_the_refusal_tells_where_such_writers_lock(provider: str, where: str) -> None:
    """Hudi's own providers are known by name, those of older versions as well."""
    with pytest.raises(ConfigError, match=f"the table's writers lock {where}"):
        opened(**{PROVIDER: f"{_HUDI}.{provider}"})


_LEFT_OVER = (
    "filesystem.path", "filesystem.expire", "hivemetastore.database", "hivemetastore.table", "hivemetastore.uris",
    "zookeeper.url", "zookeeper.port", "zookeeper.base_path", "zookeeper.lock_key", "zookeeper.session_timeout_ms",
    "zookeeper.connection_timeout_ms", "dynamodb.table", "dynamodb.partition_key", "dynamodb.region",
    "dynamodb.endpoint_url", "dynamodb.billing_mode", "dynamodb.read_capacity", "dynamodb.write_capacity",
    "dynamodb.table_creation_timeout",
)  # fmt: skip


@pytest.mark.parametrize("name", _LEFT_OVER)
def test_a_property_of_another_lock_is_joined_only_where_the_provider_is_named(name: str) -> None:
    """Alone it is a sign that the writers lock elsewhere; beside the provider it is what an earlier one left."""
    given = {f"hoodie.write.lock.{name}": "x"}
    with pytest.raises(ConfigError, match=f"{name} belongs to another lock of Hudi's"):
        opened(**given)
    opened(**given, **{PROVIDER: STORAGE_PROVIDER})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"hoodie.write.lock.azure.sas.tokn": "x"}, "azure.sas.tokn is no property of Hudi's locks"),
        ({"hoodie.write.lock.wait_time": "5"}, "Did you mean 'hoodie.write.lock.wait_time_ms'"),
        ({"hoodie.write.lock.storage.validty.timeout.secs": "60"}, "is no property"),
        ({"hoodie.write.lock.num_retries": "ten"}, "num_retries is 'ten'; expected a whole number"),
        ({"hoodie.write.lock.wait_time_ms": "-1"}, "wait_time_ms is '-1'; expected a whole number, 0 or more"),
        ({"hoodie.write.lock.client.num_retries": -2}, "client.num_retries is -2"),
        ({"hoodie.write.lock.zookeeper.url": "zk1"}, "zookeeper.url belongs to another lock"),
        (
            {
                "hoodie.write.lock.storage.renew.interval.secs": "20",
                "hoodie.write.lock.storage.heartbeat.poll.secs": "30",
            },
            "two names of one interval",
        ),
        (
            {
                "hoodie.write.lock.storage.renew.interval.secs": "30",
                "hoodie.write.lock.storage.heartbeat.poll.secs": "20",
            },
            "two names of one interval",
        ),
    ],
)
def test_what_is_unknown_malformed_or_contradicts_is_refused(given: dict[str, object], said: str) -> None:
    """T11: each is one line that names the property."""
    with pytest.raises(ConfigError, match=said):
        opened(**given)


@pytest.mark.parametrize(
    "given",
    [
        {PROVIDER: STORAGE_PROVIDER},
        {PROVIDER: STORAGE_PROVIDER, "hoodie.write.lock.zookeeper.url": "left over"},
        {
            "hoodie.write.lock.num_retries": "10",
            "hoodie.write.lock.conflict.resolution.strategy": "x",
            "hoodie.table.name": "orders",
            "hoodie.write.lock.client.num_retries": 3,
        },
        {PROVIDER: None, "hoodie.write.lock.zookeeper.url": None, "hoodie.write.lock.misspelt": None},
        {
            "hoodie.write.lock.storage.renew.interval.secs": "20",
            "hoodie.write.lock.storage.heartbeat.poll.secs": 20,
        },
    ],
)
def test_writers_that_lock_in_storage_are_joined(given: dict[str, object]) -> None:
    """Whole configurations of writers, and what an earlier provider left in them: one object, and their interval."""
    interval_s = int(str(given.get("hoodie.write.lock.storage.renew.interval.secs", 30)))
    assert opened(**given) == ("orders/.hoodie/.locks/table_lock.json", interval_s * NS_PER_S)


@pytest.mark.parametrize(("wait_ms", "is_told"), [("1500", True), ("299999", True), ("300000", False), (None, False)])
def test_a_short_wait_is_allowed_and_told(wait_ms: str | None, is_told: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A writer that waits for less than a lease never outlives a dead holder in one attempt."""
    with caplog.at_level(logging.WARNING, "lockref"):
        opened(**{"hoodie.write.lock.wait_time_ms": wait_ms})
    assert (f"wait_time_ms is {wait_ms} ms, and a lease lasts 300 s" in caplog.text) is is_told
    assert bool(caplog.text) is is_told


def test_a_credential_in_the_properties_is_named_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    """Credentials come from the environment; who gives one here is told by its name."""
    with caplog.at_level(logging.DEBUG, "lockref"):
        opened(**{"hoodie.write.lock.azure.sas.token": "sv=secret"})
    assert "azure.sas.token is not used" in caplog.text
    assert "secret" not in caplog.text


def test_a_table_with_another_key_is_told_which_key_it_must_have() -> None:
    """One line: the name and the type of the key, no sort key; where there is no table, how to make it."""
    table = DynamoChannel("mine", endpoint="http://127.0.0.1:9", region="us-east-1", request_timeout_ns=NS_PER_S)
    assert "must be the text attribute 'key', without a sort key" in table._advice("ValidationException")
    made = table._advice("ResourceNotFoundException")
    assert "create-table --table-name mine" in made
    assert "--key-schema AttributeName=key,KeyType=HASH" in made
    assert table._advice("AccessDeniedException") == ""
    table.close()
