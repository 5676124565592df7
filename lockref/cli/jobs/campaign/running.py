"""Campaigns over very many seeds: run what is left, join it in order, tell and store what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from lockref.cli.jobs.campaign.claiming import claimed
from lockref.cli.jobs.campaign.executors import (
    SPARK_FOLDER,
    address_of,
    executor_of,
    expect_shipped,
    loss_teller,
    shipped,
)
from lockref.cli.jobs.shown.console import printable, seed_progress
from lockref.cli.jobs.shown.results import begin_run, conclude, say_results, write_account
from lockref.errors import ConfigError
from lockref.runtime import NS_PER_S
from lockref.words import counted
from reports.formats.terminal import BLOCKS_MAX
from scenarios import interrupts
from scenarios.batch import run_seeds
from scenarios.campaign import DETERMINISM_EVERY
from scenarios.campaigns.collection import begin, collect
from scenarios.campaigns.identity import FILE, Identity, Keeping, identity_of
from scenarios.campaigns.orders import Order
from scenarios.campaigns.places import FolderPlace, ObjectPlace, place_of
from scenarios.campaigns.sheltered import shelter
from scenarios.campaigns.sources import Sources
from scenarios.definition.fleet import load_fleet
from scenarios.definition.load import load_scenario
from scenarios.definition.mixture import require_applicable
from scenarios.failures.failure_store import FailureStore
from scenarios.failures.groups import FailureGroups
from scenarios.failures.shrink_budget import ShrinkBudget
from scenarios.runs import RunFolder, provenance, unfinished_runs
from scenarios.search.schedules import Exploration

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from lockref.cli.jobs.shown.console import Console
    from lockref.errors import LockrefError
    from lockref.lab.loading import ProviderSpec
    from reports.checks.summary import Finding
    from reports.formats.results import Results
    from scenarios.campaigns.places import Place
    from scenarios.campaigns.result import CampaignResult
    from scenarios.definition.schema import Scenario
    from scenarios.executor import Executor
    from scenarios.worlds.simulated import RunOutcome
    from sim.explore.policies import Policy
    from sim.kernel.exploring import Preempt

FOUND_TOLD_MAX: Final = 20
"""Distinct failures that are told as they come; the further ones are counted."""

_UPLOADED: Final = ("results.json", "junit.xml", "run.json")


def run_campaign(
    console: Console,
    scenarios: Sequence[str],
    *,
    provider: str,
    seeds: range,
    master: str | None,
    settings: Sequence[str],
    processes: int | None,
    out: str | None,
    resume: bool,
    max_time_ns: int | None,
    check_determinism: bool,
    keep: int,
    keep_failures: int,
    shrink_for: int,
    policy: Policy | None,
    window_ns: int | None,
    preempt: Preempt | None,
    demands: tuple[str, ...],
    allowed: Sequence[int],
) -> int:
    """Run each scenario over its seeds under one lock, on the executors that are asked for. Returns the exit code.

    scenarios: files, or names of the catalogue. master: of Spark; None for processes. settings: of Spark, as
    `spark.NAME=VALUE`. processes: None for one on each core, where that is faster. out: folder or `s3a://…` of chunks
    and results; None for a run folder. resume: take over the chunks that stand there. max_time_ns: after so much time
    no further chunk begins. keep, keep_failures: histories to keep. shrink_for: nanoseconds for shrinking failures, in
    all. policy: draws the schedule of each seed; None for first-in, first-out. window_ns, preempt: None for what fits
    the policy. demands: further thresholds. allowed: exit codes that count as success.
    Errors: ConfigError for what does not load or fit, and for an `out` of another campaign; BackendUnavailable for a
    cluster or a store that is not there; KeyboardInterrupt after Ctrl-C, when what was finished is told.
    """
    exploration = _exploration(policy, window_ns, preempt)
    address = address_of(master, settings)
    fleet = load_fleet(provider)
    # Set up where it runs, in a forked child: a JVM does not survive a fork.
    fleet.require_virtual_time(sets_up=False)
    loaded = {name: fleet.on(scenario) for name, scenario in _loaded(scenarios, demands).items()}
    require_applicable(loaded, fleet.spec)
    # Hashed before the first run: the lock's file may be edited while a long command runs.
    sources = Sources.of_each(loaded, fleet.spec)
    compare_every = DETERMINISM_EVERY if check_determinism else 0
    keeping = Keeping(keep=keep, keep_failures=keep_failures, compare_every=compare_every)
    about = _about(list(loaded), provider, seeds, keeping, exploration, demands)
    expect_shipped(address, loaded.values())
    sent, files = shipped(fleet.spec, address)
    with _folder(out, about, resume=resume, console=console) as (folder, place):
        ask = partial(_asked, spec=fleet.spec, seeds=seeds, keeping=keeping, exploration=exploration)
        are_several = len(loaded) > 1
        asked = [
            ask(
                name,
                scenario,
                sources=sources[name],
                part=folder.part(scenario.name) if are_several else folder,
                place=place.below(scenario.name) if are_several else place,
            )
            for name, scenario in loaded.items()
        ]
        tell = _Telling(console, seeds=len(asked) * len(seeds))
        with claimed(place, console.step):
            for each in asked:
                begin(each.order, each.identity, is_resumed=resume)
            executors = executor_of(
                address,
                processes=processes,
                seeds=len(asked) * len(seeds),
                chunks=sum(each.order.chunks for each in asked),
                files=files,
                work=folder.path / SPARK_FOLDER,
                tell=tell.lost,
                # A bucket's lease has a thread here: a fork beside it may copy a mutex that the thread holds.
                apart=isinstance(place, ObjectPlace),
            )
            results = _collected([replace(each.order, spec=sent) for each in asked], executors, tell, max_time_ns)
        budget = ShrinkBudget(shrink_for)
        accounts = _Accounts(console, about=about, allowed=allowed, budget=budget, spec=fleet.spec)
        # Not strict: after a Ctrl-C the campaigns that are left have no result.
        for each, result in zip(asked, results, strict=False):
            accounts.take(each, result, lost=tell.losses)
        _upload(place, asked, folder)
        _raise_if_interrupted(console, results, place)
        code = accounts.conclude(folder)
        _upload(place, [], folder)
        return code


def _about(
    scenarios: Sequence[str],
    provider: str,
    seeds: range,
    keeping: Keeping,
    exploration: Exploration | None,
    demands: Sequence[str],
) -> dict[str, object]:
    """The provenance of the command, by which an unfinished one is found again. scenarios: as the user named them."""
    return provenance(
        {
            "scenarios": list(scenarios),
            "provider": provider,
            "seeds": f"{seeds.start}..{seeds.stop - 1}",
            "keep": keeping.keep,
            "keep_failures": keeping.keep_failures,
            "check_determinism": bool(keeping.compare_every),
            "explore": "" if exploration is None else exploration.options,
            "demands": list(demands),
        }
    )


def _collected(
    orders: Sequence[Order], executors: AbstractContextManager[Executor], tell: _Telling, max_time_ns: int | None
) -> list[CampaignResult]:
    """The results of the campaigns, of all that were begun. executors: run them, and end with this call."""
    with executors as executor:
        # Only now: to set up executors takes ten seconds and more with Spark, and no chunk has begun by then.
        is_over = interrupts.time_limit(None if max_time_ns is None else max_time_ns / NS_PER_S)
        results = collect(orders, executor, is_over=is_over, on_progress=tell.progress, on_found=tell.found)
        with closing(results):
            return list(results)


def _raise_if_interrupted(console: Console, results: Sequence[CampaignResult], place: Place) -> None:
    """Raise KeyboardInterrupt where one was heard, and say how to go on."""
    if any(result.is_interrupted for result in results):
        done = sum(result.summary.runs for result in results)
        console.say(f"{counted(done, 'finished seed')} in {place}; the same command with --resume goes on", style="dim")
        raise KeyboardInterrupt


def _exploration(policy: Policy | None, window_ns: int | None, preempt: Preempt | None) -> Exploration | None:
    """The exploration that is asked for. Raises ConfigError for a policy that runs a seed many times."""
    if policy is None:
        if window_ns is not None or preempt is not None:
            raise ConfigError("--tie-window and --preempt belong to --explore")
        return None
    if policy.is_systematic:
        raise ConfigError(f"a campaign runs each seed once (random, pct:D, pos); for {policy} take `lockref sim`")
    return Exploration.by(policy, window_ns=window_ns, preempt=preempt)


def _loaded(scenarios: Sequence[str], demands: tuple[str, ...]) -> dict[str, Scenario]:
    """The scenarios by the name that the user gave. Raises ConfigError where two of them have one name of their own."""
    loaded = {name: load_scenario(name).demanding(demands) for name in dict.fromkeys(scenarios)}
    by_own_name: dict[str, str] = {}
    for name, scenario in loaded.items():
        if scenario.name in by_own_name:
            raise ConfigError(f"{by_own_name[scenario.name]} and {name} are both called {scenario.name}")
        by_own_name[scenario.name] = name
    return loaded


@contextmanager
def _folder(
    out: str | None, about: Mapping[str, object], *, resume: bool, console: Console
) -> Iterator[tuple[RunFolder, Place]]:
    """The folder of the results, and the place of the chunks: the same, unless that is an object store."""
    place = None if out is None else place_of(out)
    if isinstance(place, FolderPlace):
        with RunFolder.at(place.path, about) as folder:
            yield folder, place
        return
    with _run_folder(about, resume=resume and place is None, console=console) as folder:
        yield folder, FolderPlace(folder.path.resolve()) if place is None else place


def _run_folder(about: Mapping[str, object], *, resume: bool, console: Console) -> RunFolder:
    arguments = about["arguments"]
    assert isinstance(arguments, dict), "`provenance` keeps the arguments by name"
    begun = [
        path for path in unfinished_runs("campaign", arguments) if (path / FILE).exists() or any(path.glob(f"*/{FILE}"))
    ]
    if begun and resume:
        console.step(f"going on in {begun[0]}")
        return RunFolder.resume(begun[0], about)
    if begun:
        console.step(
            f"an unfinished campaign of this command is in {begun[0]}; stop this one and add --resume to go on there"
        )
    elif resume:
        console.step("no unfinished campaign of this command: starting at the first seed")
    return begin_run("campaign", about)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One scenario of the command. source: as the user named it. part: the folder of its account."""

    source: str
    order: Order
    identity: Identity
    part: RunFolder
    place: Place

    def again(self, finding: Finding) -> RunOutcome:
        """The run that a finding names, once more."""
        order = self.order
        (outcome,) = run_seeds(order.scenario, order.spec, [finding.run], exploration=order.exploration)
        return outcome


