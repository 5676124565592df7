"""Striking: what each state fault does to nodes, clocks, links and objects.

A fault changes the world at one instant and, where it has a length, takes the
change back at its end. Overlapping faults of one kind do not undo each other:
pauses last to the latest end, rates and offsets add up, partitions are asked
one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lockref.history import Kind, detail
from sim.faults import vocabulary as v
from sim.faults.counts import ArmedFault, Ledger
from sim.kernel.clocks import PPM

if TYPE_CHECKING:
    from sim.machine.nodes import Node
    from sim.world import World

RATE_PPM_MAX = PPM - 1
"""A clock that runs backwards or stands still has no inverse; drifts that add up to one stop here."""


class Strikes:
    """The state faults of one world. partitions: those in force."""

    def __init__(self, world: World, ledger: Ledger) -> None:
        self._world = world
        self._ledger = ledger
        self.partitions: list[ArmedFault] = []
        self._drifts: dict[str, list[int]] = {}
        self._by_kind: dict[str, Callable[[ArmedFault], None]] = {
            "pause": self._pause,
            "suspend": self._suspend,
            "crash": self._crash,
            "partition": self._partition,
            "drift": self._drift,
            "offset": self._offset,
            "step": self._step,
            "freeze": self._freeze,
            "delete_object": self._delete_object,
            "corrupt_object": self._corrupt_object,
        }

    def strike(self, state: ArmedFault) -> None:
        """Let a fault begin. From a task that it kills, this does not return."""
        self._ledger.begin(state)
        self._by_kind[state.kind](state)

    def is_cut(self, source: str, destination: str) -> bool:
        """True if a partition stops a message that departs now."""
        is_cut = False
        for state in self.partitions:
            fault = state.fault
            assert isinstance(fault, v.Partition)
            from_group = next((i for i, group in enumerate(fault.groups) if source in group), None)
            to_group = next((i for i, group in enumerate(fault.groups) if destination in group), None)
            if from_group is None or to_group is None or from_group == to_group:
                continue
            if fault.one_way and from_group != 0:
                continue
            state.has_mattered()
            is_cut = True
        return is_cut

    def _node(self, state: ArmedFault) -> Node:
        return self._world.nodes[state.fault.target]

    def _hold(self, state: ArmedFault, node: Node, for_ns: int, task: v.HeldTasks | None) -> None:
        self._ledger.end_after(state, for_ns)
        node.pause(for_ns, task, on_held=state.has_mattered)

    def _pause(self, state: ArmedFault) -> None:
        fault = state.fault
        assert isinstance(fault, v.Pause)
        self._hold(state, self._node(state), self._ledger.clipped(fault.for_ns), fault.task)

    def _suspend(self, state: ArmedFault) -> None:
        fault = state.fault
        assert isinstance(fault, v.Suspend)
        node, for_ns = self._node(state), self._ledger.clipped(fault.for_ns)
        if for_ns and any(task.is_alive() for task in node.process.tasks):
            # Its timers are moved rather than held up, so no task will say so.
            state.has_mattered()
        self._freeze_clock(node, for_ns)
        self._hold(state, node, for_ns, None)

    def _crash(self, state: ArmedFault) -> None:
        fault = state.fault
        assert isinstance(fault, v.Crash)
        node = self._node(state)
        if node.is_up:
            state.has_mattered()
        if fault.restart_after_ns is not None:
            kernel = self._world.kernel
            kernel.expect_task()
            crashed = node.process

            def restart() -> None:
                # Two crashes may promise the same process a successor; it gets one.
                if node.process is crashed:
                    node.restart()
                kernel.expect_no_task()

            self._ledger.end_after(state, self._ledger.clipped(fault.restart_after_ns), restart)
        node.crash()

    def _partition(self, state: ArmedFault) -> None:
        fault = state.fault
        assert isinstance(fault, v.Partition)
        self.partitions.append(state)
        self._ledger.end_after(state, self._ledger.clipped(fault.for_ns), lambda: self.partitions.remove(state))

    # Clocks. Timers that run on a changed map are solved again.

    def _clock_changed(self, node: Node, **what: object) -> None:
        world = self._world
        world.kernel.retime(node.clock)
        now = world.kernel.now_ns
        world.recorder.event(Kind.CLOCK, (now, *node.clock.both_ns(now), ""), node.name, detail=detail(**what))

    def _set_rate(self, node: Node) -> None:
        """Drifts under way add up, so that they may end in any order."""
        rate_ppm = sum(self._drifts.get(node.name, ()))
        rate_ppm = max(-RATE_PPM_MAX, min(RATE_PPM_MAX, rate_ppm))
        node.clock.set_rate(self._world.kernel.now_ns, rate_ppm)
        self._clock_changed(node, change="rate", rate_ppm=rate_ppm)

    def _step_wall(self, node: Node, by_ns: int) -> None:
        node.clock.step_wall(self._world.kernel.now_ns, by_ns)
        self._clock_changed(node, change="step", by_ns=by_ns)

    def _freeze_clock(self, node: Node, for_ns: int) -> None:
        node.clock.freeze(self._world.kernel.now_ns, for_ns)
        self._clock_changed(node, change="freeze", for_ns=for_ns)

    def _drift(self, state: ArmedFault) -> None:
        fault = state.fault
        assert isinstance(fault, v.Drift)
        node, rate_ppm = self._node(state), fault.rate_ppm
        if rate_ppm:
            state.has_mattered()
        rates = self._drifts.setdefault(node.name, [])
        rates.append(rate_ppm)
        self._set_rate(node)
        if fault.for_ns is not None:

            def end() -> None:
                rates.remove(rate_ppm)
                self._set_rate(node)

            self._ledger.end_after(state, self._ledger.clipped(fault.for_ns), end)

    def _offset(self, state: ArmedFault) -> None:
        fault = state.fault
        assert isinstance(fault, v.Offset)
        node, by_ns = self._node(state), fault.by_ns
        if by_ns:
            state.has_mattered()
        self._step_wall(node, by_ns)
        if fault.for_ns is not None:
            self._ledger.end_after(state, self._ledger.clipped(fault.for_ns), lambda: self._step_wall(node, -by_ns))

    def _step(self, state: ArmedFault) -> None:
        fault = state.fault
        assert isinstance(fault, v.Step)
        if fault.by_ns:
            state.has_mattered()
        self._step_wall(self._node(state), fault.by_ns)

    def _freeze(self, state: ArmedFault) -> None:
        fault = state.fault
        assert isinstance(fault, v.Freeze)
        for_ns = self._ledger.clipped(fault.for_ns)
        if for_ns:
            state.has_mattered()
        self._freeze_clock(self._node(state), for_ns)
        self._ledger.end_after(state, for_ns)

    # The operator.

    def _delete_object(self, state: ArmedFault) -> None:
        fault = state.fault
        assert isinstance(fault, v.DeleteObject)
        state.mattered += self._world.service(fault.service).tamper("delete", fault.key)

    def _corrupt_object(self, state: ArmedFault) -> None:
        fault = state.fault
        assert isinstance(fault, v.CorruptObject)
        state.mattered += self._world.service(fault.service).tamper("put", fault.key, body=fault.body)
