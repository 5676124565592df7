"""The architect's ten minutes: a store is probed, contended on, struck with faults, and shown on one page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockref.atomic_files import write_atomically
from lockref.cli.jobs.probing import probed
from lockref.cli.jobs.results import begin_run, contention_results
from lockref.errors import INTERRUPTED, BackendUnavailable, LockrefError
from lockref.lab.loading import ProviderSpec, load_provider
from reports.formats.exit_codes import code_of, worst
from reports.formats.fingerprint import as_json
from reports.html.evaluation import side_by_side, told, write_evaluation
from reports.html.fingerprint import page_of
from scenarios.backends import require_objects
from scenarios.definition.load import load_scenario
from scenarios.runs import provenance
from scenarios.worlds.contention import contend_on, contention_of

if TYPE_CHECKING:
    from lockref.cli.jobs.console import Console
    from reports.formats.results import Results
    from scenarios.definition.schema import Scenario
    from scenarios.runs import RunFolder
    from scenarios.worlds.processes.workers import LostWorker


def evaluate(
    console: Console,
    stores: Sequence[str],
    *,
    provider: str,
    crowds: Sequence[int],
    for_ns: int,
    probe_ns: int,
    rounds: int,
    faults: Sequence[str],
) -> int:
    """Evaluate each store, and write one page about all. Returns the worst exit code.

    crowds: numbers of clients; each gets a contention run of `for_ns`. probe_ns, rounds: as for `probe_stores`.
    faults: scenarios whose faults strike the wire; each gets a run.
    Errors: ConfigError for a bad URI, lock or scenario. If an error ends one store early, the page tells it.
    """
    for store in stores:
        require_objects(store)
    asked = _Asked(console, load_provider(provider), crowds, for_ns, probe_ns, rounds, [*map(load_scenario, faults)])
    evaluated, codes = [], []
    with begin_run("evaluate", provenance({"stores": list(stores), "provider": provider})) as folder:
        for number, store in enumerate(stores, 1):
            found, code = asked.of(store, folder.part(f"store-{number}"))
            evaluated.append(found)
            codes.append(code)
            if code == INTERRUPTED:
                break
        page = write_evaluation(evaluated, folder.path, compared=side_by_side(evaluated, folder.path))
        is_interrupted = INTERRUPTED in codes
        code = INTERRUPTED if is_interrupted else worst(codes)
        folder.describe(status="interrupted" if is_interrupted else "finished", exit_code=code)
    if console.as_json:
        console.document({"format": "lockref.evaluation/1", "exit_code": code, "stores": evaluated})
    if is_interrupted:
        console.say("interrupted: the page tells what was measured until then", style="head")
    console.say(f"page      {page}")
    return code


@dataclass(frozen=True, slots=True)
class _Contended:
    """One run, judged. lost: the worker processes that died in it; what the others recorded was judged all the same."""

    results: Results
    lost: Sequence[LostWorker]

    def require_whole(self) -> None:
        """Errors: BackendUnavailable for a lost worker. To be asked once the results are kept."""
        if self.lost:
            raise BackendUnavailable(str(self.lost[0]))


@dataclass(frozen=True, slots=True)
class _Asked:
    """The questions, which are the same for every store."""

    console: Console
    spec: ProviderSpec
    crowds: Sequence[int]
    lasting_ns: int
    probing_ns: int
    rounds: int
    faults: Sequence[Scenario]

    def of(self, store: str, folder: RunFolder) -> tuple[dict[str, Any], int]:
        """Evaluate one store: its part of the page, and its exit code. After an error, the results until then count."""
        self.console.say(f"\n{store}", style="head")
        found: dict[str, Any] = {"store": store, "probe": None, "contention": [], "faults": [], "ended": ""}
        found["asks_faults"] = bool(self.faults)
        codes = []
        try:
            found["probe"], code = self._probed(store, folder)
            codes.append(code)
            if found["probe"]["verdict"] == "unsafe":
                found["ended"] = "the probe found the store unsafe: no lock was put on it"
                return found, code
            if code == INTERRUPTED:
                found["ended"] = "interrupted"
                return found, code
            for crowd in self.crowds:
                done = self._contended(store, contention_of(crowd), folder.part(f"contenders-{crowd}"), crowd)
                found["contention"].append({"contenders": crowd, **told(done.results)})
                codes.append(code_of([done.results]))
                done.require_whole()
            for scenario in self.faults:
                done = self._contended(store, scenario, folder.part(scenario.name), None)
                found["faults"].append({"scenario": scenario.name, "about": scenario.about, **told(done.results)})
                codes.append(code_of([done.results]))
                done.require_whole()
        except LockrefError as error:
            found["ended"] = str(error)
            codes.append(error.exit_code)
        except KeyboardInterrupt:
            # What was measured until then is told, on the page, too.
            found["ended"] = "interrupted"
            return found, INTERRUPTED
        return found, worst(codes)

    def _probed(self, store: str, folder: RunFolder) -> tuple[dict[str, Any], int]:
        seen, code = probed(self.console, store, (), for_ns=self.probing_ns, rounds=self.rounds, required=[])
        write_atomically(folder.path / "fingerprint.json", as_json(seen))
        write_atomically(folder.path / "fingerprint.html", page_of([seen]))
        return seen.document(), code

    def _contended(self, store: str, scenario: Scenario, folder: RunFolder, crowd: int | None) -> _Contended:
        done = contend_on(
            store,
            scenario,
            self.spec,
            clients=crowd,
            duration_ns=None if crowd is None else self.lasting_ns,
            folder=folder.path,
            progress=self.console.step,
        )
        about = provenance({"scenario": scenario.name, "provider": self.spec.name, "backends": [store]})
        return _Contended(contention_results(self.console, done, folder, about=about), done.outcome.lost)
