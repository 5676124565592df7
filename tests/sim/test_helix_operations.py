"""An operator beside a working cluster: what is changed, what is refused, and that nobody's change is overwritten."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lockref.cli.jobs.cluster.controlling import stopped_words
from lockref.coordination.port import CLOSE, DELETE, MULTI
from lockref.errors import BackendUnavailable, ConfigError
from lockref.helix.cluster.configured import ClusterDiffers
from lockref.helix.cluster.declared import Instance, RebalanceMode, Resource
from lockref.helix.lock import ALL_HANDLED, LOCK_UNLOCK
from lockref.helix.operations.adding import add_instance, add_resource, resource_of
from lockref.helix.operations.dropping import InUse, drop_cluster, drop_instance, drop_resource
from lockref.helix.operations.enabling import enable_cluster, enable_instance, enable_lock, enable_resource
from lockref.helix.operations.operator import Operator
from lockref.helix.operations.reading import read_status
from lockref.helix.operations.status import ClusterStatus
from lockref.helix.pipeline import AlarmKind, Semantics
from lockref.helix.records.messages import Message
from lockref.helix.records.zn_record import ZNRecord
from lockref.helix.served import OPERATIONS
from lockref.ports import TIMED_OUT, Reply, Request
from lockref.runtime import NS_PER_S
from lockref.words import Outcome
from tests.sim.helix_world import CLUSTER, PATHS, RESOURCE, Asked, DisturbedChannel, Helix, undisturbed

LOCKS = tuple(f"{RESOURCE}_{number}" for number in range(4))


class Operated:
    """Instances a and b with four locks, a controller, and an operator on a node of its own."""

    def __init__(self, **how: Any) -> None:
        self.helix = Helix(locks=4)
        self.a, self.heard_a, self.channel_a = self.helix.participant("a")
        self.b, self.heard_b, _ = self.helix.participant("b")
        self.controller, self.controller_channel = self.helix.controller(**how)
        session, self.channel = self.helix.session("operator")
        runtime = self.helix.world.node("operator").process.runtime
        self.operator = Operator(session, runtime, "zk")
        self._start: Callable[[], None] = lambda: session.start(runtime, timeout_ns=10 * NS_PER_S)

    def play(self, script: Callable[[], None]) -> None:
        def whole() -> None:
            helix = self.helix
            helix.on("operator", self._start)
            helix.join(self.a, "a")
            helix.join(self.b, "b")
            helix.start("controller", self.controller.run)
            self.until_held(2, 2)
            helix.sleep_ms(500)
            script()

        self.helix.play(whole)

    def begin_maintenance(self, mode: str) -> None:
        """An administrator begins it, in a cluster whose resource has this rebalance mode."""
        path = PATHS.ideal_state(RESOURCE)
        old = ZNRecord.from_json(self.helix.body(path) or b"", path)
        self.helix.put(PATHS.maintenance, ZNRecord("MAINTENANCE").to_json())
        self.helix.put(path, replace(old, simple={**old.simple, "REBALANCE_MODE": mode}).to_json())
        self.helix.sleep_ms(1000)

    def a_joins(self, request: Request, ask: Asked) -> Reply:
        """The instance "a" comes to life just before this request."""
        self.helix.put(PATHS.instance("a").live, ZNRecord("a").to_json())
        return ask(request)

    def until_held(self, by_a: int, by_b: int) -> None:
        self.helix.until(
            lambda: (len(self.a.held), len(self.b.held)) == (by_a, by_b), f"a holds {by_a} and b {by_b} locks"
        )
        self.helix.until(lambda: not self.helix.pending("a") + self.helix.pending("b"), "all is answered")

    def ask(self, act: Callable[..., Any], *arguments: Any, **how: Any) -> Any:
        """One act of the operator, in a task of its node."""
        return self.helix.on("operator", lambda: act(self.operator, CLUSTER, *arguments, **how))

    def status(self) -> ClusterStatus:
        found: ClusterStatus = self.ask(read_status)
        return found

    def config(self, name: str) -> ZNRecord:
        path = PATHS.instance(name).config
        return ZNRecord.from_json(self.helix.body(path) or b"", path)


def once(channel: DisturbedChannel, disturb: Callable[[Request, Asked], Reply]) -> None:
    """Disturb the next transaction of the channel, and none after it."""

    def disturbed(request: Request, ask: Asked) -> Reply:
        if request.verb != MULTI:
            return ask(request)
        channel.disturb = undisturbed
        return disturb(request, ask)

    channel.disturb = disturbed


def test_a_status_names_the_owners_and_what_is_wrong():
    """Owners, leader, views; a znode that holds no record is told, and the rest is shown."""
    cluster = Operated()

    def script() -> None:
        cluster.helix.sleep_ms(1000)
        status = cluster.status()
        assert status.controller is not None
        assert status.controller.name == "controller"
        assert [(each.name, len(each.owned)) for each in status.instances] == [("a", 2), ("b", 2)]
        (resource,) = status.resources
        assert (resource.refusal, resource.unowned, resource.per_lock) == ("", [], 1)
        assert all(lock.is_view_current and len(lock.owners) == 1 for lock in resource.locks)
        assert status.problems == ()
        cluster.helix.put(PATHS.ideal_state(RESOURCE), b"half-writ")
        broken = cluster.status()
        assert broken.resources == ()
        assert "holds no Helix record: b'half-writ'" in broken.problems[0]
        assert len(broken.instances) == 2

    cluster.play(script)


def test_a_disabled_instance_gives_everything_back_and_gets_it_again():
    """T23. The second order writes nothing. The fields are those of Helix 1.4.3."""
    cluster = Operated()

    def script() -> None:
        states = PATHS.instance("a").current_states(cluster.helix.live_session("a"))
        assert cluster.ask(enable_instance, "a", is_wanted=False, reason="upgrade") is True
        cluster.until_held(0, 4)
        simple = cluster.config("a").simple
        assert (simple["HELIX_ENABLED"], simple["HELIX_DISABLED_REASON"]) == ("false", "upgrade")
        assert simple["HELIX_ENABLED_TIMESTAMP"].isdigit()
        # As Helix' own participants do it; its tools take an instance without such a znode for evacuated.
        cluster.helix.until(lambda: not cluster.helix.names(states), "its empty report goes")
        zxid = cluster.helix.zxid
        assert cluster.ask(enable_instance, "a", is_wanted=False) is False
        assert cluster.helix.zxid == zxid
        assert cluster.ask(enable_instance, "a", is_wanted=True) is True
        cluster.until_held(2, 2)
        assert "HELIX_DISABLED_REASON" not in cluster.config("a").simple

    cluster.play(script)


@pytest.mark.parametrize("lands", ["at once", "late", "never"])
def test_an_empty_report_whose_removal_nobody_confirms_stays_or_not(lands: str):
    """It is tried once. Whatever is there then, the instance reports its next lock, and that report stays."""
    cluster = Operated()
    removals: list[Request] = []
    late: list[Reply] = []

    def unheard(request: Request, ask: Asked) -> Reply:
        if request.verb == DELETE and "/CURRENTSTATES/" in request.key:
            removals.append(request)
            if lands == "at once":
                ask(request)
            return TIMED_OUT
        reply = ask(request)
        if lands == "late" and removals and not late and request.verb == MULTI:
            late.append(ask(removals[0]))
        return reply

    def script() -> None:
        cluster.channel_a.disturb = unheard
        states = PATHS.instance("a").current_states(cluster.helix.live_session("a"))
        cluster.ask(enable_instance, "a", is_wanted=False)
        cluster.until_held(0, 4)
        cluster.helix.until(lambda: bool(removals), "its removal is tried")
        cluster.helix.sleep_ms(1000)
        assert cluster.helix.names(states) == ([] if lands == "at once" else [RESOURCE])
        cluster.ask(enable_instance, "a", is_wanted=True)
        cluster.until_held(2, 2)
        cluster.helix.sleep_ms(1000)
        assert set(cluster.helix.states("a")) == set(cluster.a.held)
        assert [each.outcome for each in late] == ([Outcome.PRECONDITION_FAILED] if lands == "late" else [])
        assert len(removals) == 1

    cluster.play(script)


def test_a_disabled_lock_goes_to_another_instance():
    """In the map by resource, and out of the list that an older Helix kept for all resources."""
    cluster = Operated()

    def script() -> None:
        lock = cluster.a.held[0]
        assert cluster.ask(enable_lock, instance="a", resource=RESOURCE, lock=lock, is_wanted=False) is True
        cluster.helix.until(lambda: lock not in cluster.a.held, "a gives it back")
        cluster.helix.until(lambda: lock in cluster.b.held, "b gets it")
        cluster.helix.until(lambda: len(cluster.a.held + cluster.b.held) == 4, "each lock has an owner")
        assert cluster.config("a").maps["HELIX_DISABLED_PARTITION"] == {RESOURCE: lock}
        old = cluster.config("a")
        listed = ZNRecord(old.id, old.simple, old.maps, {"HELIX_DISABLED_PARTITION": [lock, "other"]})
        cluster.helix.put(PATHS.instance("a").config, listed.to_json())
        assert cluster.ask(enable_lock, instance="a", resource=RESOURCE, lock=lock, is_wanted=True) is True
        assert cluster.config("a").maps["HELIX_DISABLED_PARTITION"] == {}
        assert cluster.config("a").lists["HELIX_DISABLED_PARTITION"] == ["other"]
        cluster.until_held(2, 2)
        with pytest.raises(ConfigError, match="has no lock 'g_9'"):
            cluster.ask(enable_lock, instance="a", resource=RESOURCE, lock="g_9", is_wanted=False)

    cluster.play(script)


def test_a_disabled_resource_is_held_by_nobody():
    """Its holders release through Unlock, and get the locks again when it is enabled."""
    cluster = Operated()

    def script() -> None:
        assert cluster.ask(enable_resource, RESOURCE, is_wanted=False) is True
        cluster.until_held(0, 0)
        assert {word for word, *_ in cluster.heard_a.heard} == {"granted", "revoked"}
        assert cluster.ask(enable_resource, RESOURCE, is_wanted=False) is False
        assert cluster.ask(enable_resource, RESOURCE, is_wanted=True) is True
        cluster.until_held(2, 2)

    cluster.play(script)


def operation(word: str, **more: str) -> str:
    """One entry of HELIX_INSTANCE_OPERATIONS, as Helix 1.4.3 writes it."""
    return json.dumps({"OPERATION": word, "SOURCE": "USER", "TIMESTAMP": "1", **more})


@pytest.mark.parametrize(
    ("lists", "simple", "alarm"),
    [
        ([operation("DISABLE")], {}, ""),
        ([operation("ENABLE"), operation("EVACUATE", REASON="repair")], {}, ""),
        ([operation("SWAP_IN"), "no JSON", "[1]"], {}, "the operation SWAP_IN is not done by this controller"),
        ([], {"INSTANCE_OPERATION": "EVACUATE"}, ""),
    ],
)
def test_an_instance_with_an_operation_holds_nothing(lists: list[str], simple: dict[str, str], alarm: str):
    """As Helix' DISABLE and EVACUATE; one that this controller does not do has an alarm. ENABLE ends it."""
    cluster = Operated()
    helix = cluster.helix
    path = PATHS.instance("a").config

    def script() -> None:
        old = cluster.config("a")
        helix.put(path, replace(old, simple={**old.simple, **simple}, lists={OPERATIONS: lists}).to_json())
        cluster.until_held(0, 4)
        assert {word for word, *_ in cluster.heard_a.heard} == {"granted", "revoked"}
        (status,) = [each for each in cluster.status().instances if each.name == "a"]
        assert status.operation in ("DISABLE", "EVACUATE", "SWAP_IN")
        assert any(alarm in each.text for each in helix.alarms) or not alarm
        helix.put(path, replace(old, lists={OPERATIONS: [*lists, operation("ENABLE")]}).to_json())
        cluster.until_held(2, 2)

    cluster.play(script)


