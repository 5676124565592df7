"""Read a cluster for the controller, in the order on which its decisions rest, and cope with nonsense.

Live instances come first, then messages, then current states (T27): a message that is gone has left its effect in a
state that is read after it. Within one of these parts the order does not matter.

A znode that holds no record stops nobody but itself: there is an alarm with its path and the reason, and decisions go
on for everybody else. What cannot be read never frees a lock:

    current states   what they said before counts; without that, what the leaders' book says (`grants`)
    ideal state      nothing is decided about that resource; its holders keep what they have. The same holds for a
                     resource that this controller does not drive (`served`)
    live instance    its session is the owner of the znode, whatever the text says; one that belongs to no session is
                     sent nothing, and keeps what it reports to hold
    message          left to its instance; removed where the instance is not live
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from lockref.coordination.port import Stat
from lockref.coordination.session import Event
from lockref.errors import ConfigError
from lockref.grammar import decimal
from lockref.helix.cluster.declared import RebalanceMode
from lockref.helix.controller.asking import Interrupted
from lockref.helix.controller.looking import Looking
from lockref.helix.grants import Evidence, Page, Report, replicas_of
from lockref.helix.pipeline import Alarm, AlarmKind, LockGroup, Replica, Semantics, Snapshot
from lockref.helix.rebalancers import Rebalancer, keep, nobody
from lockref.helix.records import layout
from lockref.helix.records.messages import STATE_TRANSITION, Message
from lockref.helix.records.zn_record import ZNRecord
from lockref.helix.served import (
    DISABLE,
    EVACUATE,
    SWAP_OUT,
    NotServed,
    is_enabled,
    may_hold,
    mode_of,
    operation_of,
    rule_of,
)
from lockref.helix.state_model import StateModel
from lockref.ports import Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The result of reading a cluster.

    rebalancers: by resource. settled: by instance, locks that its page no longer needs. is_paused: an operator has
    paused the cluster (CONTROLLER/PAUSE): nothing shall be sent. configured: every resource with an ideal state.
    """

    snapshot: Snapshot
    rebalancers: Mapping[str, Rebalancer]
    alarms: tuple[Alarm, ...]
    settled: Mapping[str, Sequence[str]]
    is_paused: bool = False
    configured: tuple[str, ...] = ()


@dataclass(slots=True)
class _Live:
    """The live instances. sessions: of instances that can be sent messages. owners: of all. born: by instance, the
    transaction that created its znode. silent: instances that can be sent nothing, with the reason.
    """

    sessions: dict[str, str] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    born: dict[str, int] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)


class _States(NamedTuple):
    """The states of one resource in one znode. without: locks that the znode names without a state."""

    model: str
    states: Mapping[str, Replica | None]
    without: tuple[str, ...]


