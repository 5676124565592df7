"""Any other service behind the same network: the protected resource, a commit log, a register.

The workload supplies what a request does; the service runs it at the instant
of application, on the kernel, where it may record an EFFECT row with the
recorder and `kernel.now_ns`. The same losses, delays, partitions and cuts
strike as on the way to the store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from lockref.errors import LockError, OutcomeUnknown
from lockref.history import ABSENT
from lockref.runtime import NS_PER_S
from sim.machine.nodes import Node
from sim.services.wire import Exchange, Refusal

if TYPE_CHECKING:
    from sim.world import World

T = TypeVar("T")

REFUSED_AMBIGUOUSLY = (None, 500, 503)
"""Statuses after which the caller cannot know whether the request was applied."""


class _Answer(Generic[T]):
    """What went back: a value, or the error that the caller shall see."""

    __slots__ = ("error", "value")

    def __init__(self, value: T | None, error: LockError | None) -> None:
        self.value = value
        self.error = error


class Remote:
    """A service that applies functions. `name` is what partitions and filters call it, usually "resource"."""

    def __init__(self, world: World, name: str = "resource") -> None:
        self._world = world
        self.name = name

    def call(self, node: Node, apply: Callable[[], T], timeout_ns: int, *, request: int = ABSENT) -> T:
        """Send, let `apply` run at the service, wait for its value.

        timeout_ns: on the caller's clock. request: the number to which EFFECT
        rows will be joined; only shown in messages. A LockError that `apply`
        raises reaches the caller; any other error is a defect and ends the run.
        Raises OutcomeUnknown when no answer came in time.
        """

        def run(_exchange: Exchange) -> _Answer[T]:
            try:
                return _Answer(apply(), None)
            except LockError as error:
                return _Answer(None, error)

        def refuse(_exchange: Exchange, refusal: Refusal) -> _Answer[T]:
            status, reason = refusal
            if status in REFUSED_AMBIGUOUSLY:
                return _Answer(None, OutcomeUnknown(f"{self.name} answered {reason}: it may have applied the request"))
            return _Answer(None, LockError(f"{self.name} refused the request with status {status} ({reason})"))

        exchange = Exchange(
            process=node.process,
            task=self._world.kernel.current,
            service=self.name,
            op="write",
            request=request,
            key="",
            apply=run,
            refuse=refuse,
        )
        answer = self._world.wire.call(exchange, timeout_ns)
        if answer is None:
            raise OutcomeUnknown(
                f"{self.name} did not answer request {request} within {timeout_ns / NS_PER_S:g} s: read before deciding"
            )
        answered = cast("_Answer[T]", answer)
        if answered.error is not None:
            raise answered.error
        return cast("T", answered.value)