@pytest.mark.parametrize(
    ("lists", "simple"),
    [([operation("DISABLE")], {}), ([operation("EVACUATE")], {}), ([], {"INSTANCE_OPERATION": "DISABLE"})],
)
def test_enabling_an_instance_ends_what_a_tool_of_helix_has_ordered(lists: list[str], simple: dict[str, str]):
    """HELIX_ENABLED says nothing of it: an instance that is disabled by an operation is not "enabled already"."""
    cluster = Operated()
    path = PATHS.instance("a").config

    def is_enabled() -> bool:
        (status,) = [each for each in cluster.status().instances if each.name == "a"]
        return status.is_enabled

    def script() -> None:
        old = cluster.config("a")
        written = replace(old, simple={**old.simple, **simple}, lists={OPERATIONS: lists} if lists else {})
        cluster.helix.put(path, written.to_json())
        cluster.until_held(0, 4)
        assert not is_enabled()
        assert cluster.ask(enable_instance, "a", is_wanted=True) is True
        cluster.until_held(2, 2)
        assert is_enabled()
        config = cluster.config("a")
        assert list(config.lists[OPERATIONS][:-1]) == lists, "what was ordered before stays on record"
        assert json.loads(config.lists[OPERATIONS][-1])["OPERATION"] == "ENABLE"
        assert "INSTANCE_OPERATION" not in config.simple
        assert cluster.ask(enable_instance, "a", is_wanted=True) is False

    cluster.play(script)


