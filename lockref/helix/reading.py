"""What a controller reads of its cluster, in the order on which its decisions rest.

Live instances come first, then messages, then current states (T27): a message that is gone has left its effect in a
state that is read after it. Within one of these parts the order does not matter, so the reads of a part are under way
together, where the channel can do that.

A body that was read once is not read again while the server says that its version is the same. The server is asked in
every pass: a watch alone would be trusted to arrive before the answers behind it, and a client's library need not
promise that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from lockref.coordination.port import CHILDREN, EXISTS, GET, Stat, WatchEvent
from lockref.coordination.session import Event, Read, Session
from lockref.errors import ConfigError
from lockref.helix import layout, rebalancers
from lockref.helix.messages import Message
from lockref.helix.pipeline import Alarm, AlarmKind, LockGroup, Replica, Semantics, Snapshot
from lockref.helix.rebalancers import Assignment, Question, Rebalancer
from lockref.helix.state_model import ERROR, StateModel
from lockref.helix.zn_record import ZNRecord
from lockref.ports import Reply

T = TypeVar("T")


class Reading(NamedTuple):
    """One whole look at the cluster. rebalancers: by resource."""

    snapshot: Snapshot
    rebalancers: Mapping[str, Rebalancer]


class _Known(NamedTuple):
    """A znode's bytes, the version of which they are, and what was made of them, by what it is."""

    version: Stat
    body: bytes
    made: dict[str, Any]


class _States(NamedTuple):
    """What one instance says of one resource. without: locks that it names, and gives no state of."""

    model: str
    replicas: Mapping[str, Replica]
    without: tuple[str, ...]


