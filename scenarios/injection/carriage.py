"""The way of one request in a real run, with its five cut points. `sim.services.wire` does the same in virtual time.

    c0 not sent | c1 sent, not applied | c2 applied, reply not sent |
    c3 reply in flight | c4 reply delivered

The injector is asked at the same places, in the same order. To apply a request is
to send it to the server and to hear its whole answer.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from lockref.ports import Reply, Request
from lockref.runtime import NS_PER_S
from sim.faults.injector import Injector
from sim.machine.network import Draw
from sim.services.request import InFlight

if TYPE_CHECKING:
    from scenarios.injection.real_time import RealNode
    from sim.kernel.kernel import Task
    from sim.machine.nodes import Process
    from sim.services.hosting import HostedService

A = TypeVar("A")

_UNDISTURBED = Draw(0, 0, False, False, None)


@dataclass(frozen=True, slots=True)
class Delivered(Generic[A]):
    """What comes of a request: the service's answer, a refusal in its place, or neither, and then it is lost.

    refusal: an HTTP status, or None for a broken or silent connection, with the reason: `reset`, `timeout`, or words.
    drip_ns: over how long the answer is spread.
    """

    answer: A | None = None
    refusal: tuple[int | None, str] | None = None
    drip_ns: int = 0

    @property
    def is_lost(self) -> bool:
        return self.answer is None and self.refusal is None


class _Named:
    """A service as a request knows it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Carriage:
    """Carries requests of the nodes past the injector. Lives on one event loop.

    start: runs a coroutine that nobody waits for until the run ends.
    """

    def __init__(self, injector: Injector, start: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        self._injector = injector
        self._start = start
        self._numbers = itertools.count()

    def depart(self, node: RealNode, request: Request) -> InFlight:
        """A request of the node's present process is made: c0."""
        in_flight = InFlight(
            # Faults ask a process for its number, and a service for its name; both are here.
            cast("Process", node.process),
            cast("Task", None),
            cast("HostedService", _Named(request.service)),
            request,
            _UNDISTURBED,
        )
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
        injector = self._injector
        if in_flight.is_request_lost:
            return Delivered()
        if in_flight.resend_ns is not None:
            self._start(self._again(in_flight, apply, reply_of, in_flight.to_service_ns + in_flight.resend_ns))
        await _wait(in_flight.to_service_ns)
        refusal = injector.at_c1(in_flight)
        if refusal is not None:
            return await self._back(in_flight, Delivered(refusal=refusal))
        answer = await apply()
        refusal = injector.at_c2(in_flight, reply_of(answer))
        if in_flight.retry_after_ns is not None:
            # As by an SDK that hears nothing and sends again by itself (A2): its caller hears the second answer.
            await _wait(in_flight.retry_after_ns)
            second = await apply()
            injector.on_retried(in_flight, reply_of(answer), reply_of(second))
            answer = second
        delivered: Delivered[A] = Delivered(answer) if refusal is None else Delivered(refusal=refusal)
        return await self._back(in_flight, delivered)

    async def _back(self, in_flight: InFlight, delivered: Delivered[A]) -> Delivered[A]:
        if not in_flight.is_reply_lost:
            in_flight.is_reply_lost = self._injector.is_reply_lost(in_flight)
        self._injector.at_c3(in_flight)
        if in_flight.is_reply_lost:
            return Delivered()
        await _wait(in_flight.to_client_ns - in_flight.drip_ns)
        return replace(delivered, drip_ns=in_flight.drip_ns) if in_flight.drip_ns else delivered

    async def _again(
        self, in_flight: InFlight, apply: Callable[[], Awaitable[A]], reply_of: Callable[[A], Reply], after_ns: int
    ) -> None:
        """The copy that the network made of it."""
        await _wait(after_ns)
        self._injector.on_duplicate(in_flight, reply_of(await apply()))


async def _wait(for_ns: int) -> None:
    if for_ns > 0:
        await asyncio.sleep(for_ns / NS_PER_S)
