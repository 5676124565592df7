"""Runs of one scenario under one lock, judged: what every command that judges tells, stores and ends with.

A campaign of seeds in virtual time, a contention run on a real store, and a program on the wire are run in three ways
and end in one: a summary, of which verdicts and exit code are made, a history, notices, and an error where one came.
`lockref.cli.jobs.shown.results` makes the account of any of them, so that none of them shows less than the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lockref.errors import LockrefError
from lockref.history import RUNS_SCHEMA, SCHEMA, history_digest
from reports.checks.summary import Summary

History = tuple[pa.Table, pa.Table]
"""Events and runs, as `lockref.history.SCHEMA` and `RUNS_SCHEMA`."""


class Steps(Protocol):
    """A function that is told which step of a job begins, and for how many nanoseconds; 0 where nobody knows."""

    def __call__(self, text: str, /, *, lasting_ns: int = 0) -> None: ...


def tell_nobody(text: str, /, *, lasting_ns: int = 0) -> None:
    """The `Steps` of a job that nobody waits for."""


@dataclass(slots=True, kw_only=True)
class JudgedResult(ABC):
    """The runs, judged.

    summary: what was judged and what could not be: verdicts, thresholds, situations, damage, clauses not demanded.
    provider: the lock; on the wire, the program. server, version: of a real store, as it names itself; "" elsewhere.
    notes: how it was run, as noted on the way. capabilities: of the store, its dialect and what it did when it was
    measured. is_interrupted: Ctrl-C ended it. error: what ended it early, or took a part of it; what was recorded is
    judged all the same.
    """

    summary: Summary
    scenario: str
    provider: str
    server: str = ""
    version: str = ""
    notes: list[str] = field(default_factory=list)
    capabilities: dict[str, object] = field(default_factory=dict)
    is_interrupted: bool = False
    error: LockrefError | None = None

    @property
    def is_sample(self) -> bool:
        """True if the runs were drawn, so that their share tells a rate."""
        return True

    @property
    @abstractmethod
    def title(self) -> str:
        """One line that says what ran where."""

    @property
    @abstractmethod
    def history(self) -> History:
        """The events and runs to keep."""

    @property
    def is_history_written(self) -> bool:
        """Does the history stand in the folder of the results already, as its recorders left it?"""
        return False

    @property
    def digest(self) -> str:
        """One hash over what was recorded."""
        return history_digest(self.history[0])

    @property
    def notices(self) -> list[str]:
        """Notices of how it was run, such as a budget that cut it short."""
        return self.notes

    @property
    def facts(self) -> Mapping[str, object]:
        """The further facts of the results' provenance, beside the command, in the order in which they are stored."""
        return {}


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
