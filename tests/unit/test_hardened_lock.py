"""The hardened lock, clause by clause (H1 to H24), on a machine whose time stands still."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import pytest

from lockref.errors import (
    ConfigError,
    CorruptRecord,
    LockError,
    LockLost,
    LockNotHeld,
    LockTimeout,
    OutcomeUnknown,
    ReleaseFailed,
    StoreRejected,
)
from lockref.provider import LockContext, LockSettings
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.storage import provider as provider_module
from lockref.storage.fence import BLOCK
from lockref.storage.lockfile import LockFile, parse_strictly_as_hudi, serialize
from lockref.storage.provider import StorageLock, release_at_exit
from lockref.stores.memory import MemoryStore
from lockref.stores.port import Outcome
from tests.hardened_rig import (
    CONFIG,
    KEY,
    ManualRuntime,
    ManualTask,
    Rig,
    conflict,
    error_503,
    hidden_retry,
    late_reply,
    late_request,
    lose_reply,
    lose_request,
    ok,
    refuse,
    stale,
    throttle,
)

BELIEVABLE_NS = CONFIG.validity_ns - CONFIG.drift_bound_ns
REQUEST_TIMEOUT_NS = NS_PER_S // 3


@pytest.fixture
def rig() -> Rig:
    return Rig()


# ---- the grant and its record ----


def test_grant_is_written_as_hudi_reads_it(rig):
    """§1: what we write is a live record to Hudi, valid for L from before the write."""
    now_ms = rig.runtime.wall // NS_PER_MS
    assert rig.lock.try_lock()
    seen = parse_strictly_as_hudi(serialize(rig.store.record()))
    assert seen == LockFile(rig.lock.owner, now_ms + 10_000, expired=False)


def test_release_leaves_validity_and_fence(rig):
    """RFC-91, H21: a release changes `expired` (and the nonce) and nothing else."""
    rig.lock.try_lock()
    held = rig.store.record()
    rig.runtime.advance(NS_PER_S)
    rig.lock.unlock()
    freed = rig.store.record()
    assert freed.expired
    assert (freed.owner, freed.valid_until_ms, freed.fence) == (held.owner, held.valid_until_ms, held.fence)


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


def test_warm_cycle_costs_two_requests(rig):
    """The version that our own release made is the next precondition: one write in, one write out."""
    with rig.lock:
        pass
    rig.store.log.clear()
    with rig.lock:
        pass
    assert rig.store.log == ["replace", "release"]


def test_stale_memory_falls_back_to_reading(rig):
    """A remembered version that was overtaken costs a 412 and a look, and the next cycle reads first."""
    with rig.lock:
        pass
    other = rig.another()
    with other:
        pass
    rig.store.log.clear()
    with rig.lock:
        pass
    assert rig.store.log == ["replace", "read", "replace", "release"]
    with other:
        pass
    rig.store.log.clear()
    with rig.lock:
        pass
    assert rig.store.log == ["read", "replace", "release"]


def test_a_conflict_after_a_failed_look_is_no_denial(rig):
    """S7: a 412 on a remembered version and a read that failed tell of no grant; a 409 then leaves it unknown."""
    with rig.lock:
        pass
    with rig.another():
        pass
    rig.store.script = [ok, error_503, ok, conflict]
    rig.store.rule_for_all = conflict
    with pytest.raises(OutcomeUnknown):
        rig.lock.try_lock()


def test_undisturbed_memory_is_trusted_again(rig):
    """Once a look finds our release undisturbed, warm cycles cost two requests again."""
    test_stale_memory_falls_back_to_reading(rig)
    with rig.lock:
        pass
    rig.store.log.clear()
    with rig.lock:
        pass
    assert rig.store.log == ["replace", "release"]


# ---- H1, H2: the holder stops in time ----


@pytest.mark.parametrize("clock", ["wall", "mono"])
def test_belief_ends_at_the_deadline_of_either_clock(rig, clock):
    """H1: L − M after the write was sent, on whichever clock gets there first; the instant itself is out."""
    rig.lock.try_lock()
    setattr(rig.runtime, clock, getattr(rig.runtime, clock) + BELIEVABLE_NS - 1)
    assert rig.lock.holds()
    assert rig.lock.remaining_ns() == 1
    setattr(rig.runtime, clock, getattr(rig.runtime, clock) + 1)
    assert not rig.lock.holds()
    assert rig.lock.remaining_ns() == 0
    assert rig.lock.grant is None
    assert rig.lock.fencing_token is None


def test_belief_counts_from_before_the_request(rig):
    """M22, H1: a slow answer shortens belief; it never lengthens it."""
    rig.store.script = [ok, late_reply(2 * NS_PER_S)]
    assert rig.lock.lock(5)
    assert rig.lock.remaining_ns() == BELIEVABLE_NS - 2 * NS_PER_S
    assert rig.lock.remaining() == (BELIEVABLE_NS - 2 * NS_PER_S) / NS_PER_S


def test_assert_held_tells_lost_from_never_held(rig):
    """H2: before each protected write; the token and a reason come with the loss."""
    with pytest.raises(LockNotHeld):
        rig.lock.assert_held()
    rig.lock.try_lock()
    rig.lock.assert_held()
    rig.runtime.advance(BELIEVABLE_NS)
    with pytest.raises(LockLost) as caught:
        rig.lock.assert_held()
    assert caught.value.token == 1
    assert caught.value.reason


def test_a_no_stays_a_no(rig):
    """S3: after the guard has said no, neither a clock stepping back nor a late renewal makes it a yes."""
    rig.lock.try_lock()
    rig.runtime.wall += BELIEVABLE_NS
    assert not rig.lock.holds()
    rig.runtime.wall -= BELIEVABLE_NS
    assert not rig.lock.holds()
    rig.renew()
    assert not rig.lock.holds()


def test_nothing_remains_after_a_no(rig):
    """H2, S3, L4: a no given while the wall clock ran ahead leaves no time, and the watchdog reports the loss."""
    rig.lock.try_lock()
    rig.runtime.wall += CONFIG.validity_ns
    assert not rig.lock.holds()
    rig.runtime.wall -= CONFIG.validity_ns
    assert rig.lock.remaining_ns() == 0
    rig.runtime.run("watchdog")
    assert len(rig.losses) == 1


def test_renewal_landing_after_the_deadline_does_not_revive(rig):
    """H4: sent in time, answered too late: lost, whatever storage says."""
    rig.lock.try_lock()
    rig.runtime.advance(BELIEVABLE_NS - NS_PER_S)
    rig.store.script = [late_reply(2 * NS_PER_S)]
    assert rig.renew() is None
    assert not rig.lock.holds()


# ---- H3: too late to be believed ----


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


def test_first_renewal_is_timed_from_the_send(rig):
    """H3: a slow answer does not push the first renewal back."""
    sent_ns = rig.runtime.mono
    rig.store.script = [ok, late_reply(NS_PER_S // 2)]
    assert rig.lock.lock(5)
    spawn, started_ns = rig.runtime.spawn, []

    def note_and_stop(work, *, name):
        started_ns.append(rig.runtime.mono)
        rig.lock._tenure.stopped.set()
        return spawn(work, name=name)

    rig.runtime.spawn = note_and_stop
    rig.runtime.run("watchdog")
    assert started_ns == [sent_ns + NS_PER_S]


# ---- H4, H8, H12, H13, H15: loss ----


def test_watchdog_signals_the_loss_at_the_deadline(rig):
    """H4, H12, L4: with renewals failing silently, event, callback and listener fire at the deadline."""
    rig.lock.try_lock()
    sent_ns = rig.runtime.mono
    rig.runtime.run("watchdog")
    assert rig.runtime.mono - sent_ns == BELIEVABLE_NS
    assert rig.lock.loss.is_set()
    assert [loss.token for loss in rig.losses] == [1]
    assert len(rig.names("lost")) == 1


def test_unanswered_renewals_do_not_prolong_belief(rig):
    """H4, U1, M24: nine renewals with 503 leave the deadline where it was."""
    rig.lock.try_lock()
    rig.store.rule_for_all = error_503
    for _ in range(9):
        assert rig.renew() is not None
        rig.runtime.advance(NS_PER_S)
    assert rig.lock.holds()
    rig.runtime.advance(NS_PER_S // 2)
    assert not rig.lock.holds()
    assert rig.renew() is None


def test_dead_heartbeat_is_a_loss(rig):
    """H4, U15: an error in the heartbeat ends belief at once, not at the deadline."""

    class Broken(StorageLock):
        def _renew_write(self, attempt):
            raise RuntimeError("no class def found")

    rig = Rig(cls=Broken)
    rig.lock.try_lock()
    rig.runtime.advance(NS_PER_S)
    rig.runtime.on_advance = lambda: rig.lock._tenure.stopped.set()
    rig.runtime.run("watchdog")
    rig.lock._tenure.stopped.clear()
    with pytest.raises(RuntimeError, match="no class def"):
        rig.runtime.run("renewal")
    assert not rig.lock.holds()
    assert rig.losses


def test_failing_watchdog_is_a_loss(rig):
    """H4: when the renewing task cannot be started, the holder is told at once."""
    rig.lock.try_lock()
    rig.runtime.advance(NS_PER_S)
    rig.runtime.can_spawn = False
    with pytest.raises(RuntimeError):
        rig.runtime.run("watchdog")
    assert not rig.lock.holds()
    assert rig.lock.loss.is_set()


def test_replaced_record_ends_belief(rig):
    """H8, U7, M27: a renewal's 412 with a successor's record clears the state and signals the loss."""
    rig.lock.try_lock()
    rig.store.plant(rig.live())
    assert rig.renew() is None
    assert not rig.lock.holds()
    assert rig.losses
    rig.store.log.clear()
    with pytest.raises(LockLost):
        rig.lock.unlock()
    assert rig.store.log == []
    assert rig.store.record().owner == "somebody"


def test_overwritten_with_junk_ends_belief(rig):
    """H8, H17: what is no record is not our record."""
    rig.lock.try_lock()
    rig.store.plant(b"{")
    assert rig.renew() is None
    assert not rig.lock.holds()


@pytest.mark.parametrize("rules", [[], [lose_request, ok]])
def test_deleted_object_is_a_loss(rig, rules):
    """H15, U9, E23: the holder never recreates it, and knows at its next renewal."""
    rig.lock.try_lock()
    MemoryStore.delete(rig.store, KEY)
    rig.store.script = rules
    assert rig.renew() is None
    assert not rig.lock.holds()
    assert "deleted" in rig.losses[0].reason
    assert MemoryStore.read(rig.store, KEY).is_absent


def test_a_record_made_anew_by_another_is_a_loss(rig):
    """E24: deleted and recreated by somebody else before the next renewal, which is refused and leaves it alone."""
    rig.lock.try_lock()
    MemoryStore.delete(rig.store, KEY)
    version = rig.store.plant(rig.live("another"))
    assert rig.renew() is None
    assert not rig.lock.holds()
    assert len(rig.losses) == 1
    assert MemoryStore.read(rig.store, KEY).version == version


def test_dead_owner_task_is_a_loss_without_release(rig):
    """H13, U10: its work may go on elsewhere, so renewing stops and the lock lapses by itself."""
    rig.lock.try_lock()
    rig.runtime.me.is_running = False
    rig.store.log.clear()
    assert rig.renew() is None
    assert rig.store.log == []
    assert not rig.lock.holds()
    assert rig.losses
    assert not rig.store.record().expired


def test_another_task_may_lock_after_the_owner_died(rig):
    """H13, E21: the dead owner's lease is honoured until it lapses, then taken over with a new token."""
    rig.lock.try_lock()
    rig.runtime.me.is_running = False
    rig.runtime.me = ManualTask("second")
    assert rig.lock.try_lock() is False
    assert rig.lock.lock(15)
    assert rig.lock.fencing_token == 2
    assert [loss.token for loss in rig.losses] == [1]


