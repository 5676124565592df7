"""How a grant is got: its record (§1, H22), a grant that comes too late (H3), writes whose answers are lost (H5)."""

from __future__ import annotations

import pytest

from lockref.errors import (
    OutcomeUnknown,
)
from lockref.locks.fence import BLOCK
from lockref.runtime import NS_PER_MS
from lockref.storage.lockfile import LockFile, parse_strictly_as_hudi, serialize
from lockref.stores.memory import MemoryStore
from tests.hardened_rig import (
    BELIEVABLE_NS,
    KEY,
    REQUEST_TIMEOUT_NS,
    conflict,
    hidden_retry,
    late_reply,
    late_request,
    lose_reply,
    lose_request,
    ok,
    stale,
    throttle,
)


def test_grant_is_written_as_hudi_reads_it(rig):
    """§1: what we write is a live record to Hudi, valid for L from before the write."""
    now_ms = rig.runtime.wall // NS_PER_MS
    assert rig.lock.try_lock()
    seen = parse_strictly_as_hudi(serialize(rig.store.record()))
    assert seen == LockFile(rig.lock.owner, now_ms + 10_000, expired=False)


def test_owner_is_unique_and_looks_like_a_uuid(rig):
    """H22: two locks of one process never share an owner."""
    other = rig.another()
    assert rig.lock.owner != other.owner
    assert [len(part) for part in rig.lock.owner.split("-")] == [8, 4, 4, 4, 12]
    assert (rig.lock.owner[14], rig.lock.owner[19] in "89ab") == ("4", True)


def test_no_two_writes_have_equal_bytes(rig):
    """H22, E32, A6: with the clock standing still, every write differs by its nonce."""
    bodies = []
    for _ in range(3):
        rig.lock.try_lock()
        bodies.append(serialize(rig.store.record()))
        rig.renew()
        bodies.append(serialize(rig.store.record()))
        rig.lock.unlock()
        bodies.append(serialize(rig.store.record()))
    assert len(set(bodies)) == 9


@pytest.mark.parametrize("rule", [late_reply, late_request])
def test_grant_that_comes_too_late_is_not_given(rig, rule):
    """H3, E9, E10: a pause around the write outlasts the lease: not granted, and what was written is undone."""
    rig.store.script = [ok, rule(BELIEVABLE_NS)]
    with pytest.raises(OutcomeUnknown):
        rig.lock.lock(1)
    assert not rig.lock.holds()
    assert rig.losses == []
    rig.runtime.run("cleanup")
    assert rig.store.record().expired


def test_loss_of_a_grant_that_was_never_given_is_nobodys_business(rig):
    """H3, H12: the watchdog may see the deadline before the caller was told; no loss is signalled then."""
    spawn = rig.runtime.spawn

    def spawn_and_run(work, *, name):
        task = spawn(work, name=name)
        if "watchdog" in name:
            rig.runtime.run("watchdog")
        return task

    rig.runtime.spawn = spawn_and_run
    rig.store.script = [ok, late_reply(BELIEVABLE_NS)]
    with pytest.raises(OutcomeUnknown):
        rig.lock.lock(1)
    assert rig.losses == []
    assert rig.names("lost") == []


def test_late_grant_is_taken_again_while_time_remains(rig):
    """H3: the record is our own, nobody believes in it, so it is replaced at once by a fresh lease."""
    rig.store.script = [ok, late_reply(BELIEVABLE_NS)]
    assert rig.lock.lock(60)
    assert rig.lock.remaining_ns() == BELIEVABLE_NS
    assert rig.lock.fencing_token == 2


def test_failed_heartbeat_start_leaves_nothing_behind(rig):
    """H10, U8: no thread to be had: the error reaches the caller, belief does not begin, the record is undone."""
    spawn, failures = rig.runtime.spawn, []

    def spawn_no_watchdog(work, *, name):
        if "watchdog" in name:
            failures.append(name)
            raise RuntimeError("can't start new thread")
        return spawn(work, name=name)

    rig.runtime.spawn = spawn_no_watchdog
    with pytest.raises(RuntimeError):
        rig.lock.try_lock()
    assert failures
    assert not rig.lock.holds()
    rig.runtime.run("cleanup")
    assert rig.store.record().expired


