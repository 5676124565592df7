"""A scenario on real servers, one after the other: their histories, judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lockref.cli.jobs.shown.results import account_of, begin_run, conclude, steps_of
from lockref.clouds.admission import Admission
from lockref.errors import ConfigError, LockrefError
from lockref.runtime import NS_PER_S
from scenarios.backends import require_known
from scenarios.definition.fleet import load_fleet
from scenarios.definition.load import load_scenario
from scenarios.runs import provenance
from scenarios.worlds.contention import arriving, clients_of, contend_on
from scenarios.worlds.real import require_feasible

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console
    from reports.formats.results import Results


def contend(
    console: Console,
    *,
    scenario: str,
    backends: Sequence[str],
    provider: str,
    contenders: int | None,
    for_ns: int | None,
    arrivals: float | None,
    processes: int | None,
    seed: int,
    via: str,
    fingerprint: Path | None,
    unsafe_store: bool,
    demands: tuple[str, ...],
    allowed: Sequence[int],
) -> int:
    """Run the scenario on each server or store, judge the runs, and store the results. Returns the exit code.

    contenders, for_ns, processes: None for the scenario's own value. arrivals: lock calls per second over all clients,
    for an open loop; None for the scenario's own. via: `native` or `docker`. fingerprint: of the
    store, which is then not measured. unsafe_store: use a store that ignores conditions. demands: further thresholds.
    allowed: exit codes that count as success.
    Errors: those of `contend_on`, if nothing was judged before the error; KeyboardInterrupt after Ctrl-C.
    """
    for backend in backends:
        require_known(backend)
    if fingerprint is not None and len(backends) > 1:
        raise ConfigError("--fingerprint is about one store; name one --backend")
    admission = Admission.by(fingerprint, allows_unsafe=unsafe_store)
    fleet = load_fleet(provider)
    loaded, spec = fleet.on(load_scenario(scenario).demanding(demands), contenders), fleet.spec
    if arrivals is not None:
        plan = require_feasible(loaded, seed=seed, stands_on=spec.stands_on)
        loaded = arriving(loaded, arrivals, clients=contenders or clients_of(loaded, plan))
    lasting = None if for_ns is None else f"{for_ns / NS_PER_S:g}s"
    about = provenance(
        {
            "scenario": scenario,
            "provider": provider,
            "backends": list(backends),
            "for": lasting,
            **({} if arrivals is None else {"arrivals_per_s": arrivals}),
            "demands": list(demands),
        }
    )
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
                    progress=steps_of(console, folder),
                )
            except LockrefError as error:
                failed = error
                break
            all_results.append(account_of(console, done, part, about=about, allowed=allowed))
            if done.error is not None:
                failed = done.error
                break
        return conclude(console, folder, all_results, allowed=allowed, failed=failed)
