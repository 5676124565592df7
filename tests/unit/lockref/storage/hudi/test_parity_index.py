"""docs/parity.md names tests that exist, and every test of Hudi that we know by name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[5]
HERE = "tests/unit/lockref/storage/hudi"
PAGE = (ROOT / "docs" / "parity.md").read_text()
ROW = re.compile(r"^\| ([^|]+) \| `(test_\w+)` \|$", re.MULTILINE)

NAMED_BY_HUDI = {
    "test_parity_contract.py": (14, """
        testTryLockSuccess testTryLockHappyPath testTryLockReentrancy testTryLockReleasesLock testUnlockAndLock
        testTryLockEdgeCaseZeroTimeout testLockThreadKilledShouldNotCauseOrphanedHeartbeat
        testTwoLockProvidersCloseAndUnlock testLockAfterClosing testCloseBeforeUnlocking testUnlockWhenNoLockPresent
        testIdempotentUnlock testLockReacquisitionInLoop testMultipleLockProvidersContention"""),
    "test_parity_provider.py": (44, """
        testValidLockStorageLocation testNonExistentWriteServiceWithDefaults testTryLockForTimeUnitThrowsOnInterrupt
        testTryLockForTimeUnitAcquiresLockEventually testTryLockForTimeUnitFailsToAcquireLockEventually
        testTryLockSuccess testTryLockSuccessButFailureToStartHeartbeat testTryLockFailsDueToExistingLock
        testTryLockFailsToUpdateFile testTryLockFailsDueToUnknownState testTryLockFailsFromOwnerMismatch
        testTryLockHeartbeatStillActive testTryLockSucceedsWhenExistingLockExpiredByTime
        testTryLockReentrancySucceeds testTryLockReentrancyAfterLockExpiredByTime
        testTryLockReentrancyAfterLockSetExpired testUnlockSucceedsAndReentrancy testUnlockSucceedsAfterThrottledRetry
        testUnlockFailsToStopHeartbeat testUnlockThrowsExceptionWhenLockAcquiredByOthers
        testUnlockThrowsExceptionWhenStillThrottledAfterAllRetries testUnlockBailsOutWhenLockReplacedDuringRetrySleep
        testRenewLockReturnsFalseWhenNoLockHeld testRenewLockWithoutHoldingLock testRenewLockWithFullyExpiredLock
        testRenewLockFails testRenewLockUnableToUpsertLockFileButNotFatal testRenewLockUnableToUpsertLockFileFatal
        testRenewLockThrottledReturnsTrue testRenewLockSucceedsButRenewalWithinExpirationWindow
        testRenewLockSucceeds testCloseFailsToStopHeartbeat testCloseCallsDependencies
        testCloseWithErrorForLockService testCloseWithErrorForHeartbeatManager testShutdownHookViaReflection
        testShutdownHookWhenNoLockPresent testShutdownHookFailsToBeRemoved
        testShutdownHookFiresDuringTryLockWithTimeout testAuditServiceIntegrationWhenConfigNotPresent
        testAuditServiceIntegrationWhenConfigDisabled testAuditServiceIntegrationWhenConfigEnabled"""),
    "test_parity_heartbeat.py": (22, """
        testStartHeartbeatSuccess testStartHeartbeatAlreadyRunning testStartHeartbeatSchedulerException
        testStopHeartbeatNeverStarted testStopHeartbeatAlreadyRequested testStopHeartbeatMockSuccessfulCancel
        testStopHeartbeatDoesNotInterruptWriterThread testHeartbeatUnableToAcquireSemaphore
        testHeartbeatTaskHandlesInterrupt testHeartbeatTaskImmediateDeadMonitoringThread
        testHeartbeatTaskRenewalException testHeartbeatTaskValidateStop
        testHeartbeatStopWaitsForHeartbeatTaskToFinish testHeartbeatUnableToStopHeartbeatTask
        testHeartbeatInterruptStopHeartbeatTask testDefaultManagerRapidStartStop1Ms
        testHeartbeatFailureInterruptsMonitoredThread testHeartbeatExceptionInterruptsMonitoredThread"""),
}  # fmt: skip
"""File: how many rows the page must have (unnamed tests included), and the names."""


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[a-z])(?=[0-9])|(?<=[0-9])(?=[A-Z])", "_", name).lower()


@pytest.mark.parametrize("file", NAMED_BY_HUDI)
def test_every_named_test_of_hudi_is_on_the_page_and_in_the_file(file):
    """Section 11: a counterpart under the same name in snake case, or a line that says why not."""
    expected, names = NAMED_BY_HUDI[file]
    section = PAGE.split(f"`{HERE}/{file}`")[1].split("\n## ")[0]
    rows = dict(ROW.findall(section))
    tests = (ROOT / HERE / file).read_text()
    assert len(rows) == expected
    for original in names.split():
        assert rows[original] == snake_case(original), original
    for test in rows.values():
        assert f"def {test}(" in tests, test


def test_files_named_on_the_page_exist():
    """The page never points at a file that has gone."""
    for path in re.findall(r"`((?:tests|lockref|scenarios)/[\w/]+\.py)`", PAGE):
        assert (ROOT / path).is_file(), path
