"""`lockref scenario`: the catalogue, and checks on scenario files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from lockref.cli.jobs.shown.console import Console, printable
from lockref.cli.options import AS_JSON, NEW_FILE, SEED_RANGE, Group, scenario_names

SEEDS = range(1, 31)


@click.group(cls=Group, name="scenario")
def command() -> None:
    """List the catalogue; validate and test scenario files."""


@command.command(name="list")
@click.option("--id", "ids", multiple=True, metavar="ID", help="Only those about this item, such as E8.")
@click.option("--clause", "clauses", multiple=True, metavar="ID", help="Only those with a verdict on this clause.")
@click.option("--fault", "faults", multiple=True, metavar="KIND", help="Only those with such a fault, such as pause.")
@click.option("--build", "builds", multiple=True, metavar="NAME", help="Only those that expect something of this lock.")
@click.option("-k", "expression", default="", metavar="EXPR", help="Words with and, or, not; as for `lockref gate`.")
@AS_JSON
@click.pass_context
def list_command(ctx: click.Context, /, as_json: bool, **asked: Any) -> None:
    """List the catalogue, with the expected verdicts.

    \b
    lockref scenario list --fault pause --build hudi
    lockref scenario list -k 'renewal and not swarm'
    """
    from lockref.cli.jobs.cataloguing import list_scenarios

    list_scenarios(Console(ctx.obj, as_json=as_json), **asked)


@command.command(name="show")
@click.argument("name", metavar="SCENARIO", shell_complete=scenario_names)
@click.pass_context
def show_command(ctx: click.Context, name: str) -> None:
    """Show a scenario in words.

    SCENARIO is a file or a name. Told is what happens in it, what goes wrong, and what is expected of each build.
    """
    from lockref.cli.jobs.cataloguing import show_scenario

    show_scenario(Console(ctx.obj), name)


@command.command(name="validate")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--provider", "-p", default="", help="The lock to try each under; default our own in its `expect`.")
@click.option("--trust", is_flag=True, help="Also import and run the locks and programs that a file names.")
@click.pass_context
def validate_command(ctx: click.Context, files: tuple[str, ...], provider: str, trust: bool) -> int:
    """Say what is wrong with scenario files.

    Each complaint has its file, line and column. What a run would refuse is told as well.

    One seed is run, in virtual time. Code that a file names is neither imported nor run without --trust.

    \b
    lockref scenario validate mine.yaml --provider ./my_lock.py:MyLock
    """
    from lockref.cli.jobs.cataloguing import validate_scenarios

    return validate_scenarios(Console(ctx.obj), files, provider=provider, trust=trust)


@command.command(name="test")
@click.argument("names", nargs=-1, metavar="[SCENARIO]...")
@click.option("--seeds", "--seed", type=SEED_RANGE, help="A..B, or one seed; default the pinned one, else 1..30.")
@click.pass_context
def test_command(ctx: click.Context, names: tuple[str, ...], seeds: range | None) -> int:
    """Hold each build to what scenarios expect of it.

    Runs SCENARIO (a file or a name; default the whole catalogue) under every build in its `expect`; exit 1 if one
    surprises, or if a fault of it changes nothing in 500 seeds.
    """
    from lockref.cli.jobs.shown.progress import Progress
    from scenarios.definition.load import catalogue, load_scenario
    from scenarios.ineffective_faults import tested

    console = Console(ctx.obj)
    surprised = False
    progress = Progress(console, "scenario test", steps=len(names) or len(catalogue()))
    for name in names or [path.stem for path in catalogue()]:
        scenario = load_scenario(name)
        for subject, found in tested(scenario, scenario.seeds(seeds, SEEDS)):
            surprised = surprised or bool(found)
            mark, style = ("✗", "bad") if found else ("✓", "good")
            console.say(f"{mark} {scenario.name:<34} {printable(subject)}", style=style)
            for surprise in found:
                console.say(f"    {printable(surprise)}")
        progress.done()
    return 1 if surprised else 0


@command.command(name="schema")
@click.option("--output", "-o", type=NEW_FILE, help="File; default standard output.")
def schema_command(output: Path | None) -> None:
    """Print the JSON Schema of scenario files, for editors."""
    from lockref.atomic_files import write_atomically
    from scenarios.definition.schema import scenario_schema

    if output is not None and not output.parent.is_dir():
        raise click.BadParameter(f"there is no folder {output.parent}", param_hint="--output")
    # A line for each key and no indentation: the file is a third smaller, and a change is still seen line by line.
    text = json.dumps(scenario_schema(), indent=0, sort_keys=True) + "\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        write_atomically(output, text)
