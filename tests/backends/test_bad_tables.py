"""Bad input to the lease, on every table: a typed error that names table, row and attribute; nothing written."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lockref import open_lock
from lockref.cli.main import run
from lockref.clouds.aws import aws_client
from lockref.clouds.dynamodb.client import DynamoChannel
from lockref.clouds.uri import parse_store_uri
from lockref.delta.options import LeaseOptions
from lockref.dynamodb.item import decode_state
from lockref.dynamodb.lease import DynamoLock
from lockref.dynamodb.memory import MemoryTable
from lockref.dynamodb.objects import bytes_item
from lockref.dynamodb.table import ITEM_BYTES_MAX, KEY, TABLE, VERSION, TableClient, flag, number, text
from lockref.errors import (
    BackendUnavailable,
    ConfigError,
    CorruptRecord,
    LockNotAcquirable,
    LockrefError,
    StoreRejected,
)
from lockref.provider import LockSettings
from lockref.runtime import NS_PER_S, Runtime
from sim.services.table import TableService
from tests.backends.conftest import on
from tests.sim.scripted import Scene

TIMEOUT_NS = 10 * NS_PER_S
ROW, TABLE_NAME = "s3://bucket/table", "locks-of-others"
SOUND: Mapping[str, Any] = {
    VERSION: text("v1"),
    "ownerName": text("other"),
    "leaseDuration": text("20"),
    "data": text("{}"),
}
_numbers = itertools.count(1)

Use = Callable[[TableClient, Runtime | None, str], None]
"""Works with a table: (client, runtime, name of the table)."""


def in_memory(use: Use, _request: pytest.FixtureRequest) -> None:
    use(TableClient(MemoryTable(), TIMEOUT_NS), None, TABLE_NAME)


def modelled(use: Use, _request: pytest.FixtureRequest) -> None:
    scene = Scene()
    scene.world.add("leases", TableService(), decode=decode_state)
    scene.client(
        "n1",
        lambda node, _store: use(
            scene.world.connect(node, "leases", TABLE, timeout_ns=TIMEOUT_NS), node.runtime, TABLE_NAME
        ),
    )
    scene.run()


def on_server(use: Use, request: pytest.FixtureRequest) -> None:
    address = parse_store_uri(request.getfixturevalue(request.node.callspec.params["place"]).uri)
    name = f"bad-{next(_numbers)}"
    with closing(
        DynamoChannel(name, endpoint=address.endpoint, region="us-east-1", request_timeout_ns=TIMEOUT_NS)
    ) as channel:
        channel.create_table()
        use(TableClient(channel, TIMEOUT_NS), None, name)


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Callable[[Use], None]:
    """Lets work be done with an empty table of the kind that the test names."""
    kinds = {"memory": in_memory, "modelled": modelled}
    return lambda use: kinds.get(request.param, on_server)(use, request)


everywhere = pytest.mark.parametrize(
    "place", [on("memory"), on("modelled"), on("ministack"), on("dynalite")], indirect=True
)

MALFORMED: dict[str, tuple[Mapping[str, Any], str]] = {
    "version missing": ({VERSION: None}, VERSION),
    "version empty": ({VERSION: text("")}, VERSION),
    "version a number": ({VERSION: number(3)}, VERSION),
    "owner missing": ({"ownerName": None}, "ownerName"),
    "owner empty": ({"ownerName": text("")}, "ownerName"),
    "owner a list": ({"ownerName": {"L": [text("other")]}}, "ownerName"),
    "duration missing": ({"leaseDuration": None}, "leaseDuration"),
    "duration words": ({"leaseDuration": text("soon")}, "leaseDuration"),
    "duration negative": ({"leaseDuration": text("-20")}, "leaseDuration"),
    "duration a fraction": ({"leaseDuration": number(20) | {"N": "20.5"}}, "leaseDuration"),
    "duration an instant as text": ({"leaseDuration": text("1795309390")}, "leaseDuration"),
    "duration a truth value": ({"leaseDuration": flag(True)}, "leaseDuration"),
    "data a number": ({"data": number(7)}, "data"),
    "data binary": ({"data": {"B": "AAE="}}, "data"),
    "generation text": ({"generation": text("7")}, "generation"),
    "generation negative": ({"generation": {"N": "-7"}}, "generation"),
    "mark text": ({"generationMark": text("7")}, "generationMark"),
    "incarnation a number": ({"incarnation": number(7)}, "incarnation"),
    "an object of a store": ({**dict.fromkeys(SOUND), **bytes_item(ROW, b"{}"), VERSION: text("v1")}, "ownerName"),
    "a commit of S3DynamoDBLogStore": (
        {**dict.fromkeys(SOUND), "fileName": text("0.json"), "complete": text("false")}, "ownerName",
    ),
}  # fmt: skip
"""Rows that are no lease, and the attribute that says so. The last two are other mechanisms on the same table."""


def planted(client: TableClient, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row as it lies in the table: sound but for these attributes; None takes one away."""
    row = {name: value for name, value in {**SOUND, **attributes}.items() if value is not None and name != KEY}
    assert client.put(ROW, row).status == 200
    found = client.get(ROW).item()
    assert found is not None
    return dict(found)


