"""The questions of an evaluation to each store, their order, and the progress.

All stores are probed first; then they take turns in blocks of contention runs; the faults come last, each with the lock
and then with `hudi`, which is known to break under some of them. What goes wrong with one store ends that store alone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from lockref.atomic_files import write_atomically
from lockref.cli.jobs.probing import probe_and_tell
from lockref.cli.jobs.shown.console import rest_in_words
from lockref.cli.jobs.shown.results import say_results, write_account
from lockref.clouds.admission import Admission
from lockref.clouds.uri import cloud_of, parse_store_uri
from lockref.errors import INTERRUPTED, BackendUnavailable, CapabilityMissing, LockrefError
from lockref.lab.loading import ProviderSpec
from lockref.runtime import NS_PER_S
from lockref.services import service_kind
from lockref.words import counted
from reports.comparison.carrying import NO, NOT_REACHED, UNKNOWN, Carrying, carrying
from reports.comparison.standing import in_text
from reports.comparison.store_runs import VIOLATED, Requests, count_requests, run_facts
from reports.formats.exit_codes import INCONCLUSIVE
from reports.formats.exit_codes import VIOLATED as VIOLATED_CODE
from reports.formats.fingerprint import as_json
from reports.html.evaluation import contention_part
from reports.html.fingerprint import page_of
from scenarios.backends import is_started_here
from scenarios.backends.hosts import host_of
from scenarios.definition.draw import draw_scenario
from scenarios.definition.fault_plan import draw_plan
from scenarios.evaluation.lock_requests import LockRequests
from scenarios.injection.feasible import require_reachable
from scenarios.probe.questions.latency import CYCLES
from scenarios.runs import provenance
from scenarios.worlds.contention import contend_on, contention_of

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console
    from reports.formats.results import Results
    from scenarios.definition.schema import Scenario
    from scenarios.evaluation.prices import Price
    from scenarios.runs import RunFolder
    from scenarios.worlds.contention import Contention
    from sim.faults.plan import FaultPlan

BASELINE: Final = "hudi"
"""The lock that the faults strike as well. It is known to break. Where it holds, the faults were too weak to tell."""

_HANDOFFS: Final = "handoff"
_PRICED: Final = {"s3": "s3", "gcs": "gs", "azure": "az", "dynamodb": "dynamodb"}
"""By the name of a cloud's protocol, the word of the list of prices."""

_MINUTE_NS: Final = 60 * NS_PER_S
_FAULT_NS: Final = 35 * NS_PER_S
_AROUND_NS: Final = 8 * NS_PER_S
"""The time of a run with faults, and the time around the other steps. Used until one step of the kind was measured."""


