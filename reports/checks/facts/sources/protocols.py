"""Which locks there are, and how each of them tells of its grants.

The runs table names a protocol per lock where it is not the usual one (`lock_protocols`). A protocol that nobody
here knows is read from its calls alone: its locks are judged by what needs no grant, and accused of nothing else.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np

from reports.checks.facts.columns import Events, Flags, Ints, Runs
from reports.checks.facts.commits import calls_of_locks

CHAIN, ASSIGNMENT, QUEUE, CALLS = "chain", "assignment", "queue", "calls"

WIRE: Final = "wire"
"""The protocol of a lock that is known by the requests of programs alone: a chain of records, and no calls."""

SOURCES: Final[dict[str, str]] = {
    CHAIN: CHAIN,
    "rfc91": CHAIN,
    "delta-lease": CHAIN,
    WIRE: CHAIN,
    ASSIGNMENT: ASSIGNMENT,
    "helix": ASSIGNMENT,
    QUEUE: QUEUE,
    "zookeeper-lock": QUEUE,
    CALLS: CALLS,
}
"""Name of a protocol to the source of its grants. A lock whose protocol nobody named is read as a chain of records."""


def watched_on_the_wire(runs: Runs) -> Flags:
    """Per run: its programs were watched on the wire, so that no calls are on record."""
    found = np.zeros(runs.count, dtype=np.bool_)
    for run, protocols in enumerate(runs.maps("lock_protocols")):
        found[run] = WIRE in protocols.values()
    return found


class Locks:
    """The locks of a history, as flags over lock keys (`Events.lock_key`), and the source of each.

    A lock is what clients call, or what the runs table gives a protocol; in runs without calls every object is one,
    unless programs were watched on the wire: then the locks are those that the runs table names.
    is_on_wire: per run, its programs were watched on the wire.
    Other objects (audit files, registers kept in the store) share the history.
    """

    def __init__(self, events: Events, runs: Runs) -> None:
        self._events = events
        self._runs = runs
        self.width = events.text_count("lock") + 1
        self._groups_by_source: dict[str, Ints] = {}
        self.is_on_wire: Flags = watched_on_the_wire(runs)
        if any(named := runs.maps("lock_protocols")):
            self._assign(named)

    def _assign(self, named: list[dict[str, str]]) -> None:
        found: dict[str, list[int]] = {}
        for run, protocols in enumerate(named):
            for lock, protocol in protocols.items():
                source, code = SOURCES.get(protocol, CALLS), self._events.code_of("lock", lock)
                if code >= 0:
                    found.setdefault(source, []).append(run * self.width + code + 1)
        self._groups_by_source = {source: np.array(sorted(keys), dtype=np.int64) for source, keys in found.items()}
        keys = [key for keys in found.values() for key in keys]
        assert len(set(keys)) == len(keys), "each lock has one source"

    @property
    def sources(self) -> list[str]:
        """The sources that this history needs, the chain of records first."""
        return [CHAIN, *(source for source in (ASSIGNMENT, QUEUE, CALLS) if source in self._groups_by_source)]

    @cached_property
    def are_locks(self) -> Flags:
        """Per lock key: it is a lock."""
        events = self._events
        flags = np.zeros(self._runs.count * self.width, dtype=np.bool_)
        calls = calls_of_locks(events)
        flags[events.lock_key[calls]] = True
        calls_any = np.zeros(self._runs.count, dtype=np.bool_)
        calls_any[events.run[calls]] = True
        flags.reshape(self._runs.count, self.width)[~calls_any & ~self.is_on_wire] = True
        for groups in self._groups_by_source.values():
            flags[groups] = True
        return flags

    def of(self, source: str) -> Flags:
        """Per lock key: it is a lock whose grants this source tells of."""
        if source == CHAIN:
            others = [groups for name, groups in self._groups_by_source.items() if name != CHAIN]
            if not others:
                return self.are_locks
            flags = self.are_locks.copy()
            flags[np.concatenate(others)] = False
            return flags
        flags = np.zeros(self._runs.count * self.width, dtype=np.bool_)
        flags[self._groups_by_source.get(source, np.zeros(0, dtype=np.int64))] = True
        return flags
