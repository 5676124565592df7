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
    from lockref.cli.jobs.checking import check_history
    from lockref.cli.jobs.shown.console import Console

    return check_history(Console(ctx.obj, as_json=as_json), history, allowed=allowed)
