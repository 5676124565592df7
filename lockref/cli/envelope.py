"""`lockref envelope`: how long writers may pause and how far clocks may be apart before a lock breaks."""

from __future__ import annotations

from typing import Any

import click

from lockref.cli.options import (
    AS_JSON,
    NEW_FOLDER,
    SEED_RANGE,
    AxisText,
    Duration,
    on_executors,
    provider_names,
)


@click.command(name="envelope")
@click.option(
    "--provider", "-p", "providers", multiple=True, default=("hudi", "hardened"), show_default=True,
    help="A name, module:Class or file.py:Class; may be repeated: side by side in one figure.",
    shell_complete=provider_names,
)  # fmt: skip
@click.option(
    "--axis", "ranges", type=AxisText(), multiple=True, default=("pause=0s..20s", "offset=0s..2s"), show_default=True,
    help="NAME=LOW..HIGH[/STEP] for one or two of pause, offset, rate, latency, loss, validity; NAME=VALUE fixes one.",
)  # fmt: skip
@click.option("--seeds", type=SEED_RANGE, default="1..20", show_default=True, help="Runs of each cell: A..B.")
@on_executors
@click.option("--for", "for_ns", type=Duration(), help="After this time begin no further cell.")
@click.option("--out", type=NEW_FOLDER, help="Folder for the picture, the page and envelope.json; default the run's.")
@click.option(
    "--shrink-for", type=Duration(zero=True), default="20s", show_default=True,
    help="Time for shrinking failures, in all; 0s: none is shrunk.",
)  # fmt: skip
@AS_JSON
@click.pass_context
def command(ctx: click.Context, /, as_json: bool, **asked: Any) -> int:
    """Measure where a lock begins to break, and hold that against what it promises.

    \b
    lockref envelope --provider hudi --provider hardened --axis pause=0s..20s --axis offset=0s..2s
    lockref envelope --provider ./my_lock.py:MyLock --axis pause=0s..30s/1s --axis offset=200ms --seeds 1..100

    Exit 1: a clause broke where the lock promises to keep it. What breaks outside its promise is no failure.
    """
    from lockref.cli.jobs.envelope.surveying import survey_envelope
    from lockref.cli.jobs.shown.console import Console

    return survey_envelope(Console(ctx.obj, as_json=as_json), **asked)
