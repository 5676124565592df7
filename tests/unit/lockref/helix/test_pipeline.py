"""The controller's pipeline on values: the tables of the recipe, hand-offs, limits, failures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lockref.helix.cluster.declared import lock_names
from lockref.helix.pipeline import (
    AlarmKind,
    LockGroup,
    Replica,
    Semantics,
    Snapshot,
    ThrottleRule,
    decide,
    throttle,
)
from lockref.helix.rebalancers import RECIPES_CLASS, Assignment, Question, Rebalancer, hrw, load, mod, ring, sticky
from lockref.helix.records.messages import Message
from lockref.helix.state_model import BUILT_IN, StateModel
from tests.unit.lockref.helix.pipeline_driver import Driven, loads, lock_unlock

A, B, C = "localhost_12001", "localhost_12002", "localhost_12003"

README = {0: C, 1: B, 10: A, 11: C, 2: B, 3: A, 4: C, 5: B, 6: A, 7: C, 8: B, 9: A}
"""The first table that the recipe's README prints."""

AFTER_BY_RULE = {0: C, 1: B, 10: C, 11: B, 2: C, 3: B, 4: C, 5: B, 6: C, 7: B, 8: C, 9: B}
AFTER_IN_README = {0: C, 1: B, 10: C, 11: C, 2: B, 3: B, 4: C, 5: B, 6: C, 7: C, 8: B, 9: B}
"""Its second table, once the first instance has stopped: what the rule says, and what was printed."""


def named(table: dict[int, str]) -> dict[str, str]:
    return {f"lock-group_{number}": holder for number, holder in table.items()}


def recipe(semantics: Semantics, *, is_descending: bool = True) -> Driven:
    cluster = Driven(mod, semantics, is_descending=is_descending)
    cluster.join(A, B, C)
    return cluster


@pytest.mark.parametrize("semantics", Semantics)
def test_the_first_table_is_the_readmes(semantics: Semantics):
    """T2: twelve of twelve, with the live order that Java 6 had."""
    cluster = recipe(semantics)
    assert cluster.table() == named(README)
    assert cluster.sent == 12


def test_the_rule_moves_eight_locks_and_the_readme_shows_four():
    """T3, T4, Z1, Z2: the first version never tells a live holder to drop; then the newcomer starves for ever."""
    by_rule = recipe(Semantics.CURRENT)
    assert by_rule.leave(A) == named(AFTER_BY_RULE)
    assert by_rule.join(A) == named(README)
    printed = recipe(Semantics.FIRST)
    assert printed.leave(A) == named(AFTER_IN_README)
    assert loads(printed.join(A)) == [6, 6]


def test_messages_of_start_leave_and_rejoin():
    """T27: twelve, twelve and sixteen."""
    cluster = recipe(Semantics.OURS)
    counts = [cluster.sent]
    cluster.leave(A)
    counts.append(cluster.sent - counts[0])
    cluster.join(A)
    counts.append(cluster.sent - sum(counts))
    assert counts == [12, 12, 16]


def test_ascending_order_of_live_instances():
    """T2: the lists of section 8 for sorted instances."""
    cluster = recipe(Semantics.OURS, is_descending=False)
    table = cluster.table()
    assert {int(lock.rpartition("_")[2]) for lock, holder in table.items() if holder == A} == {0, 4, 7, 11}
    after = cluster.leave(A)
    assert {int(lock.rpartition("_")[2]) for lock, holder in after.items() if holder == B} == {0, 2, 4, 6, 8, 10}
    moved = [lock for lock in table if table[lock] != after[lock]]
    assert len(moved) == 8
    assert {int(lock.rpartition("_")[2]) for lock in moved if table[lock] != A} == {1, 5, 6, 10}


def test_a_hand_off_takes_two_runs():
    """T6: no grant while a drop is pending, or before the state says that the holder has left."""
    cluster = Driven(mod, count=1)
    cluster.join(B)
    cluster.live[A] = "s"
    (drop,) = cluster.decide().messages
    assert (drop.instance, drop.source, drop.target) == (B, "LOCKED", "DROPPED")
    cluster.replicas["lock-group_0"] = {}
    (grant,) = cluster.decide().messages
    assert (grant.instance, grant.target) == (A, "LOCKED")


