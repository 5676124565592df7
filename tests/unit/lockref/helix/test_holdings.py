"""What an instance holds by its own knowledge, while its session falls silent, comes back and is given up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from lockref.coordination.port import SessionState
from lockref.helix.participant.application import Listener, ParticipantSettings
from lockref.helix.participant.holdings import Holdings
from lockref.runtime import ThreadRuntime


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
