"""What a leader sent earlier does not land beside what is decided later."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lockref.coordination.port import (
    CHILDREN,
    CLOSE,
    CONNECT,
    MULTI,
    PING,
    SYNC,
    Failure,
    SessionState,
    change,
    create,
    delete,
    failed,
)
from lockref.helix.records.zn_record import ZNRecord
from lockref.ports import TIMED_OUT, Reply, Request
from lockref.runtime import NS_PER_S
from lockref.words import Outcome
from tests.sim.helix_world import PATHS, RESOURCE, Asked, Helix, paths_of, undisturbed

LOCK = f"{RESOURCE}_0"


def is_batch(request: Request) -> bool:
    return request.verb == MULTI and any("/MESSAGES/" in path for path in paths_of(request))


@pytest.mark.parametrize("checks_leadership", [True, False])
def test_a_batch_that_arrives_late(checks_leadership: bool):
    """Z11, T18: it names the version of HISTORY, which has changed since. Without that two hold: so this can fail."""
    helix = Helix(rebalancer="mod")
    a, _, _ = helix.participant("a")
    b, _, _ = helix.participant("b")
    controller, channel = helix.controller(checks_leadership=checks_leadership)
    late: list[Callable[[], Reply]] = []

    def first_one_late(request: Request, ask: Asked) -> Reply:
        if not is_batch(request) or late:
            return ask(request)
        late.append(lambda: ask(request))
        while helix.stat(PATHS.instance("a").live) is None:
            helix.sleep_ms(1)
        return TIMED_OUT

    def script() -> None:
        helix.join(b, "b")
        channel.disturb = first_one_late
        helix.start("controller", controller.run)
        helix.until(lambda: bool(late), "b is sent the lock, and nobody hears whether that arrives")
        helix.join(a, "a")
        helix.until(lambda: a.holds(LOCK), "a, which comes first by the rule, is granted the lock")
        reply = helix.on("controller", late[0])
        assert (reply.outcome is Outcome.APPLIED) != checks_leadership
        if not checks_leadership:
            helix.until(lambda: a.holds(LOCK) and b.holds(LOCK), "two hold")
            return
        helix.sleep_ms(1000)
        assert (a.holds(LOCK), b.holds(LOCK)) == (True, False)

    helix.play(script)


def test_who_finds_out_late_that_it_has_led_sends_nothing():
    """T20: the answer to its election is lost; it looks whose LEADER is, and leads once, not twice."""
    helix = Helix()
    a, _, _ = helix.participant("a")
    controller, channel = helix.controller()
    lost: list[str] = []

    def elections_unheard(request: Request, ask: Asked) -> Reply:
        reply = ask(request)
        is_election = request.key in (PATHS.leader, PATHS.leader_history) and request.verb in ("create", MULTI)
        if is_election and lost.count(request.key) < 2:
            lost.append(request.key)
            return TIMED_OUT
        return reply

    def script() -> None:
        helix.join(a, "a")
        channel.disturb = elections_unheard
        helix.start("controller", controller.run)
        helix.until(lambda: a.holds(LOCK), "it leads")
        assert lost == [PATHS.leader, PATHS.leader_history, PATHS.leader_history]
        assert helix.names(f"{PATHS.leader_history.rpartition('/')[0]}").count("LEADER") == 1
        # The book is that of the last entry, so no batch of an earlier one could pass.
        term = helix.stat(PATHS.leader_history)
        assert term is not None
        assert f'"TERM":"{term.version}"'.encode() in (helix.body(PATHS.grants) or b"")

    helix.play(script)


def test_who_may_not_list_the_views_leads_all_the_same():
    """Nobody decides by a view. It would keep LEADER, write HISTORY again and again, and decide nothing."""
    helix = Helix()
    a, _, _ = helix.participant("a")
    former, _ = helix.controller("former")
    controller, channel = helix.controller()

    def refused(request: Request, ask: Asked) -> Reply:
        is_listing = request.verb == CHILDREN and request.key == PATHS.external_views
        return failed(Failure.NO_AUTH, request.key) if is_listing else ask(request)

    def script() -> None:
        helix.start("former", former.run)
        helix.until(lambda: former.is_leader, "somebody has led")
        helix.on("former", former.stop)
        channel.disturb = refused
        helix.start("controller", controller.run)
        helix.join(a, "a")
        helix.until(lambda: a.holds(LOCK), "it leads, and grants")
        assert [each.text for each in helix.alarms if "EXTERNALVIEW cannot be listed" in each.text]

    helix.play(script)


def test_a_batch_is_refused_once_leader_is_removed():
    """Z11: who was deposed by hand sends nothing, also as long as no successor has written HISTORY."""
    helix = Helix()
    a, _, _ = helix.participant("a")
    controller, channel = helix.controller()
    outcomes: list[Outcome] = []

    def deposed(request: Request, ask: Asked) -> Reply:
        if not is_batch(request):
            return ask(request)
        if not outcomes:
            helix.remove(PATHS.leader)
        reply = ask(request)
        outcomes.append(reply.outcome)
        return reply

    def script() -> None:
        channel.disturb = deposed
        helix.start("controller", controller.run)
        helix.join(a, "a")
        helix.until(lambda: a.holds(LOCK), "it leads again, and grants")
        assert outcomes == [Outcome.PRECONDITION_FAILED, Outcome.APPLIED]

    helix.play(script)


def test_a_leader_that_is_stopped_in_the_middle_of_a_pass_ends():
    """Whoever stops it is another thread: the pass under way has decided, and may send until its session is closed."""
    helix = Helix()
    a, _, _ = helix.participant("a")
    controller, channel = helix.controller()
    told: list[str] = []

    def stopped_while_it_reads(request: Request, ask: Asked) -> Reply:
        if request.verb == CLOSE:
            helix.sleep_ms(50)
        elif "/CURRENTSTATES" in request.key and not told:
            told.append("stop")
            helix.world.node("controller").process.runtime.spawn(controller.stop, name="stops it")
            helix.sleep_ms(5)
        return ask(request)

    def run() -> None:
        controller.run()
        told.append("ended")

    def script() -> None:
        helix.join(a, "a")
        channel.disturb = stopped_while_it_reads
        helix.start("controller", run)
        helix.until(lambda: told == ["stop", "ended"], "the pass ends, and the run with it")
        assert not controller.is_leader

    helix.play(script)


def test_leader_that_is_made_again_by_the_same_session_begins_another_reign():
    """T28: a request that landed late, after a leader of another make, which may have undone what the book says."""
    helix = Helix()
    a, _, _ = helix.participant("a")
    controller, _ = helix.controller()

    def script() -> None:
        helix.join(a, "a")
        helix.start("controller", controller.run)
        helix.until(lambda: a.holds(LOCK), "it leads")
        leader, book = helix.stat(PATHS.leader), helix.stat(PATHS.grants)
        assert leader is not None
        assert book is not None
        body, history = helix.body(PATHS.leader), ZNRecord("HISTORY").to_json()
        again = (delete(PATHS.leader), create(PATHS.leader, body or b"", is_ephemeral=True))
        assert helix.service._decide(leader.owner, (*again, change(PATHS.leader_history, history))).failure is None
        helix.executed("a", "LOCKED", "DROPPED")
        helix.until(lambda: a.holds(LOCK), "it leads on, and grants again")
        renewed = helix.stat(PATHS.grants)
        assert renewed is not None
        assert renewed.created_zxid > book.created_zxid

    helix.play(script)


def test_the_removal_of_leader_is_noticed_in_a_crowd_of_events():
    """Z14: other events follow it before the controller looks, and there is nothing to send."""
    helix = Helix()
    a, _, _ = helix.participant("a")
    controller, channel = helix.controller()
    crowds: list[str] = []

    def crowd(request: Request, ask: Asked) -> Reply:
        if not crowds and request.verb == CHILDREN:
            crowds.append(request.key)
            helix.remove(PATHS.leader)
            helix.put(PATHS.instance("a").config, helix.body(PATHS.instance("a").config) or b"")
            helix.sleep_ms(50)
        return ask(request)

    def script() -> None:
        helix.join(a, "a")
        helix.start("controller", controller.run)
        helix.until(lambda: a.holds(LOCK), "it leads")
        helix.sleep_ms(100)
        channel.disturb = crowd
        ideal = PATHS.ideal_state(RESOURCE)
        helix.put(ideal, helix.body(ideal) or b"")
        helix.until(lambda: bool(crowds), "a pass is disturbed")
        helix.sleep_ms(1000)
        assert helix.stat(PATHS.leader) is not None

    helix.play(script)


def test_a_leader_that_is_connected_again_sees_what_happened_meanwhile():
    """Z14: its server follows 20 s late; without `sync` it would decide by what was before the silence."""
    helix = Helix(lags_ns=(0, 20 * NS_PER_S))
    a, _, _ = helix.participant("a")
    controller, channel = helix.controller()

    def script() -> None:
        helix.join(a, "a")
        helix.start("controller", controller.run)
        helix.until(lambda: a.holds(LOCK), "it leads")
        channel.disturb = lambda _request, _ask: TIMED_OUT
        helix.until(lambda: controller._session.state is SessionState.SUSPENDED, "nobody answers it")
        helix.put(PATHS.instance("a").config, ZNRecord("a", {"HELIX_ENABLED": "false"}).to_json())
        seen = len(helix.passes)
        channel.disturb = undisturbed
        helix.until(lambda: len(helix.passes) > seen, "it decides again")
        assert list(helix.passes[-1].snapshot.disabled) == ["a"]

    helix.play(script)


def test_of_two_controllers_one_leads():
    """Z11: LEADER belongs to another session, so the second stands by: it writes nothing, and does not believe."""
    helix = Helix()
    first, _ = helix.controller("first")
    second, channel = helix.controller("second")
    written: list[str] = []

    def noting(request: Request, ask: Asked) -> Reply:
        if request.verb == MULTI:
            written.extend(paths_of(request))
        return ask(request)

    def script() -> None:
        channel.disturb = noting
        helix.start("first", first.run)
        helix.until(lambda: first.is_leader, "the first leads")
        helix.start("second", second.run)
        helix.sleep_ms(3000)
        assert (first.is_leader, second.is_leader, written) == (True, False, [])
        helix.on("first", first.stop)
        helix.until(lambda: second.is_leader, "the second follows")

    helix.play(script)


def test_a_leader_asks_for_sync_before_it_is_elected_and_after_every_break():
    """Z12, Z14: a server that lags would show it an old cluster; a break that cost no request hides changes, too."""
    helix = Helix()
    controller, channel = helix.controller()
    asked: list[str] = []

    def noting(request: Request, ask: Asked) -> Reply:
        if request.verb != PING:
            asked.append(request.verb)
        return ask(request)

    def script() -> None:
        channel.disturb = noting
        helix.start("controller", controller.run)
        helix.until(lambda: bool(helix.passes), "it leads")
        assert asked[:2] == [CONNECT, SYNC]
        helix.sleep_ms(500)
        asked.clear()
        controller._session._put(SessionState.CONNECTED)
        helix.until(lambda: bool(asked), "it looks anew")
        assert asked[0] == SYNC

    helix.play(script)


def test_history_keeps_the_last_ten_leaders():
    """As in Helix: the newest one is the last, and the oldest goes."""
    helix = Helix()
    controller, _ = helix.controller()

    def script() -> None:
        former = [f"{{CONTROLLER=c{number}, SESSION={number}}}" for number in range(10)]
        lists = {"HISTORY": former, PATHS.cluster: [f"c{number}" for number in range(10)]}
        helix.put(PATHS.leader_history, ZNRecord("HISTORY", {}, {}, lists).to_json())
        helix.start("controller", controller.run)
        helix.until(lambda: controller.is_leader, "it leads")
        found = ZNRecord.from_json(helix.body(PATHS.leader_history), PATHS.leader_history)
        assert found.lists["HISTORY"][:-1] == former[1:]
        assert found.lists["HISTORY"][-1].startswith("{CONTROLLER=controller, SESSION=")
        assert found.lists[PATHS.cluster] == [*(f"c{number}" for number in range(1, 10)), "controller"]

    helix.play(script)
