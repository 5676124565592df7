"""Is the table what its writers were told? Pure functions of their attempts, the rows and the timeline.

A writer alone inserts, updates and deletes the rows under its name, one batch after the other. So each such row must be
what the last acknowledged batch on it has made, whatever the others did. The rows called `shared-…` are counters that
all increase, reading and writing: each acknowledged batch must count once. A refused batch may not stand in the table.

A batch whose outcome its writer does not know stands in the table as a whole or not at all, and the timeline says
which: where a completed instant names it, it counts as acknowledged, and elsewhere as refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.evidence.tables.attempts import ACKNOWLEDGED, REFUSED, UNKNOWN, Attempt
from tests.evidence.tables.timeline import Instant, Timeline

SERVICES: Final = ("compaction", "clustering")
SHARED: Final = "shared-"
_TOLD_MAX: Final = 5

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check: of how many things it was asked, and each thing that breaks it, in a sentence."""

    check: str
    asked: int
    broken: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.broken

    @property
    def sentence(self) -> str:
        if self.holds:
            return f"{self.check}: holds ({self.asked} asked)" if self.asked else f"{self.check}: nothing to ask"
        told = "; ".join(self.broken[:_TOLD_MAX]) + ("; …" if len(self.broken) > _TOLD_MAX else "")
        return f"{self.check}: BROKEN in {len(self.broken)} of {self.asked}: {told}"


def validate(
    attempts: Sequence[Attempt], rows: Sequence[Row], timeline: Timeline, *, services: Iterable[str] = ()
) -> list[Finding]:
    """Every check. services: those that had to happen, of `SERVICES`."""
    instants = timeline.instants
    keyed = [row for row in rows if row["id"] is not None]
    settled = settled_by(attempts, instants)
    return [
        unique_keys(rows),
        own_rows(settled, keyed),
        counters(settled, keyed),
        ordering(attempts, keyed),
        refused_unseen(attempts, rows, instants),
        batches_on_timeline(attempts, instants),
        whole_timeline(attempts, rows, timeline),
        *(service_happened(name, instants) for name in services),
    ]


def settled_by(attempts: Sequence[Attempt], instants: Mapping[str, Instant]) -> list[Attempt]:
    """The attempts, each acknowledged or refused: the completed instants settle what a writer does not know."""
    completed = {batch for instant in instants.values() if instant.is_completed for batch in instant.batches}
    return [
        replace(each, outcome=ACKNOWLEDGED if each.batch in completed else REFUSED) if each.outcome == UNKNOWN else each
        for each in attempts
    ]


def unique_keys(rows: Sequence[Row]) -> Finding:
    """No key has two rows, and no row is without its key."""
    times = Counter(row["id"] for row in rows if row["id"] is not None)
    broken = [f"{key} has {count} rows" for key, count in sorted(times.items()) if count > 1]
    broken += [f"a row of {row['batch']} has no key" for row in rows if row["id"] is None]
    return Finding(check="one row for each key", asked=len(rows), broken=tuple(broken))


def own_rows(attempts: Sequence[Attempt], rows: Sequence[Row]) -> Finding:
    """Each row that one writer alone changes is what its last acknowledged batch made of it. attempts: settled."""
    fates = _fates(attempts)
    found = {row["id"]: row for row in rows}
    broken = [
        f"{key} is {_told(row)}, expected {_told(expected)}"
        for key, expected in sorted(fates.items())
        if not _is(row := found.get(key), expected)
    ]
    known = {*fates, *_counted(attempts)}
    broken += [f"{key} is {_told(row)}, and nobody wrote it" for key, row in sorted(found.items()) if key not in known]
    return Finding(check="no acknowledged batch lost or undone", asked=len(fates), broken=tuple(broken))


def _fates(attempts: Sequence[Attempt]) -> dict[str, Row | None]:
    """By key, the row that must stand at the end; None for no row."""
    fates: dict[str, Row | None] = {}
    for attempt in attempts:
        for key, change in attempt.rows.items():
            if "count" in change or key.startswith(SHARED):
                continue
            fates.setdefault(key, None)
            if attempt.outcome == ACKNOWLEDGED:
                fates[key] = None if change.get("delete") else change
    return fates


def _is(row: Row | None, expected: Row | None) -> bool:
    if row is None or expected is None:
        return row is expected
    return (row["n"], row["batch"]) == (expected["n"], expected["batch"])


def _told(row: Row | None) -> str:
    return "absent" if row is None else f"n={row['n']} of {row['batch']}"


def _counted(attempts: Sequence[Attempt]) -> dict[str, list[Attempt]]:
    counted: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        for key, change in attempt.rows.items():
            if "count" in change or key.startswith(SHARED):
                counted.setdefault(key, []).append(attempt)
    return counted


