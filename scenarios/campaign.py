"""Many seeds of scenarios under one lock: simulated and judged by the chunk.

A campaign answers how often each clause broke, in which distinct ways, and
whether what the scenario is about ever happened. Seeds are cut into chunks. A
chunk is simulated and judged in one process, and only what the judge said and
a few histories leave it: so the work spreads over all cores, and memory does
not grow with the seeds. The answer does not depend on the number of processes:
chunks are joined in the order of seeds, and the lowest seed speaks for each
distinct failure.

Several campaigns share one pool of processes: the chunks of the next one are
begun while the last ones of this one still run. Rejected: a pool for each
campaign, which waits at its end for its slowest chunk and starts new
interpreters for the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from lockref.errors import DeterminismError, LockrefError
from lockref.history import SCHEMA, batch_digest, runs_table, to_table
from lockref.host_processes import cores
from lockref.lab.loading import ProviderSpec
from lockref.runtime import ThreadRuntime
from lockref.words import counted
from reports.checks import Judgement, judge
from reports.checks.demands import demand_text
from reports.checks.summary import Summary
from scenarios.batch import CHUNK, run_seeds
from scenarios.campaigns.sheltered import shelter
from scenarios.definition.draw import Draws
from scenarios.definition.fault_plan import written_faults
from scenarios.definition.schema import Scenario
from scenarios.executor import Executor, executor_for
from scenarios.search.schedules import Exploration
from scenarios.worlds.judged_result import History, JudgedResult, joined_histories, only_runs
from scenarios.worlds.simulated import RunOutcome
from sim.explore.determinism import first_difference
from sim.faults.fault import RequestFault

SEEDS_PER_PROCESS_MIN = 200
"""Below this a second process costs more than it saves: it starts an interpreter."""

KEEP_RUNS = 200
"""Histories kept by default: the first runs, and the run of every distinct failure."""

DETERMINISM_EVERY: Final = 10
"""Where traces are to be compared, every so many-th seed of a chunk is run twice."""

_monotonic_ns: Final = ThreadRuntime().monotonic_ns

FailureKey = tuple[str, str, tuple[str, ...]]
"""What makes a failure distinct: clause, kind, and the kinds of faults that fired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """The order of a campaign: which runs, of which lock.

    keep_runs: how many of the first runs to keep the histories of; those of distinct failures are kept besides.
    check_determinism_every: run every k-th seed of a chunk a second time, under the strict auditor, and compare.
    not_demanded: clauses that are not demanded: counted and reported, but no failure.
    watched: so many of the first seeds run under the strict auditor.
    """

    scenario: Scenario
    spec: ProviderSpec
    seeds: Sequence[int]
    keep_runs: int = KEEP_RUNS
    check_determinism_every: int = 0
    not_demanded: frozenset[str] = frozenset()
    watched: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A finished piece of a campaign.

    runs: their rows, digests among them. event_count: of all its histories.
    fault_kinds: seed to what disturbed it. compared: seeds that were run twice.
    kept: the histories worth keeping, events and runs; None if there are none.
    """

    judgement: Judgement
    runs: pa.Table
    event_count: int
    fault_kinds: Mapping[int, tuple[str, ...]]
    compared: int
    kept: History | None


@dataclass(slots=True, kw_only=True)
class CampaignResult(JudgedResult):
    """The results of all seeds of a campaign; the run numbers of its summary are seeds.

    seeds: how many were asked for. digests: seed to digest of its trace. compared: seeds that were run twice
    and gave one trace. tables: kept histories, chunk by chunk. resumed: always 0; only
    `scenarios.campaigns.collection.Collected` goes on with earlier seeds. error: what ended it early.
    sure_faults: the ids of the faults that the scenario writes down, but for those that strike with a
    probability. effects: fault id to how often it changed something, over all runs. spent_ns: real
    time that simulating and judging took, over all processes.
    """

    seeds: int
    spent_ns: int = 0
    sure_faults: tuple[str, ...] = ()
    effects: Counter[str] = field(default_factory=Counter)
    digests: dict[int, str] = field(default_factory=dict)
    compared: int = 0
    resumed: int = 0
    tables: list[History] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"{self.scenario} under {self.provider}"

    @property
    def digest(self) -> str:
        """One hash over all traces in the order of seeds, kept or not."""
        return batch_digest(self.digests[seed] for seed in sorted(self.digests))

    @property
    def history(self) -> History:
        """The kept histories: events and runs, in the order of seeds."""
        return joined_histories(self.tables)

    @property
    def notices(self) -> list[str]:
        """The notices about the way in which the seeds were run."""
        found = [
            *self.notes,
            *seed_notices(self, seeds=self.seeds, compared=self.compared, resumed=self.resumed),
        ]
        return [*found, *idle_faults(self.sure_faults, self.effects, runs=self.summary.runs)]

    def absorb(self, chunk: Chunk) -> None:
        """Add what the judge said of a chunk."""
        self.summary.add(
            Summary.of_runs(
                chunk.judgement,
                chunk.runs,
                event_count=chunk.event_count,
                fault_kinds=chunk.fault_kinds,
                not_demanded=self.summary.not_demanded,
            )
        )
        self.digests.update(zip(chunk.runs["run"].to_pylist(), chunk.runs["digest"].to_pylist(), strict=True))
        for effects in chunk.runs["fault_effects"].to_pylist():
            self.effects.update(dict(effects or ()))
        self.compared += chunk.compared
        if chunk.kept is not None:
            self.tables.append(chunk.kept)

    def join(self, other: CampaignResult) -> None:
        """Add further seeds of the same scenario under the same lock."""
        self.seeds += other.seeds
        self.spent_ns += other.spent_ns
        self.summary.add(other.summary)
        self.digests.update(other.digests)
        self.effects.update(other.effects)
        self.compared += other.compared
        self.tables += other.tables
        self.error = self.error or other.error

    def ask(self, scenario: Scenario, spec: ProviderSpec, *, without: Collection[str] = ()) -> None:
        """Demand of these runs what `scenario` demands of so many seeds, but for some situations.

        without: situations that such a lock cannot bring about. The kept rows of runs say the same, so that whoever
        judges the history again asks no more.
        """
        least = demanded_by(scenario, spec, self.seeds, without=without)
        self.summary.demanded[(scenario.name, spec.name)] = least
        texts = [demand_text(name, count) for name, count in least.items()]
        self.tables = [(events, told_demands(runs, texts)) for events, runs in self.tables]


def demanded_by(scenario: Scenario, spec: ProviderSpec, seeds: int, *, without: Collection[str] = ()) -> dict[str, int]:
    """The situations that so many seeds of a scenario must bring about, and how often; `without` some of them."""
    owed = scenario.owed_by(seeds)
    return {
        name: count
        for name, count in owed.demanded(clients=owed.clients, duration_ns=owed.duration.least).items()
        if name not in {*without, *owed.unreachable_by(spec)}
    }


def told_demands(runs: pa.Table, texts: Sequence[str]) -> pa.Table:
    """Rows of runs that say, in the place of what they said, that these situations must happen in them."""
    column = runs.column_names.index("must_happen")
    said = pa.array([list(texts)] * len(runs), runs.schema.field(column).type)
    return runs.set_column(column, runs.schema.field(column), said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Executors on which several groups of campaigns run, one after the other.

    executor: begun, and ended by whoever made it. sent: a lock by its name, as executors load it. slots: the pieces
    that can run at the same time, as far as is known by now.
    """

    executor: Executor
    sent: Mapping[str, ProviderSpec]
    slots: Callable[[], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """One chunk of one campaign, as a worker gets it. keep_runs: how many of its first runs to keep."""

    campaign: int
    scenario: Scenario
    spec: ProviderSpec
    seeds: Sequence[int]
    watched: int
    keep_runs: int
    compare_every: int

    def __str__(self) -> str:
        return f"seeds {self.seeds[0]:,} to {self.seeds[-1]:,} of {self.scenario.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _JudgedPiece:
    """The answer of a worker process.

    chunk: keeps the histories of the first runs and of every distinct failure of the chunk, known before or not.
    speakers: failure to the run that speaks for it in this chunk. error: in the place of a chunk. spent_ns: real time.
    """

    campaign: int
    chunk: Chunk | None = None
    speakers: dict[FailureKey, int] = field(default_factory=dict)
    error: LockrefError | None = None
    spent_ns: int = 0


def run_campaign(
    scenario: Scenario,
    spec: ProviderSpec,
    seeds: Sequence[int],
    *,
    processes: int = 1,
    keep_runs: int = KEEP_RUNS,
    check_determinism_every: int = 0,
    is_over: Callable[[], bool] = lambda: False,
    on_progress: Callable[[CampaignResult], None] = lambda _result: None,
    not_demanded: frozenset[str] = frozenset(),
    watched: int = 1,
) -> CampaignResult:
    """Simulate and judge `seeds` of one scenario: one campaign of `run_campaigns`; see there and `Campaign`.

    Errors: DeterminismError with the first differing event; ConfigError for a lock that raises what is no LockError.
    """
    campaign = Campaign(
        scenario=scenario,
        spec=spec,
        seeds=seeds,
        keep_runs=keep_runs,
        check_determinism_every=check_determinism_every,
        not_demanded=not_demanded,
        watched=watched,
    )
    (total,) = run_campaigns([campaign], processes=processes, is_over=is_over, on_progress=on_progress)
    if total.error is not None:
        raise total.error
    return total


def run_campaigns(
    campaigns: Sequence[Campaign],
    *,
    processes: int = 1,
    cluster: Cluster | None = None,
    is_over: Callable[[], bool] = lambda: False,
    on_progress: Callable[[CampaignResult], None] = lambda _result: None,
) -> Generator[CampaignResult, None, None]:
    """Simulate and judge; the results in the order of the campaigns, each as soon as it is complete.

    processes: of this machine, in a pool that lives as long as the generator. cluster: runs the chunks in their place,
    and each lock in a process of its own. is_over: asked after each chunk; True ends the campaign that the chunk
    belongs to, and no later one begins.
    A campaign that meets an error ends with `error` set, and the others go on. KeyboardInterrupt ends all: the result
    of the campaign that it met has `is_interrupted` and what was finished; it is the last one.
    """
    # The first table imports pandas, for a second or more: before the run, so no account waits for it after Ctrl-C.
    SCHEMA.empty_table()
    running = [_Running(campaign, number) for number, campaign in enumerate(campaigns)]
    ended = 0
    count = sum(-(-len(campaign.seeds) // CHUNK) for campaign in campaigns)
    error: LockrefError | None = None
    # Closed here, because the worker processes of a pool end with it.
    pieces = _pieces(running)
    if cluster is None:
        mapped = executor_for(processes, count).map(_judged, pieces)
    else:
        mapped = cluster.executor.map(_judged_in_shelter, _sent(pieces, cluster))
    with closing(mapped) as answers:
        try:
            for judged in answers:
                while ended < judged.campaign:
                    # Nothing of these was left to run.
                    yield running[ended].total
                    ended += 1
                current = running[judged.campaign]
                if current.is_over:
                    # It ended early, while this chunk was under way.
                    continue
                current.add(judged)
                if judged.error is None:
                    on_progress(current.total)
                    if is_over():
                        # The later campaigns end, too: each of them would run its first chunk all the same.
                        for each in running[judged.campaign :]:
                            each.is_over = True
                if current.is_over:
                    yield current.total
                    ended += 1
        except KeyboardInterrupt:
            if ended == len(running):
                raise
            running[ended].total.is_interrupted = True
        except LockrefError as failed:
            error = failed
    for rest in running[ended:]:
        if rest.total.is_interrupted:
            yield rest.total
            return
        # Without an error nothing of these was left to run; with one, the executor failed, and nothing can run them.
        rest.total.error = rest.total.error or error
        yield rest.total


class _Running:
    """One campaign on its way. is_over: no further chunk of it is begun, and what is still under way is dropped."""

    __slots__ = ("_campaign", "_left", "_number", "is_over", "total")

    def __init__(self, campaign: Campaign, number: int) -> None:
        self._campaign = campaign
        self._number = number
        self._left = 0
        self.is_over = False
        self.total = CampaignResult(
            scenario=campaign.scenario.name,
            provider=campaign.spec.name,
            seeds=len(campaign.seeds),
            sure_faults=sure_faults(campaign.scenario),
            summary=Summary(not_demanded=campaign.not_demanded),
        )

    def begin(self) -> list[_Piece]:
        """The pieces of it."""
        campaign, total = self._campaign, self.total
        spec, seeds = campaign.spec, campaign.seeds
        scenario = campaign.scenario.owed_by(len(seeds))
        demands = scenario.demanded_of(spec, clients=scenario.clients, duration_ns=scenario.duration.least)
        total.summary.demand((scenario.name, spec.name), demands)
        pieces = [
            _Piece(
                campaign=self._number,
                scenario=scenario,
                spec=spec,
                seeds=seeds[start : start + CHUNK],
                watched=campaign.watched if start == 0 else 0,
                keep_runs=max(0, campaign.keep_runs - start),
                compare_every=campaign.check_determinism_every,
            )
            for start in range(0, len(seeds), CHUNK)
        ]
        self._left = len(pieces)
        return pieces

    def add(self, judged: _JudgedPiece) -> None:
        """Add the next chunk, or the error in its place."""
        chunk, total = judged.chunk, self.total
        total.spent_ns += judged.spent_ns
        if chunk is None:
            total.error = judged.error
            self.is_over = True
            return
        known = {finding.key for finding in total.summary.findings}
        first = chunk.runs["run"].to_pylist()[: max(0, self._campaign.keep_runs - total.summary.runs)]
        new = [run for key, run in judged.speakers.items() if key not in known]
        chunk = replace(chunk, kept=_only(chunk.kept, {*first, *new}))
        total.absorb(chunk)
        self._left -= 1
        self.is_over = self._left == 0


def _pieces(running: Sequence[_Running]) -> Iterator[_Piece]:
    """The chunks of all campaigns, in their order. A campaign begins when its first chunk is asked for."""
    for current in running:
        try:
            pieces = current.begin()
        except LockrefError as error:
            current.total.error = error
            continue
        for piece in pieces:
            if current.is_over:
                break
            yield piece


def _sent(pieces: Iterator[_Piece], cluster: Cluster) -> Iterator[_Piece]:
    for piece in pieces:
        yield replace(piece, spec=cluster.sent[piece.spec.name])


def _judged_in_shelter(piece: _Piece) -> _JudgedPiece:
    """`_judged` where a lock that ends its process would take an executor with it."""
    try:
        return shelter().call(_judged, piece)
    except LockrefError as error:
        # A value, so that no executor takes a lock's fault for one of its own and tries again.
        return _JudgedPiece(campaign=piece.campaign, error=error)


def _judged(piece: _Piece) -> _JudgedPiece:
    """Simulate one chunk and judge it in one call. What a worker runs."""
    began_ns = _monotonic_ns()
    try:
        outcomes = run_seeds(piece.scenario, piece.spec, piece.seeds, watched=piece.watched)
        compared = expect_same_traces(piece.scenario, piece.spec, outcomes, every=piece.compare_every)
        judged = _judged_outcomes(piece, outcomes, compared=compared)
        return replace(judged, spent_ns=_monotonic_ns() - began_ns)
    except LockrefError as error:
        # Not raised in the parent: it ends this campaign, and the others go on.
        return _JudgedPiece(campaign=piece.campaign, error=error)


def _judged_outcomes(piece: _Piece, outcomes: Sequence[RunOutcome], *, compared: int) -> _JudgedPiece:
    events = to_table([outcome.recorder for outcome in outcomes], [outcome.seed for outcome in outcomes])
    runs = runs_table(outcome.run_row for outcome in outcomes)
    judgement = judge(events, runs)
    kinds = {outcome.seed: outcome.fired_kinds for outcome in outcomes}
    found = Summary.of_runs(judgement, runs, event_count=len(events), fault_kinds=kinds).findings
    speakers = {finding.key: finding.run for finding in found}
    chunk = Chunk(
        judgement=judgement,
        runs=runs,
        event_count=len(events),
        fault_kinds=kinds,
        compared=compared,
        kept=_only((events, runs), {*piece.seeds[: piece.keep_runs], *speakers.values()}),
    )
    return _JudgedPiece(campaign=piece.campaign, chunk=chunk, speakers=speakers)


def _only(kept: History | None, wanted: set[int]) -> History | None:
    """The histories of some runs; None where there are none."""
    if kept is None or not wanted:
        return None
    return kept if len(wanted) == len(kept[1]) else only_runs(kept, wanted)


def default_processes(seed_count: int) -> int:
    """As many as there are cores, unless the seeds are too few to be worth it."""
    return max(1, min(cores(), seed_count // SEEDS_PER_PROCESS_MIN))


def sure_faults(scenario: Scenario) -> tuple[str, ...]:
    """The ids of the faults that the scenario writes down, but for those that may stay away by their own words."""
    faults = written_faults(scenario, Draws(1))
    return tuple(each.id for each in faults if not (isinstance(each, RequestFault) and each.probability < 1))


def idle_faults(sure: Sequence[str], effects: Mapping[str, int], *, runs: int) -> list[str]:
    """The notice of the faults that changed nothing in so many runs; none where each did, or nothing has run.

    sure: ids of faults, as `sure_faults` gives them. effects: fault id to how often it changed something.
    """
    # A demand for a kind is met by any fault of that kind. Without a demand no verdict shows an idle fault.
    idle = [fault for fault in sure if not effects.get(fault)]
    if not runs or not idle:
        return []
    return [
        f"{counted(len(idle), 'fault')} of the scenario changed nothing in {counted(runs, 'run')}: {', '.join(idle)}"
    ]


def expect_same_traces(
    scenario: Scenario,
    spec: ProviderSpec,
    outcomes: Sequence[RunOutcome],
    *,
    every: int,
    exploration: Exploration | None = None,
) -> int:
    """Run every k-th of these seeds once more, under the strict auditor; how many. 0: none.

    exploration: under which they ran.

    Raises DeterminismError with the first event that differs.
    """
    repeated = outcomes[::every] if every else []
    for outcome in repeated:
        (again,) = run_seeds(scenario, spec, [outcome.seed], watched=1, exploration=exploration)
        _require_same_trace(outcome, again)
    return len(repeated)


def _require_same_trace(first: RunOutcome, second: RunOutcome) -> None:
    difference = first_difference(first.recorder, second.recorder)
    if difference is not None:
        raise DeterminismError(
            f"seed {first.seed} gave two traces, which differ at {difference}. Common causes: iteration over a set, "
            "id() or hash() in a key, a lock that calls time or random itself, state kept between runs"
        )


def seed_notices(result: JudgedResult, *, seeds: int, compared: int, resumed: int) -> list[str]:
    """The notices about seeds: cut short by the time, run twice and compared, or run before an interruption.

    seeds: how many were asked for. compared: run twice. resumed: of them, run and judged earlier.
    """
    found = []
    if result.summary.runs < seeds and not result.is_interrupted and result.error is None:
        found.append(f"cut short: the time was over after {result.summary.runs:,} of {counted(seeds, 'seed')}")
    if compared:
        found.append(f"determinism: {counted(compared, 'seed')} run twice, event for event the same")
    if resumed:
        found.append(f"resumed: {counted(resumed, 'seed')} had been run and judged before the interruption")
    return found