def test_an_instance_that_is_to_be_swapped_out_goes_on():
    """SWAP_OUT of Helix before 1.4: it serves until another one has everything, and here nobody swaps."""
    cluster = Operated()
    helix = cluster.helix

    def script() -> None:
        old = cluster.config("a")
        swapped = {**old.simple, "INSTANCE_OPERATION": "SWAP_OUT"}
        helix.put(PATHS.instance("a").config, replace(old, simple=swapped).to_json())
        helix.until(lambda: bool(helix.alarms), "an alarm")
        helix.sleep_ms(2000)
        assert (len(cluster.a.held), len(cluster.b.held)) == (2, 2)
        assert [each.text for each in helix.alarms] == [
            f"{PATHS.instance('a').config}: the operation SWAP_OUT is not done by this controller; a goes on as before"
        ]
        status = cluster.status().instances[0]
        assert (status.is_enabled, status.notes()) == (True, ["Helix' operation SWAP_OUT: nothing is swapped here"])
        # Disabled beside it, it gives back; to enable it says nothing about the swap.
        cluster.ask(enable_instance, "a", is_wanted=False)
        cluster.until_held(0, 4)
        assert cluster.ask(enable_instance, "a", is_wanted=True) is True
        cluster.until_held(2, 2)
        assert cluster.config("a").simple["INSTANCE_OPERATION"] == "SWAP_OUT"

    cluster.play(script)


