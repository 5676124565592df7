"""From verdicts to an exit code: a proven failure is never hidden.

The numbers and their ranking are documented in docs/results.md; those of
errors are the errors' own (`lockref.errors`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from lockref.errors import INTERRUPTED, BackendUnavailable, ConfigError, DeterminismError, LockrefError

if TYPE_CHECKING:
    from reports.formats.results import Results

HELD = 0
VIOLATED = 1
USAGE = ConfigError.exit_code
INCONCLUSIVE = 3
NOT_LIVE = 4
DEFECT = LockrefError.exit_code

_RANKING = (
    INTERRUPTED, VIOLATED, NOT_LIVE, DEFECT, DeterminismError.exit_code, BackendUnavailable.exit_code, USAGE,
    INCONCLUSIVE, HELD,
)  # fmt: skip


def exit_code(
    *, safety: str, liveness: str, fairness: str, is_store_lost: bool = False, allowed: Iterable[int] = ()
) -> int:
    """The code for one judged run or campaign, from its verdicts (`reports.checks.verdicts.Verdicts`).

    is_store_lost: the store of a real run never came back; then what could not be decided is the environment's doing.
    allowed: softens a gate: its codes become 0, but never code 1.
    """
    verdicts = (safety, liveness, fairness)
    codes = [HELD]
    if safety == "violated":
        codes.append(VIOLATED)
    if "violated" in (liveness, fairness):
        codes.append(NOT_LIVE)
    if is_store_lost:
        codes.append(BackendUnavailable.exit_code)
    elif "inconclusive" in verdicts:
        codes.append(INCONCLUSIVE)
    softened = set(allowed) - {VIOLATED}
    return worst(HELD if code in softened else code for code in codes)


def worst(codes: Iterable[int]) -> int:
    """The code that speaks for several."""
    return min(codes, key=_RANKING.index, default=HELD)


def code_of(results: Sequence[Results], allowed: Sequence[int] = ()) -> int:
    """The exit code that speaks for all of them."""
    return worst(
        exit_code(
            safety=each.verdict,
            liveness=each.liveness,
            fairness=each.fairness_claims,
            is_store_lost=each.is_store_lost,
            allowed=allowed,
        )
        for each in results
    )


def gate(allowed: Collection[int]) -> dict[str, bool]:
    """The meaning of `--allow-exit` for JUnit and annotations, as their keyword arguments."""
    return {
        "allow_inconclusive": INCONCLUSIVE in allowed,
        "allow_not_live": NOT_LIVE in allowed,
        "allow_store_lost": BackendUnavailable.exit_code in allowed,
    }
