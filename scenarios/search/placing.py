"""One fault at each place where it may strike, then a second one after it.

The requests of a run without further faults are learned by making that run. Each form of fault (`forms`) at each of
them is one plan. What a first fault changes is learned from its own run, and the second fault is placed among the
requests that the client and its rivals make then: so a fault can strike what is sent only because of another fault.

Plans of one trace are one class. A first fault that changed nothing, or what another one changed, gets no second one;
and of the forms of one kind that did the same to a request, only the first one is placed there as a second fault. That
is exact for what has happened, and an assumption for what would have: of two faults with one trace, such as a pause
while nobody wanted to run and none, another fault could tell one from the other.

Pairs are many more than singles. They are made in an order that covers first each pair of kinds and operations, then
each pair with its cuts and lengths, then all the rest. Rejected: a library of covering arrays (allpairspy). It makes a
smallest set of rows from a product of values, and what is at hand is no product: which requests there are depends on
the first fault. And the rest is to follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count, islice
from typing import Final

from lockref.durations import plain_duration
from lockref.errors import quote
from lockref.lab.loading import ProviderSpec
from lockref.words import counted
from reports.checks.summary import Finding
from scenarios.definition.draw import DrawnScenario, Draws, draw_scenario
from scenarios.definition.fault_plan import written_faults
from scenarios.definition.schema import Scenario, Work
from scenarios.definition.units import constant
from scenarios.executor import executor_for
from scenarios.search.forms import FORMS, REQUEST_FORMS, Form, Terms
from scenarios.search.requests import RequestPlace
from scenarios.search.result import SearchResult, begun
from scenarios.search.schedules import Exploration
from scenarios.search.trials import (
    EXPLORED_PER_PIECE,
    TRIALS_PER_PIECE,
    Piece,
    Trial,
    Tried,
    cut_into_pieces,
    run_piece,
)
from sim.explore.policies import Policy, parse_policy
from sim.faults.fault import Fault
from sim.faults.plan import FaultPlan
from sim.kernel.streams import stream

PLACED_MAX: Final = 2
"""Two clock jumps stay within the envelope, three do not; and pairs are what time suffices for."""

TRIALS_PER_PROCESS_MIN: Final = 400
"""Below this a second process costs more than it saves: it starts an interpreter."""

FAULTS: Final = {"faults": None, "faults:1": 1, "faults:2": 2}
"""The words for a search on a command line, each with its most faults; None: as many as it takes, at most two."""

REQUESTS: Final = {"requests:1": 1, "requests:2": 2}
"""The same for faults of requests alone: so few that all pairs can be run in a small world."""

WORDS: Final = (*FAULTS, *REQUESTS, "exhaustive+faults:1")
"""The spellings. Before a plus stands a policy that searches schedules: all of them are run for each plan."""

ORDER_SEED: Final = 1
"""The seed of the drawn part of the order: the same for every scenario, lock and seed of a run."""

_ORDER: Final = {form.name: place for place, form in enumerate(FORMS)}


@dataclass(frozen=True, slots=True)
class FaultPlacing:
    """A search as it was asked for. faults_max: of one plan; None for two where one alone has not broken anything.

    policy: searches the schedules of each plan; None for first-in, first-out. of_requests: only faults of requests.
    """

    faults_max: int | None
    policy: Policy | None = None
    of_requests: bool = False

    def __str__(self) -> str:
        words = REQUESTS if self.of_requests else FAULTS
        faults = next(word for word, most in words.items() if most == self.faults_max)
        return faults if self.policy is None else f"{self.policy}+{faults}"


def parse_placing(text: str) -> FaultPlacing | None:
    """The search that a word asks for; None for a word that asks for none.

    Raises ValueError for a policy before a plus that is none, or that searches no schedules.
    """
    policy, plus, faults = text.rpartition("+")
    of_requests = faults in REQUESTS
    if not of_requests and faults not in FAULTS:
        return None
    most = REQUESTS[faults] if of_requests else FAULTS[faults]
    if not plus:
        return FaultPlacing(most, of_requests=of_requests)
    searching = parse_policy(policy)
    if not searching.is_systematic:
        raise ValueError(f"{quote(text)}: {policy} draws schedules; expected delay:N or exhaustive before the plus")
    return FaultPlacing(most, searching, of_requests)


@dataclass(frozen=True, slots=True)
class Placement:
    """A form of fault at a place."""

    form: Form
    place: RequestPlace

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.form.name}: {self.place.name}"


class Placements:
    """The plans for one scenario and seed: which they are, and in which order.

    The scenario's own faults stay, but for what a swarm draws.
    """

    def __init__(self, scenario: Scenario, seed: int, *, of_requests: bool = False) -> None:
        self._forms = REQUEST_FORMS if of_requests else FORMS
        self._scenario = scenario if scenario.swarm is None else scenario.model_copy(update={"swarm": None})
        self._seed = seed
        self._drawn: DrawnScenario = draw_scenario(self._scenario, seed)
        self._written: list[Fault] = written_faults(self._scenario, Draws(seed))
        self._variants: dict[tuple[str, int], Scenario] = {}
        self._terms: Terms | None = None
        self._last_cycle: dict[str, int] = {}
        # By request, kind of fault and trace: the form that speaks for those with that trace.
        self._speakers: dict[tuple[tuple[str, str, int], str, str], str] = {}
        self._spared: set[tuple[tuple[str, str, int], str]] = set()

    @property
    def written_ids(self) -> frozenset[str]:
        """The ids of the faults that the scenario has itself."""
        return frozenset(fault.id for fault in self._written)

    def base(self, number: int) -> Trial:
        """The run without further faults."""
        return self._trial(number, ())

    def learn(self, base: Tried) -> None:
        """Take the terms of the faults from that run."""
        self._terms = Terms.of(self._scenario, self._drawn, base.request_timeout_ns)
        for place in base.places:
            self._last_cycle[place.client] = max(place.cycle, self._last_cycle.get(place.client, 0))

    def learn_alike(self, placement: Placement, tried: Tried) -> None:
        """Take from a run with one fault which forms of one kind do the same to one request: one of them is enough."""
        request, form = placement.place.request, placement.form
        if self._speakers.setdefault((request, form.kind, tried.trace), form.name) != form.name:
            self._spared.add((request, form.name))

    def at(self, places: Sequence[RequestPlace]) -> Iterator[Placement]:
        """Every form at every place that it says something about."""
        for place in places:
            for form in self._fitting(place):
                yield Placement(form, place)

    def after(self, first: Placement, places: Sequence[RequestPlace]) -> Iterator[Placement]:
        """Every second fault. places: the requests of the run with the first one."""
        for place in places:
            if place.at_ns < first.place.at_ns:
                continue
            is_one = place.request == first.place.request
            for form in self._fitting(place):
                if (place.request, form.name) in self._spared:
                    continue
                # Two faults of one request are a pair once. Of two of one kind only the first one would strike.
                if is_one and (form.kind == first.form.kind or _ORDER[form.name] < _ORDER[first.form.name]):
                    continue
                yield Placement(form, place)

    def trial(self, number: int, *placements: Placement) -> Trial:
        """The run with these faults."""
        return self._trial(number, placements)

    def _fitting(self, place: RequestPlace) -> Iterator[Form]:
        assert self._terms is not None, "the run without faults comes first"
        loops = self._scenario.workload.life == "loop"
        for form in self._forms:
            if form.fits(place, self._terms) and (
                not form.is_last or (loops and 0 < place.cycle < self._last_cycle.get(place.client, 0))
            ):
                yield form

    def _trial(self, number: int, placements: Sequence[Placement]) -> Trial:
        terms = self._terms
        faults = [
            each.form.fault(each.place, terms, number=order)
            for order, each in enumerate(placements, 1)
            if terms is not None
        ]
        scenario = self._scenario
        for each in placements:
            if each.form.is_last:
                scenario = self._ending(each.place.client, each.place.cycle)
        plan = FaultPlan.of(*self._written, *faults, heal_ns=self._drawn.heal_at_ns)
        return Trial(number=number, scenario=scenario, seed=self._seed, plan=plan)

    def _ending(self, client: str, cycles: int) -> Scenario:
        """The scenario in which a client asks so often and no more. The same object for the same arguments."""
        variant = self._variants.get((client, cycles))
        if variant is None:
            work = self._scenario.workload
            own = work.clients.get(client) or Work()
            clients = {**work.clients, client: own.model_copy(update={"cycles": constant(cycles, str(cycles))})}
            variant = self._scenario.model_copy(update={"workload": work.model_copy(update={"clients": clients})})
            self._variants[client, cycles] = variant
        return variant


OnPlaced = Callable[[SearchResult, Sequence[Finding]], None]
"""Called after each piece, with the failures that it was the first to show."""


def search_placements(
    scenario: Scenario,
    spec: ProviderSpec,
    seeds: Sequence[int],
    *,
    faults_max: int = PLACED_MAX,
    goes_on: bool = False,
    is_spread: bool = False,
    of_requests: bool = False,
    processes: int = 1,
    trials_max: int | None = None,
    exploration: Exploration | None = None,
    not_demanded: frozenset[str] = frozenset(),
    is_over: Callable[[], bool] = lambda: False,
    on_progress: OnPlaced = lambda _result, _new: None,
) -> SearchResult:
    """Place one fault everywhere, for each seed, then a second one after each first one.

    faults_max: 1 or 2. goes_on: place second faults also where one alone has broken a clause. is_spread: take as first
    faults each way of going wrong at each operation once, so that a few hundred runs come to pairs. of_requests: only
    faults of requests. trials_max: so many runs at most. exploration: search all schedules of each plan, by a
    systematic policy. is_over: asked after each piece of work; True ends the search.
    A Ctrl-C ends it, and what was tried stands (`is_interrupted`). Errors: a lock that raises what is no LockError ends
    it with `error` set.
    """
    assert 1 <= faults_max <= PLACED_MAX, f"{faults_max} faults in one plan"
    how = "faults placed" if exploration is None else f"faults placed, explored by {exploration.policy}"
    result = begun(scenario.name, spec.name, how=how, not_demanded=not_demanded)
    search = _Search(
        result,
        spec,
        processes=processes,
        trials_max=trials_max,
        exploration=exploration,
        is_over=is_over,
        tell=on_progress,
    )
    try:
        for seed in seeds:
            placements = Placements(scenario, seed, of_requests=of_requests)
            search.run(placements, faults_max=faults_max, goes_on=goes_on, is_spread=is_spread)
    except KeyboardInterrupt:
        result.is_interrupted = True
    search.conclude(faults_max, of_requests=of_requests)
    return result


class _Search:
    """One search under way."""

    def __init__(
        self,
        result: SearchResult,
        spec: ProviderSpec,
        *,
        processes: int,
        trials_max: int | None,
        exploration: Exploration | None,
        is_over: Callable[[], bool],
        tell: OnPlaced,
    ) -> None:
        self._exploration = exploration
        self._result = result
        self._spec = spec
        self._processes = processes
        self._trials_max = trials_max
        self._is_over = is_over
        self._tell = tell
        self._numbers = count()
        self._ended = False
        self._planned = [0, 0]
        self._tried = [0, 0]
        self._idle = [0, 0]
        self._alike = [0, 0]
        self._second_spared = 0
        self._left_out = 0
        """Placements of one fault that a spread has left out. What may follow them was not placed, either."""

    def run(self, placements: Placements, *, faults_max: int, goes_on: bool, is_spread: bool) -> None:
        """Search one seed. Arguments: as of `search_placements`."""
        if self._ended:
            return
        bases = [
            tried
            for chunk in self._answers(iter([placements.base(next(self._numbers))]), wants_places=True, watched=1)
            for tried in chunk
        ]
        if not bases:
            return
        (base,) = bases
        placements.learn(base)
        everywhere = _kinds_first(placements.at(base.places))
        self._planned[0] += len(everywhere)
        singles = _one_of_each(everywhere) if is_spread else everywhere
        self._left_out += len(everywhere) - len(singles)
        firsts: list[tuple[Placement, Tried]] = []
        trials = (placements.trial(next(self._numbers), single) for single in singles)
        seen = {base.trace}
        place = 0
        for chunk in self._answers(trials, wants_places=faults_max > 1, level=0, total=len(singles)):
            for tried in chunk:
                self._note(0, tried, seen, placements.written_ids)
                placements.learn_alike(singles[place], tried)
                if tried.trace not in seen and not tried.is_broken:
                    firsts.append((singles[place], tried))
                seen.add(tried.trace)
                place += 1
        if faults_max < PLACED_MAX or self._ended:
            return
        if self._result.summary.findings and not goes_on:
            self._second_spared += 1
            return
        total = sum(sum(1 for _ in placements.after(first, tried.places)) for first, tried in firsts)
        self._planned[1] += total
        pairs = (
            placements.trial(next(self._numbers), first, second) for first, second in _in_order(placements, firsts)
        )
        for chunk in self._answers(pairs, level=1, total=total):
            for tried in chunk:
                self._note(1, tried, seen, placements.written_ids)
                seen.add(tried.trace)

    def conclude(self, faults_max: int, *, of_requests: bool) -> None:
        """Write down how far the search came."""
        result = self._result
        result.is_cut = self._ended or result.is_interrupted
        result.counts = {
            "placements": self._planned[0],
            "placements_run": self._tried[0],
            "pairs": self._planned[1],
            "pairs_run": self._tried[1],
            "changed_nothing": sum(self._idle),
            "same_trace": sum(self._alike),
            "traces": len(result.traces),
            "is_exhausted": (
                not (result.is_cut or self._second_spared or self._left_out) and result.tally.is_exhausted
            ),
        }
        if self._exploration is not None:
            result.counts |= {"schedules": result.tally.schedules, "states": result.tally.states}
        result.notes += self._lines(faults_max, of_requests=of_requests)

    def _lines(self, faults_max: int, *, of_requests: bool) -> Iterator[str]:
        names = ("one fault", "a second fault after it")
        for level in range(faults_max):
            planned, tried = self._planned[level], self._tried[level]
            if not planned:
                continue
            yield (
                f"{names[level]}: {tried:,} of {counted(planned, 'placement')} run; {self._idle[level]:,} changed "
                f"nothing, {self._alike[level]:,} did what an earlier one did"
            )
        noun = "request fault" if of_requests else "fault"
        scope = f"at most {counted(faults_max, noun)} at every request and cut"
        if self._exploration is not None:
            tally, ties = self._result.tally, self._exploration.ties
            scope += f", under every schedule by {self._exploration.policy}"
            yield (
                f"schedules: {tally.schedules:,} of all placements, {tally.states:,} states, {tally.pruned:,} further "
                f"runs cut short at a known one; instants on a grid of {plain_duration(ties.window_ns)}, preemption at "
                f"{ties.preempt}"
            )
        if self._second_spared:
            yield "second faults were not placed: one alone is enough (faults:2 places them all the same)"
        elif self._left_out and not self._result.is_cut:
            yield (
                f"not exhausted: {counted(self._left_out, 'placement')} of one fault left out, as like one that was "
                f"run; {len(self._result.traces):,} traces"
            )
        elif self._result.is_cut or not self._result.tally.is_exhausted:
            yield f"cut off: not every placement of {scope} was run; {len(self._result.traces):,} traces"
        else:
            yield f"exhausted: every placement of {scope} was run; {len(self._result.traces):,} traces"

    def _note(self, level: int, tried: Tried, seen: set[str], written: frozenset[str]) -> None:
        self._tried[level] += 1
        if len(tried.mattered - written) <= level:
            self._idle[level] += 1
        elif tried.trace in seen:
            self._alike[level] += 1

    def _answers(
        self,
        trials: Iterator[Trial],
        *,
        wants_places: bool = False,
        watched: int = 0,
        level: int = 0,
        total: int = 1,
    ) -> Iterator[tuple[Tried, ...]]:
        """Run the trials; what came of each chunk of them, in their order."""

        def piece(chunk: tuple[Trial, ...]) -> Piece:
            return Piece(
                spec=self._spec,
                trials=chunk,
                not_demanded=self._result.summary.not_demanded,
                wants_places=wants_places,
                watched=watched,
                exploration=self._exploration,
            )

        if self._trials_max is not None:
            left = self._trials_max - self._result.summary.runs
            trials, total = islice(trials, left), min(left, total)
        processes = self._processes if total >= TRIALS_PER_PROCESS_MIN else 1
        size = TRIALS_PER_PIECE if self._exploration is None else EXPLORED_PER_PIECE
        pieces = cut_into_pieces(trials, piece, size=size)
        with closing(executor_for(processes, total).map(run_piece, pieces)) as answers:
            for answer in answers:
                new = self._result.absorb(answer)
                yield answer.tried
                self._tell(self._result, new)
                runs = self._result.summary.runs
                are_enough = self._trials_max is not None and runs >= self._trials_max
                if answer.error is not None or are_enough or self._is_over():
                    self._ended = True
                    return


def _kinds_first(singles: Iterable[Placement]) -> list[Placement]:
    """The same, each kind of fault at each operation once before any of them twice."""
    met: Counter[Key] = Counter()
    ranked: list[tuple[int, Placement]] = []
    for single in singles:
        met[_kind(single)] += 1
        ranked.append((met[_kind(single)], single))
    return [single for _, single in sorted(ranked, key=lambda each: each[0])]


def _one_of_each(singles: Sequence[Placement]) -> list[Placement]:
    """Each way of going wrong at each operation once: at any cut of the first such request, since rivals follow it."""
    found: dict[Key, Placement] = {}
    for single in sorted(_shuffled(singles, "first"), key=lambda each: each.place.at_ns):
        found.setdefault(_way(single), single)
    return [single for single in singles if found[_way(single)] is single]


def _in_order(
    placements: Placements, firsts: Sequence[tuple[Placement, Tried]]
) -> Iterator[tuple[Placement, Placement]]:
    """Every pair once: those first that show something together for the first time, as `GRAINS` says.

    First faults take turns, so that a search which is cut off has not spent all its time on the earliest request. Which
    of many second faults stands for its grain is drawn: else all begin with the same cut of the same request.
    """
    given: set[tuple[int, tuple[str, str, int], str]] = set()

    def seconds(number: int) -> Iterator[Placement]:
        first, tried = firsts[number]
        return iter(_shuffled(list(placements.after(first, tried.places)), f"second/{number}"))

    for grain in GRAINS:
        seen: set[Key] = set()
        waiting = {number: seconds(number) for number in range(len(firsts))}
        while waiting:
            for number in list(waiting):
                first = firsts[number][0]
                for second in waiting[number]:
                    if grain is not None:
                        key = (*grain.first(first), *grain.second(second))
                        if key in seen or not grain.takes(first, second):
                            continue
                        seen.add(key)
                    name = (number, second.place.request, second.form.name)
                    if name not in given:
                        given.add(name)
                        yield first, second
                        break
                else:
                    del waiting[number]


def _shuffled(placed: Sequence[Placement], label: str) -> list[Placement]:
    """The same in another order, which is always the same."""
    found = list(placed)
    stream(ORDER_SEED, label).shuffle(found)
    return found


Key = tuple[object, ...]


def _kind(placement: Placement) -> Key:
    return placement.form.kind, placement.place.op


def _way(placement: Placement) -> Key:
    return placement.form.way, placement.place.op


def _form(placement: Placement) -> Key:
    return placement.form.name, placement.place.op


def _op(placement: Placement) -> Key:
    return (placement.place.op,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grain:
    """The novelty of a pair. first, second: the part of each fault that counts. is_late: only second ones that are."""

    first: Callable[[Placement], Key]
    second: Callable[[Placement], Key]
    is_one_client: bool
    is_late: bool = False

    def takes(self, first: Placement, second: Placement) -> bool:
        """Is it about such a pair?"""
        is_one = first.place.client == second.place.client
        return is_one is self.is_one_client and (second.form.is_late or not self.is_late)


GRAINS: Final[tuple[Grain | None, ...]] = (
    Grain(first=_way, second=_op, is_one_client=True, is_late=True),
    Grain(first=_way, second=_op, is_one_client=True),
    Grain(first=_kind, second=_kind, is_one_client=True),
    Grain(first=_kind, second=_kind, is_one_client=False),
    Grain(first=_form, second=_form, is_one_client=True),
    Grain(first=_form, second=_form, is_one_client=False),
    None,
)
"""The order of pairs. One client before two, because a lock's state is what a first fault changes; and a second fault
by which a request takes effect under a successor before all others, because then it shows what the lock does."""
