"""Histories of a few runs, taken out of many: of which runs, and as one pair of tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lockref.history import RUNS_SCHEMA, SCHEMA

History = tuple[pa.Table, pa.Table]
"""Events and runs, as `lockref.history.SCHEMA` and `RUNS_SCHEMA`."""


def broken_runs(verdicts: pa.Table, not_demanded: frozenset[str]) -> frozenset[int]:
    """The runs in which a demanded clause broke. verdicts: as `reports.checks` gives them."""
    rows = verdicts.filter(pc.equal(verdicts["verdict"], "violated")).select(["run", "clause"]).to_pylist()
    return frozenset(row["run"] for row in rows if row["clause"] not in not_demanded)


def only_runs(history: History, wanted: Collection[int]) -> History:
    """The history of some of its runs, in the order in which they stand there."""
    events, runs = history
    numbers = pa.array(sorted(wanted), runs["run"].type)
    return events.filter(pc.is_in(events["run"], numbers)), runs.filter(pc.is_in(runs["run"], numbers))


def joined_histories(histories: Sequence[History]) -> History:
    """Several histories one behind the other; empty tables where there is none."""
    if not histories:
        return SCHEMA.empty_table(), RUNS_SCHEMA.empty_table()
    events = pa.concat_tables([events for events, _ in histories]).unify_dictionaries()
    return events, pa.concat_tables([runs for _, runs in histories])
