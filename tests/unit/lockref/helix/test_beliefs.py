"""Who believed when that it held: read off callbacks, and judged."""

from __future__ import annotations

from tests.evidence.helix.beliefs import Belief, Heard, Left, Told, from_callbacks, handoff_gaps_ns, overlaps

LOCK = "lock-group_0"


def granted(at_ns: int, instance: str) -> Heard:
    return Heard(at_ns, instance, LOCK, "RELEASED", "LOCKED")


def dropped(at_ns: int, instance: str) -> Heard:
    return Heard(at_ns, instance, LOCK, "LOCKED", "DROPPED")


def test_a_belief_ends_with_the_callback_that_takes_back():
    found = from_callbacks([dropped(20, "a"), granted(10, "a"), granted(30, "b")], top="LOCKED")
    assert found == [
        Belief(lock=LOCK, instance="a", since_ns=10, until_ns=20),
        Belief(lock=LOCK, instance="b", since_ns=30),
    ]
    assert overlaps(found) == []


def test_a_holder_that_is_not_told_goes_on_to_believe():
    """Z8: the second holder is the one that is found."""
    found = from_callbacks([granted(10, "a"), granted(30, "b")], top="LOCKED")
    assert [(one.instance, other.instance) for one, other in overlaps(found)] == [("a", "b")]


def test_who_leaves_believes_no_more():
    """Only that instance's beliefs end."""
    found = from_callbacks([granted(10, "a"), Left(20, "a"), granted(30, "b"), Left(40, "c")], top="LOCKED")
    assert overlaps(found) == []
    assert [each.until_ns for each in found] == [20, None]


def test_what_ours_is_told_is_a_belief_until_it_is_revoked_or_lost():
    told = Told("a")
    told.granted(LOCK, 1)
    told.granted("lock-group_1", 2)
    told.lost(LOCK, "session ended")
    by_lock = {each.lock: each for each in told.beliefs()}
    ended, lasting = by_lock[LOCK], by_lock["lock-group_1"]
    assert ended.until_ns is not None
    assert ended.until_ns >= ended.since_ns
    assert lasting.until_ns is None


def test_how_long_nobody_believed():
    """From one holder to the next; negative where both did. The same instance again is no hand-off."""
    found = from_callbacks(
        [granted(10, "a"), dropped(20, "a"), granted(27, "b"), dropped(40, "b"), granted(44, "b")], top="LOCKED"
    )
    assert handoff_gaps_ns(found, since_ns=0) == [7]
    assert handoff_gaps_ns(found, since_ns=28) == []
    both = from_callbacks([granted(10, "a"), granted(27, "b"), dropped(30, "a")], top="LOCKED")
    assert handoff_gaps_ns(both, since_ns=0) == [-3]
    lasting = from_callbacks([granted(10, "a"), granted(27, "b")], top="LOCKED")
    assert handoff_gaps_ns(lasting, since_ns=0) == []
