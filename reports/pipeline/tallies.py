"""Tallies of many runs, for a page: outcomes, distributions, samples of pictures and clients, as values that add up.

A share of the runs is counted where its events are, in this process or in a worker of Spark, and its `Tallies` are
joined with those of other shares, in any order. Their size follows the number of cells (scenario, lock and store),
measures and clients, not the number of events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lockref.words import ABSENT
from reports.checks.facts.columns import Ints
from reports.pipeline.distributions import Distribution
from reports.pipeline.measured_tables import in_groups, integers, texts

POINTS_MAX: Final = 10_000
"""Single samples kept for one picture."""
CLIENTS_MAX: Final = 2_000
"""Clients of one part in its table and its picture: more than one machine has threads for."""
CLIENTS_COUNTED_MAX: Final = 100_000
"""Clients of one part that are counted one by one; beyond, those with the fewest grants are let go."""


class Cells:
    """The runs of one history by cell: scenario, lock and store. Tables name runs; figures are told by cell.

    origin: what is added to a run's number to tell it from the runs of other inputs.
    """

    def __init__(self, runs: pa.Table, events: pa.Table, *, origin: int = 0) -> None:
        described = runs.select(["run", "seed", "scenario", "provider", "backend", "world"]).to_pylist()
        self.about = {row["run"]: row for row in sorted(described, key=lambda row: row["run"])}
        self.origin = origin
        self.numbers = np.array(list(self.about), dtype=np.int64)
        named = [_cell(row) for row in self.about.values()]
        self.words = sorted(set(named))
        place_of = {cell: place for place, cell in enumerate(self.words)}
        self._codes = np.array([place_of[cell] for cell in named], dtype=np.int64)
        firsts = events.group_by("run", use_threads=False).aggregate([("at_ns", "min")])
        first_ns = dict(zip(firsts["run"].to_pylist(), firsts["at_ns_min"].to_pylist(), strict=True))
        is_simulated = [row["world"] == "simulated" for row in self.about.values()]
        self._zero_ns = np.array(
            [0 if simulated else first_ns.get(run, 0) for run, simulated in zip(self.about, is_simulated, strict=True)],
            dtype=np.int64,
        )

    def of(self, run: Ints) -> Ints:
        """The cell of each run, as a place in `words`."""
        return self._codes[np.searchsorted(self.numbers, run)]

    def zero_ns(self, run: Ints) -> Ints:
        """The instant from which the picture of each run counts (`reports.checks.facts.case.Case.origin_ns`)."""
        return self._zero_ns[np.searchsorted(self.numbers, run)]

    def named(self, run: int) -> str:
        """The cell of one run."""
        return _cell(self.about[run])


def _cell(row: Mapping[str, Any]) -> str:
    return " · ".join(row[name] for name in ("scenario", "provider", "backend") if row[name])


@dataclass(slots=True)
class Picture:
    """Single samples of one measure, at most `POINTS_MAX`, those of the least hash: the same runs give the same ones.

    points: run (distinct between inputs), value_ns, at_ns from the zero of its run, cell, outcome, and the hash.
    totals: how many samples there are by (cell, outcome).
    """

    points: pa.Table
    totals: Counter[tuple[str, str]]

    @classmethod
    def of(cls, samples: pa.Table, cells: Cells) -> Picture:
        """The picture of the samples of one measure."""
        run, at, value = (integers(samples, name) for name in ("run", "at_ns", "value_ns"))
        outcome, cell = texts(samples, "outcome"), cells.of(run)
        order, starts = in_groups(cell, outcome.codes)
        totals: Counter[tuple[str, str]] = Counter()
        for rows in np.split(order, starts[1:]) if len(order) else ():
            totals[cells.words[cell[rows[0]]], outcome.words[outcome.codes[rows[0]]]] = len(rows)
        hashes = _hashes(run, at, value)
        chosen = _least(hashes, run, at, value)
        words = pa.array(cells.words, pa.string())
        points = pa.table(
            {
                "hash": pa.array(hashes[chosen]),
                "run": pa.array(run[chosen] + cells.origin),
                "value_ns": pa.array(value[chosen]),
                "at_ns": pa.array((at - cells.zero_ns(run))[chosen]),
                "cell": words.take(pa.array(cell[chosen])),
                "outcome": outcome.array(chosen),
            }
        )
        return cls(points, totals)

    def join(self, other: Picture) -> None:
        """Add the samples of other runs."""
        self.totals.update(other.totals)
        joined = pa.concat_tables([self.points, other.points])
        named = [joined[name].to_numpy() for name in ("hash", "run", "at_ns", "value_ns")]
        self.points = joined.take(pa.array(_least(*named)))

    def rows(self, measure: str) -> list[dict[str, Any]]:
        """By cell and outcome: the total, and the points (at_ns, value_ns) in the order of time."""
        points: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for row in self.points.to_pylist():
            points.setdefault((row["cell"], row["outcome"]), []).append((row["at_ns"], row["value_ns"]))
        return [
            {"cell": cell, "measure": measure, "outcome": outcome, "total": total, "points": sorted(shown)}
            for (cell, outcome), total in sorted(self.totals.items())
            if (shown := points.get((cell, outcome)))
        ]


def _hashes(*numbers: Ints) -> npt.NDArray[np.uint64]:
    """A hash of each row of these columns: splitmix64, over one column after the other."""
    found = np.zeros(len(numbers[0]), dtype=np.uint64)
    for column in numbers:
        found = (found ^ column.astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        found ^= found >> np.uint64(31)
    return found


def _least(hashes: npt.NDArray[np.uint64], run: Ints, at: Ints, value: Ints) -> Ints:
    """The places of at most `POINTS_MAX` rows, by hash; of equal hashes those of the lower run come first."""
    if len(hashes) <= POINTS_MAX:
        return np.arange(len(hashes))
    last = np.partition(hashes, POINTS_MAX - 1)[POINTS_MAX - 1]
    near = np.flatnonzero(hashes <= last)
    return near[np.lexsort((value[near], at[near], run[near], hashes[near]))[:POINTS_MAX]]


@dataclass(slots=True)
class CellFairness:
    """Fairness of a cell: how evenly its grants went to its clients. jain: of each run. longest_streak: of any run."""

    runs: int = 0
    grants: int = 0
    jain: Distribution = field(default_factory=Distribution)
    longest_streak: int = 0

    def join(self, other: CellFairness) -> None:
        """Add other runs."""
        self.runs += other.runs
        self.grants += other.grants
        self.jain.join(other.jain)
        self.longest_streak = max(self.longest_streak, other.longest_streak)


_CLIENTS: Final = pa.schema(
    [("cell", pa.string()), ("client", pa.string()), ("asked", pa.int64()), ("granted", pa.int64()),
     ("wait_max_ns", pa.int64())]
)  # fmt: skip

Kind = tuple[str, str, str, str]
"""A kind of samples: cell, measure, operation, outcome."""


@dataclass(slots=True)
class Tallies:
    """Everything that a page measures of some runs; a verdict's counts are in `reports.checks.summary`.

    samples: by kind, how many there are, those of an unknown length included. clients_left_out: at most so many more
    clients were there than in `clients`, because these were too many to be counted one by one.
    """

    samples: Counter[Kind] = field(default_factory=Counter)
    lengths: dict[Kind, Distribution] = field(default_factory=dict)
    outcomes: Counter[Kind] = field(default_factory=Counter)
    pictures: dict[str, Picture] = field(default_factory=dict)
    fairness: dict[str, CellFairness] = field(default_factory=dict)
    clients: pa.Table = field(default_factory=_CLIENTS.empty_table)
    clients_left_out: int = 0

    @classmethod
    def of(cls, measured: Mapping[str, pa.Table], cells: Cells) -> Tallies:
        """The tallies of the tables of `reports.pipeline.measured_tables`."""
        found = cls()
        found._count_samples(measured["samples"], cells)
        for kind, name in (("call", "calls"), ("request", "requests")):
            found._count_outcomes(kind, measured[name], cells)
        found._count_fairness(measured["fairness"], cells)
        found._count_clients(measured["clients"], cells)
        return found

    def join(self, other: Tallies) -> None:
        """Add the tallies of other runs."""
        self.samples.update(other.samples)
        self.outcomes.update(other.outcomes)
        for kind, lengths in other.lengths.items():
            self.lengths.setdefault(kind, Distribution()).join(lengths)
        for measure, picture in other.pictures.items():
            if measure in self.pictures:
                self.pictures[measure].join(picture)
            else:
                self.pictures[measure] = picture
        for cell, fairness in other.fairness.items():
            self.fairness.setdefault(cell, CellFairness()).join(fairness)
        self.clients_left_out += other.clients_left_out
        self._take_clients(pa.concat_tables([self.clients, other.clients]))

    def _count_samples(self, samples: pa.Table, cells: Cells) -> None:
        named = [texts(samples, name) for name in ("measure", "op", "outcome")]
        cell, value = cells.of(integers(samples, "run")), integers(samples, "value_ns")
        order, starts = in_groups(cell, *(each.codes for each in named))
        for rows in np.split(order, starts[1:]) if len(order) else ():
            known = value[rows]
            known = known[known != ABSENT]
            measure, op, outcome = (each.words[each.codes[rows[0]]] for each in named)
            kind = (cells.words[cell[rows[0]]], measure, op, outcome)
            self.samples[kind] += len(rows)
            if len(known):
                self.lengths[kind] = Distribution(known)
        for measure in ("wait", "lease"):
            self.pictures[measure] = Picture.of(samples.filter(pc.equal(samples["measure"], measure)), cells)

    def _count_outcomes(self, kind: str, table: pa.Table, cells: Cells) -> None:
        op, outcome = texts(table, "op"), texts(table, "outcome")
        cell = cells.of(integers(table, "run"))
        order, starts = in_groups(cell, op.codes, outcome.codes)
        lengths = np.diff(np.append(starts, len(order)))
        for row, length in zip(order[starts].tolist(), lengths.tolist(), strict=True):
            code = outcome.codes[row]
            told = outcome.words[code] if code >= 0 else "open"
            self.outcomes[cells.words[cell[row]], kind, op.words[op.codes[row]], told] += length

    def _count_fairness(self, table: pa.Table, cells: Cells) -> None:
        run, grants, streak = (integers(table, name) for name in ("run", "grants", "longest_streak"))
        jain = table["jain"].to_numpy()
        cell = cells.of(run)
        order, starts = in_groups(cell)
        for rows in np.split(order, starts[1:]) if len(order) else ():
            self.fairness[cells.words[cell[rows[0]]]] = CellFairness(
                runs=len(rows),
                grants=int(grants[rows].sum()),
                jain=Distribution(jain[rows][~np.isnan(jain[rows])]),
                longest_streak=int(streak[rows].max()),
            )

    def _count_clients(self, table: pa.Table, cells: Cells) -> None:
        words = pa.array(cells.words, pa.string())
        node, task = table["node"].cast(pa.string()), table["task"].cast(pa.string())
        is_main = pc.fill_null(pc.equal(task, "main"), fill_value=True)
        named = pc.if_else(is_main, node, pc.binary_join_element_wise(node, task, "/"))
        columns = [words.take(pa.array(cells.of(integers(table, "run")))), named]
        told = [*columns, *(table[name] for name in ("asked", "granted", "wait_max_ns"))]
        self._take_clients(pa.table(told, schema=_CLIENTS))

    def _take_clients(self, rows: pa.Table) -> None:
        sums = [("asked", "sum"), ("granted", "sum"), ("wait_max_ns", "max")]
        found = rows.group_by(["cell", "client"], use_threads=False).aggregate(sums)
        names = ["cell", "client", *("_".join(one) for one in sums)]
        self.clients = found.select(names).rename_columns(_CLIENTS.names)
        if len(self.clients) > CLIENTS_COUNTED_MAX:
            self.clients_left_out += len(self.clients) - CLIENTS_COUNTED_MAX
            self.clients = self.busiest(CLIENTS_COUNTED_MAX)

    def busiest(self, limit: int) -> pa.Table:
        """At most so many clients: cell by cell, in each those with the most grants first."""
        places = [("cell", "ascending"), ("granted", "descending"), ("client", "ascending")]
        return self.clients.sort_by(places).slice(0, limit)
