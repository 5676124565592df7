"""`lockref bench`: hundreds of threads contend for one lock on a real server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lockref.errors import BackendUnavailable, ConfigError, LockrefError

if TYPE_CHECKING:
    from reports.formats.results import Results


@click.command(name="bench")
@click.argument("scenario", default="contention")
@click.option(
    "--backend", "-b", "backends", multiple=True, default=("ministack",), show_default=True, metavar="NAME|URI",
    help="A server of `lockref backends`, or a store: memory:, file:///FOLDER, s3://…, gs://…, az://…, zookeeper://…",
)  # fmt: skip
@click.option("--provider", "-p", default="hardened", show_default=True, help="A name, module:Class or file.py:Class.")
@click.option("--contenders", type=click.IntRange(1, 1024), show_default="64", help="Threads in all.")
@click.option("--for", "lasting", show_default="10s", metavar="DURATION", help="Then no new cycle begins.")
@click.option("--processes", type=click.IntRange(1, 64), show_default="1", help="They share the threads.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Draws the faults, and what clients do."
)
@click.option(
    "--via", type=click.Choice(["native", "docker"]), default="native", show_default=True, help="How to start it."
)
@click.option(
    "--fingerprint", type=click.Path(dir_okay=False, path_type=Path), help="Vouches for the store: no measuring."
)
@click.option("--unsafe-store", is_flag=True, help="Use a store that ignores conditions all the same.")
@click.option("--allow-exit", default="", metavar="CODES", help="Codes that count as success, such as 3,4; never 1.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.pass_context
def command(
    ctx: click.Context,
    scenario: str,
    backends: tuple[str, ...],
    provider: str,
    contenders: int | None,
    lasting: str | None,
    processes: int | None,
    seed: int,
    via: str,
    fingerprint: Path | None,
    unsafe_store: bool,
    allow_exit: str,
    as_json: bool,
) -> int:
    """Run SCENARIO on one or more real servers, and judge the histories.

    \b
    lockref bench contention --backend ministack --contenders 256 --for 20s
    lockref bench contention --backend 's3://bucket/prefix?endpoint=http://127.0.0.1:9000' --processes 2
    lockref bench e11-create-reply-lost --backend ministack --provider hudi
    lockref bench z09-frozen-holder --backend zookeeper --provider helix-recipe

    A scenario's faults are carried out: each client is a process then, which is stopped, killed and started again, and
    its requests pass a proxy. Clocks cannot be set for one process, nor does a real store lie: a scenario that needs
    that is refused. A real run cannot be replayed; its history stays in the run folder for `lockref check`.
    """
    from lockref.cli.console import Console
    from lockref.cli.options import duration_ns, exit_codes
    from lockref.cli.results import begin_run, conclude, contention_results
    from lockref.lab.loading import load_provider
    from lockref.stores.admission import Admission
    from scenarios.backends import require_known
    from scenarios.definition.load import load_scenario
    from scenarios.runs import provenance
    from scenarios.worlds.contention import contend_on

    console = Console(ctx.obj, as_json=as_json)
    allowed = exit_codes(allow_exit)
    for backend in backends:
        require_known(backend)
    if fingerprint is not None and len(backends) > 1:
        raise ConfigError("--fingerprint is about one store; name one --backend")
    admission = Admission.by(fingerprint, allows_unsafe=unsafe_store)
    loaded = load_scenario(scenario)
    spec = load_provider(provider)
    for_ns = None if lasting is None else duration_ns(lasting, "--for")
    about = provenance({"scenario": scenario, "provider": provider, "backends": list(backends), "for": lasting})
    all_results: list[Results] = []
    failed: LockrefError | None = None
    with begin_run("bench", about) as folder:
        for number, backend in enumerate(backends):
            part = folder if len(backends) == 1 else folder.part(f"backend-{number + 1}")
            try:
                done = contend_on(
                    backend,
                    loaded,
                    spec,
                    clients=contenders,
                    duration_ns=for_ns,
                    processes=processes,
                    seed=seed,
                    via=via,
                    admission=admission,
                    folder=part.path,
                    progress=console.step,
                )
            except LockrefError as error:
                failed = error
                break
            all_results.append(contention_results(console, done, part, about=about, allowed=allowed))
            if done.outcome.lost:
                # What the others recorded was judged all the same.
                failed = BackendUnavailable(str(done.outcome.lost[0]))
                break
        return conclude(console, folder, all_results, allowed=allowed, failed=failed)
