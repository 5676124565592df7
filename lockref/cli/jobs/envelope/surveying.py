"""The safety envelope of locks: surveyed, told, drawn, and judged by what each lock promises."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lockref.atomic_files import write_atomically
from lockref.cli.jobs.campaign.executors import SPARK_FOLDER, address_of, cluster_at, loss_teller
from lockref.cli.jobs.envelope.picture import table_of, write_pictures
from lockref.cli.jobs.shown.console import printable, rest_in_words
from lockref.cli.jobs.shown.results import begin_run, say_results, write_account
from lockref.errors import INTERRUPTED, ConfigError
from lockref.runtime import NS_PER_S
from lockref.strict_json import printable_json
from lockref.words import counted
from reports.checks.spec import CLAUSES
from reports.formats.exit_codes import HELD, INCONCLUSIVE, VIOLATED, worst
from reports.formats.terminal import BLOCKS_MAX
from scenarios import interrupts
from scenarios.campaign import run_campaigns
from scenarios.campaigns.orders import Order
from scenarios.definition.fleet import load_fleet
from scenarios.definition.mixture import inapplicable
from scenarios.envelope.axes import axes_of
from scenarios.envelope.contended import Point, name_at, scenario_at, text_at
from scenarios.envelope.document import document_of
from scenarios.envelope.sentences import answer
from scenarios.envelope.survey import Survey
from scenarios.failures.failure_store import FailureStore
from scenarios.failures.groups import FailureGroups
from scenarios.failures.shrink_budget import ShrinkBudget
from scenarios.runs import provenance

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console
    from lockref.lab.loading import ProviderSpec
    from reports.formats.results import Failure
    from scenarios.envelope.axes import Axis, AxisRange
    from scenarios.envelope.cells import Cell
    from scenarios.envelope.survey import Surveyed
    from scenarios.runs import RunFolder

ACCOUNTS_MAX = 3
"""Cells inside a promise whose failures are stored, for each lock."""


def survey_envelope(
    console: Console,
    *,
    providers: Sequence[str],
    ranges: Sequence[AxisRange],
    seeds: range,
    master: str | None,
    settings: Sequence[str],
    processes: int | None,
    for_ns: int | None,
    out: Path | None,
    shrink_for: int,
) -> int:
    """Survey the envelope of each lock; write picture, page and document. Returns the exit code.

    ranges: the axes as the user wrote them. master: of Spark; None for processes. settings: of Spark. processes: None
    for one on each core, where that is faster. for_ns: after so much real time no further cell begins. out: the folder
    of picture, page and document; None for the run's own. shrink_for: nanoseconds of real time for shrinking failures,
    in all.
    Errors: ConfigError for axes or locks that do not fit; BackendUnavailable for a cluster that is not there.
    """
    axes = _axes(ranges)
    address = address_of(master, settings)
    specs = _specs(providers, axes)
    about = provenance({"providers": list(providers), "axes": [_axis_text(axis) for axis in axes], "seeds": len(seeds)})
    with begin_run("envelope", about) as folder:
        target = folder.path if out is None else out
        cells = len(specs) * math.prod(len(axis.values) for axis in axes)
        console.step(f"{counted(cells, 'cell')} of {counted(len(seeds), 'seed')}, then the boundary")
        lost: list[str] = []
        with cluster_at(address, specs, work=folder.path / SPARK_FOLDER, tell=loss_teller(console, lost)) as cluster:
            survey = Survey(
                specs=specs,
                axes=axes,
                seeds=seeds,
                processes=processes,
                cluster=cluster,
                is_over=interrupts.time_limit(None if for_ns is None else for_ns / NS_PER_S),
                tell=_progress(console),
            )
            surveyed = survey.run()
        accounts = _Accounts(
            console=console,
            folder=folder,
            target=target,
            about=about,
            seeds=seeds,
            budget=ShrinkBudget(shrink_for),
            groups=FailureGroups(),
            is_interrupted=survey.is_interrupted,
        )
        failures = {found.spec.name: accounts.of(number, found) for number, found in enumerate(surveyed, 1)}
        ending = "interrupted" if survey.is_interrupted else "cut" if survey.is_cut else "finished"
        code = _code(surveyed, is_interrupted=survey.is_interrupted)
        notices = [*_notices(surveyed, ending), *lost]
        target.mkdir(parents=True, exist_ok=True)
        document = document_of(surveyed, axes, seeds, failures=failures, ending=ending, exit_code=code)
        write_atomically(target / "envelope.json", printable_json(json.dumps(document, indent=1)) + "\n")
        page = write_pictures(
            surveyed,
            axes,
            target,
            failures=failures,
            notices=notices,
            origin=f"{about['command']}, lockref {about['lockref']}",
        )
        folder.describe(status=ending if survey.is_interrupted else "finished", exit_code=code)
    _say(console, surveyed, axes, notices)
    console.say(f"page     {page}")
    console.say(f"picture  {page.with_suffix('.png')}")
    if console.as_json:
        console.document(document)
    return code


def _axes(ranges: Sequence[AxisRange]) -> tuple[Axis, ...]:
    try:
        return axes_of(ranges)
    except ValueError as error:
        raise ConfigError(f"--axis {error}") from None


def _axis_text(axis: Axis) -> str:
    return f"{axis.of.name}={axis.of.exact(axis.values[0])}..{axis.of.exact(axis.values[-1])}"


def _specs(providers: Sequence[str], axes: Sequence[Axis]) -> list[ProviderSpec]:
    """The locks. Raises ConfigError for one that does not load, or to which the scenario does not apply."""
    why = "an envelope holds one lock to its promise. Survey its locks one by one; `lockref gate` runs them all"
    specs = []
    for name in dict.fromkeys(providers):
        fleet = load_fleet(name)
        if fleet.members:
            raise ConfigError(f"provider {name!r} is a fleet: {why}")
        specs.append(fleet.spec)
    scenario = scenario_at(Point(**{axis.of.name: axis.values[0] for axis in axes}))
    for spec in specs:
        spec.require_virtual_time()
        if reason := inapplicable(scenario, spec):
            raise ConfigError(f"{spec.name} has no envelope of this kind: {reason}")
    return specs


def _progress(console: Console) -> Callable[[str, int, int], None]:
    """Tells how far a step of the survey is, and how long the rest of the step will take at the rate until now."""
    step_now, began = "", 0.0

    def tell(step: str, done: int, total: int) -> None:
        nonlocal step_now, began
        if step != step_now:
            # Its first cell is done: what it took with the start of the processes tells nothing of the others.
            step_now, began = step, time.monotonic()
        spent = time.monotonic() - began
        left = f", {rest_in_words(round(spent / (done - 1) * (total - done) * NS_PER_S))}" if 1 < done < total else ""
        console.progress(f"{step}: {done:,} of {counted(total, 'cell')}{left}")

    return tell


@dataclass(frozen=True, slots=True, kw_only=True)
class _Accounts:
    """Stores what broke inside a promise, says it with its replay line, and keeps each such cell as a scenario file.

    folder: of the run, for the accounts. target: for the files. budget: the command's time for shrinking.
    """

    console: Console
    folder: RunFolder
    target: Path
    about: Mapping[str, object]
    seeds: Sequence[int]
    budget: ShrinkBudget
    groups: FailureGroups
    is_interrupted: bool

    def of(self, number: int, found: Surveyed) -> list[dict[str, str]]:
        """The failures of one lock: clause, id, and the lines that repeat the run and its seed. number: of the lock."""
        told = []
        for cell, clauses in found.broken_promises[:ACCOUNTS_MAX]:
            (self.target / "cells").mkdir(parents=True, exist_ok=True)
            path = write_atomically(self.target / "cells" / f"{name_at(cell.point)}.yaml", text_at(cell.point))
            seed = min(cell.seeds[clause] for clause in clauses)
            again = f"lockref sim {path} --provider {found.spec.name} --seed {seed}"
            failures = self._stored(found.spec, cell, clauses, path, f"lock-{number}-{name_at(cell.point)}")
            told += [{"clause": each.clause, "id": each.id, "replay": each.replay, "again": again} for each in failures]
            if not failures:
                told.append({"clause": ", ".join(clauses), "id": "", "replay": "", "again": again})
        return told

    def _stored(
        self, spec: ProviderSpec, cell: Cell, clauses: Sequence[str], path: Path, part: str
    ) -> Sequence[Failure]:
        """The failures of one cell, which is run again: this time only what is promised there is demanded."""
        if self.is_interrupted:
            return ()
        scenario = scenario_at(cell.point)
        not_demanded = frozenset(CLAUSES) - frozenset(clauses)
        order = Order(scenario=scenario, spec=spec, seeds=self.seeds, keep=0, not_demanded=not_demanded)
        (result,) = run_campaigns([order], is_over=interrupts.time_limit(None))
        if result.is_interrupted:
            raise KeyboardInterrupt
        store = FailureStore(
            scenario,
            spec,
            source=str(path),
            budget=self.budget,
            groups=self.groups,
            on_progress=self.console.progress,
        )
        results = write_account(result, self.folder.part(part), about=self.about, failures=store)
        say_results(self.console, results, repeats=self.groups.repeats(results.failures, blocks_max=BLOCKS_MAX))
        return results.failures


def _code(surveyed: Sequence[Surveyed], *, is_interrupted: bool) -> int:
    codes = [HELD]
    for found in surveyed:
        if found.broken_promises:
            codes.append(VIOLATED)
        codes += [cell.error.exit_code for cell in found.cells if cell.error is not None]
        if not any(cell.is_judged for cell in found.cells):
            codes.append(INCONCLUSIVE)
    return INTERRUPTED if is_interrupted else worst(codes)


def _notices(surveyed: Sequence[Surveyed], ending: str) -> list[str]:
    told = []
    if ending != "finished":
        why = "interrupted" if ending == "interrupted" else "cut short: the time was over"
        told.append(f"{why}; cells that were not run are missing, and boundaries are as fine as the cells that were")
    for found in surveyed:
        errors = [str(cell.error) for cell in found.cells if cell.error is not None]
        if errors:
            told.append(f"{found.spec.name}: {counted(len(errors), 'cell')} could not be run: {printable(errors[0])}")
        unjudged = sum(not cell.is_judged for cell in found.cells) - len(errors)
        if unjudged:
            told.append(
                f"{found.spec.name}: {counted(unjudged, 'cell')} proved nothing (nobody was granted the lock, or "
                "nobody else wanted it); they are told as ?"
            )
    return told


def _say(console: Console, surveyed: Sequence[Surveyed], axes: Sequence[Axis], notices: Sequence[str]) -> None:
    for found in surveyed:
        console.say(f"\n{printable(found.spec.name)}", style="head")
        console.say_table(table_of(found, axes))
        style = "bad" if found.broken_promises else ""
        console.say(f"{printable(found.spec.name)}: {' '.join(answer(found, axes).sentences)}", style=style)
    for notice in notices:
        console.say(notice, style="head")
    console.say(
        "\n2/5: a safety clause broke in 2 of 5 runs; <3/5: in none, so in fewer than 3 of 5, at 95 %; "
        "?: the runs prove nothing; –: not run"
    )
    console.say()
