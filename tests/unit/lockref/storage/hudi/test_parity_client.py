"""Hudi's client tests: `TestS3StorageLockClient`, GCS, Azure, `TestLockResultEnums`; one test per cell of section 6."""

from __future__ import annotations

import pytest

from lockref.errors import CorruptRecord, OutcomeUnknown, StoreRejected
from lockref.storage.hudi.client import (
    IllegalVersion,
    LockGetResult,
    LockUpsertResult,
    ObjectStoreLockClient,
    StorageLockFile,
)
from lockref.storage.lockfile import LockFile, serialize
from lockref.stores.memory import MemoryStore
from lockref.stores.port import ReadReply, Version, WriteReply
from lockref.words import Outcome
from tests.unit.lockref.storage.hudi.bench import KEY, ToldStore

RECORD = LockFile("me", 1_700_000_000_000, expired=False)
PREVIOUS = StorageLockFile(RECORD, Version("1"))
THROW = "throw"
DIALECTS = ("s3", "memory", "gcs", "azure")
OTHERS, UNKNOWN = LockUpsertResult.ACQUIRED_BY_OTHERS, LockUpsertResult.UNKNOWN_ERROR
THROTTLED = LockUpsertResult.THROTTLED


def outcome_of(status):
    return {409: Outcome.CONFLICT, 412: Outcome.PRECONDITION_FAILED, 429: Outcome.THROTTLED}.get(
        status, Outcome.REJECTED if status < 500 else Outcome.AMBIGUOUS
    )


def asking(dialect, reply):
    store = ToldStore(dialect)
    store.replies = [reply]
    return ObjectStoreLockClient(store, KEY)


def answer(call, error):
    """The result of a call, or THROW if it raises `error`."""
    try:
        return call()[0]
    except error:
        return THROW


# Reads.

