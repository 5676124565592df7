"""Carrying out a fault plan in a world, and counting what came of it.

The wire asks at each cut point; the kernel's queue brings timed faults. Every
fault has three counts:

    armed    chances it had: 1 when a timed fault's instant came, one per
             request that passed its filter or reached its trigger's kind
    fired    how often it struck
    mattered how often that changed something: a task was really held up, a
             message really lost, a condition really overruled

A fault that never fired explains nothing, and one that fired without mattering
is the first to go when a failure is shrunk.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from lockref.errors import ConfigError
from lockref.history import Kind, detail
from lockref.stores.port import Outcome, ReadReply, WriteReply
from sim.clocks import WALL_EPOCH_NS
from sim.faults import vocabulary as v
from sim.streams import derive

if TYPE_CHECKING:
    from sim.nodes import Node
    from sim.services.wire import Exchange, Refusal
    from sim.world import World

CLOCK_KINDS = ("drift", "offset", "step", "freeze")
_UNIT = 2.0**64


class ArmedFault:
    """One fault of the plan with its counts."""

    __slots__ = ("armed", "fault", "fired", "is_active", "kind", "mattered", "passed")

    def __init__(self, fault: v.Fault) -> None:
        self.fault = fault
        self.kind: str = fault.kind  # type: ignore[attr-defined]
        self.armed = 0
        self.fired = 0
        self.mattered = 0
        self.passed = 0
        self.is_active = False

    def has_mattered(self) -> None:
        self.mattered += 1


class Injector:
    """The plan at work in one world."""

    def __init__(self, world: World, plan: v.FaultPlan) -> None:
        self._world = world
        self.plan = plan
        self._heal_ns = plan.heal_ns
        self.states = [ArmedFault(fault) for fault in plan.faults]
        self._triggers: dict[str, list[ArmedFault]] = {cut: [] for cut in v.CUTS}
        self._requests: list[ArmedFault] = []
        self._partitions: list[ArmedFault] = []
        # Requests so far by (client, op, service), each part also as None for "any".
        self._counts: dict[tuple[str, str | None, str | None], int] = {}
        # Nobody asks for a request's place in its client's life unless a trigger or a chance does.
        self._is_counting = any(
            fault.when is not None or getattr(fault, "probability", 1.0) < 1.0 for fault in plan.faults
        )
        self._end_ns = 0
        self._strikers: dict[str, Callable[[ArmedFault], None]] = {
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
        for state in self.states:
            fault = state.fault
            if fault.is_request_fault:
                self._requests.append(state)
            elif fault.when is not None:
                self._triggers[fault.when.cut].append(state)

    # Setting up.

    def clients(self) -> list[str]:
        """The clients that the plan names, sorted."""
        named = {
            name
            for fault in self.plan.faults
            for name in (getattr(fault, "client", None), fault.when.client if fault.when else None)
            if name is not None
        }
        return sorted(named)

    def check_clients(self, known: list[str]) -> None:
        """Raises ConfigError if the plan names a client that this world has not."""
        for name in self.clients():
            if name not in known:
                raise ConfigError(f"the fault plan names client {name!r}; this world has {', '.join(known)}")

    def strike_initial(self, node: Node) -> None:
        """A clock that is wrong from instant 0 is wrong as soon as there is a node."""
        for state in self.states:
            if _is_initial_clock(state) and state.fault.target == node.name:
                self._strike(state)

    def arm(self) -> None:
        """Put the timed faults into the queue; those of instant 0 strike now, before any task runs."""
        kernel = self._world.kernel
        for state in self.states:
            at_ns = state.fault.at_ns
            if at_ns is None or state.fault.is_request_fault or _is_initial_clock(state):
                continue
            if at_ns == 0:
                self._strike(state)
            elif self._heal_ns is None or at_ns < self._heal_ns:
                kernel.call_at(at_ns, partial(self._strike, state))
        if self._heal_ns is not None:
            kernel.call_at(self._heal_ns, self._world.network.heal)

    # What the wire asks.

    def at_c0(self, exchange: Exchange) -> None:
        """In the client's task, before the request leaves."""
        if not self._is_counting:
            return
        client, op, service = exchange.client, exchange.op, exchange.service
        counts = self._counts
        for key in ((client, op, service), (client, op, None), (client, None, service), (client, None, None)):
            counts[key] = counts.get(key, 0) + 1
        exchange.ordinals = (
            counts[client, op, service], counts[client, op, None], counts[client, None, service],
            counts[client, None, None],
        )  # fmt: skip
        if self._triggers["c0"]:
            self._reach("c0", exchange)

    def on_send(
        self, exchange: Exchange, out_ns: int, is_lost: bool, resend_ns: int | None
    ) -> tuple[int, bool, int | None]:
        """The request leaves: which faults strike it, how long it takes, whether it arrives, whether twice."""
        for state in self._requests:
            if state.kind not in exchange.struck and self._strikes(state, exchange):
                exchange.struck[state.kind] = state
        struck = exchange.struck
        if struck:
            delay = struck.get("delay")
            if delay is not None:
                assert isinstance(delay.fault, v.Delay)
                self._fire(delay, has_mattered=delay.fault.by_ns > 0, lasts_ns=delay.fault.by_ns)
                if delay.fault.direction == "request":
                    out_ns += delay.fault.by_ns
                else:
                    exchange.to_client_ns += delay.fault.by_ns
            ghost = struck.get("ghost_write")
            if ghost is not None:
                assert isinstance(ghost.fault, v.GhostWrite)
                self._fire(ghost, lasts_ns=ghost.fault.by_ns)
                out_ns += ghost.fault.by_ns
                exchange.is_reply_lost = True
            duplicate = struck.get("duplicate")
            if duplicate is not None:
                assert isinstance(duplicate.fault, v.Duplicate)
                self._fire(duplicate, lasts_ns=duplicate.fault.gap_ns)
                resend_ns = duplicate.fault.gap_ns
            retry = struck.get("hidden_retry")
            if retry is not None:
                assert isinstance(retry.fault, v.HiddenRetry)
                self._fire(retry, lasts_ns=retry.fault.gap_ns)
                exchange.retry_after_ns = retry.fault.gap_ns
            stale = struck.get("stale_read")
            if stale is not None:
                assert isinstance(stale.fault, v.StaleRead)
                exchange.stale_ns = stale.fault.lag_ns
            lost = struck.get("lose_request")
            if lost is not None:
                self._fire(lost, has_mattered=not is_lost)
                is_lost = True
        if self._partitions and self._is_cut(exchange.client, exchange.service):
            is_lost = True
        return out_ns, is_lost, resend_ns

    def at_c1(self, exchange: Exchange) -> Refusal | None:
        """The request has arrived. A refusal, if it shall not be applied."""
        if self._triggers["c1"]:
            self._reach("c1", exchange)
        return self._refusal(exchange, "c1")

    def at_c2(self, exchange: Exchange, reply: object) -> Refusal | None:
        """The request was applied. A refusal, if the client shall hear that instead of the truth."""
        ghost = exchange.struck.get("ghost_write")
        if ghost is not None and _has_landed(reply):
            ghost.has_mattered()
        stale = exchange.struck.get("stale_read")
        if stale is not None and isinstance(reply, ReadReply):
            present = self._world.stores[exchange.service].peek(exchange.key)
            self._fire(stale, has_mattered=(reply.version != (present[1] if present else None)))
        if self._triggers["c2"]:
            self._reach("c2", exchange)
        return self._refusal(exchange, "c2")

    def at_c3(self, exchange: Exchange) -> None:
        """The reply has left, or was lost on leaving."""
        if self._triggers["c3"]:
            self._reach("c3", exchange)

    def at_c4(self, exchange: Exchange) -> None:
        """In the client's task, with the reply in hand."""
        if self._triggers["c4"]:
            self._reach("c4", exchange)

    def is_reply_lost(self, exchange: Exchange) -> bool:
        """The reply is about to leave."""
        lost = exchange.struck.get("lose_reply")
        if lost is not None:
            self._fire(lost, has_mattered=not exchange.is_over)
            return True
        error = exchange.struck.get("error")
        if error is not None and isinstance(error.fault, v.Error) and error.fault.status == "timeout":
            return True
        return bool(self._partitions) and self._is_cut(exchange.service, exchange.client)

    def is_condition_ignored(self, exchange: Exchange) -> bool:
        """A condition is about to fail."""
        state = exchange.struck.get("ignore_conditions")
        if state is None:
            return False
        self._fire(state, has_mattered=True)
        return True

    def on_duplicate(self, exchange: Exchange, reply: object) -> None:
        """A duplicate was applied."""
        state = exchange.struck.get("duplicate")
        if state is not None and _has_landed(reply):
            state.has_mattered()

    def on_retried(self, exchange: Exchange, first: object, second: object) -> None:
        """A hidden retry was applied; it matters if the caller is told something else than the truth."""
        state = exchange.struck.get("hidden_retry")
        if state is not None and getattr(first, "outcome", None) != getattr(second, "outcome", None):
            state.has_mattered()

    # Matching.

    def _is_open(self, fault: v.Fault) -> bool:
        now = self._world.kernel.now_ns
        if self._heal_ns is not None and now >= self._heal_ns:
            return False
        begin = fault.at_ns or 0
        length = fault.length_ns
        return begin <= now and (length is None or now < begin + length)

    def _strikes(self, state: ArmedFault, exchange: Exchange) -> bool:
        fault = state.fault
        assert isinstance(fault, v.RequestFault)
        if not self._is_open(fault) or (state.kind == "stale_read" and exchange.op != "read"):
            return False
        if fault.when is not None:
            return self._is_reached(state, fault.when, exchange)
        if (
            fault.client not in (None, exchange.client)
            or fault.op not in (None, exchange.op)
            or fault.service not in (None, exchange.service)
        ):
            return False
        state.passed += 1
        first = fault.nth or 1
        times = fault.times if fault.times is not None else (1 if fault.nth is not None else None)
        if state.passed < first or (times is not None and state.passed >= first + times):
            return False
        state.armed += 1
        if fault.probability >= 1.0:
            return True
        draw = derive(self._world.seed, f"fault/{fault.id}/{exchange.client}/{exchange.ordinals[3]}")
        return draw < fault.probability * _UNIT

    def _is_reached(self, state: ArmedFault, trigger: v.Trigger, exchange: Exchange) -> bool:
        """True if this request is the one that the trigger names."""
        if (
            trigger.client != exchange.client
            or trigger.op not in (None, exchange.op)
            or trigger.service not in (None, exchange.service)
        ):
            return False
        state.armed += 1
        return exchange.ordinals[(trigger.service is None) + 2 * (trigger.op is None)] == trigger.nth

    def _reach(self, cut: str, exchange: Exchange) -> None:
        for state in self._triggers[cut]:
            trigger = state.fault.when
            is_healed = self._heal_ns is not None and self._world.kernel.now_ns >= self._heal_ns
            if trigger and not state.fired and not is_healed and self._is_reached(state, trigger, exchange):
                self._strike(state)

    def _refusal(self, exchange: Exchange, cut: str) -> Refusal | None:
        state = exchange.struck.get("error")
        if state is None:
            return None
        fault = state.fault
        assert isinstance(fault, v.Error)
        if fault.strikes_at != cut:
            return None
        self._fire(state, has_mattered=not exchange.is_over)
        if isinstance(fault.status, int):
            return fault.status, f"status {fault.status} (injected)"
        return None, fault.status

    def _is_cut(self, source: str, destination: str) -> bool:
        is_cut = False
        for state in self._partitions:
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

    # Striking.

    def _fire(self, state: ArmedFault, *, has_mattered: bool = False, lasts_ns: int = 0) -> None:
        state.fired += 1
        if has_mattered:
            state.mattered += 1
        self._until(self._world.kernel.now_ns + lasts_ns)
        self._record(state, "fired")

    def _strike(self, state: ArmedFault) -> None:
        if state.fault.when is None:
            state.armed += 1
        state.fired += 1
        self._until(self._world.kernel.now_ns)
        self._record(state, "begin")
        self._strikers[state.kind](state)

    def _until(self, true_ns: int) -> None:
        if true_ns > self._end_ns:
            self._end_ns = true_ns

    def _clipped(self, for_ns: int) -> int:
        """A length, cut short by the healing."""
        if self._heal_ns is None:
            return for_ns
        return max(0, min(for_ns, self._heal_ns - self._world.kernel.now_ns))

    def _end_after(self, state: ArmedFault, for_ns: int, undo: Callable[[], object]) -> None:
        kernel = self._world.kernel
        self._until(kernel.now_ns + for_ns)

        def end() -> None:
            undo()
            self._record(state, "end")

        kernel.call_at(kernel.now_ns + for_ns, end)

    def _node(self, state: ArmedFault) -> Node:
        return self._world.nodes[state.fault.target]

    def _hold(self, state: ArmedFault, node: Node, for_ns: int, prefix: str | None) -> None:
        self._end_after(state, for_ns, lambda: None)
        node.pause(for_ns, prefix, on_held=state.has_mattered)

    def _pause(self, state: ArmedFault) -> None:
        fault = state.fault
        assert isinstance(fault, v.Pause)
        self._hold(state, self._node(state), self._clipped(fault.for_ns), fault.task)

    def _suspend(self, state: ArmedFault) -> None:
        fault = state.fault
        assert isinstance(fault, v.Suspend)
        node, for_ns = self._node(state), self._clipped(fault.for_ns)
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

            self._end_after(state, self._clipped(fault.restart_after_ns), restart)
        node.crash()

    def _partition(self, state: ArmedFault) -> None:
        fault = state.fault
        assert isinstance(fault, v.Partition)
        self._partitions.append(state)
        self._end_after(state, self._clipped(fault.for_ns), lambda: self._partitions.remove(state))

    # Clocks. Timers that run on a changed map are solved again.

    def _clock_changed(self, node: Node, **what: object) -> None:
        world = self._world
        world.kernel.retime(node.clock)
        now = world.kernel.now_ns
        world.recorder.event(
            Kind.CLOCK, now, node.clock.wall_ns(now), node.clock.mono_ns(now), node.name, detail=detail(**what)
        )

    def _set_rate(self, node: Node, rate_ppm: int) -> None:
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
        node, before = self._node(state), self._node(state).clock.rate_ppm
        if before != fault.rate_ppm:
            state.has_mattered()
        self._set_rate(node, fault.rate_ppm)
        if fault.for_ns is not None:
            self._end_after(state, self._clipped(fault.for_ns), lambda: self._set_rate(node, before))

    def _offset(self, state: ArmedFault) -> None:
        fault = state.fault
        assert isinstance(fault, v.Offset)
        node, by_ns = self._node(state), fault.by_ns
        if by_ns:
            state.has_mattered()
        self._step_wall(node, by_ns)
        if fault.for_ns is not None:
            self._end_after(state, self._clipped(fault.for_ns), lambda: self._step_wall(node, -by_ns))

    def _step(self, state: ArmedFault) -> None:
        fault = state.fault
        assert isinstance(fault, v.Step)
        if fault.by_ns:
            state.has_mattered()
        self._step_wall(self._node(state), fault.by_ns)

    def _freeze(self, state: ArmedFault) -> None:
        fault = state.fault
        assert isinstance(fault, v.Freeze)
        for_ns = self._clipped(fault.for_ns)
        if for_ns:
            state.has_mattered()
        self._freeze_clock(self._node(state), for_ns)
        self._end_after(state, for_ns, lambda: None)

    # The operator.

    def _targets(self, service: str, key: str | None) -> list[str]:
        store = self._world.store(service)
        if key is not None:
            return [key]
        bodies = ((name, store.peek(name)) for name in store.present_keys())
        return [name for name, stored in bodies if stored is not None and store.decode(stored[0]) is not None]

    def _delete_object(self, state: ArmedFault) -> None:
        fault = state.fault
        assert isinstance(fault, v.DeleteObject)
        for key in self._targets(fault.service, fault.key):
            if self._world.store(fault.service).operator_delete(key):
                state.has_mattered()

    def _corrupt_object(self, state: ArmedFault) -> None:
        fault = state.fault
        assert isinstance(fault, v.CorruptObject)
        store = self._world.store(fault.service)
        for key in self._targets(fault.service, fault.key):
            store.operator_put(key, fault.body)
            state.has_mattered()

    # Results.

    def counts(self) -> dict[str, tuple[int, int, int]]:
        """(armed, fired, mattered) by fault id, in the plan's order."""
        return {state.fault.id: (state.armed, state.fired, state.mattered) for state in self.states}

    def end_ns(self) -> int | None:
        """The true time after which nothing disturbs; None if a fault has no end."""
        end_ns = self._end_ns
        for state in self._requests:
            fault = state.fault
            assert isinstance(fault, v.RequestFault)
            if fault.is_endless and self._heal_ns is None:
                return None
            if fault.for_ns is not None:
                end_ns = max(end_ns, (fault.at_ns or 0) + self._clipped_from(fault.at_ns or 0, fault.for_ns))
        if self._heal_ns is not None:
            return max(end_ns, self._heal_ns)
        return end_ns

    def _clipped_from(self, at_ns: int, for_ns: int) -> int:
        return for_ns if self._heal_ns is None else max(0, min(for_ns, self._heal_ns - at_ns))

    def _record(self, state: ArmedFault, phase: str) -> None:
        world, fault = self._world, state.fault
        now = world.kernel.now_ns
        node = world.nodes.get(fault.target)
        wall_ns, mono_ns = (
            (WALL_EPOCH_NS + now, int(now)) if node is None else (node.clock.wall_ns(now), node.clock.mono_ns(now))
        )
        world.recorder.event(
            Kind.FAULT, now, wall_ns, mono_ns, fault.target, detail=detail(id=fault.id, kind=state.kind, phase=phase)
        )


def _is_initial_clock(state: ArmedFault) -> bool:
    return state.kind in CLOCK_KINDS and state.fault.at_ns == 0


def _has_landed(reply: object) -> bool:
    """True unless the service says that nothing was changed; a resource's answer counts as a change."""
    return not isinstance(reply, (WriteReply, ReadReply)) or reply.outcome is Outcome.APPLIED
