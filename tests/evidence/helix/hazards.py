"""Hazards, each shown on the original and absent in ours. Ids are those of docs/helix.md."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from lockref.errors import ConfigError
from lockref.helix.lock import LOCK_UNLOCK
from lockref.helix.pipeline import AlarmKind
from lockref.helix.records.messages import Message
from lockref.helix.state_model import BUILT_IN, StateModel
from tests.evidence.helix.experiments import Experiment, names_of, with_model
from tests.evidence.helix.fleet import Fleet
from tests.evidence.helix.stranger import Habits, of_another_name, of_another_session, of_no_model, without_states
from tests.evidence.helix.tree import Seen

WATCHED_S: Final = 5
"""So long a cluster is watched that ought to do something and does nothing. It needs less than a second otherwise."""

ALL_LOCKS: Final = 12
INSTANCES: Final = 3


def unheard_states(run: Experiment) -> bool:
    """HJ8: the current states of one instance name another session or record, or no state, or there are none; then
    another one leaves.
    """
    found = []
    for name, habits, is_twice in (
        ("of another session", Habits(states=of_another_session), True),
        ("without states", Habits(states=without_states), True),
        ("of another name", Habits(states=of_another_name), False),
        ("mute", Habits(is_mute=True), True),
    ):
        theirs = _with_stranger(run, habits, is_ours=False)
        ours = _with_stranger(run, habits, is_ours=True)
        for who, (rate, twice) in (("theirs", theirs), ("ours", ours)):
            run.say(f"{name}, {who}: {rate} messages in a second, locks believed twice: {twice}")
        found.append(theirs[0] > 0 and (theirs[1] > 0 or not is_twice) and ours == (0, 0))
    return all(found)


def _with_stranger(run: Experiment, habits: Habits, *, is_ours: bool) -> tuple[int, int]:
    """Messages in a second in which nothing changes, and locks that two believed to hold after one has left."""
    with run.fleet("unheard") as fleet:
        first, second, third = names_of(fleet.cluster)
        fleet.stranger_joins(first, habits)
        fleet.we_join(second)
        fleet.we_join(third)
        if is_ours:
            fleet.we_control()
        else:
            fleet.they_control()
        wanted = fleet.rule((first, second, third))
        fleet.until(lambda _seen: _all_believe(fleet, wanted), "everybody to be granted its locks")
        time.sleep(1)
        before = fleet.sent()
        time.sleep(1)
        rate = fleet.sent() - before
        fleet.leave(second)
        # What second has left goes to third, unless the rule has it for first.
        orphans = {lock for lock, holder in wanted.items() if holder == (second,)}
        after = {lock for lock, holder in fleet.rule((first, third)).items() if holder == (third,)}
        fleet.until(lambda _seen: orphans & after <= {*_held_by(fleet, third)}, f"{third} to be granted its locks")
        time.sleep(1)
        return rate, len({text.partition(":")[0] for text in fleet.two_holders()})


def _all_believe(fleet: Fleet, wanted: Mapping[str, tuple[str, ...]]) -> bool:
    return {each.lock for each in fleet.beliefs()} >= wanted.keys()


def _held_by(fleet: Fleet, instance: str) -> list[str]:
    return [each.lock for each in fleet.beliefs() if each.instance == instance and each.until_ns is None]


def malformed_record(run: Experiment) -> bool:
    """HJ9: the current states of one instance name no state model, or its live record another instance; one leaves."""
    found = []
    for name, habits in (("states", Habits(states=of_no_model)), ("live", Habits(live=of_another_name))):
        held = [_held_after_a_leave(run, habits, is_ours=is_ours) for is_ours in (False, True)]
        run.say(f"malformed {name}: locks held after another instance has left: theirs {held[0]}, ours {held[1]}")
        found.append(held[0] < ALL_LOCKS and held[1] == ALL_LOCKS)
    return all(found)


def _held_after_a_leave(run: Experiment, habits: Habits, *, is_ours: bool) -> int:
    with run.fleet("malformed") as fleet:
        first, second, third = names_of(fleet.cluster)
        fleet.stranger_joins(first, habits)
        fleet.we_join(second)
        fleet.we_join(third)
        if is_ours:
            fleet.we_control()
            fleet.settled(first, second, third)
            fleet.leave(second)
            fleet.settled(first, third)
        else:
            fleet.they_control()
            fleet.until(lambda _seen: bool(_held_by(fleet, third)), f"{third} to be granted its locks")
            time.sleep(1)
            fleet.leave(second)
            time.sleep(WATCHED_S)
        return len(fleet.look().holders(fleet.top))


def foreign_message(run: Experiment) -> bool:
    """HJ10: a message in the folder of one instance, for its session, names another instance."""
    with run.fleet("foreign") as fleet:
        first, second, third = names_of(fleet.cluster)
        fleet.they_join(first)
        fleet.we_join(second)
        for name in (first, second):
            fleet.until(lambda seen, name=name: name in seen.live, f"{name} to be live")  # type: ignore[misc]
            _send(fleet, name, as_if_to=third)
        fleet.until(lambda seen: not seen.pending, "both to take their message")
        theirs = [each.lock for each in fleet.heard() if each.instance == first]
        ours = [each.lock for each in fleet.beliefs() if each.instance == second]
        run.say(f"executed by theirs: {theirs}, by ours: {ours}; ours says: {fleet.told(second)}")
        return bool(theirs) and not ours and len(fleet.told(second)) == 1


def _send(fleet: Fleet, instance: str, *, as_if_to: str) -> None:
    """A message as a controller sends it, but for one field."""
    (resource,) = fleet.cluster.resources
    message = Message(
        id="foreign", instance=instance, session=fleet.tree.session_of(instance), resource=resource.name,
        lock=resource.lock_names[0], model=resource.model.name, source=resource.model.initial, target=fleet.top,
    )  # fmt: skip
    path = fleet.tree.paths.instance(instance).message(message.id)
    fleet.tree.put(path, replace(message, instance=as_if_to).to_record())


def failing_rule(run: Experiment) -> bool:
    """HJ11: the rebalancer raises, and then an instance leaves."""
    rule = run.log_folder / "failing.py"
    rule.write_text("def rule(question):\n    raise ZeroDivisionError('the rule fails, as it was told to')\n")
    told = []
    kept: list[int] = []
    held: list[int] = []
    for is_ours in (False, True):
        with run.fleet("failing") as fleet:
            first, *others = names_of(fleet.cluster)
            for name in (first, *others):
                fleet.we_join(name)
            fleet.they_control()
            fleet.settled(first, *others)
            before = fleet.look().holders(fleet.top)
            stay = {lock: holders for lock, holders in before.items() if holders != (first,)}
            if is_ours:
                fleet.they_stop_controlling()
                fleet.we_control(rebalancer=f"{rule}:rule")
            else:
                fleet.they_rule(is_failing=True)
            fleet.leave(first)
            time.sleep(WATCHED_S)
            after = fleet.look().holders(fleet.top)
            kept.append(sum(after.get(lock) == holders for lock, holders in stay.items()))
            held.append(len(after))
            folders = (f"{fleet.tree.paths.root}/CONTROLLER/{each}" for each in ("ERRORS", "STATUSUPDATES", "MESSAGES"))
            said = [alarm.text for alarm in fleet.alarms if alarm.kind is AlarmKind.REBALANCER_FAILED]
            told.append(said if is_ours else [name for each in folders for name in fleet.tree.names(each)])
    run.say(f"of 8 locks of the others, kept: theirs {kept[0]}, ours {kept[1]}; locks held by anybody: {held}")
    run.say(f"what an operator can hear: theirs {told[0]}, ours {told[1]}")
    return kept == [0, 8] and not told[0] and bool(told[1])


def disabled_instance(run: Experiment) -> bool:
    """HJ12: an operator disables an instance that holds locks (HELIX_ENABLED is false)."""
    held = []
    for is_ours in (False, True):
        with run.fleet("disabled") as fleet:
            first, *others = names_of(fleet.cluster)
            for name in (first, *others):
                fleet.we_join(name)
            if is_ours:
                fleet.we_control()
            else:
                fleet.they_control()
            fleet.settled(first, *others)
            path = fleet.tree.paths.instance(first).config
            record = fleet.tree.record(path)
            fleet.tree.put(path, replace(record, simple={**record.simple, "HELIX_ENABLED": "false"}))
            if is_ours:
                _await_all_elsewhere(fleet, first)
            else:
                time.sleep(WATCHED_S)
            held.append(ALL_LOCKS - len(_by_others(fleet, first)))
    run.say(f"locks that the disabled instance holds: theirs {held[0]}, ours {held[1]}")
    return held == [4, 0]


def _await_all_elsewhere(fleet: Fleet, instance: str) -> None:
    fleet.until(lambda _seen: len(_by_others(fleet, instance)) == ALL_LOCKS, f"others than {instance} to hold all")


def _by_others(fleet: Fleet, instance: str) -> list[str]:
    return [lock for lock, names in fleet.look().holders(fleet.top).items() if instance not in names]


def missing_callback(run: Experiment) -> bool:
    """Z8: the recipe's class has no method for LOCKED-DROPPED, and an instance leaves."""
    with run.fleet("missing-callback") as fleet:
        first, *others = names_of(fleet.cluster)
        for name in (first, *others):
            fleet.they_join(name, is_whole=False)
        fleet.they_control()
        fleet.settled(first, *others)
        fleet.leave(first)
        fleet.settled(*others)
        two = fleet.two_holders()
        believed = sorted({text.partition(":")[0] for text in two})
        run.say(f"theirs: locks that two believe to hold: {', '.join(believed)}")
        try:
            fleet.we_join(first, leaves_out="DROPPED")
        except ConfigError as error:
            run.say(f"ours: {error}")
            return believed == ["lock-group_11", "lock-group_2", "lock-group_7", "lock-group_8"]
        return False