READS = {
    404: {"s3": LockGetResult.NOT_EXISTS, "gcs": LockGetResult.NOT_EXISTS, "azure": LockGetResult.NOT_EXISTS},
    409: {"s3": LockGetResult.UNKNOWN_ERROR, "gcs": THROW, "azure": THROW},
    429: dict.fromkeys(DIALECTS, LockGetResult.UNKNOWN_ERROR),
    500: dict.fromkeys(DIALECTS, LockGetResult.UNKNOWN_ERROR),
    503: dict.fromkeys(DIALECTS, LockGetResult.UNKNOWN_ERROR),
    400: dict.fromkeys(DIALECTS, THROW),
    403: dict.fromkeys(DIALECTS, THROW),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("status", READS)
def test_read_status(status, dialect):
    """Section 6, rows "read 404" to "read other 4xx", by cloud; memory behaves as S3."""
    client = asking(dialect, ReadReply(outcome=outcome_of(status), status=status))
    row = READS[status]
    assert answer(client.read_current_lock_file, StoreRejected) == row.get(dialect, row["s3"])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_read_without_a_response_throws(dialect):
    """Section 6, "read network/timeout": throws on every cloud (D7)."""
    with pytest.raises(OutcomeUnknown, match=KEY):
        asking(dialect, ReadReply(outcome=Outcome.AMBIGUOUS)).read_current_lock_file()


def test_read_absent_present_and_corrupt():
    """Section 6: no object is NOT_EXISTS, a record comes with its version, anything else raises (D6, E25)."""
    store = ToldStore("s3")
    client = ObjectStoreLockClient(store, KEY)
    assert client.read_current_lock_file() == (LockGetResult.NOT_EXISTS, None)
    version = store.put(KEY, serialize(RECORD)).version
    assert client.read_current_lock_file() == (LockGetResult.SUCCESS, StorageLockFile(RECORD, version))
    store.put(KEY, b'{"expired":false,"expiration":1,"owner":"rfc"}')
    with pytest.raises(CorruptRecord, match=r"Failed to deserialize JSON content into StorageLockData"):
        client.read_current_lock_file()


def test_extra_fields_are_ignored_and_dropped_by_the_next_write():
    """E26, H21: Hudi reads over nonce and fence, and what it writes has neither."""
    store = ToldStore("s3")
    client = ObjectStoreLockClient(store, KEY)
    store.put(KEY, serialize(LockFile("other", 1, expired=True, nonce="n", fence=9)))
    _, current = client.read_current_lock_file()
    client.try_upsert_lock_file(RECORD, current)
    assert store.peek(KEY) == serialize(RECORD)


# Writes.

WRITES = {
    412: dict.fromkeys(DIALECTS, OTHERS),
    409: {"s3": UNKNOWN, "gcs": THROW, "azure": UNKNOWN},
    429: dict.fromkeys(DIALECTS, THROTTLED),
    500: dict.fromkeys(DIALECTS, UNKNOWN),
    503: dict.fromkeys(DIALECTS, UNKNOWN),
    403: {"s3": UNKNOWN, "gcs": THROW, "azure": UNKNOWN},
    404: {"s3": UNKNOWN, "gcs": THROW, "azure": UNKNOWN},
}


@pytest.mark.parametrize("previous", [None, PREVIOUS], ids=["create", "update"])
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("status", WRITES)
def test_write_status(status, dialect, previous):
    """Section 6, rows "write 412" to "write other 4xx", by cloud, for create and update."""
    client = asking(dialect, WriteReply(outcome=outcome_of(status), status=status))
    row = WRITES[status]
    told = answer(lambda: client.try_upsert_lock_file(RECORD, previous), StoreRejected)
    assert told == row.get(dialect, row["s3"])


@pytest.mark.parametrize(
    ("dialect", "on_create", "on_update"),
    [("s3", THROW, UNKNOWN), ("memory", THROW, UNKNOWN), ("gcs", THROW, THROW), ("azure", UNKNOWN, UNKNOWN)],
)
def test_write_without_a_response(dialect, on_create, on_update):
    """Section 6, "write network/timeout": S3 rethrows on create alone, GCS always (D8), Azure never (E11)."""
    silence = WriteReply(outcome=Outcome.AMBIGUOUS)
    create = answer(lambda: asking(dialect, silence).try_upsert_lock_file(RECORD, None), OutcomeUnknown)
    update = answer(lambda: asking(dialect, silence).try_upsert_lock_file(RECORD, PREVIOUS), OutcomeUnknown)
    assert (create, update) == (on_create, on_update)


@pytest.mark.parametrize(("dialect", "expected"), [("s3", UNKNOWN), ("gcs", OTHERS), ("azure", OTHERS)])
def test_update_of_a_missing_object(dialect, expected):
    """U9, C5: S3 says 404, hence unknown, hence "healthy"; a 412 elsewhere is a prompt loss."""
    client = ObjectStoreLockClient(ToldStore(dialect), KEY)
    assert client.try_upsert_lock_file(RECORD, PREVIOUS)[0] is expected


@pytest.mark.parametrize(("dialect", "expected"), [("s3", UNKNOWN), ("gcs", THROTTLED), ("azure", THROTTLED)])
def test_throttling_without_a_status(dialect, expected):
    """Section 6: S3 throttles with 503, which never takes the THROTTLED path."""
    client = asking(dialect, WriteReply(outcome=Outcome.THROTTLED))
    assert client.try_upsert_lock_file(RECORD, PREVIOUS)[0] is expected


def test_create_then_update_then_stale_update():
    """Section 1, preconditions: create once, update on the version, refuse a stale version."""
    client = ObjectStoreLockClient(ToldStore("s3"), KEY)
    result, first = client.try_upsert_lock_file(RECORD, None)
    assert result is LockUpsertResult.SUCCESS
    assert client.try_upsert_lock_file(RECORD, None)[0] is OTHERS
    result, second = client.try_upsert_lock_file(RECORD, first)
    assert (result, second.version != first.version) == (LockUpsertResult.SUCCESS, True)
    assert client.try_upsert_lock_file(RECORD, first)[0] is OTHERS


@pytest.mark.parametrize("version", [None, Version("")])
def test_applied_write_without_a_version(version):
    """Section 1, version id: no ETag is an exception on S3 and GCS, UNKNOWN on Azure."""
    applied = WriteReply(outcome=Outcome.APPLIED, version=version)
    for dialect in ("s3", "gcs"):
        with pytest.raises(IllegalVersion, match="VersionId must not be null or empty"):
            asking(dialect, applied).try_upsert_lock_file(RECORD, None)
    assert asking("azure", applied).try_upsert_lock_file(RECORD, None) == (UNKNOWN, None)


# Other objects.


def test_read_object_is_none_when_absent_or_unreadable():
    """Section 8: the audit switch is off whatever keeps it from being read."""
    store = ToldStore("s3")
    client = ObjectStoreLockClient(store, KEY)
    assert client.read_object("switch", True) is None
    store.put("switch", b"on")
    assert client.read_object("switch", True) == "on"
    store.replies = [ReadReply(outcome=Outcome.REJECTED, status=403)]
    assert client.read_object("switch", False) is None


def test_write_object_replaces_without_condition():
    """Section 8: audit files are rewritten by unconditional PUT."""
    store = ToldStore("s3")
    client = ObjectStoreLockClient(store, KEY)
    assert client.write_object("file", "a\n")
    assert client.write_object("file", "a\nb\n")
    assert store.peek("file") == b"a\nb\n"


def test_close_is_the_owner_s_business():
    """A store shared between cycles survives the close of one cycle's client."""
    store, closed = ToldStore("s3"), []
    ObjectStoreLockClient(store, KEY).close()
    ObjectStoreLockClient(store, KEY, close=lambda: closed.append(True)).close()
    assert closed == [True]
    assert store.put_if_absent(KEY, b"x").outcome is Outcome.APPLIED


def test_result_codes():
    """TestLockResultEnums: codes 0 to 2 and 0 to 3."""
    assert {result.name: int(result) for result in LockGetResult} == {
        "NOT_EXISTS": 0, "SUCCESS": 1, "UNKNOWN_ERROR": 2,
    }  # fmt: skip
    assert {result.name: int(result) for result in LockUpsertResult} == {
        "SUCCESS": 0, "ACQUIRED_BY_OTHERS": 1, "UNKNOWN_ERROR": 2, "THROTTLED": 3,
    }  # fmt: skip


def test_another_object_is_found_by_the_key_in_its_uri():
    """Hudi asks for its audit switch by URI: taken for a key, that request never left, and looked unanswered."""
    store = MemoryStore()
    client = ObjectStoreLockClient(store, "table/.hoodie/.locks/table_lock.json")
    assert client.write_object("s3://lake/table/.hoodie/.locks/audit_enabled.json", "on")
    assert client.read_object("s3a://lake/table/.hoodie/.locks/audit_enabled.json", True) == "on"
    assert store.read("table/.hoodie/.locks/audit_enabled.json").body == b"on"
