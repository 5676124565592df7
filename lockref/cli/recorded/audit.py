"""`lockref audit`: what Hudi's lock audit says of a table's writers."""

from __future__ import annotations

import click

from lockref.cli.options import ALLOWED, AS_JSON, Duration


@click.command(name="audit")
@click.argument("place", metavar="FOLDER|URI")
@click.option(
    "--drift", "drift_ns", type=Duration(zero=True), default="500ms", show_default=True,
    help="How far the clocks of two writers may differ.",
)  # fmt: skip
@click.option(
    "--margin", "margin_ns", type=Duration(zero=True), default="0s", show_default=True,
    help="How long before the end of its lease a holder stops. Hudi's holder: 0s; the hardened one: 500ms.",
)  # fmt: skip
@ALLOWED
@AS_JSON
@click.pass_context
def command(ctx: click.Context, place: str, drift_ns: int, margin_ns: int, allowed: list[int], as_json: bool) -> int:
    """Tell from the audit files of Hudi's storage lock whether two writers held it at once.

    \b
    lockref audit /data/table
    lockref audit s3a://bucket/table --drift 200ms --json

    FOLDER or URI is a table, its folder .hoodie/.locks, or that folder's audit. The files tell the wall clocks of their
    writers, so an overlap within --drift is a warning. Exit code 1: two writers overlapped, a holder was active after
    its lease, or a file is no audit file; 3: there is nothing to judge.
    """
    from lockref.cli.jobs.auditing import audit
    from lockref.cli.jobs.shown.console import Console

    return audit(
        Console(ctx.obj, as_json=as_json), place, drift_ns=drift_ns, margin_ns=margin_ns, allowed=frozenset(allowed)
    )
