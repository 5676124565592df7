"""What must have happened, and how often: the text of `must_happen` in the runs table.

    contention        at least once
    grant >= 100      a floor of evidence

Six grants among five hundred contenders are no contention, whatever the
clauses say of them; so a scenario may ask for counts.
"""

from __future__ import annotations

import re
from typing import Final

COUNT_MAX: Final = 10**9
_FLOOR: Final = re.compile(r"\s*(\S.*?)\s*>=\s*([0-9]{1,10})\s*")


def demand_text(situation: str, least: int) -> str:
    """The text that asks for at least so many occurrences."""
    return situation if least <= 1 else f"{situation} >= {least}"


def parse_demand(text: str) -> tuple[str, int]:
    """Situation and least count. What is no floor is the name of a situation, known or not."""
    match = _FLOOR.fullmatch(text)
    return (match[1], max(1, int(match[2]))) if match else (text, 1)
