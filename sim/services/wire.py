"""The way of one request: out, applied, back, with its five cut points.

    c0 not sent | c1 sent, not applied | c2 applied, reply not sent |
    c3 reply in flight | c4 reply delivered

All services use it, so that every fault of network and process means the same
for each. It knows requests and replies, and no service: what a request does is
the service's, whether and when that happens, and whether the client hears of
it, is decided here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from lockref.ports import TIMED_OUT, Reconnected, Reply, Request
from lockref.words import Outcome
from sim.kernel.kernel import Kernel
from sim.kernel.sync import SimEvent
from sim.machine.network import Network
from sim.machine.nodes import Process
from sim.services.hosting import HostedService
from sim.services.request import InFlight
from sim.services.service import Refusal

if TYPE_CHECKING:
    from sim.faults.injector import Injector

# Python 3.11 takes long to find a member of an enumeration; these are asked for with every request.
_OUTCOME_PRECONDITION_FAILED = Outcome.PRECONDITION_FAILED
_NOBODY_THERE: Refusal = (None, "reset")


class Wire:
    """Carries requests between processes and services of one world, and pushes the other way."""

    __slots__ = ("_injector", "_kernel", "_mailboxes", "_network")

    def __init__(self, kernel: Kernel, network: Network, injector: Injector | None) -> None:
        self._kernel = kernel
        self._network = network
        # None in a world without faults, which spares every request the questions.
        self._injector = injector
        self._mailboxes: dict[tuple[str, str], Mailbox] = {}

    def connect(self, process: Process, hosted: HostedService) -> NodeChannel:
        """A channel from the process to the service."""
        return NodeChannel(self, process, hosted)

    def send(self, process: Process, hosted: HostedService, request: Request, timeout_ns: int) -> Reply:
        """Send the request and wait; TIMED_OUT when the client's timeout came first.

        timeout_ns: on the client's own clock.
        """
        kernel, injector, node = self._kernel, self._injector, process.node
        if kernel.current.is_killed:
            process.check_alive()
        draw = self._network.draw(node.name, hosted.name, node.next_request(hosted.name))
        in_flight = InFlight(process, kernel.current, hosted, request, draw)
        if injector is not None:
            injector.at_c0(in_flight)
            injector.on_send(in_flight)
        if not in_flight.is_request_lost:
            due_ns = kernel.now_ns + in_flight.to_service_ns
            if hosted.is_ordered:
                box = self._mailboxes[hosted.name, node.name]
                due_ns = box.sent_due_ns = max(box.sent_due_ns + 1, due_ns)
            kernel.call_at(due_ns, partial(self._arrive, in_flight))
            if in_flight.resend_ns is not None and not hosted.is_ordered:
                kernel.call_at(due_ns + in_flight.resend_ns, partial(self._arrive_again, in_flight))
        in_flight.epoch = in_flight.task.epoch + 1
        kernel.wait(timeout_ns)
        in_flight.is_over = True
        if in_flight.reply is None:
            return TIMED_OUT
        if injector is not None:
            injector.at_c4(in_flight)
        return in_flight.reply

    # At the service. Runs on the kernel.

    def _apply(self, in_flight: InFlight) -> Reply:
        """The request takes effect, or its condition fails. The one place where that happens and is recorded."""
        in_flight.applications += 1
        hosted, request = in_flight.hosted, in_flight.request
        if in_flight.stale_ns:
            return hosted.past(request.key, in_flight.stale_ns)
        now = self._kernel.now_ns
        reply = hosted.apply(request, now)
        if reply.outcome is _OUTCOME_PRECONDITION_FAILED and self._injector is not None:
            unconditional = self._injector.overruled(in_flight, reply)
            if unconditional is not None:
                reply = hosted.apply(unconditional, now)
        hosted.record(request, reply, in_flight.applications)
        return reply

    def _waits(self, in_flight: InFlight, again: Callable[[], None]) -> bool:
        """True if the service is frozen: the request arrives `again` when it goes on."""
        hosted = in_flight.hosted
        if hosted.frozen_until_ns <= self._kernel.now_ns:
            return False
        hosted.on_held()
        self._kernel.call_at(hosted.frozen_until_ns, again)
        return True

    def _is_refused(self, in_flight: InFlight) -> bool:
        """True if nobody listens: the service's server was killed and is not back."""
        hosted = in_flight.hosted
        if hosted.down_until_ns <= self._kernel.now_ns:
            return False
        hosted.on_refused()
        return True

    def _arrive(self, in_flight: InFlight) -> None:
        injector = self._injector
        if injector is None:
            self._answer(in_flight, self._apply(in_flight))
            return
        if self._is_refused(in_flight):
            self._answer(in_flight, in_flight.hosted.refuse(in_flight.request, _NOBODY_THERE))
            return
        if self._waits(in_flight, partial(self._arrive, in_flight)):
            return
        refusal = injector.at_c1(in_flight)
        if refusal is not None:
            self._answer(in_flight, in_flight.hosted.refuse(in_flight.request, refusal))
            return
        reply = self._apply(in_flight)
        refusal = injector.at_c2(in_flight, reply)
        if refusal is not None:
            reply = in_flight.hosted.refuse(in_flight.request, refusal)
        if in_flight.retry_after_ns is not None:
            # The client's SDK hears nothing and sends again by itself; what it hears then is the answer (A2).
            self._kernel.call_at(
                self._kernel.now_ns + in_flight.retry_after_ns, partial(self._arrive_retried, in_flight, reply)
            )
            return
        self._answer(in_flight, reply)

    def _arrive_again(self, in_flight: InFlight) -> None:
        """A duplicate made by the network: applied, but nobody waits for its answer."""
        if self._is_refused(in_flight) or self._waits(in_flight, partial(self._arrive_again, in_flight)):
            return
        reply = self._apply(in_flight)
        if self._injector is not None:
            self._injector.on_duplicate(in_flight, reply)

    def _arrive_retried(self, in_flight: InFlight, first: Reply) -> None:
        if self._is_refused(in_flight):
            self._answer(in_flight, in_flight.hosted.refuse(in_flight.request, _NOBODY_THERE))
            return
        if self._waits(in_flight, partial(self._arrive_retried, in_flight, first)):
            return
        reply = self._apply(in_flight)
        if self._injector is not None:
            self._injector.on_retried(in_flight, first, reply)
        self._answer(in_flight, reply)

    def _answer(self, in_flight: InFlight, reply: Reply) -> None:
        """The reply leaves the service."""
        injector = self._injector
        if injector is not None and not in_flight.is_reply_lost:
            in_flight.is_reply_lost = injector.is_reply_lost(in_flight)
        kernel = self._kernel
        if in_flight.is_reply_lost and in_flight.hosted.is_ordered:
            self._mailboxes[in_flight.service, in_flight.client].has_lost = True
        if not in_flight.is_reply_lost:
            due_ns = kernel.now_ns + in_flight.to_client_ns
            if in_flight.hosted.is_ordered:
                due_ns = self._in_order(in_flight.hosted, in_flight.client, due_ns)
            kernel.call_at(due_ns, partial(self._deliver, in_flight, reply))
        if injector is not None:
            injector.at_c3(in_flight)

    def _deliver(self, in_flight: InFlight, reply: Reply) -> None:
        in_flight.reply = reply
        # Nothing happens if its caller has gone on: that wait, by its epoch, is over.
        self._kernel.resume(in_flight.task, in_flight.epoch)

    def _in_order(self, hosted: HostedService, node: str, due_ns: int) -> int:
        """When what leaves now arrives at that node, if what left earlier on the same connection arrives before it."""
        box = self._mailboxes[hosted.name, node]
        if box.has_lost:
            # The client finds its connection broken before anything else arrives on the new one.
            box.has_lost = False
            self._deliver_push(box, Reconnected(), due_ns)
        box.due_ns = max(box.due_ns + 1, due_ns)
        return box.due_ns

    def _deliver_push(self, box: Mailbox, message: object, due_ns: int) -> None:
        box.due_ns = max(box.due_ns, due_ns)
        box.under_way.append(message)
        self._kernel.call_at(box.due_ns, box.arrive)

    # Pushes.

    def mailbox(self, process: Process, service: str) -> Mailbox:
        """Where the process finds what the service pushes; a new process of the node gets a new one."""
        box = self._mailboxes.get((service, process.node.name))
        if box is None or box.process is not process:
            box = self._mailboxes[service, process.node.name] = Mailbox(self._kernel, process)
        return box

    def push(self, hosted: HostedService, node: str, message: object) -> None:
        """A message that answers no request leaves the service.

        Its latency and its loss are drawn as those of a reply; a partition
        stops it. It is dropped if no process of the node is connected when it
        leaves; nobody takes it if that process is dead when it arrives. The
        pushes of one connection arrive in the order in which they left, as over
        TCP: one that is held back holds back those behind it. They are ordered
        with replies where the service says so (`HostedService.is_ordered`).
        """
        box = self._mailboxes.get((hosted.name, node))
        if box is None:
            return
        draw = self._network.draw(hosted.name, node, box.pushed)
        box.pushed += 1
        is_cut = hosted.down_until_ns > self._kernel.now_ns or (
            self._injector is not None and self._injector.is_cut(hosted.name, node)
        )
        if draw.is_reply_lost or is_cut:
            box.has_lost = True
            return
        due_ns = self._kernel.now_ns + draw.to_client_ns
        self._deliver_push(box, message, self._in_order(hosted, node, due_ns) if hosted.is_ordered else due_ns)


