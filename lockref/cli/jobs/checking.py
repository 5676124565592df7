"""A recorded history, judged once more, part by part."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lockref.cli.jobs.shown.results import history_results, say_results
from reports.formats.document import document_of, joint_digest
from reports.formats.exit_codes import code_of
from reports.history_files import history_folders
from reports.pipeline.local_analysis import event_count
from scenarios.runs import open_run, require_recorded

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console
    from reports.formats.results import Results

NS_PER_EVENT: Final = 5_000
"""About what judging an event takes, its damage check included; only for telling what is left."""


def check_history(console: Console, history: Path, *, allowed: Sequence[int]) -> int:
    """Judge a file, a folder, or a run by its name. Returns the exit code. allowed: codes that count as success.

    Errors: HistoryUnreadable where there is no history, NothingRecorded for a run that left none, ConfigError for a
    name that is no run.
    """
    all_results = judged_parts(console, history)
    for results in all_results:
        say_results(console, results)
    if console.as_json:
        console.document(document_of(all_results, digest=joint_digest(all_results), folder=None))
    return code_of(all_results, allowed)


def judged_parts(console: Console, history: Path) -> list[Results]:
    """The account of each part of a file, a folder, or a run by its name. Raises what `check_history` raises."""
    if not history.exists():
        history = open_run(str(history)).path
    require_recorded(history)
    parts = history_folders(history) if history.is_dir() else []
    events = [event_count(path) for path in parts or [history]]
    all_results = []
    for number, path in enumerate(parts or [history]):
        which = f"part {number + 1} of {len(parts)}: " if len(parts) > 1 else ""
        left = sum(events[number:])
        console.step(f"check: {which}{events[number]:,} events", lasting_ns=left * NS_PER_EVENT)
        all_results.append(history_results(path))
    return all_results
