"""What an instance holds by its own knowledge, while its session falls silent, comes back and is given up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lockref.coordination.port import SessionState
from lockref.helix.participant.application import Listener, ParticipantSettings
from lockref.helix.participant.holdings import Holdings
from lockref.runtime import ThreadRuntime


class Told(Listener):
    """Notes each event."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def granted(self, lock: str, token: int) -> None:
        self.events.append(("granted", lock, token))

    def revoked(self, lock: str) -> None:
        self.events.append(("revoked", lock))

    def lost(self, lock: str, reason: str) -> None:
        self.events.append(("lost", lock, reason))


class Held:
    """An instance that holds g_0 under token 7 and g_1 under token 8."""

    def __init__(self, *, is_safe: bool = True, fences_itself: bool = True) -> None:
        self.session: Any = SimpleNamespace(state=SessionState.CONNECTED, is_safe=lambda **_how: is_safe)
        self.told = Told()
        settings = ParticipantSettings(fences_itself=fences_itself)
        self.holdings = Holdings(self.session, ThreadRuntime().mutex(), settings, self.told)
        self.holdings.take("g_0", 7)
        self.holdings.take("g_1", 8)

    def falls_silent(self) -> None:
        self.session.state = SessionState.SUSPENDED
        self.holdings.suspend()


@pytest.mark.parametrize(
    ("is_safe", "fences_itself", "may"), [(True, True, True), (False, True, False), (False, False, True)]
)
def test_a_holder_stops_by_its_own_clock_unless_it_is_the_original(is_safe, fences_itself, may):
    """Z9, Z10: a lock is held only while the session cannot have ended."""
    held = Held(is_safe=is_safe, fences_itself=fences_itself)
    assert (held.holdings.may_be_used("g_0"), held.holdings.may_be_used("g_2")) == (may, False)


def test_what_was_held_before_the_session_fell_silent_is_held_again():
    """T17: under the same tokens, however often nobody answered meanwhile; each change is told once."""
    held = Held()
    held.falls_silent()
    held.falls_silent()
    assert held.holdings.locks == ()
    held.session.state = SessionState.CONNECTED
    held.holdings.resume()
    held.holdings.resume()
    assert {lock: held.holdings.token(lock) for lock in held.holdings.locks} == {"g_0": 7, "g_1": 8}
    lost = [("lost", "g_0", "session suspended"), ("lost", "g_1", "session suspended")]
    assert held.told.events == [*lost, ("granted", "g_0", 7), ("granted", "g_1", 8)]


def test_an_answer_that_has_come_by_now_loses_nothing():
    """Z10: the session is looked at when the holder would stop; the original never stops."""
    held = Held()
    held.holdings.suspend()
    assert held.holdings.locks == ("g_0", "g_1")
    original = Held(fences_itself=False)
    original.falls_silent()
    assert original.holdings.locks == ("g_0", "g_1")


@pytest.mark.parametrize("is_silent", [True, False])
def test_a_lock_that_is_taken_back_does_not_come_back(is_silent):
    """T17: a recall that is executed while the session is silent gives the lock up for good. It is told once."""
    held = Held()
    if is_silent:
        held.falls_silent()
    held.holdings.give_up("g_0")
    held.holdings.give_up("g_0")
    held.holdings.resume()
    assert held.holdings.locks == ("g_1",)
    assert held.told.events.count(("revoked", "g_0")) == (0 if is_silent else 1)


@pytest.mark.parametrize("is_silent", [True, False])
def test_a_session_that_is_over_takes_everything_with_it(is_silent):
    """Z9: what was held under it is not taken up under the next one, though that one is connected."""
    held = Held()
    if is_silent:
        held.falls_silent()
    held.holdings.lose_all("session ended")
    held.session.state = SessionState.CONNECTED
    held.holdings.resume()
    assert held.holdings.locks == ()
    reason = "session suspended" if is_silent else "session ended"
    assert held.told.events == [("lost", "g_0", reason), ("lost", "g_1", reason)]


def test_who_leaves_says_what_it_gives_back():
    """S7: it must tell the cluster, so it knows whether it held anything."""
    held = Held()
    assert held.holdings.give_up_all()
    assert not held.holdings.give_up_all()
    assert held.told.events == [("revoked", "g_0"), ("revoked", "g_1")]


def test_who_leaves_while_nobody_answers_takes_nothing_up_again():
    """T17: the answer that comes then revives no lock. The cluster hears of the departure, and gives it to another."""
    session: Any = SimpleNamespace(state=SessionState.SUSPENDED, is_safe=lambda **_how: True)
    holdings = Holdings(session, ThreadRuntime().mutex(), ParticipantSettings(), Listener())
    holdings.take("g_0", 7)
    holdings.suspend()
    assert not holdings.give_up_all()
    session.state = SessionState.CONNECTED
    holdings.resume()
    assert (holdings.locks, holdings.may_be_used("g_0"), holdings.token("g_0")) == ((), False, None)
