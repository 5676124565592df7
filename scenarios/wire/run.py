"""A program on the wire, from the address of a server to a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from lockref.clouds.uri import open_store, parse_store_uri
from lockref.errors import BackendUnavailable, CapabilityMissing, ConfigError
from lockref.runtime import NS_PER_S
from lockref.stores.address import StoreAddress
from lockref.words import Outcome
from reports.checks import judge
from reports.checks.summary import Summary
from scenarios.backends import is_started_here, resolve_backend
from scenarios.backends.readiness import RunningBackend
from scenarios.definition.schema import CLIENTS_MAX
from scenarios.injection.feasible import require_reachable
from scenarios.wire.decoders import load_decoder
from scenarios.wire.live_run import LiveRun
from scenarios.wire.plan import clock_environment, clock_offsets_ns, plan_of
from scenarios.wire.processes.programs import find_program, read_templates
from scenarios.wire.protection import Protection
from scenarios.wire.settings import WireSettings
from scenarios.wire.upstream import upstream
from scenarios.worlds.judged_result import JudgedResult, Steps, tell_nobody

_REACH_NS: Final = 5 * NS_PER_S


@dataclass(slots=True, kw_only=True)
class WireOutcome(JudgedResult):
    """A program on the wire, judged. has_plan: a scenario disturbed it. fired: by fault id, how often it struck.

    carried: by client, the bytes of its requests and answers.
    """

    events: pa.Table
    runs: pa.Table
    has_plan: bool
    fired: Mapping[str, int]
    carried: Mapping[str, int]

    @property
    def title(self) -> str:
        return f"{self.provider} on {self.server}" + (f" under {self.scenario}" if self.has_plan else "")

    @property
    def history(self) -> tuple[pa.Table, pa.Table]:
        return self.events, self.runs

    @property
    def facts(self) -> Mapping[str, object]:
        return {"backend": self.server, "backend_version": self.version, "faults": dict(self.fired)}


def run_wire(backend: str, settings: WireSettings, *, folder: Path, progress: Steps = tell_nobody) -> WireOutcome:
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
    Protection(settings.protects)
    templates = read_templates(settings.templates)
    with ExitStack() as stack:
        notices: list[str] = []
        running, server, version = _resolved(backend, stack, notices, progress)
        address = parse_store_uri(running.uri)
        require_reachable(plan, address, server=running.server)
        run = LiveRun(settings, names, argv, templates, plan, address, folder, server=running.server)
        progress(
            f"{settings.clients} x {Path(argv[0]).name}, at most {settings.lasting_ns / NS_PER_S:g} s on {server}",
            lasting_ns=settings.lasting_ns,
        )
        stack.enter_context(closing(run))
        run.contend()
        events, runs = run.history()
    summary = Summary.of(judge(events, runs), events, runs)
    summary.doubts += run.doubts()
    return WireOutcome(
        events=events,
        runs=runs,
        summary=summary,
        scenario=settings.plan.name if settings.plan else "wire",
        has_plan=settings.plan is not None,
        provider=Path(argv[0]).name,
        server=server,
        version=version,
        fired=run.fired,
        carried=run.carried,
        notes=[*notices, *run.notices()],
        is_interrupted=run.is_interrupted,
    )


def _resolved(backend: str, stack: ExitStack, notices: list[str], progress: Steps) -> tuple[RunningBackend, str, str]:
    """The server, its name and its version. A server that ignores conditions is used as well, with a notice."""
    if is_started_here(backend):
        progress(f"starting {backend} (the first start on a machine installs it)")
        running = stack.enter_context(resolve_backend(backend))
        upstream(parse_store_uri(running.uri))
        if running.measured is not None:
            notices += [f"the store {finding.sentence}" for finding in running.measured.ignored]
        return running, running.name, running.version
    address = parse_store_uri(backend) if ":" in backend else None
    if address is None:
        # Raises the error that names the backends.
        stack.enter_context(resolve_backend(backend))
        raise AssertionError("an unknown name is refused")
    upstream(address)
    _require_answer(backend, address)
    try:
        running = stack.enter_context(resolve_backend(backend))
    except CapabilityMissing as error:
        notices.append(f"the store does not keep conditions, and the lock is judged on it all the same: {error}")
    else:
        notices += [
            f"the store {finding.sentence}" for finding in (running.measured.ignored if running.measured else ())
        ]
    return RunningBackend(name=str(address), uri=backend), str(address), ""


def _require_answer(uri: str, address: StoreAddress) -> None:
    """Errors: BackendUnavailable if nothing answers there, or not as a store."""
    with closing(open_store(uri, request_timeout_ns=_REACH_NS)) as store:
        reply = store.read("lockref-ready/wire")
    if reply.outcome is not Outcome.APPLIED:
        raise BackendUnavailable(f"{address} did not answer a first read like a store: {reply.reason}")
