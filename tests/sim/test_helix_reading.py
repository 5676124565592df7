"""What a controller asks its server for: a look at everything in every pass, and no body twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lockref.coordination.port import CHILDREN, EXISTS, GET
from lockref.helix.controller.asking import Asking
from lockref.helix.controller.looking import Looking
from lockref.helix.controller.reading import ClusterReader
from lockref.helix.grants import Page, Standing
from lockref.helix.pipeline import Semantics
from lockref.helix.rebalancers import load
from lockref.helix.records.zn_record import ZNRecord
from lockref.ports import TIMED_OUT, Reply, Request
from lockref.runtime import NS_PER_S
from tests.sim.helix_world import CLUSTER, PATHS, RESOURCE, Asked, Helix

LOCK = f"{RESOURCE}_0"


def reader_of(helix: Helix) -> Callable[[], ClusterReader]:
    """The call that starts, on the node "reader", what a controller reads with, and gives it."""
    session, _ = helix.session("reader")
    runtime = helix.world.node("reader").process.runtime
    looking = Looking(session, Asking(session, runtime).require)
    reader = ClusterReader(looking, PATHS, semantics=Semantics.OURS, rebalancer=load)

    def start() -> ClusterReader:
        session.start(runtime, timeout_ns=NS_PER_S)
        return reader

    return start


def test_a_pass_reads_no_body_again_that_has_not_changed():
    """Versions and lists alone are asked for, messages before current states (T27); what an operator writes is read."""
    helix = Helix(locks=3)
    participant, _, _ = helix.participant("a")
    controller, channel = helix.controller(period_ns=NS_PER_S)
    asked: list[tuple[str, str]] = []

    def noting(request: Request, ask: Asked) -> Reply:
        if request.verb in (GET, EXISTS, CHILDREN):
            asked.append((request.verb, request.key.removeprefix(f"/{CLUSTER}/")))
        return ask(request)

    def script() -> None:
        helix.join(participant, "a")
        helix.start("controller", controller.run)
        helix.until(lambda: len(participant.held) == 3 and not helix.pending("a"), "a holds all")
        helix.sleep_ms(2500)
        channel.disturb = noting
        passes = len(helix.passes)
        helix.until(lambda: len(helix.passes) == passes + 1, "one more pass")
        verbs = {verb for verb, _ in asked}
        assert verbs - {"exists", "children"} == set()
        folders = [path.split("/")[2] for verb, path in asked if path.startswith("INSTANCES/") and path.count("/") >= 2]
        assert folders == ["MESSAGES", "CURRENTSTATES", "CURRENTSTATES"]
        asked.clear()
        path = PATHS.instance("a").current_state(helix.live_session("a"), RESOURCE)
        body = helix.body(path)
        assert body is not None, "a reports what it holds"
        helix.put(path, body)
        passes = len(helix.passes)
        helix.until(lambda: len(helix.passes) == passes + 1, "the pass that the watch begins")
        assert [path for verb, path in asked if verb == GET] == [path.removeprefix(f"/{CLUSTER}/")]

    helix.play(script)


def test_a_session_that_ends_while_it_is_read_puts_nothing_in_doubt():
    """T28: it was read to live, then it ended, and its states went with it. That is no instance that says nothing."""
    helix = Helix(locks=3)
    participant, _, _ = helix.participant("a")
    controller, channel = helix.controller(period_ns=NS_PER_S)
    first: list[str] = []

    def between(request: Request, ask: Asked) -> Reply:
        if request.key == PATHS.instance("a").messages and not first:
            first.append(helix.live_session("a"))
            assert helix.service.tamper("expire_session", "a") == 1
            helix.until(lambda: helix.stat(PATHS.instance("a").live) is not None, "it is live again")
        return ask(request)

    def script() -> None:
        helix.join(participant, "a")
        helix.start("controller", controller.run)
        helix.until(lambda: len(participant.held) == 3 and not helix.pending("a"), "a holds all")
        helix.sleep_ms(100)
        channel.disturb = between
        helix.until(lambda: bool(first), "the session ends in the middle of a pass")
        helix.until(lambda: helix.stat(PATHS.instance("a").live) is not None, "it is live again")
        assert helix.live_session("a") != first[0]
        helix.until(
            lambda: [each["CURRENT_STATE"] for each in helix.states("a").values()] == ["LOCKED"] * 3, "as before"
        )
        assert helix.alarms == []

    helix.play(script)


def test_a_message_that_is_gone_is_forgotten():
    """A controller that leads for months must not remember every message that it ever sent."""
    helix = Helix(locks=3)
    participant, _, _ = helix.participant("a")
    controller, _ = helix.controller(period_ns=NS_PER_S)

    def script() -> None:
        helix.join(participant, "a")
        helix.start("controller", controller.run)
        helix.until(lambda: len(participant.held) == 3 and not helix.pending("a"), "a holds all")
        passes = len(helix.passes)
        helix.until(lambda: len(helix.passes) == passes + 2, "two more passes")
        assert controller._reader._messages == {}

    helix.play(script)


def test_a_recall_is_not_believed_while_the_states_cannot_be_read():
    """Granted, then recalled, and both messages are gone: what the instance said before either of them tells nothing.

    The last good word counts for what it says that the instance holds. That it did not hold is old news.
    """
    helix = Helix()
    participant, _, _ = helix.participant("a")
    start_reader = reader_of(helix)
    found: dict[str, tuple[str, list[str]]] = {}

    def reads() -> None:
        """What is thought of the replica of a, and what the page may leave out: before and after the damage."""
        reader = start_reader()
        live = helix.live_session("a")
        path = PATHS.instance("a").current_state(live, RESOURCE)
        pages = {"a": Page(live, {LOCK: Standing.RECALLED})}
        sound = helix.body(path)
        assert sound is not None, "a reports its states"
        for when, body in (("readable", sound), ("damaged", b"{"), ("never read", b"{"), ("mended", sound)):
            helix.put(path, body)
            if when == "never read":
                reader.forget()
            read = reader.read(pages, helix.zxid)
            doubt = read.snapshot.replicas[LOCK]["a"].doubt
            found[when] = (doubt, list(read.settled.get("a", [])))

    def script() -> None:
        helix.join(participant, "a")
        helix.executed("a", "RELEASED", "LOCKED")
        helix.executed("a", "LOCKED", "RELEASED")
        helix.on("reader", reads)

    helix.play(script)
    assert found == {
        "readable": ("", [LOCK]),
        "damaged": ("what it reports cannot be read", []),
        "never read": ("what it reports cannot be read", []),
        "mended": ("", [LOCK]),
    }


def test_the_last_good_report_counts_while_a_newer_one_is_nonsense():
    """HJ9: what the instance said that it holds, it holds, whatever has become of the znode."""
    helix = Helix()
    participant, _, _ = helix.participant("a")
    start_reader = reader_of(helix)
    states: list[str] = []

    def reads() -> None:
        reader = start_reader()
        live = helix.live_session("a")
        path = PATHS.instance("a").current_state(live, RESOURCE)
        pages = {"a": Page(live, {LOCK: Standing.GRANTED})}
        for _ in range(3):
            states.append(reader.read(pages, helix.zxid).snapshot.replicas[LOCK]["a"].state)
            helix.put(path, b"{")

    def script() -> None:
        helix.join(participant, "a")
        helix.executed("a", "RELEASED", "LOCKED")
        helix.on("reader", reads)

    helix.play(script)
    assert states == ["LOCKED"] * 3


@pytest.mark.parametrize(("text", "is_disabled"), [("false", True), ("FALSE", True), ("true", False), ("no", False)])
def test_an_instance_is_disabled_by_the_word_false_in_any_case(text: str, is_disabled: bool):
    """HELIX_ENABLED, as the original reads a truth value: any other word enables."""
    helix = Helix()
    participant, _, _ = helix.participant("a")
    start_reader = reader_of(helix)
    found: list[tuple[str, ...]] = []

    def reads() -> None:
        reader = start_reader()
        found.append(reader.read({}, helix.zxid).snapshot.disabled)

    def script() -> None:
        helix.join(participant, "a")
        helix.put(PATHS.instance("a").config, ZNRecord("a", {"HELIX_ENABLED": text}).to_json())
        helix.on("reader", reads)

    helix.play(script)
    assert found == [("a",) if is_disabled else ()]


def test_a_message_for_an_earlier_session_is_for_nobody():
    """Z20: its instance lives under another session. It holds no place, and the controller removes it."""
    helix = Helix()
    participant, _, channel = helix.participant("a")
    start_reader = reader_of(helix)

    def reads() -> None:
        reader = start_reader()
        snapshot = reader.read({}, helix.zxid).snapshot
        assert list(snapshot.live) == ["a"]
        assert (snapshot.pending, snapshot.stale) == ((), (PATHS.instance("a").message("old"),))

    def script() -> None:
        helix.join(participant, "a")
        helix.sleep_ms(50)
        channel.disturb = lambda request, ask: TIMED_OUT if request.verb == CHILDREN else ask(request)
        helix.send("a", "RELEASED", "LOCKED", name="old", session="dead")
        helix.on("reader", reads)

    helix.play(script)
