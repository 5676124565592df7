"""H20, E3, E4, E34: when a waiter looks again."""

from __future__ import annotations

from itertools import pairwise

from lockref.locks.waiting import FixedWaiting
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.storage.lockfile import LockFile


def test_takeover_exactly_after_the_buffer(rig):
    """H20, E3: V + β is still the holder's, the next millisecond is ours; the wait ends there, not a poll later."""
    rig.store.plant(rig.live(for_ms=300))
    began_ms = rig.runtime.wall // NS_PER_MS
    assert rig.lock.lock(5)
    assert rig.runtime.wall // NS_PER_MS - began_ms == 801


def test_polls_are_jittered_and_no_denser_than_hudis(rig):
    """H20, D13: without anything learned, a look takes place about once per interval, never in step."""
    rig.store.plant(rig.live(for_ms=100_000))
    looks = []
    rig.store.before = lambda _name: looks.append(rig.runtime.mono)
    rig.lock.lock(20)
    gaps = {(b - a) / NS_PER_S for a, b in pairwise(looks[:-1])}
    assert len(gaps) > 10
    assert min(gaps) >= 0.7
    assert max(gaps) <= 1.0


def test_greedy_client_steps_back_before_it_locks_again(rig):
    """E34: right after a release others may look first; never for a `try_lock`, never beyond half the caller's time."""
    rig.be_courteous(2 * NS_PER_S)
    rig.lock.try_lock()
    rig.lock.unlock()
    began_ns = rig.runtime.mono
    assert rig.lock.try_lock()
    assert rig.runtime.mono == began_ns
    rig.lock.unlock()
    assert rig.lock.lock(10)
    assert rig.runtime.mono == began_ns + 2 * NS_PER_S
    rig.lock.unlock()
    assert rig.lock.lock(2)
    assert rig.runtime.mono == began_ns + 3 * NS_PER_S


def test_fixed_waiting_never_outlasts_the_lease_in_the_way():
    """H20: the last pause ends with the lease that is waited for, also for the waiter without memory."""
    assert FixedWaiting(1000).pause_ns(None, now_wall_ns=0, lapses_in_ns=10) == 10


def test_waiter_looks_once_more_just_before_its_time_is_up(rig):
    """L3, L5: 5 ms before, so that a release shortly before the end is still found."""
    rig.store.plant(rig.live(for_ms=60_000))
    began_ns, looked_ns = rig.runtime.mono, []
    rig.store.before = lambda _name: looked_ns.append(rig.runtime.mono - began_ns)
    assert rig.lock.lock(3) is False
    assert looked_ns[-1] == 3 * NS_PER_S - 5 * NS_PER_MS


def released_in_its_turn(rig):
    """The record of a client that has just released, and means to take two grants more."""
    record = rig.live(for_ms=10_000, fence=4)
    return LockFile(record.owner, record.valid_until_ms, expired=True, nonce="00ff.2.9.4", fence=4)


def test_a_waiter_leaves_a_released_lock_to_an_owner_that_comes_back_once(rig):
    """E34: it looks again after a moment, and takes what then still stands."""
    rig.store.plant(released_in_its_turn(rig))
    began_ns = rig.runtime.mono
    assert rig.lock.lock(5)
    assert rig.store.log[:2] == ["read", "read"]
    assert 0 < rig.runtime.mono - began_ns <= NS_PER_S / 4


def test_try_lock_takes_whatever_is_released(rig):
    """E34: a call that does not wait leaves the lock to nobody."""
    rig.store.plant(released_in_its_turn(rig))
    assert rig.lock.try_lock()
    assert rig.store.log.count("read") == 1


def test_records_carry_the_note_of_their_writer(rig):
    """H20: live, and released, so that waiters know when a turn ends."""
    rig.lock.try_lock()
    live = rig.store.record().nonce
    rig.lock.unlock()
    assert live.endswith(".0.0.1")
    assert rig.store.record().nonce.endswith(".0.0.1")
