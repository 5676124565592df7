"""Where a service lives in a world: its name, its readers, and the one place that records what took effect.

The truth is recorded here and nowhere else (APPLIED rows): when a request is
applied, and when somebody changes the state without one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lockref.history import Kind, Op, Recorder
from lockref.lab.recording import content_id, told_by
from lockref.ports import Reply, Request
from lockref.provider import RecordDecoder, RecordView
from lockref.stores.port import Outcome
from sim.kernel.clocks import WALL_EPOCH_NS
from sim.kernel.kernel import Kernel
from sim.services.service import Service

OPERATOR = "operator"
"""Node name of whoever reaches into a service from outside the game."""

Push = Callable[["HostedService", str, object], None]


class HostedService:
    """One service of a world. Made by `World.add`; it is the service's `ServiceContext`.

    decode: reads the lock records in its states. None: nobody reads them, and
    what is applied is recorded by the service itself, as the protected resource does.
    """

    __slots__ = ("_decode", "_kernel", "_push", "_recorder", "_seen", "apply", "call_at", "name", "refuse", "service")

    def __init__(
        self,
        name: str,
        service: Service,
        *,
        kernel: Kernel,
        recorder: Recorder,
        push: Push,
        decode: RecordDecoder | None,
    ) -> None:
        self.name = name
        self.service = service
        self.apply = service.apply
        self.refuse = service.refuse
        self.call_at = kernel.call_at
        self._kernel = kernel
        self._recorder = recorder
        self._push = push
        self._decode = decode
        self._seen: dict[bytes, tuple[str, RecordView | None]] = {}
        service.start(self)

    @property
    def is_recorded(self) -> bool:
        """True if its requests leave SENT, APPLIED and REPLIED rows."""
        return self._decode is not None

    def look(self, body: bytes) -> tuple[str, RecordView | None]:
        """A body's short name and its lock record, remembered: client, service and reader look at the same bytes."""
        seen = self._seen.get(body)
        if seen is None:
            view = None if self._decode is None else self._decode(body)
            seen = self._seen[body] = (content_id(body), view)
        return seen

    def present_keys(self) -> list[str]:
        """The keys of what is there, sorted."""
        return self.service.present_keys()

    def past(self, key: str, lag_ns: int = 0) -> Reply:
        """What a read of `key` was answered `lag_ns` ago. No request: for observers and faults."""
        return self.service.past(key, lag_ns)

    def tamper(self, act: str, key: str | None = None, **how: Any) -> int:
        """Reach into the service from outside (U9, H17). Returns how many changes that made.

        key: None for every object that holds a lock record. Raises ConfigError for an act unknown to the service.
        """
        keys = self._lock_keys() if key is None else [key]
        return sum(self.service.tamper(act, each, **how) for each in keys)

    def _lock_keys(self) -> list[str]:
        bodies = ((key, self.service.past(key, 0).body) for key in self.service.present_keys())
        return [key for key, body in bodies if body is not None and self.look(body)[1] is not None]

    # The service's context.

    @property
    def now_ns(self) -> int:
        return self._kernel.now_ns

    def push(self, node: str, message: object) -> None:
        self._push(self, node, message)

    def changed(self, op: Op, key: str, version: str = "", body: bytes | None = None) -> None:
        now = self._kernel.now_ns
        content, view = ("", None) if body is None else self.look(body)
        self._recorder.event(
            Kind.APPLIED, (now, WALL_EPOCH_NS + now, now, self.name), OPERATOR, key, op, Outcome.APPLIED,
            version=version, content=content, owner=view.owner if view else "",
        )  # fmt: skip

    # The record.

    def record(self, request: Request, reply: Reply, applications: int) -> None:
        """Write down what came of applying a request, for the n-th time. A read changes nothing and leaves no row."""
        if request.op is Op.READ or self._decode is None:
            return
        # A service that changes part of a state answers with the whole of it.
        body = request.body if reply.body is None else reply.body
        content, view = ("", None) if body is None else self.look(body)
        token, owner, valid_until_ns = told_by(view)
        now = self._kernel.now_ns
        self._recorder.event(
            Kind.APPLIED, (now, WALL_EPOCH_NS + now, now, self.name), request.client, request.key, request.op,
            reply.outcome, request=request.number, attempt=applications - 1, if_version=request.condition,
            version=reply.version or "", content=content, token=token, owner=owner, valid_until_ns=valid_until_ns,
        )  # fmt: skip
