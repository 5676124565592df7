"""Every schedule of one run: all orders of the steps that fall on one instant, or those near the default.

A run is repeated from its begin, each time with a few choices that differ from the default (`Deviations`). Two searches
say which choices to try next:

    exhaustive  All orders that can make a difference. Two steps that touch nothing in common are never swapped: after a
                run, each pair of steps at one instant of which both touch one place and one changes it gives one more
                choice to try, which runs the later step first (dynamic partial-order reduction). A run is cut short
                where it reaches a state, at the begin of an instant, from which an earlier run went on.
    delay:N     All schedules with at most N choices that differ from first-in, first-out (delay bounding), with the
                fewest first. Nothing is left out but what leads to a known state.

A state is not looked at; it is told by how it came about. Each step has a name: who made it, what it touches, and
which steps touched the same places before it. The same set of names in another order is the same state, since only
the order of steps without a common place can differ (happens-before). Whether the search was exhausted is part of its
result: only then does it prove anything, for this seed, plan and grid of instants.

Cutting short at the begin of an instant is sound beside the reduction: all that could still run before a step of an
earlier instant has run by then, so a run that is cut short would give no further choice there. Within an instant it
would not be sound (stateful reduction).

Source: Flanagan, Godefroid, POPL 2005; Emmi, Qadeer, Rakamaric, POPL 2011; Musuvathi, Qadeer, PLDI 2007.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import ClassVar, Final

from sim.explore.shrink import Deviations
from sim.kernel.exploring import Ran, Ready
from sim.kernel.footprints import EVERYTHING, Footprint, StatePart, conflict

PREEMPTIONS_MAX: Final = 2
"""So often in a run a task loses the processor inside a step: most bugs need one or two (Musuvathi, Qadeer)."""

_MASK: Final = 2**128 - 1


@dataclass(slots=True)
class _Decision:
    """One decision in the present instant. number: as the kernel counts. steps: the answers, as numbers of steps."""

    number: int
    steps: tuple[int, ...]


@dataclass(slots=True)
class _PlacesLast:
    """The names of what touched one place last: of the last change, and of the reads since then."""

    change: int = 0
    reads: int = 0


class SearchedSchedule:
    """One run's schedule: a prefix of choices, default afterwards. It notes what the search asks of the run.

    alternatives: what to try next, as pairs of a decision and its choice. is_pruned: the run was cut short, because
    it came to a state from which an earlier run went on.
    """

    is_fifo: ClassVar[bool] = False

    def __init__(
        self, deviations: Deviations, known: set[int], *, is_bounded: bool, preemptions_max: int = PREEMPTIONS_MAX
    ) -> None:
        self._preemptions_left = preemptions_max
        self.deviations = deviations
        self.alternatives: list[tuple[int, int]] = []
        self.decisions = 0
        self.is_pruned = False
        self._choices = dict(deviations)
        # Up to here the run repeats what an earlier one has done.
        self._repeats_until = deviations[-1][0] if deviations else -1
        self._is_last_met = self._is_beyond = not deviations
        self._known = known
        self._is_bounded = is_bounded
        self._state = 0
        # The name of the last step that touched everything.
        self._touched_all = 0
        self._names: dict[int, int] = {}
        self._places: dict[StatePart, _PlacesLast] = {}
        self._at_ns = -1
        self._instant: list[tuple[Ran, _Decision | None]] = []
        self._asked: _Decision | None = None
        self._makers: dict[int, int] = {}

    # What the kernel asks.

    @property
    def is_over(self) -> bool:
        return self.is_pruned

    def choose(self, decision: int, actors: Sequence[int]) -> int:
        raise AssertionError("the kernel of an exploration asks about steps")

    def choose_step(self, decision: int, steps: Sequence[Ready], *, is_preemption: bool) -> int:
        assert decision == self.decisions, "decisions are numbered without gaps"
        self.decisions += 1
        choice = min(self._choices.get(decision, 0), len(steps) - 1)
        if decision == self._repeats_until:
            self._is_last_met = True
        is_new = decision > self._repeats_until
        if is_new and self._is_bounded and not is_preemption and self._is_known():
            self.is_pruned = True
            return choice
        if is_new and (self._preemptions_left if is_preemption else self._is_bounded):
            # What interrupts a step touches the same node: every order makes a difference.
            self.alternatives += [(decision, other) for other in range(len(steps)) if other != choice]
        if is_preemption:
            self._preemptions_left -= choice > 0
        else:
            self._asked = _Decision(decision, tuple(step.number for step in steps))
        return choice

    def has_run(self, step: Ran) -> None:
        if step.at_ns != self._at_ns:
            self.end_instant()
            self._at_ns = step.at_ns
        # Only now: the instants before that of the last choice were another run's.
        self._is_beyond = self._is_last_met
        self._name(step)
        asked, self._asked = self._asked, None
        self._instant.append((step, asked))

    def end_instant(self) -> None:
        """All steps of an instant have run: note the pairs whose order matters, and whether the state is known."""
        if not self._is_bounded:
            if self._instant and self._is_beyond:
                self._note_races()
                # The first instant beyond the prefix began within it.
                if self._is_known():
                    self.is_pruned = True
            self._instant.clear()
            self._makers.clear()

    # Names and states.

    def _name(self, step: Ran) -> None:
        """Name a step by its maker and by what touched its places before it."""
        # The steps that were there before the run began are the same in each run.
        said = [self._names.pop(step.number, -step.number), self._touched_all, step.cut]
        if step.footprint == EVERYTHING:
            name = _hashed([*said, self._state], step.footprint)
            self._touched_all = name
        else:
            name = self._name_by_places(said, step.footprint)
        self._state = (self._state + name) & _MASK
        for order, number in enumerate(step.made):
            self._names[number] = _hashed([name, order], ())
            self._makers[number] = step.number

    def _name_by_places(self, said: list[int], footprint: Footprint) -> int:
        places = [self._places.setdefault(place, _PlacesLast()) for place, _ in footprint]
        for last, (_, changes) in zip(places, footprint, strict=True):
            said += (last.change, last.reads) if changes else (last.change,)
        name = _hashed(said, footprint)
        for last, (_, changes) in zip(places, footprint, strict=True):
            if changes:
                last.change, last.reads = name, 0
            else:
                last.reads = (last.reads + name) & _MASK
        return name

    def _is_known(self) -> bool:
        """True if an earlier run went on from this state."""
        if self._state in self._known:
            return True
        self._known.add(self._state)
        return False

    # Races.

    def _note_races(self) -> None:
        """For each pair of competing steps of this instant: try the later one, or what leads to it, first."""
        instant = self._instant
        for later in range(1, len(instant)):
            late = instant[later][0]
            for earlier in range(later - 1, -1, -1):
                early, asked = instant[earlier]
                if asked is None or not conflict(early.footprint, late.footprint):
                    continue
                number: int | None = late.number
                while number is not None and number not in asked.steps:
                    number = self._makers.get(number)
                if number is None or number == early.number:
                    # The earlier step made the later one: their order is fixed.
                    continue
                self.alternatives.append((asked.number, asked.steps.index(number)))


def _hashed(parts: Sequence[int], footprint: Footprint) -> int:
    text = f"{parts}{footprint}"
    return int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "big")


@dataclass(slots=True, kw_only=True)
class Tally:
    """The extent of a search.

    schedules: runs to the end. pruned: runs that were cut short at a known state. states: known states.
    is_exhausted: nothing was left to try; otherwise the search was cut off.
    """

    schedules: int = 0
    pruned: int = 0
    states: int = 0
    is_exhausted: bool = True

    def __add__(self, other: Tally) -> Tally:
        """The extent of two searches together."""
        return Tally(
            schedules=self.schedules + other.schedules,
            pruned=self.pruned + other.pruned,
            states=self.states + other.states,
            is_exhausted=self.is_exhausted and other.is_exhausted,
        )


@dataclass(slots=True)
class Search:
    """The search over the schedules of one run.

    delays_max: at most so many choices differ from the default; None for all orders that make a difference.
    runs_max: bound on the runs, those cut short included.

    Iterate: each schedule is to be used for one run in a fresh world before the next one is taken. A run whose schedule
    says `is_pruned` was cut short, and is no run of its own.
    """

    delays_max: int | None
    runs_max: int
    tally: Tally = field(default_factory=lambda: Tally(is_exhausted=False))

    def __iter__(self) -> Iterator[SearchedSchedule]:
        frontier: deque[Deviations] = deque([()])
        met: set[Deviations] = {()}
        known: set[int] = set()
        tally, is_bounded = self.tally, self.delays_max is not None
        while frontier:
            if tally.schedules + tally.pruned >= self.runs_max:
                return
            schedule = SearchedSchedule(frontier.popleft(), known, is_bounded=is_bounded)
            yield schedule
            schedule.end_instant()
            if schedule.is_pruned:
                tally.pruned += 1
            else:
                tally.schedules += 1
            tally.states = len(known)
            mine = schedule.deviations
            for decision, choice in schedule.alternatives:
                before = tuple(pair for pair in mine if pair[0] < decision)
                tried = (*before, (decision, choice)) if choice else before
                if self.delays_max is not None and len(tried) > self.delays_max:
                    continue
                if tried not in met:
                    met.add(tried)
                    frontier.append(tried)
        tally.is_exhausted = True