def counters(attempts: Sequence[Attempt], rows: Sequence[Row]) -> Finding:
    """Each shared row has counted each acknowledged increment once. attempts: settled."""
    found = {row["id"]: row for row in rows}
    broken = []
    counted = _counted(attempts)
    for key, its in sorted(counted.items()):
        done = [each for each in its if each.outcome == ACKNOWLEDGED]
        expected = sum(each.rows[key].get("count", 0) for each in done)
        row = found.get(key)
        if row is None:
            if done:
                broken.append(f"{key} is absent, expected {expected}")
        elif row["n"] != expected:
            what = f"{expected - row['n']} lost" if row["n"] < expected else f"{row['n'] - expected} too many"
            broken.append(f"{key} counted {row['n']}, expected {expected}: {what}")
    return Finding(check="each acknowledged increment counted once", asked=len(counted), broken=tuple(broken))


def ordering(attempts: Sequence[Attempt], rows: Sequence[Row]) -> Finding:
    """The ordering field of each row is that of the batch which wrote it, so no older value has won."""
    written = {
        (attempt.batch, key): change["ts"]
        for attempt in attempts
        for key, change in attempt.rows.items()
        if "ts" in change
    }
    broken = []
    asked = 0
    for row in rows:
        expected = written.get((row["batch"], row["id"]))
        if expected is None:
            continue
        asked += 1
        if row["ts"] != expected:
            broken.append(f"{row['id']} has ts {row['ts']}, expected {expected} of {row['batch']}")
    return Finding(check="the ordering field decides", asked=asked, broken=tuple(broken))


def refused_unseen(attempts: Sequence[Attempt], rows: Sequence[Row], instants: Mapping[str, Instant]) -> Finding:
    """Nothing of a refused batch is in the table or completed on the timeline."""
    refused = {attempt.batch for attempt in attempts if attempt.outcome == REFUSED}
    broken = [f"{row['id']} is of {row['batch']}, which was refused" for row in rows if row["batch"] in refused]
    broken += [
        f"{batch} was refused, and instant {instant.requested} is completed"
        for instant in instants.values()
        for batch in instant.batches
        if batch in refused
    ]
    return Finding(check="nothing of a refused batch", asked=len(refused), broken=tuple(broken))


def batches_on_timeline(attempts: Sequence[Attempt], instants: Mapping[str, Instant]) -> Finding:
    """Each acknowledged batch stands in one completed instant, and none in two."""
    times = Counter(batch for instant in instants.values() for batch in set(instant.batches))
    broken, asked = [], 0
    for attempt in attempts:
        if not attempt.rows or attempt.outcome != ACKNOWLEDGED:
            continue
        asked += 1
        if times[attempt.batch] == 0:
            broken.append(f"{attempt.batch} was acknowledged, and no completed instant names it")
    broken += [f"{batch} stands in {count} instants" for batch, count in sorted(times.items()) if count > 1]
    return Finding(check="each acknowledged batch in one completed instant", asked=asked, broken=tuple(broken))


def whole_timeline(attempts: Sequence[Attempt], rows: Sequence[Row], timeline: Timeline) -> Finding:
    """No hole: every file is of an instant, every completed instant was requested, completed once and at an instant of
    its own, and all rows are of completed ones. Unfinished instants are no more than attempts that were refused or
    whose outcome is unknown."""
    instants = timeline.instants
    broken = [f"{name} is no name of an instant" for name in timeline.strange]
    ends = Counter(end for instant in instants.values() for end in instant.completions)
    for instant in instants.values():
        if not instant.is_completed:
            continue
        if "requested" not in instant.states:
            broken.append(f"{instant.requested} ({instant.action}) is completed and was never requested")
        if len(instant.completions) > 1:
            broken.append(f"{instant.requested} is completed {len(instant.completions)} times")
        broken += [
            f"{instant.requested} ends at {end}, before it began"
            for end in instant.completions
            if end < instant.requested
        ]
    broken += [f"{count} instants end at {end}" for end, count in sorted(ends.items()) if count > 1]
    missing = sorted({row["instant"] for row in rows if not _is_completed(instants, row["instant"])})
    broken += [f"rows are of instant {name}, which is not completed" for name in missing]
    open_ones = [instant.requested for instant in instants.values() if not instant.is_completed]
    excused = sum(attempt.outcome != ACKNOWLEDGED for attempt in attempts)
    if len(open_ones) > excused:
        broken.append(
            f"{len(open_ones)} instants are unfinished ({', '.join(open_ones[:_TOLD_MAX])}), and {excused} attempts "
            "did not come to their end"
        )
    return Finding(check="a timeline without holes", asked=len(instants), broken=tuple(broken))


def _is_completed(instants: Mapping[str, Instant], requested: str) -> bool:
    instant = instants.get(requested)
    return instant is not None and instant.is_completed


def service_happened(name: str, instants: Mapping[str, Instant]) -> Finding:
    """At least one instant of the service is completed."""
    done = [instant for instant in instants.values() if name in instant.kinds and instant.is_completed]
    broken = () if done else (f"no {name} was completed",)
    return Finding(check=f"{name} happened", asked=len(done) or 1, broken=broken)
