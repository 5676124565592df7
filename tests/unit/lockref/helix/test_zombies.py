"""Zombies and slow instances: who is named, since when, and when a leader looks again."""

from __future__ import annotations

from lockref.helix.pipeline import AlarmKind, Snapshot
from lockref.helix.records.messages import Message
from lockref.helix.zombies import Zombies
from lockref.runtime import NS_PER_S, MonoNs

AFTER_NS = 10 * NS_PER_S


def at(seconds: float) -> MonoNs:
    return MonoNs(round(seconds * NS_PER_S))


def cluster(*ids: str, session: str = "s1", name: str = "a") -> Snapshot:
    """One live instance, to which these messages wait."""
    pending = tuple(
        Message(id=each, instance=name, session=session, resource="g", lock=f"g_{each}", model="m", source="R",
                target="L")
        for each in ids
    )  # fmt: skip
    return Snapshot(groups=(), live={name: session}, pending=pending)


def kinds(zombies: Zombies, snapshot: Snapshot, seconds: float) -> list[AlarmKind]:
    return [alarm.kind for alarm in zombies.named(snapshot, at(seconds))]


def test_a_message_that_waits_for_the_limit_names_a_zombie():
    """Not a nanosecond earlier; the text stays the same while it lasts, so that it is told once."""
    zombies = Zombies(AFTER_NS)
    assert zombies.named(cluster("1", "2"), at(5)) == []
    assert zombies.named(cluster("1", "2"), MonoNs(at(15) - 1)) == []
    (alarm,) = zombies.named(cluster("1", "2"), at(15))
    assert alarm.kind is AlarmKind.ZOMBIE
    assert alarm.text == "a lives and has answered no message for 10 s: R-L of g_1 (message 1) waits"
    assert zombies.named(cluster("1", "2"), at(99)) == [alarm]
    assert zombies.named(cluster(), at(100)) == []


def test_an_answer_to_another_message_makes_it_slow():
    """One transition takes long, and the instance works."""
    zombies = Zombies(AFTER_NS)
    assert kinds(zombies, cluster("1", "2"), 0) == []
    assert kinds(zombies, cluster("1"), 5) == []
    assert kinds(zombies, cluster("1"), 10) == [AlarmKind.SLOW]


def test_one_answer_of_a_batch_and_then_none_names_a_zombie():
    """A rebalance sends many at once. The program hangs after the first: it is slow, and then a zombie."""
    zombies = Zombies(AFTER_NS)
    assert kinds(zombies, cluster("1", "2", "3"), 0) == []
    assert kinds(zombies, cluster("2", "3"), 1) == []
    assert kinds(zombies, cluster("2", "3"), 10) == [AlarmKind.SLOW]
    assert zombies.next_ns(at(10), 60 * NS_PER_S) == NS_PER_S
    (alarm,) = zombies.named(cluster("2", "3"), at(11))
    assert alarm.kind is AlarmKind.ZOMBIE
    assert "has answered no message for 10 s: R-L of g_2 (message 2) waits" in alarm.text
    assert zombies.named(cluster("2", "3"), at(99)) == [alarm]


def test_a_message_after_the_last_answer_names_a_zombie_again():
    """It answered once, and then the program hung: what was sent afterwards is not answered."""
    zombies = Zombies(AFTER_NS)
    assert kinds(zombies, cluster("1", "2"), 0) == []
    assert kinds(zombies, cluster("1", "3"), 5) == []
    assert kinds(zombies, cluster("1", "3"), 12) == [AlarmKind.SLOW]
    assert kinds(zombies, cluster("1", "3"), 15) == [AlarmKind.ZOMBIE]


def test_a_new_session_begins_anew():
    """What an earlier session left unanswered says nothing of this one; nor does an earlier reign of this leader."""
    zombies = Zombies(AFTER_NS)
    assert kinds(zombies, cluster("1"), 0) == []
    assert kinds(zombies, cluster("1", session="s2"), 10) == []
    assert kinds(zombies, cluster("1", session="s2"), 20) == [AlarmKind.ZOMBIE]
    zombies.forget()
    assert kinds(zombies, cluster("1", session="s2"), 21) == []


def test_a_leader_looks_again_when_a_message_is_due():
    """Otherwise a zombie would be named only with the next event, or one period later."""
    zombies = Zombies(AFTER_NS)
    assert zombies.next_ns(at(0), 60 * NS_PER_S) == 60 * NS_PER_S
    zombies.named(cluster("1"), at(2))
    assert zombies.next_ns(at(5), 60 * NS_PER_S) == 7 * NS_PER_S
    assert zombies.next_ns(at(5), NS_PER_S) == NS_PER_S
    assert zombies.next_ns(at(12), 60 * NS_PER_S) == 60 * NS_PER_S


def test_without_a_limit_nobody_is_named():
    zombies = Zombies(None)
    assert zombies.named(cluster("1"), at(0)) == zombies.named(cluster("1"), at(1e6)) == []
    assert zombies.next_ns(at(0), 5) == 5
