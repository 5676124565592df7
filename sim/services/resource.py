"""The service behind which a protected resource lives: it does what its workload says, once per request.

The same losses, delays, partitions and cuts strike as on the way to a store.
The workload records what took effect (EFFECT rows), because only it knows what
an effect is.
"""

from __future__ import annotations

from collections.abc import Callable

from lockref.ports import Reply, Request
from sim.journey import Refusal
from sim.services.service import ServiceContext, refused, unknown_act


class ResourceService:
    """Answers each request with what `handle` makes of it."""

    capabilities = None

    def __init__(self, handle: Callable[[Request], Reply]) -> None:
        self._handle = handle

    def start(self, context: ServiceContext) -> None:
        """Does nothing: a resource has no timers and pushes nothing."""

    def apply(self, request: Request, _at_ns: int) -> Reply:
        return self._handle(request)

    def refuse(self, request: Request, refusal: Refusal) -> Reply:
        return refused(request, refusal)

    def present_keys(self) -> list[str]:
        return []

    def past(self, key: str, lag_ns: int) -> Reply:
        """Never asked: a stale read is a fault of reads, and a resource is only asked to write."""
        raise AssertionError(f"a stale read of a protected resource ({key!r}, {lag_ns} ns)")

    def tamper(self, act: str, key: str, *, body: bytes | None = None, attribute: str = "") -> int:
        raise unknown_act(act, ())
