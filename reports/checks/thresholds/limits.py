"""Thresholds: limits on what is measured, which a scenario or a gate demands (`handoff.p99 < 12s`).

They are off unless asked for, and stand in the runs table, so that whoever judges a history judges them: the process
that ran it, `lockref check`, and Spark. `reports.checks.thresholds.kept` judges; this module is the words alone, and
loads no arrays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from lockref.errors import did_you_mean, quote
from lockref.quantities import duration_ns, split_quantity

TIME: Final = "a duration such as 12s or 250ms"
NUMBER: Final = "a number such as 12 or 4.5"
BYTES: Final = "a size such as 200B or 4kB"

TASKS_LEFT: Final = "tasks_left"
MEASURES: Final[Mapping[str, str]] = {
    "wait": TIME,
    "hold": TIME,
    "handoff": TIME,
    "handoff_after_expiry": TIME,
    "handoff_after_death": TIME,
    "early_denial": TIME,
    "drought": TIME,
    "standstill": TIME,
    "requests_per_grant": NUMBER,
    "objects_left": NUMBER,
    TASKS_LEFT: NUMBER,
    "record_growth": BYTES,
}
"""What can be limited, and what a limit on it is written as; `reports.checks.measures.bounded` defines each measure."""

NEED_CALLS: Final = frozenset(MEASURES) - {
    "standstill", "requests_per_grant", "objects_left", "record_growth",
}  # fmt: skip
"""Measures of the calls of a lock, or of its process: a record of requests on the wire has none of them."""

NEED_DETAIL: Final = frozenset({"early_denial", "record_growth"})
"""Measures for which a history says more than it does unasked: how long a call would wait, how long a record is."""

STATISTICS: Final = ("p50", "p90", "p95", "p99", "max", "mean")
THRESHOLD_LENGTH_MAX: Final = 200
_SPOKEN: Final = {name.replace("handoff", "hand-off").replace("_", "-"): name for name in MEASURES}
"""Measures as people write them in a sentence, `hand-off`: with a dash. A blank may then stand before the statistic."""
_NAME: Final = re.compile(r"\s*([\w-]*)")
_STATISTIC: Final = re.compile(r"\.(\w*)|\s+([A-Za-z]\w*)")
_SIGN: Final = re.compile(r"\s*(<=|<)?\s*")
_BYTES_PER_UNIT: Final = {"B": 1, "kB": 1_000, "KiB": 1_024, "MB": 1_000_000, "MiB": 1 << 20}
_SIZE: Final = re.compile(r"(\d{1,12})\s*(B|kB|KiB|MB|MiB)", re.ASCII)
_COUNT_MAX: Final = 10**12


@dataclass(frozen=True, slots=True)
class Threshold:
    """A limit on a measure: on its largest sample where no statistic is named. limit: nanoseconds, number or bytes."""

    text: str
    measure: str
    statistic: str
    is_strict: bool
    limit: float

    def allows(self, measured: float) -> bool:
        """True if a figure keeps the limit."""
        return measured < self.limit or (measured == self.limit and not self.is_strict)

    def figure(self, value: float) -> str:
        """A figure of this measure, for people."""
        form = MEASURES[self.measure]
        if form == TIME:
            return f"{value / 1e9:.3f} s"
        return f"{value:,.10g}" + (" bytes" if form == BYTES else "")


def parse_threshold(text: str) -> Threshold:
    """A limit from its text: `MEASURE[.STATISTIC] < VALUE`, or `<=`. Raises ValueError that says where it is wrong.

    Also as people say it, `hand-off p99 < 2s`; the text of the threshold is then that of the grammar.
    """
    if not isinstance(text, str) or len(text) > THRESHOLD_LENGTH_MAX:
        raise ValueError(f"is {quote(text)}; expected a limit such as 'handoff.p99 < 12s'")

    def refuse(column: int, what: str) -> ValueError:
        return ValueError(f"is {quote(text)}; column {column + 1}: {what}")

    name = _NAME.match(text)
    assert name is not None, "an empty name matches"
    measure, place = _SPOKEN.get(name[1], name[1]), name.end()
    if measure not in MEASURES:
        hint = did_you_mean(measure, MEASURES)
        raise refuse(name.start(1), f"expected a measure ({', '.join(MEASURES)}){hint}")
    statistic = "max"
    if dotted := _STATISTIC.match(text, place):
        statistic, place = dotted[1] if dotted[2] is None else dotted[2], dotted.end()
        if statistic not in STATISTICS:
            raise refuse(dotted.start(dotted.lastindex or 1), f"expected a statistic ({', '.join(STATISTICS)})")
    sign = _SIGN.match(text, place)
    assert sign is not None, "blanks and no sign match"
    if sign[1] is None:
        raise refuse(sign.end(), "expected < or <=: a threshold is the most that is allowed")
    value = text[sign.end() :].strip()
    try:
        limit = _limit(MEASURES[measure], value)
    except ValueError as error:
        raise refuse(sign.end(), f"the limit {error}") from error
    is_spoken = name[1] != measure or (dotted is not None and dotted[2] is not None)
    written = f"{measure}{f'.{statistic}' if dotted else ''} {sign[1]} {value}" if is_spoken else text.strip()
    return Threshold(written, measure, statistic, sign[1] == "<", limit)


def _limit(form: str, text: str) -> float:
    if form == TIME:
        return duration_ns(text)
    if form == BYTES:
        size = _SIZE.fullmatch(text)
        if size is None:
            raise ValueError(f"is {quote(text)}; expected {BYTES} ({', '.join(_BYTES_PER_UNIT)})")
        return int(size[1]) * _BYTES_PER_UNIT[size[2]]
    number, unit = split_quantity(text, NUMBER)
    if unit or not 0 <= number <= _COUNT_MAX:
        raise ValueError(f"is {quote(text)}; expected {NUMBER}, without a unit")
    return int(number) if number == int(number) else float(number)


def measures_of(texts: Iterable[str]) -> frozenset[str]:
    """The measures that these limits name."""
    return frozenset(parse_threshold(text).measure for text in texts)
