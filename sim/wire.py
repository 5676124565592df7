"""The network of a world at work: the journeys of requests in virtual time, and what services push.

The kernel drives each journey (`sim.journey`): it brings the request to its service, lets the service act, and brings
the reply back. A frozen service holds the request until it thaws, and a crashed one refuses it: both happen here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from lockref.ports import TIMED_OUT, Reconnected, Reply, Request
from lockref.words import Op, Outcome
from sim.faults.fault import InFlight
from sim.journey import ANSWER, APPLY, REPEAT, Journey, Refusal
from sim.kernel.footprints import EVERYTHING, SERVICE, Footprint, of_node
from sim.kernel.kernel import Kernel
from sim.kernel.sync import SimEvent
from sim.machine.network import Draw, Network
from sim.machine.nodes import Process
from sim.services.hosting import HostedService

if TYPE_CHECKING:
    from sim.faults.injector import Injector
    from sim.kernel.tasks import Task

# Python 3.11 takes long to find a member of an enumeration; these are asked for with every request.
_OUTCOME_PRECONDITION_FAILED = Outcome.PRECONDITION_FAILED
_OP_READ = Op.READ
_NOBODY_THERE: Refusal = (None, "reset")


class SimulatedRequest(InFlight):
    """A request on the kernel.

    at: the service, as `Journey.hosted`, with its type. task: waits for the reply. epoch: of that wait, so that a late
    reply does not end a later wait of the task. applications: how often the service has applied the request.
    reply: the reply that has arrived; None before.
    """

    __slots__ = ("applications", "at", "epoch", "reply", "task")

    def __init__(self, process: Process, task: Task, at: HostedService, request: Request, draw: Draw) -> None:
        Journey.__init__(self, process, at, request, draw)
        self.at = at
        self.task = task
        self.applications = 0
        self.epoch = -1
        self.reply: Reply | None = None


class Wire:
    """Carries requests from the processes of one world to its services, and pushes from services to processes."""

    __slots__ = ("_injector", "_kernel", "_mailboxes", "_network", "_preempt")

    def __init__(
        self,
        kernel: Kernel,
        network: Network,
        injector: Injector | None,
        *,
        preempt: Callable[[], None] | None = None,
    ) -> None:
        """preempt: called before each request leaves, where its task may lose the processor; None in a plain run."""
        self._preempt = preempt
        self._kernel = kernel
        self._network = network
        # None in a world without faults, which spares every request the questions.
        self._injector = injector
        self._mailboxes: dict[tuple[str, str], Mailbox] = {}

    def connect(self, process: Process, hosted: HostedService) -> NodeChannel:
        """A channel from the process to the service."""
        if self._preempt is not None:
            return PreemptedChannel(self, process, hosted, self._preempt)
        return NodeChannel(self, process, hosted)

    def send(self, process: Process, hosted: HostedService, request: Request, timeout_ns: int) -> Reply:
        """Send the request and wait; TIMED_OUT when the client's timeout came first.

        timeout_ns: on the client's own clock.
        """
        kernel, injector, node = self._kernel, self._injector, process.node
        if kernel.current.is_killed:
            process.check_alive()
        draw = self._network.draw(node.name, hosted.name, node.next_request(hosted.name))
        in_flight = SimulatedRequest(process, kernel.current, hosted, request, draw)
        if injector is not None:
            injector.at_c0(in_flight)
            injector.on_send(in_flight)
        if not in_flight.is_request_lost:
            self._dispatch(in_flight, in_flight.to_service_ns, in_flight.resend_ns)
        in_flight.epoch = in_flight.task.epoch + 1
        kernel.wait(timeout_ns)
        in_flight.is_over = True
        if in_flight.reply is None:
            return TIMED_OUT
        if injector is not None and injector.concerns(in_flight):
            injector.at_c4(in_flight)
        return in_flight.reply

    # The journey, driven by the kernel.

    def _dispatch(self, in_flight: SimulatedRequest, after_ns: int, copy_after_ns: int | None = None) -> None:
        """Let the request arrive `after_ns` from now, and its copy `copy_after_ns` after that."""
        kernel = self._kernel
        due_ns = kernel.now_ns + after_ns
        if in_flight.at.is_ordered:
            # An ordered service has one connection to each client: no request overtakes another, and TCP drops copies.
            box = self._mailboxes[in_flight.service, in_flight.client]
            due_ns = box.sent_due_ns = max(box.sent_due_ns + 1, due_ns)
            copy_after_ns = None
        kernel.call_at(due_ns, partial(self._arrive, in_flight))
        if copy_after_ns is not None:
            kernel.call_at(due_ns + copy_after_ns, partial(self._arrive, in_flight, True))

    def _arrive(self, in_flight: SimulatedRequest, is_copy: bool = False) -> None:
        """The request reaches its service: a crashed one refuses it, a frozen one holds it, any other one gets it."""
        hosted, now_ns, injector = in_flight.at, self._kernel.now_ns, self._injector
        # Where a request concerns no fault nobody is asked, which saves the questions of each cut point.
        if injector is not None and not injector.concerns(in_flight):
            injector = None
        refusal = None
        if hosted.down_until_ns > now_ns:
            hosted.on_refused()
            refusal = _NOBODY_THERE
        elif hosted.frozen_until_ns > now_ns:
            hosted.on_held()
            self._kernel.call_at(hosted.frozen_until_ns, partial(self._arrive, in_flight, is_copy))
            return
        if is_copy:
            if refusal is None:
                in_flight.copy_applied(injector, self._apply(in_flight))
            return
        reply: Reply | None = None
        if injector is None and refusal is None:
            # The steps of a journey of which no fault is asked, taken at once.
            reply = self._apply(in_flight)
            if not in_flight.is_reply_lost:
                self._answer(in_flight, reply)
            elif hosted.is_ordered:
                self._mailboxes[in_flight.service, in_flight.client].has_lost = True
            return
        step = in_flight.arrives(injector, refusal)
        if step is APPLY:
            reply = self._apply(in_flight)
            step = in_flight.applied(injector, reply)
        if step is REPEAT:
            assert in_flight.retry_after_ns is not None, "a fault said that the SDK sends the request again"
            self._dispatch(in_flight, in_flight.retry_after_ns)
            return
        if step is ANSWER:
            self._answer(in_flight, reply)
        elif hosted.is_ordered:
            self._mailboxes[in_flight.service, in_flight.client].has_lost = True
        in_flight.left(injector)

    def _apply(self, in_flight: SimulatedRequest) -> Reply:
        """Let the service apply the request, and record that. No other place does so.

        A fault may overrule a condition that fails: the service then applies the request without its condition.
        """
        in_flight.applications += 1
        hosted, request = in_flight.at, in_flight.request
        if in_flight.stale_ns:
            return hosted.past(request.key, in_flight.stale_ns)
        now = self._kernel.now_ns
        apply = hosted.apply
        reply = apply(request, now)
        if reply.outcome is _OUTCOME_PRECONDITION_FAILED and self._injector is not None:
            unconditional = self._injector.overruled(in_flight, reply)
            if unconditional is not None:
                reply = hosted.apply(unconditional, now)
        hosted.record(request, reply, in_flight.applications)
        return reply

    def _answer(self, in_flight: SimulatedRequest, reply: Reply | None) -> None:
        """The reply leaves the service; a refusal leaves in its place. reply: None if the service has not acted."""
        hosted = in_flight.at
        if in_flight.refusal is not None:
            reply = hosted.refuse(in_flight.request, in_flight.refusal)
        assert reply is not None, "a reply or a refusal leaves"
        due_ns = self._kernel.now_ns + in_flight.to_client_ns
        if hosted.is_ordered:
            due_ns = self._in_order(hosted, in_flight.client, due_ns)
        self._kernel.call_at(due_ns, partial(self._deliver, in_flight, reply))

    def _deliver(self, in_flight: SimulatedRequest, reply: Reply) -> None:
        in_flight.reply = reply
        # If the caller has gone on without a reply, its wait of this epoch is over, and `resume` does nothing.
        self._kernel.resume(in_flight.task, in_flight.epoch)

    def _in_order(self, hosted: HostedService, node: str, due_ns: int) -> int:
        """The time at which a message to this node arrives, if it leaves now and would arrive at `due_ns` alone.

        Messages of one connection arrive in the order in which they left, so an earlier one may hold it up.
        """
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
        """The mailbox for pushes of the service to the process. A new process of the node gets a new mailbox."""
        box = self._mailboxes.get((service, process.node.name))
        if box is None or box.process is not process:
            box = self._mailboxes[service, process.node.name] = Mailbox(self._kernel, process)
        return box

    def dissolve(self) -> None:
        """Forget the processes; see `World.dissolve`."""
        self._mailboxes.clear()

    def push(self, hosted: HostedService, node: str, message: object) -> None:
        """A message that answers no request leaves the service.

        Its latency and its loss are drawn as those of a reply; a partition
        stops it. It is dropped if no process of the node is connected when it
        leaves, and stays unread if that process is dead when it arrives. The
        pushes of one connection arrive in the order in which they left, as over
        TCP: a push that is held back holds back the later ones. Pushes and
        replies share one order where the service says so (`HostedService.is_ordered`).
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


