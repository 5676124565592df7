"""`lockref fuzz`: plans and worlds that showed something new are kept and changed, until the time is over."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lockref.cli.jobs.search.ending import account_of_search, end_search, tell_new
from lockref.cli.jobs.shown.console import printable
from lockref.cli.jobs.shown.results import begin_run
from lockref.errors import ConfigError
from lockref.host_processes import cores
from lockref.runtime import NS_PER_S
from scenarios import interrupts
from scenarios.definition.fleet import load_fleet
from scenarios.definition.load import load_scenario
from scenarios.definition.mixture import require_applicable
from scenarios.failures.groups import FailureGroups
from scenarios.failures.shrink_budget import ShrinkBudget
from scenarios.runs import provenance
from scenarios.search.fuzzing import fuzz
from scenarios.search.worlds import small_world

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console
    from reports.checks.summary import Finding
    from scenarios.search.corpus import Corpus
    from scenarios.search.result import SearchResult

TIME_NS = 60 * NS_PER_S
"""How long a fuzzing lasts that nobody has bounded."""


def fuzz_lock(
    console: Console,
    scenario: str | None,
    *,
    provider: str,
    max_time_ns: int | None,
    runs: int | None,
    seed: int,
    processes: int | None,
    out: Path | None,
    resume: bool,
    shrink_for: int,
    allowed: Sequence[int],
) -> int:
    """Fuzz one lock in one world, store and tell what broke. Returns the exit code.

    scenario: a file, or a name of the catalogue; None for a small world without faults. max_time_ns, runs: what ends
    it; a minute where neither is given. out: the folder of the corpus; None for one in the run's folder. resume: go on
    with the corpus in `out`.
    Errors: ConfigError for a scenario, a lock or a corpus that does not load; KeyboardInterrupt after Ctrl-C, when the
    corpus and what broke are stored.
    """
    if resume and out is None:
        raise ConfigError("--resume goes on with the corpus of a folder: name it with --out")
    fleet = load_fleet(provider)
    fleet.require_virtual_time()
    spec = fleet.spec
    world = fleet.on(small_world() if scenario is None else load_scenario(scenario))
    require_applicable({scenario or world.name: world}, spec)
    if max_time_ns is None and runs is None:
        max_time_ns = TIME_NS
    about = provenance({"scenario": scenario or world.name, "provider": provider, "seed": seed, "runs": runs})

    def tell(result: SearchResult, new: Sequence[Finding], corpus: Corpus) -> None:
        tell_new(console, result, new)
        console.progress(
            f"{printable(result.scenario)}: {result.summary.runs:,} runs, {len(corpus.entries):,} kept, "
            f"{len(corpus.features):,} features, {len(result.summary.findings):,} failures"
        )

    with begin_run("fuzz", about) as folder:
        result = fuzz(
            world,
            spec,
            seed=seed,
            runs_max=runs,
            processes=processes or cores(),
            folder=out or folder.path / "fuzz",
            is_resumed=resume,
            is_over=interrupts.time_limit(None if max_time_ns is None else max_time_ns / NS_PER_S),
            on_progress=tell,
        )
        results = []
        if result.summary.runs:
            results.append(
                account_of_search(
                    console, result, spec, folder,
                    about=about, allowed=allowed, budget=ShrinkBudget(shrink_for), groups=FailureGroups(),
                )
            )  # fmt: skip
        console.say(f"corpus in {out or folder.path / 'fuzz'}", style="dim")
        return end_search(console, folder, results, [result], allowed=allowed)
