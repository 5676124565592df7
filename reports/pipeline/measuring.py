"""Some runs of one history, judged and measured: the facts of a page about them, and their tables.

One function for every way of analysis: this process calls it with a whole history, a worker of Spark with a share of
one. No clause, count or aggregate is written a second time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lockref.history import SCHEMA
from lockref.strict_json import read_object
from reports.checks import judge_with_handoffs
from reports.checks.measures.endings import ENDINGS
from reports.checks.summary import Summary
from reports.history_files import Notes
from reports.pipeline.inputs import RUN_BITS
from reports.pipeline.judged_tables import judged_tables
from reports.pipeline.measured_tables import history_tables
from reports.pipeline.summary import TIMELINE_EVENTS_MAX, Facts, FailureKey, FailureRow
from reports.pipeline.tallies import Cells, Tallies
from reports.pipeline.timeline import KINDS_SHOWN

TIMELINE_COLUMNS: Final = (
    "seq", "at_ns", "node", "task", "lock", "kind", "outcome", "request", "token", "owner", "detail", "run",
)  # fmt: skip
"""The columns of a history from which a timeline is made."""


def measure_runs(
    events: pa.Table, runs: pa.Table, notes: Notes, *, index: int, name: str, is_one_of_several: bool = False
) -> tuple[Facts, dict[str, pa.Table]]:
    """The facts of these runs, and their tables, in which run numbers are those of the history.

    events, runs, notes: as `reports.history_files` gives them. index, name: of the history among the inputs.
    is_one_of_several: other histories are told of in the same results, so damaged runs are named with their history.
    """
    judgement, handoffs = judge_with_handoffs(events, runs)
    counts = Summary.of(judgement, events, runs, damaged=len(notes.damaged), nameless=notes.nameless)
    assert set(counts.endings) <= set(ENDINGS), "a grant ends in one of the ways that are told"
    if is_one_of_several:
        counts.damage = {f"{run} of {name}": why for run, why in counts.damage.items()}
    # A page tells of distinct failures by cell, not by what disturbed them.
    counts.findings = []
    facts = Facts(
        sources={index: name},
        rejects=Counter({(index, reason): number for reason, number in notes.quarantined.items()}),
        counts=counts,
    )
    tables = judged_tables(judgement, handoffs)
    unfit = judgement.records.filter(pc.equal(judgement.records["state"].cast(pa.string()), "damaged"))["run"]
    if len(unfit):
        events, runs, handoffs = (
            table.filter(pc.invert(pc.is_in(table["run"], value_set=unfit.combine_chunks())))
            for table in (events, runs, handoffs)
        )
    measured = history_tables(events, handoffs)
    cells = Cells(runs, events, origin=index << RUN_BITS)
    facts.failures = _failures(tables["verdicts"], cells)
    facts.tallies = Tallies.of(measured, cells)
    return facts, {**tables, **measured}


def _failures(verdicts: pa.Table, cells: Cells) -> dict[FailureKey, FailureRow]:
    """Distinct failures: the same clause broken in the same way in the same cell, as its lowest run shows it."""
    broken = verdicts.filter(pc.equal(verdicts["verdict"], "violated")).sort_by([("run", "ascending")])
    found: dict[FailureKey, FailureRow] = {}
    for row in broken.to_pylist():
        witness = read_object(row["witness"]) if row["witness"] else {}
        key = (row["clause"], cells.named(row["run"]), str(witness.get("kind") or ""))
        if key in found:
            found[key].runs += 1
            continue
        about = cells.about[row["run"]]
        found[key] = FailureRow(
            clause=row["clause"],
            cell=key[1],
            runs=1,
            run=row["run"] + cells.origin,
            seed=about["seed"],
            scenario=about["scenario"],
            provider=about["provider"],
            backend=about["backend"] or "",
            world=about["world"],
            at_ns=row["at_ns"],
            witness=witness,
        )
    return found


def show_timelines(failures: Iterable[FailureRow], events: pa.Table, grants: pa.Table) -> None:
    """Give failures the events and grants of their runs, where they are among these tables of one history."""
    shown = events.filter(pc.is_in(events["kind"].cast(pa.string()), pa.array(KINDS_SHOWN)))
    for failure in failures:
        run = failure.run & ((1 << RUN_BITS) - 1)
        failure.events = _of_run(shown.select(TIMELINE_COLUMNS), run, "seq")
        failure.grants = _of_run(grants, run)


def _of_run(table: pa.Table, run: int, order: str | None = None) -> list[dict[str, Any]]:
    own = table.filter(pc.equal(table["run"], run))
    rows: list[dict[str, Any]] = (own.sort_by(order).slice(0, TIMELINE_EVENTS_MAX) if order else own).to_pylist()
    return rows


def moved_runs(tables: Mapping[str, pa.Table], index: int) -> dict[str, pa.Table]:
    """The tables with run numbers that no other input has, as `reports.pipeline.inputs` says."""
    moved = {}
    for name, table in tables.items():
        place = table.column_names.index("run")
        moved[name] = table.set_column(place, "run", pc.add(table["run"].cast(pa.int64()), index << RUN_BITS))
    return moved


assert set(TIMELINE_COLUMNS) <= set(SCHEMA.names)
