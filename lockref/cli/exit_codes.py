"""From verdicts to an exit code: a proven failure is never hidden.

The numbers and their ranking are documented in docs/results.md; those of
errors are the errors' own (`lockref.errors`).
"""

from __future__ import annotations

from collections.abc import Iterable

from lockref.errors import BackendUnavailable, ConfigError, DeterminismError, LockrefError

HELD = 0
VIOLATED = 1
USAGE = ConfigError.exit_code
INCONCLUSIVE = 3
NOT_LIVE = 4
DEFECT = LockrefError.exit_code
INTERRUPTED = 130

_RANKING = (
    VIOLATED, NOT_LIVE, DEFECT, DeterminismError.exit_code, BackendUnavailable.exit_code, USAGE, INCONCLUSIVE, HELD,
)  # fmt: skip


def exit_code(*, verdict: str, is_live: bool, allowed: Iterable[int] = ()) -> int:
    """The code for one judged run or campaign. `allowed` softens a gate: its codes become 0, but never code 1."""
    codes = [HELD]
    if verdict == "violated":
        codes.append(VIOLATED)
    if not is_live:
        codes.append(NOT_LIVE)
    if verdict == "inconclusive":
        codes.append(INCONCLUSIVE)
    softened = set(allowed) - {VIOLATED}
    return worst(HELD if code in softened else code for code in codes)


def worst(codes: Iterable[int]) -> int:
    """The code that speaks for several."""
    return min(codes, key=_RANKING.index, default=HELD)
