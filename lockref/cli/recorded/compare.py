"""`lockref compare`: runs side by side, with what cannot be told from chance."""

from __future__ import annotations

from pathlib import Path

import click

from lockref.cli.options import AS_JSON, NEW_FOLDER


@click.command(name="compare")
@click.argument("runs", nargs=-1, required=True, metavar="RUN|FINGERPRINT...")
@click.option(
    "--repeats",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Runs of each subject, in blocks: A B A B. Six tell a factor of two if runs of one thing vary by up to 20 %.",
)
@click.option("--out", type=NEW_FOLDER, help="Folder; default a new run folder.")
@AS_JSON
@click.pass_context
def command(ctx: click.Context, runs: tuple[str, ...], repeats: int, out: Path | None, as_json: bool) -> int:
    """Put runs and stores side by side: run folders, their names, `latest`, or fingerprints that `lockref probe` wrote.

    A run with several parts counts as several.

    \b
    lockref bench --backend ministack --provider hardened --for 20s
    lockref bench --backend ministack --provider hudi --for 20s
    lockref compare 20261123T101500-bench 20261123T101530-bench

    The first is what the others are compared with. Each figure has its interval at 95 %; a difference that may be
    chance is greyed. One run of each cannot say which is faster: the same thing differs from run to run. Run each of
    them several times in turn, and name the runs in this order:

    lockref compare --repeats 6 A1 B1 A2 B2 A3 B3 A4 B4 A5 B5 A6 B6

    A comparison judges nothing, so it exits 0; the verdicts it shows are those of the runs.
    """
    from lockref.cli.jobs.comparing import compare_runs
    from lockref.cli.jobs.shown.console import Console

    return compare_runs(Console(ctx.obj, as_json=as_json), runs, repeats=repeats, out=out)