class Mailbox:
    """What one service pushed to one process and nobody has taken yet, in order of arrival.

    pushed: how many left. under_way: those that have not arrived, in order of
    departure. due_ns: when the last of them arrives. sent_due_ns: when the last
    request of the process arrives, where the service is ordered. has_lost: a
    message to the process is lost, and nobody has told the process.
    """

    __slots__ = ("_arrived", "_messages", "due_ns", "has_lost", "process", "pushed", "sent_due_ns", "under_way")

    def __init__(self, kernel: Kernel, process: Process) -> None:
        self.process = process
        self.pushed = 0
        self.due_ns = 0
        self.sent_due_ns = 0
        self.has_lost = False
        self.under_way: deque[object] = deque()
        self._messages: deque[object] = deque()
        self._arrived = SimEvent(kernel)

    def arrive(self) -> None:
        """The message that left first arrives, whichever of several that are due now was called. Runs on the kernel."""
        self._messages.append(self.under_way.popleft())
        self._arrived.set()

    def take(self, timeout_ns: int | None) -> object | None:
        """The next message; None if none came within `timeout_ns` of the process's clock (None: wait for ever)."""
        if not self._messages:
            self._arrived.clear()
            self._arrived.wait(timeout_ns)
        return self._messages.popleft() if self._messages else None


class NodeChannel:
    """One process's way to one service: a `PushChannel`."""

    __slots__ = ("_hosted", "_mailbox", "_process", "_send", "client", "service")

    def __init__(self, wire: Wire, process: Process, hosted: HostedService) -> None:
        self.client = process.node.name
        self.service = hosted.name
        self._send = wire.send
        self._process = process
        self._hosted = hosted
        self._mailbox = wire.mailbox(process, hosted.name)

    @property
    def capabilities(self) -> Any:
        return self._hosted.service.capabilities

    def send(self, request: Request, timeout_ns: int) -> Reply:
        return self._send(self._process, self._hosted, request, timeout_ns)

    def receive(self, timeout_ns: int | None) -> object | None:
        return self._mailbox.take(timeout_ns)

    def close(self) -> None:
        """Nothing to give back: there are no sockets here."""
