"""A plan at work in a real run: the simulator's injector on an event loop of its own, and the clients that it strikes.

It has two users: `scenarios.injection.session` for our own clients, and `scenarios.wire.endpoints` for any program.
Each opens lanes on this event loop, and takes every request past the carriage.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar, final

from lockref.errors import BackendUnavailable
from lockref.history import Recorder
from lockref.runtime import ThreadRuntime
from scenarios.injection.carriage import Carriage
from scenarios.injection.feasible import restarted_clients
from scenarios.injection.http_messages import BadMessage
from scenarios.injection.real_time import HealedNetwork, HostRecorder, RealNode, RealStore, RealTimeline
from sim.faults.fault import RequestFault
from sim.faults.injector import Injector
from sim.faults.network import Partition
from sim.faults.plan import FaultPlan
from sim.faults.surroundings import Surroundings

_PATIENCE_S: Final = 20

T = TypeVar("T")


@final
class PlanAtWork:
    """The injector, its nodes and its loop.

    Between `start` and `stop` the loop runs; the nodes' handles have to be set before `begin`.

    clients: each is a node. store: what an operator reaches into, or whose server is struck; None where neither.
    """

    def __init__(
        self,
        plan: FaultPlan,
        *,
        seed: int,
        clients: Sequence[str],
        store: RealStore | None,
        recorder: Recorder,
        runtime: ThreadRuntime,
    ) -> None:
        self.plan = plan
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="fault-injection", daemon=True)
        self.timeline = RealTimeline(runtime, self.loop)
        if store is not None:
            store.live_on(self.timeline, failed=self.fail)
        restarted = restarted_clients(plan)
        self.nodes = {name: RealNode(name, self.timeline, restarts=name in restarted) for name in clients}
        around = Surroundings(
            seed=seed,
            kernel=self.timeline,
            network=HealedNetwork(),
            recorder=HostRecorder(recorder, runtime),
            nodes=self.nodes,
            machines={},
            services={} if store is None else {store.name: store},
        )
        self._injector = Injector(around, plan)
        self._injector.check_nodes(self.nodes)
        self.carriage = Carriage(self._injector, self._carry_alone)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failures: list[BaseException] = []
        # A fault may strike requests of these clients after they have left, so they are followed to their end.
        self._is_followed = any(
            isinstance(fault, Partition) or (isinstance(fault, RequestFault) and fault.asks_whether_applied)
            for fault in plan.faults
        )
        self._watched = frozenset(
            fault.when.client
            for fault in plan.faults
            if fault.when is not None and fault.when.cut in ("c1", "c2", "c3")
        )

    def start(self) -> None:
        """Let the loop run, in a thread of its own."""
        self.loop.set_exception_handler(self._on_loop_error)
        self._thread.start()

    def stop(self) -> None:
        """End what is under way, and the loop."""
        self.call(self._end_tasks())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_PATIENCE_S)
        self.loop.close()

    async def _end_tasks(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it on the loop, and wait for its end. From any other thread.

        Raises BackendUnavailable if the loop is stuck, for example in a decoder that never ends.
        """
        asked = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return asked.result(_PATIENCE_S)
        except TimeoutError as error:
            if asked.done():
                raise
            raise BackendUnavailable(
                f"the endpoints before the store did not answer within {_PATIENCE_S:g} s; does a decoder never end? "
                "What was recorded until then is kept"
            ) from error

    def begin(self) -> int:
        """The run begins: instants count from now on. Returns now, on the host's monotonic clock."""

        async def begin() -> int:
            start_ns = self.timeline.begin()
            self._injector.arm()
            return start_ns

        return self.call(begin())

    # What goes wrong.

    def fail(self, error: BaseException) -> None:
        """Note an error in carrying out the plan. The run ends with this error."""
        self._failures.append(error)

    def raise_failure(self) -> None:
        """Raise the error that was noted by `fail`, if there is one."""
        if self._failures:
            raise self._failures[0]

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Note the error of a timed act of a fault. Asyncio would only log it, and the run would look well."""
        error = context.get("exception")
        if "handle" in context and error is not None:
            self.fail(error)
        else:
            loop.default_exception_handler(context)

    def ends_run(self, task: asyncio.Task[Any]) -> None:
        """Let an error of this task end the run, and end the task with the run."""

        def look(done: asyncio.Task[Any]) -> None:
            if not done.cancelled() and (error := done.exception()) is not None:
                self.fail(error)

        task.add_done_callback(look)
        self.keep(task)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """End this task with the run."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _carry_alone(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        async def guarded() -> None:
            # The server may be gone when the copy is sent. The original request reports that.
            with contextlib.suppress(OSError, BadMessage):
                await work

        task = asyncio.ensure_future(guarded())
        self.keep(task)
        return task

    # What there is to know.

    def is_followed(self, client: str) -> bool:
        """True if a request of this client may be struck later than when it leaves."""
        return self._is_followed or client in self._watched

    @property
    def is_expecting(self) -> bool:
        """True while a process is due to be started."""
        return self.timeline.expected > 0

    def counts(self) -> dict[str, tuple[int, int, int]]:
        """(armed, fired, mattered) by fault id, in the plan's order."""
        return self._injector.counts()

    def end_ns(self) -> int | None:
        """The true time, from the begin of the run, after which nothing disturbs; None if a fault has no end."""
        return self._injector.end_ns()
