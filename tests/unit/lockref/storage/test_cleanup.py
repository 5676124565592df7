"""H6, L6: writes in which nobody believes are undone, or cannot land any more."""

from __future__ import annotations

import pytest

from lockref.errors import (
    LockLost,
    LockNotHeld,
    OutcomeUnknown,
    ReleaseFailed,
)
from lockref.locks.decisions import free_at_wall_ns
from lockref.locks.fence import BLOCK
from lockref.runtime import NS_PER_S
from lockref.storage.lockfile import LockFile, serialize
from lockref.stores.port import Version
from lockref.words import Outcome
from tests.hardened_rig import (
    BELIEVABLE_NS,
    CONFIG,
    conflict,
    error_503,
    late_reply,
    lose_reply,
    lose_request,
    ok,
    refuse,
    stale,
    throttle,
)


def test_giving_up_overwrites_what_a_zombie_could_land_on(rig):
    """H6, E30: after an unresolved acquire the object is replaced, so that the delayed write meets a 412."""
    version = rig.store.plant(LockFile("old", 1, expired=True))
    under_way = []

    def delay(store, perform, is_read):
        if not is_read:
            under_way.append(perform)
        return lose_request(store, perform, is_read)

    rig.store.script = [ok, *[delay] * 20]
    with pytest.raises(OutcomeUnknown):
        rig.lock.lock(1)
    rig.store.script = []
    rig.runtime.run("cleanup")
    assert rig.store.version() != version
    assert rig.store.record().expired
    assert under_way
    assert {late().outcome for late in under_way} == {Outcome.PRECONDITION_FAILED}


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


def test_withdrawn_grant_leaves_no_trace(rig):
    """H3, H12: a grant that came too late was never given: the next call starts afresh, without a loss."""
    rig.store.script = [ok, late_reply(CONFIG.validity_ns)]
    with pytest.raises(OutcomeUnknown):
        rig.lock.try_lock()
    with pytest.raises(LockNotHeld):
        rig.lock.assert_held()
    assert rig.lock.try_lock()
    assert rig.losses == []


def test_cleanup_whose_release_is_not_answered_looks_again(rig):
    """H5, H6: a lost answer does not tell that the orphan is gone."""
    rig.lock.try_lock()
    rig.store.rule_for_all = lose_request
    with pytest.raises(ReleaseFailed):
        rig.lock.unlock()
    rig.store.rule_for_all = ok
    rig.store.script = [ok, lose_request]
    rig.runtime.run("cleanup")
    assert rig.store.record().expired


def test_grant_that_was_lost_is_undone_when_its_task_locks_again(rig):
    """H6, U7: nobody believes in it any more, so others need not wait until it lapses."""
    rig.lock.try_lock()
    rig.runtime.advance(BELIEVABLE_NS)
    with pytest.raises(LockLost):
        rig.lock.try_lock()
    rig.runtime.run("cleanup")
    assert rig.store.record().expired


def test_writes_that_have_lapsed_are_forgotten(rig):
    """H6: they keep nobody waiting; a client that never gets the lock does not collect them."""
    rig.store.script = [ok, *[lose_request] * 4]
    with pytest.raises(OutcomeUnknown):
        rig.lock.try_lock()
    assert rig.lock.cleanup.orphans
    rig.store.script = []
    rig.runtime.advance(CONFIG.validity_ns + 2 * CONFIG.drift_bound_ns)
    rig.store.plant(rig.live())
    assert rig.lock.try_lock() is False
    assert rig.lock.cleanup.orphans == []


