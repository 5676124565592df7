"""Hudi's contract tests, `StorageBasedLockProviderTestBase`: 14 of 14, in virtual time.

Upstream every subclass of it is disabled; here it always runs.
"""

from __future__ import annotations

import random

import pytest

from lockref.runtime import NS_PER_S
from lockref.storage.hudi.lock_manager import HoodieLockException
from tests.unit.lockref.storage.hudi.bench import Bench


@pytest.fixture
def bench():
    made = Bench()
    yield made
    made.kernel.close()


def test_try_lock_success(bench):
    """testTryLockSuccess: a free lock is granted within five seconds."""
    assert bench.run(lambda: bench.provider().try_lock_for(5 * NS_PER_S)) is True


def test_try_lock_happy_path(bench):
    """testTryLockHappyPath: a granted attempt leaves a lock object."""
    provider = bench.provider()
    assert bench.run(provider.try_lock) is True
    assert bench.run(provider.get_lock).data.owner == "me"


def test_try_lock_reentrancy(bench):
    """testTryLockReentrancy: the holder's second attempt is granted, without a request."""
    provider = bench.provider()
    assert bench.run(lambda: (provider.try_lock(), provider.try_lock())) == (True, True)
    assert provider._client.log.count("read") == 1


def test_try_lock_releases_lock(bench):
    """testTryLockReleasesLock: a released lock is granted again within a second."""
    provider = bench.provider()

    def cycle() -> bool:
        assert provider.try_lock_for(3 * NS_PER_S)
        provider.unlock()
        return provider.try_lock_for(NS_PER_S)

    assert bench.run(cycle) is True


def test_unlock_and_lock(bench):
    """testUnlockAndLock: between two grants there is no lock object in hand."""
    provider = bench.provider()

    def cycle() -> list[bool]:
        seen = [provider.try_lock(), provider.get_lock() is not None]
        provider.unlock()
        seen.append(provider.get_lock() is None)
        return [*seen, provider.try_lock(), provider.get_lock() is not None]

    assert bench.run(cycle) == [True] * 5


def test_try_lock_edge_case_zero_timeout(bench):
    """testTryLockEdgeCaseZeroTimeout, E35: no time means no attempt, not even a read."""
    provider = bench.provider()
    assert bench.run(lambda: provider.try_lock_for(0)) is False
    assert provider._client.log == []


def test_lock_thread_killed_should_not_cause_orphaned_heartbeat(bench):
    """testLockThreadKilledShouldNotCauseOrphanedHeartbeat, E20: the heartbeat ends with its thread."""
    dead, waiting = bench.provider(owner="dead"), bench.provider(owner="waiting")
    assert bench.run(dead.try_lock) is True
    assert bench.run(lambda: waiting.try_lock_for(15 * NS_PER_S)) is True
    assert bench.kernel.now_ns == 11 * NS_PER_S, "validity plus buffer, seen at the next whole poll"
    assert dead.heartbeat.has_active_heartbeat() is False


def test_two_lock_providers_close_and_unlock(bench):
    """testTwoLockProvidersCloseAndUnlock: a timed wait raises at its next poll once closed."""
    holder, waiter = bench.provider(owner="holder"), bench.provider(owner="waiter")
    assert bench.run(holder.try_lock)

    def wait() -> int:
        with pytest.raises(HoodieLockException, match="already closed"):
            waiter.try_lock_for(10 * NS_PER_S)
        return bench.kernel.now_ns

    def close() -> None:
        bench.sleep(0.5)
        waiter.close()
        holder.unlock()

    assert bench.run(close, wait) == 1 * NS_PER_S


def test_lock_after_closing(bench):
    """testLockAfterClosing: a closed provider raises and counts a fatal error."""
    provider = bench.provider()

    def cycle() -> None:
        assert provider.try_lock()
        provider.unlock()
        provider.close()
        provider.try_lock()

    with pytest.raises(HoodieLockException, match="already closed"):
        bench.run(cycle)
    assert bench.metrics().count("lock.provider.fatal.error") == 1


def test_close_before_unlocking(bench):
    """testCloseBeforeUnlocking: close releases, a later unlock does nothing."""
    provider = bench.provider()

    def cycle() -> int:
        assert provider.try_lock()
        provider.close()
        requests = len(provider._client.log)
        provider.unlock()
        return len(provider._client.log) - requests

    assert bench.run(cycle) == 0
    assert bench.record.expired is True
    with pytest.raises(HoodieLockException):
        bench.run(provider.try_lock)


def test_unlock_when_no_lock_present(bench):
    """testUnlockWhenNoLockPresent: nothing held, nothing asked."""
    provider = bench.provider()
    bench.run(provider.unlock)
    assert (bench.run(provider.get_lock), provider._client.log) == (None, [])


def test_idempotent_unlock(bench):
    """testIdempotentUnlock: the second unlock makes no request."""
    provider = bench.provider()

    def cycle() -> list[str]:
        provider.try_lock()
        provider.unlock()
        provider.unlock()
        return provider._client.log

    assert bench.run(cycle).count("write") == 2


def test_lock_reacquisition_in_loop(bench):
    """testLockReacquisitionInLoop: a hundred cycles on one provider."""
    provider = bench.provider()

    def cycles() -> int:
        for _ in range(100):
            assert provider.try_lock()
            assert provider.get_lock() is not None
            provider.unlock()
            assert provider.get_lock() is None
        return sum(1 for file in provider._client.written if file.expired)

    assert bench.run(cycles) == 100


def test_multiple_lock_providers_contention(bench):
    """testMultipleLockProvidersContention: ten spinning providers never break an unsafe list.

    Each step inside the critical section yields to the others, so an overlap would be seen.
    """
    numbers = list(range(1000))
    inside: list[int] = []
    turns = 0

    def spin(number: int, rng: random.Random):
        provider = bench.provider(owner=f"p{number}")

        def work() -> None:
            nonlocal numbers, turns
            while bench.kernel.now_ns < 3 * NS_PER_S:
                if provider.try_lock():
                    inside.append(number)
                    numbers = [value for value in numbers if value % (number + 1)]
                    bench.sleep(rng.uniform(0, 0.01))
                    numbers += range(0, 1000, number + 1)
                    bench.sleep(rng.uniform(0, 0.01))
                    numbers.sort()
                    assert inside == [number]
                    inside.pop()
                    turns += 1
                    provider.unlock()
                bench.sleep(rng.uniform(0, 0.005))
            provider.close()

        return work

    bench.run(*(spin(number, random.Random(number)) for number in range(10)))
    assert numbers == list(range(1000))
    assert turns > 100