@pytest.mark.parametrize("semantics", [Semantics.FIRST, Semantics.V0_7_1])
def test_the_first_versions_know_neither_operations_nor_maintenance(semantics: Semantics):
    """What tools of Helix 1.4 write into the cluster changes nothing for a controller that decides as those did."""
    cluster = Operated(rebalancer="mod", semantics=semantics)
    helix = cluster.helix

    def script() -> None:
        old = cluster.config("a")
        helix.put(PATHS.instance("a").config, replace(old, lists={OPERATIONS: [operation("EVACUATE")]}).to_json())
        path = PATHS.ideal_state(RESOURCE)
        ideal = ZNRecord.from_json(helix.body(path) or b"", path)
        helix.put(PATHS.maintenance, ZNRecord("MAINTENANCE").to_json())
        helix.put(path, replace(ideal, simple={**ideal.simple, "REBALANCE_MODE": "FULL_AUTO"}).to_json())
        helix.sleep_ms(2000)
        assert (len(cluster.a.held), len(cluster.b.held), helix.alarms) == (2, 2, [])
        helix.on("b", cluster.b.leave)
        helix.until(lambda: len(cluster.a.held) == 4, "a gets the locks of b")

    cluster.play(script)


def test_an_operation_that_is_helix_to_end_is_left_alone():
    """SWAP_IN: the command names it, and writes nothing."""
    cluster = Operated()

    def script() -> None:
        old = cluster.config("a")
        cluster.helix.put(
            PATHS.instance("a").config, replace(old, lists={OPERATIONS: [operation("SWAP_IN")]}).to_json()
        )
        cluster.until_held(0, 4)
        before = cluster.config("a")
        with pytest.raises(ConfigError, match="Helix' operation SWAP_IN"):
            cluster.ask(enable_instance, "a", is_wanted=True)
        assert cluster.config("a") == before

    cluster.play(script)


@pytest.mark.parametrize("mode", ["FULL_AUTO", "USER_DEFINED"])
def test_maintenance_keeps_the_locks_of_full_auto_resources_where_they_are(mode: str):
    """As in Helix, where other modes go on. An instance leaves; its locks wait for the end of the maintenance."""
    cluster = Operated(rebalancer="sticky")
    helix = cluster.helix

    def script() -> None:
        cluster.begin_maintenance(mode)
        told = cluster.status().document()
        assert (told["is_paused"], told["is_in_maintenance"]) == (False, True)
        helix.on("a", cluster.a.leave)
        helix.sleep_ms(5000)
        assert len(cluster.b.held) == (2 if mode == "FULL_AUTO" else 4)
        assert (AlarmKind.PAUSED in {each.kind for each in helix.alarms}) is (mode == "FULL_AUTO")
        helix.remove(PATHS.maintenance)
        helix.until(lambda: len(cluster.b.held) == 4, "b gets the locks of a")

    cluster.play(script)


@pytest.mark.parametrize("what", ["instance", "lock"])
def test_in_maintenance_who_is_disabled_gives_back_and_nobody_gets_it(what: str):
    """The usual pair: maintenance, and an instance or a lock that is disabled. The rule is not said to have failed."""
    cluster = Operated(rebalancer="sticky")
    helix = cluster.helix

    def script() -> None:
        cluster.begin_maintenance("FULL_AUTO")
        kept = cluster.a.held[1:] if what == "lock" else ()
        if what == "lock":
            cluster.ask(enable_lock, instance="a", resource=RESOURCE, lock=cluster.a.held[0], is_wanted=False)
        else:
            cluster.ask(enable_instance, "a", is_wanted=False)
        cluster.until_held(len(kept), 2)
        helix.sleep_ms(3000)
        assert (tuple(cluster.a.held), len(cluster.b.held)) == (tuple(kept), 2)
        assert AlarmKind.REBALANCER_FAILED not in {each.kind for each in helix.alarms}
        helix.remove(PATHS.maintenance)
        cluster.until_held(len(kept), 4 - len(kept))

    cluster.play(script)


