"""A request under way.

The wire moves it past five cut points:

    c0 not sent | c1 sent, not applied | c2 applied, reply not sent |
    c3 reply in flight | c4 reply delivered
"""

from __future__ import annotations

from typing import Any

from lockref.ports import Reply, Request
from lockref.words import Op
from sim.kernel.kernel import Task
from sim.machine.network import Draw
from sim.machine.nodes import Process
from sim.services.hosting import HostedService

OP_NAMES = tuple(op.name.lower() for op in Op)
"""What fault filters call each operation, by its number."""


RELEASE = OP_NAMES[Op.RELEASE]


class InFlight:
    """One request under way between a process and a service.

    op: its operation as fault filters call it. ops: every name that a filter may call it by; None for any. A deletion
    that gives a lock back is a delete and a release. applications: how often it was
    applied. reply: what the client will find; None until then. draw: what the
    network does to it; faults change the fields.
    """

    __slots__ = (
        "applications", "client", "drip_ns", "epoch", "hosted", "is_applied", "is_over", "is_reply_lost",
        "is_request_lost", "op", "ops", "ordinals", "ordinals_as_release", "process", "reply", "request", "resend_ns",
        "retry_after_ns", "service", "set_off", "stale_ns", "struck", "task", "to_client_ns", "to_service_ns",
        "usual_to_client_ns",
    )  # fmt: skip

    def __init__(self, process: Process, task: Task, hosted: HostedService, request: Request, draw: Draw) -> None:
        self.process = process
        self.client = process.node.name
        self.task = task
        self.hosted = hosted
        self.service = hosted.name
        self.request = request
        self.op = OP_NAMES[request.op]
        self.ops = (None, self.op, RELEASE) if request.gives_back else (None, self.op)
        self.applications = 0
        self.epoch = -1
        self.reply: Reply | None = None
        self.is_over = False
        self.to_service_ns, self.to_client_ns, self.is_request_lost, self.is_reply_lost, self.resend_ns = draw
        # What the undisturbed network would take; a fault that sets the way back anew keeps what others have added.
        self.usual_to_client_ns = self.to_client_ns
        # The injector's notes: the request's place in its client's life, and
        # the faults that strike it, by kind. Their type is the injector's own: faults know requests, not the reverse.
        self.ordinals = (0, 0, 0, 0)
        self.ordinals_as_release = (0, 0)
        self.struck: dict[str, Any] = {}
        # The ids of the faults that waited for this request, and whether the service has applied it.
        self.set_off: tuple[str, ...] = ()
        self.is_applied = False
        self.stale_ns = 0
        # How much of the way back its reply comes in pieces; only a real connection has any.
        self.drip_ns = 0
        self.retry_after_ns: int | None = None
