"""A participant in virtual time: when it believes, when it stops believing, and what it answers to which message."""

from __future__ import annotations

from typing import Any

import pytest

from lockref.coordination.port import CHILDREN, CLOSE, GET, MULTI, PING, Failure, SessionState, WatchEvent, failed
from lockref.errors import ConfigError, LockLost, ReleaseFailed
from lockref.helix.lock import ALL_HANDLED
from lockref.helix.participant.participant import Participant
from lockref.helix.records.messages import Message
from lockref.helix.records.zn_record import ZNRecord
from lockref.ports import TIMED_OUT, Reply, Request
from lockref.runtime import NS_PER_S
from sim.faults.network import Partition
from sim.faults.plan import FaultPlan
from tests.sim.helix_world import PATHS, RESOURCE, SESSION_NS, Asked, Disturbance, Helix, paths_of, undisturbed

LOCK = f"{RESOURCE}_0"
N1 = PATHS.instance("n1")


def refused(request: Request, _ask: Asked) -> Reply:
    return failed(Failure.NO_AUTH, request.key)


def throttled(request: Request, _ask: Asked) -> Reply:
    return failed(Failure.THROTTLED, request.key)


def request_lost(_request: Request, _ask: Asked) -> Reply:
    return TIMED_OUT


def reply_lost(request: Request, ask: Asked) -> Reply:
    ask(request)
    return TIMED_OUT


def is_execution(request: Request) -> bool:
    """Does a participant write what came of a message?"""
    return request.verb == MULTI and any("/CURRENTSTATES/" in path for path in paths_of(request))


def once(disturbance: Disturbance, times: int = 1) -> Disturbance:
    """Disturb so many executions, and nothing else."""
    left = [times]

    def disturb(request: Request, ask: Asked) -> Reply:
        if left[0] and is_execution(request):
            left[0] -= 1
            return disturbance(request, ask)
        return ask(request)

    return disturb


def test_belief_begins_after_the_state_is_written_and_ends_before():
    """A crash between the two leaves a lock that the cluster counts as held and nobody uses, never the other way."""
    helix = Helix()
    n1, ear, channel = helix.participant("n1")
    at_sending: list[tuple[bool, list[str]]] = []

    def noting(request: Request, ask: Asked) -> Reply:
        if is_execution(request):
            at_sending.append((n1.holds(LOCK), [each[0] for each in ear.heard]))
        return ask(request)

    def script() -> None:
        helix.join(n1, "n1")
        channel.disturb = noting
        zxid = helix.executed("n1", "RELEASED", "LOCKED")
        assert n1.holds(LOCK)
        assert (n1.token(LOCK), n1.held) == (zxid, (LOCK,))
        assert helix.states("n1")[LOCK]["FENCING_TOKEN"] == str(zxid)
        helix.executed("n1", "LOCKED", "RELEASED")
        assert (n1.holds(LOCK), n1.token(LOCK), helix.state("n1")) == (False, None, "RELEASED")
        assert "FENCING_TOKEN" not in helix.states("n1")[LOCK]
        assert at_sending == [(False, []), (False, ["granted", "revoked"])]
        assert ear.heard == [("granted", LOCK, zxid), ("revoked", LOCK)]

    helix.play(script)


@pytest.mark.parametrize("disturbance", [request_lost, reply_lost, refused, throttled], ids=lambda each: each.__name__)
def test_what_becomes_of_an_answer_that_is_no_yes(disturbance: Disturbance):
    """T20, T28: state and message change together, whatever is heard; the lock is granted once, or not at all.

    A refused write has changed nothing: the participant must not take it for done, and tries again.
    """
    helix = Helix()
    n1, ear, channel = helix.participant("n1")

    def script() -> None:
        helix.join(n1, "n1")
        channel.disturb = once(disturbance, times=2)
        zxid = helix.send("n1", "RELEASED", "LOCKED")
        for _ in range(3_000):
            helix.sleep_ms(1)
            is_written = helix.state("n1") == "LOCKED"
            assert is_written != bool(helix.pending("n1")), "the message goes with the writing of the state"
            assert is_written or not n1.holds(LOCK)
        assert any("NoAuth" in each for each in ear.alarms) == (disturbance is refused)
        assert (helix.state("n1"), ear.heard) == ("LOCKED", [("granted", LOCK, zxid)])
        channel.disturb = once(disturbance)
        helix.executed("n1", "LOCKED", "RELEASED")
        assert helix.state("n1") == "RELEASED"

    helix.play(script)


