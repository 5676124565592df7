"""`lockref doctor`: what is installed, what each absence disables, what shadows us, and what a store is worth."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from lockref.cli.jobs.shown.console import Console, printable
from lockref.cli.options import AS_JSON

if TYPE_CHECKING:
    from lockref.stores.probe.measured import Measurements


@click.command(name="doctor")
@click.option(
    "--store", metavar="URI", help="Measure this store as well: which conditions it keeps, alone and in races."
)
@AS_JSON
@click.pass_context
def command(ctx: click.Context, store: str | None, as_json: bool) -> int:
    """Tell what is installed and what each absence disables.

    \b
    lockref doctor --store 's3://bucket/prefix?endpoint=http://127.0.0.1:9000'

    --store writes small objects below lockref-doctor/ and removes them. It takes some seconds. Exit code 5: the
    store ignored a condition or could not be used, or something that lockref needs is missing.
    """
    from scenarios.backends.machine import examine
    from scenarios.backends.start import measure_thoroughly

    console = Console(ctx.obj, as_json=as_json)
    # A store that cannot be used is one error line, not a list with an error behind it.
    measured = measure_thoroughly(store, progress=console.step) if store is not None else None
    findings = examine()
    is_well = all(finding.status != "wrong" for finding in findings)
    is_fit = measured is None or not measured.ignored
    if as_json:
        document: dict[str, object] = {"ok": is_well and is_fit, "findings": [asdict(finding) for finding in findings]}
        if measured is not None:
            document["store"] = {"uri": store, "is_fit": is_fit, "measured": measured.facts()}
        console.document(document)
        return 0 if is_well and is_fit else 5
    marks = {"ok": ("✓", "good"), "absent": ("–", "dim"), "wrong": ("✗", "bad")}
    for finding in findings:
        mark, style = marks[finding.status]
        console.say(f"{mark} {finding.name:<22} {printable(finding.found)}", style=style)
        if finding.disables:
            console.say(
                f"    without it: {finding.disables}" if finding.status == "absent" else f"    {finding.disables}"
            )
    console.say("everything needed is there" if is_well else "something must be mended: see ✗ above")
    if measured is not None:
        _say_store(console, str(store), measured)
    return 0 if is_well and is_fit else 5


def _say_store(console: Console, uri: str, measured: Measurements) -> None:
    from lockref.clouds.uri import parse_store_uri

    marks = {"kept": ("✓", "good"), "refused": ("–", "dim"), "not_measured": ("–", "dim"), "ignored": ("✗", "bad")}
    console.say(f"the store {printable(str(parse_store_uri(uri)))} — {measured.latency}")
    if measured.credentials:
        console.say(f"– {measured.credentials}", style="dim")
    for status, line in measured.lines():
        mark, style = marks[status]
        console.say(f"{mark} {printable(line)}", style=style)
    for finding in measured.ignored:
        console.say(f"    {finding.condition.clause}: on such a store {finding.condition.harm}")
    if measured.ignored:
        console.say("do not use this store for locks", style="bad")
    else:
        console.say("it kept every condition of this test; a test cannot prove that it always does")
