"""The settings of a run on the wire: the program, and how to judge its lock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lockref.runtime import NS_PER_S
from reports.checks.thresholds.limits import NEED_CALLS, parse_threshold
from scenarios.definition.schema import Scenario

DURATION_DEFAULT_NS: Final = 60 * NS_PER_S
HANDOVER_DEFAULT_NS: Final = 30 * NS_PER_S
CLIENTS_DEFAULT: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class WireSettings:
    """The program to run, and how to judge its lock. Durations in nanoseconds.

    argv: the program with its arguments; places such as `{endpoint}` are filled in for each client.
    plan: whose faults strike; None for none. protects: see `protection`. decoder: see `decoders.load_decoder`.
    lasting_ns: after this time programs that still run are ended. validity_ns: how long a record without a stamp
    promises the lock; None takes the longest promise that was seen. handover_ns: how soon a waiter must get a lock that
    is free. drift_bound_ns: how far two clocks may differ (β). is_shown: the program's output goes to standard error.
    is_tls: the endpoints speak TLS. demands: thresholds beside those of the plan (`reports.checks.thresholds.limits`).
    """

    argv: tuple[str, ...]
    clients: int = CLIENTS_DEFAULT
    plan: Scenario | None = None
    protects: tuple[str, ...] = ()
    decoder: str = "auto"
    lasting_ns: int = DURATION_DEFAULT_NS
    templates: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    validity_ns: int | None = None
    handover_ns: int = HANDOVER_DEFAULT_NS
    drift_bound_ns: int = NS_PER_S // 2
    seed: int = 0
    is_shown: bool = False
    is_tls: bool = False
    demands: tuple[str, ...] = ()

    @property
    def limits(self) -> tuple[str, ...]:
        """The thresholds that are judged: what was demanded, and what the plan asks for and requests can show."""
        plans = () if self.plan is None else self.plan.thresholds
        return tuple(dict.fromkeys((*self.demands, *(text for text in plans if text not in self.unseen_limits))))

    @property
    def unseen_limits(self) -> tuple[str, ...]:
        """The thresholds of the plan that only a record of calls can answer."""
        plans = () if self.plan is None else self.plan.thresholds
        return tuple(text for text in plans if parse_threshold(text).measure in NEED_CALLS)
