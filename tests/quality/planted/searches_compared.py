"""Runs and CPU time until a planted bug is found, by how it is looked for, over all planted bugs.

    python -m tests.quality.planted.searches_compared FILE [CPU_S] [SECONDS] [WORD…]
    python -m tests.quality.planted.searches_compared --summary FILE

The first looks for each planted bug (whose name contains one of the WORDs) in each way, for at most CPU_S seconds of
processor time each (4 by default), and adds a line of JSON to FILE for each. What stands there is not looked for again,
unless it was missed within less time. It ends after SECONDS of real time (540 by default); the same line goes on.
The second prints Markdown: for each way how many bugs it found, runs and CPU seconds in the median of those, and CPU
seconds over all; then the bugs that the default (`swarm`) does not find first, or not at all.

None of the ways knows the bug. `swarm` are seeds of that scenario, `swarm pos` the same under drawn schedules; `faults`
places one fault at each request of the small world, then a second one; `spread` is what a gate places, a few of each;
`fuzz` starts from the small world. Any demanded clause counts.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from lockref.lab.loading import ProviderSpec, load_provider
from reports.checks.spec import CLAUSES, SAFETY
from scenarios.campaign import run_campaign
from scenarios.definition.load import load_scenario
from scenarios.definition.mixture import inapplicable
from scenarios.definition.schema import Scenario
from scenarios.search.explored import explore_seeds
from scenarios.search.fuzzing import fuzz
from scenarios.search.placing import search_placements
from scenarios.search.result import SearchResult
from scenarios.search.schedules import Exploration
from scenarios.search.worlds import small_world
from sim.explore.policies import parse_policy
from sim.kernel.streams import stream
from tests.quality.planted.pairs import PAIRED
from tests.quality.planted.registry import BUGS, HERE
from tests.quality.planted.scheduled_bugs import SCHEDULED

PIECE: Final = 10
DEFAULT: Final = "swarm"
WAYS: Final = (DEFAULT, "swarm pos", "faults", "spread", "fuzz")
IsOver = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Looked:
    """One bug, looked for in one way. run: of the first failure, from 1; None if none was found within `cpu_s`."""

    lock: str
    way: str
    run: int | None
    cpu_s: float


def by_seeds(scenario: Scenario, spec: ProviderSpec, is_over: IsOver, *, exploration: Exploration | None) -> int | None:
    """The first seed that breaks a demanded clause."""
    start = 1
    while not is_over():
        seeds = range(start, start + PIECE)
        not_demanded = scenario.not_demanded(spec.stands_on)
        if exploration is not None:
            # A schedule that is drawn makes everybody late: of waiting it says nothing.
            not_demanded |= set(CLAUSES).difference(SAFETY)
        if exploration is None:
            summary = run_campaign(scenario, spec, seeds, keep_runs=0, not_demanded=not_demanded, watched=0).summary
        else:
            summary = explore_seeds(scenario, spec, seeds, exploration, not_demanded=not_demanded).summary
        if summary.findings:
            return min(finding.run for finding in summary.findings)
        start += PIECE
    return None


def by_search(search: Callable[..., SearchResult], spec: ProviderSpec, is_over: IsOver, **more: object) -> int | None:
    """The first trial of a search of the small world that breaks a clause; the search ends with it."""
    found: list[int] = []

    def tell(result: SearchResult, *_: object) -> None:
        found.extend(finding.run for finding in result.summary.findings)

    search(small_world(), spec, is_over=lambda: bool(found) or is_over(), on_progress=tell, **more)
    return min(found) + 1 if found else None


def ways(spec: ProviderSpec) -> dict[str, Callable[[IsOver], int | None]]:
    """By name, each way to look for a bug."""
    swarm, placed = load_scenario("swarm"), partial(by_search, search_placements, spec, seeds=[1])
    drawn = Exploration.by(parse_policy("pos"))
    return {
        DEFAULT: partial(by_seeds, swarm, spec, exploration=None),
        "swarm pos": partial(by_seeds, swarm, spec, exploration=drawn),
        "faults": partial(placed, faults_max=2),
        "spread": partial(placed, faults_max=2, is_spread=True),
        "fuzz": partial(by_search, fuzz, spec),
    }


def look(lock: str, way: str, cpu_s: float) -> Looked:
    """Look for one bug in one way. An error of the lock ends the search, and finds it."""
    spec = load_provider(f"{HERE}.{lock}")
    began = time.process_time()
    run = ways(spec)[way](lambda: time.process_time() - began > cpu_s)
    return Looked(lock, way, run, round(time.process_time() - began, 2))


def read(file: Path) -> dict[tuple[str, str], Looked]:
    """What stands in a file, by lock and way; the last line of each."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return {(each.lock, each.way): each for each in (Looked(**json.loads(line)) for line in lines)}


