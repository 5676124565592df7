"""Numbers that events tell in their column `detail`, which is JSON."""

from __future__ import annotations

import numpy as np

from lockref.strict_json import NotJson, is_whole, read_object
from lockref.words import ABSENT
from reports.checks.facts.case import Case
from reports.checks.facts.columns import Ints


def told_numbers(case: Case, name: str) -> Ints:
    """Per event, the whole number of this name in its `detail`; ABSENT where there is none."""
    found = []
    for text in case.events.dictionary("detail").to_pylist():
        try:
            value = read_object(text).get(name) if text else None
        except NotJson:
            value = None
        found.append(value if is_whole(value) and 0 <= value < 2**62 else ABSENT)
    numbers: Ints = np.array([*found, ABSENT], dtype=np.int64)[case.events.codes("detail")]
    return numbers
