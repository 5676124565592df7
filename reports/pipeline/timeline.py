"""The holder timeline of one run: who was granted, who believed, who wrote, what was disturbed.

Cut out around the moment of a failure, because a whole run of thousands of
tenures shows nothing. What is cut or capped is counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lockref.strict_json import NotJson, read_object
from reports.formats.results import NO_INSTANTS, Interval, Tick, Timeline

KINDS_SHOWN = ("call", "believed", "effect", "fault", "clock")
"""The kinds of events that a timeline is made of."""

MARKS_MAX = 10_000
MARGIN_SHARE = 0.6
"""How much of the failure's own length is shown on either side of it."""
MARGIN_NS_MIN = 2_000_000_000
OVERLAPS_MAX = 200
LEFT_OUT = NO_INSTANTS | {"store"}
"""Parts of a witness that say for how long, and the writes around it, which may be far away."""


def build_timeline(
    events: Iterable[dict[str, Any]],
    *,
    grants: Iterable[dict[str, Any]] = (),
    moment_ns: int | None,
    witness: dict[str, Any],
    origin_ns: int = 0,
    marks_max: int = MARKS_MAX,
) -> Timeline:
    """Fold one run's events (rows of the history, any order) and grants into bars and ticks.

    moment_ns, witness: of the failure to show; None and {} show the whole run.
    marks_max: bars and ticks kept, those nearest to the moment first.
    """
    rows = sorted(events, key=lambda row: row["seq"])
    if not rows:
        return Timeline(begin_ns=0, end_ns=0, moment_ns=moment_ns)
    begin_of_run = min(row["at_ns"] for row in rows)
    end_of_run = max(row["at_ns"] for row in rows)
    lock = witness.get("lock")
    if lock:
        rows = [row for row in rows if not row["lock"] or row["lock"] == lock]
        grants = [grant for grant in grants if grant["lock"] == lock]
    beliefs = _beliefs(rows)
    bars = [*beliefs, *_granted(grants, end_of_run), *_faults(rows, end_of_run)]
    ticks = _effects(rows)
    first, last = _window(moment_ns, witness, bars, (begin_of_run, end_of_run))
    bars = [bar for bar in bars if bar.end_ns >= first and bar.begin_ns <= last]
    ticks = [tick for tick in ticks if first <= tick.at_ns <= last]
    bars += _overlaps([bar for bar in bars if bar.kind == "believed"])
    dropped = max(0, len(bars) + len(ticks) - marks_max)
    if dropped:
        middle = moment_ns if moment_ns is not None else first
        bars = sorted(bars, key=lambda bar: abs(bar.begin_ns - middle))[: marks_max // 2]
        ticks = sorted(ticks, key=lambda tick: abs(tick.at_ns - middle))[: marks_max - len(bars)]
    return Timeline(
        origin_ns=origin_ns,
        begin_ns=first,
        end_ns=last,
        moment_ns=moment_ns,
        rows=_row_names(bars, ticks),
        intervals=sorted(bars, key=lambda bar: (bar.begin_ns, bar.kind, bar.row)),
        ticks=sorted(ticks, key=lambda tick: (tick.at_ns, tick.row)),
        dropped=dropped,
    )


def _client(row: dict[str, Any]) -> str:
    task = row.get("task") or ""
    return row["node"] if task in ("", "main") else f"{row['node']}/{task}"


def _beliefs(rows: list[dict[str, Any]]) -> list[Interval]:
    """One bar per tenure, from its first to its last yes. A yes to the observer counts for the tenure's client."""
    callers = {row["request"]: _client(row) for row in rows if row["kind"] == "call"}
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        if row["kind"] == "believed" and row["request"] is not None:
            found.setdefault((callers.get(row["request"], _client(row)), row["request"]), []).append(row)
    return [
        Interval(
            kind="believed",
            row=client,
            begin_ns=min(row["at_ns"] for row in yes),
            end_ns=max(row["at_ns"] for row in yes),
            label=_name(yes[0]),
        )
        for (client, _), yes in found.items()
    ]


def _name(row: dict[str, Any]) -> str:
    """A grant's name for people: its token, else the end of its owner's."""
    if row.get("token") is not None:
        return str(row["token"])
    return (row.get("owner") or "")[-6:]


def _granted(grants: Iterable[dict[str, Any]], end_of_run: int) -> list[Interval]:
    return [
        Interval(
            kind="granted",
            row=_client(grant),
            begin_ns=grant["begin_hi_ns"],
            end_ns=grant["end_hi_ns"] if grant["end_hi_ns"] is not None else end_of_run,
            label=_name(grant),
        )
        for grant in grants
    ]


def _faults(rows: list[dict[str, Any]], end_of_run: int) -> list[Interval]:
    """Faults that last as bars, those that strike once as bars of no length; CLOCK rows likewise."""
    begun: dict[tuple[str, str], tuple[int, str]] = {}
    bars: list[Interval] = []
    for row in rows:
        if row["kind"] not in ("fault", "clock"):
            continue
        told = _detail(row)
        kind = str(told.get("kind") or row["kind"])
        key = (str(told.get("id", "")), row["node"])
        label = f"{kind} {row['node']}" if row["node"] else kind
        match told.get("phase"):
            case "begin":
                begun[key] = (row["at_ns"], label)
            case "end" if key in begun:
                since, name = begun.pop(key)
                bars.append(Interval(kind="fault", row=name, begin_ns=since, end_ns=row["at_ns"], label=kind))
            case _:
                bars.append(Interval(kind="fault", row=label, begin_ns=row["at_ns"], end_ns=row["at_ns"], label=kind))
    for since, name in begun.values():
        bars.append(Interval(kind="fault", row=name, begin_ns=since, end_ns=end_of_run, label=name.split(" ")[0]))
    return bars


def _detail(row: dict[str, Any]) -> dict[str, Any]:
    try:
        return read_object(row.get("detail") or "{}")
    except NotJson:
        return {}


def _effects(rows: list[dict[str, Any]]) -> list[Tick]:
    return [
        Tick(row=_client(row), at_ns=row["at_ns"], is_accepted=row["outcome"] == "applied", label=_name(row))
        for row in rows
        if row["kind"] == "effect"
    ]


def _window(
    moment_ns: int | None, witness: dict[str, Any], bars: list[Interval], run: tuple[int, int]
) -> tuple[int, int]:
    """The stretch to show: the witness's own times with a margin; the whole run where nothing failed.

    run: from its first to its last row, of whichever lock: that of the witness may have no bar and no call at all.
    """
    if moment_ns is None:
        return run
    times = [moment_ns, *_times(witness)]
    near = [bar for bar in bars if bar.kind == "believed" and bar.begin_ns <= moment_ns <= bar.end_ns]
    times += [edge for bar in near for edge in (bar.begin_ns, bar.end_ns)]
    margin = max(MARGIN_NS_MIN, int(MARGIN_SHARE * (max(times) - min(times))))
    begin, end = min(run[0], *times), max(run[1], *times)
    return max(begin, min(times) - margin), min(end, max(times) + margin)


def _times(value: Any, name: str = "") -> list[int]:
    """Every integer of the witness whose key ends in `_ns`, however deep, but durations and what the store saw."""
    if isinstance(value, dict):
        return [time for key, inner in value.items() if key not in LEFT_OUT for time in _times(inner, key)]
    if isinstance(value, list):
        return [time for inner in value for time in _times(inner, name)]
    is_time = name.endswith("_ns") and isinstance(value, int) and not isinstance(value, bool)
    return [value] if is_time else []


def _overlaps(beliefs: list[Interval]) -> list[Interval]:
    """Stretches in which two different clients believed, each named after the later one's row."""
    found: list[Interval] = []
    running: list[Interval] = []
    for bar in sorted(beliefs, key=lambda bar: (bar.begin_ns, bar.end_ns)):
        running = [other for other in running if other.end_ns >= bar.begin_ns]
        for other in running:
            if other.row != bar.row and len(found) < OVERLAPS_MAX:
                end = min(bar.end_ns, other.end_ns)
                found.append(Interval(kind="overlap", row=bar.row, begin_ns=bar.begin_ns, end_ns=end, label=other.row))
        running.append(bar)
    return found


def _row_names(bars: list[Interval], ticks: list[Tick]) -> list[str]:
    """Fault lanes first, then clients; each in natural order, so that n10 follows n9."""
    faults = {bar.row for bar in bars if bar.kind == "fault"}
    clients = {bar.row for bar in bars if bar.kind != "fault"} | {tick.row for tick in ticks}
    return [*sorted(faults, key=_natural), *sorted(clients, key=_natural)]


def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """The key by which n10 follows n9. A number is its length and its digits: a name may have any number of digits."""
    parts: list[tuple[int, int, str]] = []
    digits = ""
    for character in [*name, ""]:
        if character.isascii() and character.isdigit():
            digits += character
            continue
        if digits:
            significant = digits.lstrip("0")
            parts.append((0, len(significant), significant))
            digits = ""
        if character:
            parts.append((1, 0, character))
    return tuple(parts)
