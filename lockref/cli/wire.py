"""`lockref wire`: any program, in any language, unmodified, watched and disturbed on the wire."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(name="wire")
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="-- PROGRAM [ARGS]…")
@click.option(
    "--backend", "-b", default="ministack", show_default=True, metavar="NAME|URI", help="A server or a store."
)
@click.option("--clients", "-n", type=click.IntRange(1, 64), default=4, show_default=True, help="Processes to start.")
@click.option(
    "--plan", metavar="SCENARIO|FILE", help="Whose faults strike: a scenario by name, or a file of that form."
)
@click.option("--protects", multiple=True, metavar="GLOB", help="Keys of what the lock protects, such as 'state/*'.")
@click.option(
    "--decoder", default="auto", show_default=True, metavar="NAME|json:…|FILE.py:NAME",
    help="What lock records say: hudi, opentofu, litestream, s3-locks, gcslock, exists:GLOB, json:owner=$.ID,…",
)  # fmt: skip
@click.option("--for", "lasting", default="60s", show_default=True, metavar="DURATION", help="What runs then is ended.")
@click.option("--template", "templates", multiple=True, type=_FILE, help="A file for each client, places filled in.")
@click.option("--env", "environment", multiple=True, metavar="NAME=VALUE", help="For the program; places filled in.")
@click.option("--validity", metavar="DURATION", help="How long a record keeps others out, where it does not say so.")
@click.option("--handover", default="30s", show_default=True, metavar="DURATION", help="When a free lock must be had.")
@click.option(
    "--clock-bound", default="500ms", show_default=True, metavar="DURATION", help="How far clocks may differ."
)
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, help="Draws what the plan leaves open.")
@click.option("--tls", is_flag=True, help="The endpoints speak TLS, under a certificate made for the run.")
@click.option("--show-output", is_flag=True, help="The program's output on standard error; it is kept nowhere.")
@click.option("--output", type=click.Path(path_type=Path), metavar="DIR", help="A copy of the run folder, for keeping.")
@click.option("--allow-exit", default="", metavar="CODES", help="Codes that count as success, such as 3,4; never 1.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.pass_context
def command(
    ctx: click.Context,
    program: tuple[str, ...],
    backend: str,
    clients: int,
    plan: str | None,
    protects: tuple[str, ...],
    decoder: str,
    lasting: str,
    templates: tuple[Path, ...],
    environment: tuple[str, ...],
    validity: str | None,
    handover: str,
    clock_bound: str,
    seed: int,
    tls: bool,
    show_output: bool,
    output: Path | None,
    allow_exit: str,
    as_json: bool,
) -> int:
    """Start PROGRAM once for each client, each with an endpoint of its own before the server; judge what passes there.

    \b
    lockref wire --clients 3 --protects 'state/*' -- python worker.py --endpoint {endpoint}
    lockref wire --plan pause.yaml --decoder json:owner=$.ID --template main.tf -- tofu apply

    In arguments, --env and templates {endpoint}, {port}, {client}, {number}, {bucket} and {folder} are filled in. The
    environment leads the SDKs of S3 and GCS to the endpoint, too. docs/wire.md tells what the wire shows and what not.
    """
    from lockref.cli.console import Console
    from lockref.cli.options import duration_ns, exit_codes
    from lockref.cli.results import begin_run, conclude, wire_results
    from lockref.errors import ConfigError
    from scenarios.backends import require_known
    from scenarios.definition.load import load_scenario
    from scenarios.runs import provenance
    from scenarios.wire.programs import find_program, parse_environment
    from scenarios.wire.run import run_wire
    from scenarios.wire.settings import WireSettings

    console = Console(ctx.obj, as_json=as_json)
    allowed = exit_codes(allow_exit)
    require_known(backend)
    if output is not None and output.exists():
        raise ConfigError(f"--output {output} exists already; name a new folder")
    settings = WireSettings(
        argv=find_program(program),
        clients=clients,
        plan=None if plan is None else load_scenario(plan),
        protects=protects,
        decoder=decoder,
        lasting_ns=duration_ns(lasting, "--for"),
        templates=templates,
        environment=parse_environment(environment),
        validity_ns=None if validity is None else duration_ns(validity, "--validity"),
        handover_ns=duration_ns(handover, "--handover"),
        drift_bound_ns=duration_ns(clock_bound, "--clock-bound"),
        seed=seed,
        is_shown=show_output,
        is_tls=tls,
    )
    # The program's arguments stay out of every file: they may hold what nobody else must read.
    name = Path(settings.argv[0]).name
    about = provenance(
        {"plan": plan, "clients": clients, "protects": list(protects), "decoder": decoder, "for": lasting}
    )
    about["command"] = f"lockref wire … -- {name} …"
    with begin_run("wire", about) as folder:
        done = run_wire(backend, settings, folder=folder.path, progress=console.step)
        results = wire_results(console, done, folder, about=about, allowed=allowed)
        code = conclude(console, folder, [results], allowed=allowed)
    if output is not None:
        shutil.copytree(folder.path, output)
    return code