def lock_of(client: TableClient, runtime: Runtime | None, name: str) -> DynamoLock:
    """A lease on that row."""
    return DynamoLock(client, ROW, LeaseOptions.from_properties({}), runtime=runtime, table_name=name)


def refused(client: TableClient, runtime: Runtime | None, name: str, before: object) -> LockrefError:
    """The error of an attempt, which has left the row as it was and no grant behind."""
    lock = lock_of(client, runtime, name)
    with pytest.raises(LockrefError) as caught:
        lock.try_lock()
    assert client.get(ROW).item() == before
    assert not lock.holds()
    lock.close()
    return caught.value


@everywhere
def test_a_malformed_row_names_table_row_and_attribute(place: Callable[[Use], None]) -> None:
    """Each wrong attribute: CorruptRecord, nothing is written and nobody's lease is taken."""

    def use(client: TableClient, runtime: Runtime | None, name: str) -> None:
        for what, (attributes, attribute) in MALFORMED.items():
            if attributes.get(VERSION) is None and VERSION in attributes:
                client.delete(ROW)
            error = refused(client, runtime, name, planted(client, attributes))
            assert isinstance(error, CorruptRecord), what
            assert f"row {ROW} of table {name} has {attribute} " in str(error), what

    place(use)


@everywhere
def test_a_closed_row_and_a_row_that_grew_too_large_are_left_alone(place: Callable[[Use], None]) -> None:
    """isNonAcquirable of any type; a released row of others with so much beside that ours has no room (400 kB)."""

    def use(client: TableClient, runtime: Runtime | None, name: str) -> None:
        for value in (text(""), text("1"), number(1), flag(False)):
            error = refused(client, runtime, name, planted(client, {"isNonAcquirable": value}))
            assert isinstance(error, LockNotAcquirable)
            assert f"row {ROW} has isNonAcquirable" in str(error)
        much = {"isReleased": text("1"), "more": text("x" * (ITEM_BYTES_MAX - 100))}
        error = refused(client, runtime, name, planted(client, much))
        assert isinstance(error, StoreRejected)
        assert ROW in str(error)
        assert "400 kB" in str(error)

    place(use)


@everywhere
def test_a_released_row_is_taken_whatever_else_it_holds(place: Callable[[Use], None]) -> None:
    """isReleased of any type counts; attributes that nobody here knows are kept, with their types, in every write."""
    others = {"colour": text("blue"), "list": {"L": [number(1), {"B": "AAE="}]}, "none": {"NULL": True}}

    def use(client: TableClient, runtime: Runtime | None, name: str) -> None:
        for value in (text(""), text("1"), flag(True)):
            planted(client, {"isReleased": value, **others})
            lock = lock_of(client, runtime, name)
            assert lock.try_lock()
            lock.unlock()
            lock.close()
            row = client.get(ROW).item()
            assert row is not None
            assert {name: row.get(name) for name in others} == others

    place(use)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rate_ratio_percent": "99"}, "rate_ratio_percent is '99'"),
        ({"rate_ratio_percent": "0"}, "rate_ratio_percent is '0'"),
        ({"rate_ratio_percent": "wide"}, "rate_ratio_percent is 'wide'"),
        ({"rate_ratio_percent": "1000001"}, "from 100 to 1000000"),
        ({"margin_ms": "10000"}, "(T11)"),
        ({"margin_ms": "0"}, "margin_ms is '0'"),
    ],
)
def test_clocks_and_margins_beyond_reason_are_refused(options: dict[str, str], words: str) -> None:
    """T5, T11: a waiter that counts faster than its holder, a lease without room for a renewal."""
    with pytest.raises(ConfigError) as caught:
        LeaseOptions.from_settings(LockSettings(options=options))
    assert words in str(caught.value)


