"""One case: everything that is read off a history once, before any clause looks at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from reports.checks.belief import Tenures, find_tenures
from reports.checks.columns import Events, Ints, Runs, require_columns
from reports.checks.disturbances import Disturbances, find_disturbances
from reports.checks.effect import Effects, find_effects
from reports.checks.honesty import tenure_of_release
from reports.checks.integrity import Records, inspect_records
from reports.checks.operations import Operations, join_operations
from reports.checks.ownership import call_of_grant
from reports.checks.truth import Truth


@dataclass(frozen=True)
class Case:
    """A history, taken apart. See the types for what each part holds."""

    events: Events
    runs: Runs
    truth: Truth
    operations: Operations
    tenures: Tenures
    effects: Effects
    disturbances: Disturbances
    records: Records

    @cached_property
    def call_of_grant(self) -> Ints:
        """Per grant, the acquire call that sent it, or -1."""
        return call_of_grant(self.truth, self.operations)

    @cached_property
    def tenure_of_release(self) -> Ints:
        """Per operation, for a release the granted acquire that it gives back, else -1."""
        return tenure_of_release(self.truth, self.operations)

    @cached_property
    def end_ns(self) -> Ints:
        """Per run, its true end: the last event, or what the runs table says if that is later."""
        last = self.runs.integers("end_ns").copy()
        at, run = self.events.integers("at_ns"), self.events.run
        if len(at):
            starts = np.flatnonzero(np.concatenate(([True], run[1:] != run[:-1])))
            last[run[starts]] = np.maximum(last[run[starts]], np.maximum.reduceat(at, starts))
        return last

    @cached_property
    def grant_of_tenure(self) -> Ints:
        """Per tenure, the position of its grant, or -1."""
        if len(self.operations.grant) == 0:
            return np.full(len(self.tenures.run), -1, dtype=np.int64)
        operation = self.tenures.operation
        found: Ints = np.where(operation >= 0, self.operations.grant[np.maximum(operation, 0)], -1)
        return found


def open_case(events: pa.Table, runs: pa.Table, *, known_damage: Mapping[int, str] | None = None) -> Case:
    """Take a history apart; runs whose record is damaged are left out of everything but `records`.

    known_damage: run number to what is wrong with it, as found elsewhere.
    Raises HistoryUnreadable for tables of another shape.
    """
    require_columns(events, runs)
    records = inspect_records(events, runs, known_damage=known_damage)
    facts = Runs(records.runs)
    history = Events(records.events, facts.number)
    truth = Truth(history, facts)
    operations = join_operations(history, truth)
    return Case(
        events=history,
        runs=facts,
        truth=truth,
        operations=operations,
        tenures=find_tenures(history, operations),
        effects=find_effects(history, operations),
        disturbances=find_disturbances(history),
        records=records,
    )
