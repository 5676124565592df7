"""Scenarios over many seeds in virtual time: their campaigns, one run folder, one verdict."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lockref.cli.jobs.shown.console import printable, seed_progress
from lockref.cli.jobs.shown.results import begin_run, conclude, say_error, say_results, write_account
from lockref.errors import ConfigError, LockrefError
from lockref.runtime import NS_PER_S
from lockref.words import counted
from reports.formats.exit_codes import INCONCLUSIVE, worst
from reports.formats.terminal import BLOCKS_MAX
from scenarios import interrupts
from scenarios.batch import CHUNK
from scenarios.campaign import DETERMINISM_EVERY, default_processes
from scenarios.campaigns.chunks import run_chunk
from scenarios.campaigns.collection import begin, collect
from scenarios.campaigns.identity import Keeping, identity_of
from scenarios.campaigns.orders import Order
from scenarios.campaigns.run_folders import expect_own_version, place_in, remove_chunks, seeds_in
from scenarios.campaigns.sources import Sources
from scenarios.definition.fleet import load_fleet
from scenarios.definition.load import is_own_file, judged_catalogue, load_scenario
from scenarios.definition.mixture import inapplicable
from scenarios.executor import executor_for
from scenarios.failures.failure_store import FailureStore
from scenarios.failures.groups import FailureGroups
from scenarios.failures.shrink_budget import ShrinkBudget
from scenarios.gate.abilities import ask_fleet
from scenarios.gate.demands import demands_on, not_demanded_of
from scenarios.gate.exploration import situation_counts
from scenarios.gate.observed import with_observed
from scenarios.runs import RunFolder, provenance, unfinished_runs

if TYPE_CHECKING:
    from pathlib import Path

    from lockref.cli.jobs.shown.console import Console
    from lockref.lab.loading import ProviderSpec
    from reports.formats.results import Results
    from scenarios.campaigns.result import CampaignResult
    from scenarios.definition.fleet import Fleet
    from scenarios.definition.schema import Scenario
    from scenarios.gate.abilities import Abilities
    from scenarios.gate.demands import Demands

SEEDS = range(1, 201)
"""Where the traces are compared, every tenth seed runs twice."""


def simulate(
    console: Console,
    scenarios: Sequence[str],
    *,
    take_all: bool,
    provider: str,
    seeds: range | None,
    processes: int | None,
    max_time_ns: int | None,
    check_determinism: bool,
    keep_runs: int,
    resume: bool,
    demands: tuple[str, ...],
    shrink_for: int,
    show_skipped: bool,
    allowed: Sequence[int],
) -> int:
    """Run each scenario over its seeds under one lock, judge the runs, and store the results. Returns the exit code.

    scenarios: files, or names of the catalogue. take_all: the whole catalogue; each scenario demands what a lock can
    keep there. seeds: default the scenario's pinned seed, else 1 to 200. processes: None for one on each core, where
    that is faster. max_time_ns: after so much time no further batch of seeds begins. keep_runs: histories to keep.
    resume: go on with the unfinished run of the same command. demands: further thresholds of every scenario.
    shrink_for: nanoseconds of real time for shrinking failures, in all; 0 to shrink none.
    show_skipped: tell each scenario of the whole catalogue that does not apply to the lock, and not their number alone.
    allowed: exit codes that count as success.
    Errors: ConfigError for a scenario or a lock that does not load; KeyboardInterrupt after Ctrl-C, when the finished
    seeds are stored.
    """
    fleet = load_fleet(provider)
    loaded = {name: fleet.on(each.demanding(demands)) for name, each in _chosen(scenarios, take_all=take_all).items()}
    fleet.require_virtual_time()
    spec = fleet.spec
    # Hashed before the first run: the lock's file may be edited while a long command runs, and its chunks then belong
    # to the code that was loaded.
    sources = Sources.of_each(loaded, spec)
    about = provenance(
        {
            "scenarios": list(loaded),
            "provider": provider,
            "seeds": "" if seeds is None else f"{seeds.start}..{seeds.stop - 1}",
            "keep": keep_runs,
            "check_determinism": check_determinism,
            "demands": list(demands),
        }
    )
    with _folder(about, resume=resume, console=console) as folder:
        parts = {name: folder if len(loaded) == 1 else folder.part(each.name) for name, each in loaded.items()}
        question = _question(console, loaded, fleet, take_all=take_all)
        skipped = {loaded[name].name: reason for name, reason in question.misfits.items() if not is_own_file(name)}
        if not take_all:
            _say_skipped(console, skipped, spec)
        accounts = _Accounts(
            console,
            about=about,
            allowed=allowed,
            are_several=len(loaded) > 1,
            budget=ShrinkBudget(shrink_for),
            is_verbose=console.verbose,
            errors=_refused(console, loaded, question.misfits, spec),
            abilities=question.abilities,
        )
        orders = {
            name: _begun(
                question.order(scenario, spec, seeds=seeds, keep_runs=keep_runs, check_determinism=check_determinism),
                sources[name],
                parts[name].path,
            )
            for name, scenario in loaded.items()
            if name not in question.misfits
        }
        with closing(_results(console, list(orders.values()), processes, max_time_ns)) as finished:
            abilities = _account(console, orders, finished, accounts, question, folder=folder, parts=parts)
        accounts.say_groups()
        skipped |= accounts.not_applicable
        if abilities is not None:
            accounts.doubt(abilities, {name: (loaded[name], each) for name, each in question.demands.items()})
        if take_all:
            _say_skipped_by_catalogue(console, skipped, spec, is_each_told=show_skipped or console.verbose)
        code = accounts.conclude(folder, skipped)
        # Last of all. Until the account stands whole in the folder, `--resume` may still need the chunks.
        remove_chunks(folder.path)
        return code


def _results(
    console: Console, orders: Sequence[Order], processes: int | None, max_time_ns: int | None
) -> Generator[CampaignResult, None, None]:
    """The results of all campaigns, run in processes of this machine. The arguments: see `simulate`."""
    # One pool for all campaigns, so that the last seeds of one scenario and the first of the next run side by side.
    # Results still come in the order of the scenarios, since a reader compares two outputs line by line.
    seeds = sum(len(order.seeds) for order in orders)
    return collect(
        orders,
        executor_for(processes or default_processes(seeds), sum(order.chunks for order in orders)),
        # Not sheltered: this command's own process is watched, and worker processes are.
        work=run_chunk,
        is_over=interrupts.time_limit(None if max_time_ns is None else max_time_ns / NS_PER_S),
        on_progress=seed_progress(console, seeds=seeds),
    )


def _begun(order: Order, sources: Sources, part: Path) -> Order:
    """The order whose chunks stand in the folder of its results, and are taken over where they do.

    Raises ConfigError for chunks of another campaign.
    """
    seeds = range(order.seeds[0], order.seeds[-1] + 1)
    keeping = Keeping(keep=order.keep, keep_failures=order.keep_failures, compare_every=order.compare_every)
    identity = identity_of(
        order.scenario, order.spec, sources, seeds, keeping, not_demanded=order.not_demanded, chunk_seeds=CHUNK
    )
    placed = replace(order, seeds=seeds, place=place_in(part), identity=identity.digest)
    begin(placed, identity, is_resumed=True, remedy="run again without --resume")
    return placed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """The question that one command puts to a lock.

    demands: by scenario, what is asked of such a lock there; empty unless the whole catalogue is run. misfits: by
    scenario, why it is not run. abilities: of the lock; None where nobody asked for them.
    """

    demands: Mapping[str, Demands]
    misfits: Mapping[str, str]
    abilities: Abilities | None

    def order(
        self, scenario: Scenario, spec: ProviderSpec, *, seeds: range | None, keep_runs: int, check_determinism: bool
    ) -> Order:
        """The runs of one scenario, as asked of such a lock. Arguments: see `simulate`."""
        able = self.abilities
        return Order(
            scenario=scenario,
            spec=spec,
            seeds=scenario.seeds(seeds, SEEDS),
            keep=keep_runs,
            compare_every=DETERMINISM_EVERY if check_determinism else 0,
            not_demanded=frozenset() if able is None else not_demanded_of(scenario, spec.stands_on, able.has),
        )


def _question(console: Console, loaded: Mapping[str, Scenario], fleet: Fleet, *, take_all: bool) -> _Question:
    abilities = _abilities(console, fleet) if take_all else None
    demands = {} if abilities is None else {name: demands_on(each, abilities.has) for name, each in loaded.items()}
    misfits = {name: each.not_applicable for name, each in demands.items() if not each.is_run}
    return _Question(demands=demands, misfits=misfits | _misfits(loaded, fleet.spec), abilities=abilities)


def _account(
    console: Console,
    orders: Mapping[str, Order],
    finished: Iterable[CampaignResult],
    accounts: _Accounts,
    question: _Question,
    *,
    folder: RunFolder,
    parts: Mapping[str, RunFolder],
) -> Abilities | None:
    """Take the campaigns as they finish; the abilities of the lock with all that they have shown.

    Raises KeyboardInterrupt after the account of a campaign that a Ctrl-C cut short.
    """
    abilities = question.abilities
    # Not strict: a Ctrl-C ends the results early, and the campaigns that are left have none.
    for (name, order), result in zip(orders.items(), finished, strict=False):
        if abilities is not None:
            abilities = abilities.seen_later(situation_counts(result), where=order.scenario.name)
        results = accounts.take(order, result, source=name, part=parts[name], demands=question.demands.get(name))
        # Heard while a failure was shrunk, or lost on its way: the account is written all the same.
        if results is not None and (result.is_interrupted or interrupts.was_heard()):
            folder.describe(verdict=results.whole)
            _say_interrupted(console, folder)
            raise KeyboardInterrupt
    return abilities


class _Accounts:
    """The account of each campaign of one command, or the error that ended it. results, errors: those so far.

    not_applicable: scenarios that ran, broke nothing, and are about something that the lock does not do.
    """

    def __init__(
        self,
        console: Console,
        *,
        about: Mapping[str, object],
        allowed: Sequence[int],
        are_several: bool,
        budget: ShrinkBudget,
        is_verbose: bool,
        errors: Mapping[str, LockrefError],
        abilities: Abilities | None = None,
    ) -> None:
        """abilities: of the lock, as it was asked; None where nobody asked."""
        self._console = console
        self._abilities = abilities
        self._about = about
        self._allowed = allowed
        self._are_several = are_several
        self._budget = budget
        self._is_verbose = is_verbose
        self._groups = FailureGroups()
        self._is_doubted = False
        self.not_applicable: dict[str, str] = {}
        self.results: list[Results] = []
        self.errors = dict(errors)

    def take(
        self,
        order: Order,
        result: CampaignResult,
        *,
        source: str,
        part: RunFolder,
        demands: Demands | None = None,
    ) -> Results | None:
        """Say and keep what came of a campaign; None where an error ended it. source: how the user named the scenario.

        part: the folder of its account. demands: what the scenario asks of such a lock; None for all that it says.
        """
        if result.error is not None:
            # A lock that fails in one scenario may still break its word in the next one.
            self.errors[result.scenario] = result.error
            if self._are_several:
                say_error(self._console, result.scenario, result.error)
            return None
        told = _notices(order, result)
        if demands is not None:
            # Asked again with what the runs have shown: `demands` itself says what the abilities alone leave out.
            demands = self._observed(order, result, demands)
            result.ask(order.scenario, order.spec, without=demands.without)
            if demands.note:
                told.append(f"not asked of this lock: {demands.note}")
            if demands.not_applicable and not result.summary.findings and not result.is_interrupted:
                self.not_applicable[order.scenario.name] = demands.not_applicable
        store = FailureStore(
            order.scenario,
            order.spec,
            source=source,
            is_in_a_hurry=result.is_interrupted or interrupts.was_heard(),
            budget=self._budget,
            groups=self._groups,
            on_progress=self._console.progress,
        )
        results = write_account(result, part, about=self._about, allowed=self._allowed, failures=store, notices=told)
        repeats = {} if self._is_verbose else self._groups.repeats(results.failures, blocks_max=BLOCKS_MAX)
        if order.scenario.name not in self.not_applicable:
            say_results(self._console, results, repeats=repeats)
            self.results.append(results)
        return results

    def _observed(self, order: Order, result: CampaignResult, demands: Demands) -> Demands:
        """The same, without what never came about because of what the lock does not do."""
        if self._abilities is None:
            return demands
        return with_observed(demands, order.scenario, self._abilities.has, result.summary)

    def doubt(self, abilities: Abilities, demands: Mapping[str, tuple[Scenario, Demands]]) -> None:
        """Take back what was said of scenarios that asked too little: the lock showed later what it can do."""
        late = [name for name, (scenario, each) in demands.items() if demands_on(scenario, abilities.has) != each]
        if late:
            self._is_doubted = True
            self._console.say(
                f"INCONCLUSIVE {counted(len(late), 'scenario')}, which asked less than this lock can do: "
                f"{', '.join(late)}",
                style="head",
            )

    def say_groups(self) -> None:
        """Tell the failures of one kind that several scenarios have shown."""
        for line in self._groups.lines():
            self._console.say(line)

    def conclude(self, folder: RunFolder, skipped: Mapping[str, str]) -> int:
        """End the command; its exit code. skipped: scenarios that do not apply to the lock, with the reason."""
        code = conclude(
            self._console,
            folder,
            self.results,
            allowed=self._allowed,
            failed=next(iter(self.errors.values()), None),
            skipped=skipped,
            errors={name: str(error) for name, error in self.errors.items()},
        )
        return worst((code, INCONCLUSIVE)) if self._is_doubted and INCONCLUSIVE not in self._allowed else code


def _notices(order: Order, result: CampaignResult) -> list[str]:
    """Clauses that were judged here, and that `--all` would demand of no lock of this kind."""
    scenario, stands_on = order.scenario, order.spec.stands_on
    not_kept = scenario.not_demanded(stands_on) & result.summary.judged
    if not not_kept - order.not_demanded:
        return []
    return [
        f"the {scenario.reference_of(stands_on)} lock is not known to keep {', '.join(sorted(not_kept))} here; "
        f"--all does not demand it of any lock of this kind{scenario.why_reference(stands_on)}"
    ]


def _chosen(names: Sequence[str], *, take_all: bool) -> dict[str, Scenario]:
    """The scenarios, by the name that the user gave. Of the whole catalogue, only those that demand some clause."""
    if take_all and names:
        raise ConfigError("--all takes the whole catalogue: leave it out, or leave out the names")
    if not (take_all or names):
        raise ConfigError("name a scenario, or give --all; `lockref scenario list` shows the catalogue")
    return judged_catalogue() if take_all else {name: load_scenario(name) for name in names}


def _abilities(console: Console, fleet: Fleet) -> Abilities:
    """The abilities of the lock, by which the whole catalogue asks what such a lock can keep."""
    console.step(f"asking {printable(fleet.spec.name)} what it can do")
    return ask_fleet(fleet.locks)


def _misfits(loaded: Mapping[str, Scenario], spec: ProviderSpec) -> dict[str, str]:
    """Why a scenario does not apply to the lock, by the name that the user gave."""
    return {name: reason for name, scenario in loaded.items() if (reason := inapplicable(scenario, spec))}


def _say_skipped(console: Console, skipped: Mapping[str, str], spec: ProviderSpec) -> None:
    """Tell each scenario of the catalogue that does not apply to the lock, with the reason. None is a failure."""
    for name, reason in skipped.items():
        console.say(f"NOT APPLICABLE {name} under {printable(spec.name)}: {printable(reason)}")


def _say_skipped_by_catalogue(
    console: Console, skipped: Mapping[str, str], spec: ProviderSpec, *, is_each_told: bool
) -> None:
    """Say the scenarios that do not apply, each or by their number alone: the catalogue has many for other locks."""
    if is_each_told:
        _say_skipped(console, skipped, spec)
    elif skipped:
        reasons = counted(len(set(skipped.values())), "reason")
        console.say(
            f"NOT APPLICABLE {counted(len(skipped), 'scenario')} under {printable(spec.name)}, for {reasons}: "
            "--show-skipped tells each"
        )


def _refused(
    console: Console, loaded: Mapping[str, Scenario], misfits: Mapping[str, str], spec: ProviderSpec
) -> dict[str, LockrefError]:
    """Files of the user that do not apply to the lock: nothing was judged, so the command may not end well."""
    errors: dict[str, LockrefError] = {
        loaded[name].name: ConfigError(f"{name}: does not apply to {spec.name}: {reason}")
        for name, reason in misfits.items()
        if is_own_file(name)
    }
    if len(loaded) > 1:
        for name, error in errors.items():
            say_error(console, name, error)
    return errors


def _say_interrupted(console: Console, folder: RunFolder) -> None:
    done = seeds_in(folder.path)
    told = f"{counted(done, 'finished seed')} in {folder.path}; the same command with --resume goes on"
    console.say(told if done else f"nothing was finished: {folder.path}", style="dim")


def _folder(about: Mapping[str, object], *, resume: bool, console: Console) -> RunFolder:
    """The folder to write to: the folder of the same command's unfinished run if it is resumed, else a new one."""
    arguments = about["arguments"]
    assert isinstance(arguments, dict), "`provenance` keeps the arguments by name"
    unfinished = unfinished_runs("sim", arguments)
    done, earlier = max(((seeds_in(path), path) for path in unfinished), default=(0, None))
    if resume and not done:
        for path in unfinished:
            expect_own_version(path)
    if earlier is not None and done:
        if resume:
            console.step(f"going on in {earlier}: {done:,} seeds are done")
            return RunFolder.resume(earlier, about)
        console.step(
            f"an unfinished run of this command is in {earlier}: {done:,} seeds are done; "
            "stop this one and add --resume to go on there"
        )
    elif resume:
        console.step("no unfinished run of this command has a finished piece: starting at the first seed")
    return begin_run("sim", about)