def test_a_pass_asks_once_for_the_maintenance():
    """Not once for each FULL_AUTO resource: one pass would see two answers, and wait for each of them."""
    cluster = Operated(rebalancer="sticky")
    helix, asked = cluster.helix, []

    def counted(request: Request, ask: Asked) -> Reply:
        if request.key == PATHS.maintenance:
            asked.append(len(helix.passes))
        return ask(request)

    def script() -> None:
        path = PATHS.ideal_state(RESOURCE)
        old = ZNRecord.from_json(helix.body(path) or b"", path)
        auto = {**old.simple, "REBALANCE_MODE": "FULL_AUTO"}
        for number in range(3):
            name = f"other{number}"
            helix.put(PATHS.ideal_state(name), ZNRecord(name, auto, {f"{name}_0": {}}).to_json())
        cluster.controller_channel.disturb = counted
        helix.until(lambda: bool(asked) and len(helix.passes) > asked[0], "a pass has asked")
        helix.put(PATHS.maintenance, ZNRecord("MAINTENANCE").to_json())
        helix.until(lambda: len(set(asked)) > 1, "another one, after the maintenance has begun")
        assert max(asked.count(number) for number in set(asked)) == 1

    cluster.play(script)


def test_nothing_is_sent_while_the_cluster_is_paused():
    """CONTROLLER/PAUSE: an instance leaves and its locks stay without an owner, until the pause is over."""
    cluster = Operated()

    def script() -> None:
        assert cluster.ask(enable_cluster, is_wanted=False, reason="night") is True
        assert cluster.ask(enable_cluster, is_wanted=False) is False
        cluster.helix.until(lambda: AlarmKind.PAUSED in {each.kind for each in cluster.helix.alarms}, "an alarm")
        cluster.helix.world.node("a").crash()
        cluster.helix.sleep_ms(10_000)
        assert len(cluster.b.held) == 2
        status = cluster.status()
        assert (status.is_paused, status.pause_reason, status.document()["pause_reason"]) == (True, "night", "night")
        assert cluster.ask(enable_cluster, is_wanted=True) is True
        cluster.helix.until(lambda: len(cluster.b.held) == 4, "b gets the locks of a")

    cluster.play(script)


def test_a_change_that_somebody_makes_meanwhile_is_kept():
    """A write carries the version that was read: it fails, what is there is read anew, and both changes stand."""
    cluster = Operated()

    def meanwhile(request: Request, ask: Asked) -> Reply:
        old = cluster.config("a")
        cluster.helix.put(
            PATHS.instance("a").config, ZNRecord(old.id, {**old.simple, "TAG": "x"}, old.maps, old.lists).to_json()
        )
        return ask(request)

    def script() -> None:
        once(cluster.channel, meanwhile)
        assert cluster.ask(enable_instance, "a", is_wanted=False) is True
        assert (cluster.config("a").simple["TAG"], cluster.config("a").simple["HELIX_ENABLED"]) == ("x", "false")

    cluster.play(script)


@pytest.mark.parametrize("is_applied", [True, False])
def test_a_lost_answer_is_settled_by_looking(is_applied: bool):
    """Applied or not: in the end it is done once."""
    cluster = Operated()

    def lost(request: Request, ask: Asked) -> Reply:
        if is_applied:
            ask(request)
        return TIMED_OUT

    def script() -> None:
        once(cluster.channel, lost)
        before = cluster.helix.stat(PATHS.instance("a").config)
        assert cluster.ask(enable_instance, "a", is_wanted=False) is True
        after = cluster.helix.stat(PATHS.instance("a").config)
        assert before is not None
        assert after is not None
        assert after.version == before.version + 1

    cluster.play(script)


def test_an_instance_is_added_once():
    """Equal again: nothing is written. What is missing of it is completed. Another port: every difference."""
    cluster = Operated()

    def script() -> None:
        c = Instance(name="c", host="h", port=1)
        assert cluster.ask(add_instance, c) is True
        assert cluster.ask(add_instance, c) is False
        cluster.helix.remove(PATHS.instance("c").messages)
        assert cluster.ask(add_instance, c) is True
        assert cluster.helix.stat(PATHS.instance("c").messages) is not None
        with pytest.raises(ClusterDiffers, match="HELIX_PORT: the command says 2, the cluster has 1"):
            cluster.ask(add_instance, Instance(name="c", host="h", port=2))
        with pytest.raises(ConfigError, match="cannot be the name"):
            cluster.ask(add_instance, Instance(name="a/b", host="h", port=2))

    cluster.play(script)


