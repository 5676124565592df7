"""A fault plan at work in a real run: its event loop, its lanes, and the announcements of the client processes.

It lives in the process that asked for the run, on a thread of its own. Each client has one address for each operation.
So the port on which a request arrives tells the client and the operation, and signed bytes need not be read.

Some faults stop or kill a process right before a request leaves (c0), or right after its answer came (c4). Such a
process announces that it has reached that point (`scenarios.injection.announcing`), and waits for the word to go on.
The fault strikes while it waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Final, Self

from lockref.history import Recorder
from lockref.ports import TIMED_OUT, Channel, Reply, Request
from lockref.provider import DEFAULT_STORE
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.stores.address import StoreAddress
from lockref.words import Op
from scenarios.injection.announcing import GIVING_BACK, lane_of
from scenarios.injection.answers import reply_of
from scenarios.injection.at_work import PlanAtWork
from scenarios.injection.carriage import tell_client
from scenarios.injection.feasible import announced_clients
from scenarios.injection.http_messages import BadMessage, Head
from scenarios.injection.lane import LOOPBACK, Conduct, Exchange, Lane, Upstream
from scenarios.injection.real_time import RealStore
from scenarios.injection.routes import Routes
from sim.faults.fault import InFlight
from sim.faults.plan import FaultPlan
from sim.services.service import refused

LANE_OPS: Final = ("acquire", "renew", "release", "read", "write", "delete", GIVING_BACK)
_PATIENCE_S: Final = 20


class Injection:
    """A plan at work on our own clients. A context manager; set the handles of its nodes before `work.begin`.

    upstream: the server behind the lanes; None if the plan strikes nothing on the wire.
    store: how an operator reaches the store; None if the plan has no act of an operator.
    """

    def __init__(
        self,
        plan: FaultPlan,
        *,
        seed: int,
        clients: Sequence[str],
        address: StoreAddress,
        upstream: Upstream | None,
        store: RealStore | None,
        recorder: Recorder,
        runtime: ThreadRuntime,
    ) -> None:
        self.work = PlanAtWork(plan, seed=seed, clients=clients, store=store, recorder=recorder, runtime=runtime)
        self.nodes = self.work.nodes
        self._scheme = address.scheme
        self._upstream = upstream
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._made: dict[tuple[str, str], deque[InFlight]] = {}
        self._announced = announced_clients(plan)
        self._announcements: asyncio.Server | None = None
        self._announce_port = 0
        # A client has one request to the resource under way, and a copy of an earlier one may be. Nobody waits for the
        # thread of another: that would look like a slow server.
        self._requests = ThreadPoolExecutor(2 * len(clients), thread_name_prefix="resource")

    # Its life.

    def __enter__(self) -> Self:
        self.work.start()
        self.work.call(self._open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.work.call(self._close())
            self.work.stop()
        finally:
            # No thread can be cancelled. What is on its way to the resource lands before anybody looks at what landed.
            self._requests.shutdown(wait=True)

    def routes(self, client: str) -> Routes:
        """The routes of this client's process to its store."""
        return Routes(
            endpoints={op: lane.endpoint for (name, op), lane in self._lanes.items() if name == client},
            announce_port=self._announce_port if client in self._announced else 0,
        )

    async def _open(self) -> None:
        if self._upstream is not None:
            for name in self.nodes:
                for op in LANE_OPS:
                    lane = Lane(self._upstream, partial(self._choose, name, op))
                    await lane.open()
                    self._lanes[name, op] = lane
        if self._announced:
            self._announcements = await asyncio.start_server(self._listen, LOOPBACK, 0)
            self._announce_port = self._announcements.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._announcements is not None:
            self._announcements.close()
        for lane in self._lanes.values():
            await lane.close()

    # Requests to the store, on the wire.

    def _choose(self, client: str, op: str, head: Head) -> Conduct | None:
        """A request of this client arrives on the lane of this operation."""
        announced = self._made.get((client, op))
        if announced:
            in_flight, is_announced = announced.popleft(), True
        else:
            path = head.raw.split(b" ", 2)[1].decode("ascii", "replace")
            request = _request(client, head.method.decode(), path, op)
            in_flight, is_announced = self.work.carriage.depart(self.nodes[client], request), False
        if not self.work.carriage.leave(in_flight) and not self.work.is_followed(client):
            return None
        return partial(self._conduct, in_flight, is_announced)

    async def _conduct(self, in_flight: InFlight, is_announced: bool, exchange: Exchange) -> None:
        try:
            await self._carry(in_flight, is_announced, exchange)
        except (OSError, BadMessage, asyncio.CancelledError):
            # The server gives no answer, or the run is over; the lane tells the client.
            raise
        except Exception as error:
            self.work.fail(error)
            raise

    async def _carry(self, in_flight: InFlight, is_announced: bool, exchange: Exchange) -> None:
        read = partial(reply_of, self._scheme, exchange.head.method)
        delivered = await self.work.carriage.carry(in_flight, exchange.apply, read)
        if delivered.is_lost:
            await exchange.silence()
            in_flight.is_over = True
            return
        await tell_client(delivered, exchange, self._scheme)
        if not is_announced:
            self.work.carriage.arrive(in_flight)

    # What client processes tell.

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One process's announcements: `made` before a request leaves, `heard` with its number when it was answered."""
        numbers: dict[int, InFlight] = {}
        task = asyncio.current_task()
        assert task is not None, "a loop runs this"
        # What an announcement raises, an act of a fault included, ends the run.
        self.work.ends_run(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while line := await reader.readline():
                    said = json.loads(line)
                    if "made" in said:
                        number = len(numbers) + 1
                        numbers[number] = self._announce(said)
                    else:
                        number = said["heard"]
                        self._hear(numbers[number])
                    writer.write(f"{number}\n".encode())
                    await writer.drain()
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _announce(self, said: Mapping[str, str]) -> InFlight:
        client, op = said["made"], said["op"]
        request = _request(client, said["verb"], said["key"], op)
        in_flight = self.work.carriage.depart(self.nodes[client], request)
        if op in LANE_OPS:
            self._made.setdefault((client, op), deque()).append(in_flight)
        return in_flight

    def _hear(self, in_flight: InFlight) -> None:
        with contextlib.suppress(ValueError):
            # The request never reached its lane, for example because no connection could be made.
            self._made.get((in_flight.client, lane_of(in_flight.request)), deque()).remove(in_flight)
        self.work.carriage.arrive(in_flight)

    # Requests to the protected resource, which lives in this process.

    def before(self, resource: Channel, client: str) -> Channel:
        """The resource as this client's requests reach it."""
        return _InjectedResource(self, resource, client)

    def ask_resource(self, resource: Channel, request: Request, timeout_ns: int) -> Reply:
        """One request to the resource, from any thread."""
        work = self._ask_resource(resource, request, timeout_ns)
        return asyncio.run_coroutine_threadsafe(work, self.work.loop).result()

    async def _ask_resource(self, resource: Channel, request: Request, timeout_ns: int) -> Reply:
        node = self.nodes[request.client]
        process = node.process
        in_flight = self.work.carriage.depart(node, request)
        # A process that is stopped or killed at c0 has not sent this request yet.
        await node.while_held()
        if not node.is_up or node.process is not process:
            in_flight.is_over = True
            return TIMED_OUT
        self.work.carriage.leave(in_flight)

        async def apply() -> Reply:
            # It may be a request to a server, and everybody else's requests pass on this loop.
            return await self.work.loop.run_in_executor(self._requests, resource.send, request, timeout_ns)

        work = asyncio.ensure_future(self.work.carriage.carry(in_flight, apply, lambda reply: reply))
        self.work.keep(work)
        await asyncio.wait((work,), timeout=timeout_ns / NS_PER_S)
        delivered = work.result() if work.done() else None
        if delivered is None or delivered.is_lost:
            if delivered is not None:
                await asyncio.sleep(timeout_ns / NS_PER_S)
            in_flight.is_over = True
            return TIMED_OUT
        self.work.carriage.arrive(in_flight)
        if delivered.refusal is not None:
            return refused(request, delivered.refusal)
        assert delivered.answer is not None, "what is neither lost nor refused was answered"
        return delivered.answer


def _request(client: str, verb: str, key: str, lane: str) -> Request:
    """A request to the store as a plan knows it, by the lane on which it comes."""
    op = Op.DELETE if lane == GIVING_BACK else Op[lane.upper()]
    return Request(client, DEFAULT_STORE, verb, key, op=op, gives_back=lane == GIVING_BACK)


class _InjectedResource:
    """The resource behind the injector."""

    capabilities = None

    def __init__(self, injection: Injection, resource: Channel, client: str) -> None:
        self._injection = injection
        self._resource = resource
        self.client = client
        self.service = resource.service

    def send(self, request: Request, timeout_ns: int) -> Reply:
        return self._injection.ask_resource(self._resource, request._replace(client=self.client), timeout_ns)

    def close(self) -> None:
        self._resource.close()
