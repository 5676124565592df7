"""Silences and contradictions of a store: their words in reports, and when they make a run inconclusive.

Works on rows of `STORE_ANSWERS_SCHEMA`, so that the process, a later `lockref check`
and Spark say the same of one history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

SILENT_SHARE_MAX: Final = 0.2
"""Share of a run's time. Beyond it the store answered too little: the run is inconclusive."""

UNANSWERED_SHARE_MAX: Final = 0.2
"""Share of a run's requests. Beyond it the run is inconclusive."""

SILENCES_TOLD_MAX: Final = 5
RUNS_TOLD_MAX: Final = 20
_NS_PER_S: Final = 1_000_000_000


def is_lost(row: Mapping[str, Any]) -> bool:
    """True if the store never came back before the end of the run."""
    return row["lost_at_ns"] is not None


def outage_doubts(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Why runs prove nothing: the store contradicted itself, went away for good, or answered too little."""
    ordered = sorted(rows, key=lambda row: int(row["run"]))
    lines = [f"{_where(row, ordered)}{doubt}" for row in ordered for doubt in _doubts(row)]
    return _cut(lines, RUNS_TOLD_MAX, "further doubts of this kind")


def outage_notices(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The notices about the store: each silence, and the number of requests without an answer."""
    ordered = sorted(rows, key=lambda row: int(row["run"]))
    lines = []
    for row in ordered:
        where = _where(row, ordered)
        if row["contradicted"]:
            lines.append(f"{where}the store, at {_seconds(row['contradiction_ns'])}: {row['contradiction']}")
            lines.append(f"{where}do not use this store for locks; measure it with `lockref doctor --store URI`")
        lines += [where + text for text in _cut(_silences(row), SILENCES_TOLD_MAX, "further silences of the store")]
        if row["unanswered"]:
            lines.append(f"{where}{_share(row)} were not answered")
    return _cut(lines, RUNS_TOLD_MAX, "further notices about the store")


def _doubts(row: Mapping[str, Any]) -> list[str]:
    doubts = []
    if row["contradicted"]:
        doubts.append(f"{_contradicted(row)}; no lock can be judged on that")
    if is_lost(row):
        is_there = _is_refusal(row["silences"][-1])
        lost = "refused every request from {} on" if is_there else "went away at {} and never came back"
        doubts.append(f"the store {lost.format(_seconds(row['lost_at_ns']))}")
    if row["silent_share"] > SILENT_SHARE_MAX:
        doubts.append(
            f"the store served nothing for {_seconds(row['silent_ns'])} of {_seconds(row['run_ns'])}, "
            f"more than {100 * SILENT_SHARE_MAX:.0f} % of the run"
        )
    if row["unanswered_share"] > UNANSWERED_SHARE_MAX:
        doubts.append(f"{_share(row)} were not answered, more than {100 * UNANSWERED_SHARE_MAX:.0f} %")
    return doubts


def _contradicted(row: Mapping[str, Any]) -> str:
    count = row["contradicted"]
    often = "once" if count == 1 else f"{count:,} times"
    return f"the store showed a state that a confirmed write had replaced, {often} (C21)"


def _silences(row: Mapping[str, Any]) -> list[str]:
    lines = []
    for silence in row["silences"]:
        span = f"from {_seconds(silence['begin_ns'])} to {_seconds(silence['end_ns'])}"
        unanswered, refused = silence["unanswered"], silence["refused"]
        text = f"the store {'refused every request' if _is_refusal(silence) else 'answered nothing'} {span}"
        failed = ", ".join(
            f"{count:,} {word}" for count, word in ((unanswered, "without an answer"), (refused, "refused")) if count
        )
        lines.append(f"{text} ({failed or 'requests waited until then'}{_because(silence['reason'])})")
    if lines and is_lost(row):
        lines[-1] += ", and never came back before the end of the run"
    return lines


def _is_refusal(silence: Mapping[str, Any]) -> bool:
    """True if the store was there all the time, and refused what it was asked."""
    return bool(silence["refused"]) and not silence["unanswered"]


def _because(reason: str) -> str:
    return f"; mostly {reason}" if reason else ""


def _share(row: Mapping[str, Any]) -> str:
    return f"{row['unanswered']:,} of {row['requests']:,} requests ({100 * row['unanswered_share']:.2g} %)"


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / _NS_PER_S:.1f} s"


def _where(row: Mapping[str, Any], rows: list[Mapping[str, Any]]) -> str:
    return f"run {row['run']}: " if len(rows) > 1 else ""


def _cut(lines: list[str], limit: int, rest: str) -> list[str]:
    told = lines if len(lines) <= limit else [*lines[: limit - 1], f"{len(lines) - limit + 1} {rest}"]
    assert len(told) <= limit, "a reader is told so many lines at most"
    return told
