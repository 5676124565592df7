"""Runs and stores side by side: told, and on a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lockref.cli.jobs.shown.results import begin_run
from lockref.errors import ConfigError
from lockref.stores.probe import fingerprint
from reports.comparison.comparison import Comparison, compare
from reports.comparison.subjects import Subject, fingerprint_subject, open_subject, repeated_subject, require_different
from reports.comparison.terminal import notices, terminal_table, unbroken
from reports.history_files import history_folders
from reports.html.comparison import write_comparison
from scenarios.runs import open_run, provenance, require_recorded

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console


def compare_runs(console: Console, runs: Sequence[str], *, repeats: int, out: Path | None) -> int:
    """Compare runs and fingerprints with the first of them.

    repeats: how many runs of each subject these are, in blocks A B A B. out: folder of the page; None for a new run
    folder.
    Errors: ConfigError for a run that does not exist or recorded nothing, for a file that is no fingerprint, and for
        runs that are no such blocks; KeyboardInterrupt after Ctrl-C, which leaves no comparison.
    """
    try:
        return _compared(console, runs, repeats=repeats, out=out)
    except KeyboardInterrupt:
        console.say("interrupted: no comparison was kept, and the runs are as they were; run it again", style="bad")
        raise


def _compared(console: Console, runs: Sequence[str], *, repeats: int, out: Path | None) -> int:
    subjects = [subject for name in runs for subject in _subjects(name)]
    if repeats > 1:
        subjects = _in_blocks(subjects, repeats)
    console.step(f"compare: {', '.join(str(subject.path) for subject in subjects)}")
    found = compare(subjects)
    if out is None:
        with begin_run("compare", provenance({"runs": list(runs)})) as made:
            page = write_comparison(found, made.path)
            made.describe(status="finished", exit_code=0)
    else:
        page = write_comparison(found, out)
    if console.as_json:
        console.document(found.model_dump(mode="json"))
    else:
        say_comparison(console, found)
        console.say(f"page      {page}", style="dim")
    return 0


def _in_blocks(runs: Sequence[Subject], repeats: int) -> list[Subject]:
    """The subjects of so many blocks, each of which has one run of every subject, in the same order."""
    if len(runs) % repeats:
        raise ConfigError(f"{len(runs)} runs are no {repeats} blocks of equally many: name all runs of each block")
    require_different(runs)
    each = len(runs) // repeats
    return [repeated_subject(dict(enumerate(runs[place::each], 1))) for place in range(each)]


def _subjects(name: str) -> list[Subject]:
    """The subjects that one argument names: the store of a fingerprint, or each part of a run."""
    path = Path(name)
    if path.suffix == ".json":
        return [fingerprint_subject(fingerprint.load(path), path)]
    folder = open_run(name).path
    require_recorded(folder)
    parts = history_folders(folder)
    if not parts:
        raise ConfigError(
            f"{name!r} holds no history: name a run of `bench`, `sim`, `wire` or `evaluate`, or a fingerprint"
        )
    return [open_subject(part) for part in parts]


def say_comparison(console: Console, found: Comparison) -> None:
    """The table for a terminal; greyed where a difference may be chance."""
    for line in notices(found):
        console.say(line)
    console.say_table(terminal_table(found))
    if kept := unbroken(found):
        console.say(f"broken in none of them: {', '.join(kept)}")