def test_a_resource_is_added_and_its_locks_are_assigned():
    """With its state model, if that is missing; never with a lock that another resource has."""
    cluster = Operated()

    def script() -> None:
        made = cluster.ask(resource_of, "h", locks=2, model="OnlineOffline", rebalancer="mod", replicas=None)
        assert cluster.ask(add_resource, made) is True
        assert cluster.helix.stat(PATHS.state_model("OnlineOffline")) is not None
        assert cluster.ask(add_resource, made) is False
        more = cluster.ask(resource_of, "h", locks=3, model="OnlineOffline", rebalancer="mod", replicas=None)
        with pytest.raises(ClusterDiffers, match="NUM_PARTITIONS: the command says 3, the cluster has 2"):
            cluster.ask(add_resource, more)
        twice = Resource(
            name="other", locks=1, replicas=1, mode=RebalanceMode.USER_DEFINED, rebalancer="mod", model=LOCK_UNLOCK,
            names=(LOCKS[0],),
        )  # fmt: skip
        with pytest.raises(ConfigError, match="would have the lock 'g_0', which is one of 'g'"):
            cluster.ask(add_resource, twice)
        for how, words in (
            ({"model": "nosuch"}, "there is no state model 'nosuch'"),
            ({"rebalancer": "stiky"}, "Did you mean 'sticky'"),
            ({"replicas": 2}, "--replicas is 2; the top state LOCKED of lock-unlock has the count 1"),
        ):
            whole = {"locks": 1, "model": "lock-unlock", "rebalancer": "mod", "replicas": None, **how}
            with pytest.raises(ConfigError, match=words):
                cluster.ask(resource_of, "x", **whole)

    cluster.play(script)


def test_what_is_in_use_is_not_dropped():
    """A live instance, a resource with holders, a cluster with anybody in it; after their end they are."""
    cluster = Operated()
    helix = cluster.helix

    def script() -> None:
        zxid = helix.zxid
        with pytest.raises(InUse, match="instance 'a' lives under session"):
            cluster.ask(drop_instance, "a")
        with pytest.raises(InUse, match="4 locks of resource 'g' are held"):
            cluster.ask(drop_resource, RESOURCE)
        with pytest.raises(InUse, match="in use by a, b, the controller controller"):
            cluster.ask(drop_cluster)
        assert helix.zxid == zxid
        helix.on("a", cluster.a.leave)
        assert cluster.ask(drop_instance, "a") is True
        assert [helix.stat(path) for path in (PATHS.instance("a").root, PATHS.instance("a").config)] == [None, None]
        assert cluster.ask(drop_instance, "a") is False
        cluster.ask(enable_resource, RESOURCE, is_wanted=False)
        helix.until(lambda: not cluster.b.held and not helix.pending("b"), "b gives everything back")
        assert cluster.ask(drop_resource, RESOURCE) is True
        assert helix.stat(PATHS.ideal_state(RESOURCE)) is None
        helix.until(lambda: helix.stat(PATHS.external_view(RESOURCE)) is None, "the leader removes the view")
        assert cluster.ask(drop_resource, RESOURCE) is False
        helix.on("b", cluster.b.leave)
        with pytest.raises(InUse, match="in use by the controller controller"):
            cluster.ask(drop_cluster)
        cluster.controller.stop()
        assert cluster.ask(drop_cluster) is True
        assert helix.stat(PATHS.root) is None

    cluster.play(script)


@pytest.mark.parametrize("what", ["ideal state", "report", "model", "live instance", "message"])
def test_a_resource_of_which_nobody_can_tell_who_holds_it_is_not_dropped(what: str):
    """What cannot be read is no sign that no lock is held. An operator may insist."""
    cluster = Operated()
    helix = cluster.helix

    def script() -> None:
        if what == "live instance":
            helix.put(f"{PATHS.live_instances}/c", ZNRecord("c").to_json())
        else:
            a = PATHS.instance("a")
            (session,) = helix._tree.children(f"{a.root}/CURRENTSTATES")
            if what == "message":
                helix.world.node("a").crash()  # It would remove such a message.
            path = {
                "ideal state": PATHS.ideal_state(RESOURCE),
                "report": a.current_state(session, RESOURCE),
                "model": PATHS.state_model("lock-unlock"),
                "message": a.message("m"),
            }[what]
            helix.put(path, b"half-writ")
        before = helix.stat(PATHS.ideal_state(RESOURCE))
        with pytest.raises(ConfigError, match="whether locks of resource 'g' are held is not known"):
            cluster.ask(drop_resource, RESOURCE)
        assert helix.stat(PATHS.ideal_state(RESOURCE)) == before
        assert cluster.ask(drop_resource, RESOURCE, is_forced=True) is True
        assert helix.stat(PATHS.ideal_state(RESOURCE)) is None

    cluster.play(script)


def test_a_resource_with_a_lock_that_is_under_way_to_a_holder_is_not_dropped():
    """The message is sent, and the handler does not return: no report says yet that the lock is held."""
    cluster = Operated()
    runtime = cluster.helix.world.node("c").process.runtime

    def hang(_message: Message) -> None:
        runtime.sleep(20 * NS_PER_S)

    c, _, _ = cluster.helix.participant("c", handlers={**ALL_HANDLED, ("RELEASED", "LOCKED"): hang})

    def script() -> None:
        helix = cluster.helix
        for name in "ab":
            assert cluster.ask(enable_instance, name, is_wanted=False) is True
        cluster.until_held(0, 0)
        helix.join(c, "c")
        helix.until(lambda: len(helix.pending("c")) == 4, "c is told to take all")
        with pytest.raises(InUse, match="4 locks of resource 'g' are held"):
            cluster.ask(drop_resource, RESOURCE)

    cluster.play(script)


