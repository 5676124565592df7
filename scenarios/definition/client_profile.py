"""The profile of one client: its work, drawn from a scenario for one seed."""

from __future__ import annotations

from dataclasses import dataclass

from lockref.frozen import filled_by_slots
from scenarios.definition.units import DrawnNumber


@filled_by_slots
@dataclass(frozen=True, slots=True, kw_only=True)
class ClientProfile:
    """The work of one client; see `scenarios.definition.schema.Work`. Durations in nanoseconds.

    last_start_ns: on the client's monotonic clock, counted from its first
        moment: no cycle begins later, and no wait lasts longer.
    arrivals: between two intended starts of an open loop; None for a closed one.
    refused_threads: how many threads its lock is denied before it gets one.
    """

    start: DrawnNumber
    cycles: DrawnNumber
    think: DrawnNumber
    hold: DrawnNumber
    writes: DrawnNumber
    wait: DrawnNumber
    last_start_ns: int
    refused_threads: int = 0
    arrivals: DrawnNumber | None = None