def fill(file: Path, cpu_s: float, seconds: float, words: Iterable[str]) -> int:
    """Look for what the file has not; 1 if the time was over before all was looked for."""
    done, end, words = read(file), time.monotonic() + seconds, tuple(words)
    swarm = load_scenario("swarm")
    locks = [bug.lock for bug in (*PAIRED, *SCHEDULED, *BUGS)]
    # In no order of theirs: a file that is not full is a sample.
    stream(1, "bugs").shuffle(locks)
    for lock in locks:
        spec = load_provider(f"{HERE}.{lock}")
        if inapplicable(small_world(), spec) or inapplicable(swarm, spec):
            continue
        if words and not any(word in lock for word in words):
            continue
        for way in WAYS:
            known = done.get((lock, way))
            if known is not None and (known.run is not None or known.cpu_s >= cpu_s):
                continue
            if time.monotonic() > end:
                return 1
            found = look(lock, way, cpu_s)
            with file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(asdict(found)) + "\n")
    return 0


def tell(file: Path) -> None:
    """Print the summary of a file, over the bugs that were looked for in every way."""
    done = read(file)
    locks = [lock for lock in dict.fromkeys(lock for lock, _ in done) if all((lock, way) in done for way in WAYS)]
    _row("way", "found", "runs, median", "CPU s, median", "CPU s, in all")
    _row(*["---"] * 5)
    for way in WAYS:
        looked = [done[lock, way] for lock in locks]
        found = [each for each in looked if each.run is not None]
        runs = statistics.median(each.run for each in found if each.run is not None) if found else "-"
        cpu = f"{statistics.median(each.cpu_s for each in found):.1f}" if found else "-"
        _row(f"`{way}`", f"{len(found)} of {len(locks)}", runs, cpu, f"{sum(each.cpu_s for each in looked):.0f}")
    sys.stdout.write("\n")
    _row("bug", *WAYS)
    _row(*["---"] * (1 + len(WAYS)))
    for lock in locks:
        default, rest = done[lock, DEFAULT], [done[lock, way] for way in WAYS if way != DEFAULT]
        first = min((each.cpu_s for each in rest if each.run is not None), default=None)
        if default.run is None or (first is not None and first < default.cpu_s / 2):
            _row(f"`{lock}`", *(_cell(done[lock, way]) for way in WAYS))


def _cell(looked: Looked) -> str:
    return f"{'-' if looked.run is None else f'{looked.run:,}'} ({looked.cpu_s:.1f})"


def _row(*cells: Any) -> None:
    sys.stdout.write("| " + " | ".join(map(str, cells)) + " |\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """Look, or tell what was found."""
    if arguments[0] == "--summary":
        tell(Path(arguments[1]))
        return 0
    file, numbers, words = arguments[0], arguments[1:3], arguments[3:]
    cpu_s, seconds = ([float(text) for text in numbers] + [4.0, 540.0][len(numbers) :])[:2]
    return fill(Path(file), cpu_s, seconds, words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