def test_messages_for_others_are_removed_unexecuted():
    """T13, Z20, HJ10: of an earlier session, for another instance, under another name, and what cannot be read."""
    helix = Helix()
    called: list[Message] = []
    n1, ear, _ = helix.participant("n1", handlers=dict.fromkeys(ALL_HANDLED, called.append))

    def script() -> None:
        helix.join(n1, "n1")
        helix.executed("n1", "RELEASED", "LOCKED", session="abc")
        helix.executed("n1", "RELEASED", "LOCKED", addressee="n2")
        helix.put(N1.message("unreadable"), b"{")
        helix.until(lambda: not helix.pending("n1"), "it is removed")
        assert (called, helix.states("n1"), n1.held, len(ear.alarms)) == ([], {}, (), 3)
        helix.executed("n1", "RELEASED", "LOCKED")
        assert len(called) == 1

    helix.play(script)


def test_a_duplicate_and_a_message_that_does_not_fit_call_nothing():
    """T14: each is answered with the state as it is; the token stays that of the grant."""
    helix = Helix()
    called: list[Message] = []
    n1, ear, _ = helix.participant("n1", handlers=dict.fromkeys(ALL_HANDLED, called.append))

    def script() -> None:
        helix.join(n1, "n1")
        zxid = helix.executed("n1", "RELEASED", "LOCKED", name="a")
        helix.executed("n1", "RELEASED", "LOCKED", name="b")
        assert (len(called), n1.token(LOCK), helix.state("n1")) == (1, zxid, "LOCKED")
        assert not ear.alarms
        helix.executed("n1", "DROPPED", "RELEASED", name="c")
        assert (len(called), n1.token(LOCK), helix.state("n1")) == (1, zxid, "LOCKED")
        assert ear.alarms == [f"{LOCK} is LOCKED; a message wants it from DROPPED"]

    helix.play(script)


def test_messages_of_one_lock_are_executed_in_the_order_of_their_transactions():
    """Not in that of their names, and never two at a time."""
    helix = Helix()
    trace: list[tuple[str, str]] = []

    def slow(message: Message) -> None:
        trace.append(("begin", message.id))
        helix.sleep_ms(300)
        trace.append(("end", message.id))

    n1, _, _ = helix.participant("n1", handlers=dict.fromkeys(ALL_HANDLED, slow))

    def script() -> None:
        helix.join(n1, "n1")
        helix.send("n1", "RELEASED", "LOCKED", name="z")
        helix.send("n1", "LOCKED", "RELEASED", name="y")
        helix.send("n1", "RELEASED", "LOCKED", name="x")
        helix.until(lambda: not helix.pending("n1"), "all are executed")
        assert trace == [(what, name) for name in "zyx" for what in ("begin", "end")]
        helix.sleep_ms(20)
        assert n1.holds(LOCK)

    helix.play(script)


def failing(_message: Message) -> None:
    raise ValueError("no")


