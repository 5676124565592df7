"""Carrying out a fault plan: which faults strike when, and which requests.

The wire asks at each cut point of each request; the kernel's queue brings the
timed faults. What a fault does stands with its kind: the injector finds whom it
strikes, asks it, and knows no kind. The counts and the record are in `counts`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeGuard

from lockref.errors import ConfigError
from lockref.words import Outcome
from sim.faults.counts import FaultCounts
from sim.faults.fault import CUTS, ArmedFault, Cut, Fault, InFlight, RequestFault, StateFault, Trigger
from sim.journey import RELEASE
from sim.kernel.footprints import COUNT
from sim.kernel.streams import derive
from sim.kernel.tasks import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from lockref.ports import Reply, Request
    from sim.faults.plan import FaultPlan
    from sim.faults.surroundings import Surroundings
    from sim.journey import Refusal

_UNIT = 2.0**64
# Python 3.11 takes long to find a member of an enumeration; this one is asked for with every request.
_APPLIED = Outcome.APPLIED


@dataclass(slots=True)
class _Count:
    """So many requests of one kind so far."""

    number: int = 0


class Injector:
    """The plan at work in one world."""

    def __init__(
        self, around: Surroundings, plan: FaultPlan, *, touch: Callable[..., None] = lambda *_place: None
    ) -> None:
        """touch: told which shared part of the world a step has touched (`Kernel.touch`)."""
        self.plan = plan
        self._touch = touch
        self._around = around
        self._counts = FaultCounts(around, plan)
        self.armed = self._counts.armed
        self._states = list(filter(_changes_state, self.armed))
        self._triggers: dict[str, list[ArmedFault[StateFault]]] = {cut: [] for cut in CUTS}
        # In the order in which they act. The sort is stable: of one kind, the first in the plan comes first.
        # Each with the instants from which and before which it is open, because every request asks for them.
        requests = [
            (*_window_of(armed.fault, plan.heal_ns), armed)
            for armed in sorted(filter(_strikes_requests, self.armed), key=lambda armed: armed.fault.rank)
        ]
        self._requests = [each for each in requests if not each[2].fault.asks_whether_applied]
        # Whom these strike is known once the service has acted.
        self._late = [each for each in requests if each[2].fault.asks_whether_applied]
        # By client, op and service of a request, the counts that it adds to; and each count of requests so far by the
        # same three, of which op and service may be None for "any".
        self._counters: dict[tuple[str, str, str], tuple[_Count, _Count, _Count, _Count]] = {}
        self._ordinals: defaultdict[tuple[str, str | None, str | None], _Count] = defaultdict(_Count)
        # Only triggers and probabilities need the place of a request in its client's life.
        self._is_counting = any(
            fault.when is not None or getattr(fault, "probability", 1.0) < 1.0 for fault in plan.faults
        )
        self._windowed = [s for s in self.armed if s.fault.when is not None and s.fault.when.counts_when_made]
        for state in self._states:
            if state.fault.when is not None:
                self._triggers[state.fault.when.cut].append(state)
        self._at_c0, self._at_c1, self._at_c2, self._at_c3, self._at_c4 = (self._triggers[cut] for cut in CUTS)
        triggers = [state.fault.when for state in self._states if state.fault.when is not None]
        assert all(trigger.client for trigger in triggers), "who is awaited at a cut point is known by its client"
        self._awaited = frozenset(trigger.client for trigger in triggers)

    # Setting up.

    def nodes_named(self) -> list[str]:
        """The nodes that the plan names, sorted."""
        named = {name for fault in self.plan.faults for name in fault.nodes}
        return sorted(named)

    def check_nodes(self, known: Collection[str]) -> None:
        """Raises ConfigError if the plan names a node that this world has not."""
        for name in self.nodes_named():
            if name not in known:
                raise ConfigError(f"the fault plan names client {name!r}; this world has {', '.join(known)}")

    def strike_initial(self, node: str) -> None:
        """A clock that is wrong from instant 0 is wrong as soon as there is a node."""
        for armed in self._states:
            if _begins_with_node(armed) and armed.fault.target == node:
                self._strike(armed)

    def arm(self) -> None:
        """Put the timed faults into the queue; those of instant 0 strike now, before any task runs."""
        kernel, heal_ns = self._around.kernel, self._counts.heal_ns
        for armed in self._states:
            at_ns, trigger = armed.fault.at_ns, armed.fault.when
            if trigger is not None and trigger.at_latest_ns is not None:
                if heal_ns is None or trigger.at_latest_ns < heal_ns:
                    kernel.call_at(trigger.at_latest_ns, partial(self._strike_at_latest, armed))
                continue
            if at_ns is None or _begins_with_node(armed):
                continue
            if at_ns == 0:
                self._strike(armed)
            elif heal_ns is None or at_ns < heal_ns:
                kernel.call_at(at_ns, partial(self._strike, armed))
        if heal_ns is not None:
            kernel.call_at(heal_ns, self._around.network.heal)

    # What the wire asks.

    def concerns(self, in_flight: InFlight) -> bool:
        """True if a fault may have to be asked about this request after c0; nearly every request concerns none.

        It concerns one that struck it when it left, one that asks of each request whether it was applied, one that
        awaits its client at a cut point, and a cut of the network, which may be in force when the reply leaves.
        """
        return bool(in_flight.struck or self._late or self._around.barriers or in_flight.client in self._awaited)

    def at_c0(self, in_flight: InFlight) -> None:
        """Strike at c0: in the client's task, before the request leaves."""
        if not self._is_counting:
            return
        client, op, service = in_flight.client, in_flight.op, in_flight.service
        # Counted here, before anything can strike: a request that never leaves (c0) has its place among the others, and
        # a plan means the same request whatever other faults do to it. Numbers count per client, not per world: those
        # of one client do not move when another client sends one request more, so shrunk plans keep their meaning.
        counters = self._counters.get((client, op, service))
        if counters is None:
            keys = (client, op, service), (client, op, None), (client, None, service), (client, None, None)
            exact, of_op, of_service, of_client = (self._ordinals[key] for key in keys)
            counters = self._counters[client, op, service] = exact, of_op, of_service, of_client
        exact, of_op, of_service, of_client = counters
        exact.number += 1
        of_op.number += 1
        of_service.number += 1
        of_client.number += 1
        in_flight.ordinals = exact.number, of_op.number, of_service.number, of_client.number
        if in_flight.request.gives_back:
            # Counted among the releases, too. Where it is the client's n-th request of any kind was counted above.
            here, anywhere = self._ordinals[client, RELEASE, service], self._ordinals[client, RELEASE, None]
            here.number += 1
            anywhere.number += 1
            in_flight.ordinals_as_release = here.number, anywhere.number
        for armed in self._windowed:
            self._count_in_window(armed, in_flight)
        if self._at_c0:
            self._reach("c0", in_flight)

    def on_send(self, in_flight: InFlight) -> None:
        """The request leaves: which faults strike it, and what they do to its way."""
        struck: dict[str, ArmedFault[RequestFault]] = {}
        now_ns = self._around.kernel.now_ns
        for begin_ns, end_ns, armed in self._requests:
            # Every fault is asked, because it counts what its filter lets through, even if another of its kind strikes.
            if begin_ns <= now_ns < end_ns and self._is_struck(armed, in_flight):
                struck.setdefault(armed.kind, armed)
        if struck:
            in_flight.struck = struck
            for armed in struck.values():
                armed.fault.on_send(armed, in_flight)
        if self._around.barriers and self.is_cut(in_flight.client, in_flight.service):
            in_flight.is_request_lost = True

    def is_cut(self, source: str, destination: str) -> bool:
        """True if no message from `source` to `destination` can depart now. Every barrier is asked, and counts."""
        is_cut = False
        for stops in self._around.barriers:
            is_cut = stops(source, destination) or is_cut
        return is_cut

    def at_c1(self, in_flight: InFlight) -> Refusal | None:
        """The request has arrived. A refusal, if it shall not be applied."""
        if self._at_c1:
            self._reach("c1", in_flight)
        return self._refusal(in_flight, "c1") if in_flight.struck else None

    def at_c2(self, in_flight: InFlight, reply: Reply) -> Refusal | None:
        """The request was applied. A refusal, if the client shall hear that instead of the truth."""
        if in_flight.struck:
            for armed in in_flight.struck.values():
                armed.fault.on_applied(armed, in_flight, reply)
        in_flight.is_applied = reply.outcome is _APPLIED
        if self._late and in_flight.is_applied:
            self._strike_applied(in_flight)
        if self._at_c2:
            self._reach("c2", in_flight)
        return self._refusal(in_flight, "c2") if in_flight.struck else None

    def _strike_applied(self, in_flight: InFlight) -> None:
        """The faults that ask for a request that was applied strike it, each in its place by rank."""
        # A fault that wants only requests that were applied cannot strike when they leave. It joins the others here,
        # and what happens before c2, such as a delay of the request, it cannot do any more.
        now_ns, struck = self._around.kernel.now_ns, dict(in_flight.struck)
        for begin_ns, end_ns, armed in self._late:
            if begin_ns <= now_ns < end_ns and self._is_struck(armed, in_flight) and armed.kind not in struck:
                struck[armed.kind] = armed
                armed.fault.on_send(armed, in_flight)
        in_flight.struck = dict(sorted(struck.items(), key=lambda item: item[1].fault.rank))

    def at_c3(self, in_flight: InFlight) -> None:
        """The reply has left, or was lost on leaving."""
        if self._at_c3:
            self._reach("c3", in_flight)

    def at_c4(self, in_flight: InFlight) -> None:
        """Strike at c4: in the client's task, with the reply in hand."""
        if in_flight.struck:
            for armed in in_flight.struck.values():
                armed.fault.on_delivered(armed, in_flight)
        if self._at_c4:
            self._reach("c4", in_flight)

    def is_reply_lost(self, in_flight: InFlight) -> bool:
        """True if a fault loses the reply, which is about to leave."""
        if in_flight.struck:
            for armed in in_flight.struck.values():
                if armed.fault.loses_reply(armed, in_flight):
                    return True
        return bool(self._around.barriers) and self.is_cut(in_flight.service, in_flight.client)

    def overruled(self, in_flight: InFlight, reply: Reply) -> Request | None:
        """A condition failed. The request to apply instead, if a fault makes the service overlook it (M16, U13)."""
        for armed in in_flight.struck.values():
            instead: Request | None = armed.fault.overrules(armed, in_flight, reply)
            if instead is not None:
                return instead
        return None

    def on_duplicate(self, in_flight: InFlight, reply: Reply) -> None:
        """Note that a duplicate of the request was applied."""
        for armed in in_flight.struck.values():
            armed.fault.on_duplicate(armed, in_flight, reply)

    def on_retried(self, in_flight: InFlight, first: Reply, second: Reply) -> None:
        """Note that a hidden retry was applied; it matters if the caller hears something else than the truth."""
        for armed in in_flight.struck.values():
            armed.fault.on_retried(armed, in_flight, first, second)

    # Matching.

    def _strike(self, armed: ArmedFault[StateFault]) -> None:
        """Let a state fault begin. From a task that it kills, this does not return."""
        self._touch()
        armed.begin()
        armed.fault.begin(armed, self._around)

    def _strike_at_latest(self, armed: ArmedFault[StateFault]) -> None:
        """The client did not get where the fault waits for it."""
        if not armed.fired:
            armed.armed += 1
            self._strike(armed)

    def _is_struck(self, armed: ArmedFault[RequestFault], in_flight: InFlight) -> bool:
        fault = armed.fault
        if fault.only_op not in in_flight.ops:
            return False
        if fault.when is not None:
            return self._is_reached(armed, fault.when, in_flight)
        if (
            fault.client not in (None, in_flight.client)
            or fault.op not in in_flight.ops
            or fault.service not in (None, in_flight.service)
        ):
            return False
        if fault.client is None:
            # The order in which requests of several clients pass decides which of them is the n-th.
            self._touch(COUNT, fault.id)
        armed.passed += 1
        first = fault.nth or 1
        times = fault.times if fault.times is not None else (1 if fault.nth is not None else None)
        if armed.passed < first or (times is not None and armed.passed >= first + times):
            return False
        armed.armed += 1
        if fault.probability >= 1.0:
            return True
        # Drawn from the fault's id and the number of the request, and from no stream that all of them share: to leave
        # a fault out does not change what is drawn for the others. Shrinking and replay stand on that.
        draw = derive(self._around.seed, f"fault/{fault.id}/{in_flight.client}/{in_flight.ordinals[3]}")
        return draw < fault.probability * _UNIT

    def _is_reached(self, armed: ArmedFault[Fault], trigger: Trigger, in_flight: InFlight) -> bool:
        """True if this request is the one that the trigger names."""
        if (
            trigger.client != in_flight.client
            or trigger.op not in in_flight.ops
            or trigger.service not in (None, in_flight.service)
        ):
            return False
        armed.armed += 1
        if trigger.applied:
            # Known once the service has acted, so these are counted where they strike.
            if not in_flight.is_applied or not trigger.is_open(self._around.kernel.now_ns):
                return False
            armed.passed += 1
            return armed.passed == trigger.nth
        if trigger.has_window:
            return armed.chosen is in_flight
        if trigger.op not in (None, in_flight.op):
            return in_flight.ordinals_as_release[trigger.service is None] == trigger.nth
        return in_flight.ordinals[(trigger.service is None) + 2 * (trigger.op is None)] == trigger.nth

    def _count_in_window(self, armed: ArmedFault[Fault], in_flight: InFlight) -> None:
        """Note the request that a trigger with a window means; it counts when requests are made."""
        trigger = armed.fault.when
        assert trigger is not None, "only triggers have windows"
        if (
            trigger.client == in_flight.client
            and trigger.op in in_flight.ops
            and trigger.service in (None, in_flight.service)
            and trigger.is_open(self._around.kernel.now_ns)
        ):
            armed.passed += 1
            if armed.passed == trigger.nth:
                armed.chosen = in_flight

    def _reach(self, cut: Cut, in_flight: InFlight) -> None:
        for armed in self._triggers[cut]:
            trigger = armed.fault.when
            is_healed = self._counts.is_healed
            if trigger and not is_healed and self._is_reached(armed, trigger, in_flight):
                if armed.fired and trigger.at_latest_ns is not None:
                    continue
                in_flight.set_off += (armed.fault.id,)
                self._strike(armed)

    def _refusal(self, in_flight: InFlight, cut: Cut) -> Refusal | None:
        for armed in in_flight.struck.values():
            refusal: Refusal | None = armed.fault.refusal(armed, in_flight, cut)
            if refusal is not None:
                return refusal
        return None

    # Results.

    def counts(self) -> dict[str, tuple[int, int, int]]:
        """(armed, fired, mattered) by fault id, in the plan's order."""
        return self._counts.by_id()

    def end_ns(self) -> int | None:
        """The true time after which nothing disturbs; None if a fault has no end."""
        return self._counts.end_ns()


def _window_of(fault: RequestFault, heal_ns: int | None) -> tuple[int, int]:
    """From when and until when a fault may strike; at the end, and once all is healed, it does not any more."""
    begin_ns = fault.at_ns or 0
    end_ns = NEVER if fault.for_ns is None else begin_ns + fault.for_ns
    return begin_ns, end_ns if heal_ns is None else min(end_ns, heal_ns)


def _strikes_requests(armed: ArmedFault[Fault]) -> TypeGuard[ArmedFault[RequestFault]]:
    return isinstance(armed.fault, RequestFault)


def _changes_state(armed: ArmedFault[Fault]) -> TypeGuard[ArmedFault[StateFault]]:
    return isinstance(armed.fault, StateFault)


def _begins_with_node(armed: ArmedFault[StateFault]) -> bool:
    return armed.fault.begins_with_node and armed.fault.at_ns == 0
