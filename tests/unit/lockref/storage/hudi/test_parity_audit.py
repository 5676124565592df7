"""Hudi's `TestAuditServiceFactory` and `TestStorageLockProviderAuditService`."""

from __future__ import annotations

import json

import pytest

from lockref.storage.hudi.audit import AuditOperationState, AuditService, is_audit_enabled
from lockref.storage.hudi.client import ObjectStoreLockClient
from tests.unit.lockref.storage.hudi.bench import FOLDER, KEY, SWITCH, Broken, ToldStore


@pytest.fixture
def store():
    return ToldStore("s3")


@pytest.fixture
def client(store):
    return ObjectStoreLockClient(store, KEY)


def new_service(client, *, started_ms=1, validity_ms=1, owner="o", lock_held=lambda: True):
    return AuditService(
        owner_id=owner, locks_folder=FOLDER, started_ms=started_ms, validity_ms=validity_ms, client=client,
        lock_held=lock_held,
    )  # fmt: skip


# The switch.


def test_audit_is_off_without_a_switch(client):
    """Factory: a missing switch means no."""
    assert is_audit_enabled(client, FOLDER) is False


@pytest.mark.parametrize(
    ("switch", "expected"),
    [
        (b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED":true}', True),
        (b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED":false}', False),
        (b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED":"true"}', True),
        (b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED":"yes"}', False),
        (b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED":1}', True),
        (b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED":0}', False),
        (b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED":null}', False),
        (b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED":{}}', False),
        (b'{"storage_lock_audit_service_enabled":true}', False),
        (b"{}", False),
        (b"[]", False),
        (b"true", False),
        (b"not json", False),
        (b"", False),
        (b"[" * 100_000, False),
    ],
)
def test_audit_switch(store, client, switch, expected):
    """Factory: only a true-like value under the exact name switches it on; malformed means no."""
    store.put(SWITCH, switch)
    assert is_audit_enabled(client, FOLDER) is expected


def test_audit_is_off_when_the_switch_cannot_be_read(client):
    """Factory: an exception of the client means no, and does not reach the lock."""

    def broken(_path, _check):
        raise Broken("reset")

    client.read_object = broken
    assert is_audit_enabled(client, FOLDER) is False


# The file.


def test_a_record_has_hudi_s_bytes(store, client):
    """Section 8, record: field order, no spaces, one line each."""
    service = new_service(client)
    assert service.record(AuditOperationState.START, 1) is True
    assert store.peek(f"{FOLDER}/audit/1_o.jsonl") == (
        b'{"transactionStartTime":1,"lockHeld":true,"state":"START","lockExpiration":2,"ownerId":"o","timestamp":1}\n'
    )


def test_every_record_rewrites_the_whole_file(store, client):
    """Section 8: the file grows by rewriting; its name keeps the first start."""
    service = new_service(client, started_ms=5)
    for number, state in enumerate(AuditOperationState):
        service.record(state, 10 + number)
    lines = [json.loads(line) for line in store.peek(f"{FOLDER}/audit/5_o.jsonl").splitlines()]
    assert [(line["state"], line["timestamp"], line["transactionStartTime"]) for line in lines] == [
        ("START", 10, 5),
        ("RENEW", 11, 5),
        ("END", 12, 5),
    ]


def test_expiration_is_timestamp_plus_validity(store, client):
    """Section 8: also on END."""
    service = new_service(client, validity_ms=10_000)
    service.record(AuditOperationState.END, 1000)
    assert json.loads(store.peek(service.path))["lockExpiration"] == 11_000


def test_lock_held_is_asked_for_each_record(store, client):
    """Section 8: lockHeld is what the provider says at that moment."""
    held = [True, False]
    service = new_service(client, lock_held=lambda: held.pop(0))
    service.record(AuditOperationState.START, 1)
    service.record(AuditOperationState.END, 2)
    assert [json.loads(line)["lockHeld"] for line in store.peek(service.path).splitlines()] == [True, False]


def test_a_failed_write_keeps_the_record_for_the_next(store, client):
    """Section 8, best effort: what one PUT loses the next one brings."""
    service = new_service(client)
    working, client.write_object = client.write_object, lambda _path, _content: False
    assert service.record(AuditOperationState.START, 1) is False
    client.write_object = working
    assert service.record(AuditOperationState.RENEW, 2) is True
    assert len(store.peek(service.path).splitlines()) == 2
