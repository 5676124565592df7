"""Carrying out a fault plan: which faults strike when, and which requests.

The wire asks at each cut point of each request; the kernel's queue brings the
timed faults. What a state fault does is in `strikes`; the counts and the record
are in `ledger`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lockref.errors import ConfigError
from lockref.ports import Reply, Request
from lockref.stores.port import Outcome
from sim.faults import vocabulary as v
from sim.faults.counts import ArmedFault, Ledger
from sim.faults.state_faults import Strikes
from sim.kernel.streams import derive

if TYPE_CHECKING:
    from sim.machine.nodes import Node
    from sim.services.request import InFlight
    from sim.services.service import Refusal
    from sim.world import World

CLOCK_KINDS = ("drift", "offset", "step", "freeze")
_UNIT = 2.0**64


class Injector:
    """The plan at work in one world."""

    def __init__(self, world: World, plan: v.FaultPlan) -> None:
        self._world = world
        self.plan = plan
        self._ledger = Ledger(world, plan)
        self._strikes = Strikes(world, self._ledger)
        self.states = self._ledger.states
        self._triggers: dict[str, list[ArmedFault]] = {cut: [] for cut in v.CUTS}
        self._requests: list[ArmedFault] = []
        # Requests so far by (client, op, service), each part also as None for "any".
        self._counts: dict[tuple[str, str | None, str | None], int] = {}
        # Nobody asks for a request's place in its client's life unless a trigger or a chance does.
        self._is_counting = any(
            fault.when is not None or getattr(fault, "probability", 1.0) < 1.0 for fault in plan.faults
        )
        self._windowed = [s for s in self.states if s.fault.when is not None and s.fault.when.has_window]
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
                self._strikes.strike(state)

    def arm(self) -> None:
        """Put the timed faults into the queue; those of instant 0 strike now, before any task runs."""
        kernel = self._world.kernel
        for state in self.states:
            at_ns = state.fault.at_ns
            if at_ns is None or state.fault.is_request_fault or _is_initial_clock(state):
                continue
            if at_ns == 0:
                self._strikes.strike(state)
            elif self._ledger.heal_ns is None or at_ns < self._ledger.heal_ns:
                kernel.call_at(at_ns, partial(self._strikes.strike, state))
        if self._ledger.heal_ns is not None:
            kernel.call_at(self._ledger.heal_ns, self._world.network.heal)

    # What the wire asks.

    def at_c0(self, in_flight: InFlight) -> None:
        """In the client's task, before the request leaves."""
        if not self._is_counting:
            return
        client, op, service = in_flight.client, in_flight.op, in_flight.service
        counts = self._counts
        for key in ((client, op, service), (client, op, None), (client, None, service), (client, None, None)):
            counts[key] = counts.get(key, 0) + 1
        in_flight.ordinals = (
            counts[client, op, service], counts[client, op, None], counts[client, None, service],
            counts[client, None, None],
        )  # fmt: skip
        for state in self._windowed:
            self._count_in_window(state, in_flight)
        if self._triggers["c0"]:
            self._reach("c0", in_flight)

    def on_send(self, in_flight: InFlight) -> None:
        """The request leaves: which faults strike it, how long it takes, whether it arrives, whether twice."""
        for state in self._requests:
            # Asked in any case: what its filter lets through is counted, whichever fault of its kind strikes.
            if self._is_struck(state, in_flight):
                in_flight.struck.setdefault(state.kind, state)
        struck = in_flight.struck
        if struck:
            delay = struck.get("delay")
            if delay is not None:
                assert isinstance(delay.fault, v.Delay)
                self._ledger.fire(delay, has_mattered=delay.fault.by_ns > 0, lasts_ns=delay.fault.by_ns)
                if delay.fault.direction == "request":
                    in_flight.to_service_ns += delay.fault.by_ns
                else:
                    in_flight.to_client_ns += delay.fault.by_ns
            ghost = struck.get("ghost_write")
            if ghost is not None:
                assert isinstance(ghost.fault, v.GhostWrite)
                self._ledger.fire(ghost, lasts_ns=ghost.fault.by_ns)
                in_flight.to_service_ns += ghost.fault.by_ns
                in_flight.is_reply_lost = True
            duplicate = struck.get("duplicate")
            if duplicate is not None:
                assert isinstance(duplicate.fault, v.Duplicate)
                self._ledger.fire(duplicate, lasts_ns=duplicate.fault.gap_ns)
                in_flight.resend_ns = duplicate.fault.gap_ns
            retry = struck.get("hidden_retry")
            if retry is not None:
                assert isinstance(retry.fault, v.HiddenRetry)
                self._ledger.fire(retry, lasts_ns=retry.fault.gap_ns)
                in_flight.retry_after_ns = retry.fault.gap_ns
            stale = struck.get("stale_read")
            if stale is not None:
                assert isinstance(stale.fault, v.StaleRead)
                in_flight.stale_ns = stale.fault.lag_ns
            lost = struck.get("lose_request")
            if lost is not None:
                self._ledger.fire(lost, has_mattered=not in_flight.is_request_lost)
                in_flight.is_request_lost = True
        if self._strikes.partitions and self._strikes.is_cut(in_flight.client, in_flight.service):
            in_flight.is_request_lost = True

    def at_c1(self, in_flight: InFlight) -> Refusal | None:
        """The request has arrived. A refusal, if it shall not be applied."""
        if self._triggers["c1"]:
            self._reach("c1", in_flight)
        return self._refusal(in_flight, "c1")

    def at_c2(self, in_flight: InFlight, reply: Reply) -> Refusal | None:
        """The request was applied. A refusal, if the client shall hear that instead of the truth."""
        ghost = in_flight.struck.get("ghost_write")
        if ghost is not None and _has_landed(reply):
            ghost.has_mattered()
        stale = in_flight.struck.get("stale_read")
        if stale is not None:
            present = self._world.services[in_flight.service].past(in_flight.request.key)
            self._ledger.fire(stale, has_mattered=reply.version != present.version)
        if self._triggers["c2"]:
            self._reach("c2", in_flight)
        return self._refusal(in_flight, "c2")

    def at_c3(self, in_flight: InFlight) -> None:
        """The reply has left, or was lost on leaving."""
        if self._triggers["c3"]:
            self._reach("c3", in_flight)

    def at_c4(self, in_flight: InFlight) -> None:
        """In the client's task, with the reply in hand."""
        if self._triggers["c4"]:
            self._reach("c4", in_flight)

    def is_reply_lost(self, in_flight: InFlight) -> bool:
        """The reply is about to leave."""
        lost = in_flight.struck.get("lose_reply")
        if lost is not None:
            self._ledger.fire(lost, has_mattered=not in_flight.is_over)
            return True
        error = in_flight.struck.get("error")
        if error is not None and isinstance(error.fault, v.Error) and error.fault.status == "timeout":
            return True
        return bool(self._strikes.partitions) and self._strikes.is_cut(in_flight.service, in_flight.client)

    def overruled(self, in_flight: InFlight, reply: Reply) -> Request | None:
        """A condition failed. The request to apply instead, if a fault makes the service overlook it (M16, U13)."""
        state = in_flight.struck.get("ignore_conditions")
        if state is None or (reply.missing and in_flight.op == "delete"):
            return None
        self._ledger.fire(state, has_mattered=True)
        return in_flight.request._replace(condition="")

    def is_cut(self, source: str, destination: str) -> bool:
        """True if a partition stops a message that departs now."""
        return bool(self._strikes.partitions) and self._strikes.is_cut(source, destination)

    def on_duplicate(self, in_flight: InFlight, reply: Reply) -> None:
        """A duplicate was applied."""
        state = in_flight.struck.get("duplicate")
        if state is not None and _has_landed(reply):
            state.has_mattered()

    def on_retried(self, in_flight: InFlight, first: Reply, second: Reply) -> None:
        """A hidden retry was applied; it matters if the caller is told something else than the truth."""
        state = in_flight.struck.get("hidden_retry")
        if state is not None and first.outcome is not second.outcome:
            state.has_mattered()

    # Matching.

    def _is_open(self, fault: v.Fault) -> bool:
        now = self._world.kernel.now_ns
        if self._ledger.is_healed:
            return False
        begin = fault.at_ns or 0
        length = fault.length_ns
        return begin <= now and (length is None or now < begin + length)

    def _is_struck(self, state: ArmedFault, in_flight: InFlight) -> bool:
        fault = state.fault
        assert isinstance(fault, v.RequestFault)
        if not self._is_open(fault) or (state.kind == "stale_read" and in_flight.op != "read"):
            return False
        if fault.when is not None:
            return self._is_reached(state, fault.when, in_flight)
        if (
            fault.client not in (None, in_flight.client)
            or fault.op not in (None, in_flight.op)
            or fault.service not in (None, in_flight.service)
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
        draw = derive(self._world.seed, f"fault/{fault.id}/{in_flight.client}/{in_flight.ordinals[3]}")
        return draw < fault.probability * _UNIT

    def _is_reached(self, state: ArmedFault, trigger: v.Trigger, in_flight: InFlight) -> bool:
        """True if this request is the one that the trigger names."""
        if (
            trigger.client != in_flight.client
            or trigger.op not in (None, in_flight.op)
            or trigger.service not in (None, in_flight.service)
        ):
            return False
        state.armed += 1
        if trigger.has_window:
            return state.chosen is in_flight
        return in_flight.ordinals[(trigger.service is None) + 2 * (trigger.op is None)] == trigger.nth

    def _count_in_window(self, state: ArmedFault, in_flight: InFlight) -> None:
        """Note the request that a trigger with a window means, as it is made: counting is the same at every cut."""
        trigger = state.fault.when
        assert trigger is not None, "only triggers have windows"
        if (
            trigger.client == in_flight.client
            and trigger.op in (None, in_flight.op)
            and trigger.service in (None, in_flight.service)
            and trigger.is_open(self._world.kernel.now_ns)
        ):
            state.passed += 1
            if state.passed == trigger.nth:
                state.chosen = in_flight

    def _reach(self, cut: str, in_flight: InFlight) -> None:
        for state in self._triggers[cut]:
            trigger = state.fault.when
            is_healed = self._ledger.is_healed
            if trigger and not is_healed and self._is_reached(state, trigger, in_flight):
                self._strikes.strike(state)

    def _refusal(self, in_flight: InFlight, cut: str) -> Refusal | None:
        state = in_flight.struck.get("error")
        if state is None:
            return None
        fault = state.fault
        assert isinstance(fault, v.Error)
        if fault.strikes_at != cut:
            return None
        self._ledger.fire(state, has_mattered=not in_flight.is_over)
        if isinstance(fault.status, int):
            return fault.status, f"status {fault.status} (injected)"
        return None, fault.status

    # Results.

    def counts(self) -> dict[str, tuple[int, int, int]]:
        """(armed, fired, mattered) by fault id, in the plan's order."""
        return self._ledger.counts()

    def end_ns(self) -> int | None:
        """The true time after which nothing disturbs; None if a fault has no end."""
        return self._ledger.end_ns()


def _is_initial_clock(state: ArmedFault) -> bool:
    return state.kind in CLOCK_KINDS and state.fault.at_ns == 0


def _has_landed(reply: Reply) -> bool:
    """True unless the service says that nothing was changed; a resource's answer counts as a change."""
    return reply.outcome is Outcome.APPLIED
