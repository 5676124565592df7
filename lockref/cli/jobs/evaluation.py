"""The architect's ten minutes: a store is probed, contended on, struck with faults, and shown on one page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lockref.atomic_files import write_atomically
from lockref.cli.jobs.probing import probe_and_tell
from lockref.cli.jobs.results import account_of, begin_run
from lockref.errors import INTERRUPTED, LockrefError
from lockref.lab.loading import ProviderSpec, load_provider
from lockref.words import counted
from reports.formats.exit_codes import code_of, worst
from reports.formats.fingerprint import as_json
from reports.html.evaluation import contention_part, side_by_side, told, write_evaluation
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


def evaluate(
    console: Console,
    stores: Sequence[str],
    *,
    provider: str,
    crowds: Sequence[int],
    repeats: int,
    for_ns: int,
    probe_ns: int,
    rounds: int,
    faults: Sequence[str],
) -> int:
    """Evaluate each store, and write one page about all. Returns the worst exit code.

    crowds: numbers of clients; each gets a contention run of `for_ns`. repeats: how many of them, in blocks: in each,
    all stores take turns, and another one comes first, so that a slow hour slows all of them alike.
    probe_ns, rounds: as for `probe_stores`. faults: scenarios whose faults strike the wire; each gets a run.
    Errors: ConfigError for a bad URI, lock or scenario. If an error ends one store early, the page tells it.
    """
    for store in stores:
        require_objects(store)
    asked = _Asked(console, load_provider(provider), crowds, for_ns, probe_ns, rounds, [*map(load_scenario, faults)])
    with begin_run("evaluate", provenance({"stores": list(stores), "provider": provider})) as folder:
        evaluated = [_Store(store, folder.part(f"store-{number}")) for number, store in enumerate(stores, 1)]
        is_interrupted = asked.is_interrupted(evaluated, repeats)
        found = [store.told(asks_faults=bool(faults), crowds=crowds, repeats=repeats) for store in evaluated]
        page = write_evaluation(found, folder.path, compared=side_by_side(found, folder.path))
        code = INTERRUPTED if is_interrupted else worst(code for store in evaluated for code in store.codes)
        folder.describe(status="interrupted" if is_interrupted else "finished", exit_code=code)
    if console.as_json:
        console.document({"format": "lockref.evaluation/1", "exit_code": code, "stores": found})
    if is_interrupted:
        console.say("interrupted: the page tells what was measured until then", style="head")
        if repeats > 1:
            for part in found:
                console.say(f"{part['store']}: {part['repeats']['run']} of {repeats} repeats were run to their end")
    console.say(f"page      {page}")
    return code


@dataclass(slots=True)
class _Store:
    """The findings about one store, and its exit codes.

    ended: why the store is asked nothing more; empty until then.
    """

    uri: str
    folder: RunFolder
    probe: dict[str, Any] | None = None
    contention: list[dict[str, Any]] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    ended: str = ""

    def told(self, *, asks_faults: bool, crowds: Sequence[int], repeats: int) -> dict[str, Any]:
        """The store's part of the page and of the document. `repeats` there: how many were asked, and how many run."""
        runs = Counter(run["contenders"] for run in self.contention)
        return {
            "store": self.uri,
            "probe": self.probe,
            "contention": self.contention,
            "faults": self.faults,
            "ended": self.ended,
            "asks_faults": asks_faults,
            "repeats": {"asked": repeats, "run": min(runs[crowd] for crowd in crowds)},
        }


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

    def is_interrupted(self, stores: Sequence[_Store], repeats: int) -> bool:
        """Ask every store everything: the probe, the blocks of contention runs, the faults. True if Ctrl-C ended it.

        After an error a store is asked nothing more, and what was found until then counts.
        """
        try:
            for store in stores:
                self._ask(store, self._probe)
            for repeat in range(1, repeats + 1):
                first = (repeat - 1) % len(stores)
                for crowd in self.crowds:
                    for store in (*stores[first:], *stores[:first]):
                        self._ask(store, self._contended_by, crowd, repeat, repeats)
            for store in stores:
                for scenario in self.faults:
                    self._ask(store, self._struck_by, scenario)
        except KeyboardInterrupt:
            # What was measured until then is told, on the page, too.
            for store in stores:
                store.ended = store.ended or "interrupted"
            return True
        return False

    def _ask(self, store: _Store, question: Callable[..., None], *asked: object) -> None:
        if store.ended:
            return
        try:
            question(store, *asked)
        except LockrefError as error:
            store.ended = str(error)
            store.codes.append(error.exit_code)

    def _probe(self, store: _Store) -> None:
        """Raises KeyboardInterrupt if Ctrl-C cut the probe off; its fingerprint is kept."""
        self.console.say(f"\n{store.uri}", style="head")
        store.probe, code = self._probed(store.uri, store.folder)
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        store.codes.append(code)
        if store.probe["verdict"] == "unsafe":
            store.ended = "the probe found the store unsafe: no lock was put on it"

    def _probed(self, store: str, folder: RunFolder) -> tuple[dict[str, Any], int]:
        seen, code = probe_and_tell(self.console, store, (), for_ns=self.probing_ns, rounds=self.rounds, required=[])
        write_atomically(folder.path / "fingerprint.json", as_json(seen))
        write_atomically(folder.path / "fingerprint.html", page_of([seen]))
        return seen.document(), code

    def _contended_by(self, store: _Store, crowd: int, repeat: int, repeats: int) -> None:
        """One contention run, kept in what was found of the store. Errors: BackendUnavailable for a lost worker."""
        which = f", repeat {repeat} of {repeats}" if repeats > 1 else ""
        self.console.say(f"\n{store.uri}, {counted(crowd, 'client')}{which}", style="head")
        part = store.folder.part(contention_part(crowd, repeat))
        results, error = self._contended(store.uri, contention_of(crowd), part, crowd)
        store.contention.append({"contenders": crowd, "repeat": repeat, **told(results)})
        store.codes.append(code_of([results]))
        if error is not None:
            raise error

    def _struck_by(self, store: _Store, scenario: Scenario) -> None:
        """One run with faults on the wire. Errors: BackendUnavailable for a lost worker."""
        self.console.say(f"\n{store.uri}, {scenario.name}", style="head")
        results, error = self._contended(store.uri, scenario, store.folder.part(scenario.name), None)
        store.faults.append({"scenario": scenario.name, "about": scenario.about, **told(results)})
        store.codes.append(code_of([results]))
        if error is not None:
            raise error

    def _contended(
        self, store: str, scenario: Scenario, folder: RunFolder, crowd: int | None
    ) -> tuple[Results, LockrefError | None]:
        """The account of one run, and what took a part of it: the worker that died, where one did."""
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
        return account_of(self.console, done, folder, about=about), done.error
