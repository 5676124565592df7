"""Hudi's `TestStorageBasedLockProvider`, by name: one provider, told answers, a heartbeat that does as told."""

from __future__ import annotations

import json
import uuid

import pytest

from lockref.errors import ConfigError, ReleaseFailed
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.storage.config import BASE_PATH, RENEW_INTERVAL, VALIDITY
from lockref.storage.hudi.client import LockGetResult, LockUpsertResult, ObjectStoreLockClient
from lockref.storage.hudi.java_threads import JavaThreads
from lockref.storage.hudi.lock_manager import HoodieLockException, LockState, StorageBasedLockProvider
from lockref.storage.hudi.provider import random_uuid
from lockref.storage.lockfile import LockFile
from lockref.stores.port import WriteReply
from lockref.words import Outcome
from tests.unit.lockref.storage.hudi.bench import EPOCH_NS, FOLDER, KEY, SWITCH, Bench, BenchHeartbeat, Broken

ENABLED = b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED":true}'


@pytest.fixture
def bench():
    made = Bench()
    yield made
    made.kernel.close()


@pytest.fixture
def heartbeat():
    return BenchHeartbeat()


@pytest.fixture
def provider(bench, heartbeat):
    return bench.provider(heartbeat=heartbeat)


def raising(call, state):
    with pytest.raises(HoodieLockException) as caught:
        call()
    assert caught.value.state is state


def from_properties(bench, base_path, load_client=None):
    return StorageBasedLockProvider.from_properties(
        {BASE_PATH: base_path, VALIDITY: "10", RENEW_INTERVAL: "1"},
        load_client=load_client or (lambda _owner, config: ObjectStoreLockClient(bench.store, config.location.key)),
        runtime=bench.runtime(),
    )


# Making one.


def test_valid_lock_storage_location(bench):
    """testValidLockStorageLocation: the lock file lies below the table, whatever slashes the base path has."""
    provider = bench.run(lambda: from_properties(bench, "s3://lake//some/table//"))
    assert provider.lock_file_path == "some/table/.hoodie/.locks/table_lock.json"
    assert bench.run(provider.try_lock)
    assert bench.store.peek(provider.lock_file_path) is not None


@pytest.mark.parametrize("base_path", ["file:///tmp/table", "hdfs://name/table", "/tmp/table"])
def test_non_existent_write_service_with_defaults(bench, base_path):
    """testNonExistentWriteServiceWithDefaults: a scheme without a client fails to load."""
    with pytest.raises(HoodieLockException, match="Failed to load and initialize StorageLock"):
        bench.run(lambda: from_properties(bench, base_path))


def test_constructor_with_defaults_takes_settings_from_properties(bench):
    """First constructor test: validity and renew interval come from the properties, the owner is a UUID."""
    provider = bench.run(lambda: from_properties(bench, "s3://lake/table"))
    assert bench.run(provider.try_lock)
    written = bench.run(provider.get_lock).data
    assert written.valid_until_ms == EPOCH_NS // NS_PER_MS + 10_000
    groups = provider.owner_id.split("-")
    assert [len(group) for group in groups] == [8, 4, 4, 4, 12]
    assert (groups[2][0], groups[3][0] in "89ab") == ("4", True)


def test_constructor_fails_when_the_client_cannot_be_made(bench):
    """Second constructor test: what a client's constructor raises is wrapped; bad settings are not."""

    def broken(_owner, _config):
        raise Broken("no credentials")

    with pytest.raises(HoodieLockException, match=r"Failed to load and initialize StorageLock: no credentials"):
        bench.run(lambda: from_properties(bench, "s3://lake/table", broken))
    with pytest.raises(ConfigError, match=r"hoodie\.base\.path does not exist!"):
        StorageBasedLockProvider.from_properties({}, load_client=broken, runtime=bench.runtime())


# Timed attempts.


