"""From verdicts to an exit code: a proven failure is never hidden.

The numbers and their ranking are documented in docs/results.md.
"""

from __future__ import annotations

from collections.abc import Iterable

HELD = 0
VIOLATED = 1
INCONCLUSIVE = 3
NOT_LIVE = 4

_RANKING = (VIOLATED, NOT_LIVE, 70, 6, 5, INCONCLUSIVE, HELD)


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