SCHEMAS = {
    "another name": ([("lock_key", "HASH", "S")], r"lock_key \(HASH, S\)"),
    "another type": ([("key", "HASH", "N")], r"key \(HASH, N\)"),
    "a range key": ([("key", "HASH", "S"), ("sort", "RANGE", "S")], r"key \(HASH, S\), sort \(RANGE, S\)"),
    "S3DynamoDBLogStore's": (
        [("tablePath", "HASH", "S"), ("fileName", "RANGE", "S")], r"tablePath \(HASH, S\), fileName \(RANGE, S\)",
    ),
}  # fmt: skip


@pytest.fixture(params=[on("ministack"), on("dynalite")])
def server(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a server with tables; what commands write stays in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    return parse_store_uri(request.getfixturevalue(request.param).uri).endpoint


def test_a_table_with_another_key_is_refused_by_every_door(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """doctor and bench exit 2 and name table and key; a lock says so when it opens, or reads; nothing is written."""
    with closing(
        aws_client("dynamodb", endpoint=server, region="us-east-1", request_timeout_ns=TIMEOUT_NS, pool_size=2)
    ) as client:
        for keys, words in SCHEMAS.values():
            name = f"schema-{next(_numbers)}"
            client.create_table(
                TableName=name,
                KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind, _ in keys],
                AttributeDefinitions=[{"AttributeName": key, "AttributeType": type_} for key, _, type_ in keys],
                BillingMode="PAY_PER_REQUEST",
            )
            client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 0.05, "MaxAttempts": 100})
            with pytest.raises(ConfigError, match=words):
                DynamoChannel(name, endpoint=server, region="us-east-1", request_timeout_ns=TIMEOUT_NS).require_table()
            named = {"DYNAMO_LOCK_TABLE_NAME": name, "DYNAMO_LOCK_PARTITION_KEY_VALUE": ROW}
            with pytest.raises(BackendUnavailable, match=f"ValidationException.*{name}"):
                open_lock(named, endpoint=server, region="us-east-1")
            lock = open_lock(named, endpoint=server, region="us-east-1", allows_unsafe=True)
            with closing(lock), pytest.raises(StoreRejected, match=f"{ROW}.*ValidationException.*{name}"):
                lock.try_lock()
            assert client.scan(TableName=name)["Count"] == 0
        uri = f"dynamodb://{name}?endpoint={server}&region=us-east-1"
        for command in (
            ["doctor", "--store", uri],
            ["bench", "contention", "--backend", uri, "--provider", "dynamodb", "--contenders", "2", "--for", "1s"],
            ["bench", "contention", "--backend", uri, "--contenders", "2", "--for", "1s"],
        ):
            assert run(command) == 2
            told = " ".join(capsys.readouterr().err.split())
            assert (
                f"table '{name}' has the key tablePath (HASH, S), fileName (RANGE, S); expected key (HASH, S)" in told
            )
        assert client.scan(TableName=name)["Count"] == 0


def test_a_missing_table_is_the_environments_fault(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As a missing bucket: exit 5 with the table's name, and what to do."""
    uri = f"dynamodb://nowhere?endpoint={server}&region=us-east-1"
    for command in (["doctor", "--store", uri], ["bench", "--backend", uri, "--provider", "dynamodb", "--for", "1s"]):
        assert run(command) == 5
        assert "table 'nowhere' cannot be used" in " ".join(capsys.readouterr().err.split())