def test_a_handler_that_fails_puts_the_lock_into_error():
    """T15, Z7: on the way in it is not held; on the way out it is not held either, and the state says both states."""
    helix = Helix()
    n1, ear, _ = helix.participant("n1", handlers={**ALL_HANDLED, ("RELEASED", "LOCKED"): failing})
    n2, _, _ = helix.participant("n2", handlers={**ALL_HANDLED, ("LOCKED", "RELEASED"): failing})

    def script() -> None:
        helix.join(n1, "n1")
        helix.join(n2, "n2")
        helix.executed("n1", "RELEASED", "LOCKED")
        assert (helix.state("n1"), n1.held, ear.heard) == ("ERROR", (), [])
        assert ear.alarms == [f"{LOCK}: RELEASED-LOCKED raised ValueError: no"]
        helix.executed("n2", "RELEASED", "LOCKED")
        helix.executed("n2", "LOCKED", "RELEASED")
        said = helix.states("n2")[LOCK]
        assert (said["CURRENT_STATE"], said["PREVIOUS_STATE"], n2.holds(LOCK)) == ("ERROR", "LOCKED", False)

    helix.play(script)


def test_a_handler_that_outlasts_its_session_grants_nothing():
    """Section 3: the session ends while a lock is being taken; whatever comes of it is discarded."""
    helix = Helix()
    slow = {**ALL_HANDLED, ("RELEASED", "LOCKED"): lambda _message: helix.sleep_ms(3000)}
    n1, ear, _ = helix.participant("n1", handlers=slow)

    def script() -> None:
        helix.join(n1, "n1")
        helix.send("n1", "RELEASED", "LOCKED")
        helix.sleep_ms(500)
        assert helix.service.tamper("expire_session", "n1") == 1
        helix.sleep_ms(6000)
        assert (n1.held, n1.holds(LOCK), ear.heard, helix.state("n1")) == ((), False, [], "")
        helix.until(lambda: not helix.pending("n1"), "the old message is removed")
        helix.executed("n1", "RELEASED", "LOCKED")
        helix.until(lambda: n1.holds(LOCK), "it is granted under the new session")

    helix.play(script)


def test_a_dropped_lock_is_not_reported_and_may_be_granted_again():
    """CURRENTSTATES names it no more; the next grant starts from the initial state."""
    helix = Helix()
    n1, ear, _ = helix.participant("n1")

    def script() -> None:
        helix.join(n1, "n1")
        helix.executed("n1", "RELEASED", "LOCKED")
        helix.executed("n1", "LOCKED", "DROPPED")
        assert (helix.states("n1"), n1.held) == ({}, ())
        zxid = helix.executed("n1", "RELEASED", "LOCKED")
        assert (helix.state("n1"), n1.token(LOCK), ear.heard[-1]) == ("LOCKED", zxid, ("granted", LOCK, zxid))

    helix.play(script)


def test_a_transition_without_a_handler_is_refused_at_the_start():
    """T16, Z8: the message names it."""
    helix = Helix()
    partly = {edge: handler for edge, handler in ALL_HANDLED.items() if edge[1] != "DROPPED"}
    n1, _, _ = helix.participant("n1", handlers=partly)

    def script() -> None:
        helix.start("n1", lambda: None)
        with pytest.raises(ConfigError, match="no handler for RELEASED-DROPPED, LOCKED-DROPPED"):
            helix.on("n1", n1.join)
        assert helix.stat(N1.live) is None

    helix.play(script)


def test_two_processes_do_not_share_a_name():
    """Z18: the second one waits for the first one's session to end, and then says whose name it is."""
    helix = Helix()
    first, _, _ = helix.participant("n1")
    second, _, _ = helix.participant("n1", node="other")

    def script() -> None:
        helix.join(first, "n1")
        helix.executed("n1", "RELEASED", "LOCKED")
        helix.start("other", lambda: None)
        with pytest.raises(ConfigError, match="Two processes must not share a name"):
            helix.on("other", second.join)
        assert (first.holds(LOCK), helix.state("n1"), second.held) == (True, "LOCKED", ())

    helix.play(script)