@dataclass(slots=True)
class EvaluatedStore:
    """One store: what was found, and how it ended.

    uri: as the user wrote it. carries: see `Carrying`. codes: exit codes of what ended it. ended: why the store is
    asked nothing more; empty until then. no_faults, no_baseline: why there are no such runs.
    """

    uri: str
    name: str
    folder: RunFolder
    price: Price | None = None
    bill: str = "none"
    probe: dict[str, Any] | None = None
    carries: Carrying = field(default_factory=lambda: Carrying(verdict=UNKNOWN, why="it was not asked"))
    contention: list[dict[str, Any]] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    ended: str = ""
    no_faults: str = ""
    no_baseline: str = ""

    def facts(self, *, crowds: Sequence[int], repeats: int) -> dict[str, Any]:
        """The store's part of the document. `repeats` there: how many were asked for, and how many run to their end."""
        runs = Counter(run["contenders"] for run in self.contention)
        return {
            "store": self.uri,
            "name": self.name,
            "carries": self.carries.facts(),
            "probe": self.probe,
            "contention": self.contention,
            "faults": self.faults,
            "ended": self.ended,
            "no_faults": self.no_faults,
            "no_baseline": self.no_baseline,
            "price": None if self.price is None else self.price.facts(),
            "bill": self.bill,
            "repeats": {"asked": repeats, "run": min(runs[crowd] for crowd in crowds)},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """The questions, which are the same for every store.

    lock: the lock asked about. requests: what it sends. baseline: the lock beside it; None without one. crowds: numbers
    of clients. lasting_ns: of a contention run. probing_ns, rounds: of the probe. faults: scenarios. limits: thresholds
    of the contention runs.
    """

    lock: ProviderSpec
    requests: LockRequests
    baseline: ProviderSpec | None
    crowds: Sequence[int]
    repeats: int
    lasting_ns: int
    probing_ns: int
    rounds: int
    faults: Sequence[Scenario]
    limits: tuple[str, ...]

    def admission_of(self, spec: ProviderSpec) -> Admission:
        """The rule by which a lock of this evaluation may use a store: what its own requests need."""
        if spec is not self.lock:
            return Admission(designs=("cas",))
        # A lock that sends no condition needs none to be kept.
        return Admission(designs=self.requests.designs, allows_unsafe=not self.requests.designs)


@dataclass(slots=True)
class Progress:
    """The steps of an evaluation: which one it is, and about how long the rest will take.

    planned: the steps that are left, each by its kind, and how long one of that kind takes, in nanoseconds, as long as
    none was seen.
    """

    console: Console
    planned: list[tuple[str, int]]
    done: int = 0
    _total: int = 0
    _seen: dict[str, list[int]] = field(default_factory=dict)
    _label: str = ""
    _began_ns: int = 0

    def __post_init__(self) -> None:
        self._total = len(self.planned)

    def left_ns(self) -> int:
        """About how long the steps that are left will take, with what is left of the present one."""
        expected = [self._expected(kind, planned_ns) for kind, planned_ns in self.planned]
        begun_ns = time.monotonic_ns() - self._began_ns if self._began_ns else 0
        return sum(expected) - min(begun_ns, expected[0] if expected else 0)

    def _expected(self, kind: str, planned_ns: int) -> int:
        seen = self._seen.get(kind)
        return sum(seen) // len(seen) if seen else planned_ns

    def begin(self, label: str) -> None:
        """A step begins. label: the store and what it is asked."""
        self._label, self._began_ns = label, time.monotonic_ns()
        self.step("")

    def step(self, text: str, /, *, lasting_ns: int = 0) -> None:
        """Tell what happens within the present step. See `Steps`."""
        self.console.step(self._words(text), lasting_ns=lasting_ns)

    def tell(self, text: str) -> None:
        """Tell what happens within the present step, where that changes often: some of it is left out."""
        self.console.progress(self._words(text))

    def _words(self, text: str) -> str:
        left_ns = self.left_ns()
        rest = f"about {left_ns / _MINUTE_NS:.0f} min left" if left_ns >= 2 * _MINUTE_NS else rest_in_words(left_ns)
        step = f"[{self.done + 1} of {self._total}, {rest} in all] {self._label}"
        return f"{step}: {text}" if text else step

    def end(self, *, took_ns: int, is_skipped: bool) -> None:
        """The present step is over. is_skipped: nothing was done, so that its duration says nothing."""
        kind, _ = self.planned.pop(0)
        self.done, self._began_ns = self.done + 1, 0
        if not is_skipped:
            self._seen.setdefault(kind, []).append(took_ns)


class Evaluation:
    """The steps of an evaluation, in their order: the probes, the blocks of contention runs, the faults."""

    def __init__(self, console: Console, questions: Questions) -> None:
        self._console = console
        self._questions = questions
        self._progress = Progress(console, [])

    def run(self, stores: Sequence[EvaluatedStore]) -> bool:
        """Take every step at every store, and keep in each store what was found. True if Ctrl-C ended it.

        After an error a store is asked nothing more, and what was found until then counts.
        """
        questions = self._questions
        struck = [store for store in stores if self._is_struck(store)]
        self._progress = Progress(self._console, self._plan(len(stores), struck))
        try:
            for store in stores:
                self._ask(store, "probe", self._probe)
            for repeat in range(1, questions.repeats + 1):
                first = (repeat - 1) % len(stores)
                for crowd in questions.crowds:
                    for store in (*stores[first:], *stores[:first]):
                        which = f", repeat {repeat} of {questions.repeats}" if questions.repeats > 1 else ""
                        self._ask(store, f"{counted(crowd, 'client')}{which}", self._contended_by, crowd, repeat)
            for store in struck:
                for scenario in questions.faults:
                    self._ask(store, scenario.name, self._struck_by, scenario)
        except KeyboardInterrupt:
            # What was measured until then is told, on the page, too.
            for store in stores:
                store.ended = store.ended or "interrupted"
            return True
        return False

    def _plan(self, stores: int, struck: Sequence[EvaluatedStore]) -> list[tuple[str, int]]:
        """The steps in order, with their kinds and times. struck: the stores whose wire can be struck."""
        questions = self._questions
        locks = 1 if questions.baseline is None else 2
        contention = [
            (f"{crowd} clients", questions.lasting_ns + _AROUND_NS)
            for _ in range(questions.repeats) for crowd in questions.crowds for _ in range(stores)
        ]  # fmt: skip
        faults = [(scenario.name, locks * _FAULT_NS) for _ in struck for scenario in questions.faults]
        return [*[("probe", questions.probing_ns + _AROUND_NS)] * stores, *contention, *faults]

    def _is_struck(self, store: EvaluatedStore) -> bool:
        """Can the faults strike this store's wire? If not, the reason is kept."""
        if not is_started_here(store.uri):
            try:
                for scenario in self._questions.faults:
                    require_reachable(_plan_of(scenario), parse_store_uri(store.uri))
            except CapabilityMissing as error:
                store.no_faults = str(error)
        return not store.no_faults

    def _ask(self, store: EvaluatedStore, label: str, question: Callable[..., None], *about: object) -> None:
        began_ns = time.monotonic_ns()
        is_skipped = bool(store.ended) or store.carries.verdict in (NO, NOT_REACHED)
        if not is_skipped:
            self._progress.begin(f"{in_text(store.name)}, {label}")
            try:
                question(store, *about)
            except LockrefError as error:
                store.ended = str(error)
                store.codes.append(error.exit_code)
        self._progress.end(took_ns=time.monotonic_ns() - began_ns, is_skipped=is_skipped)

    def _probe(self, store: EvaluatedStore) -> None:
        """Raises KeyboardInterrupt if Ctrl-C cut the probe off; its fingerprint is kept."""
        try:
            _require_kind(store.uri, self._questions.lock)
            store.probe, code, store.carries = self._probed(store)
        except BackendUnavailable as error:
            store.carries = Carrying(verdict=NOT_REACHED, why=str(error))
            store.codes.append(error.exit_code)
            return
        except CapabilityMissing as error:
            store.carries = Carrying(verdict=NO, why=str(error))
            store.codes.append(error.exit_code)
            return
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        if store.carries.verdict == NO:
            store.codes.append(VIOLATED_CODE if store.carries.is_unsafe else INCONCLUSIVE)
        if store.carries.verdict == NOT_REACHED:
            self._say(f"{in_text(store.name)} was not reached: {store.carries.why}", "bad")
            return
        self._say(f"{in_text(store.name)} can carry the lock: {store.carries.verdict}"
                  f"{f' ({store.carries.why})' if store.carries.why else ''}")  # fmt: skip

    def _probed(self, store: EvaluatedStore) -> tuple[dict[str, Any] | None, int, Carrying]:
        questions = self._questions
        found, code = probe_and_tell(
            self._console, store.uri, (), for_ns=questions.probing_ns, rounds=questions.rounds, required=[],
            latency_cycles=CYCLES, is_told=self._console.verbose, stands_on=questions.lock.stands_on,
            progress=self._progress.tell,
        )  # fmt: skip
        write_atomically(store.folder.path / "fingerprint.json", as_json(found))
        write_atomically(store.folder.path / "fingerprint.html", page_of([found]))
        if code == BackendUnavailable.exit_code:
            return found.document(), code, Carrying(verdict=NOT_REACHED, why=found.ended)
        return found.document(), code, carrying(found, questions.requests.designs)

    def _contended_by(self, store: EvaluatedStore, crowd: int, repeat: int) -> None:
        """One contention run, kept in what was found of the store. Errors: BackendUnavailable for a lost worker."""
        # One client alone hands nothing off.
        limits = [text for text in self._questions.limits if crowd > 1 or not text.startswith(_HANDOFFS)]
        part = store.folder.part(contention_part(crowd, repeat))
        scenario = contention_of(crowd).demanding(limits)
        results, requests, error = self._contended(store, scenario, self._questions.lock, part, crowd)
        run = {"contenders": crowd, "repeat": repeat, **run_facts(results, requests)}
        store.contention.append(run)
        self._say_run(f"{in_text(store.name)}, {counted(crowd, 'client')}", run)
        if error is not None:
            raise error

    def _struck_by(self, store: EvaluatedStore, scenario: Scenario) -> None:
        """One scenario with faults, under the lock and then under the baseline. Errors: as `_contended_by`."""
        results, requests, error = self._contended(
            store, scenario, self._questions.lock, store.folder.part(scenario.name), None
        )
        kinds = list(dict.fromkeys(fault.kind for fault in _plan_of(scenario).faults))
        run: dict[str, Any] = {"scenario": scenario.name, "about": scenario.about, "kinds": kinds, "baseline": None}
        run |= run_facts(results, requests)
        store.faults.append(run)
        self._say_run(f"{in_text(store.name)}, {scenario.name}", run)
        if error is not None:
            raise error
        if self._questions.baseline is not None and not store.no_baseline:
            run["baseline"] = self._baseline(store, scenario, self._questions.baseline)

    def _baseline(self, store: EvaluatedStore, scenario: Scenario, spec: ProviderSpec) -> dict[str, Any] | None:
        """The same with the baseline; None where it cannot be run there. Its errors say nothing of the lock."""
        try:
            results, requests, _ = self._contended(
                store, scenario, spec, store.folder.part(f"{scenario.name}-{BASELINE}"), None
            )
        except LockrefError as error:
            store.no_baseline = str(error)
            return None
        run = run_facts(results, requests)
        self._say_run(f"{in_text(store.name)}, {scenario.name}, {BASELINE} beside it", run)
        return run

    def _contended(
        self, store: EvaluatedStore, scenario: Scenario, spec: ProviderSpec, folder: RunFolder, crowd: int | None
    ) -> tuple[Results, Requests, LockrefError | None]:
        """The account of one run, and what took a part of it: the worker that died, where one did.

        Raises KeyboardInterrupt if a Ctrl-C cut the run off; it is kept in its folder.
        """
        done = contend_on(
            store.uri,
            scenario,
            spec,
            clients=crowd,
            duration_ns=None if crowd is None else self._questions.lasting_ns,
            admission=self._questions.admission_of(spec),
            folder=folder.path,
            progress=self._progress.step,
        )
        about = provenance({"scenario": scenario.name, "provider": spec.name, "backends": [store.uri]})
        results, requests = account_of_run(self._console, done, folder, about)
        return results, requests, done.error

    def _say(self, text: str, style: str = "") -> None:
        self._console.say(text, style=style)

    def _say_run(self, where: str, run: dict[str, Any]) -> None:
        speed = run["speed"]
        figures = ""
        if speed is not None and speed["grants_per_s"] is not None:
            figures = f", {speed['grants_per_s']:.3g} grants/s, {speed['clients_served']} of {speed['clients']} served"
        broken = f" ({', '.join(run['broken'])})" if run["broken"] else ""
        self._say(f"{where}: {run['word']}{broken}{figures}", "bad" if run["word"] == VIOLATED else "")


def account_of_run(
    console: Console, done: Contention, folder: RunFolder, about: dict[str, object]
) -> tuple[Results, Requests]:
    """The account of one run, written beside its history, and its requests. Told in full with `--verbose`.

    Raises KeyboardInterrupt if a Ctrl-C cut the run off.
    """
    results = write_account(done, folder, about=about)
    if console.verbose:
        say_results(console, results)
    if done.is_interrupted:
        raise KeyboardInterrupt
    return results, count_requests(done.history[0])


def _plan_of(scenario: Scenario) -> FaultPlan:
    """The faults of a run: those of seed 0, as `contend_on` draws them."""
    return draw_plan(scenario, draw_scenario(scenario, 0), 0)


def _require_kind(store: str, spec: ProviderSpec) -> None:
    """Raise CapabilityMissing for an address without the kind of service that the lock stands on."""
    if ":" not in store:
        return
    address = parse_store_uri(store)
    if not host_of(spec.stands_on).is_at(cloud_of(address)):
        kind = service_kind(spec.stands_on).title
        raise CapabilityMissing(f"{spec.name} stands on {kind}, and {address} is {cloud_of(address).title}")


def priced(store: EvaluatedStore, prices: Mapping[str, Price], *, stands_on: str) -> EvaluatedStore:
    """The store with its list price, and with who sends a bill."""
    if is_started_here(store.uri):
        return replace(store, price=prices.get(host_of(stands_on).scheme(store.uri)), bill="emulator")
    address = parse_store_uri(store.uri)
    name = _PRICED.get(cloud_of(address).name)
    if name is None:
        return store
    is_local = urlsplit(address.endpoint).hostname in ("127.0.0.1", "localhost", "::1")
    bill = "emulator" if is_local else "other" if address.endpoint else "cloud"
    return replace(store, price=prices.get(name), bill=bill)
