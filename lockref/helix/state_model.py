"""State models: which states a replica of a lock has, how it moves between them, and how many may be in each.

A replica is one instance's share in one lock. The first state by priority is the *top state*: whose replica is in it
holds the lock. Counts are ceilings: "at most one LOCKED" does not promise that there is one.

Source: `org.apache.helix.model.StateModelDefinition`, its validator, and `StateTransitionTableBuilder`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from lockref.errors import did_you_mean
from lockref.helix.records.zn_record import ZNRecord

DROPPED: Final = "DROPPED"
"""The state in which a replica is no more. Every model has it."""

ERROR: Final = "ERROR"
"""The state of a replica whose transition failed. Every model has it, declared or not."""

UNBOUNDED, LIVE, REPLICAS = "-1", "N", "R"
"""Counts that are no number: any, as many as instances are live, as many as the resource has replicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One edge between two states."""

    name: str
    source: str
    target: str

    @property
    def key(self) -> str:
        """The name of the transition in Helix."""
        return f"{self.source}-{self.target}"


class Flaw(NamedTuple):
    """Something invalid in a state model. part: where, such as ("transitions", 2, "target") or ("counts", "LOCKED")."""

    part: tuple[str | int, ...]
    words: str


@dataclass(frozen=True, kw_only=True)
class StateModel:
    """states: in order of priority. transitions: in order of priority. counts: by state; a state without one is
    unbounded.
    """

    name: str
    states: tuple[str, ...]
    initial: str
    transitions: tuple[Transition, ...]
    counts: Mapping[str, str] = field(default_factory=dict)

    @property
    def top(self) -> str:
        """The state of a holder."""
        return self.states[0]

    def count(self, state: str) -> str:
        """The number of replicas of one lock that may be in the state, as text: a number, -1, N or R."""
        return self.counts.get(state, UNBOUNDED)

    def limit(self, state: str, *, replicas: int, live: int) -> int | None:
        """The number of replicas of one lock that may be in the state; None for any number."""
        count = self.count(state)
        if count == LIVE:
            return live
        if count == REPLICAS:
            return replicas
        return None if count == UNBOUNDED else int(count)

    def next_hop(self, source: str, target: str) -> str | None:
        """The state to go to first on the shortest way; None if there is none, `target` if it is reached already."""
        return target if source == target else self._hops.get((source, target))

    @cached_property
    def _hops(self) -> Mapping[tuple[str, str], str]:
        """Breadth first from every state. Of equally short ways, the one whose first transition has priority."""
        edges: dict[str, list[str]] = {}
        for source, target in self._edges():
            edges.setdefault(source, []).append(target)
        hops: dict[tuple[str, str], str] = {}
        for source in edges:
            queue = deque((target, target) for target in edges[source])
            while queue:
                state, first = queue.popleft()
                if state == source or (source, state) in hops:
                    continue
                hops[source, state] = first
                queue.extend((after, first) for after in edges.get(state, ()))
        return hops

    def _edges(self) -> list[tuple[str, str]]:
        """The declared transitions in order of priority, then those that every model has."""
        declared = [(each.source, each.target) for each in self.transitions]
        implied = [(ERROR, DROPPED), (ERROR, self.initial), (self.initial, DROPPED)]
        return list(dict.fromkeys([*declared, *(edge for edge in implied if edge[0] != edge[1])]))

    def flaws(self) -> list[Flaw]:
        """The errors of the model; an empty list for a valid model (`StateModelDefinitionValidator`)."""
        states = ", ".join(self.states)
        known = (*self.states, ERROR)
        found = [Flaw(("name",), "is empty")] if not self.name else []
        if not self.states:
            return [*found, Flaw(("states",), "is empty; expected a list of states")]
        for number, state in enumerate(self.states):
            if state in self.states[:number]:
                found.append(Flaw(("states", number), f"state {state!r} is listed twice"))
            elif not state or "-" in state:
                # A transition is stored as FROM-TO, and must be told apart again.
                found.append(Flaw(("states", number), f"is {state!r}; a state's name has no '-' and is not empty"))
        if DROPPED not in self.states:
            found.append(Flaw(("states",), f"state {DROPPED} is missing; a replica could never be removed"))
        if self.initial not in self.states:
            near = did_you_mean(self.initial, self.states)
            found.append(Flaw(("initial",), f"is {self.initial!r}; expected one of {states}.{near}"))
        for state, count in self.counts.items():
            if state not in known:
                near = did_you_mean(state, self.states)
                found.append(Flaw(("counts", state, "name"), f"is {state!r}; expected one of {states}.{near}"))
            if not is_count(count):
                found.append(Flaw(("counts", state, "count"), f"is {count!r}; expected -1, a number from 1, N or R"))
        for number, each in enumerate(self.transitions):
            found += [
                Flaw(
                    ("transitions", number, end), f"is {state!r}; expected one of {states}.{did_you_mean(state, known)}"
                )
                for end, state in (("source", each.source), ("target", each.target))
                if state not in known
            ]
            before = self.transitions[:number]
            if each.source == each.target:
                words = f"is {each.target!r}; transition {each.name!r} leads from it to itself"
                found.append(Flaw(("transitions", number, "target"), words))
            if each.name in [other.name for other in before]:
                found.append(
                    Flaw(("transitions", number, "name"), f"is {each.name!r}; another transition has that name")
                )
            if each.key in [other.key for other in before]:
                words = f"two transitions lead from {each.source} to {each.target}"
                found.append(Flaw(("transitions", number), words))
        return found or self._unreachable()

    def problems(self) -> list[str]:
        """The errors of the model, in words."""
        return [".".join(map(str, flaw.part)) + ": " + flaw.words for flaw in self.flaws()]

    def _unreachable(self) -> list[Flaw]:
        found = [
            Flaw(("transitions",), f"state {state} cannot be reached from the initial state {self.initial}")
            for state in self.states
            if state != ERROR and self.next_hop(self.initial, state) is None
        ]
        found += [
            Flaw(("transitions",), f"the way from {self.initial} to {state} leads over {DROPPED}, where a replica ends")
            for state in self.states
            if state != DROPPED and self._leads_over_dropped(self.initial, state)
        ]
        return found + [
            Flaw(("transitions",), f"there is no way from {state} to {DROPPED}")
            for state in self.states
            if self.next_hop(state, DROPPED) is None
        ]

    def _leads_over_dropped(self, source: str, target: str) -> bool:
        """Does a replica that is moved hop by hop come to its end before it arrives?"""
        place: str | None = source
        while place not in (None, target, DROPPED):
            place = self.next_hop(str(place), target)
        return place == DROPPED != source

    # As Helix stores it.

    def to_record(self) -> ZNRecord:
        """STATEMODELDEFS/<name>."""
        maps: dict[str, Mapping[str, str]] = {}
        for state in self.states:
            maps[f"{state}.meta"] = {"count": self.count(state)}
            hops = {after: hop for after in self.states if (hop := self.next_hop(state, after)) is not None}
            maps[f"{state}.next"] = hops
        lists = {
            "STATE_PRIORITY_LIST": list(self.states),
            "STATE_TRANSITION_PRIORITYLIST": [each.key for each in self.transitions],
        }
        return ZNRecord(self.name, {"INITIAL_STATE": self.initial}, maps, lists)

    @classmethod
    def from_record(cls, record: ZNRecord) -> StateModel:
        """The transitions are those of the priority list. Helix keeps no names of them: each is named by its edge."""
        states = tuple(record.lists.get("STATE_PRIORITY_LIST", ()))
        transitions = []
        for key in record.lists.get("STATE_TRANSITION_PRIORITYLIST", ()):
            source, _, target = key.partition("-")
            transitions.append(Transition(name=key, source=source, target=target))
        counts = {state: record.maps.get(f"{state}.meta", {}).get("count", UNBOUNDED) for state in states}
        return cls(
            name=record.id,
            states=states,
            initial=record.simple.get("INITIAL_STATE", ""),
            transitions=tuple(transitions),
            counts=counts,
        )


def is_count(text: str) -> bool:
    """-1, a whole number from 1, N or R."""
    return text in (UNBOUNDED, LIVE, REPLICAS) or re.fullmatch("[1-9][0-9]{0,8}", text) is not None


def _model(name: str, states: str, initial: str, edges: str, **counts: str) -> StateModel:
    pairs = [edge.split("-") for edge in edges.split()]
    transitions = tuple(Transition(name=f"{a}-{b}", source=a, target=b) for a, b in pairs)
    return StateModel(name=name, states=tuple(states.split()), initial=initial, transitions=transitions, counts=counts)


BUILT_IN: Final[Mapping[str, StateModel]] = {
    model.name: model
    for model in (
        _model(
            "MasterSlave",
            "MASTER SLAVE OFFLINE DROPPED ERROR",
            "OFFLINE",
            "MASTER-SLAVE SLAVE-MASTER OFFLINE-SLAVE SLAVE-OFFLINE OFFLINE-DROPPED",
            MASTER="1",
            SLAVE="R",
        ),
        _model(
            "OnlineOffline",
            "ONLINE OFFLINE DROPPED",
            "OFFLINE",
            "OFFLINE-ONLINE ONLINE-OFFLINE OFFLINE-DROPPED",
            ONLINE="R",
        ),
        _model(
            "LeaderStandby",
            "LEADER STANDBY OFFLINE DROPPED",
            "OFFLINE",
            "LEADER-STANDBY STANDBY-LEADER OFFLINE-STANDBY STANDBY-OFFLINE OFFLINE-DROPPED",
            LEADER="1",
            STANDBY="R",
        ),
    )
}
"""Models that a cluster file may name without declaring them."""
