"""Read a cluster's znodes, of either origin, by a client that takes no part in the cluster.

Messages are counted by the server: each folder of messages knows how many znodes were ever made in it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import ZnodeStat

from lockref.helix.records import layout
from lockref.helix.records.zn_record import ZNRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """states: by lock, by live instance, the state and the transaction that wrote it. pending: messages that wait."""

    live: tuple[str, ...]
    states: Mapping[str, Mapping[str, tuple[str, int]]]
    pending: int

    def holders(self, top: str) -> dict[str, tuple[str, ...]]:
        """By lock, who reports that state, sorted. A lock that nobody reports is left out."""
        found = {
            lock: tuple(sorted(name for name, (state, _) in by_name.items() if state == top))
            for lock, by_name in sorted(self.states.items())
        }
        return {lock: names for lock, names in found.items() if names}


class Pulse(NamedTuple):
    """What changes whenever somebody works. pending: messages that wait. changes: of folders of messages and of states.

    Cheap to ask for: versions alone.
    """

    pending: int
    changes: tuple[int, ...]


class Tree:
    """One cluster on a server. client: started; whoever made it closes it."""

    def __init__(self, client: KazooClient, cluster: str) -> None:
        self.client = client
        self.paths = layout.ClusterPaths(cluster)

    def records(self) -> dict[str, ZNRecord | None]:
        """Every znode of the cluster; None for one without data."""
        return dict(self._below(self.paths.root))

    def _below(self, path: str) -> Iterator[tuple[str, ZNRecord | None]]:
        body, _ = self.client.get(path)
        yield path, ZNRecord.from_json(body, path) if body else None
        for name in self.client.get_children(path):
            yield from self._below(f"{path}/{name}")

    def seen(self) -> Seen:
        """Live instances, then messages, then current states (T27)."""
        live: dict[str, str] = {}
        for name in self.names(self.paths.live_instances):
            try:
                _, stat = self.client.get(self.paths.instance(name).live)
            except NoNodeError:
                continue
            live[name] = layout.session_name(stat.ephemeralOwner)
        pending = sum(len(self.names(self.paths.instance(name).messages)) for name in live)
        states: dict[str, dict[str, tuple[str, int]]] = {}
        for name, session in live.items():
            for resource in self.names(self.paths.instance(name).current_states(session)):
                path = self.paths.instance(name).current_state(session, resource)
                try:
                    body, stat = self.client.get(path)
                except NoNodeError:
                    continue
                for lock, entry in ZNRecord.from_json(body, path).maps.items():
                    state = entry.get("CURRENT_STATE", "")
                    states.setdefault(lock, {})[name] = (state, stat.last_modified_transaction_id)
        return Seen(live=tuple(sorted(live)), states=states, pending=pending)

    def messages_made(self) -> int:
        """How many messages the instances have ever been sent. `cversion` counts what was made and what was removed."""
        made = 0
        for name in self.names(self.paths.instances):
            stat = self.client.exists(self.paths.instance(name).messages)
            if stat is not None:
                made += (stat.cversion + stat.numChildren) // 2
        return made

    def pulse(self) -> Pulse:
        """The pulse of all instances together."""
        live = self.names(self.paths.live_instances)
        folders = [self.paths.instance(name).messages for name in self.names(self.paths.instances)]
        stats = [each for each in self._stats([*folders, *self._reports(live)]) if each is not None]
        pending = sum(stat.numChildren for stat in stats)
        return Pulse(pending, (len(live), *(stat.cversion + stat.last_modified_transaction_id for stat in stats)))

    def last_report_s(self, live: Iterable[str]) -> float:
        """When the last of these instances wrote its current states: the server's wall clock."""
        stats = [stat for stat in self._stats(self._reports(live)) if stat is not None]
        return max(float(stat.last_modified) for stat in stats)

    def _reports(self, instances: Iterable[str]) -> list[str]:
        """The current states of these, under their present sessions."""
        found: list[str] = []
        for name in instances:
            with contextlib.suppress(NoNodeError):
                folder = self.paths.instance(name).current_states(self.session_of(name))
                found += [f"{folder}/{resource}" for resource in self.names(folder)]
        return found

    def _stats(self, paths: Iterable[str]) -> list[ZnodeStat | None]:
        asked = [self.client.exists_async(path) for path in paths]
        return [each.get() for each in asked]

    def put(self, path: str, record: ZNRecord, *, is_ephemeral: bool = False) -> None:
        """Make a znode, or change what it holds."""
        if self.client.exists(path) is None:
            self.client.create(path, record.to_json(), ephemeral=is_ephemeral, makepath=True)
        else:
            self.client.set(path, record.to_json())

    def record(self, path: str) -> ZNRecord:
        """One record. Errors: NoNodeError."""
        body, _ = self.client.get(path)
        return ZNRecord.from_json(body, path)

    def session_of(self, instance: str) -> str:
        """The session under which an instance lives. Errors: NoNodeError."""
        _, stat = self.client.get(self.paths.instance(instance).live)
        return layout.session_name(stat.ephemeralOwner)

    def names(self, path: str) -> list[str]:
        """The children of a znode; none of one that is not there."""
        try:
            return list(self.client.get_children(path))
        except NoNodeError:
            return []
