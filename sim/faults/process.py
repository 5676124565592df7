"""Faults of a node's process: it stops for a while, sleeps with its machine, or ends.

Overlapping pauses do not undo each other: they last to the latest end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from sim.faults.clocks import CLOCKS_ARE_SHARED, freeze_clock
from sim.faults.fault import ArmedFault, Fault, StateFault
from sim.faults.quantities import Duration, NodeName
from sim.faults.surroundings import HeldTasks

if TYPE_CHECKING:
    from sim.faults.drawing import Drawing
    from sim.faults.surroundings import StruckNode, Surroundings


class Pause(StateFault):
    """The whole process stops, or the tasks of one side; requests already sent still land (U2, E8).

    task: `main` holds the client's own tasks only, `heartbeat` only those that its lock started through its runtime,
    whatever it calls them.
    """

    kind: Literal["pause"] = "pause"
    client: NodeName
    for_ns: Duration
    task: HeldTasks | None = None

    def begin(self, armed: ArmedFault[Fault], around: Surroundings) -> None:
        _hold(armed, around.nodes[self.client], armed.clipped(self.for_ns), self.task)

    @classmethod
    def draw(cls, drawing: Drawing) -> dict[str, Any]:
        client = drawing.client()
        task = drawing.rng.choice((None, None, "heartbeat", "main"))
        return {"client": client, "for_ns": drawing.length(), "task": task, **drawing.beginning(client)}

    def obstacle(self) -> str:
        return "" if self.task is None else "nobody can stop single threads of a process from outside"

    def forms(self) -> list[str]:
        return [] if self.task is None else [f"{self.kind} of {self.task}"]

    def happened(self) -> str:
        whose = self.client if self.task is None else f"the {self.task} of {self.client}"
        return f"{whose} was paused for {self.for_ns} ns"


class Suspend(StateFault):
    """The machine sleeps: a pause in which its clocks stand still; then the wall clock catches up in one step (H1)."""

    never_real: ClassVar[str] = CLOCKS_ARE_SHARED

    kind: Literal["suspend"] = "suspend"
    client: NodeName
    for_ns: Duration

    def begin(self, armed: ArmedFault[Fault], around: Surroundings) -> None:
        node, for_ns = around.nodes[self.client], armed.clipped(self.for_ns)
        if for_ns and node.is_running:
            # A suspend moves timers instead of holding tasks up, so no task reports that it was held.
            armed.has_mattered()
        freeze_clock(around.machines[self.client], around, for_ns)
        _hold(armed, node, for_ns, None)

    @classmethod
    def draw(cls, drawing: Drawing) -> dict[str, Any]:
        return {"client": drawing.client(), "at_ns": drawing.instant(), "for_ns": drawing.length()}

    def happened(self) -> str:
        return f"the machine of {self.client} slept for {self.for_ns} ns"


class Crash(StateFault):
    """The process ends at once; `restart_after` later a new one, with a new identity, repeats its work (E3)."""

    kind: Literal["crash"] = "crash"
    client: NodeName
    restart_after_ns: Duration | None = None

    def begin(self, armed: ArmedFault[Fault], around: Surroundings) -> None:
        node = around.nodes[self.client]
        if node.is_running:
            armed.has_mattered()
        if self.restart_after_ns is not None:
            kernel = around.kernel
            kernel.expect_task()
            crashed = node.process

            def restart() -> None:
                # Two crashes may promise the same process a successor; it gets one.
                if node.process is crashed:
                    node.restart()
                kernel.expect_no_task()

            armed.end_after(armed.clipped(self.restart_after_ns), restart)
        node.crash()

    @classmethod
    def draw(cls, drawing: Drawing) -> dict[str, Any]:
        client = drawing.client()
        restart_ns = drawing.length() if drawing.rng.random() < 0.7 else None
        return {"client": client, "restart_after_ns": restart_ns, **drawing.beginning(client)}

    def happened(self) -> str:
        again = "" if self.restart_after_ns is None else f" and was started again {self.restart_after_ns} ns later"
        return f"{self.client} crashed{again}"


def _hold(armed: ArmedFault[Fault], node: StruckNode, for_ns: int, task: HeldTasks | None) -> None:
    armed.end_after(for_ns)
    node.pause(for_ns, task, on_held=armed.has_mattered)
