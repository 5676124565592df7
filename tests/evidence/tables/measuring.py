"""What a run cost: commits as their writers saw them, the lock as the requests show it, and the processes.

Holds come from the table of grants that the project's pipeline writes. A client waits for the lock from its first
request about the lock object that follows its last hold to the answer that grants it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lockref.runtime import NS_PER_S
from tests.evidence.tables.attempts import ACKNOWLEDGED, REFUSED, Attempt

Span = tuple[int, int]
"""From and until, in nanoseconds of the machine's monotonic clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How often, and in seconds the middle and the longest."""

    count: int
    median_s: float
    longest_s: float

    @staticmethod
    def of(lengths_ns: Iterable[int]) -> Spread | None:
        """None where there is nothing."""
        values = np.asarray([*lengths_ns], dtype=np.float64) / NS_PER_S
        if not len(values):
            return None
        return Spread(count=len(values), median_s=float(np.median(values)), longest_s=float(values.max()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCost:
    """One client. commits: acknowledged ones, by the role's operation. lock_share: the part of the time in acknowledged
    commits during which it waited for the lock or held it. requests: of its endpoint, all of the run.
    """

    client: str
    commits: Mapping[str, Spread]
    refused: int
    waits: Spread | None
    holds: Spread | None
    lock_share: float | None
    requests: int


def read_grants(analysis: Path) -> list[dict[str, Any]]:
    """The rows of the pipeline's table of grants."""
    parts = sorted((analysis / "tables" / "grants").glob("*.parquet"))
    rows: list[dict[str, Any]] = [row for part in parts for row in pq.read_table(part).to_pylist()]
    return rows


def costs(
    clients: Sequence[str], attempts: Sequence[Attempt], events: pa.Table, grants: Sequence[Mapping[str, Any]]
) -> list[ClientCost]:
    """What each client spent."""
    locks = {grant["lock"] for grant in grants}
    return [_cost(client, attempts, _of(events, client), locks, grants) for client in clients]


def _of(events: pa.Table, client: str) -> list[dict[str, Any]]:
    its = events.filter(pc.equal(events["node"], client))
    rows: list[dict[str, Any]] = its.select(["at_ns", "lock", "kind", "op"]).to_pylist()
    return rows


def _cost(
    client: str,
    attempts: Sequence[Attempt],
    events: Sequence[Mapping[str, Any]],
    locks: set[str],
    grants: Sequence[Mapping[str, Any]],
) -> ClientCost:
    its = [attempt for attempt in attempts if attempt.client == client]
    done = [attempt for attempt in its if attempt.outcome == ACKNOWLEDGED and attempt.rows]
    by_op: dict[str, list[int]] = {}
    for attempt in done:
        by_op.setdefault(attempt.op, []).append(attempt.took_ns or 0)
    holds = hold_spans([grant for grant in grants if grant["node"] == client])
    asked = sorted(event["at_ns"] for event in events if event["kind"] == "sent" and event["lock"] in locks)
    waits = wait_spans(asked, holds)
    commits = [(attempt.began_ns, attempt.ended_ns or attempt.began_ns) for attempt in done]
    spent = sum(until - begin for begin, until in merged(commits))
    return ClientCost(
        client=client,
        commits={op: spread for op, lengths in sorted(by_op.items()) if (spread := Spread.of(lengths))},
        refused=sum(attempt.outcome == REFUSED for attempt in its),
        waits=Spread.of(until - begin for begin, until in waits),
        holds=Spread.of(until - begin for begin, until in holds),
        lock_share=common_ns(merged([*waits, *holds]), merged(commits)) / spent if spent else None,
        requests=sum(event["kind"] == "sent" for event in events),
    )


def hold_spans(grants: Sequence[Mapping[str, Any]]) -> list[Span]:
    """From the answer that granted the lock to the answer to its end. Of a grant without an end, nothing is told."""
    return sorted(
        (grant["begin_hi_ns"], grant["end_hi_ns"])
        for grant in grants
        if grant["end_hi_ns"] is not None and grant["begin_hi_ns"] is not None
    )


def wait_spans(asked_ns: Sequence[int], holds: Sequence[Span]) -> list[Span]:
    """For each hold, from the first request about the lock after the hold before it."""
    found = []
    free_ns = -1
    for begin, until in holds:
        first = next((at for at in asked_ns if free_ns < at <= begin), None)
        if first is not None:
            found.append((first, begin))
        free_ns = max(free_ns, until)
    return found


def merged(spans: Iterable[Span]) -> list[Span]:
    """The spans without overlaps."""
    found: list[Span] = []
    for begin, until in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], until))
        else:
            found.append((begin, until))
    return found


def common_ns(first: Sequence[Span], second: Sequence[Span]) -> int:
    """How long both last at once. Each is without overlaps."""
    return sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in first for b in second)
