"""What a write serves: the call that its task has open, and only then what its record looks like."""

from __future__ import annotations

import pytest

from lockref.lab.loading import load_provider
from lockref.lab.recording import OpenCalls
from lockref.words import Op
from reports.checks.verdicts import decide
from scenarios.campaign import run_campaign
from scenarios.definition.load import load_scenario

LOCK, TASK = "l", "main"


def test_a_write_serves_the_call_that_its_task_has_open() -> None:
    """An acquiring write that looks like a renewal, over a record of one's own, is still an acquiring one."""
    calls = OpenCalls()
    calls.began(LOCK, TASK, Op.ACQUIRE)
    assert calls.served(LOCK, TASK, Op.RENEW) is Op.ACQUIRE
    calls.returned(LOCK, TASK)
    calls.began(LOCK, TASK, Op.RELEASE)
    assert calls.served(LOCK, TASK, Op.RENEW) is Op.RELEASE


def test_a_record_that_says_it_is_free_is_a_release_in_any_call() -> None:
    calls = OpenCalls()
    calls.began(LOCK, TASK, Op.ACQUIRE)
    assert calls.served(LOCK, TASK, Op.RELEASE) is Op.RELEASE


def test_a_write_beside_a_holder_renews_for_it() -> None:
    """A token that rises with each write makes a renewal look like an acquisition."""
    calls = OpenCalls()
    calls.began(LOCK, TASK, Op.ACQUIRE)
    calls.returned(LOCK, TASK, is_granted=True)
    assert calls.served(LOCK, "heartbeat", Op.ACQUIRE) is Op.RENEW
    assert calls.served("another", "heartbeat", Op.ACQUIRE) is Op.ACQUIRE
    calls.began(LOCK, TASK, Op.RELEASE)
    calls.returned(LOCK, TASK)
    assert calls.served(LOCK, "heartbeat", Op.ACQUIRE) is Op.ACQUIRE


def test_an_inner_release_leaves_a_holder() -> None:
    calls = OpenCalls()
    calls.began(LOCK, TASK, Op.ACQUIRE)
    calls.returned(LOCK, TASK, is_granted=True)
    calls.began(LOCK, TASK, Op.RELEASE)
    calls.returned(LOCK, TASK)
    calls.holds_on(LOCK, TASK)
    assert calls.served(LOCK, "heartbeat", Op.ACQUIRE) is Op.RENEW


def test_a_call_without_a_grant_makes_no_holder() -> None:
    calls = OpenCalls()
    calls.began(LOCK, TASK, Op.ACQUIRE)
    calls.returned(LOCK, TASK, is_granted=False)
    assert calls.served(LOCK, "cleanup", Op.ACQUIRE) is Op.ACQUIRE


@pytest.mark.parametrize(
    ("lock", "scenario"), [("TokenPerWrite", "e13"), ("TokenPerWrite", "h03"), ("ReleasesByStamp", "e15")]
)
def test_faults_strike_a_lock_whose_records_look_like_other_calls(lock: str, scenario: str) -> None:
    """`op: renew` where each write has its own token, `op: release` where a past stamp gives the lock back."""
    spec = load_provider(f"tests.quality.planted.handed:{lock}")
    found = run_campaign(load_scenario(scenario), spec, range(1, 3), keep_runs=0)
    assert decide(found.summary).safety == "held"