def test_try_lock_for_time_unit_throws_on_interrupt(bench):
    """testTryLockForTimeUnitThrowsOnInterrupt: the wait ends at once, the flag stays set, the metric counts."""
    runtime = bench.runtime()
    threads = JavaThreads(runtime)
    waiter = bench.provider(heartbeat=BenchHeartbeat(), runtime=runtime, threads=threads)
    bench.put("other", for_ms=60_000)
    seen = {}

    def wait():
        seen["thread"] = threads.current()
        raising(lambda: waiter.try_lock_for(10 * NS_PER_S), LockState.FAILED_TO_ACQUIRE)
        return bench.kernel.now_ns

    def interrupt():
        bench.sleep(0.3)
        seen["thread"].interrupt()

    assert bench.run(interrupt, wait) == 0.3 * NS_PER_S
    assert seen["thread"].is_interrupted()
    assert "lock.interrupted" in bench.metrics()


def test_try_lock_for_time_unit_acquires_lock_eventually(bench, provider):
    """testTryLockForTimeUnitAcquiresLockEventually: granted at the first poll after expiry plus buffer."""
    bench.put("other", for_ms=2600)
    assert bench.run(lambda: provider.try_lock_for(10 * NS_PER_S)) is True
    assert bench.kernel.now_ns == 4 * NS_PER_S, "2600 + 500 ms has passed at the fourth poll, not at the third"


def test_try_lock_for_time_unit_fails_to_acquire_lock_eventually(bench, provider):
    """testTryLockForTimeUnitFailsToAcquireLockEventually: one read a second until the time is over (D13)."""
    bench.put("other", for_ms=60_000)
    assert bench.run(lambda: provider.try_lock_for(5 * NS_PER_S)) is False
    assert provider._client.log == ["read"] * 5


# Single attempts.