def _asked(
    source: str,
    scenario: Scenario,
    *,
    spec: ProviderSpec,
    sources: Sources,
    seeds: range,
    keeping: Keeping,
    exploration: Exploration | None,
    part: RunFolder,
    place: Place,
) -> _Asked:
    identity = identity_of(scenario, spec, sources, seeds, keeping, exploration)
    order = Order(
        scenario=scenario,
        spec=spec,
        seeds=seeds,
        place=place,
        identity=identity.digest,
        keep=keeping.keep,
        keep_failures=keeping.keep_failures,
        keeps_speakers=False,
        compare_every=keeping.compare_every,
        exploration=None if exploration is None else _counted(exploration, scenario, spec, seeds[0]),
    )
    return _Asked(source=source, order=order, identity=identity, part=part, place=place)


def _counted(exploration: Exploration, scenario: Scenario, spec: ProviderSpec, seed: int) -> Exploration:
    """The exploration with its decisions counted, in a child as chunks are: what the run sets up stays there."""
    if not exploration.needs_count:
        return exploration
    return shelter().call(partial(exploration.counted, scenario, spec), seed)


class _Telling:
    """Tells the user how far it is, what was found, and what was lost. losses: told so far by `lost`."""

    def __init__(self, console: Console, *, seeds: int) -> None:
        self._console = console
        self._progress = seed_progress(console, seeds=seeds)
        self._found = 0
        self.losses: list[str] = []
        self.lost = loss_teller(console, self.losses)

    def progress(self, result: CampaignResult) -> None:
        self._progress(result)

    def found(self, result: CampaignResult, finding: Finding) -> None:
        self._found += 1
        if self._found > FOUND_TOLD_MAX:
            return
        kinds = ", ".join(finding.fault_kinds) or "no fault"
        what = printable(str(finding.witness.get("text") or finding.kind))
        self._console.step(f"found: {finding.clause} in seed {finding.run:,} of {result.scenario} ({kinds}): {what}")
        if self._found == FOUND_TOLD_MAX:
            self._console.step("found: further failures are counted, and told at the end")


