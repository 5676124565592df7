"""`lockref scenario`: the catalogue, and checks on scenario files."""

from __future__ import annotations

import json
from pathlib import Path

import click

from lockref.cli.jobs.console import Console, printable
from lockref.cli.options import AS_JSON, NEW_FILE, SEED_RANGE

SEEDS = range(1, 31)
ABOUT_MAX = 400


@click.group(name="scenario")
def command() -> None:
    """List the catalogue; validate and test scenario files."""


@command.command(name="list")
@AS_JSON
@click.pass_context
def list_command(ctx: click.Context, as_json: bool) -> None:
    """The catalogue, with the verdict expected of each build."""
    from scenarios.definition.expectation_words import LEGEND, expectation_words
    from scenarios.definition.load import catalogue, load_scenario

    console = Console(ctx.obj, as_json=as_json)
    # The files that come with lockref are tested; a listing need not import the locks that they name.
    loaded = [(path, load_scenario(path, may_import=False)) for path in catalogue()]
    if as_json:
        console.document(
            {
                "scenarios": [
                    {"name": path.stem, "ids": scenario.ids, "about": scenario.about.strip(), "expect": scenario.expect}
                    for path, scenario in loaded
                ]
            }
        )
        return
    console.say(LEGEND, style="dim")
    for path, scenario in loaded:
        expected = ", ".join(f"{build} {expectation_words(scenario.expect[build])}" for build in scenario.expect)
        console.say(f"{path.stem:<34} {expected}")
        first = scenario.about.strip().split(". ")[0].rstrip(".")
        if first:
            console.say(f"    {printable(f'{first}.', limit=ABOUT_MAX)}", style="dim")


@command.command(name="validate")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--trust", is_flag=True, help="Also import the locks and programs that a file names.")
@click.pass_context
def validate_command(ctx: click.Context, files: tuple[str, ...], trust: bool) -> int:
    """Read scenario files and say what is wrong with them, with file, line and column. Nothing named is run."""
    from lockref.errors import ConfigError
    from scenarios.definition.contradictions import foreign_code
    from scenarios.definition.load import load_scenario

    console = Console(ctx.obj)
    wrong = 0
    for file in files:
        try:
            scenario = load_scenario(file, may_import=trust)
        except ConfigError as error:
            wrong += 1
            for line in str(error).splitlines():
                console.say(f"✗ {printable(line, limit=1000)}", style="bad")
        else:
            console.say(f"✓ {printable(file)}: {scenario.name}", style="good")
            for _, reference in () if trust else foreign_code(scenario):
                console.say(f"  not looked at: {printable(reference)}; --trust imports it")
    return 2 if wrong else 0


@command.command(name="test")
@click.argument("names", nargs=-1, metavar="[SCENARIO]...")
@click.option("--seeds", "--seed", type=SEED_RANGE, help="A..B, or one seed; default the pinned one, else 1..30.")
@click.pass_context
def test_command(ctx: click.Context, names: tuple[str, ...], seeds: range | None) -> int:
    """Hold each build to what scenarios expect of it.

    Runs SCENARIO (a file or a name; default the whole catalogue) under every build in its `expect`; exit 1 if one
    surprises, or if a fault of it changes nothing in 500 seeds.
    """
    from scenarios.definition.load import catalogue, load_scenario
    from scenarios.ineffective_faults import tested

    console = Console(ctx.obj)
    surprised = False
    for name in names or [path.stem for path in catalogue()]:
        scenario = load_scenario(name)
        for subject, found in tested(scenario, scenario.seeds(seeds, SEEDS)):
            surprised = surprised or bool(found)
            mark, style = ("✗", "bad") if found else ("✓", "good")
            console.say(f"{mark} {scenario.name:<34} {printable(subject)}", style=style)
            for surprise in found:
                console.say(f"    {printable(surprise)}")
    return 1 if surprised else 0


@command.command(name="schema")
@click.option("--output", "-o", type=NEW_FILE, help="File; default standard output.")
def schema_command(output: Path | None) -> None:
    """JSON Schema of a scenario file, for editors."""
    from lockref.atomic_files import write_atomically
    from scenarios.definition.schema import scenario_schema

    if output is not None and not output.parent.is_dir():
        raise click.BadParameter(f"there is no folder {output.parent}", param_hint="--output")
    text = json.dumps(scenario_schema(), indent=1, sort_keys=True) + "\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        write_atomically(output, text)
