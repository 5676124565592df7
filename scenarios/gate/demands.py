"""The demands on a lock with given abilities: not the situations that only another kind of lock can reach.

A scenario names the situations without which its runs prove nothing. A lock that never renews cannot lose a renewal's
answer. Such a demand is dropped, the clauses are judged as ever, and a violation counts. Where no fault of a scenario
can strike this lock, or its clients ask for what the lock does not give, the scenario does not apply.

Everything is derived from the scenario: its situations, the requests that its faults strike, its clients' way of life.
There is no list of names. `lockref sim --all` and `lockref gate` ask here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from lockref.errors import did_you_mean, quote
from reports.checks.disturbances import FAULT_SITUATIONS, PAUSE_KINDS
from reports.checks.situation_names import TOKEN
from scenarios.definition.schema import RESOURCE_NAME, Scenario


class Ability(StrEnum):
    """An ability of a lock. The text is the word by which `--declare` and `claims` know it."""

    RENEWS = "renews"
    TOKENS = "tokens"
    LEASE = "lease"
    RECORD = "record"
    STAMPS = "stamps"
    RELEASES = "releases"
    BESIDE = "writes-beside"
    TASKS = "several-tasks"
    REENTRY = "reentrant"
    LOSSES = "tells-losses"


LACKS: Final[Mapping[Ability, str]] = {
    Ability.RENEWS: "this lock does not renew",
    Ability.TOKENS: "this lock shows no tokens",
    Ability.LEASE: "this lock has no lease that ends",
    Ability.RECORD: "nobody can read the records of this lock",
    Ability.STAMPS: "this lock compares no wall clocks",
    Ability.RELEASES: "this lock writes nothing to give back",
    Ability.BESIDE: "this lock writes nothing beside its record",
    Ability.TASKS: "this lock is not made for several tasks of one process",
    Ability.REENTRY: "this lock is not re-entrant",
    Ability.LOSSES: "this lock tells nobody of a loss",
}
"""Ability to what is said of a lock that lacks it."""

_BY_SITUATION: Final[Mapping[str, frozenset[Ability]]] = {
    TOKEN: frozenset({Ability.TOKENS}),
    "rejected_write": frozenset({Ability.TOKENS}),
    "renewal": frozenset({Ability.RENEWS, Ability.RECORD}),
    "renewal_race": frozenset({Ability.RENEWS, Ability.RECORD}),
    "lost_reply_renew": frozenset({Ability.RENEWS, Ability.RECORD}),
    "lost_reply_acquire": frozenset({Ability.RECORD}),
    "lost_reply_release": frozenset({Ability.RECORD, Ability.RELEASES}),
    "takeover_after_expiry": frozenset({Ability.LEASE, Ability.RECORD}),
    "late_write_attempted": frozenset({Ability.LEASE, Ability.RECORD}),
}
"""Situations that only a lock with these abilities brings about."""

_BY_OPERATION: Final[Mapping[str, Ability]] = {
    "acquire": Ability.RECORD,
    "renew": Ability.RENEWS,
    "release": Ability.RELEASES,
}
"""The operation of a request to the lock, and what a lock needs to make it. They are told by the record in the body."""

_OVERTAKING: Final = frozenset({"reorder_replies"})
"""Kinds of faults that matter only where one client has two requests under way: a renewal beside another one."""

_DELAYING: Final = frozenset({"delay", "drip", "duplicate", "freeze_service", "ghost_write", "hidden_retry"})
"""Kinds of faults by which a request that left in time takes effect later."""

_TASKS: Final = frozenset({"two_threads", "careless_thread", "closed_by_another"})
_OWNER_IS_A_TASK: Final = "owner_ends"


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """The demands of a scenario on a lock.

    dropped: the demanded situations that are not asked of it, each with the ability that it lacks.
    observed: further ones that never came about in the runs, each with what the lock was seen never to do (`observed`).
    not_applicable: why the scenario as a whole is about something else than this lock; "" if it is not.
    is_run: False where not even its clauses are asked, because the clients use the lock in a way that is not its own.
    """

    dropped: Mapping[str, Ability]
    observed: Mapping[str, str] = field(default_factory=dict)
    not_applicable: str = ""
    is_run: bool = True

    @property
    def without(self) -> frozenset[str]:
        """All situations that are not asked of the lock."""
        return frozenset(self.dropped) | frozenset(self.observed)

    @property
    def note(self) -> str:
        """The demands that were dropped, in words; "" where none was."""
        reasons = {name: LACKS[ability] for name, ability in self.dropped.items()} | dict(self.observed)
        by_reason: dict[str, list[str]] = {}
        for name, reason in reasons.items():
            by_reason.setdefault(reason, []).append(name)
        return "; ".join(f"without {', '.join(names)}: {reason}" for reason, names in by_reason.items())


def demands_on(scenario: Scenario, has: Iterable[Ability]) -> Demands:
    """The demands of `scenario` on a lock that has these abilities."""
    able = frozenset(has)
    workload = scenario.workload
    if workload.life in _TASKS and Ability.TASKS not in able:
        why = f"two tasks of one process use one lock, and {LACKS[Ability.TASKS]}"
        return Demands(dropped={}, not_applicable=why, is_run=False)
    dropped: dict[str, Ability] = {}
    for situation in scenario.demanded(clients=scenario.clients, duration_ns=scenario.duration.least):
        if (lack := _lacking(scenario, situation, able)) is not None:
            dropped[situation] = lack
    return Demands(dropped=dropped, not_applicable=_not_applicable(scenario, dropped, able))


def not_demanded_of(scenario: Scenario, stands_on: str, has: Iterable[Ability]) -> frozenset[str]:
    """The clauses that a gate does not demand here of a lock with these abilities.

    stands_on: the kind of service that the lock lives in. A lock that compares wall clocks is asked for no more than
    `hardened`, which does so, too, wherever it lives. Of a lock whose records nobody reads that is not known. Without
    records and tokens nobody can tell a write that was late on its way from a wrong one (S4).
    """
    able = frozenset(has)
    found = scenario.not_demanded(stands_on)
    if Ability.STAMPS in able or Ability.RECORD not in able:
        found |= scenario.not_demanded()
    if not able & {Ability.RECORD, Ability.TOKENS} and _delays_writes(scenario):
        found |= {"S4"}
    return found


def _delays_writes(scenario: Scenario) -> bool:
    """True if protected writes may come late, and nothing but the network is to blame."""
    return scenario.swarm is not None or any(
        fault.kind in _DELAYING and getattr(fault, "service", None) in (None, RESOURCE_NAME)
        for fault in scenario.faults
    )


def _lacking(scenario: Scenario, situation: str, able: frozenset[Ability]) -> Ability | None:
    """An ability without which `situation` cannot come about here, and that the lock lacks; None if there is none."""
    needs = _BY_SITUATION.get(situation, frozenset())
    if situation == "takeover_after_expiry" and scenario.workload.life == _OWNER_IS_A_TASK:
        # A lock that does not ask which task calls is given back by whichever does.
        needs |= {Ability.TASKS}
    missing = [ability for ability in Ability if ability in needs and ability not in able]
    return missing[0] if missing else _lacking_for_faults(scenario, situation, able)


def _lacking_for_faults(scenario: Scenario, situation: str, able: frozenset[Ability]) -> Ability | None:
    """As `_lacking`, of a situation that faults bring about: all of those that could, need something that it lacks."""
    if scenario.swarm is not None:
        return None
    kinds: frozenset[str] | None
    if situation.startswith("fault:"):
        kinds = frozenset({situation.removeprefix("fault:")})
    elif situation == "paused_holder_resumed":
        kinds = PAUSE_KINDS
    elif situation in FAULT_SITUATIONS:
        kinds = FAULT_SITUATIONS[situation]
        if situation == "clock_fault" and (scenario.clock.drift or scenario.clock.offset):
            return None
    else:
        return None
    lacks = [lack_of(fault, able) for fault in scenario.faults if kinds is None or fault.kind in kinds]
    found = [lack for lack in lacks if lack is not None]
    return found[0] if found and len(found) == len(lacks) else None


def lack_of(fault: Any, able: frozenset[Ability]) -> Ability | None:
    """The ability that the lock lacks and without which the fault never strikes; None if it can strike."""
    if fault.kind in _OVERTAKING:
        return None if Ability.RENEWS in able else Ability.RENEWS
    trigger = getattr(fault, "when", None)
    places = [fault] if trigger is None else [trigger]
    if trigger is not None and getattr(trigger, "at_latest", None) is not None:
        return None
    for place in places:
        service, op = getattr(place, "service", None), getattr(place, "op", None)
        if service == RESOURCE_NAME or op is None:
            continue
        if op == "write" and service is not None and Ability.BESIDE not in able:
            return Ability.BESIDE
        need = _BY_OPERATION.get(op)
        for ability in (need, Ability.RECORD if need is not None else None):
            if ability is not None and ability not in able:
                return ability
    return None


def _not_applicable(scenario: Scenario, dropped: Mapping[str, Ability], able: frozenset[Ability]) -> str:
    """Why nothing that the scenario is about can happen to this lock; "" if something can."""
    if scenario.workload.asks_token and Ability.TOKENS not in able:
        return f"its clients ask for a fencing token, and {LACKS[Ability.TOKENS]}"
    if not dropped or not scenario.faults or scenario.swarm is not None:
        return ""
    lacks = [lack_of(fault, able) for fault in scenario.faults]
    if any(lack is None for lack in lacks):
        return ""
    kinds = ", ".join(dict.fromkeys(fault.kind.replace("_", " ") for fault in scenario.faults))
    names = {Ability.RENEWS: "renewals", Ability.RELEASES: "releases", Ability.BESIDE: "writes beside the record"}
    first = next(lack for lack in lacks if lack is not None)
    if {fault.kind for fault in scenario.faults} <= _OVERTAKING:
        return f"its faults ({kinds}) need two requests of one client under way, and {LACKS[first]}"
    struck = names.get(first, "requests that carry the lock's record")
    return f"its faults ({kinds}) strike {struck}, and {LACKS[first]}"


_OTHER_WORDS: Final[Mapping[str, tuple[Ability, bool]]] = {"one-task": (Ability.TASKS, False)}


def declared_ability(word: str) -> tuple[Ability, bool]:
    """The ability that a declaration names, and whether it says that the lock has it. Raises ValueError."""
    known: dict[str, tuple[Ability, bool]] = {str(ability): (ability, True) for ability in Ability}
    known |= {f"no-{ability}": (ability, False) for ability in Ability} | dict(_OTHER_WORDS)
    if word not in known:
        expected = ", ".join([*map(str, Ability), "no- before one of these", *_OTHER_WORDS])
        raise ValueError(f"{quote(word)}; expected {expected}.{did_you_mean(word, known)}")
    return known[word]