def _with_count(count: str) -> StateModel:
    """The recipe's state model with another count of LOCKED."""
    return replace(LOCK_UNLOCK, counts={"LOCKED": count})


COUNTS: Final[Mapping[str, tuple[StateModel, int]]] = {
    "LOCKED: R": (_with_count("R"), 1),
    "LOCKED: N": (_with_count("N"), 1),
    "OnlineOffline": (BUILT_IN["OnlineOffline"], 1),
    "MasterSlave": (BUILT_IN["MasterSlave"], 3),
    "LOCKED: 2": (_with_count("2"), 2),
}
"""State models whose top state has a count that is no number, and two where it is one; with the replicas."""


def count_of_the_top_state(run: Experiment) -> bool:
    """The recipe's rule takes the count of the first state for a number: with N and R it logs an error, and nobody
    gets a lock. Ours does the same under the class name of the recipe, and reads N and R under the name `mod`.
    """
    found = []
    for name, (model, replicas) in COUNTS.items():
        theirs = _granted(run, model, replicas, is_ours=False)
        ours = _granted(run, model, replicas, is_ours=True)
        improved = _granted(run, model, replicas, is_ours=True, rebalancer="mod")
        for who, (held, said) in (("theirs", theirs), ("ours", ours), ("mod", improved)):
            run.say(f"{name}: {who}: {held} holders of {ALL_LOCKS} locks; {said or 'nothing is said'}")
        is_number = model.count(model.top).isdigit()
        per_lock = model.limit(model.top, replicas=replicas, live=INSTANCES) or 0
        found.append(improved == (per_lock * ALL_LOCKS, ""))
        found.append(theirs[0] == ours[0] == (per_lock * ALL_LOCKS if is_number else 0))
        found.append(bool(theirs[1]) == bool(ours[1]) == (not is_number))
    return all(found)