def footprint_of(callback: Callable[[], object]) -> Footprint:
    """The footprint of a callback in the kernel's queue: of a step of the wire its own, of any other one everything."""
    if isinstance(callback, partial):
        step = getattr(callback.func, "__func__", None)
        if step is _ARRIVE:
            return _at_service(callback.args[0])
        if step is _DELIVER:
            return of_node(callback.args[0].client)
    elif getattr(callback, "__func__", None) is Mailbox.arrive:
        box: Mailbox = callback.__self__  # type: ignore[attr-defined]
        return of_node(box.process.node.name)
    return EVERYTHING


_ARRIVE = Wire._arrive  # noqa: SLF001 - the steps of this module, told apart
_DELIVER = Wire._deliver  # noqa: SLF001


def _at_service(in_flight: SimulatedRequest) -> Footprint:
    """A request touches one key of its service. Where requests share one connection, all of the service is one place.

    A read that comes in order changes what is sent next, such as whether its client is told of the next change.
    """
    if in_flight.at.is_ordered:
        return (((SERVICE, in_flight.service), True),)
    request = in_flight.request
    return (((SERVICE, f"{in_flight.service}/{request.key}"), request.op is not _OP_READ),)


class Mailbox:
    """The messages that one service has pushed to one process, until the process takes them, in order of arrival.

    pushed: how many have left. under_way: the messages that have not arrived,
    in order of departure. due_ns: when the last of them arrives. sent_due_ns:
    when the last request of the process arrives, where the service is ordered.
    has_lost: a message to the process was lost, and the process does not know yet.
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
        """The message that left first arrives. Several may be due now: they arrive in the order in which they left."""
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
    def capabilities(self) -> object:
        return self._hosted.service.capabilities

    def send(self, request: Request, timeout_ns: int) -> Reply:
        send = self._send
        return send(self._process, self._hosted, request, timeout_ns)

    def receive(self, timeout_ns: int | None) -> object | None:
        return self._mailbox.take(timeout_ns)

    def close(self) -> None:
        """Nothing to give back: there are no sockets here."""


class PreemptedChannel(NodeChannel):
    """A channel whose sender may lose the processor before a request leaves."""

    __slots__ = ("_preempt",)

    def __init__(self, wire: Wire, process: Process, hosted: HostedService, preempt: Callable[[], None]) -> None:
        super().__init__(wire, process, hosted)
        self._preempt = preempt

    def send(self, request: Request, timeout_ns: int) -> Reply:
        self._preempt()
        return super().send(request, timeout_ns)
