"""A successor finishes a dead writer's rename first, so that neither that one nor its own commit is lost."""

from __future__ import annotations

import logging

import pytest

from lockref import PendingRename, finish_rename
from lockref.delta.record import NOTHING_TO_FINISH
from lockref.dynamodb.lease import DynamoLock
from lockref.dynamodb.table import text
from lockref.errors import CorruptRecord, LockLost, LockNotHeld, OutcomeUnknown, StoreRejected
from lockref.stores.memory import MemoryStore
from lockref.stores.port import ReadReply, WriteReply
from lockref.words import Outcome
from tests.hardened_rig import ManualTask
from tests.unit.lockref.dynamodb.test_lease import LEASE_S, WATCH_NS, Machine, heartbeats_of

RENAME = PendingRename("orders/_delta_log/_commit_1.json.tmp", "orders/_delta_log/00000000000000000007.json")
ENTRY = b'{"commitInfo":{"who":"the stopped writer"}}'


def taken_over(data: str | None = None) -> tuple[Machine, DynamoLock]:
    """A lock that has just taken the row of a dead writer of delta-rs."""
    machine = Machine()
    machine.plant(data=text(RENAME.to_data() if data is None else data))
    lock = machine.lock()
    assert not lock.try_lock()
    machine.runtime.mono += WATCH_NS
    return machine, lock


def bucket_with(**objects: bytes) -> MemoryStore:
    bucket = MemoryStore()
    for name, body in objects.items():
        bucket.put(getattr(RENAME, name), body)
    return bucket


def test_a_rename_that_was_left_is_finished_and_told() -> None:
    """B12: the entry stands at its destination, the source stays for a writer that was only stopped."""
    machine, lock = taken_over()
    beats, bucket = heartbeats_of(lock), bucket_with(source=ENTRY)
    lock.intent = "ours"
    assert lock.try_lock()
    assert finish_rename(lock, bucket) == RENAME
    assert bucket.read(RENAME.destination).body == bucket.read(RENAME.source).body == ENTRY
    assert not lock.took_over
    assert finish_rename(lock, bucket) is None
    beats[-1].renew()
    assert machine.row().data == "ours"
    lock.unlock()
    assert machine.row().data is None


@pytest.mark.parametrize("objects", [{"source": ENTRY, "destination": b"a rival's"}, {"destination": b"a rival's"}, {}])
def test_a_version_that_is_there_is_never_overwritten(objects: dict[str, bytes]) -> None:
    """DL4: whoever has finished it, or has that version, keeps it; where there is no source nothing is made."""
    _machine, lock = taken_over()
    bucket = bucket_with(**objects)
    assert lock.try_lock()
    assert finish_rename(lock, bucket) == RENAME
    assert bucket.read(RENAME.destination).body == objects.get("destination")
    assert not lock.took_over


class Answering(MemoryStore):
    """A store that gives one answer to every read or write. applies: what it is asked is done all the same."""

    def __init__(self, *, read: Outcome | None = None, write: Outcome | None = None, applies: bool = False) -> None:
        super().__init__()
        self._read, self._write, self._applies = read, write, applies

    def read(self, key: str) -> ReadReply:
        return super().read(key) if self._read is None else ReadReply(outcome=self._read)

    def put_if_absent(self, key: str, body: bytes) -> WriteReply:
        reply = super().put_if_absent(key, body) if self._write is None or self._applies else None
        return WriteReply(outcome=self._write) if self._write is not None else reply