@pytest.mark.parametrize("rule", [lose_reply, hidden_retry])
@pytest.mark.parametrize("is_present", [False, True])
def test_own_acquire_is_recognised(rig, rule, is_present):
    """H5, E11, E12, E17, D2, D3: applied, answered by a timeout or by 412 from our own write: granted."""
    if is_present:
        rig.store.plant(LockFile("old", 1, expired=True))
    rig.store.script = [ok, rule]
    sent_ns = rig.runtime.mono
    assert rig.lock.lock(5)
    assert rig.lock.remaining_ns() == BELIEVABLE_NS - (rig.runtime.mono - sent_ns)
    assert rig.store.log.count("create") + rig.store.log.count("replace") == 1
    rig.lock.unlock()
    assert rig.store.record().expired


def test_owner_alone_is_no_recognition(rig):
    """H5, A4, E33, M23: a record with our owner but another nonce is somebody else's."""
    rig.store.plant(rig.live(rig.lock.owner, fence=4))
    assert rig.lock.try_lock() is False


def test_equal_owner_and_time_are_no_recognition(rig):
    """H5, E33: a twin with our owner id, in the same millisecond, is told apart by the nonce."""
    twin = rig.twin()
    assert twin.owner == rig.lock.owner
    rig.store.script = [ok, lose_request]
    acted = []

    def twin_acts(name):
        if name == "create" and not acted:
            acted.append(True)
            rig.store.script.insert(0, ok)
            rig.store.script.insert(0, ok)
            assert twin.try_lock()

    rig.store.before = twin_acts
    rig.store.timeout_ns = 0
    assert rig.lock.lock(0.3) is False
    assert twin.holds()


def test_unlanded_acquire_is_sent_again_on_the_same_version(rig):
    """H6: nothing changed after a lost request, so the same precondition decides."""
    version = rig.store.plant(LockFile("old", 1, expired=True))
    rig.store.script = [ok, lose_request]
    assert rig.lock.lock(5)
    assert rig.store.log == ["read", "replace", "read", "replace"]
    assert rig.store.version() != version


def test_412_after_a_lost_answer_is_looked_up_at_once(rig):
    """H5, H3: it may be the echo of our own first write, so it is no lost race and no reason to wait."""
    rig.store.script = [ok, lose_reply, stale(None, None)]
    began_ns = rig.runtime.mono
    assert rig.lock.lock(5)
    assert rig.runtime.mono - began_ns == REQUEST_TIMEOUT_NS


def test_slow_read_leaves_time_for_the_write(rig):
    """L5: a read that was answered in its time leaves time for the write."""
    rig.store.plant(LockFile("old", 1, expired=True, nonce="x", fence=1, mark=BLOCK))
    rig.store.script = [late_reply(REQUEST_TIMEOUT_NS - 1)]
    assert rig.lock.try_lock()
    assert rig.store.log == ["read", "replace"]


def test_stale_look_after_a_lost_answer_costs_only_a_round(rig):
    """A8, H5: a read that lags leads to a write that fails, and then to our own record."""
    version = rig.store.plant(LockFile("old", 1, expired=True))
    old = serialize(LockFile("old", 1, expired=True))
    rig.store.script = [ok, lose_reply, stale(old, version)]
    assert rig.lock.lock(5)
    assert rig.lock.grant.version == rig.store.version()
    assert rig.lock.fencing_token == 1


def test_conflict_and_throttling_are_retried_with_backoff(rig):
    """A5: 409 and 429 are neither lost nor won; time passes between tries."""
    rig.store.script = [ok, conflict, ok, throttle]
    began_ns = rig.runtime.mono
    assert rig.lock.lock(5)
    assert rig.runtime.mono - began_ns >= 2 * 25 * NS_PER_MS


def test_object_deleted_between_look_and_write_is_created(rig):
    """A5, C5: a 404 on a conditional write means that there is nothing to replace."""
    rig.store.plant(LockFile("old", 1, expired=True))
    rig.store.before = lambda name: MemoryStore.delete(rig.store, KEY) if name == "replace" else None
    assert rig.lock.try_lock()
    assert rig.store.log == ["read", "replace", "create"]


def test_a_lapsed_holder_that_renews_before_our_write_has_the_lock(rig):
    """S7, A8: its record has the owner and the token of the lapsed one, and is newer. Our write can land no more.

    The same record on a released base would be older, a read that lags: only a released one is never renewed.
    """
    rig.store.plant(LockFile("slow", 1, expired=False, nonce="x", fence=5, mark=BLOCK))
    renewed = LockFile("slow", rig.runtime.wall // NS_PER_MS + 10_000, expired=False, nonce="y", fence=5, mark=BLOCK)

    def renews(name: str) -> None:
        if name == "replace":
            rig.store.before = None
            rig.store.plant(renewed)

    rig.store.before = renews
    assert rig.lock.try_lock() is False
    assert rig.store.record() == renewed
