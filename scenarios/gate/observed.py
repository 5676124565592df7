"""The demands of a scenario that could not come about, because of what the lock was seen never to do in its runs.

Abilities (`demands`) say in advance what a lock cannot bring about. Some of it shows in the runs alone: a lock that
gives nothing back once its lease is over sends no release that a fault could strike, and a holder that asks its store
for nothing does not notice that it is cut off. The scenarios of the catalogue are known to reach what they demand under
locks that make such requests. So the lock is the reason. All that happened is judged as ever, and the account says what
was not tried. What a lock has an ability for is always demanded: a lock that renews seldom is not excused from what
strikes renewals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from lockref.words import counted
from reports.checks.disturbances import FAULT_SITUATIONS, PAUSE_KINDS
from reports.checks.situation_names import IDLE
from reports.checks.spec import NOT_APPLICABLE, SAFETY
from reports.checks.summary import Summary
from scenarios.definition.schema import RESOURCE_NAME, Scenario
from scenarios.gate.demands import LACKS, Ability, Demands, lack_of
from sim.faults.plan import FAULT_TYPES

_UNHEARD: Final = frozenset({"partition", "freeze_service", "crash_service", "delay", "drip"})
"""Faults of the way to a store: a client that asks for nothing meanwhile does not notice them."""

_OF_OBJECTS: Final = frozenset({"delete_object", "corrupt_object"})
"""Faults of what lies under the key that the lock is told. A lock may keep its records elsewhere."""

_LOST_REPLIES: Final = {f"lost_reply_{op}": frozenset({"lose_reply"}) for op in ("acquire", "renew", "release")}

Reached = Mapping[str, tuple[int, int]]
"""Situation to the number of runs in which it came about, and how often."""


def with_observed(demands: Demands, scenario: Scenario, able: Iterable[Ability], summary: Summary) -> Demands:
    """The demands on a lock with these abilities, once the runs have shown what it never does. summary: of all runs."""
    has = frozenset(able)
    demanded = {name: runs for name, runs in summary.verdicts.items() if name not in summary.not_demanded}
    found = never_done(scenario, has, summary.reach, runs=summary.runs)
    return replace(
        demands,
        observed={name: why for name, why in found.items() if name not in demands.dropped},
        not_applicable=demands.not_applicable or (shows_nothing(has, demanded) if summary.runs else ""),
    )


def never_done(scenario: Scenario, able: Iterable[Ability], reached: Reached, *, runs: int) -> dict[str, str]:
    """The demanded situations that never came about because of what the lock does not do: each with the reason.

    able: its abilities. reached: of all `runs` runs of the scenario; without a grant nothing is excused.
    """
    has = frozenset(able)
    if not runs or not _count(reached, "grant"):
        return {}
    demanded = scenario.demanded(clients=scenario.clients, duration_ns=scenario.duration.least)
    found = {}
    for situation in demanded:
        if not _count(reached, situation) and (why := _why_never(scenario, situation, has, reached, runs)):
            found[situation] = why
    return found


def _why_never(scenario: Scenario, situation: str, has: frozenset[Ability], reached: Reached, runs: int) -> str:
    """Why the situation could not come about with this lock; "" where nothing says so."""
    if situation == "release":
        is_late = Ability.RENEWS not in has and _outlast_the_lease(scenario)
        return "its clients hold for longer than the lease, and this lock gives nothing back then" if is_late else ""
    if situation == "commit" and Ability.LEASE not in has and any(fault.kind == "crash" for fault in scenario.faults):
        return "a client dies while it holds, and without a lease nobody is granted the lock after it"
    if situation == "paused_holder_resumed" and Ability.RENEWS not in has:
        pauses = [fault for fault in scenario.faults if fault.kind in PAUSE_KINDS]
        if pauses and all(getattr(fault, "when", None) is not None for fault in pauses):
            return f"in {counted(runs, 'run')} this lock sent no request at which a holder could be paused"
    return _why_idle(scenario, situation, has, reached, runs)


def _why_idle(scenario: Scenario, situation: str, has: frozenset[Ability], reached: Reached, runs: int) -> str:
    """As `_why_never`, of a situation that faults bring about."""
    if scenario.swarm is not None:
        return ""
    kinds = FAULT_SITUATIONS.get(situation) or _LOST_REPLIES.get(situation)
    if kinds is None and situation.startswith("fault:"):
        kinds = frozenset({situation.removeprefix("fault:")})
    faults = [fault for fault in scenario.faults if kinds is not None and fault.kind in kinds]
    if not faults:
        return ""
    struck = sum(_count(reached, IDLE + kind) for kind in sorted({fault.kind for fault in faults}))
    names = ", ".join(sorted({fault.kind.replace("_", " ") for fault in faults}))
    told = counted(runs, "run")
    if struck and all(fault.kind in _UNHEARD for fault in faults) and Ability.RENEWS not in has:
        return f"{names} struck {counted(struck, 'time')} in {told}, while this lock asked its store for nothing"
    if struck and all(fault.kind in _OF_OBJECTS for fault in faults) and Ability.RECORD not in has:
        return f"{names} struck {counted(struck, 'time')} in {told}, and this lock keeps no record under that key"
    if not struck and all(_waits_for_what_never_came(fault, has) for fault in faults):
        ops = sorted({op for fault in faults if (op := _place(fault)[1]) is not None})
        return f"in {told} this lock sent no {' or '.join(ops) or 'request'} that {names} waits for"
    return ""


def shows_nothing(able: Iterable[Ability], verdicts: Mapping[str, Mapping[str, int]]) -> str:
    """The reason why the runs say nothing about the safety of a lock without readable records; "" if they do.

    verdicts: clause to the number of runs by verdict, of those that are demanded.
    """
    if Ability.RECORD in able:
        return ""
    judged = [clause for clause in SAFETY if set(verdicts.get(clause, ())) - {NOT_APPLICABLE}]
    return "" if judged else f"what it demands shows in records alone, and {LACKS[Ability.RECORD]}"


def _waits_for_what_never_came(fault: Any, has: frozenset[Ability]) -> bool:
    """True for a fault that never struck because it waits for a request that this lock need not make.

    A first acquire is made by every lock, and renewals by a lock that has the ability.
    """
    if lack_of(fault, has) is not None:
        return True
    trigger = getattr(fault, "when", None)
    if trigger is None and not FAULT_TYPES[fault.kind].is_request_fault:
        return False
    service, op = _place(fault)
    place = fault if trigger is None else trigger
    is_first = (getattr(place, "nth", None) or 1) == 1
    return service != RESOURCE_NAME and op != "renew" and not (is_first and op in (None, "acquire"))


def _place(fault: Any) -> tuple[str | None, str | None]:
    """The service and the operation of the request that a fault waits for; None for any."""
    place = getattr(fault, "when", None) or fault
    return getattr(place, "service", None), getattr(place, "op", None)


def _outlast_the_lease(scenario: Scenario) -> bool:
    """True if every client works for longer than a lease that nobody renews."""
    work = scenario.workload
    own = [work.clients.get(f"n{number}") for number in range(1, scenario.clients + 1)]
    holds = [work.hold if each is None or each.hold is None else each.hold for each in own]
    return min(hold.least for hold in holds) >= scenario.lock.validity.most


def _count(reached: Reached, situation: str) -> int:
    return reached.get(situation, (0, 0))[1]