def test_a_drop_that_is_under_way_is_not_sent_again():
    """No limit holds a second one back. An order that is sent twice looks like one that nobody heeded."""
    cluster = Driven(mod, count=1)
    cluster.join(B)
    cluster.live[A] = "s"
    (drop,) = cluster.decide().messages
    assert decide(replace(cluster.snapshot(), pending=(drop,)), {"lock-group": mod}).messages == ()


def test_no_second_message_while_one_is_under_way():
    """A pending message into the top state fills its place, also at an instance that is no longer wanted."""
    cluster = Driven(mod, count=1, live={A: "1", B: "2"})
    (grant,) = cluster.decide().messages
    snapshot = cluster.snapshot()
    gone = replace(snapshot, live={B: "2"}, pending=())
    assert [each.instance for each in decide(gone, {"lock-group": mod}).messages] == [B]
    under_way = replace(snapshot, pending=(grant,))
    assert decide(under_way, {"lock-group": mod}).messages == ()
    other = replace(snapshot, pending=(replace(grant, instance=B, session="2"),))
    assert decide(other, {"lock-group": mod}).messages == ()


def test_two_holders_on_three_instances():
    """T7: never more than the limit, which `Driven` asserts after each run."""
    cluster = Driven(mod, holders="2")
    cluster.join(A, B, C)
    assert all(len(cluster.holders_of(lock)) == 2 for lock in cluster.group.locks)
    cluster.leave(B)
    cluster.join(B)
    assert all(len(cluster.holders_of(lock)) == 2 for lock in cluster.group.locks)


@pytest.mark.parametrize("semantics", Semantics)
def test_nobody_alive_is_an_empty_table(semantics: Semantics):
    """T8, Z3: no exception; the first who joins gets everything."""
    cluster = recipe(semantics)
    for name in (A, B, C):
        cluster.leave(name)
    decision = cluster.decide()
    assert (decision.messages, dict(decision.views["lock-group"])) == ((), {})
    assert set(cluster.join(B).values()) == {B}


def raising(_question: Question) -> Assignment:
    raise ValueError("no idea")


BAD: list[tuple[str, Any]] = [
    ("it raised ValueError: no idea", raising),
    ("the rebalancer answered list; expected a mapping", lambda _: []),
    ("gave it to 'stranger', which is not live", lambda q: {q.locks[0]: ("stranger",)}),
    ("there is no such lock", lambda q: {"another": (q.live[0],)}),
    ("2 holders; at most 1 may hold it", lambda q: {q.locks[0]: q.live[:2]}),
    ("expected a sequence of instances", lambda q: {q.locks[0]: q.live[0]}),
]


@pytest.mark.parametrize(("words", "bad"), BAD)
def test_a_rebalancer_that_fails_moves_nothing(words: str, bad: Any):
    """T9, Z4: holders keep their locks, and an alarm says why; version 0.7.1 dropped every lock."""
    cluster = recipe(Semantics.OURS)
    before = cluster.table()
    cluster.rebalancer = bad
    assert cluster.settle() == before
    (alarm,) = cluster.alarms
    assert alarm.kind is AlarmKind.REBALANCER_FAILED
    assert words in alarm.text
    old = recipe(Semantics.V0_7_1)
    old.rebalancer = bad
    assert old.settle() == {}


def test_a_grant_that_failed_goes_to_another_instance():
    """T15, Z7: the lock is not lost with the instance whose callback failed; the original leaves it with nobody."""
    for semantics, expected in ((Semantics.OURS, B), (Semantics.CURRENT, None)):
        cluster = Driven(mod, semantics, count=1, live={A: "1", B: "2"})
        cluster.replicas = {"lock-group_0": {A: Replica("ERROR", "RELEASED")}}
        cluster.settle()
        assert cluster.table().get("lock-group_0") == expected


def test_a_grant_that_failed_goes_to_nobody_who_is_disabled_for_the_lock():
    """T15, T23: neither where the instance is disabled nor where this one lock is."""
    for how in ({"disabled": (B,)}, {"disabled_locks": {B: ("lock-group_0",)}}):
        cluster = Driven(mod, count=1, live={A: "1", B: "2", C: "3"}, **how)
        cluster.replicas = {"lock-group_0": {A: Replica("ERROR", "RELEASED")}}
        assert cluster.settle() == {"lock-group_0": C}