def test_what_an_earlier_session_left_is_entered_anew_as_released():
    """T13: the session ends behind its back. Nothing is held; the message for the old session is not executed."""
    helix = Helix()
    n1, ear, _ = helix.participant("n1")

    def script() -> None:
        helix.join(n1, "n1")
        zxid = helix.executed("n1", "RELEASED", "LOCKED")
        before = helix.live_session("n1")
        assert helix.service.tamper("expire_session", "n1") == 1
        helix.send("n1", "LOCKED", "RELEASED", session=before)
        helix.until(lambda: helix.stat(N1.live) is not None, "it is live again")
        assert helix.names(N1.sessions) == [helix.live_session("n1")]
        assert (helix.state("n1"), n1.held, n1.token(LOCK), n1.holds(LOCK)) == ("RELEASED", (), None, False)
        helix.until(lambda: not helix.pending("n1"), "the old message is removed")
        helix.sleep_ms(20)
        assert ear.heard == [("granted", LOCK, zxid), ("lost", LOCK, "session ended")]
        again = helix.executed("n1", "RELEASED", "LOCKED")
        assert again > zxid
        assert (n1.token(LOCK), n1.holds(LOCK), helix.state("n1")) == (again, True, "LOCKED")

    helix.play(script)


def test_a_holder_that_is_cut_off_stops_in_time():
    """T17, Z10: it stops, and is told, before the session ends; not when it is connected again."""
    cut = Partition(id="p", groups=(("n1",), ("zk",)), at_ns=10 * NS_PER_S, for_ns=6 * NS_PER_S)
    helix = Helix(plan=FaultPlan.of(cut))
    n1, ear, _ = helix.participant("n1")

    def script() -> None:
        helix.join(n1, "n1")
        zxid = helix.executed("n1", "RELEASED", "LOCKED")
        while helix.stat(N1.live) is not None:
            was_told = ("lost", LOCK, "session suspended") in ear.heard
            assert not (was_told and n1.holds(LOCK))
            helix.sleep_ms(1)
        assert (n1.holds(LOCK), n1.held) == (False, ())
        assert ear.heard == [("granted", LOCK, zxid), ("lost", LOCK, "session suspended")]
        helix.until(lambda: helix.stat(N1.live) is not None, "it is live again")
        helix.sleep_ms(100)
        assert (len(ear.heard), n1.held, helix.state("n1")) == (2, (), "RELEASED")

    helix.play(script)


def test_a_session_that_fell_silent_and_lives_gives_the_lock_back_to_its_holder():
    """Under the same token: nobody else had it meanwhile."""
    helix = Helix()
    n1, ear, channel = helix.participant("n1")

    def silent(request: Request, ask: Asked) -> Reply:
        return ask(request) if n1._session.state is SessionState.SUSPENDED else TIMED_OUT

    def script() -> None:
        helix.join(n1, "n1")
        zxid = helix.executed("n1", "RELEASED", "LOCKED")
        channel.disturb = silent
        helix.until(lambda: ("lost", LOCK, "session suspended") in ear.heard, "it is suspended")
        channel.disturb = undisturbed
        helix.until(lambda: n1.holds(LOCK), "it is connected again")
        helix.sleep_ms(100)
        assert ear.heard == [("granted", LOCK, zxid), ("lost", LOCK, "session suspended"), ("granted", LOCK, zxid)]
        assert (n1.token(LOCK), helix.state("n1")) == (zxid, "LOCKED")

    helix.play(script)


def test_a_lock_that_is_taken_back_while_suspended_does_not_come_back():
    """The message arrives before the participant hears that it is connected again."""
    helix = Helix()
    n1, ear, channel = helix.participant("n1")

    def script() -> None:
        helix.join(n1, "n1")
        zxid = helix.executed("n1", "RELEASED", "LOCKED")
        # Every keep-alive is lost, and nothing else is asked: it falls silent, and its session lives on by our hand.
        channel.disturb = lambda request, ask: TIMED_OUT if request.verb == PING else ask(request)
        helix.until(lambda: ("lost", LOCK, "session suspended") in ear.heard, "it is suspended")
        helix.executed("n1", "LOCKED", "RELEASED")
        helix.sleep_ms(500)
        assert (n1.held, n1.token(LOCK), helix.state("n1")) == ((), None, "RELEASED")
        grants = [each for each in ear.heard if each[0] == "granted"]
        assert set(grants) == {("granted", LOCK, zxid)}

    helix.play(script)


