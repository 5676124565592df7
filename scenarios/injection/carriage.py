"""The journey of a request (`sim.journey`) in real time: its driver on an event loop.

To apply a request is to send it to the server and to hear its whole answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from lockref.ports import Reply, Request
from lockref.runtime import NS_PER_S
from scenarios.injection.answers import refusal
from scenarios.injection.http_messages import Answer as HttpAnswer
from scenarios.injection.lane import Exchange
from sim.faults.fault import InFlight
from sim.faults.injector import Injector
from sim.journey import APPLY, LOSE, REPEAT, Refusal
from sim.machine.network import Draw

if TYPE_CHECKING:
    from scenarios.injection.real_time import RealNode

A = TypeVar("A")

_UNDISTURBED = Draw(0, 0, False, False, None)


@dataclass(frozen=True, slots=True)
class Delivery(Generic[A]):
    """The delivery to the client: the service's answer, a refusal in its place, or neither, and then the reply is lost.

    drip_ns: over how long the answer is spread.
    """

    answer: A | None = None
    refusal: Refusal | None = None
    drip_ns: int = 0

    @property
    def is_lost(self) -> bool:
        return self.answer is None and self.refusal is None


class _RealService:
    """A service as a request of a real run knows it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def past(self, key: str, lag_ns: int = 0) -> NoReturn:
        raise AssertionError(f"{self.name} remembers no past; a plan that asks for it is not feasible in a real run")


class Carriage:
    """Carries requests of the nodes past the injector. Lives on one event loop.

    start: runs a coroutine that nobody waits for until the run ends.
    """

    def __init__(self, injector: Injector, start: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        self._injector = injector
        self._start = start

    def depart(self, node: RealNode, request: Request) -> InFlight:
        """A request of the node's present process is made: c0."""
        in_flight = InFlight(node.process, _RealService(request.service), request, _UNDISTURBED)
        self._injector.at_c0(in_flight)
        return in_flight

    def leave(self, in_flight: InFlight) -> bool:
        """Let the request leave. True if a fault strikes it here already."""
        self._injector.on_send(in_flight)
        return bool(in_flight.struck) or in_flight.is_request_lost

    def arrive(self, in_flight: InFlight) -> None:
        """Note that the caller has the answer: c4."""
        in_flight.is_over = True
        self._injector.at_c4(in_flight)

    async def carry(
        self, in_flight: InFlight, apply: Callable[[], Awaitable[A]], reply_of: Callable[[A], Reply]
    ) -> Delivery[A]:
        """From c1 to c3. apply: lets the service act on it, once more at each call. Raises what `apply` raises."""
        # A lost request takes no time here: the client's own timeout is the wait, and the client measures it.
        if in_flight.is_request_lost:
            return Delivery()
        faults = self._injector
        if in_flight.resend_ns is not None:
            # The copy is a task of its own, as in a network: it may overtake the original, and no answer of it reaches
            # the client.
            self._start(self._carry_copy(in_flight, apply, reply_of))
        await _wait(in_flight.to_service_ns)
        # The journey decides and this driver only waits and sends. The simulator's driver is the other half; both must
        # take each step in the same order (tests/sim/test_journey.py compares them), or one plan would mean two things.
        answer: A | None = None
        # A server that is gone or stands still is met where the request is sent to it.
        step = in_flight.arrives(faults)
        while step is APPLY:
            answer = await apply()
            step = in_flight.applied(faults, reply_of(answer))
            # A proxy's retry after an answer that it did not pass on (A2). It is a new arrival, so faults are asked
            # anew.
            if step is REPEAT:
                await _wait(in_flight.retry_after_ns or 0)
                step = in_flight.arrives(faults)
        # c3 comes before the wait for the way back: from here on a fault on the reply can only delay or lose it. The
        # server has acted, and nothing takes that back.
        in_flight.left(faults)
        if step is LOSE:
            return Delivery()
        # A drip spreads the answer's bytes over the last part of the way, so its time is no extra delay.
        await _wait(in_flight.to_client_ns - in_flight.drip_ns)
        if in_flight.refusal is not None:
            return Delivery(refusal=in_flight.refusal)
        return Delivery(answer, drip_ns=in_flight.drip_ns)

    async def _carry_copy(
        self, in_flight: InFlight, apply: Callable[[], Awaitable[A]], reply_of: Callable[[A], Reply]
    ) -> None:
        """Carry the copy that the network made of the request. Nobody waits for it."""
        await _wait(in_flight.to_service_ns + (in_flight.resend_ns or 0))
        in_flight.copy_applied(self._injector, reply_of(await apply()))


async def tell_client(delivered: Delivery[HttpAnswer], exchange: Exchange, scheme: str) -> str:
    """Let the client hear what reaches it, a refusal in the words of the scheme's cloud. Returns what it hears."""
    if delivered.answer is not None:
        await exchange.hear(delivered.answer, drip_ns=delivered.drip_ns)
        return str(delivered.answer.status)
    assert delivered.refusal is not None, "a client that hears nothing is told nothing"
    status, reason = delivered.refusal
    if status is None:
        exchange.reset()
        return "a reset"
    await exchange.answer(refusal(scheme, status, reason))
    return f"{status} in its place"


async def _wait(for_ns: int) -> None:
    if for_ns > 0:
        await asyncio.sleep(for_ns / NS_PER_S)