def test_try_lock_success(bench, provider, heartbeat):
    """testTryLockSuccess: read, create, heartbeat, in this order; the record is ours for one validity."""
    assert bench.run(provider.try_lock) is True
    assert provider._client.log == ["read", "write", "switch"]
    assert heartbeat.log == ["start"]
    assert bench.record == LockFile("me", EPOCH_NS // NS_PER_MS + 10_000, expired=False)


def test_try_lock_success_but_failure_to_start_heartbeat(bench, provider, heartbeat):
    """testTryLockSuccessButFailureToStartHeartbeat: false, and what was written is expired again."""
    heartbeat.starts = False
    assert bench.run(provider.try_lock) is False
    assert (bench.record.expired, provider.lock_object) == (True, None)
    assert "lock.provider.fatal.error" in bench.metrics()


def test_a_heartbeat_that_half_started_forbids_the_compensating_release(bench, provider, heartbeat):
    """Section 5, expire: with an active heartbeat a record is not expired, it raises; the lock object stays."""

    def half_started(_thread):
        heartbeat.is_active = True
        return False

    heartbeat.start_heartbeat_for_thread = half_started
    with pytest.raises(HoodieLockException, match="Must stop heartbeat before expire lock file"):
        bench.run(provider.try_lock)
    assert (bench.record.expired, provider.lock_object is not None) == (False, True)


def test_messages_name_owner_file_thread_and_state(bench, provider, heartbeat):
    """Section 4: the wording by which people search for it."""
    heartbeat.is_active = True
    with pytest.raises(HoodieLockException) as caught:
        bench.run(provider.try_lock)
    assert str(caught.value) == (
        f"Owner me: Lock file path {KEY}, Thread main0, Storage based lock state FAILED_TO_ACQUIRE"
    )


def test_try_lock_fails_due_to_existing_lock(bench, provider):
    """testTryLockFailsDueToExistingLock: somebody's live record is refused without a write."""
    bench.put("other", for_ms=1)
    assert bench.run(provider.try_lock) is False
    assert provider._client.log == ["read"]


def test_try_lock_fails_to_update_file(bench, provider):
    """testTryLockFailsToUpdateFile: a lost race is a quiet no, counted as precondition failure."""
    provider._client.writes = [LockUpsertResult.ACQUIRED_BY_OTHERS]
    assert bench.run(provider.try_lock) is False
    assert bench.metrics() == ["lock.acquire.precondition.failure"]


def test_try_lock_fails_due_to_unknown_state(bench, provider):
    """testTryLockFailsDueToUnknownState: an unreadable state is a quiet no; so is an unknown or throttled write."""
    provider._client.reads = [LockGetResult.UNKNOWN_ERROR]
    provider._client.writes = [LockUpsertResult.UNKNOWN_ERROR, LockUpsertResult.THROTTLED]
    assert bench.run(lambda: [provider.try_lock() for _ in range(3)]) == [False] * 3
    assert bench.metrics() == ["lock.state.unknown", "lock.state.unknown", "lock.throttled"]


def test_try_lock_fails_from_owner_mismatch(bench, provider):
    """testTryLockFailsFromOwnerMismatch: a client that returns somebody else's file is not believed."""
    write = provider._client.try_upsert_lock_file

    def swapped(new, previous):
        result, file = write(new, previous)
        return result, type(file)(LockFile("other", new.valid_until_ms, new.expired), file.version)

    provider._client.try_upsert_lock_file = swapped
    with pytest.raises(HoodieLockException, match="Owners do not match"):
        bench.run(provider.try_lock)


def test_try_lock_heartbeat_still_active(bench, provider, heartbeat):
    """testTryLockHeartbeatStillActive: a heartbeat without a live lease is a broken invariant."""
    heartbeat.is_active = True
    bench.run(lambda: raising(provider.try_lock, LockState.FAILED_TO_ACQUIRE))
    assert provider._client.log == []
    assert bench.metrics() == ["lock.provider.fatal.error"]


def test_try_lock_succeeds_when_existing_lock_expired_by_time(bench, provider):
    """testTryLockSucceedsWhenExistingLockExpiredByTime: at validUntil + 500 ms no, one millisecond later yes (E3)."""
    bench.put("other", for_ms=-500)
    assert bench.run(provider.try_lock) is False
    bench.put("other", for_ms=-501)
    assert bench.run(provider.try_lock) is True
    assert "lock.dangling" in bench.metrics()


def test_try_lock_reentrancy_succeeds(bench, provider):
    """testTryLockReentrancySucceeds: a held lock is granted again without a request."""
    assert bench.run(lambda: (provider.try_lock(), provider.try_lock())) == (True, True)
    assert provider._client.log.count("write") == 1


def test_try_lock_reentrancy_after_lock_expired_by_time(bench, provider, heartbeat):
    """testTryLockReentrancyAfterLockExpiredByTime: an own lease that ran out is taken anew over its record."""
    bench.run(provider.try_lock)
    heartbeat.is_active = False

    def again():
        bench.sleep(10.501)
        return provider.try_lock()

    assert bench.run(again) is True
    assert [file.valid_until_ms for file in provider._client.written] == [
        EPOCH_NS // NS_PER_MS + 10_000,
        EPOCH_NS // NS_PER_MS + 20_501,
    ]


def test_try_lock_reentrancy_after_lock_set_expired(bench, provider, heartbeat):
    """testTryLockReentrancyAfterLockSetExpired: a lock object marked expired is no lock."""
    bench.run(provider.try_lock)
    heartbeat.is_active = False
    held = provider.lock_object
    provider._lock = type(held)(LockFile("me", held.data.valid_until_ms, expired=True), held.version)
    bench.put("me", for_ms=10_000, expired=True)
    assert bench.run(provider.try_lock) is True
    assert provider._client.log.count("write") == 2


# Unlock.


def test_unlock_succeeds_and_reentrancy(bench, provider, heartbeat):
    """testUnlockSucceedsAndReentrancy: stop, expire; validUntil stays; a second unlock does nothing."""

    def cycle():
        provider.try_lock()
        provider.unlock()
        provider.unlock()

    bench.run(cycle)
    assert heartbeat.log == ["start", "stop"]
    first, released = provider._client.written
    assert (released.expired, released.valid_until_ms) == (True, first.valid_until_ms)


def test_unlock_succeeds_after_throttled_retry(bench, provider):
    """testUnlockSucceedsAfterThrottledRetry, E16: one 429 costs one second."""
    bench.run(provider.try_lock)
    provider._client.writes = [LockUpsertResult.THROTTLED]
    bench.run(provider.unlock)
    assert (bench.kernel.now_ns, bench.record.expired, provider.lock_object) == (NS_PER_S, True, None)


def test_unlock_fails_to_stop_heartbeat(bench, provider, heartbeat):
    """testUnlockFailsToStopHeartbeat: no release is tried, the lock is kept."""
    bench.run(provider.try_lock)
    heartbeat.stops = False
    bench.run(lambda: raising(provider.unlock, LockState.FAILED_TO_RELEASE))
    assert provider._client.log.count("write") == 1
    assert provider.lock_object is not None
    assert "lock.release.failure" in bench.metrics()


def test_unlock_throws_exception_when_lock_acquired_by_others(bench, provider):
    """testUnlockThrowsExceptionWhenLockAcquiredByOthers (#17871): raises, forgets, and leaves the thief alone."""
    bench.run(provider.try_lock)
    bench.put("thief", for_ms=10_000)
    bench.run(lambda: raising(provider.unlock, LockState.FAILED_TO_RELEASE))
    assert provider.lock_object is None
    assert bench.record.owner == "thief"
    bench.run(provider.unlock)


def test_unlock_throws_exception_when_still_throttled_after_all_retries(bench, provider):
    """testUnlockThrowsExceptionWhenStillThrottledAfterAllRetries: waits of 1, 2 and 4 s, four attempts."""
    bench.run(provider.try_lock)
    provider._client.writes = [LockUpsertResult.THROTTLED] * 4
    bench.run(lambda: raising(provider.unlock, LockState.FAILED_TO_RELEASE))
    assert bench.kernel.now_ns == 7 * NS_PER_S
    assert provider._client.log.count("write") == 5
    assert provider.lock_object is not None


def test_unlock_bails_out_when_lock_replaced_during_retry_sleep(bench, provider):
    """testUnlockBailsOutWhenLockReplacedDuringRetrySleep: another lock object means another cycle; return quietly."""
    bench.run(provider.try_lock)
    provider._client.writes = [LockUpsertResult.THROTTLED]

    def renew():
        bench.sleep(0.5)
        assert provider.renew_lock()

    bench.run(renew, provider.unlock)
    assert bench.record.expired is False
    assert provider.lock_object is not None


def test_unlock_interrupted_while_throttled_fails(bench):
    """E16: an interrupt during the wait fails the release at once."""
    runtime = bench.runtime()
    threads = JavaThreads(runtime)
    provider = bench.provider(heartbeat=BenchHeartbeat(), runtime=runtime, threads=threads)

    def cycle():
        provider.try_lock()
        provider._client.writes = [LockUpsertResult.THROTTLED]
        threads.current().interrupt()
        raising(provider.unlock, LockState.FAILED_TO_RELEASE)
        return bench.kernel.now_ns

    assert bench.run(cycle) == 0
    assert bench.metrics()[-2:] == ["lock.throttled", "lock.release.failure"]


# Renewal.


def test_renew_lock_returns_false_when_no_lock_held(bench, provider):
    """testRenewLockReturnsFalseWhenNoLockHeld: no request either."""
    assert bench.run(provider.renew_lock) is False
    assert provider._client.log == []


def test_renew_lock_without_holding_lock(bench, provider):
    """testRenewLockWithoutHoldingLock: after a release there is nothing to renew."""

    def cycle():
        provider.try_lock()
        provider.unlock()
        return provider.renew_lock()

    assert bench.run(cycle) is False


def test_renew_lock_with_fully_expired_lock(bench, provider):
    """testRenewLockWithFullyExpiredLock: taken over meanwhile, 412, false; the lock object stays (U7)."""
    bench.run(provider.try_lock)
    bench.put("thief", for_ms=10_000)
    assert bench.run(provider.renew_lock) is False
    assert provider.lock_object is not None
    assert bench.metrics()[-1] == "lock.acquired.others.error"


def test_renew_lock_fails(bench, provider):
    """testRenewLockFails: whatever the client raises ends the renewal, as a fatal error."""
    bench.run(provider.try_lock)
    provider._client.writes = [Broken("reset")]
    assert bench.run(provider.renew_lock) is False
    assert bench.metrics()[-1] == "lock.provider.fatal.error"


def test_renew_lock_unable_to_upsert_lock_file_but_not_fatal(bench, provider):
    """testRenewLockUnableToUpsertLockFileButNotFatal: unknown counts as healthy."""
    bench.run(provider.try_lock)
    provider._client.writes = [LockUpsertResult.UNKNOWN_ERROR]
    assert bench.run(provider.renew_lock) is True


def test_renew_lock_unable_to_upsert_lock_file_fatal(bench, provider):
    """testRenewLockUnableToUpsertLockFileFatal: unknown counts as healthy even past the lease (U1)."""
    bench.run(provider.try_lock)
    provider._client.writes = [LockUpsertResult.UNKNOWN_ERROR]

    def late():
        bench.sleep(60)
        return provider.renew_lock()

    assert bench.run(late) is True


def test_renew_lock_throttled_returns_true(bench, provider):
    """testRenewLockThrottledReturnsTrue: throttled counts as healthy, and is counted."""
    bench.run(provider.try_lock)
    provider._client.writes = [LockUpsertResult.THROTTLED]
    assert bench.run(provider.renew_lock) is True
    assert bench.metrics()[-1] == "lock.throttled"


def test_renew_lock_succeeds_but_renewal_within_expiration_window(bench, provider):
    """testRenewLockSucceedsButRenewalWithinExpirationWindow: a lapsed lease is revived; the gauge is clamped at 0."""
    bench.run(provider.try_lock)

    def late():
        bench.sleep(10.2)
        return provider.renew_lock()

    assert bench.run(late) is True
    assert bench.record.valid_until_ms == EPOCH_NS // NS_PER_MS + 20_200
    gauges = [event.value for event in bench.events if event.name == "lock.expiration.deadline"]
    assert gauges == [10_000, 0]


def test_renew_lock_succeeds(bench, provider):
    """testRenewLockSucceeds: validity counts from the renewal; the next write builds on its version."""
    bench.run(provider.try_lock)

    def renew():
        bench.sleep(1)
        return provider.renew_lock(), provider.renew_lock()

    assert bench.run(renew) == (True, True)
    assert bench.record.valid_until_ms == EPOCH_NS // NS_PER_MS + 11_000


# Close and shutdown.


def test_close_fails_to_stop_heartbeat(bench, provider, heartbeat):
    """testCloseFailsToStopHeartbeat: the failure is logged, the provider is closed all the same."""
    bench.run(provider.try_lock)
    heartbeat.stops = False
    bench.run(provider.close)
    assert provider.is_closed
    assert any("FAILED_TO_RELEASE" in line for line in bench.logged)


def test_close_calls_dependencies(bench, provider, heartbeat):
    """testCloseCallsDependencies: release, client, heartbeat, in this order."""
    bench.run(provider.try_lock)
    bench.run(provider.close)
    assert provider._client.log[-2:] == ["write", "close"]
    assert heartbeat.log == ["start", "stop", "close"]


def test_close_with_error_for_lock_service(bench, provider, heartbeat):
    """testCloseWithErrorForLockService: an error of the client does not keep the heartbeat open."""
    provider._client.close_error = Broken("client")
    bench.run(provider.close)
    assert (heartbeat.log, provider.is_closed) == (["close"], True)


def test_close_with_error_for_heartbeat_manager(bench, provider, heartbeat):
    """testCloseWithErrorForHeartbeatManager: swallowed, logged."""
    heartbeat.close_error = Broken("heartbeat")
    bench.run(provider.close)
    assert provider.is_closed
    assert bench.logged == ["Owner me: Failed to close: heartbeat"]


def test_shutdown_hook_via_reflection(bench, provider, heartbeat):
    """testShutdownHookViaReflection, E22: one release although the heartbeat runs on; then closed (U16)."""
    bench.run(provider.try_lock)
    bench.run(provider.run_shutdown_hook)
    assert (bench.record.expired, provider.is_closed, heartbeat.log) == (True, True, ["start"])


def test_shutdown_hook_when_no_lock_present(bench, provider):
    """testShutdownHookWhenNoLockPresent: no request."""
    bench.run(provider.run_shutdown_hook)
    assert (provider._client.log, provider.is_closed) == ([], True)


def test_shutdown_hook_fails_to_be_removed(bench, heartbeat):
    """testShutdownHookFailsToBeRemoved: "already shutting down" does not keep close from its work."""

    def shutting_down():
        raise Broken("Shutdown in progress")

    provider = bench.provider(heartbeat=heartbeat, remove_hook=shutting_down)
    bench.run(provider.try_lock)
    bench.run(provider.close)
    assert (bench.record.expired, provider.is_closed) == (True, True)


def test_shutdown_hook_fires_during_try_lock_with_timeout(bench, provider):
    """testShutdownHookFiresDuringTryLockWithTimeout, E22: the waiter raises at its next poll."""
    bench.put("other", for_ms=60_000)

    def hook():
        bench.sleep(0.5)
        provider.run_shutdown_hook()

    def wait():
        raising(lambda: provider.try_lock_for(10 * NS_PER_S), None)
        return bench.kernel.now_ns

    assert bench.run(hook, wait) == NS_PER_S


# Audit.


def audit_files(bench, provider):
    started_ms = EPOCH_NS // NS_PER_MS
    body = bench.store.peek(f"{FOLDER}/audit/{started_ms}_{provider.owner_id}.jsonl")
    return None if body is None else [json.loads(line) for line in body.splitlines()]


def cycle_with_renewal(bench, provider):
    def cycle():
        provider.try_lock()
        bench.sleep(1)
        provider.renew_lock()
        bench.sleep(1)
        provider.unlock()

    bench.run(cycle)


def test_audit_service_integration_when_config_not_present(bench, provider):
    """testAuditServiceIntegrationWhenConfigNotPresent: no switch, no file; the switch is asked for at every grant."""
    cycle_with_renewal(bench, provider)
    assert audit_files(bench, provider) is None
    bench.run(provider.try_lock)
    assert provider._client.log.count("switch") == 2


def test_audit_service_integration_when_config_disabled(bench, provider):
    """testAuditServiceIntegrationWhenConfigDisabled: switched off, no file."""
    bench.store.put(SWITCH, b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED":false}')
    cycle_with_renewal(bench, provider)
    assert audit_files(bench, provider) is None


def test_audit_service_integration_when_config_enabled(bench, provider):
    """testAuditServiceIntegrationWhenConfigEnabled: START, RENEW, END, held also on END, named after the first lock."""
    bench.store.put(SWITCH, ENABLED)
    cycle_with_renewal(bench, provider)
    records = audit_files(bench, provider)
    now_ms = EPOCH_NS // NS_PER_MS
    assert [(r["state"], r["timestamp"] - now_ms, r["lockExpiration"] - now_ms, r["lockHeld"]) for r in records] == [
        ("START", 0, 10_000, True),
        ("RENEW", 1000, 11_000, True),
        ("END", 2000, 12_000, True),
    ]


@pytest.mark.parametrize("dialect", ["s3", "gcs"])
def test_release_failure_is_a_release_failed_of_the_laboratory(dialect):
    """D16, H24: a lost reply to a release reaches the harness as ReleaseFailed, also where the client throws (GCS)."""
    bench = Bench(dialect=dialect)
    lock = bench.lock()
    assert bench.run(lock.try_lock)
    bench.store.replies = [WriteReply(outcome=Outcome.AMBIGUOUS)]
    with pytest.raises(ReleaseFailed):
        bench.run(lock.unlock)
    assert lock.provider is not None, "the provider stays for the next cycle"
    bench.kernel.close()


@pytest.mark.parametrize("entropy", [bytes(16), bytes(range(16)), b"\xff" * 16, b"\xa5\x5a" * 8])
def test_an_owner_id_is_a_uuid_of_version_4(entropy):
    """Every bit but those of version and variant is the entropy's."""
    assert random_uuid(entropy) == str(uuid.UUID(bytes=entropy, version=4))