def noting_departure(n1: Participant, seen: list[bool]) -> Disturbance:
    def disturb(request: Request, ask: Asked) -> Reply:
        if request.verb in (MULTI, CLOSE):
            seen.append(n1.holds(LOCK))
        return ask(request)

    return disturb


def test_who_leaves_stops_first_and_says_that_nothing_is_held():
    """Then others need not wait for the end of its session; the state that stays behind is not LOCKED."""
    helix = Helix()
    n1, ear, channel = helix.participant("n1")
    seen: list[bool] = []

    def script() -> None:
        helix.join(n1, "n1")
        helix.executed("n1", "RELEASED", "LOCKED")
        path = N1.current_state(helix.live_session("n1"), RESOURCE)
        channel.disturb = noting_departure(n1, seen)
        helix.on("n1", n1.leave)
        assert len(seen) == 2
        assert not any(seen)
        assert helix.stat(N1.live) is None
        body = helix.body(path)
        assert body is not None
        assert b'"LOCKED"' not in body.split(b"PREVIOUS_STATE")[0]
        assert b"FENCING_TOKEN" not in body
        assert ear.heard[-1] == ("revoked", LOCK)
        helix.on("n1", n1.leave)

    helix.play(script)


def test_a_departure_that_nobody_confirms_is_told():
    """ReleaseFailed while nobody answers; LockLost once the session is known to be over. Either way nothing is held."""
    helix = Helix()
    n1, _, first = helix.participant("n1")
    n2, _, _ = helix.participant("n2")

    def script() -> None:
        for each, name in ((n1, "n1"), (n2, "n2")):
            helix.join(each, name)
            helix.executed(name, "RELEASED", "LOCKED")
        first.disturb = request_lost
        with pytest.raises(ReleaseFailed, match="nobody confirmed it"):
            helix.on("n1", n1.leave)
        assert helix.service.tamper("expire_session", "n2") == 1
        with pytest.raises(LockLost):
            helix.on("n2", n2.leave)
        assert (n1.held, n2.held) == ((), ())

    helix.play(script)


def test_a_departure_that_never_lands_is_told_though_the_session_ends():
    """The states of the instance still say that it holds: whoever reads them alone is not told otherwise."""
    helix = Helix()
    n1, _, channel = helix.participant("n1")

    def departure_lost(request: Request, ask: Asked) -> Reply:
        return request_lost(request, ask) if request.verb == MULTI and N1.live in paths_of(request) else ask(request)

    def script() -> None:
        helix.join(n1, "n1")
        helix.executed("n1", "RELEASED", "LOCKED")
        channel.disturb = departure_lost
        with pytest.raises(ReleaseFailed, match="its session has ended"):
            helix.on("n1", n1.leave)
        assert helix.stat(N1.live) is None

    helix.play(script)


def test_a_departure_whose_answer_was_lost_is_confirmed_by_what_is_gone():
    """The second attempt finds nothing to remove, because the first one has landed: the lock is given back."""
    helix = Helix()
    n1, _, channel = helix.participant("n1")
    left = [1]

    def lost_once(request: Request, ask: Asked) -> Reply:
        if request.verb == MULTI and N1.live in paths_of(request) and left[0]:
            left[0] -= 1
            return reply_lost(request, ask)
        return ask(request)

    def script() -> None:
        helix.join(n1, "n1")
        helix.executed("n1", "RELEASED", "LOCKED")
        channel.disturb = lost_once
        helix.on("n1", n1.leave)
        assert (left, n1.held) == ([0], ())

    helix.play(script)


