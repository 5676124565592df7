"""Worker processes of a real run: spawned, started together, told to stop, asked for what they recorded."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

import pyarrow as pa

from lockref.errors import BackendUnavailable, LockrefError, OutcomeUnknown
from lockref.history import Recorder, TrueNs, to_table
from lockref.runtime import NS_PER_S, ThreadRuntime
from scenarios.crew import GRACE_S, START_TIMEOUT_NS, Crew, Job
from scenarios.workloads.resource import Effect, ResourceLink, Write


class _PipeLink:
    """The resource at the other end of a pipe; one request at a time and process."""

    def __init__(self, pipe: Connection, runtime: ThreadRuntime) -> None:
        self._pipe = pipe
        self._mutex = runtime.mutex()

    def _ask(self, request: Write | None) -> object:
        with self._mutex:
            try:
                self._pipe.send(request)
                return self._pipe.recv()
            except (EOFError, OSError) as error:
                raise OutcomeUnknown("the resource's process is gone") from error

    def state(self) -> str:
        return str(self._ask(None))

    def write(self, write: Write) -> Effect:
        effect = self._ask(write)
        assert isinstance(effect, Effect), "the resource answers a write with its effect"
        return effect


def _worker(job: Job, control: Connection, resource: Connection) -> None:
    """A worker process: gather, report ready, wait for the start, run, hand the history over."""
    # A terminal's Ctrl-C reaches every process; the one that was asked for the run passes it on in its own time.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    runtime = ThreadRuntime()
    recorder = Recorder()
    crew = Crew(job, recorder=recorder, link=_PipeLink(resource, runtime), runtime=runtime)
    try:
        with redirect_stdout(sys.stderr):
            crew.gather()
            control.send("ready")
            start_ns = int(control.recv())
            crew.go()
            try:
                unfinished = crew.finish(start_ns)
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            except KeyboardInterrupt:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                unfinished = crew.unfinished()
    except LockrefError as error:
        control.send((type(error), str(error)))
        return
    sink = pa.BufferOutputStream()
    table = to_table([recorder])
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    control.send((sink.getvalue().to_pybytes(), unfinished, crew.request_timeout_ns))


def _serve(link: ResourceLink, pipe: Connection) -> Callable[[], None]:
    """Answer one worker's requests until it hangs up."""

    def serve() -> None:
        while True:
            try:
                request = pipe.recv()
                pipe.send(link.state() if request is None else link.write(request))
            except (EOFError, OSError):
                return

    return serve


@dataclass(slots=True)
class HandedOver:
    """What the workers of a run told, together. cut_ns: when Ctrl-C came, while all of them still recorded."""

    tables: list[pa.Table] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    request_timeout_ns: int = 0
    cut_ns: int | None = None

    def add(self, answer: object) -> None:
        assert isinstance(answer, tuple), "a worker hands over bytes, names and a timeout"
        body, names, timeout_ns = answer
        self.tables.append(pa.ipc.open_stream(body).read_all())
        self.unfinished += names
        self.request_timeout_ns = max(self.request_timeout_ns, timeout_ns)


def run_workers(jobs: list[Job], link: ResourceLink, runtime: ThreadRuntime) -> HandedOver:
    # Spawned, not forked: a fork in a process with threads may inherit a held mutex.
    context = multiprocessing.get_context("spawn")
    controls: list[Connection] = []
    workers = []
    for number, job in enumerate(jobs):
        control, control_there = context.Pipe()
        resource, resource_there = context.Pipe()
        worker = context.Process(
            target=_worker, args=(job, control_there, resource_there), name=f"lockref-{number}", daemon=True
        )
        worker.start()
        control_there.close()
        resource_there.close()
        runtime.spawn(_serve(link, resource), name=f"resource-{number}")
        controls.append(control)
        workers.append(worker)
    try:
        for control in controls:
            _received(control, START_TIMEOUT_NS // NS_PER_S + GRACE_S)
        start_ns = TrueNs(runtime.monotonic_ns())
        for control in controls:
            control.send(start_ns)
        told = HandedOver()
        patience_s = jobs[0].settled.duration_ns // NS_PER_S + 4 * GRACE_S
        for control in controls:
            try:
                answer = _received(control, patience_s)
            except KeyboardInterrupt:
                told.cut_ns = runtime.monotonic_ns()
                for worker in workers:
                    worker.terminate()
                # A second Ctrl-C is not waited out.
                answer = _received(control, GRACE_S)
            told.add(answer)
        return told
    finally:
        for worker in workers:
            worker.join(1)
            if worker.is_alive():
                worker.kill()


def _received(control: Connection, patience_s: float) -> object:
    """A worker's message; its error is raised here."""
    try:
        if not control.poll(patience_s):
            raise BackendUnavailable(f"a worker process did not answer within {patience_s:g} s")
        message = control.recv()
    except EOFError as error:
        raise BackendUnavailable("a worker process ended before its work was done; its last words are above") from error
    if isinstance(message, tuple) and isinstance(message[0], type):
        raise message[0](message[1])
    return message
