"""One run while it lasts: its endpoints, processes and disturbances, closed in the reverse order of their making."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, final
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc

from lockref.clouds.traffic import ANY_OBJECT
from lockref.history import RunRow, digests, runs_table
from lockref.lab.spool import SPOOL, SpoolRecorder, begin_spool, read_spool
from lockref.provider import DEFAULT_STORE
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.stores.address import StoreAddress
from lockref.temporary_folders import owned_folder
from lockref.words import Kind, detail
from reports.checks.demands import demand_text
from reports.checks.situation_names import NEED_CALLS
from reports.checks.thresholds.limits import NEED_DETAIL, measures_of
from reports.history_files import write_runs
from scenarios import interrupts
from scenarios.backends.server_process import RestartableServer
from scenarios.definition.draw import Draws
from scenarios.definition.fault_plan import written_faults
from scenarios.injection.certificates import throwaway_authority
from scenarios.injection.real_time import RealStore
from scenarios.wire.decoders import load_decoder
from scenarios.wire.endpoints import Endpoints
from scenarios.wire.plan import carried_out, clock_environment, clock_offsets_ns
from scenarios.wire.processes.programs import Place, Program
from scenarios.wire.processes.struck_program import StruckProgram
from scenarios.wire.reading.dialect import dialect_of
from scenarios.wire.recorder import WireRecorder
from scenarios.wire.settings import WireSettings
from scenarios.wire.strikes import idle_faults
from scenarios.wire.upstream import upstream
from scenarios.worlds.host_watch import HostWatch
from sim.faults.clocks import Offset
from sim.faults.counts import fault_effects
from sim.faults.plan import FaultPlan

PROTOCOL: Final = "wire"
"""The name in the runs table of a lock that is known by its requests alone."""

NO_LOCK: Final = "(no lock object was seen)"
UNSEEN: Final = (
    "the wire shows requests, not calls. Three things are therefore not judged: when a program believes that it holds "
    "(S3), what its calls return (S7, L5, L6), and whether it hears of a loss (L4)"
)
_LOOK_EVERY_NS: Final = NS_PER_S // 10
_GRACE_NS: Final = 2 * NS_PER_S
_NAMES_TOLD_MAX: Final = 3
_DATES_APART_MAX_NS: Final = 2 * NS_PER_S
"""How far the best dated request of a client may be from its clock: dates are whole seconds, and requests take time."""


@final
class LiveRun:
    """The parts of one run. argv: the program as it is started, with places to be filled in for each client."""

    def __init__(
        self,
        settings: WireSettings,
        names: Sequence[str],
        argv: tuple[str, ...],
        templates: Mapping[str, str],
        plan: FaultPlan,
        address: StoreAddress,
        folder: Path,
        *,
        server: RestartableServer | None,
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._program = Path(argv[0]).name
        self._runtime = ThreadRuntime()
        self._stack = ExitStack()
        begin_spool(folder / SPOOL)
        offsets_ns = clock_offsets_ns(plan)
        self._recorder = SpoolRecorder(folder / SPOOL, 0)
        self._recorder.is_detailed = not NEED_DETAIL.isdisjoint(measures_of(settings.limits))
        self._wire = WireRecorder(
            self._recorder,
            dialect_of(address.scheme, address.container),
            load_decoder(settings.decoder),
            protects=settings.protects,
            runtime=self._runtime,
            clock_offsets_ns=offsets_ns,
            learned=self._describe,
        )
        self._backend = str(address)
        self._describing = self._runtime.mutex()
        self._told_ns = 0
        self._plan = plan
        places = self._stack.enter_context(owned_folder("wire"))
        now_s = self._runtime.wall_ns() // NS_PER_S
        tls = throwaway_authority(places / "tls", now_s=now_s) if settings.is_tls else None
        self._endpoints = Endpoints(
            carried_out(plan),
            seed=settings.seed,
            clients=names,
            upstream=upstream(address),
            scheme=address.scheme,
            wire=self._wire,
            recorder=self._recorder,
            runtime=self._runtime,
            store=RealStore(DEFAULT_STORE, None, (), server=server) if server is not None else None,
            tls=tls,
        )
        self._stack.enter_context(self._endpoints)
        self._programs: dict[str, Program] = {}
        self._struck: dict[str, StruckProgram] = {}
        for number, name in enumerate(names, 1):
            place = Place(
                client=name,
                number=number,
                # An emulator of Azure has the account in its path, and a client signs that.
                endpoint=self._endpoints.address(name) + urlsplit(address.endpoint).path.rstrip("/"),
                bucket=address.container,
                folder=places / name,
                ca=tls.certificate if tls else None,
            )
            environment = {
                **place.environment(address), **settings.environment, **clock_environment(offsets_ns.get(name, 0))
            }  # fmt: skip
            program = self._programs[name] = Program(
                place, argv, templates=templates, environment=environment, is_shown=settings.is_shown
            )
            self._struck[name] = StruckProgram(program, follows=partial(self._wire.began, name), runtime=self._runtime)
        self._endpoints.handles(self._struck)
        self._host = HostWatch(self._runtime)
        self.is_interrupted = False
        self._is_cut_off = False
        self._overtime: list[str] = []
        self._begin_ns = self._end_ns = self._runtime.monotonic_ns()

    def contend(self) -> None:
        """Start the programs and let them work until they end, the time is over, or Ctrl-C comes."""
        self._describe()
        try:
            for name, program in self._programs.items():
                interrupts.raise_if_heard()
                self._wire.began(name)
                program.start()
            self._begin_ns = self._runtime.monotonic_ns()
            self._endpoints.begin()
            self._note_clocks()
            with self._host:
                self._await_end()
        except KeyboardInterrupt:
            self.is_interrupted = self._is_cut_off = True
        self._end_ns = self._runtime.monotonic_ns()
        for name, program in self._programs.items():
            self._struck[name].end()
            program.stop()

    def _describe(self) -> None:
        """Write what is known of the run so far. A process that is killed leaves its readers no more than this."""
        with self._describing:
            self._told_ns = self._wire.promised_ns
            write_runs(self._folder, runs_table([self._row()]))

    def _await_end(self) -> None:
        deadline_ns = self._begin_ns + self._settings.lasting_ns
        while self._is_busy():
            interrupts.raise_if_heard()
            self._raise_failure()
            if self._runtime.monotonic_ns() >= deadline_ns:
                self._is_cut_off = True
                self._ask_to_end()
                return
            self._look()
            self._runtime.sleep(_LOOK_EVERY_NS)

    def _look(self) -> None:
        """Keep the description of the run up to date, unless nothing new is known."""
        if self._wire.promised_ns > self._told_ns:
            self._describe()

    def _is_busy(self) -> bool:
        return any(program.is_running for program in self._programs.values()) or self._is_restarting()

    def _is_restarting(self) -> bool:
        return self._endpoints.work.is_expecting or any(struck.starting for struck in self._struck.values())

    def _raise_failure(self) -> None:
        """Raise the error that reading the plan or carrying it out has met."""
        if self._wire.failure is not None:
            raise self._wire.failure
        self._endpoints.work.raise_failure()

    def _note_clocks(self) -> None:
        """A clock that is set apart is so from the start of its program."""
        for fault in self._plan.faults:
            if isinstance(fault, Offset):
                stamp = (self._begin_ns, self._runtime.wall_ns(), self._begin_ns, "")
                said = detail(id=fault.id, kind=fault.kind, phase="begin")
                self._recorder.event(Kind.FAULT, stamp, fault.client, detail=said)

    def _ask_to_end(self) -> None:
        """Ask the programs to end, since the time is over. A program that does not end within its grace is killed."""
        self._overtime = [name for name, program in self._programs.items() if program.ask_to_end()]
        until_ns = self._runtime.monotonic_ns() + _GRACE_NS
        for program in self._programs.values():
            program.wait(max(0, until_ns - self._runtime.monotonic_ns()))

    def close(self) -> None:
        """End every process and endpoint. Idempotent."""
        for program in self._programs.values():
            program.stop()
        self._stack.close()

    # What there is to tell.

    def history(self) -> tuple[pa.Table, pa.Table]:
        """The events and the row that describes them."""
        self._stack.close()
        self._raise_failure()
        self._wire.settle()
        events = read_spool(self._folder / SPOOL)
        events = events.filter(pc.less_equal(events["at_ns"], self._end_ns))
        row = self._row()
        faults = events.filter(pc.equal(events["kind"], Kind.FAULT.name.lower()))["at_ns"]
        row.update(
            {
                "faults_end_ns": pc.max(faults).as_py() if len(faults) else self._begin_ns,
                "end_ns": self._end_ns,
                "is_cut_off": self._is_cut_off,
                "host_late_ns": self._host.late_ns,
                "digest": digests(events).get(0),
                "event_count": len(events),
            }
        )
        return events, runs_table([row])

    def _row(self) -> RunRow:
        settings = self._settings
        demanded = {"grant": 1, **{f"fault:{fault.kind}": 1 for fault in self._plan.faults}, **self._demanded()}
        return {
            "run": 0,
            "seed": settings.seed,
            "scenario": settings.plan.name if settings.plan else "wire",
            "provider": self._program,
            "world": "real",
            "backend": self._backend,
            "clients": settings.clients,
            "validity_ns": settings.validity_ns or self._wire.promised_ns or None,
            "poll_interval_ns": settings.handover_ns,
            "request_timeout_ns": 0,
            "drift_bound_ns": settings.drift_bound_ns,
            "is_cut_off": True,
            "must_happen": [demand_text(name, count) for name, count in demanded.items() if name not in NEED_CALLS],
            "thresholds": list(settings.limits) or None,
            "fault_effects": fault_effects(self._endpoints.work.counts()),
            "lock_protocols": dict.fromkeys(tuple(self._wire.locks) or (NO_LOCK,), PROTOCOL),
        }

    def _demanded(self) -> dict[str, int]:
        """The demands of the plan's scenario: situations, and how often each must happen at least."""
        settings = self._settings
        if settings.plan is None:
            return {}
        return settings.plan.demanded(clients=settings.clients, duration_ns=settings.lasting_ns)

    @property
    def fired(self) -> dict[str, int]:
        """By fault id, how often it struck. A clock is set apart once."""
        counts = self._endpoints.work.counts()
        return {fault.id: counts[fault.id][1] if fault.id in counts else 1 for fault in self._plan.faults}

    @property
    def carried(self) -> dict[str, int]:
        """By client, the bytes that its endpoint has carried, both ways."""
        return self._endpoints.carried

    def doubts(self) -> list[str]:
        """Why the record proves less than it seems."""
        found = []
        if not self._wire.requests:
            ended = "" if all(program.is_running for program in self._programs.values()) else self._endings()
            found.append(
                f"the program never sent a request to its endpoint{ended}: does it use the address that it was given?"
            )
        elif not self._wire.locks:
            found.append("no object held a lock record that could be read; name its decoder with --decoder")
        unfollowed = self._wire.unfollowed
        if ANY_OBJECT in unfollowed:
            found.append(f"requests were not followed that may change any object ({unfollowed[ANY_OBJECT]})")
        unread = [key for key in unfollowed if key in self._wire.locks or self._is_protected(key)]
        if unread:
            reasons = ", ".join(dict.fromkeys(filter(None, (unfollowed[key] for key in unread))))
            told = f" ({reasons})" if reasons else ""
            found.append(
                f"{_some(unread)} was changed by requests that are not read, so what it held is not known{told}"
            )
        if self._wire.locks:
            found += _unguarded(self._wire.unguarded)
        if self._settings.protects and not self._wire.effects:
            found.append(f"no object that fits {' or '.join(self._settings.protects)} was written, so S4 was not asked")
        found += [
            f"the clock of {name} was to be set apart by {_seconds(offset_ns)}, and the dates of its requests are not: "
            "the program does not ask the C library for the time"
            for name, offset_ns in clock_offsets_ns(self._plan).items()
            if self._wire.clocks_off_ns.get(name, 0) > _DATES_APART_MAX_NS
        ]
        if self._settings.plan is not None:
            written = written_faults(self._settings.plan, Draws(self._settings.seed))
            idle = idle_faults(written, self._endpoints.work.counts())
            found += [f"{fault_id} is in the plan, and did not come about or changed nothing" for fault_id in idle]
        unreadable = [f"{name}: {tap.unreadable}" for name, tap in self._endpoints.taps.items() if tap.unreadable]
        if unreadable:
            found.append(f"some connections could not be read, so requests may be missing ({'; '.join(unreadable)})")
        return found

    def _is_protected(self, key: str) -> bool:
        return key != ANY_OBJECT and self._wire.is_protected(key)

    def notices(self) -> list[str]:
        """The notices under every verdict."""
        found = [UNSEEN]
        silent = [name for name in self._programs if not self._wire.requests.get(name)]
        if silent and self._wire.requests:
            found.append(f"{', '.join(silent)} never sent a request")
        if self._overtime:
            names, lasted_s = ", ".join(self._overtime), self._settings.lasting_ns / NS_PER_S
            found.append(f"still running at the time limit and therefore ended ({lasted_s:g} s; see --for): {names}")
        if self._wire.unfinished:
            told = ", ".join(f"{count} of {name}" for name, count in self._wire.unfinished.items())
            found.append(f"answers that did not come to their end, so what they answer may have taken effect: {told}")
        endings = self._endings()
        if endings:
            found.append(f"processes ended by themselves{endings}")
        unasked = [name for name in self._demanded() if name in NEED_CALLS]
        if unasked := [*unasked, *self._settings.unseen_limits]:
            found.append(f"not asked here, because requests do not show the calls of a program: {', '.join(unasked)}")
        work = self._endpoints.work
        found += self._endpoints.strikes.told(work.plan, work.counts())
        return found

    def _endings(self) -> str:
        codes: dict[int, list[str]] = {}
        for name, program in self._programs.items():
            for code in program.exit_codes:
                if code:
                    codes.setdefault(code, []).append(name)
        told = [f"{', '.join(names)} with {_exit(code)}" for code, names in sorted(codes.items())]
        return f" ({'; '.join(told)})" if told else ""


def _unguarded(written: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Why some protected objects cannot be judged: a sentence for each set of locks that may guard them."""
    by_locks: dict[tuple[str, ...], list[str]] = {}
    for key, locks in written.items():
        by_locks.setdefault(locks, []).append(key)
    return [
        f"which of the locks {_some(locks)} guards {_some(keys)} cannot be told; name it: --protects 'KEYS by LOCK'"
        if locks
        else f"no record was read of the lock that guards {_some(keys)}, so S4 was not asked of it"
        for locks, keys in by_locks.items()
    ]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMES_TOLD_MAX]) + (", …" if len(names) > _NAMES_TOLD_MAX else "")


def _seconds(duration_ns: int) -> str:
    return f"{duration_ns / NS_PER_S:+g} s"


def _exit(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
