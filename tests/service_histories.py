"""Histories by hand of locks that keep no record under compare-and-set: a controller assigns, or clients queue."""

from __future__ import annotations

from typing import Any

from lockref.words import Op, Outcome
from tests.histories import LOCK, Held, History

TIMING: dict[str, Any] = {
    "validity_ns": 100,
    "poll_interval_ns": 5,
    "request_timeout_ns": 5,
    "wait_timeout_ns": 400,
    "faults_end_ns": 0,
}
FAIR: dict[str, Any] = {"claims": ["F1:0", "F2"]}


class Service(History):
    """A history whose lock is told of by a service: rows of states, whoever wrote them."""

    def __init__(self, protocol: str, *, is_simulated: bool = True, **run: Any) -> None:
        super().__init__(run={**TIMING, "lock_protocols": {LOCK: protocol}, **run}, is_simulated=is_simulated)

    def says(self, at: int, owner: str, *, by: str, op: Op = Op.WRITE, token: int | None = None,
             replied: int | None = None, task: str = "session") -> None:  # fmt: skip
        """A state of the service that names `owner`, written by the node `by`."""
        self.write(by, op, sent=at, applied=at, replied=replied, owner=owner, token=token, if_version="", task=task)

    def acquires(self, node: str, call: int, returned: int, *, token: int | None = None, task: str = "main") -> Held:
        """A granted acquire; what the service says of it is told apart."""
        request = self.call(node, Op.ACQUIRE, call, task=task)
        self.returns(node, Op.ACQUIRE, returned, request, Outcome.APPLIED, task=task, owner=node, token=token)
        return Held(node, task, request, node, token, "")

    def releases(self, held: Held, call: int, returned: int, *, outcome: Outcome = Outcome.APPLIED) -> None:
        request = self.call(held.node, Op.RELEASE, call, task=held.task)
        self.returns(held.node, Op.RELEASE, returned, request, outcome, task=held.task)


def assigned(*, is_simulated: bool = True, **run: Any) -> Service:
    """A controller assigns: n1 takes the lock and gives it back, then n2 takes it."""
    h = Service("assignment", is_simulated=is_simulated, **run)
    a = h.acquires("n1", 0, 4, token=1)
    h.says(3, "n1", by="n1", token=1)
    h.believes(a, 4, 9)
    h.effect(a, at=6)
    h.says(10, "n1", by="n1", op=Op.RELEASE, token=1)
    h.releases(a, 10, 12)
    b = h.acquires("n2", 5, 15, token=2)
    h.says(14, "n2", by="n2", token=2)
    h.believes(b, 15, 20)
    h.effect(b, at=17)
    h.says(21, "n2", by="n2", op=Op.RELEASE, token=2)
    h.releases(b, 21, 22)
    return h


def queued(*, is_simulated: bool = True, **run: Any) -> Service:
    """A queue: n2 waits behind n1, and has the lock from the moment at which n1's node is gone."""
    h = Service("queue", is_simulated=is_simulated, **run)
    a = h.acquires("n1", 0, 2, token=1)
    h.says(1, "n1", by="n1", op=Op.ACQUIRE, token=1, task="main")
    h.believes(a, 2, 7)
    h.effect(a, at=5)
    b = h.acquires("n2", 3, 12, token=2)
    h.says(4, "n2", by="n2", op=Op.ACQUIRE, token=2, task="main")
    h.says(9, "n1", by="n1", op=Op.RELEASE, token=1, task="main")
    h.releases(a, 8, 10)
    h.believes(b, 12, 15)
    h.effect(b, at=14)
    h.says(17, "n2", by="n2", op=Op.RELEASE, token=2, task="main")
    h.releases(b, 16, 18)
    return h


def mixed() -> Service:
    """Three locks of three protocols in one run: a chain of records, an assignment, and one that shows its calls."""
    h = assigned()
    for lock, protocol in (("records", "rfc91"), ("hidden", "calls")):
        h.run["lock_protocols"][lock] = protocol
    h.lock, h.version = "records", ""
    a = h.granted("n1", call=30, applied=32, returned=33, token=1)
    h.released(a, call=40, applied=41)
    h.lock = "hidden"
    h.releases(h.acquires("n1", 50, 51), 52, 53)
    return h