def test_loss_is_never_signalled_after_unlock(rig):
    """H12, U11, D11: a late finding about an old grant does not touch the new one."""
    rig.lock.try_lock()
    old = rig.lock._tenure
    old_loss = rig.lock.loss
    rig.lock.unlock()
    rig.lock.try_lock()
    old.lose("late")
    assert rig.lock.holds()
    assert not old_loss.is_set()
    assert not rig.lock.loss.is_set()
    assert rig.losses == []


def test_late_tick_of_an_old_grant_does_nothing(rig):
    """H11, M8: a heartbeat that wakes after the unlock sends nothing, and ends."""
    rig.lock.try_lock()
    old = rig.lock._tenure
    rig.lock.unlock()
    rig.store.log.clear()
    assert old.renew() is None
    assert rig.store.log == []


def test_renewal_answered_after_unlock_is_not_adopted(rig):
    """H11, D9: a renewal in flight at unlock can neither revive the grant nor outlive the release."""
    rig.lock.try_lock()
    done = []
    rig.store.before = lambda name: done or done.append(name) or rig.lock.unlock()
    assert rig.renew() is None
    assert done == ["replace"]
    assert rig.store.log[-2:] == ["replace", "release"]
    assert rig.store.record().expired
    assert rig.lock.grant is None


