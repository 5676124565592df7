"""Faults at a low rate: the plan of a scenario, drawn anew again and again, each time later."""

from __future__ import annotations

from typing import Any, Final

from lockref.durations import plain_duration
from lockref.errors import ConfigError
from lockref.runtime import NS_PER_S
from scenarios.definition.draw import draw_scenario
from scenarios.definition.fault_plan import draw_plan
from scenarios.definition.schema import Scenario
from scenarios.injection.feasible import is_idle, possible
from sim.faults.fault import Fault
from sim.faults.plan import EMPTY_PLAN, FaultPlan, parse_fault

LENGTH_MAX_NS: Final = 5 * NS_PER_S
"""No fault lasts longer: a soak is about a lock at work, and a stopped process must not outlast a window."""

SETTLING_SHARE: Final = 2
"""The first faults come after half of the time between two plans: processes warm up without them."""


def longest_unstruck_ns(every_ns: int) -> int:
    """The length of a soak beyond which faults strike: none begins later than the longest one lasts before its end."""
    return every_ns // SETTLING_SHARE + LENGTH_MAX_NS


def plan_at_low_rate(scenario: Scenario, *, every_ns: int, lasting_ns: int, seed: int) -> FaultPlan:
    """The faults of a scenario once in every `every_ns`, for so long. Each time another seed draws them.

    What no real run can carry out is left out. Raises ConfigError for a scenario that has no fault that is left, and
    for faults that would overlap with those before.
    """
    if every_ns < LENGTH_MAX_NS:
        raise ConfigError(f"--every: a fault may last {plain_duration(LENGTH_MAX_NS)}; give that time at least")
    faults: list[Fault] = []
    begin_ns, number = every_ns // SETTLING_SHARE, 0
    while begin_ns < lasting_ns - LENGTH_MAX_NS:
        drawn = draw_plan(scenario, draw_scenario(scenario, seed + number), seed + number)
        kept, _ = possible(drawn)
        faults += [_moved(fault, begin_ns, until_ns=begin_ns + every_ns, turn=number) for fault in kept.faults]
        begin_ns, number = begin_ns + every_ns, number + 1
    faults = [fault for fault in faults if not is_idle(fault)]
    if not faults and number:
        raise ConfigError(f"scenario {scenario.name!r} has no fault that a real run can carry out; name another one")
    return FaultPlan.of(*faults) if faults else EMPTY_PLAN


def _moved(fault: Fault, by_ns: int, *, until_ns: int, turn: int) -> Fault:
    """The same fault, later. A request fault without an end ends with its turn."""
    entry: dict[str, Any] = fault.model_dump(exclude_none=True)
    entry["id"] = f"{turn + 1}-{fault.id}"
    if fault.when is None:
        entry["at_ns"] = min(by_ns + (fault.at_ns or 0), until_ns - 1)
        if "for_ns" in type(fault).model_fields:
            entry["for_ns"] = min(entry.get("for_ns", LENGTH_MAX_NS), LENGTH_MAX_NS)
    else:
        when = entry["when"]
        when["after_ns"] = by_ns + when.get("after_ns", 0)
        when["before_ns"] = min(by_ns + when["before_ns"], until_ns) if "before_ns" in when else until_ns
        if "at_latest_ns" in when:
            when["at_latest_ns"] += by_ns
        if entry.get("for_ns", 0) > LENGTH_MAX_NS:
            entry["for_ns"] = LENGTH_MAX_NS
    return parse_fault(entry)