def test_ctrl_c_between_the_grant_and_its_caller_undoes_the_grant(rig, monkeypatch):
    """H6, L6: the caller was not told yes, and will not unlock."""
    acquire = rig.lock.client.acquire

    def struck(*arguments):
        assert acquire(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(rig.lock.client, "acquire", struck)
    with pytest.raises(KeyboardInterrupt):
        rig.lock.try_lock()
    assert not rig.lock.holds()
    rig.runtime.run("cleanup")
    assert rig.store.record().expired


def test_orphan_is_undone_until_others_may_take_it_over(rig):
    """H6, E3: from the first instant at which anybody may overwrite it, it keeps nobody waiting."""
    rig.lock.try_lock()
    writes = rig.tenure().writes()
    rig.runtime.wall = free_at_wall_ns(writes[0].record, rig.lock.terms) - 1
    assert rig.lock.cleanup.unlapsed(writes) == writes
    rig.runtime.wall += 1
    assert rig.lock.cleanup.unlapsed(writes) == []


def test_only_the_latest_cleanup_goes_on(rig):
    """H6: a second one takes the first one's place, so that no two undo the same writes."""
    rig.lock.try_lock()
    rig.store.rule_for_all = throttle
    with pytest.raises(ReleaseFailed):
        rig.lock.unlock()
    rig.lock.cleanup.start()
    rig.store.rule_for_all = ok
    rig.store.log.clear()
    rig.runtime.run("cleanup")
    assert rig.store.log == ["read", "release"]


def test_closing_that_is_broken_off_leaves_the_cleanup_to_a_task(rig):
    """H6, H14: a Ctrl-C in the one attempt that `close` makes ends the attempt and not the undoing."""
    rig.lock.try_lock()
    rig.store.rule_for_all = throttle
    with pytest.raises(ReleaseFailed):
        rig.lock.unlock()
    rig.runtime.tasks.clear()
    rig.store.rule_for_all = ok

    def strike(_name):
        rig.store.before = None
        raise KeyboardInterrupt

    rig.store.before = strike
    with pytest.raises(KeyboardInterrupt):
        rig.lock.close()
    rig.runtime.run("cleanup")
    assert rig.store.record().expired


def test_end_of_an_earlier_grant_leaves_the_present_one_alone(rig):
    """H6, H11: whoever comes late with a tenure that is over ends nobody else's."""
    rig.lock.try_lock()
    earlier = rig.tenure()
    rig.lock.unlock()
    rig.lock.try_lock()
    rig.lock.client.end_use(earlier)
    assert rig.lock.holds()
    assert rig.lock.cleanup.orphans == []


def test_killed_cleanup_is_not_begun_anew_beside_its_successor(rig):
    """H6: what a cleanup of an earlier call was for is the later one's, however the earlier one ends."""
    rig.lock.try_lock()
    rig.store.rule_for_all = throttle
    with pytest.raises(ReleaseFailed):
        rig.lock.unlock()

    def strike(_name):
        rig.store.before = None
        rig.lock.cleanup.background.stop()
        raise KeyboardInterrupt

    rig.store.before = strike
    with pytest.raises(KeyboardInterrupt):
        rig.runtime.run("cleanup")
    assert not [task for task in rig.runtime.tasks if "cleanup" in task.name]


def test_closing_that_has_undone_all_starts_no_task(rig):
    """H6, H14: nothing is left, so nothing goes on after `close`."""
    rig.lock.try_lock()
    rig.store.rule_for_all = throttle
    with pytest.raises(ReleaseFailed):
        rig.lock.unlock()
    rig.runtime.tasks.clear()
    rig.store.rule_for_all = ok
    rig.lock.close()
    assert rig.store.record().expired
    assert rig.runtime.tasks == []


def test_a_read_that_lags_does_not_end_the_undoing(rig):
    """A8, H6: an earlier state of our own grant is no sign that its last write is gone; the next look undoes that."""
    rig.lock.try_lock()
    rig.store.rule_for_all = lose_request
    with pytest.raises(ReleaseFailed):
        rig.lock.unlock()
    rig.store.rule_for_all = ok
    earlier = serialize(LockFile(rig.lock.owner, 1, expired=False, nonce="earlier", fence=1, mark=BLOCK))
    rig.store.script = [stale(earlier, Version("0"))]
    cleanup = rig.lock.client.cleanup
    assert not cleanup.undo(list(cleanup.orphans))
    assert not rig.store.record().expired
    assert cleanup.undo(list(cleanup.orphans))
    assert rig.store.record().expired
