"""What is unsafe and what is broken in Hudi's lock, shown on the baseline: U and D items, E scenarios.

These tests keep the baseline *bad*: a repair would make it useless for comparison.
"""

from __future__ import annotations

import pytest

from lockref.errors import CorruptRecord, OutcomeUnknown, ReleaseFailed
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.storage.hudi.client import LockUpsertResult, ObjectStoreLockClient
from lockref.storage.hudi.lock_manager import HoodieLockException, HudiLock
from lockref.stores.port import WriteReply
from lockref.words import Outcome
from tests.unit.lockref.storage.hudi.bench import EPOCH_NS, KEY, Bench, BenchHeartbeat

SILENCE = WriteReply(outcome=Outcome.AMBIGUOUS)
LOST_REPLY = (SILENCE,)
SERVER_ERROR = WriteReply(outcome=Outcome.AMBIGUOUS, status=503)
UNKNOWN = LockUpsertResult.UNKNOWN_ERROR
START_MS = EPOCH_NS // NS_PER_MS


@pytest.fixture
def bench():
    made = Bench()
    yield made
    made.kernel.close()


def holder_and_contender(bench, skew_ms=0):
    """Two locks; the holder's client can be told answers. Skew: the contender's clock minus the holder's."""
    return bench.provider(owner="holder"), bench.provider(owner="contender", runtime=bench.runtime(skew_ms))


def first_grant_ms(bench, provider, *, until_ms, step_ms=1):
    """True time of the first granted attempt, trying every `step_ms`; None if none is."""
    while bench.kernel.now_ns <= until_ms * NS_PER_MS:
        if provider.try_lock():
            return bench.kernel.now_ns // NS_PER_MS
        bench.sleep(step_ms / 1000)
    return None


# Unsafe: two holders.


def test_u1_failing_renewals_count_as_healthy_for_ever(bench):
    """U1, E6: while renewals answer 503 the holder believes, and a contender takes over after validity plus buffer."""
    holder, contender = holder_and_contender(bench)
    holder._client.writes = [None, *[UNKNOWN] * 30]

    def hold():
        assert holder.try_lock()
        bench.sleep(12)
        return holder.heartbeat.has_active_heartbeat()

    def contend():
        bench.sleep(10.4)
        return first_grant_ms(bench, contender, until_ms=12_000)

    assert bench.run(contend, hold) is True
    assert contender.lock_object is not None, "and the holder's heartbeat says all is well"
    assert contender.lock_object.data.valid_until_ms == START_MS + 10_501 + 10_000


def test_u3_a_slow_answer_grants_a_dead_lease(bench):
    """U3, E9: the write lands at once, its reply takes longer than the lease; try_lock says yes to a dead lease."""
    holder, contender = holder_and_contender(bench)
    holder._client.before_reply_ns = [11 * NS_PER_S]

    def contend():
        bench.sleep(10.6)
        return contender.try_lock()

    def hold():
        return holder.try_lock(), bench.kernel.now_ns // NS_PER_MS

    stolen = {}
    assert bench.run(lambda: stolen.setdefault("by", contend()), hold) == (True, 11_000)
    assert stolen["by"] is True


def test_e10_a_slow_send_writes_a_dead_lease(bench):
    """E10: the time is read before a pause, the write lands after the lease it carries is over: stolen at once."""
    holder, contender = holder_and_contender(bench)
    holder._client.delays_ns = [11 * NS_PER_S]
    assert bench.run(lambda: (holder.try_lock(), contender.try_lock())) == (True, True)


@pytest.mark.parametrize("is_applied", [True, False], ids=["U4", "U5"])
def test_u4_u5_a_failed_release_is_followed_by_a_grant_without_heartbeat(bench, is_applied):
    """U4, U5, E14, E15: release unknown, the same provider's next attempt says yes without request or heartbeat."""
    lock, contender = bench.lock(), bench.provider(owner="contender")

    def reuse():
        assert lock.try_lock()
        bench.store.replies = [LOST_REPLY if is_applied else SERVER_ERROR]
        with pytest.raises(ReleaseFailed):
            lock.unlock()
        taken = contender.try_lock()
        return taken, lock.try_lock(), lock.holds(), lock.provider.heartbeat.has_active_heartbeat()

    assert bench.run(reuse) == (is_applied, True, True, False)


def test_u6_two_threads_share_one_grant(bench):
    """U6: both threads are told yes, and the first to unlock releases for both."""
    provider = bench.provider()
    answers = []

    def second():
        bench.sleep(0.1)
        answers.append(provider.try_lock())
        bench.sleep(0.1)
        provider.unlock()

    def first():
        answers.append(provider.try_lock())
        bench.sleep(0.5)

    bench.run(second, first)
    assert answers == [True, True]
    assert bench.record.expired is True


