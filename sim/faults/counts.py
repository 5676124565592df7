"""The ledger of a fault plan: what was armed, what fired, what mattered, and when it was over.

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

from collections.abc import Callable
from typing import TYPE_CHECKING

from lockref.history import Kind, detail
from sim.faults import vocabulary as v
from sim.kernel.clocks import WALL_EPOCH_NS

if TYPE_CHECKING:
    from sim.world import World


class ArmedFault:
    """One fault of the plan with its counts.

    passed: requests that its filter let through so far. chosen: the
    request that a trigger with a window waits for, once that was made.
    """

    __slots__ = ("armed", "chosen", "fault", "fired", "kind", "mattered", "passed")

    def __init__(self, fault: v.Fault) -> None:
        self.fault = fault
        self.kind: str = fault.kind  # type: ignore[attr-defined]
        self.armed = 0
        self.fired = 0
        self.mattered = 0
        self.passed = 0
        self.chosen: object | None = None

    def has_mattered(self) -> None:
        self.mattered += 1


class Ledger:
    """Counts, FAULT rows and the end of all disturbance, for one world."""

    def __init__(self, world: World, plan: v.FaultPlan) -> None:
        self._world = world
        self.heal_ns = plan.heal_ns
        self.states = [ArmedFault(fault) for fault in plan.faults]
        self._end_ns = 0

    @property
    def is_healed(self) -> bool:
        """True once the plan's promise holds that nothing disturbs any more."""
        return self.heal_ns is not None and self._world.kernel.now_ns >= self.heal_ns

    def fire(self, state: ArmedFault, *, has_mattered: bool = False, lasts_ns: int = 0) -> None:
        """A request fault strikes; its consequences last `lasts_ns` from now."""
        state.fired += 1
        if has_mattered:
            state.mattered += 1
        self._until(self._world.kernel.now_ns + lasts_ns)
        self._record(state, "fired")

    def begin(self, state: ArmedFault) -> None:
        """A state fault strikes."""
        if state.fault.when is None:
            state.armed += 1
        state.fired += 1
        self._until(self._world.kernel.now_ns)
        self._record(state, "begin")

    def end_after(self, state: ArmedFault, for_ns: int, undo: Callable[[], object] | None = None) -> None:
        """A state fault that has begun ends `for_ns` from now, by `undo`."""
        kernel = self._world.kernel
        self._until(kernel.now_ns + for_ns)

        def end() -> None:
            if undo is not None:
                undo()
            self._record(state, "end")

        kernel.call_at(kernel.now_ns + for_ns, end)

    def clipped(self, for_ns: int) -> int:
        """A length from now, cut short by the healing."""
        return self._clipped_from(self._world.kernel.now_ns, for_ns)

    def _clipped_from(self, at_ns: int, for_ns: int) -> int:
        return for_ns if self.heal_ns is None else max(0, min(for_ns, self.heal_ns - at_ns))

    def _until(self, true_ns: int) -> None:
        if true_ns > self._end_ns:
            self._end_ns = true_ns

    def counts(self) -> dict[str, tuple[int, int, int]]:
        """(armed, fired, mattered) by fault id, in the plan's order."""
        return {state.fault.id: (state.armed, state.fired, state.mattered) for state in self.states}

    def end_ns(self) -> int | None:
        """The true time after which nothing disturbs; None if a fault has no end."""
        end_ns = self._end_ns
        for state in self.states:
            fault = state.fault
            if not isinstance(fault, v.RequestFault):
                continue
            if fault.is_endless and self.heal_ns is None:
                return None
            if fault.for_ns is not None:
                begin_ns = fault.at_ns or 0
                end_ns = max(end_ns, begin_ns + self._clipped_from(begin_ns, fault.for_ns))
        return end_ns if self.heal_ns is None else max(end_ns, self.heal_ns)

    def _record(self, state: ArmedFault, phase: str) -> None:
        world, fault = self._world, state.fault
        now = world.kernel.now_ns
        node = world.nodes.get(fault.target)
        wall_ns, mono_ns = (
            (WALL_EPOCH_NS + now, int(now)) if node is None else (node.clock.wall_ns(now), node.clock.mono_ns(now))
        )
        told = detail(id=fault.id, kind=state.kind, phase=phase)
        world.recorder.event(Kind.FAULT, (now, wall_ns, mono_ns, ""), fault.target, detail=told)