def _granted(
    run: Experiment, model: StateModel, replicas: int, *, is_ours: bool, rebalancer: str = ""
) -> tuple[int, str]:
    """How many holders the locks have together once the rule was asked, and what it said is wrong."""
    with run.fleet("count", cluster=with_model(model, replicas)) as fleet:
        names = names_of(fleet.cluster)
        for name in names:
            fleet.we_join(name)
        if is_ours:
            fleet.we_control(rebalancer=rebalancer)
        else:
            fleet.they_control()
        per_lock = model.limit(model.top, replicas=replicas, live=INSTANCES) or 0

        def complaint() -> str:
            if is_ours:
                return next((each.text for each in fleet.alarms if each.kind is AlarmKind.NOTHING_ASSIGNED), "")
            return next((line for line in fleet.log().splitlines() if "valid count" in line), "")

        def is_done(seen: Seen) -> bool:
            return not seen.pending and (_count(fleet, seen) == per_lock * ALL_LOCKS or bool(complaint()))

        fleet.until(is_done, "every lock to be held, or a word about the count")
        time.sleep(1)  # Whatever is sent beside the complaint arrives in this time.
        return _count(fleet, fleet.look()), complaint()


def _count(fleet: Fleet, seen: Seen) -> int:
    return sum(len(holders) for holders in seen.holders(fleet.top).values())


HAZARDS: Final = {
    "hj8-unheard-states": unheard_states,
    "hj9-malformed-record": malformed_record,
    "hj10-foreign-message": foreign_message,
    "hj11-failing-rule": failing_rule,
    "hj12-disabled-instance": disabled_instance,
    "z8-missing-callback": missing_callback,
    "count-of-the-top-state": count_of_the_top_state,
}
"""Experiments by the id of the hazard."""
