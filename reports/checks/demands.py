"""Demands: the situations that must have happened, and how often, as `must_happen` in the runs table says.

    contention        at least once
    grant >= 100      at least a hundred times

A run in which five hundred clients contend and six grants happen says little
about contention, even if no clause broke. So a scenario may ask for counts.
"""

from __future__ import annotations

import re
from typing import Final

COUNT_MAX: Final = 10**9
_COUNTED: Final = re.compile(r"\s*(\S.*?)\s*>=\s*([0-9]{1,10})\s*")


def demand_text(situation: str, least: int) -> str:
    """The text that asks for at least so many occurrences."""
    return situation if least <= 1 else f"{situation} >= {least}"


def parse_demand(text: str) -> tuple[str, int]:
    """Situation and least count. A text without `>=` is the name of a situation, which need not be known."""
    match = _COUNTED.fullmatch(text)
    return (match[1], max(1, int(match[2]))) if match else (text, 1)
