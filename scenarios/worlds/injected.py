"""A real run with a fault plan: the plan at work, the clients' processes in its hands, and an operator if need be."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from lockref.clouds.uri import open_store, parse_store_uri
from lockref.history import REQUESTS_PER_PROCESS, Recorder
from lockref.lab.recording import Journal, host_stamp, recorded_store
from lockref.ports import Channel
from lockref.provider import DEFAULT_STORE, StateDecoder
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.words import OPERATOR
from scenarios.backends.server_process import RestartableServer
from scenarios.injection.feasible import needs_operator, needs_server, needs_wire
from scenarios.injection.lane import upstream_of
from scenarios.injection.real_time import RealStore
from scenarios.injection.session import Injection
from scenarios.worlds.processes.struck_processes import StruckProcesses
from scenarios.worlds.processes.workers import Workers
from scenarios.worlds.threads import Job
from sim.faults.plan import FaultPlan

OPERATOR_TIMEOUT_NS = 2 * NS_PER_S
_COMPANIONS_PARTS = 1
"""The nodes of a run that are no clients number their requests after its first processes; what is here comes later."""


@contextmanager
def injection_of(
    plan: FaultPlan,
    jobs: Sequence[Job],
    *,
    recorder: Recorder,
    runtime: ThreadRuntime,
    decode: StateDecoder,
    server: RestartableServer | None,
) -> Iterator[Injection]:
    """The plan at work in a run with these jobs, each with one client. server: the store's, if it is ours."""
    first = jobs[0]
    address = parse_store_uri(first.store_uri)
    upstream = upstream_of(address.endpoint) if any(needs_wire(fault) for fault in plan.faults) else None

    @contextmanager
    def operated() -> Iterator[RealStore | None]:
        if not any(needs_operator(fault) or needs_server(fault) for fault in plan.faults):
            yield None
            return
        number = 1 + (len(jobs) + _COMPANIONS_PARTS) * REQUESTS_PER_PROCESS
        journal = Journal(recorder, node=OPERATOR, stamp=host_stamp(runtime), numbers=itertools.count(number))
        with closing(open_store(first.store_uri, request_timeout_ns=OPERATOR_TIMEOUT_NS)) as store:
            own = recorded_store(store, journal=journal, decode=decode)
            yield RealStore(DEFAULT_STORE, own, first.scenario.workload.lock_names(first.key), server=server)

    with (
        operated() as store,
        Injection(
            plan,
            seed=first.seed,
            clients=[job.names[0] for job in jobs],
            address=address,
            upstream=upstream,
            store=store,
            recorder=recorder,
            runtime=runtime,
        ) as injection,
    ):
        yield injection


@contextmanager
def injected_workers(
    jobs: Sequence[Job],
    injection: Injection,
    resource: Channel,
    runtime: ThreadRuntime,
    spool: Path,
    raise_if_interrupted: Callable[[], None],
) -> Iterator[Workers]:
    """The client processes of a run with a plan, which strikes them."""
    routed = [replace(job, routes=injection.routes(job.names[0])) for job in jobs]
    parts = itertools.count(len(jobs) + _COMPANIONS_PARTS + 1)
    with Workers(routed, resource, runtime, spool, raise_if_interrupted, injection) as workers:
        for number, job in enumerate(routed, 1):
            injection.nodes[job.names[0]].handle = StruckProcesses(
                workers, number, job, next_part=parts.__next__, runtime=runtime, failed=injection.work.fail
            )
        yield workers