def test_u7_after_a_lost_renewal_the_lock_object_stays(bench):
    """U7: the heartbeat has stopped and interrupted, yet the next attempt says yes until validity plus buffer."""
    lock = bench.lock()

    def lose():
        assert lock.try_lock()
        bench.sleep(0.5)
        bench.put("thief", for_ms=60_000)
        bench.sleep(1)
        believed = lock.holds(), lock.interrupted
        again = lock.try_lock()
        return believed, again, lock.holds()

    assert bench.run(lose) == ((False, True), True, True)
    assert bench.record.owner == "thief"


def test_u8_a_heartbeat_that_cannot_start_leaves_a_lock_behind(bench):
    """U8: false, and if the compensating release is unknown the next attempt is true, without heartbeat."""
    heartbeat = BenchHeartbeat()
    heartbeat.starts = False
    provider = bench.provider(heartbeat=heartbeat)
    provider._client.writes = [None, UNKNOWN]
    assert bench.run(lambda: (provider.try_lock(), provider.try_lock())) == (False, True)
    assert heartbeat.is_active is False


@pytest.mark.parametrize(("dialect", "notices"), [("s3", False), ("gcs", True), ("azure", True)])
def test_u9_a_deleted_lock_file_is_a_healthy_one_on_s3(dialect, notices):
    """U9, E23: on S3 renewals of a missing file meet 404 and go on; where the answer is 412 the loss is seen."""
    bench = Bench(dialect=dialect)
    lock = bench.lock()

    def lose():
        assert lock.try_lock()
        bench.store.delete(KEY)
        bench.sleep(3.5)
        return lock.interrupted, lock.holds()

    assert bench.run(lose) == (notices, not notices)
    bench.kernel.close()


def test_e24_a_record_made_anew_by_another_ends_the_heartbeat(bench):
    """E24: deleted and recreated by somebody else, the file answers the next renewal with 412: interrupt, no belief."""
    lock = bench.lock()

    def lose():
        assert lock.try_lock()
        bench.store.delete(KEY)
        bench.put("another", for_ms=10_000)
        bench.sleep(1.5)
        return lock.interrupted, lock.holds()

    assert bench.run(lose) == (True, False)
    assert bench.record.owner == "another"


def test_u10_the_heartbeat_ends_with_the_thread_not_with_the_work(bench):
    """U10, E20, E21: the owner thread ends without unlock; another thread of the provider is told yes, unguarded."""
    provider = bench.provider()
    assert bench.run(provider.try_lock)
    bench.run(lambda: bench.sleep(1.5))
    assert bench.run(lambda: (provider.heartbeat.has_active_heartbeat(), provider.try_lock())) == (False, True)


@pytest.mark.parametrize(
    ("skew_ms", "granted_ms"), [(9_000, None), (9_500, None), (9_502, 999), (9_600, 901), (10_501, 0)]
)
def test_u12_a_clock_that_is_far_ahead_steals_a_healthy_lock(bench, skew_ms, granted_ms):
    """U12, E5: validity 10 s, renewal 1 s: theft of a renewed lease needs d > L − r + β = 9.5 s, certain at L + β."""
    holder, contender = holder_and_contender(bench, skew_ms)

    def hold():
        assert holder.try_lock()
        bench.sleep(3)

    granted = {}

    def contend():
        bench.sleep(0.0)
        granted["ms"] = first_grant_ms(bench, contender, until_ms=2_500)

    bench.run(hold, contend)
    assert granted["ms"] == granted_ms


def test_u15_a_heartbeat_killed_by_an_error_still_counts_as_active(bench):
    """U15: renewals have ended without a word; the holder keeps its lock object and its belief."""
    lock = bench.lock()

    def hold():
        assert lock.try_lock()

        def error(_new, _previous):
            raise NotImplementedError("stands for a Java Error")

        lock.provider._client.try_upsert_lock_file = error
        bench.sleep(5)

    with pytest.raises(NotImplementedError):
        bench.run(hold)
    assert lock.holds()
    assert lock.provider.heartbeat._future is not None


def test_u16_the_exit_hook_releases_while_the_writer_writes(bench):
    """U16, E22: the record is released, the writer's belief is untouched."""
    lock = bench.lock()
    bench.run(lambda: (lock.try_lock(), lock.run_shutdown_hook()))
    assert bench.record.expired is True
    assert lock.holds() is True


