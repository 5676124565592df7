"""Is the record of a run whole? This is asked before any clause is judged.

`seq` is the key of an event: in one run it counts 0, 1, 2, … without a gap and
without a repetition, in the order of recording. A lost event can look like a
broken lock (without its release a grant is replaced too early), and so can one
that was recorded twice or moved. A run whose record shows any of that is
*damaged*: no clause says anything about it.

A record that only ends early is no damage: what is there is in order, so it is
judged up to there, as a run that was cut off. How many events there were is
told by `event_count` of the runs table, where the recorder could tell.

`seq` cannot show that two events changed places and numbers. The digest of the
runs table can. It costs more than judging, so the judge asks `altered` only about
runs in which a clause broke; `lockref check`, which tells the digest of all, asks it about every run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lockref.history import RUNS_SCHEMA, digests
from lockref.words import ABSENT
from reports.checks.facts.columns import Ints, complete_runs, integers_of, is_first, is_rising_in

WHOLE: Final = "whole"
CUT_OFF: Final = "cut off"
DAMAGED: Final = "damaged"

RECORD_SCHEMA: Final = pa.schema(
    [
        pa.field("run", pa.int64(), nullable=False),
        pa.field("state", pa.string(), nullable=False),
        pa.field("why", pa.string()),
    ]
)
"""One row per run: `whole`, `cut off` or `damaged`, and of damage the kind."""

ALTERED: Final = "its events are not those that were recorded (another digest)"
UNDESCRIBED: Final = "it has events but no row in runs"
UNNUMBERED: Final = 1 << 62
"""From here on, `seq` was not in the record: it tells the order of the records in their file."""
TWICE_DESCRIBED: Final = "it has several rows in runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """The part of a history that can be judged, and what became of every run.

    events, runs: without those of damaged runs; runs whose record ends early
    are marked `is_cut_off`, and end with their last event.
    damaged: run number to what is wrong. cut_off: run numbers.
    """

    events: pa.Table
    runs: pa.Table
    damaged: Mapping[int, str]
    cut_off: Collection[int]

    @property
    def table(self) -> pa.Table:
        """One row per run of `RECORD_SCHEMA`, by run number."""
        state = dict.fromkeys(self.runs["run"].to_pylist(), WHOLE)
        state |= dict.fromkeys(self.cut_off, CUT_OFF) | dict.fromkeys(self.damaged, DAMAGED)
        rows = [{"run": run, "state": state[run], "why": self.damaged.get(run)} for run in sorted(state)]
        return pa.Table.from_pylist(rows, RECORD_SCHEMA)


def inspect_records(events: pa.Table, runs: pa.Table, *, known_damage: Mapping[int, str] | None = None) -> Records:
    """Set damaged runs aside and mark those that end early.

    events: `lockref.history.SCHEMA`, rows in any order. runs: `RUNS_SCHEMA`; columns that may be null may be
    absent. known_damage: run number to what is wrong with it, as found elsewhere.
    """
    runs = _with_every_column(runs)
    if not len(runs):
        # Nobody described anything: a history of events alone.
        runs = complete_runs(events, runs)
    number = runs["run"].to_numpy()
    damaged = _of_descriptions(events, number)
    lengths = _lengths(events, runs, damaged)
    for run, expected in zip(number.tolist(), _integers(runs, "event_count").tolist(), strict=True):
        found = lengths.get(run, 0)
        if ABSENT < expected < found:
            damaged.setdefault(run, f"it holds {found:,} events, and {expected:,} were recorded")
    damaged |= known_damage or {}
    if damaged:
        lost = pa.array(sorted(damaged), pa.int64())
        events = events.filter(pc.invert(pc.is_in(events["run"], value_set=lost)))
        runs = runs.filter(pc.invert(pc.is_in(runs["run"], value_set=lost)))
    runs = _cut_short(runs, lengths)
    assert not damaged or damaged.keys().isdisjoint(runs["run"].to_pylist()), "a damaged run is judged by nobody"
    cut_off = runs["run"].filter(runs["is_cut_off"]).to_pylist()
    return Records(events=events, runs=runs, damaged=damaged, cut_off=cut_off)


def altered(records: Records, accused: Collection[int], *, computed: Mapping[int, str] | None = None) -> dict[int, str]:
    """Which of these runs hold other events than were recorded, by the digest of the runs table, where there is one.

    computed: run number to the digest of the events that are there now (`digests`), where the caller has them.
    """
    if not accused:
        return {}
    asked = pc.is_in(records.runs["run"], value_set=pa.array(sorted(accused), pa.int64()))
    told = records.runs.filter(pc.and_(asked, pc.is_valid(records.runs["digest"])))
    # The digest of a record that ends early cannot be known; where the writer counted, an early end shows.
    comparable = {
        row["run"]: row["digest"] for row in told.to_pylist() if row["event_count"] is not None or not row["is_cut_off"]
    }
    if not comparable:
        return {}
    found = computed
    if found is None:
        events = records.events
        found = digests(events.filter(pc.is_in(events["run"], value_set=pa.array(sorted(comparable), pa.int64()))))
    return {run: ALTERED for run, digest in comparable.items() if found.get(run, digest) != digest}


def renumbered(events: pa.Table) -> pa.Table:
    """The same rows, `seq` counted anew from 0 in each run in the order of the rows: for records that carry none."""
    run = events["run"].to_numpy()
    order = np.argsort(run, kind="stable")
    starts = np.flatnonzero(np.concatenate(([True], np.diff(run[order]) != 0))) if len(run) else np.zeros(0, np.int64)
    seq = np.zeros(len(run), dtype=np.int64)
    seq[order] = np.arange(len(run)) - np.repeat(starts, np.diff(np.append(starts, len(run))))
    place = events.column_names.index("seq")
    return events.set_column(place, events.schema.field("seq"), pa.array(seq))


def numbered(events: pa.Table) -> pa.Table:
    """The same rows; runs of which no event carries a `seq` are numbered in the order of their rows.

    Where only some events of a run carry one, the others stay as they are, and the run is found damaged.
    """
    run, seq = events["run"].to_numpy(), events["seq"].to_numpy()
    bare = seq >= UNNUMBERED
    if not bare.any():
        return events
    wholly = bare & ~np.isin(run, run[~bare])
    place = events.column_names.index("seq")
    counted = np.where(wholly, renumbered(events)["seq"].to_numpy(), seq)
    return events.set_column(place, events.schema.field("seq"), pa.array(counted))


def _with_every_column(runs: pa.Table) -> pa.Table:
    known = frozenset(runs.column_names)
    for field in RUNS_SCHEMA:
        if field.nullable and field.name not in known:
            runs = runs.append_column(field, pa.nulls(len(runs), field.type))
    return runs


def _integers(table: pa.Table, name: str) -> Ints:
    return integers_of(table[name])


def _of_descriptions(events: pa.Table, number: Ints) -> dict[int, str]:
    """Runs that the runs table describes more than once, or not although it describes others."""
    known = Counter(number.tolist())
    damaged = dict.fromkeys(sorted(run for run, times in known.items() if times > 1), TWICE_DESCRIBED)
    if known:
        run = _integers(events, "run")
        damaged |= dict.fromkeys(sorted(set(run[is_first(run)].tolist()).difference(known)), UNDESCRIBED)
    return damaged


def _lengths(events: pa.Table, runs: pa.Table, damaged: dict[int, str]) -> dict[int, int]:
    """Events per run; adds to `damaged` the runs whose `seq` is no key, or whose simulated time runs backwards."""
    run, seq, at = (_integers(events, name) for name in ("run", "seq", "at_ns"))
    if len(run) == 0:
        return {}
    starts = np.flatnonzero(is_first(run))
    if not (bool(np.all(np.diff(run[starts]) > 0)) and is_rising_in(starts, seq)):
        order = np.lexsort((seq, run))
        run, seq, at = run[order], seq[order], at[order]
        starts = np.flatnonzero(is_first(run))
    lengths = np.diff(np.append(starts, len(run)))
    assert int(lengths.sum()) == len(run), "each event is in one run"
    # Numbers that rise from 0 to one less than their count leave none out.
    wrong = (seq[starts] != 0) | (seq[starts + lengths - 1] != lengths - 1)
    twice = np.flatnonzero(seq[1:] <= seq[:-1])
    wrong[np.searchsorted(starts, twice[run[twice] == run[twice + 1]], side="right") - 1] = True
    for place in np.flatnonzero(wrong).tolist():
        own = slice(int(starts[place]), int(starts[place] + lengths[place]))
        damaged.setdefault(int(run[own.start]), _wrong_key(seq[own]))
    # A simulated world has one clock, and records each event at its instant. So its times never fall.
    back = np.flatnonzero(at[1:] < at[:-1]) + 1
    back = back[run[back] == run[back - 1]]
    if len(back):
        simulated = runs["run"].filter(pc.equal(runs["world"], "simulated")).to_numpy()
        for row in back[np.isin(run[back], simulated)].tolist():
            damaged.setdefault(int(run[row]), f"event {int(seq[row])} is earlier than the one before it")
    return dict(zip(run[starts].tolist(), lengths.tolist(), strict=True))


def _wrong_key(seq: Ints) -> str:
    """The fault of one run's ascending key, in words."""
    if seq[-1] >= UNNUMBERED:
        return "some of its events carry a seq, and others carry none"
    twice = np.flatnonzero(np.diff(seq) == 0)
    if len(twice):
        return f"event {int(seq[twice[0]])} is recorded twice"
    missing = int(np.flatnonzero(seq != np.arange(len(seq)))[0])
    return f"event {missing} is missing" if seq[0] >= 0 else f"there is an event {int(seq[0])}"


def _cut_short(runs: pa.Table, lengths: Mapping[int, int]) -> pa.Table:
    """Runs with fewer events than were recorded: cut off, and ended with the last event that is there."""
    number, expected = runs["run"].to_pylist(), _integers(runs, "event_count").tolist()
    short = [run for run, count in zip(number, expected, strict=True) if lengths.get(run, 0) < count]
    if not short:
        return runs
    is_short = pc.is_in(runs["run"], value_set=pa.array(short, pa.int64()))
    for name, values in (
        ("is_cut_off", pc.or_(runs["is_cut_off"], is_short)),
        # Without an end in the table, the checks take the last event for the end.
        ("end_ns", pc.if_else(is_short, pa.scalar(None, pa.int64()), runs["end_ns"])),
        # The digest is of all events, so it cannot be compared with a part of them.
        ("digest", pc.if_else(is_short, pa.scalar(None, pa.string()), runs["digest"])),
    ):
        runs = runs.set_column(runs.column_names.index(name), RUNS_SCHEMA.field(name), values)
    return runs
