"""The usual durations of a lock's requests, grants and turns."""

from __future__ import annotations

from lockref.locks.pace import FLOOR_NS, Pace


def test_a_figure_follows_what_is_seen_by_a_quarter():
    """One slow answer changes little, and a lasting change is learned."""
    pace = Pace()
    assert pace.request_ns == FLOOR_NS
    pace.asked(100)
    assert pace.request_ns == 100
    pace.asked(500)
    assert pace.request_ns == 200
    for _ in range(40):
        pace.asked(500)
    assert 499 < pace.request_ns <= 500


def test_tokens_tell_of_grants_and_numbers_of_turns():
    """Three tokens and two turns are the least that tell of a duration."""
    pace = Pace()
    pace.saw(10, 3, now_ns=0)
    pace.saw(12, 4, now_ns=200)
    assert (pace.grant_ns, pace.turn_ns) == (None, None)
    pace.saw(14, 5, now_ns=400)
    assert (pace.grant_ns, pace.turn_ns) == (100, 200)


def test_what_was_seen_before_our_own_grants_is_not_compared_with_what_is_seen_after_them():
    """Nor a record that is older than the last one: the read lags, or another writer has begun to count anew."""
    pace = Pace()
    pace.saw(10, 3, now_ns=0)
    pace.forget_sightings()
    pace.saw(20, 8, now_ns=1_000)
    pace.saw(2, 1, now_ns=2_000)
    assert (pace.grant_ns, pace.turn_ns) == (None, None)
    pace.saw(5, 3, now_ns=2_600)
    assert (pace.grant_ns, pace.turn_ns) == (200, 300)


def test_a_grant_lasts_as_long_as_our_own_or_less():
    """That of anybody's has the gaps between turns in it."""
    pace = Pace()
    pace.had(50)
    assert pace.grant_ns == 50
    pace.saw(10, 3, now_ns=0)
    pace.saw(20, 4, now_ns=1_000)
    assert pace.grant_ns == 50
    pace.saw(30, 5, now_ns=1_100)
    assert pace.grant_ns == 50
    for token in range(40, 400, 10):
        pace.saw(token, token // 2, now_ns=1_100 + token)
    assert pace.grant_ns < 5
