"""`lockref sim`: scenarios over many seeds in virtual time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from lockref.cli.options import SEED_RANGE, seeds_for
from lockref.errors import LockrefError
from scenarios import interrupts

if TYPE_CHECKING:
    from lockref.cli.console import Console
    from lockref.lab.loading import ProviderSpec
    from reports.formats.results import Results
    from scenarios.definition.schema import Scenario
    from scenarios.runs import RunFolder

SEEDS = range(1, 201)
DETERMINISM_EVERY = 10
"""`--check-determinism` runs every tenth seed twice."""


@click.command(name="sim")
@click.argument("scenarios", nargs=-1, metavar="[SCENARIO]...")
@click.option("--all", "take_all", is_flag=True, help="The whole catalogue, each by what a lock can keep there.")
@click.option("--provider", "-p", default="hardened", show_default=True, help="A name, module:Class or file.py:Class.")
@click.option("--seeds", "--seed", type=SEED_RANGE, help="A..B, or one seed; default the pinned one, else 1..200.")
@click.option("--jobs", "-j", default="auto", show_default=True, help="Processes; auto: as many as pay.")
@click.option("--max-time", type=float, metavar="SECONDS", help="Begin no further batch of seeds after this.")
@click.option("--check-determinism", is_flag=True, help="Run every tenth seed twice and compare the traces.")
@click.option("--keep", "keep_runs", type=click.IntRange(0), default=200, show_default=True, help="Histories to keep.")
@click.option("--resume", is_flag=True, help="Go on with the unfinished run of this same command.")
@click.option("--allow-exit", default="", metavar="3,4", help="Codes that count as success; never 1.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.pass_context
def command(
    ctx: click.Context,
    scenarios: tuple[str, ...],
    take_all: bool,
    provider: str,
    seeds: range | None,
    jobs: str,
    max_time: float | None,
    check_determinism: bool,
    keep_runs: int,
    resume: bool,
    allow_exit: str,
    as_json: bool,
) -> int:
    """Run SCENARIO (a file, or a name of the catalogue such as e08) over many seeds and judge every run.

    \b
    lockref sim e08 --provider hudi --seeds 1..500
    lockref sim my.yaml --provider ./my_lock.py:MyLock --seeds 1..100 --json
    lockref sim swarm --seeds 1..20000 --resume    # after a kill or Ctrl-C: what was finished is not run again
    """
    from lockref.cli.console import Console, printable, seed_progress
    from lockref.cli.options import exit_codes
    from lockref.cli.results import campaign_results, conclude, say_results
    from lockref.history import batch_digest
    from lockref.lab.loading import load_provider
    from reports.account import add_thresholds, write_run
    from reports.checks.verdicts import counted
    from reports.history_files import CHUNKS
    from scenarios.campaign import default_processes, run_campaign
    from scenarios.checkpoint import Checkpoint, Fingerprint, Sources, remove_chunks, seeds_in
    from scenarios.definition.thresholds import judged_thresholds
    from scenarios.failures import FailureStore
    from scenarios.runs import provenance
    from scenarios.worlds.mixture import Mixture

    console = Console(ctx.obj, as_json=as_json)
    allowed = exit_codes(allow_exit)
    loaded = _chosen(scenarios, take_all=take_all)
    spec = load_provider(provider)
    sources = Sources.of(spec)
    processes = _processes(jobs)
    compare_every = DETERMINISM_EVERY if check_determinism else 0
    asked = "" if seeds is None else f"{seeds.start}..{seeds.stop - 1}"
    about = provenance(
        {
            "scenarios": list(loaded),
            "provider": provider,
            "seeds": asked,
            "keep": keep_runs,
            "check_determinism": check_determinism,
        }
    )
    ends_at = None if max_time is None else time.monotonic() + max_time

    def is_over() -> bool:
        interrupts.raise_if_heard()
        return ends_at is not None and time.monotonic() > ends_at

    all_results: list[Results] = []
    digests: list[str] = []
    skipped: dict[str, str] = {}
    errors: dict[str, str] = {}
    failed: LockrefError | None = None
    with _folder(about, resume=resume, console=console) as folder:
        for name, scenario in loaded.items():
            if misfit := Mixture(scenario, spec).misfit or _missing_promise(scenario, spec):
                skipped[scenario.name] = misfit
                console.say(f"NOT APPLICABLE {scenario.name} under {printable(spec.name)}: {printable(misfit)}")
                continue
            own_seeds = seeds_for(scenario, seeds, SEEDS)
            part = folder if len(loaded) == 1 else folder.part(scenario.name)
            checkpoint = Checkpoint(
                part.path / CHUNKS,
                Fingerprint.of(scenario, sources, own_seeds, keep_runs=keep_runs, compare_every=compare_every),
            )
            try:
                campaign = run_campaign(
                    scenario,
                    spec,
                    own_seeds,
                    processes=processes or default_processes(len(own_seeds)),
                    keep_runs=keep_runs,
                    check_determinism_every=compare_every,
                    is_over=is_over,
                    on_progress=seed_progress(console, scenario, len(own_seeds)),
                    checkpoint=checkpoint,
                    spared=scenario.spared if take_all else frozenset(),
                )
            except LockrefError as error:
                # A lock that fails in one scenario may still break its word in the next one.
                failed = failed or error
                errors[scenario.name] = str(error)
                if len(loaded) > 1:
                    console.say(
                        f"ERROR        {scenario.name}: {printable(str(error), limit=4000, keep_newlines=True)}",
                        style="bad",
                    )
                continue
            failures = FailureStore(scenario, spec, source=name)
            results = campaign_results(campaign, provenance=about, store_failure=failures.store)
            add_thresholds(results, judged_thresholds(scenario.thresholds, *campaign.kept))
            if campaign.compared:
                results.notices.append(
                    f"determinism: {counted(campaign.compared, 'seed')} run twice, event for event the same"
                )
            if campaign.resumed:
                results.notices.append(
                    f"resumed: {counted(campaign.resumed, 'seed')} had been run and judged before the interruption"
                )
            if scenario.spared and not take_all:
                results.notices.append(
                    f"the hardened lock is not known to keep {', '.join(sorted(scenario.spared))} here; "
                    "--all does not demand it of any lock"
                )
            all_results.append(results)
            digests.append(campaign.digest)
            write_run(part.path, *campaign.kept, results, allowed=allowed)
            say_results(console, results)
            if campaign.is_interrupted:
                folder.describe(verdict=results.verdict)
                done = seeds_in(folder.path)
                told = f"{counted(done, 'finished seed')} in {folder.path}; the same command with --resume goes on"
                console.say(told if done else f"nothing was finished: {folder.path}", style="dim")
                raise KeyboardInterrupt
        digest = digests[0] if len(digests) == 1 else batch_digest(digests)
        code = conclude(
            console, folder, all_results, digest=digest, allowed=allowed, failed=failed, skipped=skipped, errors=errors
        )
        remove_chunks(folder.path)
        return code


def _folder(about: Mapping[str, object], *, resume: bool, console: Console) -> RunFolder:
    """The folder to write to: that of the same command's unfinished run if it is to go on, else a new one."""
    from lockref.cli.results import begin_run
    from scenarios.checkpoint import seeds_in
    from scenarios.runs import RunFolder, unfinished_runs

    arguments = about["arguments"]
    assert isinstance(arguments, dict), "`provenance` keeps the arguments by name"
    done, earlier = max(((seeds_in(path), path) for path in unfinished_runs("sim", arguments)), default=(0, None))
    if earlier is not None and done:
        if resume:
            console.progress(f"going on in {earlier}: {done:,} seeds are done", force=True)
            return RunFolder.resume(earlier, about)
        console.progress(
            f"an unfinished run of this command is in {earlier}: {done:,} seeds are done; "
            "stop this one and add --resume to go on there",
            force=True,
        )
    elif resume:
        console.progress(
            "no unfinished run of this command has a finished piece: starting at the first seed", force=True
        )
    return begin_run("sim", about)