# Broken: availability.


@pytest.mark.parametrize(
    ("skew_ms", "granted_ms"),
    [(-2000, 12_501), (-500, 11_001), (0, 10_501), (499, 10_002), (500, 10_001), (501, 10_000), (2000, 8_501)],
)
def test_d1_a_dead_holder_blocks_until_validity_plus_buffer_on_the_contender_s_clock(bench, skew_ms, granted_ms):
    """D1, E3, E4: the record is refused at V + 500 ms and taken one millisecond later, by the contender's clock."""
    holder, contender = holder_and_contender(bench, skew_ms)
    bench.run(lambda: holder.try_lock() and holder.heartbeat.stop_heartbeat(True))

    def contend():
        bench.sleep(8.4)
        return first_grant_ms(bench, contender, until_ms=14_000)

    assert bench.run(contend) == granted_ms


def test_d2_a_create_whose_reply_is_lost_raises_and_blocks_its_own_writer(bench):
    """D2, E11: S3 rethrows, nothing is retried, and the record stays for one validity."""
    lock = bench.lock()
    bench.store.replies = [None, LOST_REPLY]
    with pytest.raises(OutcomeUnknown):
        bench.run(lambda: lock.lock(5))
    assert bench.run(lock.try_lock) is False
    assert (bench.record.owner, bench.record.expired) == (lock.provider.owner_id, False)


def test_d3_an_update_whose_reply_is_lost_reads_as_held_by_others(bench):
    """D3, E12: its own UUID blocks it for one validity plus buffer."""
    provider = bench.provider()
    bench.put("gone", for_ms=0, expired=True)
    provider._client.writes = [("applied", UNKNOWN)]
    assert bench.run(lambda: first_grant_ms(bench, provider, until_ms=12_000, step_ms=100)) == 10_600


def test_d4_a_renewal_whose_reply_is_lost_loses_the_lock_to_itself(bench):
    """D4, E13: the next renewal meets 412, stops the heartbeat, interrupts; unlock fails; the record is orphaned."""
    lock = bench.lock()

    def hold():
        assert lock.try_lock()
        bench.store.replies = [LOST_REPLY]
        bench.sleep(1.5)
        first = lock.interrupted
        bench.sleep(1)
        with pytest.raises(ReleaseFailed):
            lock.unlock()
        return first, lock.interrupted

    assert bench.run(hold) == (False, True)
    assert bench.record.expired is False
    assert bench.record.valid_until_ms == START_MS + 11_000


@pytest.mark.parametrize("status", [409, 500, 503, None])
def test_d5_a_release_is_tried_once(bench, status):
    """D5, E15: conflict, server error or silence: one attempt, and the record dangles."""
    lock = bench.lock()

    def cycle():
        assert lock.try_lock()
        bench.store.replies = [WriteReply(outcome=Outcome.AMBIGUOUS, status=status)]
        with pytest.raises(ReleaseFailed):
            lock.unlock()
        return bench.kernel.now_ns

    assert bench.run(cycle) == 0
    assert bench.record.expired is False


def test_d6_a_corrupt_file_stops_every_writer_for_ever(bench):
    """D6, E25: an exception at once, today and in an hour."""
    bench.store.put(KEY, b"")
    lock = bench.lock()
    for _ in range(2):
        with pytest.raises(CorruptRecord, match=KEY):
            bench.run(lambda: lock.lock(60))
        bench.run(lambda: bench.sleep(3600))


@pytest.mark.parametrize(("dialect", "survives"), [("s3", True), ("azure", True), ("gcs", False)])
def test_d8_a_connection_reset_on_renewal_kills_a_healthy_holder_on_gcs(dialect, survives):
    """D8, E28: silence on one renewal is nothing on S3, and an interrupted writer on GCS."""
    bench = Bench(dialect=dialect)
    lock = bench.lock()

    def hold():
        assert lock.try_lock()
        bench.store.replies = [SILENCE]
        bench.sleep(2.5)
        return lock.holds()

    assert bench.run(hold) is survives
    bench.kernel.close()


def test_d9_unlock_waits_fifteen_seconds_for_a_heartbeat_that_waits_for_unlock(bench):
    """D9, E19: unlock holds the monitor; a beat that has its permit waits for the monitor until stop gives up."""
    provider = bench.provider()
    renew = provider.renew_lock
    manager = provider.heartbeat

    def late_renewal():
        bench.sleep(0.2)  # The beat holds its permit and has not entered the provider's monitor yet.
        return renew()

    manager._renew = late_renewal

    def hold():
        assert provider.try_lock()
        bench.sleep(1.1)
        began_ns = bench.kernel.now_ns
        with pytest.raises(HoodieLockException, match="FAILED_TO_RELEASE"):
            provider.unlock()
        stalled_s = (bench.kernel.now_ns - began_ns) / NS_PER_S
        bench.sleep(0.1)
        extended = bench.record.valid_until_ms > START_MS + 20_000
        provider.unlock()
        return stalled_s, extended

    assert bench.run(hold) == (15.0, True), "and the blocked beat then extends the lease"
    assert bench.record.expired is True, "a second unlock works"


