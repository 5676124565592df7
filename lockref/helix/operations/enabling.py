"""Enable and disable: an instance, one lock on an instance, a resource, or the whole cluster.

The records are those that Helix 1.4.3's own administrator writes (`ZKHelixAdmin`):

    instance   HELIX_ENABLED, HELIX_ENABLED_TIMESTAMP, HELIX_DISABLED_REASON in its configuration; where a Helix
               tool has ordered DISABLE or EVACUATE, one more entry of HELIX_INSTANCE_OPERATIONS, ENABLE
    lock       HELIX_DISABLED_PARTITION in the instance's configuration: by resource, the locks with commas
    resource   HELIX_ENABLED in its ideal state
    cluster    CONTROLLER/PAUSE: controllers send nothing while it is there

What is so already is not written again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from lockref.coordination.port import Operation, Stat, change, create, delete
from lockref.errors import ConfigError, did_you_mean, quote
from lockref.helix.operations.operator import Operator
from lockref.helix.records import layout
from lockref.helix.records.zn_record import ZNRecord
from lockref.helix.served import (
    DISABLE,
    ENABLE,
    ENABLED,
    EVACUATE,
    SWAP_OUT,
    is_enabled,
    operation_of,
    with_operation,
)
from lockref.runtime import NS_PER_MS

TIMESTAMP: Final = "HELIX_ENABLED_TIMESTAMP"
REASON: Final = "HELIX_DISABLED_REASON"
_TYPE: Final = "HELIX_DISABLED_TYPE"
DISABLED_LOCKS: Final = "HELIX_DISABLED_PARTITION"


def require_record(operator: Operator, path: str, what: str, name: str, folder: str) -> tuple[ZNRecord, Stat]:
    """The record of an instance or a resource, and its `Stat`. what: the kind of thing. folder: where its kind stands.

    Errors: ConfigError where there is none, with the nearest name.
    """
    found = operator.record(path)
    if found is None:
        known = operator.children(folder)
        listed = f"there are {', '.join(known[:8])}{' …' if len(known) > 8 else ''}" if known else "there is none"
        raise ConfigError(f"there is no {what} {quote(name)}; {listed}.{did_you_mean(name, known)}")
    return found


def enable_instance(operator: Operator, cluster: str, name: str, *, is_wanted: bool, reason: str = "") -> bool:
    """Let an instance hold locks, or take all from it. reason: of disabling, for other operators.

    Returns whether it was otherwise before. Errors: ConfigError if there is no such instance, or if it shall be enabled
    under an operation that is Helix' to end, such as SWAP_IN.
    """
    now_ms = operator.runtime.wall_ns() // NS_PER_MS

    def changed(record: ZNRecord) -> ZNRecord:
        ended = operation_of(record) if is_wanted else ""
        if ended == SWAP_OUT:
            # It takes nothing from the instance, so Helix may end it later.
            ended = ""
        if ended not in ("", DISABLE, EVACUATE):
            raise ConfigError(
                f"instance {name} is under Helix' operation {ended}, which Helix itself must end; nothing was written"
            )
        is_same_reason = is_wanted or not reason or record.simple.get(REASON) == reason
        if is_enabled(record) == is_wanted and is_same_reason and not ended:
            return record
        simple = {**record.simple, ENABLED: _word(is_wanted), TIMESTAMP: str(now_ms)}
        for field in (REASON, _TYPE):
            simple.pop(field, None)
        if reason and not is_wanted:
            simple[REASON] = reason
        made = replace(record, simple=simple)
        return with_operation(made, ENABLE, now_ms=now_ms) if ended else made

    return _change_instance(operator, cluster, name, changed)


def enable_lock(operator: Operator, cluster: str, *, instance: str, resource: str, lock: str, is_wanted: bool) -> bool:
    """Let an instance hold one lock, or take that from it. Returns whether it was otherwise before.

    Errors: ConfigError if there is no such instance, resource or lock.
    """
    paths = layout.ClusterPaths(cluster)
    ideal, _ = require_record(operator, paths.ideal_state(resource), "resource", resource, paths.ideal_states)
    locks = sorted({*ideal.maps, *ideal.lists})
    if lock not in locks:
        raise ConfigError(f"resource {resource!r} has no lock {quote(lock)}.{did_you_mean(lock, locks)}")

    def changed(record: ZNRecord) -> ZNRecord:
        mapped = dict(record.maps.get(DISABLED_LOCKS, {}))
        named = [each for each in mapped.get(resource, "").split(",") if each]
        # An older Helix kept one list for all resources; this lock would stay disabled by it.
        listed = list(record.lists.get(DISABLED_LOCKS, ()))
        if is_wanted == (lock not in named and lock not in listed):
            return record
        named = [each for each in named if each != lock] if is_wanted else sorted({*named, lock})
        mapped.pop(resource, None)
        if named:
            mapped[resource] = ",".join(named)
        lists = dict(record.lists)
        if lock in listed and is_wanted:
            lists[DISABLED_LOCKS] = [each for each in listed if each != lock]
        return replace(record, maps={**record.maps, DISABLED_LOCKS: mapped}, lists=lists)

    return _change_instance(operator, cluster, instance, changed)


def enable_resource(operator: Operator, cluster: str, name: str, *, is_wanted: bool) -> bool:
    """Let the locks of a resource be held, or take all of them back. Returns whether it was otherwise before.

    Errors: ConfigError if there is no such resource.
    """
    paths = layout.ClusterPaths(cluster)

    def plan() -> Sequence[Operation]:
        record, stat = require_record(operator, paths.ideal_state(name), "resource", name, paths.ideal_states)
        if is_enabled(record) == is_wanted:
            return []
        made = replace(record, simple={**record.simple, ENABLED: _word(is_wanted)})
        return [change(paths.ideal_state(name), made.to_json(), stat.version)]

    return operator.carry_out(plan, f"change resource {name}")


def enable_cluster(operator: Operator, cluster: str, *, is_wanted: bool, reason: str = "") -> bool:
    """Let controllers decide, or pause them all. Returns whether it was otherwise before."""
    path = layout.ClusterPaths(cluster).pause

    def plan() -> Sequence[Operation]:
        found = operator.read(path)
        if found.missing == is_wanted:
            return []
        if isinstance(found.version, Stat):
            return [delete(path, found.version.version)]
        return [create(path, ZNRecord("pause", {layout.PAUSE_REASON: reason} if reason else {}).to_json())]

    return operator.carry_out(plan, f"change {path}")


def _change_instance(operator: Operator, cluster: str, name: str, changed: Callable[[ZNRecord], ZNRecord]) -> bool:
    """Write an instance's configuration anew. changed: made of the present one; the same object changes nothing."""
    paths = layout.ClusterPaths(cluster)
    path = paths.instance(name).config

    def plan() -> Sequence[Operation]:
        record, stat = require_record(operator, path, "instance", name, paths.instance_configs)
        made = changed(record)
        return [] if made is record else [change(path, made.to_json(), stat.version)]

    return operator.carry_out(plan, f"change instance {name}")


def _word(is_so: bool) -> str:
    return "true" if is_so else "false"
