"""Properties alone open the right lock; a store that lies elsewhere is refused."""

from __future__ import annotations

import gc
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import lockref
from lockref import StorageLock, StorageLockConfig, open_lock, open_store
from lockref.clouds.s3.client import S3Store
from lockref.clouds.uri import parse_store_uri
from lockref.dynamodb.lease import DynamoLock
from lockref.errors import BackendUnavailable, CapabilityMissing, ConfigError
from lockref.runtime import ThreadRuntime
from lockref.storage.audit import AuditTrail
from lockref.storage.place import key_in, store_uri
from lockref.stores.localfs import FileStore
from lockref.stores.memory import MemoryStore
from tests.conditional_server import Bucket, serving
from tests.docs import ROOT, blocks
from tests.unit.scenarios.probe.test_findings import all_kept, document, found

BASE_PATH = "hoodie.base.path"
LOCK_OBJECT = ".hoodie/.locks/table_lock.json"


@pytest.fixture
def azure_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials for an account of Azure, and none of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("AZURE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "mine")
    monkeypatch.setenv("AZURE_STORAGE_KEY", "a2V5")


def config(base_path: str) -> StorageLockConfig:
    return StorageLockConfig(base_path=base_path)


def store(uri: str):
    return open_store(f"{uri}?endpoint=http://127.0.0.1:9", request_timeout_ns=1_000_000_000)


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_two_names_of_one_bucket_open_one_object(scheme: str) -> None:
    """`s3://` and `s3a://` name the same object, for Hudi and for us."""
    lock = open_lock(
        {BASE_PATH: f"{scheme}://lake/orders/"}, endpoint="http://127.0.0.1:9", region="us-east-1", allows_unsafe=True
    )
    place = lock.cell.store.place
    assert (place.cloud, place.container, place.prefix) == ("s3", "lake", "")
    assert lock.cell.key == f"orders/{LOCK_OBJECT}"
    lock.close()


def test_a_bucket_of_google_opens_googles_store() -> None:
    lock = open_lock({BASE_PATH: "gs://lake/orders"}, endpoint="http://127.0.0.1:9", allows_unsafe=True)
    assert (lock.cell.store.place.cloud, lock.cell.key) == ("gs", f"orders/{LOCK_OBJECT}")
    lock.close()


@pytest.mark.parametrize("service", ["blob", "dfs"])
@pytest.mark.parametrize("scheme", ["abfs", "abfss", "wasb", "wasbs"])
@pytest.mark.parametrize("endpoint", ["", "http://127.0.0.1:9/devstoreaccount1"])
def test_all_names_of_one_container_open_one_object(scheme: str, service: str, endpoint: str, azure_key: None) -> None:
    """Hudi rewrites `.dfs.` to `.blob.` and asks through TLS, whatever the scheme; an emulator may stand in."""
    base_path = f"{scheme}://lake@mine.{service}.core.windows.net/orders"
    lock = open_lock({BASE_PATH: base_path}, endpoint=endpoint, allows_unsafe=True)
    place = lock.cell.store.place
    assert (place.cloud, place.container, place.prefix) == ("azure", "lake@mine.blob.core.windows.net", "")
    assert lock.cell.key == f"orders/{LOCK_OBJECT}"
    lock.close()


def test_a_container_of_another_account_is_refused(azure_key: None) -> None:
    """Two accounts may each have a container of that name."""
    opened = open_store("abfss://lake@mine.dfs.core.windows.net", request_timeout_ns=10**9)
    assert key_in(opened, "wasbs://lake@mine.blob.core.windows.net/orders") == f"orders/{LOCK_OBJECT}"
    with pytest.raises(ConfigError, match="would exclude no other writer"):
        StorageLock(opened, config=config("abfss://lake@other.dfs.core.windows.net/orders"))


@pytest.mark.parametrize("base_path", ["abfss://lake/orders", "wasb://lake@elsewhere/orders"])
def test_a_container_without_an_account_is_refused(base_path: str) -> None:
    with pytest.raises(ConfigError, match="account"):
        open_lock({BASE_PATH: base_path})


@pytest.mark.parametrize("form", ["text", "properties"])
@pytest.mark.parametrize("base_path", ["memory:opening-{}", "file://{}/orders", "file:{}/orders"])
def test_a_table_on_this_machine_has_a_lock(base_path: str, form: str, tmp_path: Path) -> None:
    """Two locks of one table exclude each other and count tokens; another table is another lock. No probe is sent."""
    path = base_path.format(form if base_path.startswith("memory:") else tmp_path)
    asked = path if form == "text" else {BASE_PATH: path}
    ours, theirs, beside = open_lock(asked), open_lock(asked), open_lock(f"{path}2")
    assert ours.try_lock()
    assert not theirs.try_lock()
    assert beside.try_lock()
    ours.unlock()
    assert theirs.try_lock()
    assert (theirs.fencing_token, beside.fencing_token) == (2, 1)
    assert ours.cell.key == LOCK_OBJECT
    for lock in (ours, theirs, beside):
        lock.close()
    if not path.startswith("memory:"):
        folder = tmp_path / "orders"
        objects = {each.relative_to(folder).as_posix() for each in folder.rglob("*=object")}
        assert objects == {f"{LOCK_OBJECT}=object", f"{LOCK_OBJECT.replace('.json', '.fence.json')}=object"}


def test_a_table_in_a_folder_is_locked_across_processes(tmp_path: Path) -> None:
    """`file:` is for all processes of this machine: another one is refused, and served after the unlock."""
    base_path = f"{tmp_path.as_uri()}/orders"
    ask = f"from lockref import open_lock; lock = open_lock({base_path!r}); print(lock.try_lock(), lock.fencing_token)"

    def asked_elsewhere() -> str:
        done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    lock = open_lock(base_path)
    with lock:
        assert asked_elsewhere() == "False None"
    assert asked_elsewhere() == "True 2"
    lock.close()


@pytest.mark.parametrize(
    ("base_path", "more", "told"),
    [
        ("memory:", {}, "another store for each lock"),
        ("memory:a/b", {}, "not of the form memory: or memory:NAME"),
        ("file://lake/orders", {}, "give the folder's absolute path"),
        ("file:orders", {}, "give the folder's absolute path"),
        ("memory:a", {"endpoint": "http://127.0.0.1:9"}, "leave out endpoint and region"),
        ("memory:a", {"region": "us-east-1"}, "leave out endpoint and region"),
    ],
)
def test_a_place_on_this_machine_that_is_none_is_refused(base_path: str, more: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        open_lock(base_path, endpoint=more.get("endpoint", ""), region=more.get("region", ""))


@pytest.mark.parametrize("scheme", ["s3n", "hdfs", "oss", "http"])
def test_a_scheme_without_a_lock_client_is_refused_as_hudi_does(scheme: str) -> None:
    """Hudi 1.2's StorageSchemes has a lock class for s3, s3a, gs, abfs(s) and wasb(s) alone."""
    with pytest.raises(ConfigError, match=f"No implementation of StorageLock supports this scheme: {scheme};"):
        open_lock({BASE_PATH: f"{scheme}://lake/orders"})


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({}, "hoodie.base.path does not exist!"),
        ({BASE_PATH: "s3a:///orders"}, "valid bucket name"),
        ({BASE_PATH: "s3a://lake/orders?x=1"}, "query"),
        ({BASE_PATH: "s3a://lake/o", "hoodie.write.lock.storage.renew.interval.secs": "31"}, "10x"),
        ({BASE_PATH: "s3a://lake/o", "hoodie.write.lock.storage.validity.timeout.sec": "31"}, "Did you mean"),
    ],
)
def test_bad_properties_are_refused_in_one_line(properties: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        open_lock(properties)


@pytest.mark.parametrize(
    "base_path", ["s3://lake/a/../b", "s3://lake/./a", "s3://lake/a%00b", "s3://lake/" + "x" * 1020]
)
def test_a_path_that_no_object_can_have_is_refused(base_path: str) -> None:
    """Before the first request: the store would refuse it with a ValueError in the middle of an acquire."""
    with pytest.raises(ConfigError, match="can have no lock object"):
        open_lock({BASE_PATH: base_path}, endpoint="http://127.0.0.1:9")


@pytest.mark.parametrize("seconds", [10**10, 2**62])
def test_a_validity_beyond_a_year_is_refused(seconds: int) -> None:
    """Stamps of records, timers and Java's numbers overflow beyond."""
    with pytest.raises(ConfigError, match="at most a year"):
        open_lock({BASE_PATH: "s3://lake/orders", "hoodie.write.lock.storage.validity.timeout.secs": seconds})


def test_properties_give_the_timing() -> None:
    lock = open_lock(
        {
            BASE_PATH: "s3://lake/orders",
            "hoodie.write.lock.storage.validity.timeout.secs": "60",
            "hoodie.write.lock.storage.renew.interval.secs": "3",
        },
        endpoint="http://127.0.0.1:9",
        allows_unsafe=True,
    )
    terms = lock.terms
    assert (terms.validity_ns, terms.renew_interval_ns, terms.request_timeout_ns) == (60 * 10**9, 3 * 10**9, 10**9)
    assert (terms.margin_ns, terms.buffer_ns) == (500_000_000, 500_000_000)


@pytest.mark.parametrize("uri", ["s3://wrong/orders", "s3://wrong", "gs://right", "s3://right/other", "s3://right/ord"])
def test_a_store_that_lies_elsewhere_is_refused(uri: str) -> None:
    """`s3://wrong/orders` with this base path locked `wrong/orders/orders/…`, which excludes nobody."""
    with pytest.raises(ConfigError, match="would exclude no other writer"):
        StorageLock(store(uri), config=config("s3://right/orders"))


@pytest.mark.parametrize(
    ("uri", "key"),
    [
        ("s3://right", f"orders/eu/{LOCK_OBJECT}"),
        ("s3://right/orders", f"eu/{LOCK_OBJECT}"),
        ("s3://right/orders/eu", LOCK_OBJECT),
    ],
)
def test_a_store_with_a_prefix_of_the_table_finds_the_same_object(uri: str, key: str) -> None:
    """The store puts its prefix before every key, so the key that it is given lacks it."""
    assert key_in(store(uri), "s3a://right/orders/eu") == key


def test_a_folder_is_no_bucket(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="would exclude no other writer"):
        StorageLock(FileStore(tmp_path, request_timeout_ns=10**9), config=config("s3://right/orders"))


def test_a_named_key_is_the_callers_own_choice(tmp_path: Path) -> None:
    """`key` says which object is meant: for tests, and for locks that are no table's."""
    lock = StorageLock(FileStore(tmp_path, request_timeout_ns=10**9), config=config(""), key="mine.json")
    assert lock.try_lock()
    lock.unlock()
    lock.close()


def test_a_store_that_knows_no_place_is_the_root() -> None:
    assert key_in(MemoryStore(), "s3://lake/orders") == f"orders/{LOCK_OBJECT}"


def test_a_store_uri_carries_endpoint_and_region() -> None:
    location = config("s3a://lake/orders").location
    assert store_uri(location) == "s3://lake"
    assert store_uri(location, endpoint="http://[::1]:9", region="eu-west-1") == (
        "s3://lake?endpoint=http%3A%2F%2F%5B%3A%3A1%5D%3A9&region=eu-west-1"
    )


def test_connections_go_with_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is left to close the store that `open_lock` opened, so it goes when the lock does."""
    closed: list[S3Store] = []
    monkeypatch.setattr(S3Store, "close", lambda self: closed.append(self))
    lock = open_lock({BASE_PATH: "s3://lake/orders"}, endpoint="http://127.0.0.1:9", allows_unsafe=True)
    opened = lock.cell.store
    lock.close()
    assert not closed
    del lock
    gc.collect()
    assert closed == [opened]


def test_the_readme_opens_the_lock_as_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The snippet of the README runs as it stands, against a store in memory in place of the cloud's."""
    (snippet,) = [text for language, text in blocks(ROOT / "README.md") if language == "python"]
    assert "open_lock" in snippet
    asked: list[str] = []

    def in_memory(uri: str, **_: object) -> MemoryStore:
        asked.append(uri)
        return MemoryStore()

    monkeypatch.setattr("lockref.opening.open_store", in_memory)
    monkeypatch.setattr("lockref.clouds.admission.open_store", in_memory)
    monkeypatch.setattr("lockref.opening._kept", set())
    monkeypatch.setattr(socket, "socket", None)
    committed: list[int | None] = []
    names: dict[str, object] = {"commit": lambda fence: committed.append(fence)}
    exec(compile(snippet, "README.md", "exec"), names)
    assert (asked, committed) == (["s3://lake", "s3://lake"], [1]), "asked for its conditions, once, and then locked"
    assert isinstance(names["lock"], lockref.StorageLock)
    assert not names["lock"].holds()


# ---- the store is asked first ----


@pytest.fixture
def nobody_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that opened no lock yet."""
    monkeypatch.setattr("lockref.opening._kept", set())


def endpoint_of(uri: str) -> str:
    return parse_store_uri(uri).endpoint


@pytest.mark.parametrize(
    "flaw", ["stale create", "stale replacement", "old reads", pytest.param("two creates", marks=pytest.mark.long)]
)
def test_a_store_that_ignores_a_condition_opens_no_lock(flaw: str, nobody_was_asked: None) -> None:
    """C1 to C5: refused before the first acquire, and opened when told."""
    bucket = Bucket(flaw=flaw)
    with serving(bucket) as uri:
        where = {"endpoint": endpoint_of(uri), "region": "us-east-1"}
        properties = {BASE_PATH: f"s3://{parse_store_uri(uri).container}/orders"}
        for _ in range(2):
            with pytest.raises(CapabilityMissing, match="ignores preconditions"):
                open_lock(properties, **where)
        assert not [key for key in bucket.objects if "selftest" in key], "nothing is left of the questions"
        lock = open_lock(properties, **where, allows_unsafe=True)
        lock.close()


def test_a_lock_that_deletes_nothing_opens_where_deletes_are_not_conditional(nobody_was_asked: None) -> None:
    """C8 is no condition of RFC-91's lock. The store is asked once, beside the lock, and not for the second lock."""
    bucket = Bucket(flaw="stale delete")
    with serving(bucket) as uri:
        where = {"endpoint": endpoint_of(uri), "region": "us-east-1"}
        base_path = f"s3://{parse_store_uri(uri).container}/orders"
        lock = open_lock({BASE_PATH: base_path}, **where)
        asked = len(bucket.requests)
        assert asked > 20
        with lock:
            assert lock.fencing_token == 1
        lock.close()
        other = open_lock({BASE_PATH: f"{base_path}/other"}, **where)
        other.close()
        assert len(bucket.requests) - asked < 10
    assert all(f"orders/{LOCK_OBJECT.rpartition('/')[0]}/" in key for key in bucket.objects), list(bucket.objects)


def test_a_store_that_does_not_answer_opens_no_lock(nobody_was_asked: None) -> None:
    with pytest.raises(BackendUnavailable, match=r"127\.0\.0\.1:9"):
        open_lock({BASE_PATH: "s3://lake/orders"}, endpoint="http://127.0.0.1:9")
    with pytest.raises(BackendUnavailable, match=r"127\.0\.0\.1:9"):
        open_lock(LEASE, endpoint="http://127.0.0.1:9", region="us-east-1")


def test_a_fingerprint_lets_a_lock_open_and_sends_nothing(tmp_path: Path, nobody_was_asked: None) -> None:
    """It must be of this store, and say that the store can carry the lock."""
    path = tmp_path / "store.json"
    path.write_text(json.dumps(document(all_kept())))
    properties = {BASE_PATH: "s3://bucket/orders"}
    open_lock(properties, endpoint="http://127.0.0.1:9000", fingerprint=path).close()
    with pytest.raises(ConfigError, match="probe that store"):
        open_lock(properties, endpoint="http://127.0.0.1:9001", fingerprint=str(path))
    path.write_text(json.dumps(document(all_kept() | {"C3": found("C3", unsafe=["two winners"])})))
    with pytest.raises(CapabilityMissing, match="cannot carry"):
        open_lock(properties, endpoint="http://127.0.0.1:9000", fingerprint=path)
    open_lock(properties, endpoint="http://127.0.0.1:9000", fingerprint=path, allows_unsafe=True).close()


# ---- Delta's lease ----


class FakeChannel:
    """A way to a table on which nothing is sent."""

    client, service, capabilities = "c", "store", None

    def send(self, _request: object, _timeout_ns: int) -> object:
        raise AssertionError("nothing is sent")


ROW = "s3://lake/orders"
LEASE = {"DYNAMO_LOCK_PARTITION_KEY_VALUE": ROW, "DYNAMO_LOCK_LEASE_DURATION": 15, "DYNAMO_LOCK_OWNER_NAME": "writer-7"}


def test_delta_rs_options_open_the_lease() -> None:
    """Options by delta-rs' names, some of its own beside them; the row, its lease and its owner come from them."""
    options = {**LEASE, "AWS_S3_LOCKING_PROVIDER": "dynamodb"}
    lock = open_lock(options, endpoint="http://127.0.0.1:9", region="eu-central-1", allows_unsafe=True)
    assert isinstance(lock, DynamoLock)
    assert (lock.gated.gate.key, lock.terms.validity_ns) == (ROW, 15 * 10**9)
    assert lock.owner.startswith("writer-7/")
    lock.close()


def test_connections_go_with_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a lock on an object: nobody else is left to close what `open_lock` opened."""
    closed: list[object] = []

    class Channel(FakeChannel):
        def close(self) -> None:
            closed.append(self)

    channel = Channel()
    monkeypatch.setattr("lockref.opening.table_channel", lambda *_asked, **_options: channel)
    lock = open_lock(LEASE, endpoint="http://127.0.0.1:9", region="eu-central-1", allows_unsafe=True)
    lock.close()
    assert not closed
    del lock
    gc.collect()
    assert closed == [channel]


def test_a_lease_in_a_row_takes_no_audit() -> None:
    """Hudi's audit lies beside a lock object. Nothing is left out in silence."""
    trail = AuditTrail(MemoryStore(), locks_key="locks", validity_ns=10**9, runtime=ThreadRuntime())
    with pytest.raises(ConfigError, match="has no audit; leave it out"):
        open_lock({"DYNAMO_LOCK_PARTITION_KEY_VALUE": "s3://b/t"}, audit=trail, allows_unsafe=True)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"DYNAMO_LOCK_OWNER_NAME": "me"}, "PARTITION_KEY_VALUE is missing; give the table's URI"),
        ({**LEASE, "hoodie.base.path": "s3://lake/orders"}, "do not exclude each other"),
        ({**LEASE, "DYNAMO_LOCK_LEASE_DURATON": 15}, "Did you mean 'DYNAMO_LOCK_LEASE_DURATION'"),
        ({**LEASE, "DYNAMO_LOCK_LEASE_DURATION": 0}, "expected a whole number from 1"),
        ({**LEASE, "DYNAMO_LOCK_REFRESH_PERIOD_MILLIS": 60000}, "at most the lease, 15000 ms"),
        ({**LEASE, "DYNAMO_LOCK_TABLE_NAME": "a/b"}, "names no table that is possible"),
    ],
)
def test_options_that_no_lease_can_have_are_refused(options: dict[str, object], told: str) -> None:
    """T11: nothing is sent for settings that are misspelt, missing or contradict each other."""
    with pytest.raises(ConfigError, match=re.escape(told)):
        open_lock(options, endpoint="http://127.0.0.1:9")
