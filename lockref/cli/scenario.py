"""`lockref scenario`: the catalogue, and checks on scenario files."""

from __future__ import annotations

import json
from pathlib import Path

import click

from lockref.cli.console import Console, printable
from lockref.cli.options import SEED_RANGE, seeds_for

SEEDS = range(1, 31)
ABOUT_MAX = 400


@click.group(name="scenario")
def command() -> None:
    """List the catalogue; validate and test scenario files."""


@command.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.pass_context
def list_command(ctx: click.Context, as_json: bool) -> None:
    """The catalogue, with the verdict expected of each build."""
    from scenarios.definition.load import catalogue, load_scenario

    console = Console(ctx.obj, as_json=as_json)
    loaded = [(path, load_scenario(path)) for path in catalogue()]
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
    console.say("expected of each build (clauses: docs/spec.md)", style="dim")
    for path, scenario in loaded:
        expected = ", ".join(f"{build} {_expectation(scenario.expect[build])}" for build in scenario.expect)
        console.say(f"{path.stem:<34} {expected}")
        first = scenario.about.strip().split(". ")[0].rstrip(".")
        if first:
            console.say(f"    {printable(f'{first}.', limit=ABOUT_MAX)}", style="dim")


def _expectation(expected: object) -> str:
    if not isinstance(expected, dict):
        return str(expected)
    by_verdict: dict[str, list[str]] = {}
    for clause, verdict in sorted(expected.items()):
        by_verdict.setdefault(str(verdict), []).append(clause)
    return "; ".join(f"{verdict} {' '.join(clauses)}" for verdict, clauses in sorted(by_verdict.items(), reverse=True))


@command.command(name="validate")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.pass_context
def validate_command(ctx: click.Context, files: tuple[str, ...]) -> int:
    """Read scenario files and say what is wrong with them, with file, line and column."""
    from lockref.errors import ConfigError
    from scenarios.definition.load import load_scenario

    console = Console(ctx.obj)
    wrong = 0
    for file in files:
        try:
            scenario = load_scenario(file)
        except ConfigError as error:
            wrong += 1
            console.say(f"✗ {printable(str(error), limit=4000)}", style="bad")
        else:
            console.say(f"✓ {printable(file)}: {scenario.name}", style="good")
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
    from lockref.lab.loading import load_provider
    from reports.checks import judge
    from reports.checks.summary import Summary
    from scenarios.batch import simulate_many
    from scenarios.definition.expectations import surprises
    from scenarios.definition.load import catalogue, load_scenario
    from scenarios.ineffective_faults import SEEDS_ENOUGH, Mattering, inert_faults

    console = Console(ctx.obj)
    surprised = False
    for name in names or [path.stem for path in catalogue()]:
        scenario = load_scenario(name)
        specs = {build: load_provider(build) for build in scenario.expect or ("hardened",)}
        mattering = Mattering(scenario)
        for build, spec in specs.items():
            batch = simulate_many(scenario, spec, seeds_for(scenario, seeds, SEEDS))
            mattering.add(batch.outcomes)
            counted = Summary.of(judge(batch.events, batch.runs), batch.events, batch.runs)
            found = list(surprises(scenario, build, counted))
            surprised = surprised or bool(found)
            console.say(f"{'✗' if found else '✓'} {scenario.name:<34} {build}", style="bad" if found else "good")
            for surprise in found:
                console.say(f"    {printable(surprise)}")
        for fault in inert_faults(scenario, list(specs.values()), known=mattering):
            surprised = True
            console.say(f"✗ {scenario.name:<34} {printable(fault)}", style="bad")
            console.say(f"    it changed nothing in {SEEDS_ENOUGH} seeds under {', '.join(specs)}")
    return 1 if surprised else 0


@command.command(name="schema")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="File; default standard output.")
def schema_command(output: Path | None) -> None:
    """JSON Schema of a scenario file, for editors."""
    from lockref.whole import write_whole
    from scenarios.definition.schema import scenario_schema

    if output is not None and not output.parent.is_dir():
        raise click.BadParameter(f"there is no folder {output.parent}", param_hint="--output")
    text = json.dumps(scenario_schema(), indent=1, sort_keys=True) + "\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        write_whole(output, text)
