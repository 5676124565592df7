"""The counts of a fault plan: what was armed, what fired, what mattered, and when it was over.

Every fault has three counts:

    armed    chances it had: 1 when a timed fault's instant came, one per
             request that passed its filter or was of its trigger's kind
    fired    how often it struck
    mattered how often that changed something: a task was really held up, a
             message really lost, a condition really overruled

A fault that never fired explains nothing, and one that fired without mattering
is the first to go when a failure is shrunk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from lockref.words import Kind, detail
from sim.faults.fault import ArmedFault, Fault, RequestFault
from sim.kernel.clocks import WALL_EPOCH_NS

if TYPE_CHECKING:
    from sim.faults.plan import FaultPlan
    from sim.faults.surroundings import Surroundings


def fault_effects(counts: Mapping[str, tuple[int, int, int]]) -> dict[str, int] | None:
    """The counts in a run's row: by fault id, how often the fault changed something; None for a run without faults."""
    return {fault: mattered for fault, (_, _, mattered) in counts.items()} or None


class FaultCounts:
    """Counts, FAULT rows and the end of all disturbance, for one world.

    heal_ns: true time from which nothing disturbs any more; None: no such promise.
    """

    def __init__(self, around: Surroundings, plan: FaultPlan) -> None:
        self._around = around
        self._kernel = around.kernel
        self.heal_ns = plan.heal_ns
        self.armed = [ArmedFault(fault, self) for fault in plan.faults]
        self._end_ns = 0

    @property
    def now_ns(self) -> int:
        """True time."""
        return self._kernel.now_ns

    def call_at(self, true_ns: int, call: Callable[[], None]) -> None:
        """Let the kernel call back at an instant."""
        self._kernel.call_at(true_ns, call)

    @property
    def is_healed(self) -> bool:
        """True once the plan's promise holds that nothing disturbs any more."""
        return self.heal_ns is not None and self._kernel.now_ns >= self.heal_ns

    def clipped(self, at_ns: int, for_ns: int) -> int:
        """A length from `at_ns`, cut short by the healing."""
        return for_ns if self.heal_ns is None else max(0, min(for_ns, self.heal_ns - at_ns))

    def disturb_until(self, true_ns: int) -> None:
        """Note that something disturbs the run at least until this instant."""
        if true_ns > self._end_ns:
            self._end_ns = true_ns

    def by_id(self) -> dict[str, tuple[int, int, int]]:
        """(armed, fired, mattered) by fault id, in the plan's order."""
        return {each.fault.id: (each.armed, each.fired, each.mattered) for each in self.armed}

    def end_ns(self) -> int | None:
        """The true time after which nothing disturbs; None if a fault has no end."""
        end_ns = self._end_ns
        for each in self.armed:
            fault = each.fault
            if not isinstance(fault, RequestFault):
                continue
            if fault.is_endless and self.heal_ns is None:
                return None
            if fault.for_ns is not None:
                begin_ns = fault.at_ns or 0
                end_ns = max(end_ns, begin_ns + self.clipped(begin_ns, fault.for_ns))
        return end_ns if self.heal_ns is None else max(end_ns, self.heal_ns)

    def record(self, armed: ArmedFault[Fault], phase: str) -> None:
        """Write a FAULT row, by the clocks of the node that the fault is about."""
        fault, now = armed.fault, self._kernel.now_ns
        node = self._around.nodes.get(fault.target)
        wall_ns, mono_ns = (
            (WALL_EPOCH_NS + now, int(now)) if node is None else (node.clock.wall_ns(now), node.clock.mono_ns(now))
        )
        text = detail(id=fault.id, kind=armed.kind, phase=phase)
        self._around.recorder.event(Kind.FAULT, (now, wall_ns, mono_ns, ""), fault.target, detail=text)
