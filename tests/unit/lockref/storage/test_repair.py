"""H17, H23, D6: a lock object that is no record, and a store that ignores conditions."""

from __future__ import annotations

import pytest

from lockref.errors import (
    CorruptRecord,
    LockError,
    OutcomeUnknown,
)
from lockref.locks.fence import BLOCK
from lockref.storage.lock import StorageLock
from lockref.stores.memory import MemoryStore
from tests.hardened_rig import (
    CONFIG,
    KEY,
    lose_request,
    ok,
    throttle,
)


@pytest.mark.parametrize("junk", [b"", b"{", b"[]", b'{"owner":"x"}'])
def test_corrupt_record_is_named_and_never_taken_over(rig, junk):
    """H17, D6, E25: an error, and the bytes stay."""
    version = rig.store.plant(junk)
    with pytest.raises(CorruptRecord, match="table_lock"):
        rig.lock.lock(5)
    assert rig.store.version() == version


def test_repair_replaces_exactly_what_was_read(rig):
    """H17: by condition on its version, and only what is corrupt."""
    assert rig.lock.repair() is False
    rig.store.plant(b"{")
    assert rig.lock.repair() is True
    assert rig.store.record().expired
    assert rig.lock.repair() is False
    assert rig.lock.try_lock()


def test_repair_spares_whoever_was_quicker(rig):
    """H17: the condition fails, nothing is overwritten."""
    rig.store.plant(b"{")
    rig.store.before = lambda name: rig.store.plant(rig.live()) if name == "release" else None
    assert rig.lock.repair() is False
    assert rig.store.record().owner == "somebody"


@pytest.mark.parametrize("script", [[lose_request], [ok, lose_request], [ok, throttle]])
def test_repair_without_an_answer_says_unknown(rig, script):
    """H17, S7: no definite answer is an error of its own."""
    rig.store.plant(b"{")
    rig.store.script = script
    with pytest.raises(OutcomeUnknown):
        rig.lock.repair()


def test_repair_carries_the_token_on(rig):
    """H17, H21, S2: whoever locks after a repair gets a larger token than whoever held before the damage."""
    with rig.lock:
        pass
    rig.store.plant(b"{")
    rig.lock.repair()
    other = rig.another()
    assert other.try_lock()
    assert other.fencing_token == 1 + BLOCK


def test_self_test_asks_the_store(rig):
    """H23, U13: a store that ignores conditions is refused before the first lock; our key is not touched."""
    for rule_breaker in (True, False):
        keys = []

        class Store(MemoryStore):
            def put_if_absent(self, key, body):
                keys.append(key)  # noqa: B023  # read in this round only
                return self.put(key, body) if rule_breaker else super().put_if_absent(key, body)  # noqa: B023

        lock = StorageLock(Store(), config=CONFIG)
        if rule_breaker:
            with pytest.raises(LockError.__mro__[1]):
                lock.self_test()
        else:
            lock.self_test()
        assert keys
        assert KEY not in keys