def test_the_view_of_a_dropped_resource_goes_though_another_controller_leads():
    """The next leader finds the views that the one before has written."""
    cluster = Operated()
    helix = cluster.helix
    second, _ = helix.controller("second")

    def script() -> None:
        assert helix.stat(PATHS.external_view(RESOURCE)) is not None
        helix.on("controller", cluster.controller.stop)
        helix.remove(PATHS.ideal_state(RESOURCE))
        helix.on("a", cluster.a.leave)
        helix.on("b", cluster.b.leave)
        helix.start("second", second.run)
        helix.until(lambda: helix.stat(PATHS.external_view(RESOURCE)) is None, "the view goes")

    cluster.play(script)


def test_an_alarm_that_lasts_over_a_lost_session_is_raised_again():
    """A leader that leads anew tells what is still so: whoever keeps a log has begun a new one."""
    cluster = Operated()
    helix = cluster.helix

    def paused() -> int:
        return sum(each.kind is AlarmKind.PAUSED for each in helix.alarms)

    def script() -> None:
        cluster.ask(enable_cluster, is_wanted=False)
        helix.until(lambda: paused() == 1, "an alarm")
        helix.sleep_ms(3000)
        assert paused() == 1
        assert helix.service.tamper("expire_session", "controller") == 1
        helix.until(lambda: paused() == 2, "the alarm of the next reign")

    cluster.play(script)


def test_a_cluster_is_dropped_though_an_instance_leaves_meanwhile():
    """What is there is read anew for each attempt."""
    cluster = Operated()

    def leaves(request: Request, ask: Asked) -> Reply:
        cluster.helix.world.node("a").crash()
        cluster.helix.remove(PATHS.instance("a").live)
        return ask(request)

    def script() -> None:
        once(cluster.channel, leaves)
        assert cluster.ask(drop_cluster, is_forced=True) is True
        assert cluster.helix.stat(PATHS.root) is None

    cluster.play(script)


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_controller_that_is_stopped_says_whether_its_session_is_over(is_answered: bool):
    """A server that has just stopped leaves the session's state at connected; the answer to its end alone tells."""
    helix = Helix()
    controller, channel = helix.controller()
    told: list[bool] = []

    def deaf(request: Request, ask: Asked) -> Reply:
        return ask(request) if is_answered or request.verb != CLOSE else TIMED_OUT

    def script() -> None:
        helix.start("controller", controller.run)
        helix.until(lambda: controller.is_leader, "it leads")
        channel.disturb = deaf
        helix.on("controller", lambda: told.extend([controller.stop(), controller.stop()]))
        assert told == [is_answered] * 2

    helix.play(script)


def test_the_last_words_of_a_controller():
    """That its session has ended is said only where a server has said so."""
    over = stopped_words(is_over=True, timeout_ns=30 * NS_PER_S, is_working=False)
    assert over == "stopped; its session has ended, and another controller may lead"
    words = stopped_words(is_over=False, timeout_ns=30 * NS_PER_S, is_working=True)
    assert words == (
        "stopped; no server answers, so its session ends by itself within 30.0 s; a request of it is still under way"
    )


def test_an_instance_that_joins_at_the_last_moment_is_not_dropped():
    """The transaction fails as a whole, and the operator is told that it lives."""
    cluster = Operated()
    helix = cluster.helix

    def script() -> None:
        helix.on("a", cluster.a.leave)
        once(cluster.channel, cluster.a_joins)
        with pytest.raises(InUse, match="instance 'a' lives"):
            cluster.ask(drop_instance, "a")
        assert helix.stat(PATHS.instance("a").config) is not None

    cluster.play(script)


def test_a_cluster_that_an_instance_joins_at_the_last_moment_is_not_dropped():
    """LIVEINSTANCES goes first, and cannot while anybody lives."""
    cluster = Operated()
    helix = cluster.helix

    def script() -> None:
        helix.on("a", cluster.a.leave)
        helix.on("b", cluster.b.leave)
        cluster.controller.stop()
        once(cluster.channel, cluster.a_joins)
        with pytest.raises(BackendUnavailable, match="close cluster"):
            cluster.ask(drop_cluster)
        for path in (PATHS.config, PATHS.instance("a").config, PATHS.instance("a").live, PATHS.ideal_state(RESOURCE)):
            assert helix.stat(path) is not None

    cluster.play(script)


def test_an_operator_may_insist():
    """A live instance is dropped with its znode: it hears of that, and its locks go to the other one."""
    cluster = Operated()

    def script() -> None:
        assert cluster.ask(drop_instance, "a", is_forced=True) is True
        cluster.helix.until(lambda: len(cluster.b.held) == 4, "b gets the locks of a")
        assert cluster.a.held == ()
        assert cluster.ask(drop_cluster, is_forced=True) is True
        assert cluster.helix.stat(PATHS.root) is None

    cluster.play(script)