class _Accounts:
    """The account of each campaign of one command, or the error that ended it."""

    def __init__(
        self,
        console: Console,
        *,
        about: Mapping[str, object],
        allowed: Sequence[int],
        budget: ShrinkBudget,
        spec: ProviderSpec,
    ) -> None:
        self._console = console
        self._about = about
        self._allowed = allowed
        self._budget = budget
        self._spec = spec
        self._groups = FailureGroups()
        self._results: list[Results] = []
        self._errors: dict[str, LockrefError] = {}

    def take(self, asked: _Asked, result: CampaignResult, *, lost: Sequence[str]) -> None:
        """Say and keep what came of a campaign. lost: what was lost on the way and ran again."""
        if result.error is not None:
            self._errors[result.scenario] = result.error
            return
        exploration = asked.order.exploration
        store = FailureStore(
            asked.order.scenario,
            self._spec,
            source=asked.source,
            is_in_a_hurry=result.is_interrupted or interrupts.was_heard(),
            budget=self._budget,
            groups=self._groups,
            on_progress=self._console.progress,
            again=None if exploration is None else asked.again,
            options="" if exploration is None else f" {exploration.options}",
        )
        here = [text for text in lost if text.partition(": ")[0].endswith(f" of {result.scenario}")]
        results = write_account(
            result,
            asked.part,
            about=self._about,
            allowed=self._allowed,
            failures=store,
            notices=[*_figures(result, asked.place), *here],
        )
        repeats = self._groups.repeats(results.failures, blocks_max=BLOCKS_MAX)
        say_results(self._console, results, repeats=repeats)
        self._results.append(results)

    def conclude(self, folder: RunFolder) -> int:
        """End the command; its exit code."""
        for line in self._groups.lines():
            self._console.say(line)
        return conclude(
            self._console,
            folder,
            self._results,
            allowed=self._allowed,
            failed=next(iter(self._errors.values()), None),
            errors={name: str(error) for name, error in self._errors.items()},
        )


def _figures(result: CampaignResult, place: Place) -> list[str]:
    ran = result.summary.runs - result.resumed
    spent_ns = result.processor_ns
    rate = f", {ran * NS_PER_S / spent_ns:,.0f} seeds for each second of a processor" if spent_ns else ""
    return [
        f"{counted(result.done, 'chunk')} of {result.chunks:,} in {place}{rate}; "
        f"{result.kept:,} histories kept, {result.failures_kept:,} of them failures"
    ]


def _upload(place: Place, asked: Sequence[_Asked], folder: RunFolder) -> None:
    """Put the account beside the chunks where these are in an object store."""
    if not isinstance(place, ObjectPlace):
        return
    for part, target in [(folder.path, place), *((each.part.path, each.place) for each in asked)]:
        for name in _UPLOADED:
            if (part / name).exists():
                target.write(name, (part / name).read_bytes())
