"""The whole laboratory in under a minute.

One scenario in virtual time under Hudi's behaviour and under the hardened
lock; hundreds of threads on a real S3 server; both histories through Spark
into one page. Exit 0 means that the demonstration came out as it must: Hudi's
build breaks, the hardened one holds in both worlds. Exit 1: the hardened one
broke; 3: something that was to be shown did not happen. On a busy machine the
server may answer too seldom to show anything; then fewer threads contend for longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockref.cli.jobs.comparing import say_comparison
from lockref.cli.jobs.reporting import parts_of
from lockref.cli.jobs.shown.console import seed_progress
from lockref.cli.jobs.shown.results import account_of, begin_run, say_results, write_account
from lockref.java import find_java
from lockref.lab.loading import load_provider
from lockref.runtime import NS_PER_S
from reports.comparison.comparison import compare
from reports.comparison.subjects import open_subject
from reports.formats.exit_codes import HELD, INCONCLUSIVE, VIOLATED
from reports.html.comparison import write_comparison
from reports.page import write_report
from reports.spark.session import start_in_background
from scenarios.campaign import default_processes, run_campaign
from scenarios.definition.load import load_scenario
from scenarios.failures.failure_store import FailureStore
from scenarios.runs import provenance
from scenarios.worlds.contention import CROWD_MIN, attempts, contend_on

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console
    from lockref.lab.loading import ProviderSpec
    from reports.formats.results import Results
    from scenarios.definition.schema import Scenario
    from scenarios.runs import RunFolder

SCENARIO = "demo"
BASELINE_SEEDS = 100
BACKEND = "ministack"
KEPT_HISTORIES = 60
"""Histories of each campaign that go through Spark; the verdicts count all seeds."""


def demonstrate(console: Console, *, seeds: int, contenders: int, for_ns: int, no_spark: bool, no_server: bool) -> int:
    """Show it all; the exit code. seeds: for the hardened lock. contenders, for_ns: of the contention run."""
    about = provenance({"seeds": seeds, "contenders": contenders, "for": f"{for_ns / NS_PER_S:g}s"})
    with begin_run("demo", about) as folder:
        # Spark starts on one core while the simulator works on the other.
        spark = None if no_spark or find_java() is None else start_in_background(folder.path / "spark")
        scenario = load_scenario(SCENARIO)

        console.say("1  RFC-91's lock as Hudi 1.2 builds it, in virtual time", style="head")
        console.say("   a pause, a partition, lost replies, clocks that disagree", style="dim")
        baseline = _simulate(scenario, load_provider("hudi"), BASELINE_SEEDS, folder.part("1-hudi"), about, console)
        say_results(console, baseline)
        console.say("\n2  the same, hardened: wire-compatible with it", style="head")
        hardened = _simulate(scenario, load_provider("hardened"), seeds, folder.part("2-hardened"), about, console)
        say_results(console, hardened)
        console.say("\n   side by side", style="head")
        beside = compare([open_subject(folder.path / part) for part in ("1-hudi", "2-hardened")])
        write_comparison(beside, folder.path)
        say_comparison(console, beside)

        contended = [] if no_server else _contend(contenders, for_ns, folder, about, console)

        console.say("\n4  their histories through Spark" if spark else "\n4  the report", style="head")
        console.step("report")
        page = write_report(
            parts_of(folder.path),
            folder.path,
            title="lockref demo",
            spark=None if spark is None else spark.result(),
            provenance=about,
        )
        # An attempt that showed too little is made up for by a later one.
        verdicts = {each.verdict for each in (hardened, *contended[-1:])}
        is_as_promised = baseline.verdict == "violated" and verdicts == {"held"}
        code = HELD if is_as_promised else VIOLATED if "violated" in verdicts else INCONCLUSIVE
        folder.describe(status="finished", exit_code=code)
        console.say(f"\nreport    {page}")
        console.say(f"compared  {folder.path / 'comparison.html'}")
        console.say(f"figures   {folder.path / 'figures'}")
        console.say(f"results   {', '.join(str(path) for path in sorted(folder.path.glob('*/results.json')))}")
        for failure in baseline.failures[:1]:
            console.say(f"replay    {failure.replay}")
        if contended and contended[-1].verdict == "inconclusive":
            advice = f"end other programs, or ask for less, such as lockref demo --contenders {CROWD_MIN} --for 60s"
            console.say(f"the machine was too busy to show contention; nothing broke. To see it, {advice}", style="bad")
        elif not is_as_promised:
            console.say("the demonstration did not come out as it must: see above", style="bad")
        return code


def _contend(
    contenders: int, for_ns: int, folder: RunFolder, about: dict[str, object], console: Console
) -> list[Results]:
    """The attempts on a real server, the last of which showed enough, or was the smallest."""
    what = "threads, one lock, a list that is not thread-safe, a real S3 server"
    console.say(f"\n3  {contenders} {what}", style="head")
    asked_here = f"is the list still whole? {for_ns / NS_PER_S:g} s may be too short to give each thread a turn"
    console.say(f"   {asked_here}", style="dim")
    contended: list[Results] = []
    for number, (crowd, crowd_ns) in enumerate(attempts(clients=contenders, duration_ns=for_ns), 1):
        if number > 1:
            busy = "   too little happened: this machine is busy, or too slow for so many"
            console.say(f"{busy}. Again, with {crowd} threads for {crowd_ns / NS_PER_S:g} s", style="head")
        part = folder.part("3-contention" if number == 1 else f"3-contention-again-{number}")
        asked = (BACKEND, load_scenario("contention"), load_provider("hardened"))
        done = contend_on(*asked, clients=crowd, duration_ns=crowd_ns, folder=part.path, progress=console.step)
        contended.append(account_of(console, done, part, about=about))
        if contended[-1].verdict != "inconclusive":
            break
    return contended


def _simulate(
    scenario: Scenario, spec: ProviderSpec, seeds: int, folder: RunFolder, about: dict[str, object], console: Console
) -> Results:
    about = {**about, "arguments": {"scenario": scenario.name, "provider": spec.name, "seeds": seeds}}
    campaign = run_campaign(
        scenario,
        spec,
        range(1, seeds + 1),
        processes=default_processes(seeds),
        keep_runs=KEPT_HISTORIES,
        on_progress=seed_progress(console, seeds=seeds),
    )
    if campaign.is_interrupted:
        raise KeyboardInterrupt
    failures = FailureStore(scenario, spec, on_progress=console.progress)
    return write_account(campaign, folder, about=about, failures=failures)