def test_an_instance_that_hangs_is_named_once():
    """It lives, and a handler does not return: the controller names it when the limit is over, not a period later."""
    helix = Helix(locks=1)
    runtime = helix.world.node("a").process.runtime

    def hang(_message: Message) -> None:
        runtime.sleep(20 * NS_PER_S)

    a, _, _ = helix.participant("a", handlers={**ALL_HANDLED, ("RELEASED", "LOCKED"): hang})
    controller, _ = helix.controller(zombie_after_ns=3 * NS_PER_S)

    def script() -> None:
        helix.join(a, "a")
        helix.start("controller", controller.run)
        helix.until(lambda: bool(helix.pending("a")), "the lock is granted")
        helix.sleep_ms(2_900)
        assert helix.alarms == []
        helix.sleep_ms(300)
        (alarm,) = helix.alarms
        assert alarm.kind is AlarmKind.ZOMBIE
        assert "a lives and has answered no message for 3 s: RELEASED-LOCKED of g_0" in alarm.text
        passes = len(helix.passes)
        helix.put(PATHS.instance("b").config, ZNRecord("b").to_json())
        helix.until(lambda: len(helix.passes) > passes, "the controller decides again while the alarm lasts")
        assert len(helix.alarms) == 1
        helix.until(lambda: bool(a.held), "the handler returns")
        helix.sleep_ms(500)
        assert (len(helix.alarms), helix.passes[-1].decision.alarms) == (1, ())

    helix.play(script)


@pytest.mark.parametrize(("mode", "by_b"), [("SEMI_AUTO", True), ("CUSTOMIZED", False)])
def test_a_lock_of_a_list_or_a_map_that_is_disabled_on_its_holder(mode: str, by_b: bool):
    """The next one of the list gets it. A map names who shall hold it and nobody else, so nobody does."""
    cluster = Operated()
    helix = cluster.helix

    def script() -> None:
        path = PATHS.ideal_state(RESOURCE)
        old = ZNRecord.from_json(helix.body(path) or b"", path)
        maps: dict[str, dict[str, str]] = {lock: {"a": "LOCKED"} for lock in LOCKS}
        lists = {lock: ["a", "b"] for lock in LOCKS}
        simple = {**old.simple, "REBALANCE_MODE": mode}
        helix.put(path, ZNRecord(old.id, simple, {} if by_b else maps, lists if by_b else {}).to_json())
        cluster.until_held(4, 0)
        assert cluster.ask(enable_lock, instance="a", resource=RESOURCE, lock=LOCKS[1], is_wanted=False) is True
        cluster.until_held(3, int(by_b))
        helix.sleep_ms(1000)
        assert cluster.b.held == ((LOCKS[1],) if by_b else ())

    cluster.play(script)


@pytest.mark.parametrize(
    ("mode", "lists", "maps", "held"),
    [
        ("FULL_AUTO", {}, {}, (2, 2)),
        ("SEMI_AUTO", {"g_0": ["b", "a"], "g_1": ["b"], "g_2": ["x", "b"], "g_3": ["a", "b"]}, {}, (1, 3)),
        ("CUSTOMIZED", {}, {"g_0": {"a": "LOCKED"}, "g_1": {"b": "LOCKED"}, "g_2": {"a": "RELEASED"}}, (1, 1)),
    ],
)
def test_a_resource_of_another_mode(
    mode: str, lists: dict[str, list[str]], maps: dict[str, dict[str, str]], held: tuple[int, int]
):
    """FULL_AUTO is left alone with an alarm: holders keep what they have, also one that is disabled."""
    cluster = Operated()
    helix = cluster.helix

    def script() -> None:
        path = PATHS.ideal_state(RESOURCE)
        old = ZNRecord.from_json(helix.body(path) or b"", path)
        all_maps = {lock: maps.get(lock, {}) for lock in LOCKS}
        helix.put(path, ZNRecord(old.id, {**old.simple, "REBALANCE_MODE": mode}, all_maps, lists).to_json())
        helix.sleep_ms(1000)
        if mode == "FULL_AUTO":
            made = [helix._tree._znodes[PATHS.instance(name).messages].births for name in "ab"]
            cluster.ask(enable_instance, "a", is_wanted=False)
            helix.sleep_ms(3000)
            assert [helix._tree._znodes[PATHS.instance(name).messages].births for name in "ab"] == made
            (alarm,) = {each.text for each in helix.alarms}
            assert "is not driven: its mode is FULL_AUTO" in alarm
            assert "its holders keep what they have" in alarm
        cluster.until_held(*held)
        (resource,) = cluster.status().resources
        assert bool(resource.refusal) is (mode == "FULL_AUTO")

    cluster.play(script)
