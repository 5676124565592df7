"""`lockref check`: judge any recorded history, of a simulation or of a real run."""

from __future__ import annotations

from pathlib import Path

import click

from lockref.cli.options import ALLOWED, AS_JSON


@click.command(name="check")
@click.argument("history", type=click.Path(path_type=Path))
@ALLOWED
@AS_JSON
@click.pass_context
def command(ctx: click.Context, history: Path, allowed: list[int], as_json: bool) -> int:
    """Judge HISTORY: a run folder, the name of one, `latest`, a .parquet or a .jsonl file.

    A history that was cut off is judged up to the cut, and a run that was killed, or is not over yet, as far as it
    has recorded. A run of several scenarios or servers is judged part by part.
    """
    from lockref.cli.jobs.console import Console
    from lockref.cli.jobs.results import history_results, say_results
    from reports.formats.document import document_of, joint_digest
    from reports.formats.exit_codes import code_of
    from reports.history_files import history_folders
    from scenarios.runs import open_run, require_recorded

    console = Console(ctx.obj, as_json=as_json)
    if not history.exists():
        history = open_run(str(history)).path
    require_recorded(history)
    parts = history_folders(history) if history.is_dir() else []
    all_results = [history_results(path) for path in parts or [history]]
    for results in all_results:
        say_results(console, results)
    if as_json:
        console.document(document_of(all_results, digest=joint_digest(all_results), folder=None))
    return code_of(all_results, allowed)
