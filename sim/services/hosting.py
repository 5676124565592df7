"""The host of a service in a world: its name, its readers, and the one place that records each effect.

The truth is recorded here and nowhere else (APPLIED rows): when a request is
applied, and when somebody changes the state without one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lockref.history import Recorder
from lockref.lab.lock_rows import LockRows
from lockref.lab.recording import content_id
from lockref.ports import Reply, Request
from lockref.provider import LockView, StateDecoder
from lockref.words import OPERATOR, Kind, Op, Outcome
from sim.kernel.clocks import WALL_EPOCH_NS
from sim.kernel.kernel import Kernel
from sim.services.service import Service

# Python 3.11 takes long to find a member of an enumeration; these are asked for with every request.
_KIND_APPLIED = Kind.APPLIED
_OP_NONE = Op.NONE
_OP_READ = Op.READ
_OUTCOME_APPLIED = Outcome.APPLIED

Push = Callable[["HostedService", str, object], None]


class HostedService:
    """One service of a world. Made by `World.add`; it is the service's `ServiceContext`.

    decode: reads the lock records in its states. None: nobody reads them, and
    what is applied is recorded by the service itself, as the protected resource does.
    """

    __slots__ = (
        "_decode", "_kernel", "_lock_rows", "_push", "_recorder", "_seen", "apply", "call_at",
        "down_until_ns", "frozen_until_ns", "is_ordered", "name", "on_held", "on_refused", "refuse", "service",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        service: Service,
        *,
        kernel: Kernel,
        recorder: Recorder,
        push: Push,
        decode: StateDecoder | None,
    ) -> None:
        self.name = name
        self.service = service
        self.apply = service.apply
        self.refuse = service.refuse
        self.call_at = kernel.call_at
        # What it pushes to a client and what it answers to it arrive in one order, as over one connection.
        self.is_ordered: bool = getattr(service, "is_ordered", False)
        # While the service is frozen it answers nothing. `on_held` is called for each request that waits for its thaw.
        self.frozen_until_ns = 0
        self.on_held: Callable[[], None] = lambda: None
        # While the service is down no server listens. `on_refused` is called for each request that is refused for it.
        self.down_until_ns = 0
        self.on_refused: Callable[[], None] = lambda: None
        self._kernel = kernel
        self._recorder = recorder
        self._push = push
        self._decode = decode
        self._seen: dict[tuple[str, bytes], tuple[str, Sequence[LockView]]] = {}
        self._lock_rows = LockRows()
        service.start(self)

    @property
    def is_recorded(self) -> bool:
        """True if its requests leave SENT, APPLIED and REPLIED rows."""
        return self._decode is not None

    def look(self, key: str, body: bytes) -> tuple[str, Sequence[LockView]]:
        """A body's short name and what it says about locks, remembered: all see the same bytes."""
        seen = self._seen.get((key, body))
        if seen is None:
            views = () if self._decode is None else self._decode(key, body)
            seen = self._seen[key, body] = (content_id(body), views)
        return seen

    def present_keys(self) -> list[str]:
        """The keys of what is there, sorted."""
        return self.service.present_keys()

    def past(self, key: str, lag_ns: int = 0) -> Reply:
        """The answer to a read of `key` as it was `lag_ns` ago. This is no request: observers and faults ask it."""
        return self.service.past(key, lag_ns)

    def freeze(self, for_ns: int, on_held: Callable[[], None]) -> None:
        """Do nothing for so long; what arrives waits. on_held: told of each request that does."""
        self.frozen_until_ns = max(self.frozen_until_ns, self._kernel.now_ns + for_ns)
        self.on_held = on_held

    def crash(self, for_ns: int, on_refused: Callable[[], None]) -> None:
        """Be gone for so long: connections are refused, what was applied stays. on_refused: told of each request."""
        self.down_until_ns = max(self.down_until_ns, self._kernel.now_ns + for_ns)
        self.on_refused = on_refused

    def tamper(self, act: str, key: str | None = None, *, body: bytes | None = None, attribute: str = "") -> int:
        """Reach into the service from outside (U9, H17). Returns how many changes that made.

        key: None for every object that holds a lock record. Raises ConfigError for an act unknown to the service.
        """
        keys = self._lock_keys() if key is None else [key]
        return sum(self.service.tamper(act, each, body=body, attribute=attribute) for each in keys)

    def _lock_keys(self) -> list[str]:
        bodies = ((key, self.service.past(key, 0).body) for key in self.service.present_keys())
        return [key for key, body in bodies if body is not None and self.look(key, body)[1]]

    def dissolve(self) -> None:
        """Forget the service, which knows its host as its context. Nothing can be asked any more."""
        del self.service, self.apply, self.refuse

    # The service's context.

    @property
    def now_ns(self) -> int:
        return self._kernel.now_ns

    def push(self, node: str, message: object) -> None:
        self._push(self, node, message)

    def changed(self, op: Op, key: str, version: str = "", body: bytes | None = None) -> None:
        now = self._kernel.now_ns
        content, views = ("", ()) if body is None else self.look(key, body)
        for lock, its_op, _view, _token, owner, _until_ns, _duration in self._lock_rows.rows_from_outside(
            key, op, views
        ):
            self._recorder.event(
                _KIND_APPLIED, (now, WALL_EPOCH_NS + now, now, self.name), OPERATOR, lock, its_op, _OUTCOME_APPLIED,
                version=version, content=content, owner=owner,
            )  # fmt: skip
        self._lock_rows.remember(key, views)

    # The record.

    def record(self, request: Request, reply: Reply, applications: int) -> None:
        """Write down what came of applying a request, for the n-th time. A read changes nothing and leaves no row."""
        # Taken apart at once: a field of a named tuple takes as long to read as all of them to unpack.
        client, _service, _verb, key, condition, written, op, number, ops, _gives_back, _serves = request
        if op is _OP_READ or op is _OP_NONE or self._decode is None:
            return
        outcome, version, answered, _missing, _status, _reason = reply
        # A service that changes part of a state answers with the whole of it.
        body = written if answered is None else answered
        content, views = ("", ()) if body is None else self.look(key, body)
        now = self._kernel.now_ns
        stamp = (now, WALL_EPOCH_NS + now, now, self.name)
        record = self._recorder.event
        for lock, its_op, _view, token, owner, valid_until_ns, duration in self._lock_rows.rows(key, op, views, ops):
            record(
                _KIND_APPLIED, stamp, client, lock, its_op, outcome, number, applications - 1, condition, version or "",
                content, token, owner, valid_until_ns, duration,
            )  # fmt: skip
        if outcome is _OUTCOME_APPLIED:
            self._lock_rows.remember(key, views)
