"""The endpoints of a run's clients, and the fault plan that acts on the requests there.

Each client has a lane of its own in front of the server. Requests pass a lane in one of two ways.

- If the plan strikes requests, each request is read whole, told to the recorder, and taken past the simulator's
  injector, like a request of our own clients in `scenarios.injection.session`. The record in the body of a request
  tells what the request does to a lock.
- If the plan strikes no requests, bytes pass as they come, and a tap reads a copy of them.

Two cut points lie here: c0 when a request has come to its endpoint, c4 when its whole answer has gone to the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Final, Self, final

from lockref.history import Recorder
from lockref.ports import Reply, Request
from lockref.provider import DEFAULT_STORE
from lockref.runtime import ThreadRuntime
from lockref.words import Op, Outcome
from scenarios.injection.at_work import PlanAtWork
from scenarios.injection.carriage import Delivery, tell_client
from scenarios.injection.certificates import Authority
from scenarios.injection.http_messages import Answer, BadMessage, Head
from scenarios.injection.lane import Conduct, Exchange, Lane, Upstream
from scenarios.injection.real_time import Handle, RealStore
from scenarios.wire.reading.conversation import Conversation
from scenarios.wire.recorder import OpenRequest, WireRecorder
from scenarios.wire.strikes import Strikes
from scenarios.wire.tap import Tap
from scenarios.workloads.resource import RESOURCE
from sim.faults.fault import Fault, InFlight, RequestFault
from sim.faults.network import Partition
from sim.faults.plan import FaultPlan


@final
class Endpoints:
    """One endpoint for each client. A context manager.

    plan: without what a program is started with, such as clocks. scheme: of the store's URI; refusals are in its words.
    tls: the endpoints speak TLS under a certificate of this authority; None for plain HTTP.
    """

    def __init__(
        self,
        plan: FaultPlan,
        *,
        seed: int,
        clients: Sequence[str],
        upstream: Upstream,
        scheme: str,
        wire: WireRecorder,
        recorder: Recorder,
        runtime: ThreadRuntime,
        store: RealStore | None,
        tls: Authority | None,
    ) -> None:
        self.work = PlanAtWork(
            plan, seed=seed, clients=clients, store=store, recorder=recorder, runtime=runtime
        )  # fmt: skip
        self._wire = wire
        self._scheme = scheme
        self._runtime = runtime
        self._begun = asyncio.Event()
        self._reads_whole = any(_strikes_requests(fault) for fault in plan.faults)
        self.strikes = Strikes()
        self.taps = {name: Tap(name, wire) for name in clients}
        server = tls.server if tls else None
        self._lanes = {
            name: Lane(upstream, partial(self._choose, name), observer=self._watching(name), tls=server)
            for name in clients
        }

    def _watching(self, client: str) -> Tap | None:
        """The tap of a lane whose bytes only pass. `_carry` tells the recorder of requests that are read whole."""
        return None if self._reads_whole else self.taps[client]

    def __enter__(self) -> Self:
        self.work.start()
        for lane in self._lanes.values():
            self.work.call(lane.open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.work.call(self._close())
        self.work.stop()

    def begin(self) -> None:
        """All processes are started: the instants of the plan count from now on.

        A request that comes earlier waits until then. A pause that it triggered would be measured by another beginning,
        and its process would never go on.
        """

        async def let_go() -> None:
            self._begun.set()

        self.work.begin()
        self.work.call(let_go())

    def address(self, client: str) -> str:
        """The address to which this client connects instead of to the server."""
        return self._lanes[client].endpoint

    @property
    def carried(self) -> dict[str, int]:
        """By client, the bytes that its endpoint has carried, both ways."""
        return {name: sum(lane.carried.values()) for name, lane in self._lanes.items()}

    def handles(self, handles: Mapping[str, Handle]) -> None:
        """Set the processes of the clients, for faults that strike processes."""
        for name, handle in handles.items():
            self.work.nodes[name].handle = handle

    async def _close(self) -> None:
        for lane in self._lanes.values():
            await lane.close()

    # One request.

    def _choose(self, client: str, _head: Head) -> Conduct | None:
        return partial(self._conduct, client) if self._reads_whole else None

    async def _conduct(self, client: str, exchange: Exchange) -> None:
        try:
            await self._begun.wait()
            await self._carry(client, exchange)
        except (OSError, BadMessage):
            # The server gives no answer; the lane tells the client.
            raise
        except Exception as error:
            self.work.fail(error)
            raise

    async def _carry(self, client: str, exchange: Exchange) -> None:
        carriage, node = self.work.carriage, self.work.nodes[client]
        sending = _Sending(self._wire, self.taps[client], self._runtime, client, exchange)
        process = node.process
        in_flight = carriage.depart(node, sending.request())
        # A process that is stopped or killed at c0 has not sent this request yet.
        await node.while_held()
        if not node.is_up or node.process is not process:
            sending.kept("its process was killed before the request left")
            self.strikes.note(in_flight, sending.outcome)
            exchange.reset()
            return
        carriage.leave(in_flight)
        try:
            delivered = await carriage.carry(in_flight, sending.apply, _reply_in)
        except (OSError, BadMessage):
            self.strikes.note(in_flight, sending.outcome)
            raise
        if not sending.times:
            sending.kept(f"kept from the server by {_whom(in_flight)}")
        if delivered.is_lost:
            # Noted first: the client may keep its connection open until the run is over.
            self.strikes.note(in_flight, f"{sending.outcome}; the client hears nothing")
            await exchange.silence()
            in_flight.is_over = True
            return
        answered = Delivery(
            None if delivered.answer is None else delivered.answer.answer, delivered.refusal, delivered.drip_ns
        )
        heard = await tell_client(answered, exchange, self._scheme)
        carriage.arrive(in_flight)
        self.strikes.note(in_flight, f"{sending.outcome}; the client hears {heard}")


_UNREAD: Final = Reply(Outcome.AMBIGUOUS)
"""The answer to a request that is not read, or one that is not read itself: nobody knows what was applied."""


@dataclass(frozen=True, slots=True)
class _Heard:
    """A server's answer, and what it means to faults: the same as to the record."""

    answer: Answer
    reply: Reply


