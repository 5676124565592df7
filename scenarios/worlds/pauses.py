"""Pauses of real processes: a client's process stops itself (SIGSTOP) where its fault plan says, and is woken later.

The plan is the one that simulations carry out. What can be seen from inside a process is possible here: an instant, the
moment before a request leaves (c0), and the moment after its answer came (c4). A pause strikes a whole process, so each
client that is paused has one of its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lockref.errors import CapabilityMissing
from lockref.history import Kind, Recorder, Stamp, detail
from lockref.ports import Channel, PushChannel, Reply, Request
from lockref.runtime import NS_PER_S, ThreadRuntime
from scenarios.definition.draw import DrawnScenario
from scenarios.definition.fault_plan import draw_plan
from scenarios.definition.schema import Scenario
from sim.faults.plan import FaultPlan
from sim.faults.process import Pause
from sim.services.request import OP_NAMES

_CUTS: Final = ("c0", "c4")


def pauses_of(scenario: Scenario, drawn: DrawnScenario, seed: int) -> FaultPlan:
    """The plan of a real run: nothing, or pauses of whole processes.

    Errors: CapabilityMissing for a scenario that disturbs in any other way, and on a system without SIGSTOP.
    """
    plan = draw_plan(scenario, drawn, seed)
    if not plan.faults and not scenario.disturbs:
        return plan
    where = f"scenario {scenario.name!r}"
    hint = "run it with `lockref sim`, or take a scenario whose only faults are pauses, or that has none"
    if scenario.swarm or scenario.has_unreliable_network or scenario.workload.life == "forks":
        raise CapabilityMissing(f"{where} disturbs in a way that only the simulated world can: {hint}")
    for fault in plan.faults:
        if not isinstance(fault, Pause) or fault.task is not None:
            kind = fault.kind if not isinstance(fault, Pause) else f"{fault.kind} of single tasks"
            raise CapabilityMissing(f"{where} injects faults that only the simulated world can ({kind}): {hint}")
        if fault.when is not None and fault.when.cut not in _CUTS:
            raise CapabilityMissing(
                f"{where} pauses at cut {fault.when.cut}, which no process sees by itself; only {' and '.join(_CUTS)}"
            )
    if not hasattr(signal, "SIGSTOP"):
        raise CapabilityMissing(f"{where} pauses processes, and this system cannot stop one (SIGSTOP)")
    return plan


class ProcessPauses:
    """The pauses of one process in one run.

    plan: of the run. client: the only one of this process. begin: tells when true time 0 is.
    """

    def __init__(self, plan: FaultPlan, client: str, *, recorder: Recorder, runtime: ThreadRuntime) -> None:
        self._pauses = [fault for fault in plan.faults if isinstance(fault, Pause) and fault.client == client]
        self._heal_ns = plan.heal_ns
        self._client = client
        self._recorder = recorder
        self._runtime = runtime
        self._mutex = runtime.mutex()
        self._reached: dict[str, int] = {}
        self._start_ns = runtime.monotonic_ns()

    def begin(self) -> None:
        """The run begins: instants count from now."""
        self._start_ns = self._runtime.monotonic_ns()
        for pause in self._pauses:
            if pause.at_ns is not None:
                self._runtime.spawn(lambda pause=pause: self._strike_at(pause), name=pause.id)  # type: ignore[misc]

    def before(self, channel: Channel) -> Channel:
        """The channel, with whatever pause a request of it triggers."""
        return _PausingChannel(channel, self) if any(each.when is not None for each in self._pauses) else channel

    def _strike_at(self, pause: Pause) -> None:
        assert pause.at_ns is not None, "it has an instant"
        self._runtime.sleep(max(0, pause.at_ns - self._elapsed_ns()))
        self._strike(pause)

    def _elapsed_ns(self) -> int:
        return self._runtime.monotonic_ns() - self._start_ns

    def met(self, request: Request) -> list[Pause]:
        """The pauses whose trigger is this request, which is about to leave."""
        found = []
        now_ns = self._elapsed_ns()
        op = OP_NAMES[request.op]
        with self._mutex:
            for pause in self._pauses:
                trigger = pause.when
                if trigger is None or trigger.op not in (None, op) or trigger.service not in (None, request.service):
                    continue
                if not trigger.is_open(now_ns):
                    continue
                self._reached[pause.id] = self._reached.get(pause.id, 0) + 1
                if self._reached[pause.id] == trigger.nth:
                    found.append(pause)
        return found

    def strike_at(self, cut: str, met: Sequence[Pause]) -> None:
        """Pause for those of `met` that strike at this cut."""
        for pause in met:
            assert pause.when is not None, "it was triggered"
            if pause.when.cut == cut:
                self._strike(pause)

    def _strike(self, pause: Pause) -> None:
        """Stop this process, all of it, and return when it goes on."""
        for_ns = pause.for_ns
        if self._heal_ns is not None:
            for_ns = min(for_ns, self._heal_ns - self._elapsed_ns())
        if for_ns <= 0:
            return
        script = str(Path(__file__).with_name("waker.py"))
        argv = [sys.executable, "-S", "-E", script, str(os.getpid()), str(for_ns / NS_PER_S)]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as waker:
            assert waker.stdout is not None, "it was asked for"
            waker.stdout.read(1)
            self._record(pause, "begin")
            # To this thread, so that it is this one that stops first: sent to the process, the call may return before.
            signal.raise_signal(signal.SIGSTOP)
            self._record(pause, "end")

    def _record(self, pause: Pause, phase: str) -> None:
        now_ns = self._runtime.monotonic_ns()
        stamp: Stamp = (now_ns, self._runtime.wall_ns(), now_ns, "")
        self._recorder.event(Kind.FAULT, stamp, self._client, detail=detail(id=pause.id, kind=pause.kind, phase=phase))


class _PausingChannel:
    """A channel whose requests may trigger a pause."""

    def __init__(self, channel: Channel, pauses: ProcessPauses) -> None:
        self._channel = channel
        self._pauses = pauses
        self.client = channel.client
        self.service = channel.service

    @property
    def capabilities(self) -> object:
        return self._channel.capabilities

    def send(self, request: Request, timeout_ns: int) -> Reply:
        met = self._pauses.met(request)
        self._pauses.strike_at("c0", met)
        reply = self._channel.send(request, timeout_ns)
        self._pauses.strike_at("c4", met)
        return reply

    def receive(self, timeout_ns: int | None) -> object | None:
        assert isinstance(self._channel, PushChannel), f"{self.service} pushes nothing"
        return self._channel.receive(timeout_ns)

    def close(self) -> None:
        self._channel.close()
