"""Read the status of a cluster: live instances, then messages, then reports, as a controller does (T27).

The reads are of several moments, so a lock that changes hands meanwhile may show with no owner. What cannot be read is
told with its path, and the rest is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lockref.coordination.port import Stat
from lockref.errors import ConfigError
from lockref.grammar import decimal
from lockref.helix import rebalancers
from lockref.helix.operations.enabling import DISABLED_LOCKS, REASON
from lockref.helix.operations.operator import Operator
from lockref.helix.operations.status import (
    ClusterStatus,
    ControllerStatus,
    InstanceStatus,
    LastReport,
    LockStatus,
    ResourceStatus,
    WaitingMessage,
    silence_of,
)
from lockref.helix.records import layout
from lockref.helix.records.zn_record import ZNRecord
from lockref.helix.served import is_enabled, may_hold, mode_of, operation_of, rule_of
from lockref.helix.state_model import StateModel
from lockref.ports import Reply
from lockref.runtime import NS_PER_MS, NS_PER_S

ZOMBIE_AFTER_NS: Final = 60 * NS_PER_S
"""Twice Helix' default session timeout."""


def read_status(
    operator: Operator, cluster: str, *, zombie_after_ns: int = ZOMBIE_AFTER_NS, rebalancer: str = ""
) -> ClusterStatus:
    """The status of a cluster that is there. zombie_after_ns: how long a message may wait before that is told.

    rebalancer: the rule that a controller would use for all resources; "" for each one's own.
    """
    return _StatusReader(operator, layout.ClusterPaths(cluster), zombie_after_ns, rebalancer).status()


