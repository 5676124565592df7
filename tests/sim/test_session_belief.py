"""What a client believes of its session counts from its question, not from the answer, and is of that session alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from lockref.coordination.port import CHILDREN, CLOSE, CONNECT, GET, PING, Failure, SessionState, WatchEvent, failed
from lockref.coordination.session import COORDINATION, Event, ReadRequest, Session
from lockref.helix.lock import ALL_HANDLED
from lockref.ports import TIMED_OUT, Reply, Request
from lockref.runtime import NS_PER_S
from lockref.runtime import Event as Signal
from tests.sim.helix_world import PATHS, RESOURCE, SESSION_NS, Asked, DisturbedChannel, Helix, undisturbed
from tests.sim.test_helix_participant import is_execution

LOCK = f"{RESOURCE}_0"


class PipeliningDisturbedChannel(DisturbedChannel):
    """Takes many requests at a time, as a channel over a real connection does."""

    def send_all(self, requests: Sequence[Request], timeout_ns: int) -> list[Reply]:
        return [self.send(each, timeout_ns) for each in requests]


@pytest.mark.parametrize(
    "ask",
    [
        None,
        lambda session: session.get(PATHS.root),
        lambda session: session.read_all([ReadRequest(GET, PATHS.root)]),
    ],
    ids=["connect", "get", "read_all"],
)
def test_a_slow_answer_confirms_the_session_from_the_question_on(ask: Callable[[Session], object] | None):
    """T17, Z9: the server counts from when it was asked; a holder that counts from the answer works on too long."""
    helix = Helix()
    _, plain = helix.session("n1")
    channel = PipeliningDisturbedChannel(plain._inner)
    session = COORDINATION.over(channel, NS_PER_S // 2)
    runtime = helix.world.node("n1").process.runtime
    asked_ns: list[int] = []

    def slow(request: Request, ask: Asked) -> Reply:
        asked_ns.append(runtime.monotonic_ns())
        reply = ask(request)
        helix.sleep_ms(300)
        return reply

    def work() -> int:
        session.start(runtime, timeout_ns=SESSION_NS)
        if ask is not None:
            ask(session)
        return session.safe_until_ns(rate_bound_ppm=0, margin_ns=0)

    def script() -> None:
        helix.start("n1", lambda: None)
        channel.disturb = slow
        safe_until_ns = helix.on("n1", work)
        assert len(asked_ns) == (1 if ask is None else 2)
        assert safe_until_ns <= asked_ns[-1] + SESSION_NS

    helix.play(script)


@pytest.mark.parametrize("failure", [Failure.TOO_LARGE, Failure.NO_AUTH, Failure.THROTTLED, Failure.READ_ONLY])
def test_a_refusal_confirms_no_session(failure: Failure):
    """T17, Z10: it may come from the client, or from before the server counts sessions. The holder stops."""
    helix = Helix()
    n1, ear, channel = helix.participant("n1")

    def script() -> None:
        helix.join(n1, "n1")
        helix.executed("n1", "RELEASED", "LOCKED")
        assert n1.holds(LOCK)
        channel.disturb = lambda request, _ask: failed(failure, request.key)
        helix.until(
            lambda: helix.stat(PATHS.instance("n1").live) is None, "the server ends a session that it does not hear"
        )
        assert not n1.holds(LOCK)
        assert ear.heard[-1][0] == "lost"

    helix.play(script)


def test_a_late_answer_to_the_end_of_a_session_leaves_the_next_one():
    """An instance that left, and whose server answered late, was live without a keep-alive in its next session."""
    helix = Helix()
    _, plain = helix.session("n1")
    channel = DisturbedChannel(plain._inner)
    session = COORDINATION.over(channel, NS_PER_S // 2)
    runtime = helix.world.node("n1").process.runtime
    ids: list[int] = []

    def opened_meanwhile(request: Request, ask: Asked) -> Reply:
        if request.verb != CLOSE:
            return ask(request)
        channel.disturb = undisturbed
        answer = ask(request)
        session.start(runtime, timeout_ns=SESSION_NS)
        ids.append(session.id)
        return answer

    def work() -> None:
        session.start(runtime, timeout_ns=SESSION_NS)
        ids.append(session.id)
        channel.disturb = opened_meanwhile
        session.end()
        assert (session.state, session.id) == (SessionState.CONNECTED, ids[1])
        assert session.end(ids[0]) is None
        assert (session.state, session.id) == (SessionState.CONNECTED, ids[1])
        session.end(ids[1])
        assert session.state is SessionState.LOST

    def script() -> None:
        helix.start("n1", lambda: None)
        helix.on("n1", work)
        assert ids[0] != ids[1]

    helix.play(script)


@pytest.mark.parametrize("ends_by_itself", [False, True])
def test_no_keep_alive_outlives_its_session(ends_by_itself: bool):
    """Where clients come and go, the tasks of ended sessions stood for a third of the timeout each."""
    helix = Helix()
    session, _ = helix.session("n1")
    runtime = helix.world.node("n1").process.runtime
    lasting: list[str] = []
    kept_alive = session._keep_alive

    def watched(number: int, over: Signal) -> None:
        lasting.append("begun")
        kept_alive(number, over)
        lasting.append("ended")

    session._keep_alive = watched

    def work() -> None:
        session.start(runtime, timeout_ns=SESSION_NS)
        runtime.sleep(NS_PER_S // 1000)
        if ends_by_itself:
            session._become(SessionState.LOST)
        session.end()
        runtime.sleep(NS_PER_S // 1000)
        assert lasting == ["begun", "ended"]

    def script() -> None:
        helix.start("n1", lambda: None)
        helix.on("n1", work)

    helix.play(script)


def test_nothing_is_held_while_the_application_gives_back():
    """T17, T28: when the handler of a holder that is told to stop runs, `holds` says no, and the token is gone."""
    helix = Helix()
    seen: list[tuple[bool, int | None]] = []
    handlers = {**ALL_HANDLED, ("LOCKED", "RELEASED"): lambda _message: seen.append((n1.holds(LOCK), n1.token(LOCK)))}
    n1, ear, _ = helix.participant("n1", handlers=handlers)

    def script() -> None:
        helix.join(n1, "n1")
        helix.executed("n1", "RELEASED", "LOCKED")
        assert n1.holds(LOCK)
        helix.executed("n1", "LOCKED", "RELEASED")
        assert seen == [(False, None)]
        assert [each[0] for each in ear.heard] == ["granted", "revoked"]

    helix.play(script)


def test_a_yes_that_arrives_in_the_next_session_grants_nothing():
    """T13, Z10: the state was written, the session ended, and then the answer is heard: another may hold by now."""
    helix = Helix()
    n1, ear, channel = helix.participant("n1")
    late: list[str] = []

    def heard_late(request: Request, ask: Asked) -> Reply:
        reply = ask(request)
        if is_execution(request) and not late:
            late.append(helix.live_session("n1"))
            assert helix.service.tamper("expire_session", "n1") == 1
            helix.until(lambda: helix.stat(PATHS.instance("n1").live) is not None, "it is live again")
            helix.sleep_ms(50)
        return reply

    def script() -> None:
        helix.join(n1, "n1")
        channel.disturb = heard_late
        helix.send("n1", "RELEASED", "LOCKED")
        helix.until(lambda: bool(late), "the state is written under the first session")
        helix.until(lambda: helix.stat(PATHS.instance("n1").live) is not None, "it is live again")
        helix.sleep_ms(500)
        assert helix.live_session("n1") != late[0]
        assert (n1.held, n1.holds(LOCK), n1.token(LOCK), ear.heard) == ((), False, None, [])

    helix.play(script)


def test_an_answer_to_an_earlier_session_says_nothing_of_this_one():
    """Z10: that the earlier session had ended is heard late; the present one lives, and nobody need begin anew."""
    helix = Helix()
    session, channel = helix.session("n1")
    runtime = helix.world.node("n1").process.runtime
    ids: list[int] = []

    def held_back(request: Request, ask: Asked) -> Reply:
        if request.verb != GET:
            return ask(request)
        assert helix.service.tamper("expire_session", "n1") == 1
        reply = ask(request)
        session.end()
        session.start(runtime, timeout_ns=SESSION_NS)
        return reply

    def work() -> SessionState:
        session.start(runtime, timeout_ns=SESSION_NS)
        ids.append(session.id)
        session.get(PATHS.root)
        return session.state

    def script() -> None:
        helix.start("n1", lambda: None)
        channel.disturb = held_back
        assert helix.on("n1", work) is SessionState.CONNECTED
        assert session.id not in ids

    helix.play(script)


def test_an_act_that_outlasts_the_session_is_not_begun():
    """T17: `margin_ns` is taken off the end of the session, by either clock."""
    helix = Helix()
    session, _ = helix.session("n1")
    runtime = helix.world.node("n1").process.runtime

    def work() -> list[bool]:
        session.start(runtime, timeout_ns=SESSION_NS)
        now, margin_ns = session._stamp(), NS_PER_S // 2
        session._confirmed = now
        left_ns = SESSION_NS - margin_ns
        answers = []
        for mono_ns, wall_ns in ((left_ns - 1, 0), (left_ns, 0), (0, left_ns - 1), (0, left_ns)):
            later = now._replace(mono_ns=now.mono_ns + mono_ns, wall_ns=now.wall_ns + wall_ns)
            session._stamp = lambda later=later: later  # type: ignore[method-assign, misc]
            answers.append(session.is_safe(rate_bound_ppm=0, margin_ns=margin_ns))
        del session._stamp
        return answers

    def script() -> None:
        helix.start("n1", lambda: None)
        assert helix.on("n1", work) == [True, False, True, False]

    helix.play(script)


def test_every_request_that_is_heard_keeps_the_session_alive():
    """Z9: a client may count from any answer, so the server counts from any request, and not from pings alone."""
    helix = Helix()
    session, channel = helix.session("n1")
    runtime = helix.world.node("n1").process.runtime

    def without_pings(request: Request, ask: Asked) -> Reply:
        return TIMED_OUT if request.verb == PING else ask(request)

    def work() -> SessionState:
        session.start(runtime, timeout_ns=SESSION_NS)
        for _ in range(20):
            session.get(PATHS.root)
            runtime.sleep(NS_PER_S // 3)
        return session.state

    def script() -> None:
        helix.start("n1", lambda: None)
        channel.disturb = without_pings
        assert helix.on("n1", work) is SessionState.CONNECTED

    helix.play(script)


def test_a_session_that_was_found_to_be_over_ends_once():
    """Z10: a request tells it first. What is queued of the old session must not end the next one."""
    helix = Helix()
    n1, _, channel = helix.participant("n1")
    connects: list[str] = []

    def over(request: Request, ask: Asked) -> Reply:
        if request.verb == CONNECT:
            connects.append(request.verb)
        elif request.verb == CHILDREN and not connects and helix.stat(PATHS.instance("n1").live) is not None:
            assert helix.service.tamper("expire_session", "n1") == 1
        return ask(request)

    def script() -> None:
        helix.join(n1, "n1")
        helix.sleep_ms(100)
        channel.disturb = over
        helix.send("n1", "RELEASED", "LOCKED")
        helix.until(lambda: bool(connects), "it opens a new session")
        helix.sleep_ms(1000)
        assert connects == [CONNECT]
        helix.executed("n1", "RELEASED", "LOCKED")
        assert n1.holds(LOCK)

    helix.play(script)


def test_a_leader_whose_session_was_found_to_be_over_leads_once_more():
    """T20, Z11: a session that it opened and forgot would own LEADER, and nobody leads until that one times out."""
    helix = Helix()
    n1, _, _ = helix.participant("n1")
    controller, channel = helix.controller(period_ns=NS_PER_S // 10)
    connects: list[str] = []

    def over(request: Request, ask: Asked) -> Reply:
        if request.verb == CONNECT:
            connects.append(request.verb)
        elif request.verb == CHILDREN and not connects and controller.is_leader:
            assert helix.service.tamper("expire_session", "controller") <= 1
        return ask(request)

    def script() -> None:
        helix.join(n1, "n1")
        helix.start("controller", controller.run)
        helix.until(lambda: n1.holds(LOCK), "it leads, and grants")
        helix.sleep_ms(100)
        channel.disturb = over
        helix.until(lambda: bool(connects), "it opens a new session")
        helix.sleep_ms(5000)
        assert connects == [CONNECT]
        stat = helix.stat(PATHS.leader)
        assert stat is not None
        assert [stat.owner] == [each.id for each in helix.service._sessions.values() if each.client == "controller"]

    helix.play(script)


def test_what_is_queued_of_a_session_that_was_ended_is_told_to_no_later_one():
    """Z10: a watch fired and nobody took the event before the session was ended by its client."""
    helix = Helix()
    session, _ = helix.session("n1")
    runtime = helix.world.node("n1").process.runtime

    def work() -> Event | None:
        session.start(runtime, timeout_ns=SESSION_NS)
        session.exists(PATHS.root, is_watching=True)
        session.set(PATHS.root, b"changed")
        runtime.sleep(NS_PER_S // 10)
        session.end()
        session.start(runtime, timeout_ns=SESSION_NS)
        return session.next_event(NS_PER_S // 10)

    def script() -> None:
        helix.start("n1", lambda: None)
        assert helix.on("n1", work) is None

    helix.play(script)


def test_a_watch_of_an_earlier_session_is_told_to_no_later_one():
    """Z10: the task that takes what is pushed was held up until the next session had begun."""
    helix = Helix()
    session, channel = helix.session("n1")
    runtime = helix.world.node("n1").process.runtime
    received, receive = [], channel.receive
    is_second = False

    def held_up(timeout_ns: int | None) -> object | None:
        message = receive(timeout_ns)
        if isinstance(message, WatchEvent):
            received.append(message)
            while not is_second:
                runtime.sleep(NS_PER_S // 1000)
        return message

    def work() -> list[Event | None]:
        nonlocal is_second
        channel.receive = held_up  # type: ignore[method-assign]
        session.start(runtime, timeout_ns=SESSION_NS)
        session.exists(PATHS.root, is_watching=True)
        session.set(PATHS.root, b"changed")
        helix.until(lambda: bool(received), "the watch has fired")
        session.end()
        session.start(runtime, timeout_ns=SESSION_NS)
        is_second = True
        earlier = session.next_event(NS_PER_S // 10)
        session.exists(PATHS.root, is_watching=True)
        session.set(PATHS.root, b"changed again")
        return [earlier, session.next_event(NS_PER_S // 10)]

    def script() -> None:
        helix.start("n1", lambda: None)
        earlier, own = helix.on("n1", work)
        assert earlier is None
        assert isinstance(own, WatchEvent), "what is pushed to the session itself is told"
        assert own.session == session.id

    helix.play(script)


def test_a_session_that_is_over_is_not_safe():
    """T17: the server has said so, or the client has ended it. That somebody answered a moment ago counts no more."""
    helix = Helix()
    session, _ = helix.session("n1")
    runtime = helix.world.node("n1").process.runtime

    def is_safe() -> bool:
        return session.is_safe(rate_bound_ppm=0, margin_ns=0)

    def work() -> None:
        session.start(runtime, timeout_ns=SESSION_NS)
        assert is_safe()
        assert helix.service.tamper("expire_session", "n1") == 1
        session.get(PATHS.root)
        assert not is_safe()
        session.start(runtime, timeout_ns=SESSION_NS)
        assert is_safe()
        session.end()
        assert not is_safe()

    def script() -> None:
        helix.start("n1", lambda: None)
        helix.on("n1", work)

    helix.play(script)