def test_an_instance_that_failed_to_give_back_keeps_the_lock():
    """T15: it may still work under it, so nobody else gets it; an alarm says so."""
    cluster = Driven(mod, count=1, live={A: "1", B: "2"})
    cluster.replicas = {"lock-group_0": {B: Replica("ERROR", "LOCKED")}}
    cluster.settle()
    assert cluster.table() == {}
    assert [alarm.kind for alarm in cluster.alarms] == [AlarmKind.HOLDER_IN_ERROR]
    del cluster.live[B]
    assert cluster.settle() == {"lock-group_0": A}


def test_a_disabled_instance_gives_back_by_unlock():
    """T23, HJ12: its locks go by LOCKED to RELEASED and then to others; the original changes nothing."""
    cluster = recipe(Semantics.OURS)
    cluster.disabled = (A,)
    first = cluster.decide().messages
    assert {(each.source, each.target) for each in first if each.instance == A} == {("LOCKED", "RELEASED")}
    assert A not in cluster.settle().values()
    original = recipe(Semantics.CURRENT)
    original.disabled = (A,)
    assert original.settle() == named(README)


def test_a_slot_is_free_only_when_its_holder_is_reported_to_have_left():
    """Z16, T6: the unlock of a holder comes first by priority, and frees nothing in the run that sends it."""
    cluster = recipe(Semantics.OURS)
    cluster.disabled = (A,)
    taken = {each.lock for each in cluster.decide().messages if each.source == "LOCKED"}
    granted = {each.lock for each in cluster.decide().messages if each.target == "LOCKED"}
    assert len(taken) == 8
    assert granted == set()


@pytest.mark.parametrize("semantics", [Semantics.OURS, Semantics.V0_7_1])
def test_a_disabled_lock_is_held_by_nobody_and_the_cluster_settles(semantics: Semantics):
    """T23: one lock disabled everywhere is unlocked once; no grant and unlock follow each other for ever."""
    cluster = recipe(semantics)
    cluster.disabled_locks = dict.fromkeys((A, B, C), ("lock-group_0",))
    assert cluster.settle() == {lock: holder for lock, holder in named(README).items() if lock != "lock-group_0"}


@pytest.mark.parametrize("rule", [mod, sticky, hrw, ring])
@pytest.mark.parametrize("instances", [(A, B), (A, B, C)])
def test_a_lock_that_is_disabled_on_its_holder_goes_to_another_instance(rule: Rebalancer, instances: tuple[str, ...]):
    """T23, Z7: each lock has an owner, though the rule names the disabled one; 0.7.1 leaves that lock with nobody."""
    for lock in lock_names("lock-group", 4):
        cluster = Driven(rule, count=4)
        former = cluster.join(*instances)[lock]
        cluster.disabled_locks = {former: (lock,)}
        table = cluster.settle()
        assert table[lock] != former
        assert len(table) == 4
        original = Driven(rule, Semantics.V0_7_1, count=4)
        original.join(*instances)
        original.disabled_locks = {former: (lock,)}
        assert (lock in original.settle()) is False


def test_who_holds_a_lock_in_the_place_of_a_disabled_one_keeps_it():
    """A substitute is not exchanged for one with fewer locks, nor by a new leader: nothing is sent."""
    cluster = Driven(hrw, count=1, live={A: "1", B: "2", C: "3"})
    (first,) = cluster.settle().values()
    cluster.disabled_locks = {first: ("lock-group_0",)}
    holder = max({A, B, C} - {first})
    cluster.replicas = {"lock-group_0": {holder: Replica("LOCKED", "RELEASED")}}
    assert cluster.decide().messages == ()


def test_unreachable_states_are_told():
    """A replica in a state that the model does not know: an alarm, no message."""
    cluster = Driven(sticky, count=1, live={A: "1"})
    cluster.replicas = {"lock-group_0": {A: Replica("MASTER")}}
    assert cluster.settle() == {}
    assert [alarm.kind for alarm in cluster.alarms] == [AlarmKind.NO_WAY]


