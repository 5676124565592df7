"""H20: when a waiter looks again."""

from __future__ import annotations

import pytest

from lockref.locks.adaptive_waiting import FLOOR_NS, AdaptiveWaiting
from lockref.runtime import NS_PER_MS, NS_PER_S
from lockref.storage.lockfile import LockFile
from tests.hardened_rig import ManualRuntime

INTERVAL_NS = NS_PER_S
VALIDITY_NS = 10 * NS_PER_S
FAR = 100 * NS_PER_S


@pytest.fixture
def polls():
    return AdaptiveWaiting(INTERVAL_NS, VALIDITY_NS, ManualRuntime(7))


def held_since(began_ms: int, fence: int = 1, owner: str = "somebody") -> LockFile:
    return LockFile(owner, began_ms + VALIDITY_NS // NS_PER_MS, expired=False, nonce="n", fence=fence)


def look(polls: AdaptiveWaiting, record: LockFile, now_ms: int, lapses_in_ns: int = FAR) -> int:
    return polls.pause_ns(record, now_wall_ns=now_ms * NS_PER_MS, lapses_in_ns=lapses_in_ns)


def teach(polls: AdaptiveWaiting, length_ms: int, times: int = 30) -> None:
    for _ in range(times):
        polls.held(length_ms * NS_PER_MS)
        polls.won()


def test_courtesy_is_never_longer_than_a_poll(polls):
    """L3: a sibling task that waits for the same lock sits it out, and finds a release as soon as any other waiter."""
    teach(polls, 10_000)
    for fence in range(1, 5):
        look(polls, held_since(1000, fence), 2000)
    assert max(polls.courtesy_ns() for _ in range(100)) == INTERVAL_NS


def test_ignorant_waiter_polls_like_hudi(polls):
    """H20: nothing learned: once per interval, jittered, and never longer."""
    pauses = [look(polls, held_since(1000), 2000) for _ in range(100)]
    assert min(pauses) >= 0.75 * INTERVAL_NS
    assert max(pauses) <= INTERVAL_NS
    assert len(set(pauses)) > 90


def test_wait_ends_with_the_lease_in_the_way(polls):
    """H20: capped at V + β − now, learned or not."""
    assert look(polls, held_since(1000), 2000, lapses_in_ns=3) == 3
    teach(polls, 500)
    assert look(polls, held_since(1000), 1001, lapses_in_ns=3) == 3


def test_looks_when_the_grant_should_be_over(polls):
    """A grant that began 100 ms ago and usually lasts 400 ms is looked at in about 300 ms, not before."""
    teach(polls, 400)
    for _ in range(50):
        pause_ns = look(polls, held_since(1000), 1100)
        assert 300 * NS_PER_MS <= pause_ns <= 320 * NS_PER_MS


def test_overdue_grant_is_looked_at_ever_more_rarely(polls):
    """The pause grows with the time overdue, between the floor and the interval."""
    teach(polls, 400)
    record = held_since(1000)
    short, later, latest = (look(polls, record, now_ms) for now_ms in (1401, 1800, 60_000))
    assert FLOOR_NS / 2 <= short <= 4 * FLOOR_NS
    assert 150 * NS_PER_MS <= later <= 250 * NS_PER_MS
    assert latest == INTERVAL_NS


def test_pause_never_exceeds_the_interval(polls):
    """L3: an early release is found as soon as Hudi's poll would find it."""
    teach(polls, 60_000)
    assert look(polls, held_since(1000), 1000) == INTERVAL_NS


def test_learns_from_advancing_tokens(polls):
    """Three grants in 600 ms: 200 ms each, although none of them was ours."""
    for _ in range(8):
        polls.won()
    look(polls, held_since(1000, fence=1), 1000)
    look(polls, held_since(1600, fence=4), 1600)
    pause_ns = look(polls, held_since(1600, fence=4), 1601)
    assert 199 * NS_PER_MS <= pause_ns < 500 * NS_PER_MS


def test_crowd_spreads_out_and_comes_back(polls):
    """Losing to others makes looks rarer, up to the interval; winning makes them dense again."""
    teach(polls, 100)

    def mean_pause_ns() -> float:
        return sum(look(polls, held_since(5000, fence=99, owner="last"), 5000) for _ in range(200)) / 200

    def lose(times: int) -> None:
        polls.begin(0)
        for number in range(times):
            look(polls, held_since(5000, fence=None, owner=f"winner {number}"), 5000)
        polls.begin(0)

    alone_ns = mean_pause_ns()
    lose(20)
    crowd_ns = mean_pause_ns()
    for _ in range(20):
        polls.won()
    polls.begin(0)
    again_ns = mean_pause_ns()
    assert alone_ns < 150 * NS_PER_MS
    assert crowd_ns > 0.8 * INTERVAL_NS
    assert again_ns < 150 * NS_PER_MS


@pytest.mark.parametrize("began_ms", [-20_000, 50_000])
def test_records_of_other_clocks_or_terms_tell_nothing(polls, began_ms):
    """A record that began in the future, or longer ago than a lease lasts, counts as just begun."""
    teach(polls, 400)
    pause_ns = look(polls, held_since(began_ms), 1000)
    assert 400 * NS_PER_MS <= pause_ns <= 420 * NS_PER_MS


def test_after_a_lost_race_the_winner_is_left_alone(polls):
    """A 412 says that a grant has just begun: the next look is when that one should end."""
    assert 0.75 * INTERVAL_NS <= polls.pause_after_lost_race_ns() <= INTERVAL_NS
    teach(polls, 400)
    assert 400 * NS_PER_MS <= polls.pause_after_lost_race_ns() <= 450 * NS_PER_MS


def test_greedy_neighbour_is_not_a_crowd(polls):
    """E34: one owner that takes the lock again and again is no reason to look more rarely."""
    teach(polls, 100)
    polls.begin(0)
    for fence in range(1, 20):
        look(polls, held_since(5000, fence=fence, owner="greedy"), 5000)
    pauses = [look(polls, held_since(5000, fence=20, owner="greedy"), 5000) for _ in range(50)]
    assert max(pauses) < 150 * NS_PER_MS


def test_client_alone_steps_back_now_and_then(polls):
    """E34: with nobody in sight the courtesy costs a twentieth of the time at most."""
    assert {polls.courtesy_ns() for _ in range(20)} == {0}
    teach(polls, 100)
    pauses = [polls.courtesy_ns() for _ in range(400)]
    assert 0.6 < pauses.count(0) / 400 < 0.9
    assert max(pauses) <= 40 * NS_PER_MS
    assert sum(pauses) / 400 <= 0.08 * 100 * NS_PER_MS


def test_client_in_company_steps_back_every_time(polls):
    """E34: having seen others, it leaves the lock free for about one grant; after three quiet grants it stops."""
    teach(polls, 100)
    look(polls, held_since(1000), 1000)
    assert all(50 * NS_PER_MS <= polls.courtesy_ns() <= 150 * NS_PER_MS for _ in range(20))
    for _ in range(3):
        polls.won()
    assert min(polls.courtesy_ns() for _ in range(20)) == 0
    polls.pause_after_lost_race_ns()
    assert polls.courtesy_ns() >= 50 * NS_PER_MS
