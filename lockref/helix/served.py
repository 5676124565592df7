"""Which resources of a cluster this controller drives, by which rule, and why it refuses the others.

    USER_DEFINED   the rule that the resource names, if it is one of lockref's: see `rebalancers.load`
    SEMI_AUTO      the preference lists of the ideal state: the first instances of a list that live hold the lock, less
                   those that are disabled for it
    CUSTOMIZED     the map of the ideal state: the instances that it gives the top state. One that is disabled for the
                   lock has no substitute
    FULL_AUTO      refused, because Helix's own rebalancers decide; driven if the operator names a rule for it
    TASK           refused, because it has jobs and no locks

This controller gives an instance the top state of a lock or nothing. So it refuses a resource of the last four modes
whose model counts the instances of a second state, such as SLAVE of MasterSlave: it would drop every SLAVE.

A refused resource is left alone. Its instances are sent nothing, and its external view stays what it is.
Source: `org.apache.helix.model.IdealState`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from lockref.errors import ConfigError, quote
from lockref.helix.cluster.declared import RebalanceMode
from lockref.helix.rebalancers import Assignment, OfRecord, Question, Rebalancer
from lockref.helix.records.zn_record import ZNRecord
from lockref.helix.state_model import DROPPED, ERROR, UNBOUNDED, StateModel
from lockref.strict_json import NotJson, read_object

ENABLED: Final = "HELIX_ENABLED"
"""The field of an instance's configuration, and of an ideal state, with which an operator disables it."""

OPERATIONS: Final = "HELIX_INSTANCE_OPERATIONS"
"""The list field of an instance's configuration with what was ordered about it, one JSON text each, the last one in
force. Versions before 1.4 have one word, in the simple field INSTANCE_OPERATION.
"""

ENABLE, DISABLE, EVACUATE, SWAP_OUT = "ENABLE", "DISABLE", "EVACUATE", "SWAP_OUT"
"""Operations on an instance: Helix knows SWAP_IN and UNKNOWN, too. Only versions before 1.4 have SWAP_OUT: the instance
goes on until another one has everything that it has.
"""

_OLD_OPERATION: Final = "INSTANCE_OPERATION"

_OLD_MODES: Final = {
    "AUTO": RebalanceMode.SEMI_AUTO.value,
    "AUTO_REBALANCE": RebalanceMode.FULL_AUTO.value,
    "CUSTOMIZED": RebalanceMode.CUSTOMIZED.value,
}
"""IDEAL_STATE_MODE of old clusters, which have no REBALANCE_MODE."""


class NotServed(ConfigError):
    """This controller does not drive the resource: let Helix's controller lead, or name a rule with --rebalancer."""


def is_enabled(record: ZNRecord) -> bool:
    """True unless an operator has disabled the instance or the resource whose record this is."""
    return record.simple.get(ENABLED, "true").lower() != "false"


def operation_of(record: ZNRecord) -> str:
    """The operation in force on the instance whose configuration this is; "" for none, or for ENABLE.

    An entry that is no record of an operation is passed over, as in Helix.
    Source: `org.apache.helix.model.InstanceConfig`, getActiveInstanceOperation.
    """
    for text in reversed(record.lists.get(OPERATIONS, ())):
        try:
            said = read_object(text).get("OPERATION", ENABLE)
        except NotJson:
            continue
        return "" if said == ENABLE else str(said)
    old = record.simple.get(_OLD_OPERATION, "")
    return "" if old == ENABLE else old


def may_hold(record: ZNRecord) -> bool:
    """True unless the instance whose configuration this is has been disabled, or is under an operation that takes all
    its locks from it.
    """
    return is_enabled(record) and operation_of(record) in ("", SWAP_OUT)


def with_operation(record: ZNRecord, operation: str, *, now_ms: int) -> ZNRecord:
    """The configuration of an instance with one more operation, which is in force then, as an operator orders it.

    now_ms: wall time. The one word of versions before 1.4 is left out: it would stay in force for them.
    """
    entry = json.dumps({"OPERATION": operation, "REASON": "", "SOURCE": "USER", "TIMESTAMP": str(now_ms)})
    simple = {field: text for field, text in record.simple.items() if field != _OLD_OPERATION}
    return replace(
        record, simple=simple, lists={**record.lists, OPERATIONS: [*record.lists.get(OPERATIONS, ()), entry]}
    )


def mode_of(record: ZNRecord) -> str:
    """The rebalance mode of an ideal state, such as `USER_DEFINED`; a word that Helix does not know stays as it is."""
    found = record.simple.get("REBALANCE_MODE", "")
    return found or _OLD_MODES.get(record.simple.get("IDEAL_STATE_MODE", ""), RebalanceMode.SEMI_AUTO.value)


def rule_of(record: ZNRecord, model: StateModel, *, override: str, load: Callable[[str], Rebalancer]) -> Rebalancer:
    """The rule by which this controller drives a resource.

    record: its ideal state. override: the name of the operator's rule for all resources; "" for none. load: the rule of
    a name. Errors: NotServed, and what `load` raises.
    """
    mode = mode_of(record)
    if mode == RebalanceMode.USER_DEFINED:
        return load(override or record.simple.get("REBALANCER_CLASS_NAME", ""))
    if mode not in (RebalanceMode.FULL_AUTO, RebalanceMode.SEMI_AUTO, RebalanceMode.CUSTOMIZED):
        words = "it has jobs, and no locks" if mode == "TASK" else "which Helix does not have"
        raise NotServed(f"its mode is {quote(mode)}: {words}")
    second = _counted_second(model)
    if second:
        raise NotServed(
            f"its mode is {mode}, and {model.name} counts the instances in {second}, too: this controller gives an "
            f"instance {model.top} or nothing, and would drop every {second}. Helix's controller can lead"
        )
    if override:
        return load(override)
    if mode == RebalanceMode.SEMI_AUTO:
        return OfRecord(_by_preference, (record.lists,))
    if mode == RebalanceMode.CUSTOMIZED:
        return OfRecord(_by_map, (record.maps, model.top))
    deciding = record.simple.get("REBALANCER_CLASS_NAME") or record.simple.get("REBALANCE_STRATEGY", "DEFAULT")
    raise NotServed(
        f"its mode is FULL_AUTO: Helix's own rebalancer decides ({deciding.rpartition('.')[2]}), which lockref does "
        "not have. Let Helix's controller lead, or name a rule: --rebalancer sticky"
    )


def _counted_second(model: StateModel) -> str:
    """The first state below the top one whose instances are counted; "" if the model has none."""
    others = (each for each in model.states[1:] if each not in (model.initial, DROPPED, ERROR))
    return next((each for each in others if model.count(each) != UNBOUNDED), "")


def _by_preference(question: Question, lists: Mapping[str, Sequence[str]]) -> Assignment:
    live = dict.fromkeys(question.live)
    return {
        lock: tuple(_able(question, lock, live, dict.fromkeys(lists.get(lock, ())))[: question.per_lock])
        for lock in question.locks
    }


def _by_map(question: Question, maps: Mapping[str, Mapping[str, str]], top: str) -> Assignment:
    live = dict.fromkeys(question.live)
    return {
        lock: tuple(_able(question, lock, live, [each for each, state in maps.get(lock, {}).items() if state == top]))
        for lock in question.locks
    }


def _able(question: Question, lock: str, live: Collection[str], names: Iterable[str]) -> list[str]:
    """Instances of these names that live and may hold the lock, in the order of the names."""
    disabled = question.disabled.get(lock, ())
    return [each for each in names if each in live and each not in disabled]