def test_an_instance_that_was_removed_has_lost_its_locks():
    """Somebody removes its znode while it leaves, so its departure fails as a whole. Its session ends all the same."""
    helix = Helix()
    n1, _, channel = helix.participant("n1")

    def removed_first(request: Request, ask: Asked) -> Reply:
        if request.verb == MULTI and N1.live in paths_of(request):
            helix.remove(N1.live)
        return ask(request)

    def script() -> None:
        helix.join(n1, "n1")
        helix.executed("n1", "RELEASED", "LOCKED")
        channel.disturb = removed_first
        with pytest.raises(LockLost, match="was removed from the cluster before it left"):
            helix.on("n1", n1.leave)
        assert n1.held == ()
        assert helix.service.tamper("expire_session", "n1") == 0, "its session has ended"

    helix.play(script)


def test_both_clocks_must_agree_that_the_session_lives():
    """U2: the monotonic clock may stand still in a machine that is suspended, and the wall clock then tells."""
    helix = Helix()
    n1, _, _ = helix.participant("n1")
    answers: list[Any] = []

    def script() -> None:
        helix.join(n1, "n1")
        helix.executed("n1", "RELEASED", "LOCKED")
        session = n1._session
        now = session._stamp()
        for mono_s, wall_s in ((0, 0), (1, 1), (0, 3), (3, 0)):
            later = now._replace(mono_ns=now.mono_ns + mono_s * NS_PER_S, wall_ns=now.wall_ns + wall_s * NS_PER_S)
            session._stamp = lambda later=later: later  # type: ignore[method-assign, misc]
            session._confirmed = now
            answers.append(n1.holds(LOCK))
        session._confirmed = now
        span_ns = SESSION_NS * 1_000_000 // 1_010_000
        for more_ns in (-1, 0):
            later = now._replace(mono_ns=now.mono_ns + span_ns + more_ns)
            session._stamp = lambda later=later: later  # type: ignore[method-assign, misc]
            answers.append(n1.holds(LOCK))
        del session._stamp
        assert answers == [True, True, False, False, True, False]

    helix.play(script)


def test_who_is_removed_from_the_live_instances_stops_and_joins_again():
    """Its locks go to others although its session lasts, so it must not work on."""
    helix = Helix()
    n1, ear, _ = helix.participant("n1")

    def script() -> None:
        helix.join(n1, "n1")
        zxid = helix.executed("n1", "RELEASED", "LOCKED")
        before = helix.live_session("n1")
        helix.remove(N1.live)
        helix.until(lambda: not n1.holds(LOCK), "it stops")
        helix.until(lambda: helix.stat(N1.live) is not None, "it is live again")
        assert helix.live_session("n1") != before
        assert ear.heard == [("granted", LOCK, zxid), ("lost", LOCK, "removed from the live instances")]
        assert (n1.held, helix.state("n1")) == ((), "RELEASED")

    helix.play(script)


def test_what_is_nonsense_below_an_instance_stops_nothing_else():
    """HJ9: an earlier session's states that cannot be read, a stranger's folders, a message of an unknown model."""
    helix = Helix()
    n1, _, _ = helix.participant("n1")

    def script() -> None:
        helix.join(n1, "n1")
        helix.sleep_ms(100)
        helix.on("n1", n1.leave)
        helix.put(N1.current_states("abc"), b"")
        helix.put(N1.current_state("abc", "garbage"), b"{")
        helix.put(N1.current_state("abc", "nameless"), ZNRecord("nameless", {"STATE_MODEL_DEF": "no-model"}).to_json())
        helix.put(N1.current_state("abc", "deep"), ZNRecord("deep", {"STATE_MODEL_DEF": "lock-unlock"}).to_json())
        helix.put(f"{N1.current_state('abc', 'deep')}/below", b"?")
        again, heard, _ = helix.participant("n1", node="second")
        helix.join_as(again, "n1", "second")
        assert helix.names(N1.sessions) == [helix.live_session("n1")]
        assert len(heard.alarms) == 2
        strange = Message(
            id="strange", instance="n1", session=helix.live_session("n1"), resource="other", lock="other_0",
            model="no-model", source="A", target="B",
        )  # fmt: skip
        helix.put(N1.message("strange"), strange.to_record().to_json())
        zxid = helix.send("n1", "RELEASED", "LOCKED")
        helix.until(lambda: again.holds(LOCK), "the other message is executed")
        assert again.token(LOCK) == zxid
        assert helix.pending("n1") == ["strange"]
        assert "cannot be executed" in heard.alarms[-1]

    helix.play(script)


