"""What participants of another make, and strangers, may write or leave out, and what our controller makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from lockref.coordination.port import DELETE, Call
from lockref.helix.grants import Page
from lockref.helix.participant.participant import Participant
from lockref.helix.pipeline import AlarmKind
from lockref.helix.records import layout
from lockref.helix.records.messages import Message
from lockref.helix.records.zn_record import ZNRecord
from lockref.ports import Reply, Request
from tests.sim.helix_world import CLUSTER, PATHS, RESOURCE, Asked, Helix, undisturbed
from tests.sim.test_helix_participant import is_execution

LOCKS = tuple(f"{RESOURCE}_{number}" for number in range(4))
OTHER_LEADER = ZNRecord("HISTORY", lists={"HISTORY": ["{CONTROLLER=another}"]}).to_json()


def mute(request: Request, ask: Asked) -> Reply:
    """It executes messages and removes them, and does not say what it holds (HJ8, T28)."""
    assert isinstance(request.body, Call)
    removals = tuple(each for each in request.body.operations if each.verb == DELETE and "/MESSAGES/" in each.path)
    if not (removals and is_execution(request)):
        return ask(request)
    return ask(request._replace(key=removals[0].path, body=Call(request.body.session, removals)))


def kinds(helix: Helix) -> list[AlarmKind]:
    return [alarm.kind for alarm in helix.alarms]


def made(helix: Helix, instance: str) -> int:
    """How many messages were ever made for an instance."""
    folder = helix._tree._znodes[PATHS.instance(instance).messages]
    return folder.births


def holders(*participants: Participant) -> dict[str, int]:
    return {lock: sum(each.holds(lock) for each in participants) for lock in LOCKS}


class Two:
    """Instances a and b, a controller c1; a holds every lock before b comes."""

    def __init__(self, rebalancer: str = "mod") -> None:
        self.helix = Helix(locks=4, rebalancer=rebalancer)
        self.a, self.heard_a, self.channel_a = self.helix.participant("a")
        self.b, self.heard_b, self.channel_b = self.helix.participant("b")
        self.c1, _ = self.helix.controller("c1")

    def a_holds_all(self) -> None:
        helix = self.helix
        helix.join(self.a, "a")
        helix.start("c1", self.c1.run)
        helix.until(lambda: len(self.a.held) == 4, "a holds all")

    def fail_over(self, crashed: str = "c1", to: str = "c2") -> None:
        """Another controller leads."""
        self.helix.world.node(crashed).crash()
        second, _ = self.helix.controller(to)
        self.helix.start(to, second.run)
        self.helix.until(lambda: second.is_leader, f"{to} leads")
        self.helix.sleep_ms(500)

    def play(self, script: Callable[[], None]) -> None:
        self.helix.play(script)


@pytest.mark.parametrize("rebalancer", ["mod", "sticky"])
@pytest.mark.parametrize("changes", [0, 1, 3])
def test_who_removes_a_message_and_says_nothing_may_hold_the_lock(rebalancer: str, changes: int):
    """T28, HJ8: nobody else gets it, under however many leaders; nothing is sent again, until its session ends."""
    two = Two(rebalancer)
    helix, a, b = two.helix, two.a, two.b

    def script() -> None:
        two.channel_a.disturb = mute
        two.a_holds_all()
        helix.sleep_ms(3000)
        assert (helix.states("a"), made(helix, "a")) == ({}, 4)
        helix.join(b, "b")
        for number in range(changes):
            two.fail_over(f"c{number + 1}", f"c{number + 2}")
        helix.sleep_ms(5000)
        assert holders(a, b) == dict.fromkeys(LOCKS, 1)
        assert (made(helix, "a"), made(helix, "b"), b.held) == (4, 0, ())
        (alarm,) = {each.text for each in helix.alarms if each.kind is AlarmKind.UNKNOWN_HOLDER}
        assert "a may hold g_0, g_1, g_2 and 1 more: the message by which it was granted is gone" in alarm
        helix.world.node("a").crash()
        helix.until(lambda: b.held == LOCKS, "b holds all")

    two.play(script)


def test_who_tells_at_last_is_believed():
    """T28: what it reports counts, and the lock can be moved again."""
    two = Two()
    helix, b = two.helix, two.b

    def script() -> None:
        two.channel_a.disturb = mute
        two.a_holds_all()
        helix.join(b, "b")
        helix.sleep_ms(1000)
        path = PATHS.instance("a").current_state(helix.live_session("a"), RESOURCE)
        entry = {"CURRENT_STATE": "LOCKED"}
        simple = {"STATE_MODEL_DEF": "lock-unlock"}
        two.channel_a.disturb = undisturbed
        helix.put(path, ZNRecord(RESOURCE, simple, dict.fromkeys(LOCKS, entry)).to_json())
        helix.until(lambda: len(b.held) == 2, "b gets its share")
        assert holders(two.a, b) == dict.fromkeys(LOCKS, 1)

    two.play(script)


def test_an_order_that_has_no_effect_is_not_repeated_at_once():
    """HJ8: a holder that does not give back keeps the lock, and is told once in a while."""
    two = Two()
    helix, b = two.helix, two.b

    def script() -> None:
        two.a_holds_all()
        two.channel_a.disturb = mute
        helix.join(b, "b")
        helix.sleep_ms(10_000)
        assert made(helix, "a") == 6
        assert b.held == ()
        assert AlarmKind.UNHEEDED in kinds(helix)
        helix.sleep_ms(60_000)
        assert made(helix, "a") == 8
        assert b.held == ()

    two.play(script)


def test_a_book_that_another_leader_has_outdated_is_thrown_away():
    """A leader of another make moved the lock without writing it down: it must not stay blocked (T28)."""
    two = Two()
    helix, b = two.helix, two.b

    def script() -> None:
        two.a_holds_all()
        two.c1.stop()
        helix.put(PATHS.leader_history, OTHER_LEADER)
        helix.executed("a", "LOCKED", "DROPPED", lock=LOCKS[0])
        assert LOCKS[0] in Page.from_record(record(helix, PATHS.grants_of("a"))).told
        helix.join(b, "b")
        second, _ = helix.controller("c2")
        helix.start("c2", second.run)
        helix.until(lambda: len(b.held) == 2, "b gets its share")
        assert AlarmKind.UNKNOWN_HOLDER not in kinds(helix)

    two.play(script)


def test_a_leader_whose_history_is_written_by_another_leads_on():
    """Its batches name the version of HISTORY: it enters itself anew, and what it wrote down stays true."""
    two = Two()
    helix, b = two.helix, two.b

    def script() -> None:
        two.channel_a.disturb = mute
        two.a_holds_all()
        two.channel_a.disturb = undisturbed
        helix.put(PATHS.leader_history, b"no record")
        helix.join(b, "b")
        helix.sleep_ms(3000)
        assert b.held == ()
        assert two.c1.is_leader
        helix.world.node("a").crash()
        helix.until(lambda: b.held == LOCKS, "b holds all")
        assert ZNRecord.from_json(helix.body(PATHS.leader_history) or b"", "HISTORY").lists["HISTORY"]

    two.play(script)


def test_a_book_is_kept_by_a_leader_whose_history_was_written_by_a_stranger():
    """T28: it has led all the time, so the book is true, and the next leader must know who is in doubt."""
    two = Two()
    helix, a, b = two.helix, two.a, two.b
    newcomer, _, _ = helix.participant("n")

    def script() -> None:
        two.a_holds_all()
        two.channel_b.disturb = mute
        helix.join(b, "b")
        helix.until(lambda: b.held == (LOCKS[1], LOCKS[3]), "b has its share, and does not say so")
        helix.put(PATHS.leader_history, b"no record")
        helix.join(newcomer, "n")
        helix.until(lambda: newcomer.held == (LOCKS[2],), "the newcomer has what a gave back")
        two.fail_over()
        helix.sleep_ms(3000)
        assert holders(a, b, newcomer) == dict.fromkeys(LOCKS, 1)
        assert b.held == (LOCKS[1], LOCKS[3])

    two.play(script)


def test_a_page_that_somebody_has_removed_stops_no_hand_off():
    """T28: the batch that would change it fails; the leader looks which pages there are, and writes it anew."""
    two = Two()
    helix, b = two.helix, two.b

    def script() -> None:
        two.a_holds_all()
        helix.remove(PATHS.grants_of("a"))
        helix.join(b, "b")
        helix.until(lambda: len(b.held) == 2, "b gets its share")
        assert set(Page.from_record(record(helix, PATHS.grants_of("a"))).told) >= set(two.a.held)
        assert holders(two.a, b) == dict.fromkeys(LOCKS, 1)

    two.play(script)


def record(helix: Helix, path: str) -> ZNRecord:
    return ZNRecord.from_json(helix.body(path) or b"", path)


GARBAGE = (
    b"",
    b"{",
    b"[]",
    b'{"id": 1}',
    b'{"id":"x","mapFields":[]}',
    b'{"id":"x","mapFields":{"g_0":7}}',
    b"\x1f\x8b\x00",
)
"""No JSON, no record, half-written, of another make, badly compressed."""


@pytest.mark.parametrize("body", GARBAGE)
@pytest.mark.parametrize("is_failing_over", [False, True])
def test_states_that_cannot_be_read_free_no_lock(body: bytes, is_failing_over: bool):
    """HJ9: who holds behind them keeps what it holds, under a new leader, too; decisions go on for all others."""
    two = Two()
    helix, a, b = two.helix, two.a, two.b
    third, _, _ = helix.participant("c")

    def script() -> None:
        two.a_holds_all()
        helix.join(b, "b")
        helix.until(lambda: len(b.held) == 2, "b gets its share")
        helix.sleep_ms(500)
        path = PATHS.instance("a").current_state(helix.live_session("a"), RESOURCE)
        kept = a.held
        helix.put(path, body)
        if is_failing_over:
            two.fail_over()
        helix.sleep_ms(500)
        helix.on("b", b.leave)
        helix.join(third, "c")
        helix.until(lambda: set(third.held) >= {*LOCKS} - {*kept}, "c gets what b left")
        helix.sleep_ms(1000)
        assert {*third.held} & {*a.held} == set()
        texts = [alarm.text for alarm in helix.alarms if alarm.kind is AlarmKind.UNREADABLE]
        assert any(text.startswith(f"{path} holds no Helix record: ") for text in texts)

    two.play(script)


def test_states_that_nobody_could_ever_read_free_no_lock():
    """The instance was given its locks by a leader that wrote nothing down: it may hold all that nobody else holds."""
    two = Two()
    helix, a, b = two.helix, two.a, two.b

    def script() -> None:
        helix.join(a, "a")
        for lock in LOCKS:
            helix.executed("a", "RELEASED", "LOCKED", lock=lock)
        path = PATHS.instance("a").current_state(helix.live_session("a"), RESOURCE)
        helix.put(path, b"?")
        helix.join(b, "b")
        helix.start("c1", two.c1.run)
        helix.sleep_ms(3000)
        assert (holders(a, b), b.held) == (dict.fromkeys(LOCKS, 1), ())
        helix.on("a", a.leave)
        helix.until(lambda: b.held == LOCKS, "b holds all")

    two.play(script)


def test_a_lock_whose_state_is_not_told_is_granted_to_nobody_else():
    """HJ8, T28: an entry without a state, or with one that the model does not have."""
    two = Two()
    helix, a, b = two.helix, two.a, two.b

    def script() -> None:
        two.a_holds_all()
        path = PATHS.instance("a").current_state(helix.live_session("a"), RESOURCE)
        entries = [{"INFO": ""}, {"INFO": ""}, {"CURRENT_STATE": "MASTER"}, {"CURRENT_STATE": ""}]
        helix.put(path, ZNRecord(RESOURCE, maps=dict(zip(LOCKS, entries, strict=True))).to_json())
        helix.join(b, "b")
        helix.sleep_ms(5000)
        assert two.heard_b.heard == []
        assert {AlarmKind.UNREADABLE, AlarmKind.UNKNOWN_HOLDER} <= {*kinds(helix)}
        helix.on("a", a.leave)
        helix.until(lambda: b.held == LOCKS, "b holds all")

    two.play(script)


def second_resource(helix: Helix, **simple: str) -> str:
    path = PATHS.ideal_state("h")
    good = record(helix, PATHS.ideal_state(RESOURCE))
    fields = {**good.simple, **simple}
    helix.put(path, ZNRecord("h", fields, {"h_0": {}}, {}).to_json())
    return path


STRANGE_RESOURCES: Sequence[tuple[str, Callable[[Helix, str], None]]] = [
    ("holds no Helix record", lambda helix, path: helix.put(path, b"{")),
    ("STATE_MODEL_DEF_REF is missing", lambda helix, path: helix.put(path, ZNRecord("h", maps={"h_0": {}}).to_json())),
    ("is not there", lambda helix, _: helix.put(PATHS.ideal_state("h"), ideal("h", "nothing", "h_0"))),
    ("holds no state model", lambda helix, _: broken_model(helix)),
    (
        "names 'g_0', which is a lock of 'g'",
        lambda helix, path: helix.put(path, ideal("h", "lock-unlock", "g_0", "h_0")),
    ),
]


def ideal(name: str, model: str, *locks: str) -> bytes:
    simple = {"STATE_MODEL_DEF_REF": model, "REPLICAS": "1", "REBALANCER_CLASS_NAME": "mod"}
    return ZNRecord(name, simple, {lock: {} for lock in locks}).to_json()


def broken_model(helix: Helix) -> None:
    helix.put(PATHS.state_model("broken"), ZNRecord("broken").to_json())
    helix.put(PATHS.ideal_state("h"), ideal("h", "broken", "h_0"))


@pytest.mark.parametrize(("words", "damage"), STRANGE_RESOURCES, ids=[words for words, _ in STRANGE_RESOURCES])
def test_a_resource_that_cannot_be_read_is_left_alone(words: str, damage: Callable[[Helix, str], None]):
    """HJ9: its holders keep what they have, also those whose resource was readable before; others go on."""
    two = Two()
    helix, a, b = two.helix, two.a, two.b

    def script() -> None:
        path = second_resource(helix)
        helix.join(a, "a")
        helix.start("c1", two.c1.run)
        helix.until(lambda: len(a.held) == 5, "a holds all")
        damage(helix, path)
        helix.join(b, "b")
        helix.until(lambda: len(b.held) == 2, "b gets its share of the other resource")
        helix.sleep_ms(1000)
        assert "h_0" in a.held
        assert any(words in alarm.text and alarm.kind is AlarmKind.UNREADABLE for alarm in helix.alarms)

    two.play(script)


def live_without_folder(helix: Helix) -> None:
    helix.put(PATHS.instance("ghost").live, ZNRecord("ghost").to_json())


def live_unconfigured(helix: Helix) -> None:
    session, _ = helix.session("ghost")
    helix.start("ghost", lambda: session.start(helix.world.node("ghost").process.runtime, timeout_ns=2_000_000_000))
    helix.sleep_ms(200)
    helix.on("ghost", lambda: session.create(PATHS.instance("ghost").live, b"?", is_ephemeral=True))


@pytest.mark.parametrize("ghost", [live_without_folder, live_unconfigured])
def test_who_cannot_be_sent_a_message_gets_no_lock(ghost: Callable[[Helix], None]):
    """A znode in LIVEINSTANCES that belongs to no session, or to nobody who is configured, stops nobody."""
    two = Two()
    helix, b = two.helix, two.b

    def script() -> None:
        ghost(helix)
        two.a_holds_all()
        helix.join(b, "b")
        helix.until(lambda: len(b.held) == 2, "b gets its share")
        texts = [alarm.text for alarm in helix.alarms]
        assert any(text.startswith("ghost is sent nothing") for text in texts), texts

    two.play(script)


def test_who_belongs_to_no_session_keeps_what_it_says_to_hold():
    """Nobody knows when it ends, so nobody else gets that."""
    two = Two()
    helix, a = two.helix, two.a

    def script() -> None:
        paths = layout.InstancePaths(CLUSTER, "ghost")
        for path in (paths.root, paths.messages, paths.sessions, paths.current_states("1"), paths.current_states("2")):
            helix.put(path, b"")
        helix.put(paths.live, ZNRecord("ghost").to_json())
        states = {LOCKS[0]: {"CURRENT_STATE": "RELEASED"}, LOCKS[1]: {"CURRENT_STATE": "LOCKED"}}
        helix.put(paths.current_state("1", RESOURCE), ZNRecord(RESOURCE, maps=states).to_json())
        helix.put(paths.current_state("2", RESOURCE), ZNRecord(RESOURCE, maps={LOCKS[2]: states[LOCKS[1]]}).to_json())
        helix.join(a, "a")
        helix.start("c1", two.c1.run)
        helix.until(lambda: len(a.held) == 2, "a holds the rest")
        helix.sleep_ms(1000)
        assert a.held == (LOCKS[0], LOCKS[3])
        helix.remove(paths.live)
        helix.until(lambda: a.held == LOCKS, "a holds all")

    two.play(script)


def test_messages_that_are_no_orders_are_left_to_their_instance():
    """Unreadable ones of a live instance with an alarm; of another type without; of the dead, orders are removed."""
    two = Two()
    helix = two.helix

    def script() -> None:
        two.a_holds_all()
        helix.sleep_ms(500)
        dead = layout.InstancePaths(CLUSTER, "dead")
        for path in (dead.root, dead.messages):
            helix.put(path, b"")
        order = Message(
            id="order", instance="dead", session="1", resource=RESOURCE, lock=LOCKS[0], model="lock-unlock",
            source="RELEASED", target="LOCKED",
        )  # fmt: skip
        helix.put(dead.message("order"), order.to_record().to_json())
        helix.put(dead.message("nonsense"), b"{")
        helix.put(dead.message("note"), ZNRecord("note", {"MSG_TYPE": "USER_DEFINE_MSG"}).to_json())
        helix.put(dead.message("full"), replace(order, id="full").to_record().to_json())
        helix.put(f"{dead.message('full')}/below", b"")
        helix.until(lambda: helix.names(dead.messages) == ["full", "note"], "what is for nobody is removed")
        helix.join(two.b, "b")
        helix.until(lambda: len(two.b.held) == 2, "decisions go on")
        assert any("cannot be removed" in alarm.text for alarm in helix.alarms)

    two.play(script)


def test_a_leader_of_no_session_is_told():
    """Somebody has made LEADER by hand: nobody leads, and the operator hears why; nothing is written."""
    helix = Helix()
    controller, _ = helix.controller()

    def script() -> None:
        helix.put(PATHS.leader, b"me")
        before = helix.zxid
        helix.start("controller", controller.run)
        helix.until(lambda: bool(helix.alarms), "it is told")
        assert "belongs to no session: nobody leads until somebody removes it" in helix.alarms[0].text
        assert helix.zxid == before
        helix.remove(PATHS.leader)
        helix.until(lambda: controller.is_leader, "it leads")

    helix.play(script)


def test_a_configuration_that_cannot_be_read_disables_nobody():
    """An alarm, and the instance goes on."""
    two = Two()
    helix = two.helix

    def script() -> None:
        two.a_holds_all()
        helix.put(PATHS.instance("a").config, b"{")
        helix.join(two.b, "b")
        helix.until(lambda: len(two.b.held) == 2, "decisions go on")
        assert len(two.a.held) == 2
        assert any("a counts as enabled" in alarm.text for alarm in helix.alarms)

    two.play(script)


def test_what_may_be_nonsense_costs_no_message():
    """T27 with the book: as many messages as without; and it says at the end what is held."""
    two = Two()
    helix, b = two.helix, two.b

    def script() -> None:
        two.a_holds_all()
        helix.join(b, "b")
        helix.until(lambda: len(b.held) == 2, "b gets its share")
        helix.sleep_ms(500)
        assert (made(helix, "a"), made(helix, "b")) == (6, 2)
        assert {*Page.from_record(record(helix, PATHS.grants_of("a"))).told} == {*two.a.held}
        assert {*Page.from_record(record(helix, PATHS.grants_of("b"))).told} == {*b.held}

    two.play(script)
