"""The survey of an envelope: the grid first, then the boundary in each row and each column of it, by halving.

The grid is run from coarse to fine, every second value first, so that whoever ends it early has a picture of the whole.
Every search of a boundary takes one step in each round, and the cells of one round run together. So the work spreads
over processes, and which cells are run depends on what broke, never on what was finished first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from lockref.lab.loading import ProviderSpec
from scenarios.campaign import Cluster
from scenarios.envelope.axes import STEPS_PER_RESOLUTION, Axis
from scenarios.envelope.bisection import Bracket, first_change
from scenarios.envelope.cells import Cell, CellToRun, measured
from scenarios.envelope.contended import Point
from scenarios.envelope.promise import Promise, promises_of

ROUNDS = STEPS_PER_RESOLUTION.bit_length() - 1
"""Rounds that a search takes at most: from one step of the grid to the resolution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """The place on one line of the grid at which a lock begins to break. along: the axis. at: the other disturbances.

    bracket: the values around it. resolution: as of its axis.
    """

    provider: str
    along: str
    at: Point
    resolution: int
    bracket: Bracket


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """The envelope of one lock.

    grid, probes: cells of the grid, and those of the searches. promises: by clause; none where the lock says nothing.
    broken_promises: cells with the clauses that broke although the lock promises them there.
    """

    spec: ProviderSpec
    grid: Sequence[Cell]
    probes: Sequence[Cell]
    boundaries: Sequence[Boundary]
    promises: Mapping[str, Promise]
    broken_promises: Sequence[tuple[Cell, Sequence[str]]]

    @property
    def cells(self) -> list[Cell]:
        return [*self.grid, *self.probes]

    def promises_at(self, point: Point) -> frozenset[str]:
        """The clauses that are promised at a point."""
        return frozenset(clause for clause, promise in self.promises.items() if promise.covers(point))

    def is_promised(self, point: Point) -> bool:
        """True where every clause is promised."""
        return bool(self.promises) and all(promise.covers(point) for promise in self.promises.values())


Tell = Callable[[str, int, int], None]
"""Told of each finished cell: the step, how many cells are done, and how many there will be at most."""


@dataclass(slots=True, kw_only=True)
class Survey:
    """A survey on its way. is_cut, is_interrupted: the time was over, somebody pressed Ctrl-C.

    processes, cluster: as of `scenarios.envelope.cells.measured`.
    """

    specs: Sequence[ProviderSpec]
    axes: Sequence[Axis]
    seeds: Sequence[int]
    processes: int | None
    is_over: Callable[[], bool]
    tell: Tell
    cluster: Cluster | None = None
    is_cut: bool = False
    is_interrupted: bool = False
    _cells: dict[tuple[str, Point], Cell] = field(default_factory=dict)
    _boundaries: dict[tuple[str, str, Point], Boundary] = field(default_factory=dict)

    def run(self) -> list[Surveyed]:
        """Measure, and say what was found of each lock. Ctrl-C and the end of the time leave what is there."""
        try:
            if self._measure("grid", [(spec, point) for point in self._coarse_first() for spec in self.specs]):
                self._begin_searches()
                round_number = 0
                while (asked := self._next_round()) and self._measure(f"boundary, step {round_number + 1}", asked):
                    self._end_round()
                    round_number += 1
        except KeyboardInterrupt:
            self.is_interrupted = True
        if self.is_cut or self.is_interrupted:
            self._begin_searches()
        return [self._surveyed(spec) for spec in self.specs]

    @property
    def free(self) -> list[Axis]:
        """The axes with several values."""
        return [axis for axis in self.axes if not axis.is_fixed]

    def grid(self) -> list[Point]:
        """Every point of the grid, row by row."""
        names = [axis.of.name for axis in self.axes]
        # The first axis changes fastest: it lies across.
        combined = product(*(axis.values for axis in reversed(self.axes)))
        return [Point(**dict(zip(reversed(names), values, strict=True))) for values in combined]

    def _coarse_first(self) -> list[Point]:
        places = {axis.of.name: {value: place for place, value in enumerate(axis.values)} for axis in self.free}

        def is_fine(point: Point) -> bool:
            return any(place[point.value(name)] % 2 for name, place in places.items())

        return sorted(self.grid(), key=is_fine)

    def _measure(self, step: str, asked: Iterable[tuple[ProviderSpec, Point]]) -> bool:
        """Run what is not known yet; False if that was cut short."""
        new = [CellToRun(spec=spec, point=point) for spec, point in asked if (spec.name, point) not in self._cells]
        done = 0
        cells = measured(new, self.seeds, processes=self.processes, is_over=self.is_over, cluster=self.cluster)
        for cell in cells:
            self._cells[cell.provider, cell.point] = cell
            done += 1
            self.tell(step, done, len(new))
        self.is_cut = done < len(new)
        return not self.is_cut

    def _rows(self) -> Iterable[tuple[Axis, Point]]:
        """Each line of the grid: the axis along it, and its other values."""
        for axis in self.free:
            lines = dict.fromkeys(replace(point, **{axis.of.name: axis.of.usual}) for point in self.grid())
            yield from ((axis, line) for line in lines)

    def _begin_searches(self) -> None:
        for spec, (axis, line) in product(self.specs, list(self._rows())):
            key = (spec.name, axis.of.name, line)
            values = reversed(axis.values) if axis.of.is_better_high else axis.values
            cells = {value: self._cells.get((spec.name, _moved(line, axis, value))) for value in values}
            row = [(value, cell.has_broken) for value, cell in cells.items() if cell is not None]
            if key not in self._boundaries and len(row) == len(cells):
                self._boundaries[key] = Boundary(
                    provider=spec.name,
                    along=axis.of.name,
                    at=line,
                    resolution=axis.resolution,
                    bracket=first_change(row),
                )

    def _next_round(self) -> list[tuple[ProviderSpec, Point]]:
        specs = {spec.name: spec for spec in self.specs}
        return [
            (specs[each.provider], point)
            for each in self._boundaries.values()
            if (point := self._middle(each)) is not None
        ]

    def _middle(self, boundary: Boundary) -> Point | None:
        middle = boundary.bracket.middle(boundary.resolution)
        return None if middle is None else replace(boundary.at, **{boundary.along: middle})

    def _end_round(self) -> None:
        for key, boundary in self._boundaries.items():
            point = self._middle(boundary)
            if point is not None:
                has_broken = self._cells[boundary.provider, point].has_broken
                bracket = boundary.bracket.told(point.value(boundary.along), has_broken=has_broken)
                self._boundaries[key] = replace(boundary, bracket=bracket)

    def _surveyed(self, spec: ProviderSpec) -> Surveyed:
        mine = {point: cell for (name, point), cell in self._cells.items() if name == spec.name}
        grid = [mine.pop(point) for point in self.grid() if point in mine]
        probes = [mine[point] for point in sorted(mine)]
        found = Surveyed(
            spec=spec,
            grid=grid,
            probes=probes,
            boundaries=[each for each in self._boundaries.values() if each.provider == spec.name],
            promises=promises_of(spec, shows_tokens=any(cell.shows_tokens for cell in (*grid, *probes))),
            broken_promises=(),
        )
        broken = [(cell, sorted(found.promises_at(cell.point) & cell.clauses.keys())) for cell in found.cells]
        return replace(found, broken_promises=[(cell, clauses) for cell, clauses in broken if clauses])


def _moved(line: Point, axis: Axis, value: int) -> Point:
    return replace(line, **{axis.of.name: value})