def test_a_lock_too_many_waits(monkeypatch: pytest.MonkeyPatch):
    """A record that would not fit is not begun: the message stays, nothing is half-written, and the rest goes on."""
    helix = Helix()
    n1, ear, _ = helix.participant("n1")

    def script() -> None:
        for module in ("current_states", "transitions", "arrival"):
            monkeypatch.setattr(f"lockref.helix.participant.{module}.STATES_BYTES_MAX", 700)
        helix.join(n1, "n1")
        for number in range(80):
            helix.send("n1", "RELEASED", "LOCKED", lock=f"{RESOURCE}_{number}")
        helix.sleep_ms(7000)
        taken = len(n1.held)
        assert 0 < taken < 80
        assert len(helix.pending("n1")) == 80 - taken
        assert any("is not taken: n1 has" in each for each in ear.alarms)
        for lock in n1.held:
            helix.send("n1", "LOCKED", "DROPPED", lock=lock)
        helix.until(lambda: not helix.pending("n1"), "there is room for the others")

    helix.play(script)


def test_who_leaves_is_granted_nothing_any_more():
    """T13, Z20: a lock was being taken when the instance left. The cluster knows it gone, and gives it to another."""
    helix = Helix(locks=2)
    slow = {**ALL_HANDLED, ("RELEASED", "LOCKED"): lambda message: helix.sleep_ms(1000 * (message.lock == LOCK))}
    n1, ear, channel = helix.participant("n1", handlers=slow)
    at_closing: list[tuple[bool, bool]] = []

    def close_late(request: Request, ask: Asked) -> Reply:
        if request.verb == CLOSE:
            helix.sleep_ms(900)
            at_closing.append((helix.stat(N1.live) is not None, n1.holds(LOCK)))
        return ask(request)

    def script() -> None:
        helix.join(n1, "n1")
        helix.executed("n1", "RELEASED", "LOCKED", lock=f"{RESOURCE}_1")
        helix.send("n1", "RELEASED", "LOCKED")
        helix.sleep_ms(500)
        channel.disturb = close_late
        helix.on("n1", n1.leave)
        assert at_closing == [(False, False)]
        assert [each[0] for each in ear.heard] == ["granted", "revoked"]

    helix.play(script)


def test_a_message_that_crosses_a_departure_raises_no_alarm():
    """Who leaves has said that it gives everything back; the controller, too, had asked for that, a moment before."""
    helix = Helix()
    n1, ear, channel = helix.participant("n1")
    crossed: list[str] = []

    def read_late(request: Request, ask: Asked) -> Reply:
        reply = ask(request)
        if request.verb == GET and request.key.startswith(f"{N1.messages}/"):
            helix.until(lambda: helix.stat(N1.live) is None, "it has left")
            crossed.append(request.key)
        elif request.verb == CLOSE:
            helix.sleep_ms(200)
        return reply

    def script() -> None:
        helix.join(n1, "n1")
        helix.executed("n1", "RELEASED", "LOCKED")
        channel.disturb = read_late
        helix.send("n1", "LOCKED", "DROPPED")
        helix.sleep_ms(50)
        helix.on("n1", n1.leave)
        helix.sleep_ms(500)
        assert crossed
        assert ear.alarms == []

    helix.play(script)