@pytest.mark.parametrize("failures_before", [0, 8])
def test_failed_renewal_is_tried_again_soon(rig, failures_before):
    """H4, H18: 25 to 50 ms after the first failure, whatever had failed before the last renewal that landed."""
    rig.lock.try_lock()
    rig.store.rule_for_all = throttle
    for _ in range(failures_before):
        rig.renew()
    rig.store.rule_for_all = ok
    rig.renew()
    rig.store.rule_for_all = throttle
    assert 25 * NS_PER_MS <= rig.renew() - rig.runtime.mono <= 50 * NS_PER_MS


def test_refused_look_at_a_renewal_is_no_loss(rig):
    """H8, H16: a 403 on the look after a lost answer says nothing about whose record stands."""
    rig.lock.try_lock()
    rig.store.script = [error_503, refuse]
    assert rig.renew() is not None
    assert rig.lock.holds()
    assert rig.losses == []


def test_lagging_read_of_an_old_renewal_is_not_adopted(rig):
    """A8, H8: a renewal that was followed by another one is past, though we wrote it and it landed."""
    rig.lock.try_lock()
    rig.renew()
    body, version = serialize(rig.store.record()), rig.store.version()
    rig.renew()
    rig.store.script = [error_503, stale(body, version)]
    assert rig.renew() is not None
    assert rig.lock.grant.version == rig.store.version()


def test_release_finds_a_renewal_that_landed_unheard(rig):
    """H7, E13: a renewal whose answer was lost and could not be looked up is released like any other."""
    rig.lock.try_lock()
    rig.runtime.advance(NS_PER_S)
    rig.store.script = [lose_reply, lose_request]
    rig.renew()
    renewed = rig.store.record()
    rig.lock.unlock()
    assert rig.store.record().expired
    assert rig.store.record().valid_until_ms == renewed.valid_until_ms


# ---- H5, H6: lost answers ----


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


@pytest.mark.parametrize("rule", [lose_reply, hidden_retry])
def test_own_renewal_is_adopted(rig, rule):
    """H5, H8, E13, D4: a renewal that landed unheard counts from when it was sent."""
    rig.lock.try_lock()
    rig.runtime.advance(NS_PER_S)
    sent_ns = rig.runtime.mono
    rig.store.script = [rule]
    assert rig.renew() == sent_ns + NS_PER_S
    assert rig.lock.remaining_ns() == BELIEVABLE_NS - (rig.runtime.mono - sent_ns)
    assert rig.renew() is not None
    assert rig.lock.holds()


def test_renewal_lost_twice_over_is_adopted_later(rig):
    """H5: the answer lost, the look lost; the next renewal's 412 leads to our own record."""
    rig.lock.try_lock()
    rig.store.script = [lose_reply, lose_request]
    rig.renew()
    assert rig.renew() is not None
    assert rig.lock.holds()
    assert rig.lock.grant.version == rig.store.version()


def test_owner_alone_is_no_recognition(rig):
    """H5, A4, E33, M23: a record with our owner but another nonce is somebody else's."""
    rig.store.plant(rig.live(rig.lock.owner, fence=4))
    assert rig.lock.try_lock() is False


def test_equal_owner_and_time_are_no_recognition(rig):
    """H5, E33: a twin with our owner id, in the same millisecond, is told apart by the nonce."""
    twin = rig.another()
    twin.owner = rig.lock.owner
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


def test_giving_up_overwrites_what_a_zombie_could_land_on(rig):
    """H6, E30: after an unresolved acquire the object is replaced, so that the delayed write meets a 412."""
    version = rig.store.plant(LockFile("old", 1, expired=True))
    rig.store.script = [ok, *[lose_request] * 20]
    with pytest.raises(OutcomeUnknown):
        rig.lock.lock(1)
    zombie = rig.lock._strays[-1]
    rig.store.script = []
    rig.runtime.run("cleanup")
    assert rig.store.version() != version
    assert rig.store.record().expired
    late = MemoryStore.put_if_version(rig.store, KEY, serialize(zombie.record), zombie.if_version)
    assert late.outcome is Outcome.PRECONDITION_FAILED


def test_giving_up_on_a_create_leaves_a_released_record(rig):
    """H6, E30: a delayed create must find an object, too."""
    rig.store.script = [ok, *[lose_request] * 20]
    with pytest.raises(OutcomeUnknown):
        rig.lock.try_lock()
    rig.store.script = []
    rig.runtime.run("cleanup")
    assert rig.store.record().expired


def test_orphan_that_landed_is_released_in_the_background(rig):
    """H6, L6, D2: the write landed, the caller was told "unknown": others need not wait for the lease to end."""
    rig.store.script = [ok, lose_reply, *[lose_request] * 3]
    with pytest.raises(OutcomeUnknown):
        rig.lock.try_lock()
    assert not rig.store.record().expired
    rig.runtime.run("cleanup")
    assert rig.store.record().expired
    assert rig.store.record().fence == 1


def test_grant_settles_what_earlier_calls_left(rig):
    """H6: it replaced whatever they could have landed on, so nothing is left for `close` to ask about."""
    rig.store.script = [ok, *[lose_request] * 4]
    with pytest.raises(OutcomeUnknown):
        rig.lock.try_lock()
    with rig.lock:
        pass
    rig.store.log.clear()
    rig.lock.close()
    assert rig.store.log == []