def test_d10_an_interrupted_caller_cannot_release(bench):
    """D10: with the interrupt flag set stop says no, so no release is tried."""
    lock = bench.lock()

    def hold():
        assert lock.try_lock()
        lock._threads.current().interrupt()
        with pytest.raises(ReleaseFailed):
            lock.unlock()

    bench.run(hold)
    assert bench.record.expired is False


def test_d13_waiters_poll_once_a_second_and_a_hand_off_waits_for_it(bench):
    """D13, E35: fixed poll, no jitter: released at 2.1 s, taken at 3 s."""
    holder, waiter = holder_and_contender(bench)

    def hold():
        assert holder.try_lock()
        bench.sleep(2.1)
        holder.unlock()

    assert bench.run(hold, lambda: waiter.try_lock_for(10 * NS_PER_S) and bench.kernel.now_ns) == 3 * NS_PER_S


def test_d17_an_audit_write_under_the_monitor_delays_the_renewal(bench):
    """D17: while START is written nobody can renew."""
    provider = bench.provider()
    bench.store.put("table/.hoodie/.locks/audit_enabled.json", b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED":true}')

    def slow(_path, _content):
        bench.sleep(3)
        return True

    provider._client.write_object = slow

    def cycle():
        provider.try_lock()
        return [file.valid_until_ms - START_MS for file in provider._client.written]

    assert bench.run(cycle) == [10_000], "two renewals were due in these three seconds"


def test_e7_a_lapsed_lease_is_revived_if_nobody_took_it(bench):
    """E7: renewals fail past the lease, then one succeeds: no loss is noticed, none happened."""
    holder = bench.provider(owner="holder")
    holder._client.writes = [None, *[UNKNOWN] * 12]

    def hold():
        assert holder.try_lock()
        bench.sleep(13.5)
        return holder.heartbeat.has_active_heartbeat()

    assert bench.run(hold) is True
    assert bench.record.valid_until_ms == START_MS + 23_000


def test_e31_a_step_back_of_the_clock_shortens_the_lease(bench):
    """E31: a smaller validUntil is written without a question; a contender may take over early."""
    runtime = bench.runtime()
    holder = bench.provider(owner="holder", runtime=runtime)

    def hold():
        assert holder.try_lock()
        runtime.skew_ns = -20 * NS_PER_S
        bench.sleep(1.5)
        return bench.record.valid_until_ms

    assert bench.run(hold) == START_MS + 1000 - 20_000 + 10_000
    assert bench.run(bench.provider(owner="contender").try_lock) is True


# The lock as the laboratory drives it.


def test_a_clean_cycle_drops_the_provider_and_the_next_has_a_new_owner(bench):
    """LockManager: a provider, hence an owner, per cycle."""
    lock = bench.lock()

    def cycles():
        owners = []
        for _ in range(3):
            assert lock.lock(5)
            owners.append(lock.grant.owner)
            lock.unlock()
        return owners

    assert len(set(bench.run(cycles))) == 3
    assert (lock.grant, lock.holds(), lock.provider) == (None, False, None)


def test_an_interrupt_is_cleared_by_the_next_attempt(bench):
    """A pool's thread starts with its flag cleared; belief begins anew."""
    lock = bench.lock()

    def cycle():
        assert lock.try_lock()
        bench.put("thief", for_ms=60_000)
        bench.sleep(1.5)
        assert lock.interrupted
        lock.provider._lock = None
        return lock.try_lock(), lock.interrupted, lock.holds()

    assert bench.run(cycle) == (False, False, False), "a refused attempt does not revive what was lost"
    kinds = [event.kind.value for event in bench.events if event.kind.value != "metric"]
    assert kinds == ["granted", "lost"]


def test_metrics_of_a_cycle(bench):
    """Section 7: attempts count successes only; failure per timed attempt; duration is time held."""
    lock, other = bench.lock(), bench.lock()

    def cycle():
        assert lock.lock(5)
        assert not other.lock(2)
        bench.sleep(0.25)
        lock.unlock()

    bench.run(cycle)
    names = bench.metrics()
    assert (names.count("lock.acquire.attempts"), names.count("lock.acquire.success")) == (1, 1)
    assert (names.count("lock.acquire.failure"), names.count("lock.release.success")) == (1, 1)
    values = {event.name: event.value for event in bench.events if event.name.startswith("lock.acquire.duration")}
    assert values == {"lock.acquire.duration": 2250.0}
    assert names.count("lock.request.latency") == 2


def test_observers_never_wait(bench):
    """Contract of LockProvider: holds and grant answer while a request under the monitor is in flight."""
    lock = bench.lock()
    asked = []

    def hold():
        assert lock.try_lock()
        client = lock.provider._client
        write = client.try_upsert_lock_file

        def slow(new, previous):
            bench.sleep(5)
            return write(new, previous)

        client.try_upsert_lock_file = slow
        bench.sleep(4)

    def observe():
        bench.sleep(2)
        before = bench.kernel.now_ns
        asked.append((lock.holds(), lock.grant is not None, bench.kernel.now_ns - before))

    bench.run(observe, hold)
    assert asked == [(True, True, 0)]


def test_a_fresh_lock_holds_nothing_and_its_calls_do_nothing(bench):
    """Before the first attempt there is no belief, and unlock, hook and close make no request."""
    lock = bench.lock()
    assert (lock.holds(), lock.grant, lock.interrupted) == (False, None, False)
    bench.run(lambda: (lock.unlock(), lock.run_shutdown_hook(), lock.close()))
    assert bench.store.peek(KEY) is None
    assert bench.events == []


def test_close_releases_and_ends_the_heartbeat(bench):
    """Contract of LockProvider: close gives back what is held and ends belief; a second close does nothing."""
    lock = bench.lock()

    def cycle():
        assert lock.try_lock()
        provider = lock.provider
        lock.close()
        lock.close()
        return lock.holds(), lock.provider, provider.is_closed, provider.heartbeat.has_active_heartbeat()

    assert bench.run(cycle) == (False, None, True, False)
    assert bench.record.expired is True


def test_a_clean_unlock_closes_the_provider_it_drops(bench):
    """LockManager: unlock, then close and drop; duration counts from the grant, not from the start of the process."""
    lock = bench.lock()

    def cycle():
        bench.sleep(5)
        assert lock.try_lock()
        provider = lock.provider
        bench.sleep(1)
        lock.unlock()
        return provider.is_closed

    assert bench.run(cycle) is True
    kinds = [event.kind.value for event in bench.events if event.kind.value != "metric"]
    assert kinds == ["granted", "released"]
    assert [event.value for event in bench.events if event.name == "lock.acquire.duration"] == [1000.0]


def test_an_unlock_without_grant_counts_no_time_held(bench):
    """An unlock after a refused attempt releases nothing and measures nothing."""
    lock = bench.lock()
    bench.put("other", for_ms=60_000)
    bench.run(lambda: (lock.try_lock(), lock.unlock()))
    assert "lock.acquire.duration" not in bench.metrics()
    assert lock.provider is None


def test_two_threads_may_unlock_at_once(bench):
    """U6: one releases for both, and the slower one does not drop what is already gone."""
    lock = bench.lock()
    bench.run(lock.try_lock)
    write = ObjectStoreLockClient.try_upsert_lock_file
    client = lock.provider._client

    def slow(new, previous):
        bench.sleep(1)
        return write(client, new, previous)

    client.try_upsert_lock_file = slow
    bench.run(lock.unlock, lock.unlock)
    assert (lock.provider, bench.record.expired) == (None, True)


def test_two_threads_that_both_saw_the_provider_close_it_once(bench):
    """U6: between the look at the provider and its end the other thread may have ended it."""

    class GivesWay(HudiLock):
        def _drop(self):
            self._runtime.sleep(1)
            super()._drop()

    lock = bench.lock(of=GivesWay)
    closed = []

    def script():
        assert lock.try_lock()
        provider = lock.provider
        close = provider.close
        provider.close = lambda: (closed.append(provider), close())

    bench.run(script)
    bench.run(lock.unlock, lock.unlock)
    assert len(closed) == 1
    assert lock.provider is None


def test_a_loss_after_unlock_is_told_to_nobody(bench):
    """D11: an interrupt that comes after belief has ended is not reported as a loss."""
    lock = bench.lock()

    def cycle():
        assert lock.try_lock()
        thread = lock._threads.current()
        lock.unlock()
        thread.interrupt()

    bench.run(cycle)
    assert "lost" not in [event.kind.value for event in bench.events]
