"""What one transition enters, writes and grants, when the session ends between two of its steps."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from lockref.coordination.port import Operation, SessionState, Stat, change, create, delete
from lockref.helix.lock import LOCK_UNLOCK
from lockref.helix.participant.application import Listener, ParticipantSettings
from lockref.helix.participant.current_states import STATES_BYTES_MAX, States
from lockref.helix.participant.holdings import Holdings
from lockref.helix.participant.patience import Patience
from lockref.helix.participant.transitions import Transitions
from lockref.helix.records import layout
from lockref.helix.records.messages import Message
from lockref.ports import Reply
from lockref.runtime import ThreadRuntime
from lockref.words import Outcome

PATHS = layout.InstancePaths("c", "a")
SESSION = 7
NAME = layout.session_name(SESSION)


def _nothing() -> None:
    """Nothing happens."""


class Granted(Listener):
    """Notes each grant."""

    def __init__(self) -> None:
        self.grants: list[tuple[str, int]] = []
        self.alarms: list[str] = []

    def alarm(self, text: str) -> None:
        self.alarms.append(text)

    def granted(self, lock: str, token: int) -> None:
        self.grants.append((lock, token))


class Instance:
    """An instance whose tasks run at once, and whose session takes every transaction.

    in_handler, in_writing: called while a handler runs, and after each transaction. undelivered: the messages that a
    reader still finds. found: what is read of the states.
    """

    def __init__(self, *, in_handler: Callable[[], None] = _nothing, in_writing: Callable[[], None] = _nothing) -> None:
        self.session: Any = SimpleNamespace(
            state=SessionState.CONNECTED, id=SESSION, service="zk", timeout_ns=1, multi=self._multi, get=self._get
        )
        self.written: list[list[Operation]] = []
        self.replies: list[Reply] = []
        self.undelivered: list[str] = []
        self.found: Reply = Reply(Outcome.APPLIED, missing=True)
        listener = Granted()
        self.granted, self.alarms = listener.grants, listener.alarms
        self._in_writing = in_writing
        mutex = ThreadRuntime().mutex()
        runtime: Any = SimpleNamespace(spawn=lambda work, **_named: work(), wall_ns=lambda: 0, sleep=lambda _ns: None)
        self.holdings = Holdings(self.session, mutex, ParticipantSettings(), listener)
        self.patience = Patience(self.session, "a", runtime, self.holdings)
        self.transitions = Transitions(
            self.session,
            PATHS,
            runtime=runtime,
            mutex=mutex,
            patience=self.patience,
            holdings=self.holdings,
            handlers={LOCK_UNLOCK.name: {("RELEASED", "LOCKED"): lambda _message: in_handler()}},
            listener=listener,
            on_wait=lambda _message: None,
        )
        self.states = States("g", LOCK_UNLOCK)

    def _multi(self, operations: list[Operation]) -> Reply:
        self.written.append(list(operations))
        reply = self.replies.pop(0) if self.replies else Reply(Outcome.APPLIED)
        self._in_writing()
        return reply

    def _get(self, path: str) -> Reply:
        is_there = path in self.undelivered
        return self.found if path == self.written[-1][0].path else Reply(Outcome.APPLIED, missing=not is_there)

    def receives(self, lock: str, *, zxid: int, source: str = "RELEASED", target: str = "LOCKED") -> None:
        order = Message(
            id=f"m-{lock}", instance="a", session=NAME, resource="g", lock=lock, model=LOCK_UNLOCK.name,
            source=source, target=target, created_zxid=zxid,
        )  # fmt: skip
        self.transitions.enqueue(self.states, order)

    def loses_its_session(self) -> None:
        self.session.state = SessionState.LOST

    def leaves(self) -> None:
        self.patience.is_leaving = True


@pytest.mark.parametrize("end", [Instance.loses_its_session, Instance.leaves])
def test_a_handler_that_outlasts_its_session_enters_no_state(end: Callable[[Instance], None]):
    """T28: who leaves has entered every lock as given back; a state that is entered later says the opposite."""
    a = Instance(in_handler=lambda: end(a))
    a.receives("g_0", zxid=5)
    assert (a.states.replicas["g_0"].state, a.states.unwritten, a.written) == ("RELEASED", {}, [])


@pytest.mark.parametrize("end", [Instance.loses_its_session, Instance.leaves])
def test_a_session_that_ends_while_its_state_is_written_is_granted_nothing(end: Callable[[Instance], None]):
    """T17, Z20: the lock is the next session's to ask for. A grant now would be believed beside another's."""
    a = Instance(in_writing=lambda: end(a))
    a.receives("g_0", zxid=5)
    assert len(a.written) == 1
    assert (a.granted, a.holdings.locks) == ([], ())


def test_each_writing_of_the_states_names_the_version_before_it():
    """T28: without it the states would be written over whatever somebody else has made of them."""
    a = Instance()
    a.receives("g_0", zxid=5)
    a.receives("g_1", zxid=6)
    a.receives("g_2", zxid=7)
    path = PATHS.current_state(NAME, "g")
    firsts = [operations[0] for operations in a.written]
    assert firsts == [
        create(path, firsts[0].body),
        change(path, firsts[1].body, 0),
        change(path, firsts[2].body, 1),
    ]
    assert [operations[1:] for operations in a.written] == [[delete(PATHS.message(f"m-g_{n}"))] for n in range(3)]
    assert a.granted == [("g_0", 5), ("g_1", 6), ("g_2", 7)]


def test_a_version_that_somebody_else_has_raised_is_read_anew():
    """T28: the refused writing is made again on what is there now."""
    a = Instance()
    a.receives("g_0", zxid=5)
    a.replies = [Reply(Outcome.PRECONDITION_FAILED)]
    a.found = Reply(Outcome.APPLIED, Stat(created_zxid=1, changed_zxid=9, version=4), b"{}")
    a.receives("g_1", zxid=6)
    again = a.written[-1][0]
    assert again == change(again.path, a.states.record(NAME).to_json(STATES_BYTES_MAX), 4)
    assert a.states.version == 5


def test_a_message_that_is_still_there_is_answered_again_though_the_states_are_as_they_should_be():
    """T28: the answer to a duplicate changes no state, so the states alone do not tell whether it has arrived."""
    a = Instance()
    a.receives("g_0", zxid=5)
    body = a.written[0][0].body
    a.found = Reply(Outcome.APPLIED, Stat(created_zxid=1, changed_zxid=9, version=0), body)
    a.undelivered = [PATHS.message("m-g_0")]
    a.replies = [Reply(Outcome.AMBIGUOUS)]
    a.receives("g_0", zxid=5)
    assert [each[0].body for each in a.written] == [body] * 3
    assert a.written[2][1:] == [delete(PATHS.message("m-g_0"))]


def test_messages_that_wait_for_a_writing_are_answered_with_the_next_one_together():
    """T28: at a start all locks change at the same time; one request for each would take as many round trips."""
    waiting = iter(("g_1", "g_2", "g_3"))

    def more_come() -> None:
        if len(a.written) == 1:
            for number, lock in enumerate(waiting):
                a.receives(lock, zxid=6 + number)

    a = Instance(in_writing=more_come)
    a.receives("g_0", zxid=5)
    assert [len(each) - 1 for each in a.written] == [1, 3]
    assert [lock for lock, _ in a.granted] == ["g_0", "g_1", "g_2", "g_3"]


def test_a_refusal_that_lasts_is_told_once():
    """HJ9: a right that was taken away may be given back, so the writing is repeated; its alarm is not."""
    a = Instance()
    a.found = Reply(Outcome.REJECTED, reason="no right")
    a.replies = [Reply(Outcome.REJECTED, reason="no right")] * 3
    a.receives("g_0", zxid=5)
    assert len(a.written) == 4
    assert a.alarms == ["zk refuses: no right"]


def test_a_lock_in_error_is_dropped_without_a_handler():
    """Z8: as in the original. Another transition that nobody handles leads to ERROR."""
    a = Instance()
    a.receives("g_0", zxid=5)
    a.receives("g_0", zxid=6, source="LOCKED", target="RELEASED")
    assert a.states.record(NAME).maps["g_0"]["CURRENT_STATE"] == "ERROR"
    a.receives("g_0", zxid=7, source="ERROR", target="DROPPED")
    assert a.states.record(NAME).maps == {}
