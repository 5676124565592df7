"""One run of a program on the wire: endpoints, processes, disturbances, history, verdict.

The bytes go through unmodified, so the server must take a request that names our endpoint as its host, and must speak
plain HTTP. Both hold for servers on this machine. They do not hold for a cloud, whose signature covers the host.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc

from lockref.errors import BackendUnavailable, CapabilityMissing, ConfigError
from lockref.history import Kind, digests, runs_table
from lockref.lab.spool import SPOOL, SpoolRecorder, begin_spool, read_spool
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.stores.port import Outcome
from lockref.stores.uri import StoreAddress, open_store, parse_store_uri
from reports.checks import judge
from reports.checks.summary import Summary
from reports.history_files import write_runs
from scenarios import interrupts
from scenarios.backends import is_started_here, resolve_backend
from scenarios.definition.schema import CLIENTS_MAX, Scenario
from scenarios.wire.decoders import load_decoder
from scenarios.wire.gcs import GcsDialect
from scenarios.wire.objects import Dialect
from scenarios.wire.plan import Disturber, clock_environment, clock_offsets_ns, plan_of
from scenarios.wire.programs import Place, Program, find_program, read_templates
from scenarios.wire.recorder import WireRecorder
from scenarios.wire.s3 import S3Dialect
from scenarios.wire.tap import ClientEndpoint, Tap
from sim.faults.plan import FaultPlan

DURATION_DEFAULT_NS: Final = 60 * NS_PER_S
HANDOVER_DEFAULT_NS: Final = 30 * NS_PER_S
CLIENTS_DEFAULT: Final = 4
PROTOCOL: Final = "wire"
"""What the runs table calls a lock that is known by its requests alone."""

NO_LOCK: Final = "(no lock object was seen)"
UNSEEN: Final = (
    "the wire shows requests, not calls: what a program believes (S3), what its calls return (S7, L5, L6) and whether "
    "it hears of a loss (L4) is not judged"
)
_REACH_NS: Final = 5 * NS_PER_S
_LOOK_EVERY_NS: Final = NS_PER_S // 10
_GRACE_NS: Final = 2 * NS_PER_S
_DIALECTS: Final[Mapping[str, Callable[[], Dialect]]] = {"s3": S3Dialect, "gs": GcsDialect}


@dataclass(frozen=True, slots=True, kw_only=True)
class WireSettings:
    """What to run, and how to judge it. Durations in nanoseconds.

    argv: the program with its arguments; places such as `{endpoint}` are filled in for each client.
    plan: whose faults strike; None for none. protects: patterns of keys. decoder: see `decoders.load_decoder`.
    lasting_ns: what still runs then is ended. validity_ns: how long a record without a stamp promises the lock; None
    takes the longest promise that was seen. handover_ns: how soon a waiter must have a free lock.
    drift_bound_ns: how far two clocks may differ (β). is_shown: the program's output goes to standard error.
    """

    argv: tuple[str, ...]
    clients: int = CLIENTS_DEFAULT
    plan: Scenario | None = None
    protects: tuple[str, ...] = ()
    decoder: str = "auto"
    lasting_ns: int = DURATION_DEFAULT_NS
    templates: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    validity_ns: int | None = None
    handover_ns: int = HANDOVER_DEFAULT_NS
    drift_bound_ns: int = NS_PER_S // 2
    seed: int = 0
    is_shown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WireOutcome:
    """A run, judged. is_interrupted: Ctrl-C ended it. fired: by fault id, how often it struck."""

    events: pa.Table
    runs: pa.Table
    summary: Summary
    title: str
    scenario: str
    program: str
    server: str
    version: str
    fired: Mapping[str, int]
    notices: list[str]
    is_interrupted: bool


def run_wire(
    backend: str, settings: WireSettings, *, folder: Path, progress: Callable[[str], None] = lambda _text: None
) -> WireOutcome:
    """Run the program against `backend`, the name of a server or the URI of a store, and judge what passed.

    folder: where the run records.
    Errors: ConfigError for a program, a plan, a decoder or a template that cannot be; CapabilityMissing for a server
    that bytes cannot be forwarded to unmodified; BackendUnavailable if nothing answers there.
    """
    names = tuple(f"n{number}" for number in range(1, settings.clients + 1))
    if not 1 <= settings.clients <= CLIENTS_MAX:
        raise ConfigError(f"{settings.clients} clients; expected 1 to {CLIENTS_MAX}")
    argv = find_program(settings.argv)
    plan = plan_of(settings.plan, clients=names, seed=settings.seed)
    for offset_ns in clock_offsets_ns(plan).values():
        clock_environment(offset_ns)
    load_decoder(settings.decoder)
    templates = read_templates(settings.templates)
    with ExitStack() as stack:
        notices: list[str] = []
        uri, server, version = _resolved(backend, stack, notices, progress)
        address = parse_store_uri(uri)
        run = _Run(settings, names, argv, templates, plan, address, folder)
        progress(f"{settings.clients} x {Path(argv[0]).name}, at most {settings.lasting_ns / NS_PER_S:g} s on {server}")
        stack.enter_context(closing(run))
        run.contend()
        events, runs = run.history(str(parse_store_uri(uri)))
    summary = Summary.of(judge(events, runs), events, runs)
    summary.doubts += run.doubts()
    scenario = settings.plan.name if settings.plan else "wire"
    return WireOutcome(
        events=events,
        runs=runs,
        summary=summary,
        title=f"{Path(argv[0]).name} on {server}" + (f" under {scenario}" if settings.plan else ""),
        scenario=scenario,
        program=Path(argv[0]).name,
        server=server,
        version=version,
        fired=run.disturber.fired,
        notices=[*notices, *run.notices()],
        is_interrupted=run.is_interrupted,
    )


def _resolved(
    backend: str, stack: ExitStack, notices: list[str], progress: Callable[[str], None]
) -> tuple[str, str, str]:
    """URI, name and version of the server. One that ignores conditions is used, too, and told."""
    if is_started_here(backend):
        progress(f"starting {backend} (the first start on a machine installs it)")
        running = stack.enter_context(resolve_backend(backend))
        _upstream(parse_store_uri(running.uri))
        if running.measured is not None:
            notices += [f"the store {finding.sentence}" for finding in running.measured.ignored]
        return running.uri, running.name, running.version
    address = parse_store_uri(backend) if ":" in backend else None
    if address is None:
        # Raises the error that names the backends.
        stack.enter_context(resolve_backend(backend))
        raise AssertionError("an unknown name is refused")
    _upstream(address)
    _require_answer(backend, address)
    try:
        running = stack.enter_context(resolve_backend(backend))
    except CapabilityMissing as error:
        notices.append(f"the store ignores conditions, and the lock is judged on it all the same: {error}")
    else:
        notices += [
            f"the store {finding.sentence}" for finding in (running.measured.ignored if running.measured else ())
        ]
    return backend, str(address), ""


def _require_answer(uri: str, address: StoreAddress) -> None:
    """Errors: BackendUnavailable if nothing answers there, or not as a store."""
    with closing(open_store(uri, request_timeout_ns=_REACH_NS)) as store:
        reply = store.read("lockref-ready/wire")
    if reply.outcome is not Outcome.APPLIED:
        raise BackendUnavailable(
            f"{address} did not answer a reading within {_REACH_NS / NS_PER_S:g} s: {reply.reason}"
        )


def _upstream(address: StoreAddress) -> tuple[str, int]:
    """Host and port of a server that takes bytes that were meant for another address.

    Errors: CapabilityMissing for a service that speaks no HTTP, for a cloud and for TLS.
    """
    if address.scheme not in _DIALECTS:
        raise CapabilityMissing(f"{address} is not spoken to by S3 or GCS over HTTP; the wire reads these two")
    parts = urlsplit(address.endpoint)
    if parts.scheme != "http" or not parts.hostname:
        raise CapabilityMissing(
            f"{address} cannot stand behind the wire: bytes are forwarded unmodified, and a signature covers the host; "
            "name a server that speaks plain HTTP, with ?endpoint=http://HOST:PORT"
        )
    return parts.hostname, parts.port or 80


class _Run:
    """The parts of one run, made from the outside in and closed in the opposite order."""

    def __init__(
        self,
        settings: WireSettings,
        names: Sequence[str],
        argv: tuple[str, ...],
        templates: Mapping[str, str],
        plan: FaultPlan,
        address: StoreAddress,
        folder: Path,
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._program = Path(argv[0]).name
        self._runtime = ThreadRuntime()
        self._stack = ExitStack()
        begin_spool(folder / SPOOL)
        offsets_ns = clock_offsets_ns(plan)
        self._recorder = SpoolRecorder(folder / SPOOL, 0)
        self._wire = WireRecorder(
            self._recorder,
            _DIALECTS[address.scheme](),
            load_decoder(settings.decoder),
            protects=settings.protects,
            runtime=self._runtime,
            clock_offsets_ns=offsets_ns,
        )
        self._programs: dict[str, Program] = {}
        self.disturber = Disturber(
            plan, self._programs, self._wire, is_protected=self._wire.is_protected, seed=settings.seed
        )
        self._plan = plan
        self._taps = {name: Tap(name, self._wire, self.disturber if plan.faults else None) for name in names}
        places = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="lockref-wire-")))
        upstream = _upstream(address)
        for number, name in enumerate(names, 1):
            endpoint = self._stack.enter_context(ClientEndpoint(upstream, self._taps[name]))
            place = Place(
                client=name, number=number, endpoint=endpoint.endpoint, bucket=address.container, folder=places / name
            )
            environment = {
                **place.environment(address), **settings.environment, **clock_environment(offsets_ns.get(name, 0))
            }  # fmt: skip
            self._programs[name] = Program(
                place, argv, templates=templates, environment=environment, is_shown=settings.is_shown
            )
        self.is_interrupted = False
        self._is_cut_off = False
        self._begin_ns = self._end_ns = self._runtime.monotonic_ns()

    def contend(self) -> None:
        """Start the programs and let them work until they end, the time is over, or Ctrl-C comes."""
        write_runs(self._folder, runs_table([self._row("")]))
        try:
            for name, program in self._programs.items():
                interrupts.raise_if_heard()
                self._wire.began(name)
                program.start()
            self._begin_ns = self._runtime.monotonic_ns()
            self.disturber.begin()
            self._await_end()
        except KeyboardInterrupt:
            self.is_interrupted = self._is_cut_off = True
        self._end_ns = self._runtime.monotonic_ns()
        self.disturber.end()
        for program in self._programs.values():
            program.stop()

    def _await_end(self) -> None:
        deadline_ns = self._begin_ns + self._settings.lasting_ns
        while self._is_busy():
            interrupts.raise_if_heard()
            if self._wire.failure is not None:
                raise self._wire.failure
            if self._runtime.monotonic_ns() >= deadline_ns:
                self._is_cut_off = True
                self._ask_to_end()
                return
            self._runtime.sleep(_LOOK_EVERY_NS)

    def _is_busy(self) -> bool:
        return any(program.is_running for program in self._programs.values()) or self.disturber.has_restarts

    def _ask_to_end(self) -> None:
        """SIGTERM first, so that a program may give its lock back as it would at its end."""
        for program in self._programs.values():
            program.signal(signal.SIGCONT)
            program.signal(signal.SIGTERM)
        until_ns = self._runtime.monotonic_ns() + _GRACE_NS
        for program in self._programs.values():
            program.wait(max(0, until_ns - self._runtime.monotonic_ns()))

    def close(self) -> None:
        """End every process and endpoint. Idempotent."""
        for program in self._programs.values():
            program.stop()
        self._stack.close()

    # What there is to tell.

    def history(self, backend: str) -> tuple[pa.Table, pa.Table]:
        """The events and the row that describes them."""
        self._stack.close()
        if self._wire.failure is not None:
            raise self._wire.failure
        self._wire.settle()
        events = read_spool(self._folder / SPOOL)
        events = events.filter(pc.less_equal(events["at_ns"], self._end_ns))
        row = self._row(backend)
        faults = events.filter(pc.equal(events["kind"], Kind.FAULT.name.lower()))["at_ns"]
        row.update(
            faults_end_ns=pc.max(faults).as_py() if len(faults) else self._begin_ns,
            end_ns=self._end_ns,
            is_cut_off=self._is_cut_off,
            digest=digests(events).get(0),
            event_count=len(events),
        )
        return events, runs_table([row])

    def _row(self, backend: str) -> dict[str, object]:
        settings = self._settings
        kinds = dict.fromkeys(fault.kind for fault in self._plan.faults)
        return {
            "run": 0,
            "seed": settings.seed,
            "scenario": settings.plan.name if settings.plan else "wire",
            "provider": self._program,
            "world": "real",
            "backend": backend,
            "clients": settings.clients,
            "validity_ns": settings.validity_ns or self._wire.promised_ns or None,
            "poll_interval_ns": settings.handover_ns,
            "request_timeout_ns": 0,
            "drift_bound_ns": settings.drift_bound_ns,
            "is_cut_off": True,
            "must_happen": ["grant", *(f"fault:{kind}" for kind in kinds)],
            "lock_protocols": dict.fromkeys(self._wire.locks or (NO_LOCK,), PROTOCOL),
        }

    def doubts(self) -> list[str]:
        """Why the record proves less than it seems."""
        found = []
        if not self._wire.requests:
            ended = "" if all(program.is_running for program in self._programs.values()) else self._endings()
            found.append(
                f"the program never sent a request to its endpoint{ended}: does it take its address from there?"
            )
        elif not self._wire.locks:
            found.append("no object held a lock record that could be read; name its decoder with --decoder")
        unreadable = [f"{name}: {tap.unreadable}" for name, tap in self._taps.items() if tap.unreadable]
        if unreadable:
            found.append(f"some connections could not be read, so requests may be missing ({'; '.join(unreadable)})")
        return found

    def notices(self) -> list[str]:
        """What a reader must know whatever the verdict."""
        found = [UNSEEN]
        silent = [name for name in self._taps if not self._wire.requests.get(name)]
        if silent and self._wire.requests:
            found.append(f"{', '.join(silent)} never sent a request")
        endings = self._endings()
        if endings:
            found.append(f"processes ended by themselves{endings}")
        never = [name for name, count in self.disturber.fired.items() if not count]
        if never:
            found.append(f"faults that never struck: {', '.join(never)}")
        if self._settings.protects and not self._wire.effects:
            found.append(f"no object that fits {' or '.join(self._settings.protects)} was written")
        return found

    def _endings(self) -> str:
        codes: dict[int, list[str]] = {}
        for name, program in self._programs.items():
            for code in program.exit_codes:
                if code:
                    codes.setdefault(code, []).append(name)
        told = [f"{', '.join(names)} with {_exit(code)}" for code, names in sorted(codes.items())]
        return f" ({'; '.join(told)})" if told else ""


def _exit(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
