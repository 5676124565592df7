"""One case: everything that is read off a history once, before any clause looks at it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from lockref.words import Kind
from reports.checks.disturbances import Disturbances, find_disturbances, without_crashes_ns
from reports.checks.facts.columns import Events, Ints, Runs, are_among, require_columns
from reports.checks.facts.commits import Commits, find_commits
from reports.checks.facts.effects import Effects, find_effects
from reports.checks.facts.operations import Operations, call_of_grant, join_operations, tenure_of_release
from reports.checks.facts.segments import renumber
from reports.checks.facts.sources.truth import Truth
from reports.checks.facts.surroundings.contradictions import Contradictions, find_contradictions
from reports.checks.facts.surroundings.integrity import Records, inspect_records
from reports.checks.facts.surroundings.store_answers import StoreAnswers, calm_from_ns, find_store_answers
from reports.checks.facts.tenures import Tenures, find_tenures

T = TypeVar("T")


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

    def once(self, fact: Callable[[Case], T]) -> T:
        """The answer of a function of this case, found once, however many clauses ask. Nobody changes an answer."""
        if fact not in self._answers:
            self._answers[fact] = fact(self)
        found: T = self._answers[fact]
        return found

    @cached_property
    def _answers(self) -> dict[Callable[[Case], Any], Any]:
        return {}

    @cached_property
    def call_of_grant(self) -> Ints:
        """Per grant, the acquire call that sent it, or -1."""
        return call_of_grant(self.truth, self.operations)

    @cached_property
    def tenure_of_release(self) -> Ints:
        """Per operation, for a release the granted acquire that it gives back, else -1."""
        return tenure_of_release(self.truth, self.operations)

    @cached_property
    def commits(self) -> Commits:
        """Commits to Delta logs."""
        return find_commits(self.events)

    @cached_property
    def end_ns(self) -> Ints:
        """Per run, its true end: the last event, or what the runs table says if that is later."""
        last = self.runs.integers("end_ns").copy()
        at, run = self.events.integers("at_ns"), self.events.run
        if len(at):
            starts = np.flatnonzero(np.concatenate(([True], run[1:] != run[:-1])))
            last[run[starts]] = np.maximum(last[run[starts]], np.maximum.reduceat(at, starts))
            assert bool(np.all(np.diff(run[starts]) > 0)), "the events of one run stand together"
        return last

    @cached_property
    def origin_ns(self) -> Ints:
        """Per run, the instant from which people are told times.

        In a simulation it is the zero of the plan, in a real run, whose clock is the host's, its first event.
        """
        begun = np.zeros(self.runs.count, dtype=np.int64)
        at, run = self.events.integers("at_ns"), self.events.run
        if len(at):
            starts = np.flatnonzero(np.concatenate(([True], run[1:] != run[:-1])))
            begun[run[starts]] = np.minimum.reduceat(at, starts)
        begun[[world == "simulated" for world in self.runs.texts("world")]] = 0
        return begun

    @cached_property
    def store_answers(self) -> list[StoreAnswers]:
        """The answers of each real run's store."""
        return find_store_answers(self.events, self.runs, self.span_of, self.disturbances)

    @cached_property
    def contradictions(self) -> Contradictions:
        """Readings of real stores that showed a state which a confirmed write had replaced (C21)."""
        return find_contradictions(self.truth)

    @cached_property
    def calm_from_ns(self) -> Ints:
        """Per run, from when on nothing disturbed it (F of the clauses), ABSENT for never or unknown.

        In a real run that is after the store's last silence: nobody is accused of waiting for a store that was away.
        """
        return calm_from_ns(self.runs.integers("faults_end_ns"), self.store_answers, self.contradictions)

    @cached_property
    def outages_end_ns(self) -> Ints:
        """Per run, the same where a client's process that ends disturbs nothing: nobody else is kept from the lock."""
        operations, disturbances = self.operations, self.disturbances
        home, _ = renumber(
            np.concatenate((operations.run, disturbances.run)),
            np.concatenate((operations.node, disturbances.node)).astype(np.int64),
        )
        split = len(operations.run)
        # A program on the wire makes no calls, and every process there is a client.
        is_client = np.isin(home[split:], home[:split]) | self.truth.is_on_wire[disturbances.run]
        ends = without_crashes_ns(self.runs.integers("faults_end_ns"), disturbances, is_client)
        return calm_from_ns(ends, self.store_answers, self.contradictions)

    def span_of(self, run: int) -> tuple[int, int]:
        """When the clients of a real run first asked for the lock and when they were done, in true time.

        If a call is still open at the end of the record, the span lasts to the run's own end.
        """
        own = slice(*np.searchsorted(self.events.run, (run, run + 1)).tolist())
        at, kind = self.events.integers("at_ns")[own], self.events.numbers("kind")[own]
        asked = at[kind == Kind.CALL]
        begun = int((asked if len(asked) else at).min(initial=int(self.end_ns[run])))
        opened, closed = (are_among(kind, pair).sum() for pair in ((Kind.CALL, Kind.SENT), (Kind.RETURN, Kind.REPLIED)))
        done = int(self.end_ns[run]) if opened > closed or not len(at) else int(at.max())
        return begun, max(done, begun + 1)

    @cached_property
    def tenure_of_operation(self) -> Ints:
        """Per operation, the position of the tenure that it began, or -1."""
        found = np.full(len(self.operations.op) + 1, -1, dtype=np.int64)
        found[self.tenures.operation] = np.arange(len(self.tenures.operation))
        return found[:-1]

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
        effects=find_effects(history, operations, truth),
        disturbances=find_disturbances(history),
        records=records,
    )
