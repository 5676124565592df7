"""The way of one request: out, applied, back, with its five cut points.

    c0 not sent | c1 sent, not applied | c2 applied, reply not sent |
    c3 reply in flight | c4 reply delivered

Both services use it, so that every fault of network and process means the same
for each. A service supplies what happens at the instant of application and how
it refuses; the wire decides whether and when that happens, and whether the
client hears of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from sim.kernel.kernel import Kernel, Task
from sim.machine.network import Network
from sim.machine.nodes import Process

if TYPE_CHECKING:
    from sim.faults.counts import ArmedFault
    from sim.faults.injector import Injector

Refusal = tuple[int | None, str]
"""An HTTP status (None: no answer, such as a reset) and a reason for people."""


class Exchange:
    """One request under way.

    request: the journal's number of it, which joins events. op: its operation
    as a lower-case name. reply: what the client will find; None until then.
    """

    __slots__ = (
        "applications", "apply", "client", "epoch", "is_over", "is_reply_lost", "key", "op", "ordinals",
        "process", "refuse", "reply", "request", "retry_after_ns", "service", "stale_ns", "struck", "task",
        "to_client_ns",
    )  # fmt: skip

    def __init__(
        self,
        *,
        process: Process,
        task: Task,
        service: str,
        op: str,
        request: int,
        key: str,
        apply: Callable[[Exchange], object],
        refuse: Callable[[Exchange, Refusal], object],
    ) -> None:
        self.process = process
        self.client = process.node.name
        self.task = task
        self.service = service
        self.op = op
        self.request = request
        self.key = key
        self.apply = apply
        self.refuse = refuse
        self.applications = 0
        self.epoch = -1
        self.reply: object | None = None
        self.is_over = False
        self.to_client_ns = 0
        self.is_reply_lost = False
        # The injector's notes: the request's place in its client's life, and
        # the faults that strike it, by kind.
        self.ordinals = (0, 0, 0, 0)
        self.struck: dict[str, ArmedFault] = {}
        self.stale_ns = 0
        self.retry_after_ns: int | None = None


class Wire:
    """Carries requests between processes and services of one world."""

    __slots__ = ("_injector", "_kernel", "_network")

    def __init__(self, kernel: Kernel, network: Network, injector: Injector | None) -> None:
        self._kernel = kernel
        self._network = network
        # None in a world without faults, which spares every request the questions.
        self._injector = injector

    def call(self, exchange: Exchange, timeout_ns: int) -> object | None:
        """Send the request and wait. The reply, or None when the client's timeout came first.

        timeout_ns: on the client's own clock.
        """
        kernel, injector = self._kernel, self._injector
        process = exchange.process
        process.check_alive()
        out_ns, back_ns, is_lost, is_reply_lost, resend_ns = self._network.draw(
            exchange.client, exchange.service, process.node.next_request(exchange.service)
        )
        exchange.to_client_ns = back_ns
        exchange.is_reply_lost = is_reply_lost
        if injector is not None:
            injector.at_c0(exchange)
            out_ns, is_lost, resend_ns = injector.on_send(exchange, out_ns, is_lost, resend_ns)
        if not is_lost:
            kernel.call_at(kernel.now_ns + out_ns, partial(self._arrive, exchange))
            if resend_ns is not None:
                kernel.call_at(kernel.now_ns + out_ns + resend_ns, partial(self._arrive_again, exchange))
        exchange.epoch = exchange.task.epoch + 1
        kernel.wait(timeout_ns)
        exchange.is_over = True
        if injector is not None and exchange.reply is not None:
            injector.at_c4(exchange)
        return exchange.reply

    def _arrive(self, exchange: Exchange) -> None:
        injector = self._injector
        if injector is None:
            exchange.applications += 1
            self._answer(exchange, exchange.apply(exchange))
            return
        refusal = injector.at_c1(exchange)
        if refusal is not None:
            self._answer(exchange, exchange.refuse(exchange, refusal))
            return
        exchange.applications += 1
        reply = exchange.apply(exchange)
        refusal = injector.at_c2(exchange, reply)
        if refusal is not None:
            reply = exchange.refuse(exchange, refusal)
        if exchange.retry_after_ns is not None:
            # The client's SDK hears nothing and sends again by itself; what it hears then is the answer (A2).
            self._kernel.call_at(
                self._kernel.now_ns + exchange.retry_after_ns, partial(self._arrive_retried, exchange, reply)
            )
            return
        self._answer(exchange, reply)

    def _arrive_again(self, exchange: Exchange) -> None:
        """A duplicate made by the network: applied, but nobody waits for its answer."""
        exchange.applications += 1
        reply = exchange.apply(exchange)
        if self._injector is not None:
            self._injector.on_duplicate(exchange, reply)

    def _arrive_retried(self, exchange: Exchange, first: object) -> None:
        exchange.applications += 1
        reply = exchange.apply(exchange)
        if self._injector is not None:
            self._injector.on_retried(exchange, first, reply)
        self._answer(exchange, reply)

    def _answer(self, exchange: Exchange, reply: object) -> None:
        """The reply leaves the service."""
        injector = self._injector
        if injector is not None and not exchange.is_reply_lost:
            exchange.is_reply_lost = injector.is_reply_lost(exchange)
        kernel = self._kernel
        if not exchange.is_reply_lost:
            due_ns = kernel.now_ns + exchange.to_client_ns
            kernel.call_at(due_ns, partial(self._deliver, exchange, reply))
        if injector is not None:
            injector.at_c3(exchange)

    def _deliver(self, exchange: Exchange, reply: object) -> None:
        if exchange.is_over:
            return
        exchange.reply = reply
        self._kernel.resume(exchange.task, exchange.epoch)