RECIPES = load(RECIPES_CLASS)


def under(rule: Rebalancer, model: StateModel, replicas: int) -> tuple[int, list[AlarmKind]]:
    """How many locks of twelve the rule gives to three live instances, and the alarms of the run that decides it."""
    names = lock_names("lock-group", 12)
    group = LockGroup(name="lock-group", locks=names, replicas=replicas, model=model)
    snapshot = Snapshot(groups=(group,), live={A: "1", B: "2", C: "3"})
    decision = decide(snapshot, {"lock-group": rule})
    assert bool(decision.messages) == any(decision.wanted.values())
    return sum(map(bool, decision.wanted.values())), [alarm.kind for alarm in decision.alarms]


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize("count", ["R", "N"])
def test_a_count_that_is_no_number_is_an_empty_table_under_the_recipes_name(count: str, semantics: Semantics):
    """Section 1, step 2: an error, and nobody is granted anything. `mod` reads N and R, and is another name."""
    assert under(RECIPES, lock_unlock(count), 1) == (0, [AlarmKind.NOTHING_ASSIGNED])
    assert under(mod, lock_unlock(count), 1) == (12, [])
    cluster = Driven(RECIPES, semantics, holders=count, live={A: "1", B: "2", C: "3"})
    decision = cluster.decide()
    assert (decision.messages, decision.wanted) == ((), {})
    (alarm,) = decision.alarms
    assert f"does not have a valid count: '{count}' is no number" in alarm.text


@pytest.mark.parametrize(
    ("model", "replicas", "granted"), [("OnlineOffline", 1, 0), ("MasterSlave", 3, 12), ("LeaderStandby", 3, 12)]
)
def test_a_built_in_model_under_the_recipes_name(model: str, replicas: int, granted: int):
    """The count of ONLINE is R, which is no number; those of MASTER and LEADER are 1, whatever the replicas are."""
    alarms = [] if granted else [AlarmKind.NOTHING_ASSIGNED]
    assert under(RECIPES, BUILT_IN[model], replicas) == (granted, alarms)
    assert under(mod, BUILT_IN[model], replicas) == (12, [])


@pytest.mark.parametrize(
    ("semantics", "stay"), [(Semantics.OURS, 0), (Semantics.V0_7_1, 0), (Semantics.CURRENT, 12), (Semantics.FIRST, 12)]
)
def test_an_empty_table_is_an_answer_and_no_failure(semantics: Semantics, stay: int):
    """Whoever holds is told to drop, as 0.7.1 does, also where a failing rule leaves every holder alone (Z4)."""
    cluster = recipe(semantics)
    cluster.rebalancer, cluster.holders = RECIPES, "R"
    drops = cluster.decide().messages
    assert {each.target for each in drops} <= {"DROPPED"}
    assert len(drops) == 12 - stay


def test_fewer_instances_than_holders_are_told():
    """Z6: one live instance for two holders a lock."""
    cluster = Driven(mod, holders="2")
    cluster.join(A)
    assert [alarm.kind for alarm in cluster.alarms] == [AlarmKind.TOO_FEW]


def _message(lock: int, instance: str) -> Message:
    return Message(
        instance=instance, session="1", resource="g", lock=f"g_{lock}", model="m", source="RELEASED", target="LOCKED"
    )


def test_a_throttle_counts_what_is_under_way():
    """T25: never more than k under way for an instance; the specific rule wins, then the smallest."""
    rules = [
        ThrottleRule({"INSTANCE": "*"}, 3),
        ThrottleRule({"INSTANCE": "a"}, 2),
        ThrottleRule({"INSTANCE": "b"}, None),
        ThrottleRule({"MESSAGE_TYPE": "STATE_TRANSITION"}, 12),
    ]
    wanted = [_message(number, instance) for number in range(10) for instance in "abc"]
    passed = throttle(wanted, [_message(99, "a"), _message(98, "c")], rules)
    counts = {instance: sum(each.instance == instance for each in passed) for instance in "abc"}
    assert counts == {"a": 1, "c": 2, "b": 7}
