"""One contention run on one real store: start it, contend, judge, write the folder."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from lockref.cli import interrupts
from lockref.cli.campaigns import check_line, judge_thresholds, say_results, tallied_results, write_run
from lockref.errors import BackendUnavailable
from lockref.runtime import NS_PER_S
from lockref.stores.uri import open_store
from reports.checks import judge
from reports.checks.summary import tally
from scenarios.backends import BACKENDS, resolve_backend
from scenarios.batch import history_digest
from scenarios.run import require_counts, require_undisturbed, run_real

if TYPE_CHECKING:
    from lockref.cli.console import Console
    from lockref.cli.run_folder import RunFolder
    from lockref.lab.loading import ProviderSpec
    from lockref.stores.probe.measured import Finding
    from reports.formats.results import Results
    from scenarios.backends import RunningBackend
    from scenarios.definition.schema import Scenario

EMULATOR_NOTICE = "emulator: this speaks for the lock's client logic, not for a cloud's durability or latency"


class WorkersLost(BackendUnavailable):
    """A worker process died during a run that was judged all the same. results: the verdict on what was recorded."""

    def __init__(self, message: str, results: Results) -> None:
        super().__init__(message)
        self.results = results


def contend(
    scenario: Scenario,
    spec: ProviderSpec,
    backend: str,
    *,
    contenders: int,
    for_ns: int,
    processes: int,
    via: str,
    folder: RunFolder,
    about: Mapping[str, object],
    console: Console,
    allowed: Collection[int] = (),
) -> Results:
    """Contend on `backend` (a name or a URI) and answer the judged results; history and results go to `folder`.

    Ctrl-C while the clients contend: what they did until then is written and told, then KeyboardInterrupt goes on.
    Errors: WorkersLost, with the results, if a worker process died; what `run_real` and `resolve_backend` raise.
    """
    require_undisturbed(scenario)
    require_counts(clients=contenders, processes=processes)
    if backend in BACKENDS:
        console.progress(f"starting {backend} (the first start on a machine installs it)", force=True)
    with resolve_backend(backend, via=via) as running:
        console.progress(
            f"{contenders} contenders, {processes} process{'es' if processes > 1 else ''}, "
            f"{for_ns / 1e9:g} s on {running.name} {running.version}".rstrip(),
            force=True,
        )
        outcome = run_real(
            scenario,
            spec,
            running.uri,
            clients=contenders,
            duration_ns=for_ns,
            processes=processes,
            folder=folder.path,
            raise_if_interrupted=interrupts.raise_if_heard,
        )
        version = running.version
    counted = tally(judge(outcome.events, outcome.runs), outcome.events, outcome.runs)
    results = tallied_results(
        counted,
        title=f"{scenario.name} on {backend if backend in BACKENDS else running.name} under {spec.name}",
        scenario=scenario.name,
        provider=spec.name,
        backend=running.name,
        provenance={
            **about,
            "backend": running.name,
            "backend_version": version,
            "contenders": contenders,
            "digest": history_digest(outcome.events),
        },
        again=check_line(folder.path),
    )
    results.capabilities = _capabilities(running)
    results.notices += [f"the store {finding.sentence}" for finding in _ignored(running)]
    if backend not in BACKENDS and running.measured and running.measured.credentials:
        results.notices.append(running.measured.credentials)
    judge_thresholds(scenario, outcome.events, outcome.runs, results)
    results.notices += [f"{worker}; its clients count as crashed from then on" for worker in outcome.lost]
    if outcome.unfinished:
        results.notices.append(
            f"{len(outcome.unfinished)} clients had not returned from their last call when the run was cut off"
        )
    if backend in BACKENDS:
        results.notices.append(EMULATOR_NOTICE)
    write_run(folder, outcome.events, outcome.runs, results, allowed=allowed)
    if outcome.is_interrupted:
        say_results(console, results)
        console.say(f"what was finished is in {folder.path}", style="dim")
        raise KeyboardInterrupt
    if outcome.lost:
        raise WorkersLost(str(outcome.lost[0]), results)
    return results


def _capabilities(running: RunningBackend) -> dict[str, object]:
    """The store's dialect, and what it did when it was asked before the run (H23)."""
    with closing(open_store(running.uri, request_timeout_ns=NS_PER_S)) as store:
        dialect = store.capabilities.dialect
    return {"dialect": dialect, "measured": running.measured.facts() if running.measured else {}}


def _ignored(running: RunningBackend) -> list[Finding]:
    """Conditions that this server ignored; they are known defects of it."""
    return running.measured.ignored if running.measured else []
