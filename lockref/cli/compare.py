"""`lockref compare`: runs side by side, with what cannot be told from chance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from lockref.cli.console import Console
    from reports.comparison.comparison import Comparison
    from reports.comparison.subjects import Subject


@click.command(name="compare")
@click.argument("runs", nargs=-1, required=True, metavar="RUN|FINGERPRINT...")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder; default a new run folder.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.pass_context
def command(ctx: click.Context, runs: tuple[str, ...], out: Path | None, as_json: bool) -> int:
    """Put runs and stores side by side: run folders, their names, `latest`, or fingerprints that `lockref probe` wrote.

    A run with several parts counts as several.

    \b
    lockref bench --backend ministack --provider hardened --for 20s
    lockref bench --backend ministack --provider hudi --for 20s
    lockref compare 20261123T101500-bench 20261123T101530-bench

    The first is what the others are compared with. Each figure has its interval at 95 %; a difference that may be
    chance is greyed. A comparison judges nothing, so it exits 0; the verdicts it shows are those of the runs.
    """
    from lockref.cli.console import Console
    from lockref.cli.results import begin_run
    from reports.comparison.comparison import compare
    from reports.html.comparison import write_comparison
    from scenarios.runs import provenance

    console = Console(ctx.obj, as_json=as_json)
    subjects = [subject for name in runs for subject in _subjects(name)]
    console.step(f"compare: {', '.join(str(subject.path) for subject in subjects)}")
    found = compare(subjects)
    if out is None:
        with begin_run("compare", provenance({"runs": list(runs)})) as made:
            page = write_comparison(found, made.path)
            made.describe(status="finished", exit_code=0)
    else:
        page = write_comparison(found, out)
    if as_json:
        console.document(found.model_dump(mode="json"))
    else:
        say_comparison(console, found)
        console.say(f"page      {page}", style="dim")
    return 0


def _subjects(name: str) -> list[Subject]:
    """What an argument names: the store of a fingerprint, or each part of a run."""
    from lockref.stores.probe import fingerprint
    from reports.comparison.subjects import fingerprint_subject, open_subject
    from reports.page import history_folders
    from scenarios.runs import open_run, require_recorded

    path = Path(name)
    if path.suffix == ".json":
        return [fingerprint_subject(fingerprint.load(path), path)]
    folder = open_run(name).path
    require_recorded(folder)
    return [open_subject(part) for part in history_folders(folder)]


def say_comparison(console: Console, found: Comparison) -> None:
    """The table for a terminal; greyed where a difference may be chance."""
    from reports.formats.comparison import notices, terminal_table, unbroken

    for line in notices(found):
        console.say(line)
    console.say_table(terminal_table(found))
    if kept := unbroken(found):
        console.say(f"broken in none of them: {', '.join(kept)}")
