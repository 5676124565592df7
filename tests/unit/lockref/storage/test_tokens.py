"""H21, S2: fencing tokens rise from grant to grant."""

from __future__ import annotations

from lockref.runtime import NS_PER_S
from lockref.storage.lockfile import LockFile


def test_token_rises_across_holders_release_and_expiry(rig):
    """H21, S2: max seen + 1, carried through release, whoever takes the lock and however."""
    other = rig.another()
    tokens = []
    for lock in (rig.lock, other, rig.lock):
        lock.try_lock()
        tokens.append(lock.fencing_token)
        lock.unlock()
    other.try_lock()
    tokens.append(other.fencing_token)
    rig.runtime.advance(20 * NS_PER_S)
    rig.lock.try_lock()
    tokens.append(rig.lock.fencing_token)
    assert tokens == [1, 2, 3, 4, 5]


def test_token_stays_through_renewals(rig):
    """H21: one grant, one token."""
    rig.lock.try_lock()
    rig.renew()
    assert rig.store.record().fence == rig.lock.fencing_token == 1


def test_token_rises_above_what_was_only_read(rig):
    """H21, S2: a token seen in somebody else's hands is seen, even if Hudi drops it afterwards."""
    rig.store.plant(rig.live(fence=41))
    assert rig.lock.try_lock() is False
    rig.store.plant(LockFile("hudi", 1, expired=True))
    assert rig.lock.try_lock()
    assert rig.lock.fencing_token == 42
