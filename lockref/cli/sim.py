"""`lockref sim`: scenarios over many seeds in virtual time."""

from __future__ import annotations

import time

import click

from lockref.cli.seeds import SEED_RANGE


@click.command(name="sim")
@click.argument("scenarios", nargs=-1, metavar="[SCENARIO]...")
@click.option("--all", "take_all", is_flag=True, help="Every scenario of the catalogue.")
@click.option("--provider", "-p", default="hardened", show_default=True, help="hudi, hardened, module:Class or file.py:Class.")
@click.option("--seeds", "--seed", type=SEED_RANGE, default="1..200", show_default=True, help="A..B, both included, or one.")
@click.option("--jobs", "-j", default="auto", show_default=True, help="Processes; auto: as many as pay.")
@click.option("--max-time", type=float, metavar="SECONDS", help="Begin no further batch of seeds after this.")
@click.option("--check-determinism", is_flag=True, help="Run every tenth seed twice and compare the traces.")
@click.option("--keep", "keep_runs", type=click.IntRange(0), default=200, show_default=True, help="Histories to keep.")
@click.option("--allow-exit", default="", metavar="3,4", help="Codes that count as success; never 1.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.pass_context
def command(
    ctx: click.Context,
    scenarios: tuple[str, ...],
    take_all: bool,
    provider: str,
    seeds: range,
    jobs: str,
    max_time: float | None,
    check_determinism: bool,
    keep_runs: int,
    allow_exit: str,
    as_json: bool,
) -> int:
    """Run SCENARIO (a file, or a name of the catalogue such as e08) over many seeds and judge every run.

    \b
    lockref sim e08 --provider hudi --seeds 1..500
    lockref sim my.yaml --provider ./my_lock.py:MyLock --seeds 1..100 --json
    """
    from lockref.cli.campaigns import code_of, results_of, say_results, write_campaign
    from lockref.cli.console import Console
    from lockref.cli.run_folder import RunFolder, provenance
    from lockref.providers import load_provider
    from scenarios.campaign import CampaignResult, default_processes, run_campaign
    from scenarios.load import catalogue, load_scenario

    console = Console(ctx.obj, as_json=as_json)
    names = [str(path) for path in catalogue()] if take_all else list(scenarios)
    if not names:
        raise click.UsageError("name a scenario, or give --all; `lockref scenario list` shows the catalogue")
    allowed = _codes(allow_exit)
    loaded = [load_scenario(name) for name in names]
    spec = load_provider(provider)
    processes = _processes(jobs, default_processes(len(seeds)))
    arguments = {
        "scenarios": names,
        "provider": provider,
        "seeds": f"{seeds.start}..{seeds.stop - 1}",
        "check_determinism": check_determinism,
    }
    about = provenance(arguments)
    folder = RunFolder.begin("sim", about)
    ends_at = None if max_time is None else time.monotonic() + max_time
    all_results, campaigns = [], []
    for scenario in loaded:

        def show(result: CampaignResult, name: str = scenario.name, began: float = time.monotonic()) -> None:
            rate = result.run_count / max(time.monotonic() - began, 1e-9)
            console.progress(
                f"{name}: {result.run_count:,} of {len(seeds):,} seeds, {rate:,.0f}/s, "
                f"{len(result.findings)} distinct failures"
            )

        campaign = run_campaign(
            scenario,
            spec,
            seeds,
            processes=processes,
            keep_runs=keep_runs,
            check_determinism_every=10 if check_determinism else 0,
            is_over=lambda: ends_at is not None and time.monotonic() > ends_at,
            on_progress=show,
        )
        results = results_of(campaign, spec, provenance={**about, "seeds": arguments["seeds"]})
        all_results.append(results)
        campaigns.append(campaign)
        part = folder if len(loaded) == 1 else folder.part(scenario.name)
        write_campaign(part, campaign, results)
        say_results(console, results)
        if campaign.is_interrupted:
            folder.describe({**about, "status": "interrupted", "verdict": results.verdict})
            raise KeyboardInterrupt
    code = code_of(all_results, allowed)
    folder.describe({**about, "status": "finished", "exit_code": code})
    if as_json:
        console.document(_document(all_results, campaigns, folder.path))
    else:
        console.say(f"results in {folder.path}", style="dim")
    return code


def _codes(text: str) -> list[int]:
    try:
        return [int(code) for code in text.split(",") if code.strip()]
    except ValueError:
        raise click.BadParameter(f"{text!r}; expected codes such as 3,4", param_hint="--allow-exit") from None


def _processes(text: str, automatic: int) -> int:
    if text == "auto":
        return automatic
    if not text.isdecimal() or not 1 <= int(text) <= 256:
        raise click.BadParameter(f"{text!r}; expected auto or 1 to 256", param_hint="--jobs")
    return int(text)


def _document(all_results: list[object], campaigns: list[object], folder: object) -> dict[str, object]:
    """The `--json` document: for one scenario its results, for several a summary and a part for each."""
    from lockref.cli.documents import campaign_document, joint_document

    if len(all_results) == 1:
        return campaign_document(all_results[0], campaigns[0], folder)
    return joint_document(all_results, campaigns, folder)