def _reply_in(heard: _Heard) -> Reply:
    return heard.reply


class _Sending:
    """A request that is sent to the server, once or several times. times: how often it was sent.

    Each sending is a request of its own in the record, because the server receives each.
    """

    def __init__(self, wire: WireRecorder, tap: Tap, runtime: ThreadRuntime, client: str, exchange: Exchange) -> None:
        self._wire = wire
        self._tap = tap
        self._runtime = runtime
        self._client = client
        self._exchange = exchange
        self._talk, self._asked = self._read()
        self.times = 0
        self.outcome = "it never reached the server"

    def _read(self) -> tuple[Conversation, OpenRequest | None]:
        talk = Conversation()
        talk.from_client(self._exchange.head.raw + self._exchange.body, self._runtime.monotonic_ns())
        self._tap.unreadable = self._tap.unreadable or talk.unreadable
        return talk, None if talk.current is None else self._wire.asked(self._client, talk.current)

    def request(self) -> Request:
        """The request in the words of a plan. The deletion of a lock's object counts as a release."""
        asked = self._asked
        if asked is None:
            return Request(self._client, DEFAULT_STORE, self._exchange.head.method.decode("ascii", "replace"), "")
        gives_back = asked.op is Op.DELETE and asked.is_lock
        service = RESOURCE.name if self._wire.is_protected(asked.request.key) else DEFAULT_STORE
        return Request(self._client, service, asked.request.verb, asked.request.key, op=asked.op, gives_back=gives_back)

    async def apply(self) -> _Heard:
        """Send the request, wait for the server's answer, and record both. Raises OSError and BadMessage."""
        # A repetition may leave before the first answer is here, so each sending has a conversation of its own.
        talk, asked = self._read() if self.times else (self._talk, self._asked)
        self.times += 1
        if asked is None:
            return _Heard(await self._exchange.apply(), _UNREAD)
        self._wire.sent(asked, self._runtime.monotonic_ns())
        try:
            answer = await self._exchange.apply()
        except ConnectionRefusedError:
            self.outcome = "nobody listened at the server's address"
            self._wire.unreached(asked, self._runtime.monotonic_ns(), self.outcome)
            raise
        except (OSError, BadMessage):
            self.outcome = "the server gave no answer"
            raise
        talk.from_server(answer.raw, self._runtime.monotonic_ns())
        if not answer.keeps_connection:
            talk.server_closed(self._runtime.monotonic_ns())
        self._tap.unreadable = self._tap.unreadable or talk.unreadable
        if asked.exchange.answered_ns is None:
            return _Heard(answer, _UNREAD)
        said = self._wire.answered(asked, self._runtime.monotonic_ns())
        self.outcome = f"the server answered {answer.status} ({said.outcome.name.lower()})"
        return _Heard(answer, Reply(said.outcome, status=answer.status))

    def kept(self, why: str) -> None:
        """Record that the request never reaches the server."""
        if self._asked is not None:
            now_ns = self._runtime.monotonic_ns()
            self._wire.sent(self._asked, now_ns)
            self._wire.unreached(self._asked, now_ns, why)


def _strikes_requests(fault: Fault) -> bool:
    return isinstance(fault, RequestFault | Partition) or fault.when is not None


def _whom(in_flight: InFlight) -> str:
    return " and ".join(armed.fault.id for armed in in_flight.struck.values()) or "a partition"