class ClusterReader:
    """Reads one cluster under one session after the other.

    settled: given each answer; returns it if it is one, and raises where the pass must begin again. rebalancer:
    overrides that of every resource. on_alarm: told of what cannot be read.
    """

    def __init__(
        self,
        session: Session,
        paths: layout.ClusterPaths,
        *,
        settled: Callable[[Reply], Reply],
        semantics: Semantics,
        rebalancer: str,
        on_alarm: Callable[[Alarm], None],
    ) -> None:
        self._session = session
        self._paths = paths
        self._settled = settled
        self._semantics = semantics
        self._rebalancer = rebalancer
        self._on_alarm = on_alarm
        self._rebalancers: dict[str, Rebalancer] = {}
        self._last_states: dict[str, _States] = {}
        self.forget()

    def forget(self) -> None:
        """The session is over, and with it every watch."""
        self._messages: dict[str, Message | None] = {}
        self._known: dict[str, _Known] = {}
        self._looked_at: dict[str, None] = {}

    def heard(self, event: Event) -> None:
        """A watch fired: what it tells of is read anew, without being asked for its version first."""
        if isinstance(event, WatchEvent):
            self._known.pop(event.path, None)

    def sent(self, messages: Iterable[tuple[str, Message]]) -> None:
        """These were sent by this controller, by path: they need not be read."""
        self._messages.update(messages)

    def read(self) -> Reading:
        """The cluster as it is, every part watched.

        Errors: ConfigError for what cannot be read; what `settled` raises.
        """
        self._looked_at.clear()
        groups, found = self._groups()
        live = self._live()
        pending, stale = self._pending(live)
        replicas, left = self._replicas(live, groups)
        disabled, disabled_locks = self._disabled()
        # What is there no more, such as the states of a session that is over, is forgotten.
        self._known = {path: known for path, known in self._known.items() if path in self._looked_at}
        self._last_states = {path: states for path, states in self._last_states.items() if path in self._looked_at}
        snapshot = Snapshot(
            groups=(*groups, *left),
            live=live,
            replicas=replicas,
            pending=pending,
            stale=stale,
            disabled=disabled,
            disabled_locks=disabled_locks,
        )
        return Reading(snapshot, {**found, **dict.fromkeys((group.name for group in left), _nobody)})

    # The parts, in their order.

    def _groups(self) -> tuple[list[LockGroup], dict[str, Rebalancer]]:
        """The resources, and the rebalancer of each."""
        groups: list[LockGroup] = []
        found: dict[str, Rebalancer] = {}
        names = self._names(self._paths.ideal_states)
        for name, reply in zip(names, self._looks(map(self._paths.ideal_state, names)), strict=True):
            if reply.missing:
                continue
            path = self._paths.ideal_state(name)
            record = self._record(path, reply)
            replicas = record.simple.get("REPLICAS", "1")
            groups.append(
                LockGroup(
                    name=name,
                    locks=self._once(path, "locks", partial(_locks, record)),
                    replicas=int(replicas) if replicas.isdigit() else 1,
                    model=self._model(record.simple.get("STATE_MODEL_DEF_REF", "")),
                )
            )
            found[name] = self._loaded(self._rebalancer or record.simple.get("REBALANCER_CLASS_NAME", ""))
        return groups, found

    def _model(self, name: str) -> StateModel:
        path = self._paths.state_model(name)
        (reply,) = self._looks([path])
        if reply.missing:
            raise ConfigError(f"a resource has the state model {name!r}, and {path} is not there")
        record = self._record(path, reply)
        return self._once(path, "model", partial(StateModel.from_record, record))

    def _loaded(self, name: str) -> Rebalancer:
        """The rebalancer of that name, made once (Z15). One that cannot be loaded fails when it is asked (HJ11)."""
        if name not in self._rebalancers:
            try:
                self._rebalancers[name] = rebalancers.load(name)
            except ConfigError as error:
                return _failing(str(error))
        return self._rebalancers[name]

    def _live(self) -> dict[str, str]:
        names = self._names(self._paths.live_instances)
        replies = self._looks(self._paths.instance(name).live for name in names)
        # The session is the owner of the znode; its text may say anything (section 3, 3).
        return {
            name: layout.session_name(reply.version.owner)
            for name, reply in sorted(zip(names, replies, strict=True))
            if isinstance(reply.version, Stat)
        }

    def _pending(self, live: Mapping[str, str]) -> tuple[tuple[Message, ...], tuple[str, ...]]:
        """Messages to live sessions, and the paths of those that nobody will execute."""
        instances = [self._paths.instance(name) for name in self._names(self._paths.instances)]
        listed = [
            (instance.name, instance.message(message))
            for instance, messages in zip(
                instances, self._names_of([instance.messages for instance in instances]), strict=True
            )
            for message in messages
        ]
        self._read_messages([path for _, path in listed])
        pending: list[Message] = []
        stale: list[str] = []
        for name, path in listed:
            message = self._messages[path]
            if message is not None and message.session == live.get(name):
                pending.append(message)
            else:
                stale.append(path)
        return tuple(pending), tuple(stale)

    def _read_messages(self, paths: Sequence[str]) -> None:
        """A message never changes, so it is read once. None for one that cannot be read."""
        unknown = [path for path in paths if path not in self._messages]
        self._messages = {path: self._messages[path] for path in paths if path in self._messages}
        replies = self._session.read_all([Read(GET, path, is_watching=False) for path in unknown])
        for path, reply in zip(unknown, map(self._settled, replies), strict=True):
            message = None
            if not reply.missing:
                try:
                    message = Message.from_record(ZNRecord.from_json(reply.body, path))
                except ConfigError:
                    message = None
            self._messages[path] = message

    def _replicas(
        self, live: Mapping[str, str], groups: Sequence[LockGroup]
    ) -> tuple[dict[str, dict[str, Replica]], list[LockGroup]]:
        """What live sessions report, and the resources with locks that nobody configures any more (stage 2).

        An entry without a state says that the instance has something to do with the lock, and not what. It may hold it,
        so it counts as a holder that is in ERROR: nobody else gets the lock while its session lives (HJ8, T28).
        """
        found: dict[str, dict[str, Replica]] = {}
        known = {group.name: group.model for group in groups}
        gone: dict[str, tuple[str, dict[str, None]]] = {}
        for name, resource, path, reply in self._reports(live):
            if reply.missing:
                continue
            states = self._states(path, reply)
            if states.without and resource in known and self._semantics is Semantics.OURS:
                self._on_alarm(Alarm(AlarmKind.UNREADABLE, f"{path}: no CURRENT_STATE of {', '.join(states.without)}"))
                for lock in states.without:
                    found.setdefault(lock, {})[name] = Replica(ERROR, previous=known[resource].top)
            for lock, replica in states.replicas.items():
                if lock in found:
                    found[lock][name] = replica
                else:
                    found[lock] = {name: replica}
            if resource not in known and states.replicas:
                gone.setdefault(resource, (states.model, {}))[1].update(dict.fromkeys(states.replicas))
        left = [
            LockGroup(name=resource, locks=tuple(sorted(locks)), replicas=0, model=self._model(model))
            for resource, (model, locks) in gone.items()
        ]
        return found, left

    def _reports(self, live: Mapping[str, str]) -> list[tuple[str, str, str, Reply]]:
        """Instance, resource, path and what was found there, of every current state of a live session."""
        folders = [self._paths.instance(name).current_states(session) for name, session in live.items()]
        places = [
            (name, resource, f"{folder}/{resource}")
            for name, folder, resources in zip(live, folders, self._names_of(folders), strict=True)
            for resource in resources
        ]
        replies = self._looks(path for _, _, path in places)
        return [(*place, reply) for place, reply in zip(places, replies, strict=True)]

    def _states(self, path: str, reply: Reply) -> _States:
        """What one instance says of one resource. Of nonsense the last good word counts, and an alarm is raised.

        Without one nobody knows what that instance holds, so nothing is decided. Raises ConfigError.
        """
        try:
            record = self._record(path, reply)
            self._last_states[path] = self._once(path, "states", partial(_stated, record))
        except ConfigError as error:
            if path not in self._last_states:
                raise
            self._on_alarm(Alarm(AlarmKind.UNREADABLE, str(error)))
        return self._last_states[path]

    def _disabled(self) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
        """Instances and locks that an operator has disabled (HELIX_ENABLED, HELIX_DISABLED_PARTITION)."""
        disabled: list[str] = []
        locks: dict[str, tuple[str, ...]] = {}
        names = self._names(self._paths.instance_configs)
        paths = [self._paths.instance(name).config for name in names]
        for name, path, reply in zip(names, paths, self._looks(paths), strict=True):
            if reply.missing:
                continue
            record = self._record(path, reply)
            if record.simple.get("HELIX_ENABLED", "true").lower() == "false":
                disabled.append(name)
            named = record.lists.get("HELIX_DISABLED_PARTITION", ())
            mapped = record.maps.get("HELIX_DISABLED_PARTITION", {})
            found = {*named, *(lock for text in mapped.values() for lock in text.split(","))}
            if found:
                locks[name] = tuple(sorted(found))
        return tuple(disabled), locks

    # Asking.

    def _names(self, path: str) -> list[str]:
        (names,) = self._names_of([path])
        return names

    def _names_of(self, paths: Sequence[str]) -> list[list[str]]:
        replies = self._session.read_all([Read(CHILDREN, path) for path in paths])
        return [[] if reply.body is None else list(reply.body) for reply in map(self._settled, replies)]

    def _looks(self, paths: Iterable[str]) -> list[Reply]:
        """Bodies and versions; `missing` where there is none. What is known is only asked for its version."""
        wanted = list(paths)
        self._looked_at |= dict.fromkeys(wanted)
        replies = self._asked([Read(EXISTS if path in self._known else GET, path) for path in wanted])
        changed = [
            path for path in wanted if path in self._known and replies[path].version != self._known[path].version
        ]
        replies |= self._asked([Read(GET, path) for path in changed])
        found: list[Reply] = []
        for path in wanted:
            reply = replies[path]
            if reply.missing:
                self._known.pop(path, None)
            elif reply.body is None:
                reply = reply._replace(body=self._known[path].body)
            else:
                assert isinstance(reply.version, Stat), "a znode that was read has a stat"
                self._known[path] = _Known(reply.version, reply.body, {})
            found.append(reply)
        return found

    def _asked(self, reads: Sequence[Read]) -> dict[str, Reply]:
        replies = self._session.read_all(reads)
        return {read.path: self._settled(reply) for read, reply in zip(reads, replies, strict=True)}

    def _record(self, path: str, reply: Reply) -> ZNRecord:
        return self._once(path, "record", partial(ZNRecord.from_json, reply.body, path))

    def _once(self, path: str, what: str, make: Callable[[], T]) -> T:
        """What is made of one version of a znode is made once."""
        made = self._known[path].made
        if what not in made:
            made[what] = make()
        result: T = made[what]
        return result


def _locks(record: ZNRecord) -> tuple[str, ...]:
    return tuple(sorted({**record.maps, **record.lists}))


def _stated(record: ZNRecord) -> _States:
    entries = record.maps.items()
    return _States(
        model=record.simple.get("STATE_MODEL_DEF", ""),
        replicas={
            lock: Replica(entry["CURRENT_STATE"], entry.get("PREVIOUS_STATE", ""))
            for lock, entry in entries
            if "CURRENT_STATE" in entry
        },
        without=tuple(lock for lock, entry in entries if "CURRENT_STATE" not in entry),
    )


def _nobody(_question: Question) -> Assignment:
    """The rebalancer of a resource that nobody configures any more: whoever has a replica drops it."""
    return {}


def _failing(words: str) -> Rebalancer:
    def missing(_question: Question) -> Assignment:
        raise ConfigError(words)

    return missing
