"""One contention run of `bench` or `demo`: contend, give the account, write the folder."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from lockref.cli.results import say_results
from lockref.errors import BackendUnavailable
from lockref.history import history_digest
from reports.account import add_thresholds, check_line, summarised_results, write_run
from scenarios.backends import BACKENDS
from scenarios.definition.thresholds import judged_thresholds
from scenarios.worlds.contention import contend_on

if TYPE_CHECKING:
    from lockref.cli.console import Console
    from lockref.lab.loading import ProviderSpec
    from reports.formats.results import Results
    from scenarios.definition.schema import Scenario
    from scenarios.runs import RunFolder


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
    processes: int = 1,
    via: str = "native",
    folder: RunFolder,
    about: Mapping[str, object],
    console: Console,
    allowed: Collection[int] = (),
) -> Results:
    """Contend on `backend` (a name or a URI) and answer the judged results; history and results go to `folder`.

    Ctrl-C while the clients contend: what they did until then is written and told, then KeyboardInterrupt goes on.
    Errors: WorkersLost, with the results, if a worker process died; what `contend_on` raises.
    """
    done = contend_on(
        backend,
        scenario,
        spec,
        clients=contenders,
        duration_ns=for_ns,
        processes=processes,
        via=via,
        folder=folder.path,
        progress=lambda text: console.progress(text, force=True),
    )
    outcome = done.outcome
    results = summarised_results(
        done.summary,
        title=f"{scenario.name} on {backend if backend in BACKENDS else done.server} under {spec.name}",
        scenario=scenario.name,
        provider=spec.name,
        backend=done.server,
        provenance={
            **about,
            "backend": done.server,
            "backend_version": done.version,
            "contenders": contenders,
            "digest": history_digest(outcome.events),
        },
        again=check_line(folder.path),
    )
    results.capabilities = done.capabilities
    results.notices += done.store_notices
    add_thresholds(results, judged_thresholds(scenario.thresholds, outcome.events, outcome.runs))
    results.notices += done.run_notices
    write_run(folder.path, outcome.events, outcome.runs, results, allowed=allowed)
    if outcome.is_interrupted:
        say_results(console, results)
        console.say(f"what was finished is in {folder.path}", style="dim")
        raise KeyboardInterrupt
    if outcome.lost:
        raise WorkersLost(str(outcome.lost[0]), results)
    return results