def _missing_promise(scenario: Scenario, spec: ProviderSpec) -> str:
    """Why the scenario is about nothing for this lock: what it is about, the lock does not declare to allow."""
    from scenarios.definition.schema import PROMISES

    return "; ".join(
        f"it is about {situation}, and the lock does not declare `{PROMISES[situation]}`"
        for situation in scenario.unasked_of(spec)
    )


def _chosen(names: Sequence[str], *, take_all: bool) -> dict[str, Scenario]:
    """The scenarios by the name they were asked for by; of the whole catalogue those where anything is demanded."""
    from reports.checks.spec import CLAUSES
    from scenarios.definition.load import catalogue, load_scenario

    if take_all and names:
        raise click.UsageError("--all takes the whole catalogue: leave it out, or leave out the names")
    if not (take_all or names):
        raise click.UsageError("name a scenario, or give --all; `lockref scenario list` shows the catalogue")
    if not take_all:
        return {name: load_scenario(name) for name in names}
    known = {path.stem: load_scenario(path.stem) for path in catalogue()}
    return {name: scenario for name, scenario in known.items() if scenario.spared < set(CLAUSES)}


def _processes(text: str) -> int | None:
    """The number asked for; None for auto."""
    if text == "auto":
        return None
    if not text.isdecimal() or not 1 <= int(text) <= 256:
        raise click.BadParameter(f"{text!r}; expected auto or 1 to 256", param_hint="--jobs")
    return int(text)