@pytest.mark.parametrize("is_reachable", [True, False])
def test_cleanup_goes_on_after_a_call_that_learned_nothing(rig, is_reachable):
    """H6, D3: what an earlier call left is still undone, and still known as ours, after a later one failed to read."""
    rig.lock.try_lock()
    rig.store.rule_for_all = lose_request
    with pytest.raises(ReleaseFailed):
        rig.lock.unlock()
    with pytest.raises(OutcomeUnknown):
        rig.lock.try_lock()
    rig.store.rule_for_all = ok
    if is_reachable:
        rig.runtime.run("cleanup")
        assert rig.store.record().expired
    else:
        assert rig.lock.try_lock()


def test_denied_call_leaves_nothing_to_clean_up(rig):
    """H6: a write that was refused because another one came first is not undone: no task, no request."""
    rig.store.plant(LockFile("old", 1, expired=True))
    rig.store.before = lambda name: rig.store.plant(rig.live()) if name == "replace" else None
    assert rig.lock.try_lock() is False
    assert not [task for task in rig.runtime.tasks if "cleanup" in task.name]


def test_conflict_after_a_lost_answer_settles_nothing(rig):
    """S7, H6: a 409 says that the second write did not land; the first one still may, and is undone."""
    rig.store.script = [ok, error_503, ok]
    rig.store.rule_for_all = conflict
    with pytest.raises(OutcomeUnknown, match="may have landed"):
        rig.lock.try_lock()
    assert [task for task in rig.runtime.tasks if "cleanup" in task.name]


def test_cleanup_ends_when_it_is_refused(rig):
    """A5, H6: a 403 will not get better."""
    rig.lock.try_lock()
    rig.store.rule_for_all = throttle
    with pytest.raises(ReleaseFailed):
        rig.lock.unlock()
    rig.store.script = [ok, refuse]
    rig.store.log.clear()
    rig.runtime.run("cleanup")
    assert rig.store.log == ["read", "release"]


def test_cleanup_goes_on_after_close(rig):
    """H6: `close` tries once itself; what it could not undo is undone in the background, not left to lapse."""
    rig.lock.try_lock()
    rig.store.rule_for_all = lose_request
    with pytest.raises(ReleaseFailed):
        rig.lock.unlock()
    rig.lock.close()
    assert not rig.store.record().expired
    rig.store.rule_for_all = ok
    rig.runtime.run("cleanup")
    assert rig.store.record().expired


