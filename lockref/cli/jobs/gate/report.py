"""The page of a gate's run: its causes, explained anew, and the accounts of its scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from lockref.cli.jobs.shown.progress import Progress
from lockref.cli.jobs.shown.results import say_results
from lockref.errors import ConfigError
from reports.account import judged_if_damaged
from reports.formats.exit_codes import code_of
from reports.formats.results import Results, load_results
from reports.formats.text import short
from reports.html.gate_page import Judged, write_gate_page
from scenarios.campaigns.run_folders import seeds_in
from scenarios.failures.explained import explain
from scenarios.failures.stored_failures import FAILURES, is_own
from scenarios.runs import end_of, run_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockref.cli.jobs.shown.console import Console
    from reports.explanation.explanation import Explanation
    from reports.formats.gate_result import GateResult

EXPLAINED_MAX: Final = 8
"""Causes that are run again for their picture: each takes as long as one run, and most locks have fewer."""
_ORIGIN: Final = ("command", "arguments", "started_utc", "lockref", "commit", "python", "platform")
"""What `run.json` says about where a run comes from; the rest is about its process."""


def report_gate(
    console: Console, gate: GateResult, folder: Path, *, out: Path | None, title: str, about: Mapping[str, object]
) -> int:
    """Write the page of the gate in `folder`. The arguments are those of `reporting.report`; about: of this command.

    Returns 0 whatever verdict the page shows, or, where a record is not what was recorded, the code of what it shows.
    Errors: ConfigError for accounts that cannot be read.
    """
    target = out or folder
    names = [each.name for each in gate.scenarios if (folder / each.name / "results.json").is_file()]
    told = [*gate.stopping, *(group for group in gate.groups if group.accepted)][:EXPLAINED_MAX]
    progress = Progress(console, f"report: gate of {short(gate.provider)}", steps=len(names) + len(told))
    judged: dict[str, Judged] = {}
    damaged: list[Results] = []
    for name in names:
        part = folder / name
        results = load_results(part / "results.json")
        again = judged_if_damaged(part, provenance=about, ended=end_of(part), finished_seeds=seeds_in(part))
        notices: list[str] = []
        if again is not None:
            damaged.append(again)
            say_results(console, again)
            notices = [f"its record is not what was recorded: lockref check {part} says more", *again.notices]
        judged[name] = Judged(results=results, notices=notices)
        progress.done()
    explained: dict[str, Explanation | str] = {}
    for group in told:
        explained[group.id] = _explanation(group.id)
        progress.done()
    known = run_json(folder)
    page = write_gate_page(
        gate,
        judged,
        explained,
        target,
        title=title,
        provenance={name: known[name] for name in _ORIGIN if name in known},
    )
    console.say(f"report   {page}")
    return code_of(damaged)


def _explanation(failure: str) -> Explanation | str:
    """The explanation of a stored failure, which is run again; or why there is none."""
    path = FAILURES / f"{failure}.json"
    if not path.is_file():
        return f"no picture: {path} is not there, in which the gate stored this failure"
    try:
        return explain(path, may_import=is_own(path))
    except ConfigError as error:
        return f"no picture: {short(str(error), 300)}"
