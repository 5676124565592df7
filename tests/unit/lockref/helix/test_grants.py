"""Who may hold what: every combination of what an instance was told, what it reports, and what is under way."""

from __future__ import annotations

import pytest

from lockref.helix.grants import Evidence, Page, Report, Standing, replicas_of
from lockref.helix.pipeline import LockGroup, Replica
from lockref.helix.records.messages import Message
from tests.unit.lockref.helix.pipeline_driver import lock_unlock

GROUP = LockGroup(name="g", locks=("g_0",), replicas=1, model=lock_unlock())
GRANTED, RECALLED = Standing.GRANTED, Standing.RECALLED
LOCKED, RELEASED, ABSENT = Replica("LOCKED"), Replica("RELEASED"), None
TAKE, GIVE = ("RELEASED", "LOCKED"), ("LOCKED", "DROPPED")
GONE, UNREAD = "the message by which it was granted is gone", "what it reports cannot be read"


def decided(
    told: Standing | None, reported: Replica | None, under_way: tuple[str, str] | None, *, is_fresh: bool = True
) -> tuple[Replica | None, bool]:
    """The replica of g_0 at a as the pipeline takes it, and whether its page need not name it any more."""
    pending = []
    if under_way is not None:
        source, target = under_way
        pending.append(
            Message(instance="a", session="1", resource="g", lock="g_0", model="m", source=source, target=target)
        )
    evidence = Evidence(
        groups=[GROUP],
        reports={"a": {"g": Report(states={"g_0": reported} if reported else {}, is_fresh=is_fresh)}},
        pending=pending,
        pages={"a": Page("1", {"g_0": told} if told else {})},
        covered=["a"],
    )
    found, settled = replicas_of(evidence)
    return found.get("g_0", {}).get("a"), settled == {"a": ["g_0"]}


@pytest.mark.parametrize(
    ("told", "reported", "under_way", "is_fresh", "doubt", "is_settled"),
    [
        # It says that it holds, and its word counts.
        (GRANTED, LOCKED, None, True, "", False),
        (RECALLED, LOCKED, GIVE, True, "", False),
        (RECALLED, LOCKED, None, True, "", False),
        (RECALLED, LOCKED, None, False, "", False),
        # It was told to take the lock, and does not say that it has.
        (GRANTED, ABSENT, TAKE, True, "", False),
        (GRANTED, RELEASED, TAKE, True, "", False),
        (GRANTED, ABSENT, None, True, GONE, False),
        (GRANTED, RELEASED, None, True, GONE, False),
        (GRANTED, ABSENT, GIVE, True, GONE, False),
        (GRANTED, ABSENT, None, False, UNREAD, False),
        (GRANTED, ABSENT, TAKE, False, "", False),
        # It was told to give back, and does not say that it holds.
        (RECALLED, ABSENT, None, True, "", True),
        (RECALLED, RELEASED, None, True, "", True),
        (RECALLED, RELEASED, GIVE, True, "", False),
        (RECALLED, ABSENT, None, False, UNREAD, False),
        (RECALLED, RELEASED, None, False, UNREAD, False),
        (RECALLED, ABSENT, GIVE, False, UNREAD, False),
        # The grant failed: it never held. One that failed to give back may hold.
        (GRANTED, Replica("ERROR", "RELEASED"), None, True, "", True),
        (GRANTED, Replica("ERROR", "RELEASED"), TAKE, True, "", False),
        (GRANTED, Replica("ERROR", "RELEASED"), None, False, "", False),
        (RECALLED, Replica("ERROR", "LOCKED"), None, True, "", False),
        # Nobody told it anything.
        (None, ABSENT, None, True, "", False),
        (None, LOCKED, None, True, "", False),
        # What it says makes no sense.
        (None, Replica("MASTER"), None, True, "it reports 'MASTER'", False),
        (GRANTED, Replica("MASTER"), None, True, "it reports 'MASTER'", False),
    ],
)
def test_who_may_hold(told, reported, under_way, is_fresh, doubt, is_settled):
    """T28, HJ8: in doubt is who was told to take a lock, and of whom nothing says that it has not."""
    replica, settled = decided(told, reported, under_way, is_fresh=is_fresh)
    assert (replica.doubt if replica else "").startswith(doubt)
    assert bool(replica and replica.doubt) == bool(doubt)
    assert settled == is_settled


