"""Limits on what was measured: `handoff.p99 < 12s`.

Which limits a scenario can set, and how they are written; `kept_thresholds` says
of a history whether it kept them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from scenarios.definition.units import duration_ns

HANDOFFS = {"handoff": "release", "handoff_after_expiry": "expiry", "handoff_after_death": "death"}
"""Which hand-offs a measure means (`reports.checks.measures.handoff`)."""
MEASURES = ("wait", "hold", *HANDOFFS)
STATISTICS = ("p50", "p90", "p95", "p99", "max", "mean")
_FORM = re.compile(rf"({'|'.join(MEASURES)})\.({'|'.join(STATISTICS)})\s*(<=|<)\s*(\S+)")


@dataclass(frozen=True, slots=True)
class Threshold:
    """A limit. wait: of granted lock calls. hold: from grant to unlock. handoff: from a release until one who
    waited then is granted the lock; handoff_after_expiry: from the end of a validity; handoff_after_death: from
    the holder's crash.
    """

    text: str
    measure: str
    statistic: str
    is_strict: bool
    limit_ns: int

    def allows(self, measured_ns: int) -> bool:
        """True if a figure keeps the limit."""
        return measured_ns < self.limit_ns or (measured_ns == self.limit_ns and not self.is_strict)


def parse_threshold(text: str) -> Threshold:
    """Raises ValueError that names the accepted form."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"is {text!r}; expected such as 'handoff.p99 < 12s' ({', '.join(MEASURES)}; {', '.join(STATISTICS)})"
        )
    return Threshold(text.strip(), match[1], match[2], match[3] == "<", duration_ns(match[4]))