def test_a_refusal_after_a_controller_was_stopped_raises_no_alarm():
    """It stops calmly: what its last requests meet, its connection closed, is nothing that an operator can mend."""
    helix = Helix()
    n1, _, _ = helix.participant("n1")
    controller, channel = helix.controller()
    stopped: list[bool] = []

    def refused_at_the_end(request: Request, ask: Asked) -> Reply:
        if request.verb != CHILDREN:
            return ask(request)
        helix.until(lambda: bool(stopped), "it is stopped")
        return refused(request, ask)

    def script() -> None:
        helix.join(n1, "n1")
        helix.start("controller", controller.run)
        helix.until(lambda: n1.holds(LOCK), "it leads, and grants")
        helix.sleep_ms(100)
        channel.disturb = refused_at_the_end
        ideal = PATHS.ideal_state(RESOURCE)
        helix.put(ideal, helix.body(ideal) or b"")
        helix.remove(N1.live)
        helix.sleep_ms(50)
        controller.stop()
        stopped.append(True)
        helix.sleep_ms(1000)
        assert helix.alarms == []

    helix.play(script)


def test_who_was_removed_while_it_was_silent_takes_nothing_up_again():
    """Z14: nobody told it, for the watch was lost with the connection. Its session lasts, and its locks are others'."""
    helix = Helix()
    n1, ear, channel = helix.participant("n1")
    receive = channel.receive

    def deaf(timeout_ns: int | None) -> object | None:
        message = receive(timeout_ns)
        while isinstance(message, WatchEvent) and message.path == N1.live:
            message = receive(timeout_ns)
        return message

    def silent(request: Request, ask: Asked) -> Reply:
        return ask(request) if n1._session.state is SessionState.SUSPENDED else TIMED_OUT

    def script() -> None:
        channel.receive = deaf  # type: ignore[method-assign]
        helix.join(n1, "n1")
        zxid = helix.executed("n1", "RELEASED", "LOCKED")
        channel.disturb = silent
        helix.until(lambda: ("lost", LOCK, "session suspended") in ear.heard, "it is suspended")
        helix.remove(N1.live)
        channel.disturb = undisturbed
        helix.until(lambda: helix.stat(N1.live) is not None, "it is live again")
        helix.sleep_ms(100)
        assert ear.heard == [("granted", LOCK, zxid), ("lost", LOCK, "session suspended")]
        assert (n1.held, n1.holds(LOCK), helix.state("n1")) == ((), False, "RELEASED")

    helix.play(script)


def test_who_is_silent_for_long_gets_everything_back():
    """Each request that nobody answers says that the session is suspended; what was held before the first counts."""
    helix = Helix()
    n1, ear, channel = helix.participant("n1")

    def script() -> None:
        helix.join(n1, "n1")
        zxid = helix.executed("n1", "RELEASED", "LOCKED")
        channel.disturb = request_lost
        helix.until(lambda: ("lost", LOCK, "session suspended") in ear.heard, "it is suspended")
        helix.sleep_ms(300)
        channel.disturb = undisturbed
        helix.until(lambda: n1._session.state is SessionState.CONNECTED, "it is connected again")
        helix.sleep_ms(300)
        assert (n1.holds(LOCK), n1.token(LOCK), helix.state("n1")) == (True, zxid, "LOCKED")

    helix.play(script)


def test_a_message_under_another_name_is_removed_unexecuted():
    """HJ10, T28: its answer would remove another znode, so nobody would see that it was executed."""
    helix = Helix()
    n1, ear, _ = helix.participant("n1")

    def script() -> None:
        helix.join(n1, "n1")
        order = Message(
            id="elsewhere", instance="n1", session=helix.live_session("n1"), resource=RESOURCE, lock=LOCK,
            model="lock-unlock", source="RELEASED", target="LOCKED",
        )  # fmt: skip
        helix.put(N1.message("here"), order.to_record().to_json())
        helix.until(lambda: not helix.pending("n1"), "it is removed")
        helix.sleep_ms(100)
        assert (n1.held, helix.state("n1", LOCK)) == ((), "")
        assert "removed unexecuted" in ear.alarms[-1]

    helix.play(script)
