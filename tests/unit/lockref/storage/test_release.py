"""H7, H24: giving the lock back, and what unlock tells of it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from lockref.errors import (
    LockLost,
    LockTimeout,
    ReleaseFailed,
)
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.storage.config import StorageLockConfig
from lockref.storage.lock import StorageLock
from lockref.storage.lockfile import LockFile, serialize
from lockref.stores.memory import MemoryStore
from tests.hardened_rig import (
    BELIEVABLE_NS,
    CONFIG,
    KEY,
    REQUEST_TIMEOUT_NS,
    Rig,
    conflict,
    error_503,
    hidden_retry,
    lose_reply,
    lose_request,
    ok,
    refuse,
    stale,
    throttle,
)


def test_release_leaves_validity_and_fence(rig):
    """RFC-91, H21: a release changes `expired` (and the nonce) and nothing else."""
    rig.lock.try_lock()
    held = rig.store.record()
    rig.runtime.advance(NS_PER_S)
    rig.lock.unlock()
    freed = rig.store.record()
    assert freed.expired
    assert (freed.owner, freed.valid_until_ms, freed.fence) == (held.owner, held.valid_until_ms, held.fence)


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


def test_release_is_tried_six_times():
    """H7, L5: no more and no less, where the time would allow it."""
    rig = Rig(config=StorageLockConfig(base_path=CONFIG.base_path))
    rig.lock.try_lock()
    rig.store.rule_for_all = throttle
    rig.store.log.clear()
    with pytest.raises(ReleaseFailed):
        rig.lock.unlock()
    assert rig.store.log == ["release"] * 6


def test_release_is_tried_for_a_second_at_least(rig):
    """H7, L5: a short request timeout does not make a throttled release give up at once."""
    lock = rig.another(request_timeout_ns=50 * NS_PER_MS)
    lock.try_lock()
    rig.store.script = [throttle] * 4
    lock.unlock()
    assert rig.store.record().expired


def test_release_is_done_if_its_answer_was_lost_and_garbage_followed(rig):
    """H7, H17: what stands there was written after our release, or on it."""
    rig.lock.try_lock()
    rig.store.timeout_ns = 0
    rig.store.script = [lose_reply]
    rig.store.before = lambda name: rig.store.plant(b"{") if name == "read" else None
    rig.lock.unlock()
    assert len(rig.names("released")) == 1