class _StatusReader:
    """Reads one cluster once. states: by resource, lock and live instance. last_reports: by instance."""

    def __init__(self, operator: Operator, paths: layout.ClusterPaths, zombie_after_ns: int, rebalancer: str) -> None:
        self._operator = operator
        self._rebalancer = rebalancer
        self._paths = paths
        self._zombie_after_ns = zombie_after_ns
        self._problems: list[str] = []
        self._unread: list[str] = []
        self._states: dict[str, dict[str, dict[str, str]]] = {}
        self._last_reports: dict[str, LastReport] = {}
        self._live_count = 0

    def status(self) -> ClusterStatus:
        paths, operator = self._paths, self._operator
        leader, pause, maintenance = operator.read_all([paths.leader, paths.pause, paths.maintenance])
        live = self._live()
        self._live_count = len(live)
        configs = self._records(paths.instance_configs)
        names = sorted({*live, *configs})
        messages = {name: self._messages(name, live.get(name, "")) for name in names}
        for name, session in live.items():
            self._read_reports(name, session)
        resources = tuple(
            self._resource(name, record) for name, record in sorted(self._records(paths.ideal_states).items())
        )
        owned: dict[str, list[str]] = {}
        for resource in resources:
            for lock in resource.locks:
                for owner in lock.owners:
                    owned.setdefault(owner, []).append(lock.name)
        return ClusterStatus(
            name=paths.cluster,
            controller=self._controller(leader),
            is_paused=not pause.missing,
            pause_reason=_pause_reason(pause),
            is_in_maintenance=not maintenance.missing,
            instances=tuple(
                self._instance(name, configs.get(name), live.get(name, ""), messages[name], owned.get(name, ()))
                for name in names
            ),
            resources=resources,
            problems=tuple(self._problems),
            unread=tuple(self._unread),
            reports={
                name: sorted({each for by in locks.values() for each in by}) for name, locks in self._states.items()
            },
        )

    def _controller(self, reply: Reply) -> ControllerStatus | None:
        if not isinstance(reply.version, Stat):
            return None
        record = self._record(self._paths.leader, reply)
        owner = reply.version.owner
        if not owner:
            self._problems.append(f"{self._paths.leader} belongs to no session: nobody leads until somebody removes it")
        return ControllerStatus(
            name="" if record is None else record.id, session=layout.session_name(owner) if owner else ""
        )

    def _live(self) -> dict[str, str]:
        """The live instances, each with its session: the owner of its znode."""
        names = self._operator.children(self._paths.live_instances)
        found: dict[str, str] = {}
        replies = self._operator.read_all(self._paths.instance(name).live for name in names)
        for name, reply in zip(names, replies, strict=True):
            if isinstance(reply.version, Stat) and reply.version.owner:
                found[name] = layout.session_name(reply.version.owner)
            elif isinstance(reply.version, Stat):
                self._problems.append(f"{self._paths.instance(name).live} belongs to no session")
                self._unread.append(self._paths.instance(name).live)
        return found

    def _messages(self, name: str, session: str) -> tuple[WaitingMessage, ...]:
        paths = self._paths.instance(name)
        now_ms = self._operator.runtime.wall_ns() // NS_PER_MS
        ids = self._operator.children(paths.messages)
        found: list[WaitingMessage] = []
        for each, reply in zip(ids, self._operator.read_all(map(paths.message, ids)), strict=True):
            record = self._record(paths.message(each), reply)
            if record is None or not isinstance(reply.version, Stat):
                continue
            simple = record.simple
            sent_ms = decimal(simple.get("CREATE_TIMESTAMP", ""))
            found.append(
                WaitingMessage(
                    id=each,
                    kind=simple.get("MSG_TYPE", ""),
                    resource=simple.get("RESOURCE_NAME", ""),
                    lock=simple.get("PARTITION_NAME", ""),
                    source=simple.get("FROM_STATE", ""),
                    target=simple.get("TO_STATE", ""),
                    state=simple.get("MSG_STATE", "").lower(),
                    age_ns=None if sent_ms is None else max(0, now_ms - sent_ms) * NS_PER_MS,
                    created_zxid=reply.version.created_zxid,
                    # Helix addresses some messages to any session.
                    is_stale=simple.get("TGT_SESSION_ID", "*") not in (session, "*"),
                )
            )
        return tuple(sorted(found, key=lambda each: each.created_zxid))

    def _read_reports(self, name: str, session: str) -> None:
        """The current states of a live instance under its present session."""
        paths = self._paths.instance(name)
        resources = self._operator.children(paths.current_states(session))
        places = [paths.current_state(session, resource) for resource in resources]
        for resource, path, reply in zip(resources, places, self._operator.read_all(places), strict=True):
            if isinstance(reply.version, Stat):
                self._last_reports[name] = max(
                    self._last_reports.get(name, LastReport()), self._last_report(reply.version), key=lambda it: it.zxid
                )
            record = self._record(path, reply)
            for lock, entry in ({} if record is None else record.maps).items():
                by_name = self._states.setdefault(resource, {}).setdefault(lock, {})
                by_name[name] = entry.get("CURRENT_STATE", "?")

    def _last_report(self, stat: Stat) -> LastReport:
        if stat.changed_ms is None:
            return LastReport(zxid=stat.changed_zxid)
        now_ms = self._operator.runtime.wall_ns() // NS_PER_MS
        return LastReport(zxid=stat.changed_zxid, ago_ns=max(0, now_ms - stat.changed_ms) * NS_PER_MS)

    def _instance(
        self,
        name: str,
        config: ZNRecord | None,
        session: str,
        messages: tuple[WaitingMessage, ...],
        owned: Sequence[str],
    ) -> InstanceStatus:
        simple: Mapping[str, str] = {} if config is None else config.simple
        mapped = {} if config is None else config.maps.get(DISABLED_LOCKS, {})
        disabled = {resource: tuple(locks.split(",")) for resource, locks in mapped.items() if locks}
        if config is not None and config.lists.get(DISABLED_LOCKS):
            disabled["any resource"] = tuple(config.lists[DISABLED_LOCKS])
        operation = "" if config is None else operation_of(config)
        silence = None
        if session:
            reported = self._last_reports.get(name, LastReport())
            silence = silence_of(messages, reported=reported, limit_ns=self._zombie_after_ns)
        return InstanceStatus(
            name=name,
            host=simple.get(layout.HOST, ""),
            port=simple.get(layout.PORT, ""),
            session=session,
            is_configured=config is not None,
            is_enabled=config is None or may_hold(config),
            reason=simple.get(REASON, ""),
            operation=operation,
            disabled_locks=disabled,
            messages=messages,
            owned=tuple(owned),
            silence=silence,
        )

    def _resource(self, name: str, record: ZNRecord) -> ResourceStatus:
        model_name = record.simple.get("STATE_MODEL_DEF_REF", "")
        model, refusal = self._model(model_name)
        if model is not None:
            try:
                rule_of(record, model, override=self._rebalancer, load=rebalancers.load)
            except ConfigError as error:
                refusal = error.message
        path = self._paths.external_view(name)
        view = self._record(path, self._operator.read(path))
        views = {} if view is None else view.maps
        reported = self._states.get(name, {})
        locks = sorted({**record.maps, **record.lists, **reported})
        replicas = record.simple.get("REPLICAS", "")
        mode = mode_of(record)
        return ResourceStatus(
            name=name,
            mode=mode,
            rule=self._rebalancer or record.simple.get("REBALANCER_CLASS_NAME", ""),
            model=model_name,
            replicas=replicas,
            is_enabled=is_enabled(record),
            refusal=refusal,
            top="" if model is None else model.top,
            per_lock=None
            if model is None
            else model.limit(model.top, replicas=decimal(replicas) or 1, live=self._live_count),
            locks=tuple(
                LockStatus(
                    name=lock,
                    ideal=_ideal(record, lock),
                    states=dict(sorted(reported.get(lock, {}).items())),
                    view=dict(sorted(views.get(lock, {}).items())),
                    owners=tuple(
                        sorted(
                            each
                            for each, state in reported.get(lock, {}).items()
                            if model is not None and state == model.top
                        )
                    ),
                )
                for lock in locks
            ),
        )

    def _model(self, name: str) -> tuple[StateModel | None, str]:
        """The state model of that name, or why there is none."""
        path = self._paths.state_model(name)
        if not name:
            return None, "its ideal state names no state model"
        record = self._record(path, self._operator.read(path))
        if record is None:
            return None, f"its state model {name} cannot be read"
        model = StateModel.from_record(record)
        problems = model.problems()
        return (None, f"{path} holds no state model: {problems[0]}") if problems else (model, "")

    # Records.

    def _records(self, folder: str) -> dict[str, ZNRecord]:
        """The records below a folder, by name."""
        paths = {name: f"{folder}/{name}" for name in self._operator.children(folder)}
        replies = self._operator.read_all(paths.values())
        found = {name: self._record(path, reply) for (name, path), reply in zip(paths.items(), replies, strict=True)}
        return {name: record for name, record in found.items() if record is not None}

    def _record(self, path: str, reply: Reply) -> ZNRecord | None:
        """The record in a reply; None where there is none. What is no record is a problem."""
        if reply.missing:
            return None
        try:
            return ZNRecord.from_json(reply.body or b"", path)
        except ConfigError as error:
            self._problems.append(str(error))
            self._unread.append(path)
            return None


def _pause_reason(reply: Reply) -> str:
    """The reason in CONTROLLER/PAUSE. Empty where none is given: the znode alone pauses, whatever is in it."""
    try:
        return "" if not reply.body else ZNRecord.from_json(reply.body, "PAUSE").simple.get(layout.PAUSE_REASON, "")
    except ConfigError:
        return ""


def _ideal(record: ZNRecord, lock: str) -> str:
    """The map of states, or the list of preference, that an ideal state has for one lock; as text."""
    states = record.maps.get(lock)
    if states:
        return ", ".join(f"{name} {state}" for name, state in sorted(states.items()))
    return ", ".join(record.lists.get(lock, ()))
