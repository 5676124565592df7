"""Worker processes of a real run: they are spawned, started together and stopped, and their deaths are noticed."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import TracebackType

from lockref.errors import BackendUnavailable, LockrefError
from lockref.lab.windows import recorder_of
from lockref.ports import Channel, Reply, Request
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.words import Outcome
from scenarios.injection.session import Injection
from scenarios.supervised import ending_of
from scenarios.workloads.resource import RESOURCE, RESOURCE_TIMEOUT_NS
from scenarios.worlds.host_watch import HostWatch
from scenarios.worlds.processes.companions import NodeTask
from scenarios.worlds.processes.orphans import end_with_parent, parent_of_workers
from scenarios.worlds.threads import GRACE_S, LOOK_NS, START_TIMEOUT_NS, ClientThreads, Job

STDERR_LINES = 3
STDERR_CHARS_MAX = 600
NAMES_MAX = 4


class _PipeChannel:
    """The resource at the other end of a pipe; one request at a time and process."""

    client = ""
    service = RESOURCE.name
    capabilities = None

    def __init__(self, pipe: Connection, runtime: ThreadRuntime) -> None:
        self._pipe = pipe
        self._mutex = runtime.mutex()

    def send(self, request: Request, _timeout_ns: int) -> Reply:
        with self._mutex:
            try:
                self._pipe.send(request)
                reply: Reply = self._pipe.recv()
            except (EOFError, OSError):
                return Reply(Outcome.AMBIGUOUS, reason="nothing: its process is gone")
            return reply

    def close(self) -> None:
        """The worker's end closes the pipe."""


def _worker(job: Job, spool: Path, part: int, control: Connection, resource: Connection, parent: int | None) -> None:
    """A worker process: gather, report ready, wait for the start, run, say who had not finished.

    The process of a node runs until it is told that the clients have ended. What it records is in the spool at once,
    so nothing is handed over.
    """
    # A terminal's Ctrl-C reaches every process; the one that was asked for the run passes it on in its own time.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with _stderr_file(spool, part).open("ab", buffering=0) as words:
        os.dup2(words.fileno(), sys.stderr.fileno())
    faulthandler.enable()
    end_with_parent(parent)
    runtime = ThreadRuntime()
    recorder = recorder_of(job.windows, spool, part, runtime.monotonic_ns())
    recorder.is_detailed = job.scenario.needs_detail
    host = HostWatch(runtime)
    threads: ClientThreads | NodeTask
    if job.node is None:
        threads = ClientThreads(job, recorder=recorder, resource=_PipeChannel(resource, runtime), runtime=runtime)
    else:
        threads = NodeTask(job, recorder=recorder, runtime=runtime)
    try:
        with redirect_stdout(sys.stderr):
            threads.gather()
            control.send(threads.request_timeout_ns)
            start_ns = int(control.recv())
            threads.go(max(0, runtime.monotonic_ns() - start_ns))
            try:
                with host:
                    if isinstance(threads, NodeTask):
                        unfinished = threads.finish(control.recv)
                    else:
                        unfinished = threads.finish(start_ns)
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            except KeyboardInterrupt:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                unfinished = threads.unfinished()
    except LockrefError as error:
        control.send((type(error), str(error)))
        return
    left = threads.tasks_left() if isinstance(threads, ClientThreads) else ()
    control.send((unfinished, threads.request_timeout_ns, host.late_ns, left))


def _stderr_file(spool: Path, part: int) -> Path:
    """The file of a worker's standard error: when the worker dies, the last lines tell why."""
    return spool / f"{part}.stderr"


def _serve(resource: Channel, pipe: Connection) -> Callable[[], None]:
    """Answer one worker's requests until it hangs up."""

    def serve() -> None:
        while True:
            try:
                pipe.send(resource.send(pipe.recv(), RESOURCE_TIMEOUT_NS))
            except (EOFError, OSError):
                return

    return serve


@dataclass(frozen=True, slots=True, kw_only=True)
class LostWorker:
    """A worker process that ended, or fell silent, before its work was done.

    at_ns: when that was noticed; `run_real` moves it back to the last event that the worker recorded.
    """

    number: int
    clients: tuple[str, ...]
    at_ns: int
    ending: str
    stderr_end: str

    def __str__(self) -> str:
        said = f"; its last words: {self.stderr_end}" if self.stderr_end else ""
        return f"worker process {self.number} ({_several(self.clients)}) {self.ending}{said}"