@pytest.mark.parametrize(
    ("store", "error"),
    [
        (Answering(read=Outcome.AMBIGUOUS), OutcomeUnknown),
        (Answering(read=Outcome.REJECTED), StoreRejected),
        (Answering(write=Outcome.AMBIGUOUS), OutcomeUnknown),
        (Answering(write=Outcome.THROTTLED), OutcomeUnknown),
        (Answering(write=Outcome.REJECTED), StoreRejected),
    ],
)
def test_what_could_not_be_finished_stays_for_the_next_holder(
    store: Answering, error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    """B12: an unlock is no word that it is done: the row keeps it, and the log says so."""
    machine, lock = taken_over()
    store.put(RENAME.source, ENTRY)
    assert lock.try_lock()
    with pytest.raises(error, match="finishing a dead holder's rename"):
        finish_rename(lock, store)
    assert lock.took_over
    with caplog.at_level(logging.WARNING, "lockref"):
        lock.unlock()
    assert "unfinished; it stays in the row" in caplog.text
    assert (machine.row().is_released, machine.row().data) == (True, RENAME.to_data())
    successor = machine.lock()
    assert successor.try_lock()
    assert (successor.took_over, successor.data) == (True, RENAME.to_data())
    assert finish_rename(successor, bucket_with(source=ENTRY)) == RENAME


def test_a_create_whose_answer_is_lost_is_looked_up() -> None:
    """H5: the entry is read, and stands there."""
    _machine, lock = taken_over()
    store = Answering(write=Outcome.AMBIGUOUS, applies=True)
    store.put(RENAME.source, ENTRY)
    assert lock.try_lock()
    assert finish_rename(lock, store) == RENAME


def test_a_create_whose_answer_is_lost_and_that_another_entry_stands_in_place_of_is_not_said_to_be_done() -> None:
    """H5, DL4: nobody knows whose entry that is, so the row goes on telling the work."""
    _machine, lock = taken_over()
    store = Answering(write=Outcome.AMBIGUOUS)
    store.put(RENAME.source, ENTRY)
    store.put(RENAME.destination, b"a rival's")
    assert lock.try_lock()
    with pytest.raises(OutcomeUnknown, match=RENAME.destination):
        finish_rename(lock, store)
    assert lock.took_over


def test_a_holder_that_loses_its_lease_while_it_reads_writes_nothing() -> None:
    """S4: the next holder finishes it; what this one would create now could come after that one's commit."""
    machine, lock = taken_over()

    class Slow(MemoryStore):
        def read(self, key: str) -> ReadReply:
            machine.runtime.mono += LEASE_S * 10**9
            return super().read(key)

    bucket = Slow()
    bucket.put(RENAME.source, ENTRY)
    assert lock.try_lock()
    with pytest.raises(LockLost):
        finish_rename(lock, bucket)
    assert MemoryStore.read(bucket, RENAME.destination).body is None


def test_only_the_last_unlock_of_the_holder_tells_of_unfinished_work(caplog: pytest.LogCaptureFixture) -> None:
    """B12: an inner unlock gives nothing back, nor does one by another task; and after the last one nothing is left."""
    machine, lock = taken_over()
    with caplog.at_level(logging.WARNING, "lockref"):
        assert lock.try_lock()
        assert lock.try_lock()
        lock.unlock()
        me, machine.runtime.me = machine.runtime.me, ManualTask("another")
        with pytest.raises(LockNotHeld):
            lock.unlock()
        machine.runtime.me = me
        assert caplog.text == ""
        lock.unlock()
    assert "unfinished; it stays in the row" in caplog.text
    assert not lock.took_over


@pytest.mark.parametrize(
    "data",
    [
        "",
        "{}",
        '{"source": "x", "destination": ""}',
        '{"source": "", "destination": "x"}',
        "[]",
        "null",
        '{"source": 1, "destination": "x"}',
        "[" * 100_000,
    ],
)
def test_work_that_is_no_rename_is_left_to_a_person(data: str) -> None:
    """B12: nobody guesses; it stays in the row."""
    if data:
        _machine, lock = taken_over(data)
        assert lock.try_lock()
        with pytest.raises(CorruptRecord, match="no rename"):
            finish_rename(lock, MemoryStore())
        assert lock.took_over
    with pytest.raises(CorruptRecord):
        PendingRename.from_data(data)


def test_only_a_holder_finishes() -> None:
    """S4: before its grant, and after it, a client touches nothing."""
    machine, lock = taken_over()
    bucket = bucket_with(source=ENTRY)
    with pytest.raises(LockNotHeld):
        finish_rename(lock, bucket)
    assert lock.try_lock()
    machine.runtime.mono += LEASE_S * 10**9
    with pytest.raises(LockLost):
        finish_rename(lock, bucket)
    assert bucket.read(RENAME.destination).body is None


def test_nothing_is_left_by_who_told_nothing() -> None:
    """A holder of ours that says no intent leaves a rename of nothing, which nobody is told of."""
    _machine, lock = taken_over(NOTHING_TO_FINISH)
    assert lock.try_lock()
    assert finish_rename(lock, MemoryStore()) is None
