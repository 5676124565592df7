"""Any program on the wire to its store: its history, judged."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lockref.cli.jobs.shown.results import account_of, begin_run, conclude, steps_of
from lockref.errors import ConfigError
from lockref.runtime import NS_PER_S
from reports.checks.thresholds.limits import NEED_CALLS, parse_threshold
from scenarios.backends import require_known
from scenarios.definition.load import load_scenario
from scenarios.runs import provenance
from scenarios.wire.processes.programs import find_program, parse_environment
from scenarios.wire.run import run_wire
from scenarios.wire.settings import WireSettings

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console


def watch(
    console: Console,
    program: Sequence[str],
    *,
    backend: str,
    clients: int,
    plan: str | None,
    protects: tuple[str, ...],
    decoder: str,
    lasting_ns: int,
    templates: tuple[Path, ...],
    environment: Sequence[str],
    validity_ns: int | None,
    handover_ns: int,
    drift_bound_ns: int,
    seed: int,
    is_tls: bool,
    is_shown: bool,
    output: Path | None,
    demands: tuple[str, ...],
    allowed: Sequence[int],
) -> int:
    """Start the program once for each client, judge its requests, and store the results. Returns the exit code.

    program: its path and arguments. The others as in `WireSettings`; plan: a scenario by name or file. output: a copy
    of the run folder. allowed: exit codes that count as success.
    Errors: ConfigError for a program, plan or setting that cannot be used; those of `run_wire`.
    """
    require_known(backend)
    if output is not None and output.exists():
        raise ConfigError(f"--output {output} exists already; name a new folder")
    for text in demands:
        if parse_threshold(text).measure in NEED_CALLS:
            raise ConfigError(f"--demand {text!r}: requests on the wire do not show the calls of a program")
    settings = WireSettings(
        argv=find_program(program),
        clients=clients,
        plan=None if plan is None else load_scenario(plan),
        protects=protects,
        decoder=decoder,
        lasting_ns=lasting_ns,
        templates=templates,
        environment=parse_environment(environment),
        validity_ns=validity_ns,
        handover_ns=handover_ns,
        drift_bound_ns=drift_bound_ns,
        seed=seed,
        is_shown=is_shown,
        is_tls=is_tls,
        demands=demands,
    )
    # The program's arguments stay out of every file: they may hold secrets.
    name, lasting = Path(settings.argv[0]).name, f"{lasting_ns / NS_PER_S:g}s"
    about = provenance(
        {
            "plan": plan,
            "clients": clients,
            "protects": list(protects),
            "decoder": decoder,
            "for": lasting,
            "demands": list(demands),
        }
    )
    about["command"] = f"lockref wire … -- {name} …"
    with begin_run("wire", about) as folder:
        done = run_wire(backend, settings, folder=folder.path, progress=steps_of(console, folder))
        results = account_of(console, done, folder, about=about, allowed=allowed)
        code = conclude(console, folder, [results], allowed=allowed)
    if output is not None:
        shutil.copytree(folder.path, output)
    return code