def test_orphan_is_undone_as_long_as_it_keeps_others_out(rig):
    """H6, L6: others wait β beyond its validity, so until then there is something to undo."""
    rig.lock.try_lock()
    rig.store.rule_for_all = throttle
    began_ns = rig.runtime.mono
    with pytest.raises(ReleaseFailed):
        rig.lock.unlock()
    rig.runtime.advance(CONFIG.validity_ns + CONFIG.drift_bound_ns // 2 - (rig.runtime.mono - began_ns))
    rig.store.rule_for_all = ok
    rig.lock.close()
    assert rig.store.record().expired


def test_renewal_under_way_is_undone_with_its_grant(rig):
    """H6, H7: a renewal that landed unheard is recognised by the cleanup of a release that failed."""
    rig.lock.try_lock()
    rig.store.script = [lose_reply]
    rig.store.rule_for_all = lose_request
    rig.renew()
    with pytest.raises(ReleaseFailed):
        rig.lock.unlock()
    rig.store.rule_for_all = ok
    rig.runtime.run("cleanup")
    assert rig.store.record().expired


def test_cleanup_spares_a_successor(rig):
    """S6, L6: when somebody else has taken the lock, there is nothing of ours to undo."""
    rig.store.script = [ok, lose_request, *[lose_request] * 3]
    with pytest.raises(OutcomeUnknown):
        rig.lock.try_lock()
    rig.store.script = []
    rig.store.plant(rig.live())
    rig.store.log.clear()
    rig.runtime.run("cleanup")
    assert rig.store.log == ["read"]
    assert rig.store.record().owner == "somebody"


def test_cleanup_gives_up_when_the_orphan_has_lapsed(rig):
    """L6: after one validity there is nothing to undo, and the task ends even if the store never answers."""
    rig.store.rule_for_all = lose_request
    rig.store.script = [ok]
    with pytest.raises(OutcomeUnknown):
        rig.lock.try_lock()
    began_ns = rig.runtime.mono
    rig.runtime.run("cleanup")
    assert rig.runtime.mono - began_ns < CONFIG.validity_ns + 4 * NS_PER_S


def test_next_call_takes_over_its_own_orphan(rig):
    """D3, E12: our own unheard write does not lock us out, and the cleanup yields to the new call."""
    rig.store.script = [ok, lose_reply, *[lose_request] * 3]
    with pytest.raises(OutcomeUnknown):
        rig.lock.try_lock()
    rig.store.script = []
    assert rig.lock.try_lock()
    assert rig.lock.fencing_token == 2
    rig.store.log.clear()
    rig.runtime.run("cleanup")
    assert rig.store.log == []
    assert rig.lock.holds()


def test_412_after_a_lost_answer_is_looked_up_at_once(rig):
    """H5, H3: it may be the echo of our own first write, so it is no lost race and no reason to wait."""
    rig.store.script = [ok, lose_reply, stale(None, None)]
    began_ns = rig.runtime.mono
    assert rig.lock.lock(5)
    assert rig.runtime.mono - began_ns == REQUEST_TIMEOUT_NS


def test_slow_read_leaves_time_for_the_write(rig):
    """L5: at least one attempt is completed, however long its read took."""
    rig.store.plant(LockFile("old", 1, expired=True, nonce="x", fence=1, mark=BLOCK))
    rig.store.script = [late_reply(REQUEST_TIMEOUT_NS)]
    assert rig.lock.try_lock()
    assert rig.store.log == ["read", "replace"]


def test_withdrawn_grant_leaves_no_trace(rig):
    """H3, H12: a grant that came too late was never given: the next call starts afresh, without a loss."""
    rig.store.script = [ok, late_reply(CONFIG.validity_ns)]
    with pytest.raises(OutcomeUnknown):
        rig.lock.try_lock()
    with pytest.raises(LockNotHeld):
        rig.lock.assert_held()
    assert rig.lock.try_lock()
    assert rig.losses == []


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


# ---- S7: honest answers ----


def test_no_is_said_when_somebody_elses_lease_was_seen(rig):
    """S7, E1: one read, one no."""
    rig.store.plant(rig.live())
    assert rig.lock.try_lock() is False
    assert rig.store.log == ["read"]


def test_lost_race_is_a_no(rig):
    """S7, E2: another writer was quicker; its record is looked at before we say no."""
    rig.store.plant(LockFile("old", 1, expired=True))
    rig.store.before = lambda name: rig.store.plant(rig.live()) if name == "replace" else None
    assert rig.lock.try_lock() is False
    assert rig.store.log == ["read", "replace", "read"]


def test_what_happened_before_the_call_is_no_denial(rig):
    """S7: a 412 on the version that our own release had left tells of a grant that may long be over."""
    with rig.lock:
        pass
    rig.store.plant(LockFile("old", 1, expired=True))
    rig.store.script = [ok, ok]
    rig.store.rule_for_all = throttle
    with pytest.raises(OutcomeUnknown):
        rig.lock.try_lock()


def test_unresolved_try_goes_on_while_it_has_time(rig):
    """S7: once a write of ours is open, having seen somebody else is no reason to stop looking."""
    rig.store.plant(LockFile("old", 1, expired=True))
    quick = LockFile("quick", 1, expired=True)
    rig.store.before = lambda _name: rig.store.plant(quick) if rig.store.log == ["read", "replace"] else None
    rig.store.script = [ok, ok, *[ok, error_503] * 3]
    assert rig.lock.try_lock()


def test_waiter_that_lost_a_race_does_not_look_at_once(rig):
    """H20: a 412 means that a grant has just begun; the next request comes when it may be over."""
    rig.store.plant(LockFile("old", 1, expired=True))
    at_ns = []

    def other_is_quicker(name):
        at_ns.append(rig.runtime.mono)
        if name == "replace" and len(at_ns) == 2:
            rig.store.plant(rig.live(for_ms=2000))

    rig.store.before = other_is_quicker
    assert rig.lock.lock(20)
    assert at_ns[2] - at_ns[1] >= NS_PER_S // 2


@pytest.mark.parametrize("timeout_s", [0, 3])
@pytest.mark.parametrize("rule", [lose_request, error_503])
def test_nothing_learned_is_said_so(rig, rule, timeout_s):
    """S7: a partition, or 5xx all the way, is no denial."""
    rig.store.rule_for_all = rule
    with pytest.raises(OutcomeUnknown):
        rig.lock.lock(timeout_s)


def test_unresolved_write_is_not_a_no(rig):
    """S7: somebody else was seen at first, but our own last write may stand now."""
    rig.store.plant(rig.live(for_ms=1000))
    rig.store.script = [*[ok] * 2]
    rig.store.before = lambda name: setattr(rig.store, "rule_for_all", lose_request) if name == "replace" else None
    with pytest.raises(OutcomeUnknown):
        rig.lock.lock(5)


@pytest.mark.parametrize("script", [[refuse], [ok, refuse]])
def test_refusal_is_named(rig, script):
    """S7, §6: a 403 never looks like contention, on reading or on writing."""
    rig.store.script = list(script)
    with pytest.raises(StoreRejected, match="403"):
        rig.lock.lock(60)
    assert len(rig.store.log) == len(script)


def test_read_errors_are_retried_within_the_callers_time(rig):
    """H16, D7: a failed read is no reason to fail the acquisition."""
    rig.store.script = [error_503, lose_request]
    assert rig.lock.lock(5)


def test_backoff_never_outlasts_the_poll_interval(rig):
    """L3: however long the store was out of reach, a free lock is found within one interval."""
    rig.store.rule_for_all = error_503
    looks = []
    rig.store.before = lambda _name: looks.append(rig.runtime.mono)
    with pytest.raises(OutcomeUnknown):
        rig.lock.lock(60)
    assert max(b - a for a, b in pairwise(looks)) <= CONFIG.poll_interval_ns


@pytest.mark.parametrize("timeout_s", [1, 5, 30])
@pytest.mark.parametrize("rule", [lose_request, lose_reply, throttle, error_503])
def test_calls_keep_their_time(rig, rule, timeout_s):
    """L5: timeout plus one request timeout, with the store unreachable or refusing."""
    rig.store.rule_for_all = rule
    began_ns = rig.runtime.mono
    with pytest.raises(OutcomeUnknown):
        rig.lock.lock(timeout_s)
    assert rig.runtime.mono - began_ns <= timeout_s * NS_PER_S + REQUEST_TIMEOUT_NS


@pytest.mark.parametrize("timeout_s", [3.5, 0.2])
def test_waiting_keeps_its_time(rig, timeout_s):
    """L5: with a live lease in the way the whole time is used, and no more, be it less than one request may take."""
    rig.store.plant(rig.live(for_ms=100_000))
    began_ns = rig.runtime.mono
    assert rig.lock.lock(timeout_s) is False
    assert timeout_s - 0.1 <= (rig.runtime.mono - began_ns) / NS_PER_S <= timeout_s


def test_a_race_lost_late_is_looked_into_at_once(rig):
    """L5, S7: refused when its time is up, a caller looks who was quicker instead of waiting for the grant's end."""
    rig.store.plant(LockFile("old", 1, expired=True))
    rig.store.script = [ok, late_reply(200 * NS_PER_MS)]
    rig.store.before = lambda name: rig.store.plant(rig.live(for_ms=100_000)) if name == "replace" else None
    began_ns = rig.runtime.mono
    assert rig.lock.lock(0.1) is False
    assert rig.runtime.mono - began_ns <= 200 * NS_PER_MS


# ---- H20, E3, E4: waiting ----


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
    rig.lock._polls.courtesy_ns = lambda: 2 * NS_PER_S
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


# ---- H7, H24: release ----


@pytest.mark.parametrize("rule", [conflict, throttle, error_503, lose_request, lose_reply, hidden_retry])
def test_release_survives_one_bad_answer(rig, rule):
    """H7, E14 to E16, D5: tried again, looked up in between; no error for the caller."""
    rig.lock.try_lock()
    rig.store.script = [rule]
    rig.lock.unlock()
    assert rig.store.record().expired
    assert len(rig.names("released")) == 1


def test_release_found_done_is_not_repeated(rig):
    """H7, U4, E14: a release that landed unheard is recognised by its nonce."""
    rig.lock.try_lock()
    rig.store.log.clear()
    rig.store.script = [lose_reply]
    rig.lock.unlock()
    assert rig.store.log == ["release", "read"]


def test_release_accepts_a_successor_after_a_lost_answer(rig):
    """H7, #20027: the release landed, a poller took the lock: done, and the successor is spared."""
    rig.lock.try_lock()
    other = rig.another()
    rig.store.timeout_ns = 0
    rig.store.script = [lose_reply]
    has_asked = []

    def other_is_quicker(name):
        if name == "read" and not has_asked:
            has_asked.append(name)
            assert other.try_lock()

    rig.store.before = other_is_quicker
    rig.lock.unlock()
    assert other.holds()


def test_lagging_read_is_no_successor(rig):
    """A8, S7: after a lost answer an old record says nothing about the release; it is tried again."""
    old = LockFile("old", 1, expired=True, nonce="o", fence=6)
    rig.store.plant(old)
    rig.lock.try_lock()
    rig.store.script = [lose_request, stale(serialize(old), "0")]
    rig.lock.unlock()
    assert rig.store.record().expired
    assert rig.store.record().fence == 7


def test_lagging_read_does_not_end_a_grant(rig):
    """A8, H8: a renewal that landed unheard, and a read that shows our own record before it."""
    rig.lock.try_lock()
    first = serialize(rig.store.record())
    rig.renew()
    rig.store.script = [lose_reply, stale(first, "0")]
    assert rig.renew() is not None
    assert rig.lock.holds()
    assert rig.renew() is not None
    assert rig.lock.grant.version == rig.store.version()


def test_failed_release_is_a_result_of_its_own(rig):
    """H24, D16: ReleaseFailed, with local state cleared first and the undoing continued in the background."""
    rig.lock.try_lock()
    rig.store.rule_for_all = lose_request
    believed = []
    rig.store.before = lambda _name: believed.append(rig.lock.holds())
    with pytest.raises(ReleaseFailed):
        rig.lock.unlock()
    assert not any(believed)
    assert rig.lock.grant is None
    rig.store.rule_for_all, rig.store.before = ok, None
    rig.runtime.run("cleanup")
    assert rig.store.record().expired


def test_release_keeps_its_budget(rig):
    """L5, H7: tries are bounded in time, jittered and looked up."""
    rig.lock.try_lock()
    rig.store.rule_for_all = throttle
    began_ns = rig.runtime.mono
    rig.store.log.clear()
    with pytest.raises(ReleaseFailed):
        rig.lock.unlock()
    assert rig.runtime.mono - began_ns <= 2 * NS_PER_S
    assert rig.store.log.count("release") >= 3


def test_release_of_silence_keeps_its_budget(rig):
    """L5, H7: where each try costs its request timeouts, no try begins beyond the budget."""
    rig.lock.try_lock()
    rig.store.rule_for_all = lose_request
    began_ns = rig.runtime.mono
    with pytest.raises(ReleaseFailed):
        rig.lock.unlock()
    assert rig.runtime.mono - began_ns <= NS_PER_S + 2 * REQUEST_TIMEOUT_NS


def test_release_is_not_tried_beyond_a_validity():
    """H7: after that the lease has lapsed by itself."""
    config = replace(CONFIG, validity_ns=600 * NS_PER_MS, renew_interval_ns=50 * NS_PER_MS, unsafe=True)
    rig = Rig(config=config, cls=partial(StorageLock, margin_ns=0))
    rig.lock.try_lock()
    rig.store.rule_for_all = throttle
    began_ns = rig.runtime.mono
    with pytest.raises(ReleaseFailed):
        rig.lock.unlock()
    assert rig.runtime.mono - began_ns <= config.validity_ns


def test_release_remembers_that_an_answer_was_lost(rig):
    """H7, #20027: lost answer, failed look, 412, successor's record: our release had landed, so all is well."""

    def successor(store, perform, _is_read):
        store.plant(rig.live())
        return perform()

    rig.lock.try_lock()
    rig.store.script = [lose_reply, error_503, successor]
    rig.lock.unlock()
    assert len(rig.names("released")) == 1


def test_refused_release_is_reported_at_once(rig):
    """A5: a 403 will not get better; the lease lapses."""
    rig.lock.try_lock()
    rig.store.rule_for_all = refuse
    rig.store.log.clear()
    with pytest.raises(ReleaseFailed):
        rig.lock.unlock()
    assert rig.store.log == ["release"]


def test_after_failed_release_the_same_lock_starts_afresh(rig):
    """U4, U5: no belief survives a failed release; the next grant is written, with a higher token."""
    rig.lock.try_lock()
    rig.store.rule_for_all = lose_request
    with pytest.raises(ReleaseFailed):
        rig.lock.unlock()
    rig.store.rule_for_all = ok
    assert rig.lock.try_lock()
    assert rig.store.record().fence == 2
    assert rig.store.record().nonce is not None


@pytest.mark.parametrize("junk", [None, b"{"])
def test_unlock_after_loss_says_so_and_spares_the_successor(rig, junk):
    """R7, S6: a definite 412 and somebody else's bytes: LockLost."""
    rig.lock.try_lock()
    rig.store.plant(junk or rig.live())
    version = rig.store.version()
    with pytest.raises(LockLost):
        rig.lock.unlock()
    assert rig.store.version() == version


def test_unlock_of_a_deleted_object_says_lost(rig):
    """A5: a 404 on release: not held any more, and not recreated."""
    rig.lock.try_lock()
    MemoryStore.delete(rig.store, KEY)
    with pytest.raises(LockLost):
        rig.lock.unlock()
    assert MemoryStore.read(rig.store, KEY).is_absent


def test_unlock_after_the_deadline_releases_and_says_lost(rig):
    """H7, L4: nobody took it, so it is given back, but the work was not protected to its end."""
    rig.lock.try_lock()
    rig.runtime.advance(BELIEVABLE_NS)
    with pytest.raises(LockLost):
        rig.lock.unlock()
    assert rig.store.record().expired


def test_with_keeps_the_bodys_error(rig):
    """H24, M25: how the release ended never hides how the work ended."""
    rig.store.script = [ok, ok, *[lose_request] * 20]
    with pytest.raises(ZeroDivisionError) as caught, rig.lock:
        raise ZeroDivisionError
    assert "unlocking afterwards" in caught.value.__notes__[0]


def test_with_reports_a_failed_release(rig):
    """H24: work done, release unknown: ReleaseFailed reaches the caller."""
    rig.store.script = [ok, ok, *[lose_request] * 20]
    with pytest.raises(ReleaseFailed), rig.lock:
        pass


def test_with_gives_up_after_a_lease_time(rig):
    """`with` waits as long as a dead holder's lease may last, then raises LockTimeout."""
    rig.store.plant(rig.live(for_ms=1_000_000))
    began_ns = rig.runtime.mono
    with pytest.raises(LockTimeout), rig.lock:
        pass
    assert (rig.runtime.mono - began_ns) / NS_PER_S == pytest.approx(10.5, abs=0.1)


# ---- H9: who may ----


def test_owner_task_may_lock_again(rig):
    """H9: counted; only the outermost unlock writes."""
    assert rig.lock.try_lock()
    assert rig.lock.lock(1)
    rig.store.log.clear()
    rig.lock.unlock()
    assert rig.lock.holds()
    assert rig.store.log == []
    rig.lock.unlock()
    assert rig.store.log == ["release"]


def test_another_task_is_told_no_and_cannot_unlock(rig):
    """H9, U6: one process, two tasks, one lock: the second waits or fails."""
    rig.lock.try_lock()
    rig.runtime.me = ManualTask("second")
    rig.store.log.clear()
    began_ns = rig.runtime.mono
    assert rig.lock.try_lock() is False
    assert rig.lock.lock(2) is False
    assert rig.runtime.mono - began_ns == 2 * NS_PER_S
    with pytest.raises(LockNotHeld):
        rig.lock.unlock()
    assert rig.store.log == []
    assert rig.lock.holds()


def test_waiting_for_a_sibling_sleeps(rig, monkeypatch):
    """H9: in every cycle, not only in the first, a task waits for the holder of its process without spinning."""
    for _ in range(2):
        rig.lock.try_lock()
        rig.lock.unlock()
    rig.lock.try_lock()
    readings = []

    def reading():
        readings.append(rig.runtime.mono)
        rig.runtime.mono += NS_PER_MS
        return rig.runtime.mono

    rig.runtime.me = ManualTask("sibling")
    monkeypatch.setattr(rig.runtime, "monotonic_ns", reading)
    assert rig.lock.lock(timeout_s=3) is False
    assert len(readings) < 50


def test_unlock_without_lock_is_a_bug_of_the_caller(rig):
    """H9: LockNotHeld, and no request."""
    with pytest.raises(LockNotHeld):
        rig.lock.unlock()
    assert rig.store.log == []


def test_forked_child_is_refused(rig):
    """H9: a child shares owner and memory with its parent; only one of them may act."""
    rig.lock.try_lock()
    rig.runtime.pid += 1
    rig.store.log.clear()
    assert not rig.lock.holds()
    for use in (rig.lock.try_lock, rig.lock.unlock, rig.lock.repair):
        with pytest.raises(LockNotHeld, match="forked"):
            use()
    rig.lock.close()
    rig.lock.exit_hook()
    assert rig.store.log == []
    rig.runtime.pid -= 1
    assert rig.lock.holds()


def test_lost_grant_is_reported_once_to_its_owner(rig):
    """U7: locking again over a lost grant never quietly succeeds; after that the owner starts afresh."""
    rig.lock.try_lock()
    rig.runtime.advance(20 * NS_PER_S)
    with pytest.raises(LockLost):
        rig.lock.try_lock()
    assert rig.lock.try_lock()
    assert rig.lock.fencing_token == 2


# ---- H10: heartbeat ----


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


def test_stop_does_not_wait_for_the_heartbeat(rig):
    """H11, D9: unlock returns while a renewal is still out; time does not pass."""
    rig.lock.try_lock()
    began_ns = rig.runtime.mono
    seen = []

    def unlock_meanwhile(name):
        if name == "replace" and not seen:
            seen.append(rig.runtime.mono)
            rig.lock.unlock()

    rig.store.before = unlock_meanwhile
    rig.renew()
    assert rig.runtime.mono == began_ns
    assert seen


# ---- H14: the end of the process ----


def test_exit_inside_the_critical_section_does_not_release(rig):
    """H14, U16: marked lost and left to lapse."""
    rig.lock.try_lock()
    rig.lock.exit_hook()
    assert not rig.lock.holds()
    assert rig.losses
    assert not rig.store.record().expired


def test_loss_is_signalled_once(rig):
    """H12: a grant lost at its deadline is not lost a second time when another task closes, or the process ends."""
    rig.lock.try_lock()
    rig.runtime.advance(CONFIG.validity_ns)
    rig.runtime.run("watchdog")
    rig.runtime.me = ManualTask("other")
    rig.lock.close()
    rig.lock.exit_hook()
    assert len(rig.losses) == len(rig.names("lost")) == 1


def test_exit_after_the_critical_section_undoes_what_is_left(rig):
    """H14: a release that had failed is tried a last time."""
    rig.lock.try_lock()
    rig.store.rule_for_all = lose_request
    with pytest.raises(ReleaseFailed):
        rig.lock.unlock()
    rig.store.rule_for_all = ok
    rig.lock.exit_hook()
    assert rig.store.record().expired


def test_release_at_exit_registers_the_hook(rig, monkeypatch):
    """H14: the hook is opt-in, by one small function."""
    hooks = []
    monkeypatch.setattr(provider_module, "atexit", SimpleNamespace(register=hooks.append))
    release_at_exit(rig.lock)
    assert hooks == [rig.lock.exit_hook]


def test_close_gives_back_and_refuses_further_use(rig):
    """Close by the owner releases, however deep it had locked; twice is once; locking afterwards raises."""
    rig.lock.try_lock()
    rig.lock.try_lock()
    rig.lock.close()
    assert rig.store.record().expired
    rig.store.log.clear()
    rig.lock.close()
    assert rig.store.log == []
    with pytest.raises(LockError, match="closed"):
        rig.lock.try_lock()


def test_each_close_tries_once_to_undo_what_is_left(rig):
    """A second `close`, after an unreachable store or a Ctrl-C in the first, asks once more, until all is undone."""
    rig.lock.try_lock()
    rig.store.rule_for_all = lose_request
    rig.lock.close()
    rig.store.log.clear()
    rig.lock.close()
    assert rig.store.log == ["read"]
    rig.store.rule_for_all = ok
    rig.lock.close()
    assert rig.store.record().expired
    rig.store.log.clear()
    rig.lock.close()
    assert rig.store.log == []


def test_close_by_another_task_does_not_release(rig):
    """U16, H14: the owner may be in the middle of its work."""
    rig.lock.try_lock()
    rig.runtime.me = ManualTask("second")
    rig.lock.close()
    assert not rig.lock.holds()
    assert rig.losses
    assert not rig.store.record().expired


def test_close_ends_the_wait_for_a_sibling(rig):
    """H9: a task that waits for another one of its process is not granted a lock that was closed meanwhile."""
    owner = rig.runtime.me
    rig.lock.try_lock()

    def close_as_owner():
        rig.runtime.on_advance = None
        me, rig.runtime.me = rig.runtime.me, owner
        rig.lock.close()
        rig.runtime.me = me

    rig.runtime.me = ManualTask("sibling")
    rig.runtime.on_advance = close_as_owner
    with pytest.raises(LockError, match="closed"):
        rig.lock.lock(timeout_s=5)
    assert rig.store.record().expired


def test_close_ends_a_wait(rig):
    """testTwoLockProvidersCloseAndUnlock: a waiter of a closed lock raises instead of waiting on."""
    rig.store.plant(rig.live())
    rig.store.before = lambda _name: rig.lock._closing.set()
    with pytest.raises(LockError, match="closed"):
        rig.lock.lock(60)


# ---- H17, H21, H23 ----


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


# ---- H18, H19, configuration ----


def test_request_timeout_is_well_below_the_renew_interval():
    """H18: a third of r, five seconds at most; from_context opens the store with it."""
    asked = []
    rig = Rig()

    def open_store(timeout_ns):
        asked.append(timeout_ns)
        return rig.store

    for renew_s, expected_ns in ((1, NS_PER_S // 3), (30, 5 * NS_PER_S)):
        settings = LockSettings(validity_ns=10 * renew_s * NS_PER_S, renew_interval_ns=renew_s * NS_PER_S)
        lock = StorageLock.from_context(LockContext(runtime=rig.runtime, open_store=open_store, settings=settings))
        assert asked.pop() == lock.terms.request_timeout_ns == expected_ns


def test_context_settings_reach_the_lock(rig):
    """Key, timing, margin and listener of the laboratory; the margin defaults to the drift bound."""
    seen = []
    settings = LockSettings(key="elsewhere", drift_bound_ns=700 * NS_PER_MS, options={"margin_ms": "800", "other": "x"})
    lock = StorageLock.from_context(
        LockContext(runtime=rig.runtime, open_store=lambda _ns: rig.store, settings=settings, listener=seen.append)
    )
    assert lock.try_lock()
    assert MemoryStore.read(rig.store, "elsewhere").body is not None
    assert (lock.terms.margin_ns, lock.terms.buffer_ns) == (800 * NS_PER_MS, 700 * NS_PER_MS)
    assert {event.kind for event in seen} == {"granted", "metric"}


def test_options_of_the_laboratory_reach_the_terms():
    """H1, H18: `request_timeout_ms` bounds store and terms alike; a margin of 0 is a margin, where it is allowed."""
    opened = []
    context = LockContext(
        runtime=ManualRuntime(),
        open_store=lambda timeout_ns: opened.append(timeout_ns) or MemoryStore(),
        settings=LockSettings(options={"request_timeout_ms": "200", "margin_ms": "0"}, unsafe=True),
    )
    terms = StorageLock.from_context(context).terms
    assert opened == [200 * NS_PER_MS] == [terms.request_timeout_ns]
    assert (terms.margin_ns, terms.buffer_ns) == (0, context.settings.drift_bound_ns)


def test_impossible_timing_is_refused():
    """A lease that ends before its first renewal is a mistake in the configuration."""
    rig = Rig()
    with pytest.raises(ConfigError, match="first renewal"):
        rig.another(margin_ns=9 * NS_PER_S)
    with pytest.raises(ConfigError, match="positive"):
        rig.another(request_timeout_ns=-1)


@pytest.mark.parametrize("step_s", [-3600, -2, 5])
def test_renewal_never_lowers_validity(rig, step_s):
    """H19, E31: the wall clock steps under the holder; what others were promised stands, and belief stays short."""
    rig.lock.try_lock()
    promised_ms = rig.store.record().valid_until_ms
    rig.runtime.advance(NS_PER_S)
    rig.runtime.wall += step_s * NS_PER_S
    rig.renew()
    record = rig.store.record()
    assert record.valid_until_ms >= promised_ms + 1000
    assert rig.lock.remaining_ns() == BELIEVABLE_NS


# ---- what the listener hears ----


def test_listener_hears_hudis_metrics(rig):
    """§7: Hudi's names, through the listener."""
    rig.store.plant(rig.live(for_ms=300))
    rig.store.script = [ok, ok, throttle]
    rig.lock.lock(5)
    rig.renew()
    rig.lock.unlock()
    names = {event.name for event in rig.names("metric")}
    assert names >= {
        "lock.acquire.attempts", "lock.acquire.success", "lock.acquire.duration", "lock.release.success",
        "lock.acquired.others.error", "lock.dangling", "lock.throttled", "lock.request.latency",
        "lock.expiration.deadline",
    }  # fmt: skip
    assert [event.kind for event in rig.events if event.kind != "metric"] == ["granted", "renewed", "released"]
