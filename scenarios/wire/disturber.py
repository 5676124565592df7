"""Carrying out a plan on programs and their wires: who is stopped, who is killed, which requests are struck.

Of the cut points, c0 and c1 lie where a request has come to the client's endpoint, and c2 to c4 where the
server's answer has.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

from lockref.history import Op
from lockref.runtime import NS_PER_S, ThreadRuntime
from scenarios.wire.conversation import Exchange
from scenarios.wire.recorder import Asked, WireRecorder
from scenarios.wire.tap import Strike
from sim.faults.clocks import Offset
from sim.faults.fault import Fault, Interference, RequestFault, Treatment, Trigger
from sim.faults.plan import FaultPlan
from sim.faults.process import Crash, Pause
from sim.kernel.streams import derive
from sim.services.request import OP_NAMES

_NOTHING: Final = Interference()
_UNIT: Final = 2.0**64
STORE, RESOURCE = "store", "resource"
"""The services of a plan: the lock's store, and what the lock protects. Here they are two kinds of objects."""


class Stoppable(Protocol):
    """A process of the program under test."""

    def start(self) -> None: ...

    def signal(self, number: int) -> bool: ...

    def kill(self) -> None: ...

    def wait(self, timeout_ns: int) -> bool: ...


class Disturber:
    """Carries out the plan of one run.

    programs: by client. fired: by fault id, how often it struck.
    """

    def __init__(
        self,
        plan: FaultPlan,
        programs: Mapping[str, Stoppable],
        recorder: WireRecorder,
        *,
        is_protected: Callable[[str], bool],
        seed: int,
    ) -> None:
        self._plan = plan
        self._programs = programs
        self._recorder = recorder
        self._is_protected = is_protected
        self._seed = seed
        self._runtime = ThreadRuntime()
        self._mutex = self._runtime.mutex()
        self._start_ns = self._runtime.monotonic_ns()
        self._met: dict[str, int] = {}
        self._is_over = False
        self._restarts = 0
        self._stopped: dict[str, int] = {}
        # What strikes when the answer of an exchange has come.
        self._later: list[tuple[Exchange, Fault]] = []
        self.fired: dict[str, int] = {fault.id: 0 for fault in plan.faults}
        for fault in plan.faults:
            if isinstance(fault, Offset):
                # It holds from the start of its program.
                self.fired[fault.id] = 1

    def begin(self) -> None:
        """The programs have been started: instants count from now."""
        self._start_ns = self._runtime.monotonic_ns()
        for fault in self._plan.faults:
            if isinstance(fault, Offset):
                self._recorder.fault(fault.client, self._start_ns, id=fault.id, kind=fault.kind, phase="begin")
            elif isinstance(fault, Pause | Crash) and fault.at_ns is not None:
                self._runtime.spawn(lambda fault=fault: self._strike_at(fault), name=fault.id)  # type: ignore[misc]

    @property
    def has_restarts(self) -> bool:
        """True while some killed process is still to be started again."""
        return self._restarts > 0

    def end(self) -> None:
        """Nothing strikes any more, and nobody is started again."""
        self._is_over = True

    # What the taps ask. See `Striker`.

    def before(self, asked: Asked) -> Strike:
        """See `Striker`."""
        chosen: Strike = (None, _NOTHING)
        for fault in self._meeting(asked):
            if isinstance(fault, RequestFault):
                if chosen[0] is None:
                    chosen = fault, fault.interference() or _NOTHING
                    self._count(fault)
            elif fault.when is not None and fault.when.cut in ("c0", "c1"):
                is_unsent = fault.when.cut == "c0"
                if isinstance(fault, Pause):
                    held_ns = self._pause(fault)
                    chosen = (fault, Interference(request_ns=held_ns)) if is_unsent and held_ns else chosen
                elif isinstance(fault, Crash):
                    self._crash(fault)
                    chosen = (fault, Interference(request=Treatment.RESET)) if is_unsent else chosen
            else:
                self._remember(asked, fault)
        return chosen

    def applied(self, asked: Asked) -> None:
        """See `Striker`."""
        self._strike_remembered(asked, ("c2",))

    def delivered(self, asked: Asked) -> None:
        """See `Striker`."""
        self._strike_remembered(asked, ("c3", "c4"))

    def gone(self, asked: Asked) -> None:
        """See `Striker`."""
        with self._mutex:
            self._later = [each for each in self._later if each[0] is not asked.exchange]

    def _remember(self, asked: Asked, fault: Fault) -> None:
        with self._mutex:
            self._later.append((asked.exchange, fault))

    def _strike_remembered(self, asked: Asked, cuts: Collection[str]) -> None:
        due: list[tuple[Exchange, Fault]] = []
        rest: list[tuple[Exchange, Fault]] = []
        with self._mutex:
            for exchange, fault in self._later:
                is_due = exchange is asked.exchange and fault.when is not None and fault.when.cut in cuts
                (due if is_due else rest).append((exchange, fault))
            self._later = rest
        for _, fault in due:
            self._strike(fault)

    # Matching.

    def _elapsed_ns(self) -> int:
        return self._runtime.monotonic_ns() - self._start_ns

    def _meeting(self, asked: Asked) -> list[Fault]:
        """The faults that this request meets; each is counted once a request."""
        now_ns = self._elapsed_ns()
        if self._is_over or (self._plan.heal_ns is not None and now_ns >= self._plan.heal_ns):
            return []
        service = RESOURCE if self._is_protected(asked.request.key) else STORE
        ops = _names(asked)
        with self._mutex:
            return [fault for fault in self._plan.faults if self._meets(fault, asked, ops, service, now_ns)]

    def _meets(self, fault: Fault, asked: Asked, ops: Collection[str], service: str, now_ns: int) -> bool:
        trigger = fault.when
        if trigger is not None:
            if not _is_meant(trigger, asked.client, ops, service) or not trigger.is_open(now_ns):
                return False
            self._met[fault.id] = self._met.get(fault.id, 0) + 1
            return self._met[fault.id] == trigger.nth
        if not isinstance(fault, RequestFault) or not _is_meant(fault, asked.client, ops, service):
            return False
        begin_ns = fault.at_ns or 0
        if now_ns < begin_ns or (fault.for_ns is not None and now_ns >= begin_ns + fault.for_ns):
            return False
        met = self._met[fault.id] = self._met.get(fault.id, 0) + 1
        first = fault.nth or 1
        times = fault.times if fault.times is not None else (1 if fault.nth is not None else None)
        if met < first or (times is not None and met >= first + times):
            return False
        draw = derive(self._seed, f"fault/{fault.id}/{asked.client}/{met}")
        return fault.probability >= 1.0 or draw < fault.probability * _UNIT

    # Striking.

    def _strike_at(self, fault: Pause | Crash) -> None:
        assert fault.at_ns is not None, "it has an instant"
        self._runtime.sleep(max(0, fault.at_ns - self._elapsed_ns()))
        if not self._is_over:
            self._strike(fault)

    def _strike(self, fault: Fault) -> None:
        if isinstance(fault, Pause):
            self._pause(fault)
        elif isinstance(fault, Crash):
            self._crash(fault)

    def _count(self, fault: Fault) -> None:
        with self._mutex:
            self.fired[fault.id] += 1

    def _pause(self, fault: Pause) -> int:
        """Stop the client's process, and let it go on later; for how long it stands still, 0 if it has ended."""
        for_ns = fault.for_ns
        if self._plan.heal_ns is not None:
            for_ns = min(for_ns, self._plan.heal_ns - self._elapsed_ns())
        program = self._programs[fault.client]
        if for_ns <= 0 or not program.signal(signal.SIGSTOP):
            return 0
        self._count(fault)
        with self._mutex:
            self._stopped[fault.client] = self._stopped.get(fault.client, 0) + 1
        self._recorder.fault(fault.client, self._runtime.monotonic_ns(), id=fault.id, kind=fault.kind, phase="begin")

        def go_on() -> None:
            self._runtime.sleep(for_ns)
            with self._mutex:
                self._stopped[fault.client] -= 1
                is_last = not self._stopped[fault.client]
            self._recorder.fault(fault.client, self._runtime.monotonic_ns(), id=fault.id, kind=fault.kind, phase="end")
            if is_last:
                # Overlapping pauses last to the latest end.
                program.signal(signal.SIGCONT)

        self._runtime.spawn(go_on, name=f"{fault.id}-end")
        return for_ns

    def _crash(self, fault: Crash) -> None:
        """Kill the client's process; perhaps start another one later."""
        program = self._programs[fault.client]
        if not program.signal(0):
            return
        self._count(fault)
        program.kill()
        self._recorder.fault(fault.client, self._runtime.monotonic_ns(), id=fault.id, kind=fault.kind, phase="begin")
        if fault.restart_after_ns is None:
            return
        restart_after_ns = fault.restart_after_ns

        with self._mutex:
            self._restarts += 1

        def restart() -> None:
            self._runtime.sleep(restart_after_ns)
            if program.wait(NS_PER_S) and not self._is_over:
                self._recorder.began(fault.client)
                self._recorder.fault(
                    fault.client, self._runtime.monotonic_ns(), id=fault.id, kind=fault.kind, phase="end"
                )
                program.start()
            with self._mutex:
                self._restarts -= 1

        self._runtime.spawn(restart, name=f"{fault.id}-restart")


def _names(asked: Asked) -> tuple[str, ...]:
    """What a plan may call this request. To delete a lock's object is to release it, too."""
    name = OP_NAMES[asked.op]
    return (name, OP_NAMES[Op.RELEASE]) if asked.op is Op.DELETE and asked.is_lock else (name,)


def _is_meant(wanted: Trigger | RequestFault, client: str, ops: Collection[str], service: str) -> bool:
    """True if a request of this client, kind and service is one that is counted."""
    return (
        wanted.client in (None, client)
        and (wanted.op is None or wanted.op in ops)
        and wanted.service in (None, service)
    )
