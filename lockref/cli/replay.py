"""`lockref replay`: re-run stored failures. FIXED, FAILED or ERROR for each."""

from __future__ import annotations

import click

from lockref.cli.options import AS_JSON


@click.command(name="replay")
@click.argument("names", nargs=-1, required=True, metavar="ID|FILE|FOLDER...")
@click.option("--provider", "-p", help="Another lock under the same plan: was it the plan or the lock?")
@click.option("--backend", "-b", metavar="NAME|URI", help="Try its plan on a real server instead of replaying it.")
@click.option("--trust", is_flag=True, help="Import the code that a FILE names: you trust whoever wrote it.")
@AS_JSON
@click.pass_context
def command(
    ctx: click.Context, names: tuple[str, ...], provider: str | None, backend: str | None, trust: bool, as_json: bool
) -> int:
    """Re-run stored failures: exit 1 while one still fails, 0 when all are fixed, 2 if one cannot be applied.

    What a FILE names as its lock is imported only with --trust, or replaced by --provider: importing is running. An ID
    means what a run stored below this folder.

    With --backend each failure's fault plan is carried out on a real server: exit 1 if a lock breaks there, 0 if the
    whole plan struck and it held, 3 if that proves nothing.
    """
    from lockref.cli.jobs.replaying import replay, retry
    from lockref.cli.jobs.shown.console import Console

    console = Console(ctx.obj, as_json=as_json)
    if backend is None:
        return replay(console, names, provider=provider, trust=trust)
    return retry(console, names, provider=provider, backend=backend, trust=trust)
