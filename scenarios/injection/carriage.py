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
from sim.faults.injector import Injector
from sim.journey import APPLY, END, Back, InFlight, Journey, Reach, Refusal, copied, journey
from sim.machine.network import Draw

if TYPE_CHECKING:
    from scenarios.injection.real_time import RealNode

A = TypeVar("A")

_UNDISTURBED = Draw(0, 0, False, False, None)


@dataclass(frozen=True, slots=True)
class Delivered(Generic[A]):
    """What reaches the client: the service's answer, a refusal in its place, or neither, and then the reply is lost.

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
        """It leaves. True if a fault strikes it here already."""
        self._injector.on_send(in_flight)
        return bool(in_flight.struck) or in_flight.is_request_lost

    def arrive(self, in_flight: InFlight) -> None:
        """Its caller has the answer: c4."""
        in_flight.is_over = True
        self._injector.at_c4(in_flight)

    async def carry(
        self, in_flight: InFlight, apply: Callable[[], Awaitable[A]], reply_of: Callable[[A], Reply]
    ) -> Delivered[A]:
        """From c1 to c3. apply: lets the service act on it, once more at each call. Raises what `apply` raises."""
        return await self._drive(in_flight, journey(in_flight, self._injector), apply, reply_of)

    async def _drive(
        self, in_flight: InFlight, steps: Journey, apply: Callable[[], Awaitable[A]], reply_of: Callable[[A], Reply]
    ) -> Delivered[A]:
        answer: A | None = None
        back: Back | None = None
        said: Reply | None = None
        while (step := steps.send(said)) is not END:
            said = None
            if step is APPLY:
                answer = await apply()
                said = reply_of(answer)
            elif isinstance(step, Back):
                back = step
            elif isinstance(step, Reach):
                if step.copy_after_ns is not None:
                    copy = copied(in_flight, self._injector, step.after_ns + step.copy_after_ns)
                    self._start(self._alone(in_flight, copy, apply, reply_of))
                # A server that is gone or stands still is met where the request is sent to it.
                await _wait(step.after_ns)
        if back is None:
            return Delivered()
        await _wait(back.after_ns - back.drip_ns)
        if back.refusal is not None:
            return Delivered(refusal=back.refusal)
        return Delivered(answer, drip_ns=back.drip_ns)

    async def _alone(
        self, in_flight: InFlight, steps: Journey, apply: Callable[[], Awaitable[A]], reply_of: Callable[[A], Reply]
    ) -> None:
        """Drive a journey whose end nobody waits for."""
        await self._drive(in_flight, steps, apply, reply_of)


async def tell_client(delivered: Delivered[HttpAnswer], exchange: Exchange, scheme: str) -> str:
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