@pytest.mark.parametrize(("others", "is_covered", "is_feared"), [
    (ABSENT, False, True), (RELEASED, False, True), (LOCKED, False, False), (ABSENT, True, False),
    (Replica("MASTER"), False, False),
])  # fmt: skip
def test_of_whom_nothing_was_ever_read(others: Replica | None, is_covered: bool, is_feared: bool):
    """It may hold whatever nobody else holds, unless the book tells of its whole session."""
    evidence = Evidence(
        groups=[GROUP],
        reports={
            "a": {"g": Report(states=None, is_fresh=False)},
            "b": {"g": Report(states={"g_0": others} if others else {})},
        },
        covered=["a"] if is_covered else [],
    )
    found, _ = replicas_of(evidence)
    assert ("a" in found.get("g_0", {})) == is_feared


def test_the_original_takes_every_word_as_it_is():
    """Without a book, and with states that it does not know."""
    evidence = Evidence(
        groups=[GROUP],
        reports={"a": {"g": Report(states={"g_0": Replica("MASTER")})}, "b": {"g": Report(states={"g_0": None})}},
        pages={"b": Page("1", {"g_0": GRANTED})},
        trusts=True,
    )
    assert replicas_of(evidence) == ({"g_0": {"a": Replica("MASTER")}}, {})


@pytest.mark.parametrize("told", [GRANTED, RECALLED, None])
def test_an_entry_without_a_state_leaves_its_instance_in_doubt(told: Standing | None):
    """HJ9: it names the lock, and says nothing of it; nobody else gets the lock, whatever the book says."""
    evidence = Evidence(
        groups=[GROUP],
        reports={"a": {"g": Report(states={"g_0": None})}},
        pages={"a": Page("1", {"g_0": told} if told else {})},
    )
    assert replicas_of(evidence) == ({"g_0": {"a": Replica("RELEASED", doubt="its entry names no state")}}, {})


def test_a_page_is_written_and_read():
    """As a record of Helix'."""
    page = Page("1f", {"g_2": GRANTED, "g_0": GRANTED, "g_1": RECALLED})
    assert Page.from_record(page.to_record("a")) == page
    assert page.to_record("a").lists == {"GRANTED": ["g_0", "g_2"], "RECALLED": ["g_1"]}, "equal pages, equal bytes"
    assert page.without(["g_0", "g_2"]).told == {"g_1": RECALLED}


def test_a_page_may_name_a_lock_that_is_configured_no_more():
    """Nobody decides about it; the page keeps it for the day on which its resource is back."""
    evidence = Evidence(groups=[GROUP], reports={"a": {"g": Report(states={})}}, pages={"a": Page("1", {"x": GRANTED})})
    assert replicas_of(evidence) == ({}, {})


@pytest.mark.parametrize(
    ("reported", "is_kept"),
    [
        (LOCKED, True),
        (Replica("ERROR", "LOCKED"), True),
        (Replica("ERROR", "RELEASED"), False),
        (RELEASED, False),
    ],
)
def test_who_cannot_be_sent_a_message_keeps_what_it_may_hold(reported: Replica, is_kept: bool):
    """Z7, T15: one that failed to give back may work under the lock, also where nobody can tell it anything."""
    evidence = Evidence(
        groups=[GROUP], reports={"a": {"g": Report(states={"g_0": reported})}}, silent={"a": "it is not configured"}
    )
    found, _ = replicas_of(evidence)
    expected = {"a": reported._replace(doubt="it is not configured")} if is_kept else {}
    assert found.get("g_0", {}) == expected