class ClusterReader:
    """Reads one cluster, every part watched.

    override: the name of the operator's rule for all resources; "" for none. rebalancer: the rule of a name.
    Errors of `read`: what `looking` raises; Interrupted where what was read is of two instants, and is to be read anew.
    """

    def __init__(
        self,
        looking: Looking,
        paths: layout.ClusterPaths,
        *,
        semantics: Semantics,
        override: str = "",
        rebalancer: Callable[[str], Rebalancer],
    ) -> None:
        self._looking = looking
        self._paths = paths
        self._semantics = semantics
        # FIRST and 0.7.1 know no operations on an instance, and CURRENT decides without asking who is disabled.
        self._is_ours = semantics is Semantics.OURS
        self._override = override
        self._rebalancer = rebalancer
        self._alarms: list[Alarm] = []
        self._configured: tuple[str, ...] = ()
        self._maintenance: bool | None = None
        self.forget()

    def forget(self) -> None:
        """The session has ended."""
        self._looking.forget()
        # A message never changes, so it is read once. None for one that is no order; a text for one that is nonsense.
        self._messages: dict[str, Message | str | None] = {}
        self._last: dict[str, _States] = {}

    def heard(self, event: Event) -> None:
        """A watch fired, or the session's state has changed."""
        self._looking.heard(event)

    def sent(self, messages: Iterable[tuple[str, Message]]) -> None:
        """These were sent by this controller, by path: they need not be read."""
        self._messages.update(messages)

    def read(self, pages: Mapping[str, Page], book_zxid: int | None) -> Reading:
        """The cluster as it is. pages: what leaders have told the instances; book_zxid: since when; None: never."""
        self._alarms = []
        self._maintenance = None
        self._looking.begin()
        # The order of these reads matters. The sessions are read before messages and states. A session that ends in
        # between then leaves doubt, which `_require_still_live` finds. The other way round, an instance that came in
        # between would seem to hold nothing, and its locks would be given away.
        groups, chosen, frozen, stopped = self._groups()
        live = self._live()
        pending, stale = self._pending(live)
        reports, gone = self._reports(live, groups, frozen)
        groups = [*groups, *gone]
        # A page of an earlier session says nothing of this one: its grants ended with that session.
        own_pages = {name: page for name, page in pages.items() if page.session == live.owners.get(name)}
        # An instance that is younger than the book was told nothing before it, so an absent page means "nothing
        # granted".
        younger = [name for name, born in live.born.items() if book_zxid is not None and born > book_zxid]
        evidence = Evidence(
            groups=groups,
            reports=reports,
            pending=pending,
            pages=own_pages,
            covered=[*own_pages, *younger],
            silent=live.silent,
            # Helix believes the reports and looks at nothing else: no report means "in the initial state". We look at
            # messages and pages, too. A report that was deleted would free a lock that an instance still holds.
            trusts=not self._is_ours,
        )
        replicas, settled = replicas_of(evidence)
        self._require_still_live(live, [each for states in replicas.values() for each in states if states[each].doubt])
        disabled, disabled_locks, is_paused = self._disabled(live, stopped)
        self._looking.end()
        # Forgotten with its znode: a report that comes again under that path belongs to a new session.
        self._last = {path: states for path, states in self._last.items() if self._looking.was_looked_at(path)}
        rebalancers: dict[str, Rebalancer] = {each.name: nobody for each in gone}
        rebalancers |= chosen
        snapshot = Snapshot(
            groups=tuple(groups),
            live=dict(sorted(live.sessions.items())),
            replicas=replicas,
            pending=tuple(pending),
            stale=tuple(stale),
            disabled=disabled,
            disabled_locks=disabled_locks,
        )
        return Reading(
            snapshot=snapshot,
            rebalancers=rebalancers,
            alarms=tuple(dict.fromkeys(self._alarms)),
            settled=settled,
            is_paused=is_paused,
            configured=self._configured,
        )

    def _require_still_live(self, live: _Live, doubted: Iterable[str]) -> None:
        """Raises Interrupted if the session of one of these ended after it was read to live.

        Then its messages and states have gone with it, which says nothing of what it did with them.
        """
        names = [name for name in dict.fromkeys(doubted) if name in live.owners]
        replies = self._looking.looks(self._paths.instance(name).live for name in names)
        for name, reply in zip(names, replies, strict=True):
            stat = reply.version
            if not isinstance(stat, Stat) or layout.session_name(stat.owner) != live.owners[name]:
                raise Interrupted

    # Resources.

    def _groups(self) -> tuple[list[LockGroup], dict[str, Rebalancer], dict[str, None], list[str]]:
        """The resources that can be read and driven, the rule of each, which resources are left alone, and the locks
        of those that an operator has disabled.
        """
        groups: list[LockGroup] = []
        chosen: dict[str, Rebalancer] = {}
        frozen: dict[str, None] = {}
        stopped: list[str] = []
        owner: dict[str, str] = {}
        names = self._looking.names(self._paths.ideal_states)
        self._configured = tuple(names)
        paths = list(map(self._paths.ideal_state, names))
        for name, path, reply in zip(names, paths, self._looking.looks(paths), strict=True):
            if reply.missing:
                continue
            try:
                record = self._looking.record(path, reply)
                group = self._group(name, path, reply, record)
                shared = next((lock for lock in group.locks if lock in owner), None)
                # Two resources with one lock would each assign it. Neither is wrong alone, so the second one in order
                # is frozen.
                if shared is not None:
                    raise ConfigError(f"{path} names {shared!r}, which is a lock of {owner[shared]!r}")
                chosen[name] = self._rule(path, record, group.model)
            except ConfigError as error:
                frozen[name] = None
                self._alarm(f"{error}. Nothing is decided about {name!r}; its holders keep what they have")
                continue
            owner.update(dict.fromkeys(group.locks, name))
            groups.append(group)
            stopped += group.locks if not is_enabled(record) else ()
        return groups, chosen, frozen, stopped

    def _rule(self, path: str, record: ZNRecord, model: StateModel) -> Rebalancer:
        try:
            rule = rule_of(record, model, override=self._override, load=self._rebalancer)
        except NotServed as error:
            raise ConfigError(f"{path} is not driven: {error}") from error
        # Helix, too, keeps resources of other modes out of it.
        return keep if mode_of(record) == RebalanceMode.FULL_AUTO and self._is_in_maintenance() else rule

    def _is_in_maintenance(self) -> bool:
        """Has an operator, or Helix itself, put the cluster into maintenance?

        Asked where it makes a difference, and once in a pass: the answer is the same for all resources.
        """
        if self._semantics not in (Semantics.OURS, Semantics.CURRENT):
            # Earlier versions know no maintenance.
            return False
        if self._maintenance is None:
            path = self._paths.maintenance
            self._maintenance = self._looking.is_there(path)
            if self._maintenance:
                words = f"{path} is there: no instance gets another lock of a FULL_AUTO resource until it goes"
                self._alarms.append(Alarm(AlarmKind.PAUSED, words))
        return self._maintenance

    def _group(self, name: str, path: str, reply: Reply, record: ZNRecord) -> LockGroup:
        if not record.simple.get("STATE_MODEL_DEF_REF"):
            raise ConfigError(f"{path}: STATE_MODEL_DEF_REF is missing")
        replicas = decimal(record.simple.get("REPLICAS", "1"))
        return LockGroup(
            name=name,
            locks=self._looking.once(path, reply, "locks", partial(_locks, record)),
            replicas=1 if replicas is None else replicas,
            model=self._model(record.simple["STATE_MODEL_DEF_REF"]),
        )

    def _model(self, name: str) -> StateModel:
        path = self._paths.state_model(name)
        (reply,) = self._looking.looks([path])
        if reply.missing:
            raise ConfigError(f"a resource has the state model {name!r}, and {path} is not there")
        record = self._looking.record(path, reply)
        return self._looking.once(path, reply, "model", partial(_sound_model, record, path))

    # Instances.

    def _live(self) -> _Live:
        found = _Live()
        names = self._looking.names(self._paths.live_instances)
        paths = [self._paths.instance(name).live for name in names]
        for name, path, reply in zip(names, paths, self._looking.looks(paths), strict=True):
            if not isinstance(reply.version, Stat):
                continue
            try:
                self._looking.record(path, reply)
            except ConfigError as error:
                self._alarm(f"{error}. {name} counts as live while the session that made it lasts")
            # The session is the owner of the znode; its text may say anything (section 3, 3).
            if reply.version.owner:
                found.sessions[name] = found.owners[name] = layout.session_name(reply.version.owner)
                found.born[name] = reply.version.created_zxid
            else:
                found.silent[name] = f"{path} belongs to no session, so nobody knows when it ends"
        return found

    def _pending(self, live: _Live) -> tuple[list[Message], list[str]]:
        """Messages to live sessions, and the paths of those that nobody will execute."""
        pending: list[Message] = []
        stale: list[str] = []
        configured = self._looking.names(self._paths.instances)
        folders = [self._paths.instance(name).messages for name in configured]
        listed: list[tuple[str, str]] = []
        for name, folder, names in zip(configured, folders, self._looking.lists(folders), strict=True):
            if names is None:
                self._is_silent(live, name, f"{folder} is not there, so it can be sent nothing")
            listed += [(name, f"{folder}/{message_id}") for message_id in names or ()]
        for name in list(live.sessions):
            if name not in configured:
                self._is_silent(live, name, f"{self._paths.instance(name).root} is not there: it is not configured")
        self._read_messages([path for _, path in listed])
        for name, path in listed:
            message = self._messages[path]
            if isinstance(message, Message):
                if message.session == live.sessions.get(name):
                    # By session, not by name: a message to an earlier session of the same instance is executed by
                    # nobody.
                    pending.append(message)
                else:
                    stale.append(path)
            elif message is not None and name in live.sessions:
                self._alarm(message)
            elif message is not None:
                stale.append(path)
        return pending, stale

    def _is_silent(self, live: _Live, name: str, reason: str) -> None:
        if name in live.sessions:
            live.silent[name] = reason

    def _read_messages(self, paths: Sequence[str]) -> None:
        # Messages are immutable (Helix writes each once, under a random id), so each is read once and no watch is
        # needed.
        unknown = [path for path in paths if path not in self._messages]
        self._messages = {path: self._messages[path] for path in paths if path in self._messages}
        for path, reply in zip(unknown, self._looking.bodies(unknown), strict=True):
            self._messages[path] = None if reply.missing else _message(path, reply)

    # Current states.

    def _reports(
        self, live: _Live, groups: Sequence[LockGroup], frozen: Mapping[str, None]
    ) -> tuple[dict[str, dict[str, Report]], list[LockGroup]]:
        """The reports of instances, and the reported resources that are no longer configured (stage 2)."""
        found: dict[str, dict[str, Report]] = {}
        known = {group.name: group for group in groups}
        gone: dict[str, tuple[str, dict[str, None]]] = {}
        for name, label, resource, path, reply in self._reported(live):
            if resource in frozen or reply.missing:
                continue
            report, model = self._report(path, reply, name)
            found.setdefault(label, {})[resource] = report
            if resource not in known and report.states:
                gone.setdefault(resource, (model, {}))[1].update(dict.fromkeys(report.states))
        return found, self._unconfigured(gone)

    def _reported(self, live: _Live) -> list[tuple[str, str, str, str, Reply]]:
        """Instance, the name under which it counts, resource, path and what was found there, of every report."""
        whose = self._reporting(live)
        folders = [self._paths.instance(name).current_states(session) for name, _, session in whose]
        places = [
            (name, label, resource, f"{folder}/{resource}")
            for (name, label, _), folder, resources in zip(whose, folders, self._looking.lists(folders), strict=True)
            for resource in resources or ()
        ]
        replies = self._looking.looks(path for *_, path in places)
        return [(*place, reply) for place, reply in zip(places, replies, strict=True)]

    def _reporting(self, live: _Live) -> list[tuple[str, str, str]]:
        """The instances whose reports are read: instance, the name under which they count, session.

        We do not know the session of some instances: of these the states of all sessions count. An instance that is
        sent nothing is not live.
        """
        found = [(name, name, session) for name, session in live.sessions.items()]
        for name, reason in list(live.silent.items()):
            self._alarm(f"{name} is sent nothing, and keeps what it reports to hold: {reason}")
            if live.sessions.pop(name, None) is None:
                labels = [
                    (name, f"{name} in {each}", each)
                    for each in self._looking.names(self._paths.instance(name).sessions)
                ]
                live.silent.update((label, reason) for _, label, _ in labels)
                found += labels
        return found

    def _report(self, path: str, reply: Reply, name: str) -> tuple[Report, str]:
        """The report in one znode, and the state model that it names. Instead of nonsense the last good one counts."""
        is_fresh = True
        try:
            record = self._looking.record(path, reply)
            said = self._last[path] = self._looking.once(path, reply, "states", partial(_stated, record))
        except ConfigError as error:
            is_fresh = False
            # The last good report stands in for one that cannot be read. To count it as empty would grant its locks
            # twice; to count it as unknown would stop the whole resource for one bad znode.
            self._alarm(f"{error}. {name} keeps the locks that it may hold, and no other instance gets them")
            if path not in self._last:
                return Report(states=None, is_fresh=False), ""
            said = self._last[path]
        if said.without and is_fresh and self._is_ours:
            self._alarm(f"{path}: no CURRENT_STATE of {', '.join(said.without)}")
        return Report(states=said.states, is_fresh=is_fresh), said.model

    def _unconfigured(self, gone: Mapping[str, tuple[str, Mapping[str, None]]]) -> list[LockGroup]:
        found: list[LockGroup] = []
        for resource, (model, locks) in gone.items():
            try:
                group = LockGroup(name=resource, locks=tuple(sorted(locks)), replicas=0, model=self._model(model))
            except ConfigError as error:
                self._alarm(f"{resource!r} is not configured, and instances report it: {error}")
            else:
                found.append(group)
        return found

    def _disabled(
        self, live: _Live, stopped: Sequence[str]
    ) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]], bool]:
        """Instances and locks that an operator has disabled (HELIX_ENABLED, HELIX_DISABLED_PARTITION, or an operation
        such as EVACUATE), and whether the cluster is paused.

        stopped: the locks of disabled resources, which no instance shall hold.
        """
        disabled: list[str] = []
        locks: dict[str, tuple[str, ...]] = dict.fromkeys(live.sessions, tuple(stopped)) if stopped else {}
        names = self._looking.names(self._paths.instance_configs)
        paths = [self._paths.instance(name).config for name in names]
        is_paused = self._looking.is_there(self._paths.pause)
        if is_paused:
            self._alarms.append(Alarm(AlarmKind.PAUSED, f"{self._paths.pause} is there: nothing is sent until it goes"))
        for name, path, reply in zip(names, paths, self._looking.looks(paths), strict=True):
            if reply.missing:
                continue
            try:
                record = self._looking.record(path, reply)
            except ConfigError as error:
                self._alarm(f"{error}. {name} counts as enabled")
                continue
            if not (may_hold(record) if self._is_ours else is_enabled(record)):
                disabled.append(name)
            operation = operation_of(record) if self._is_ours else ""
            if operation not in ("", DISABLE, EVACUATE):
                result = "goes on as before" if operation == SWAP_OUT else "holds nothing"
                self._alarm(f"{path}: the operation {operation} is not done by this controller; {name} {result}")
            named = record.lists.get("HELIX_DISABLED_PARTITION", ())
            mapped = record.maps.get("HELIX_DISABLED_PARTITION", {})
            found = {*locks.get(name, ()), *named, *(lock for text in mapped.values() for lock in text.split(","))}
            if found:
                locks[name] = tuple(sorted(found))
        return tuple(disabled), locks, is_paused

    def _alarm(self, text: str) -> None:
        self._alarms.append(Alarm(AlarmKind.UNREADABLE, text))


def _locks(record: ZNRecord) -> tuple[str, ...]:
    return tuple(sorted({**record.maps, **record.lists}))


def _sound_model(record: ZNRecord, path: str) -> StateModel:
    model = StateModel.from_record(record)
    problems = model.problems()
    if problems:
        raise ConfigError(f"{path} holds no state model: {problems[0]}")
    return model


def _message(path: str, reply: Reply) -> Message | str | None:
    """None for what is no order: messages of other types are none of a controller's business."""
    try:
        if reply.body is None:
            raise ConfigError(f"{path} may not be read ({reply.reason})")
        record = ZNRecord.from_json(reply.body, path)
        return Message.from_record(record) if record.simple.get("MSG_TYPE") == STATE_TRANSITION else None
    except ConfigError as error:
        return str(error)


def _stated(record: ZNRecord) -> _States:
    entries = record.maps.items()
    return _States(
        model=record.simple.get("STATE_MODEL_DEF", ""),
        states={
            lock: Replica(entry["CURRENT_STATE"], entry.get("PREVIOUS_STATE", "")) if "CURRENT_STATE" in entry else None
            for lock, entry in entries
        },
        without=tuple(lock for lock, entry in entries if "CURRENT_STATE" not in entry),
    )