@dataclass(slots=True)
class Reports:
    """The reports of all workers of a run. cut_ns: when Ctrl-C came, while all of them still recorded.

    host_late_ns: by how much the machine woke a thread of theirs too late, at its worst. tasks_left: `NODE/TASK` of the
    tasks of locks that still ran after all had been closed.
    """

    unfinished: list[str] = field(default_factory=list)
    request_timeout_ns: int = 0
    host_late_ns: int = 0
    cut_ns: int | None = None
    lost: list[LostWorker] = field(default_factory=list)
    tasks_left: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Every process has said what there was to say."""
        return self.cut_ns is None and not self.unfinished and not self.lost


class Workers:
    """The worker processes of one run. A context: none of them outlives it, nor this process.

    Worker n (from 1) records into part n of the spool.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        resource: Channel,
        runtime: ThreadRuntime,
        spool: Path,
        raise_if_interrupted: Callable[[], None] = lambda: None,
        injection: Injection | None = None,
    ) -> None:
        self._raise_if_interrupted = raise_if_interrupted
        self._jobs = list(jobs)
        self._resource = resource
        self._runtime = runtime
        self._spool = spool
        self._injection = injection
        self._processes: list[SpawnProcess] = []
        self._controls: dict[int, Connection] = {}
        self._reports = Reports()
        # What a plan kills and starts while the run goes on, from the injection's thread.
        self._mutex = runtime.mutex()
        self._felled: set[int] = set()
        self._added: list[int] = []
        self._due = 0
        self._start_ns = 0

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            # Joined only after a run that ended well. After an error nobody needs a last word, and a worker may hang.
            if kind is None:
                process.join(1)
            if process.is_alive():
                process.kill()
        for number in range(1, len(self._processes) + 1):
            sys.stderr.write(_stderr_of(self._spool, number))

    def gather(self) -> int:
        """Start all; wait until every client stands at its barrier. The longest request timeout that a lock asked for.

        Errors: what a worker's clients raised; BackendUnavailable for a worker that dies.
        """
        # All are started before the first is waited for: each start imports for a second, and they do that side by
        # side.
        for number in range(1, len(self._jobs) + 1):
            self._spawn(number)
        for number in list(self._controls):
            self._await_ready(number)
        return self._reports.request_timeout_ns

    def _spawn(self, number: int) -> None:
        """Start the process of a job; its clients gather."""
        # Spawned, not forked: a fork in a process with threads may inherit a held mutex.
        context = multiprocessing.get_context("spawn")
        job = self._jobs[number - 1]
        control, control_there = context.Pipe()
        resource, resource_there = context.Pipe()
        process = context.Process(
            target=_worker,
            args=(job, self._spool, number, control_there, resource_there, parent_of_workers()),
            name=f"lockref-{number}",
            daemon=True,
        )
        # Before `start`: if a Ctrl-C comes in between, `__exit__` has to know the process.
        self._processes.append(process)
        process.start()
        # Our copies of the far ends are closed. A pipe reports its end only when the last copy is closed, so a worker
        # that died would otherwise never be noticed.
        control_there.close()
        resource_there.close()
        self._controls[number] = control
        protected = self._resource if self._injection is None else self._injection.before(self._resource, job.names[0])
        self._runtime.spawn(_serve(protected, resource), name=f"resource-{number}")

    def _await_ready(self, number: int) -> None:
        """Wait until the clients of a process stand at its barrier."""
        control = self._controls[number]
        try:
            if not control.poll(START_TIMEOUT_NS // NS_PER_S + GRACE_S):
                raise BackendUnavailable(str(self._lost(number, "did not get ready in time")))
            message = _raised(control.recv())
        except (EOFError, OSError) as error:
            raise BackendUnavailable(str(self._lost(number))) from error
        assert isinstance(message, int), "a worker that is ready says its longest request timeout"
        self._reports.request_timeout_ns = max(self._reports.request_timeout_ns, message)

    # What a plan does to processes.

    def pid(self, number: int) -> int:
        """The process id of a process that was started."""
        return int(self._processes[number - 1].pid or 0)

    def fell(self, number: int) -> None:
        """Kill a process, by plan: it is not lost."""
        with self._mutex:
            # Noted before the kill: the other thread may see the end of the pipe first, and would count the process as
            # lost.
            self._felled.add(number)
        self._processes[number - 1].kill()

    def follow(self, job: Job) -> int:
        """Start a process while the run goes on, and wait until its client is ready; its number.

        Errors: as `gather`.
        """
        with self._mutex:
            self._jobs.append(job)
            number = len(self._jobs)
            self._spawn(number)
        self._await_ready(number)
        return number

    def expect(self) -> None:
        """Another process is about to be let go: the run does not end before."""
        with self._mutex:
            self._due += 1

    def let_go(self, number: int | None) -> None:
        """Let the client of a process that was started late begin; None if it did not get that far."""
        if number is not None:
            with suppress(OSError):
                self._controls[number].send(self._start_ns)
        with self._mutex:
            self._due -= 1
            if number is not None:
                self._added.append(number)

    def run(self, start_ns: int) -> Reports:
        """Let the clients go and wait for every worker, as long as a run may last that began at `start_ns`.

        A worker that dies ends for itself alone: the others go on, and the record says that its clients crashed. A run
        that is recorded in windows is cut off then: its earlier windows are kept already.
        Errors: what a worker's clients raised; KeyboardInterrupt for a second Ctrl-C.
        """
        reports = self._reports
        self._start_ns = start_ns
        for number, control in self._controls.items():
            try:
                control.send(start_ns)
            except OSError:
                reports.lost.append(self._lost(number))
        pending = set(self._controls) - {worker.number for worker in reports.lost}
        # A bound on the whole run, so that no lock can make a bench wait for ever. Its calls have ended long before:
        # each is cut off by the workers themselves, and only a worker that cannot do that reaches this bound.
        ends_ns = start_ns + self._jobs[0].drawn.duration_ns + 4 * GRACE_S * NS_PER_S
        while self._clients(pending) or self._is_expecting:
            with self._mutex:
                pending |= set(self._added)
                self._added.clear()
            try:
                if reports.cut_ns is None:
                    self._raise_if_interrupted()
                    if reports.lost and self._jobs[0].windows is not None:
                        # A long run is not worth its hours without these clients; its crash stands at the end.
                        raise KeyboardInterrupt
                if self._injection is not None:
                    self._injection.work.raise_failure()
                left_ns = max(0, ends_ns - self._runtime.monotonic_ns())
                # `wait` does not hear of an error in the injection's thread. So the loop looks for one, and with a plan
                # it looks more often.
                look_ns = LOOK_NS if self._injection is None else LOOK_NS // 10
                answered = wait([self._controls[number] for number in pending], min(left_ns, look_ns) / NS_PER_S)
                if not answered and left_ns:
                    continue
            except KeyboardInterrupt:
                if reports.cut_ns is not None:
                    raise
                # The first Ctrl-C asks the workers for what they have; they answer within GRACE_S. The second one is
                # raised.
                reports.cut_ns = self._runtime.monotonic_ns()
                ends_ns = reports.cut_ns + GRACE_S * NS_PER_S
                for process in self._processes:
                    process.terminate()
                continue
            if not answered:
                silent = self._clients(pending)
                pending -= set(silent)
                reports.lost += [self._lost(number, "fell silent and was killed") for number in silent]
                break
            for number in [number for number in sorted(pending) if self._controls[number] in answered]:
                pending.remove(number)
                self._hear(number)
        self._end_nodes(sorted(pending))
        return reports

    def _clients(self, numbers: Collection[int]) -> list[int]:
        """The numbers of the processes that run clients."""
        return [number for number in sorted(numbers) if self._jobs[number - 1].node is None]

    def _hear(self, number: int) -> None:
        """The last word of a process. Errors: what it raised."""
        reports = self._reports
        try:
            message = _raised(self._controls[number].recv())
        except (EOFError, OSError):
            if number not in self._felled:
                # The end of the pipe is the only sign of a death that is as quick as the death itself. Rejected: to
                # poll exit codes, which tells it later and has to be done for each process.
                reports.lost.append(self._lost(number))
            return
        assert isinstance(message, tuple), "a worker answers with names, a timeout and how late its machine was"
        reports.unfinished += message[0]
        reports.request_timeout_ns = max(reports.request_timeout_ns, message[1])
        if self._injection is None:
            # A process that the plan may stop measures the plan.
            reports.host_late_ns = max(reports.host_late_ns, message[2])
            reports.tasks_left += message[3]

    def _end_nodes(self, numbers: Sequence[int]) -> None:
        """Tell the nodes that the clients have ended, and wait for them. Errors: what one of them raised."""
        for number in numbers:
            with suppress(OSError):
                self._controls[number].send(None)
        for number in numbers:
            if self._controls[number].poll(GRACE_S):
                self._hear(number)
            else:
                self._reports.lost.append(self._lost(number, "did not end and was killed"))

    @property
    def _is_expecting(self) -> bool:
        """True while the plan will start another process, unless the run is cut off."""
        if self._injection is None or self._reports.cut_ns is not None:
            return False
        with self._mutex:
            return self._due > 0 or bool(self._added) or self._injection.work.is_expecting

    def _lost(self, number: int, ending: str = "") -> LostWorker:
        """The exit report of a worker; one that is still alive is killed."""
        process = self._processes[number - 1]
        at_ns = self._runtime.monotonic_ns()
        # With an ending the process is alive and silent: nothing is waited for. Without one it is dying, and its exit
        # code may be a moment away.
        process.join(0 if ending else 1)
        if process.is_alive():
            process.kill()
            process.join(1)
        lines = _stderr_of(self._spool, number).strip().splitlines()
        return LostWorker(
            number=number,
            clients=self._jobs[number - 1].names,
            at_ns=at_ns,
            ending=ending or ending_of(process.exitcode),
            stderr_end=" | ".join(line.strip() for line in lines[-STDERR_LINES:])[-STDERR_CHARS_MAX:],
        )


def _stderr_of(spool: Path, part: int) -> str:
    with suppress(OSError):
        return _stderr_file(spool, part).read_text(encoding="utf-8", errors="replace")
    return ""


def _several(names: Sequence[str]) -> str:
    more = len(names) - NAMES_MAX
    return ", ".join(names[:NAMES_MAX]) + (f" and {more} more clients" if more > 0 else "")


def _raised(message: object) -> object:
    """A worker's message; its error is raised here."""
    if isinstance(message, tuple) and isinstance(message[0], type):
        raise message[0](message[1])
    return message
