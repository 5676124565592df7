"""Contention on a real store: threads, processes, the wall clock.

All clients of a process are threads on one ThreadRuntime; they make their
locks, meet at a barrier, and start together. The protected resource lives in
the process that called `run_real`: for its own threads behind a mutex, for
those of worker processes at the end of a pipe. So the EFFECT rows are written
by the resource at the instant of application, in one order, in every case.

True time is the host's monotonic clock, which its processes share; a run that
spans hosts cannot be recorded in this way.

A real run injects no faults, and it is not replayable: what remains is its
history, which `lockref check` judges again at any time.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lockref.errors import BackendUnavailable, CapabilityMissing, ConfigError
from lockref.history import SCHEMA, Recorder, runs_table, to_table
from lockref.providers import ProviderSpec
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.stores.port import Outcome
from lockref.stores.uri import open_store, parse_store_uri
from scenarios.crew import Crew, Job
from scenarios.schema import CLIENTS_MAX, Scenario
from scenarios.settle import settle
from scenarios.workers import run_workers
from scenarios.workloads import RESOURCES
from scenarios.workloads.resource import LocalLink, ResourceHost

NUMBERS_PER_PROCESS = 10**12
PROBE_TIMEOUT_NS = 5 * NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class RealOutcome:
    """The history of one real run. `unfinished`: the clients whose last call had not returned when it was cut off.

    is_interrupted: Ctrl-C cut it off.
    """

    events: pa.Table
    runs: pa.Table
    unfinished: tuple[str, ...] = ()
    is_interrupted: bool = False


def run_real(
    scenario: Scenario,
    spec: ProviderSpec,
    store_uri: str,
    *,
    clients: int | None = None,
    duration_ns: int | None = None,
    processes: int = 1,
    seed: int = 0,
) -> RealOutcome:
    """Run a scenario without faults against the store at `store_uri`.

    clients: total, default the scenario's. duration_ns: after it no client
    begins another cycle. processes: 1 keeps all clients in this process.
    seed: draws the clients' habits; the run itself is not replayable.
    Errors: CapabilityMissing for a scenario with faults; ConfigError for a bad
    store or count; BackendUnavailable if the store does not answer.
    KeyboardInterrupt while the clients contend cuts the run off.
    """
    count = scenario.clients if clients is None else clients
    shared_uri = _usable(scenario, store_uri, clients=count, processes=processes)
    runtime = ThreadRuntime()
    run_id = runtime.token_bytes(6).hex()
    key = f"lockref-{run_id}/.hoodie/.locks/table_lock.json"
    _probe(shared_uri, key)
    settled = settle(scenario, seed)
    if duration_ns is not None:
        settled = settled.lasting(duration_ns)
    names = tuple(f"n{number}" for number in range(1, count + 1))
    recorder = Recorder()
    host = ResourceHost(RESOURCES[scenario.workload.kind](), recorder=recorder, true_ns=runtime.monotonic_ns, lock=key)
    link = LocalLink(host, runtime.mutex())
    jobs = [
        Job(
            scenario=scenario,
            settled=settled,
            spec=spec,
            store_uri=shared_uri,
            key=key,
            names=names[part::processes],
            seed=seed,
            first_number=1 + part * NUMBERS_PER_PROCESS,
        )
        for part in range(processes)
    ]
    start_ns = runtime.monotonic_ns()
    is_interrupted, end_ns = False, 0
    if processes == 1:
        crew = Crew(jobs[0], recorder=recorder, link=link, runtime=runtime)
        # Standard output is the command's own.
        with redirect_stdout(sys.stderr):
            crew.gather()
            start_ns = runtime.monotonic_ns()
            crew.go()
            try:
                unfinished = crew.finish(start_ns)
            except KeyboardInterrupt:
                is_interrupted, unfinished = True, crew.unfinished()
        tables, request_timeout_ns = [to_table([recorder])], crew.request_timeout_ns
    else:
        told = run_workers(jobs, link, runtime)
        tables, unfinished, request_timeout_ns = told.tables, tuple(told.unfinished), told.request_timeout_ns
        tables.insert(0, to_table([recorder]))
        if told.cut_ns is not None:
            # Processes stop one after the other; up to here every record is whole.
            is_interrupted, end_ns = True, told.cut_ns
            tables = [table.filter(pc.less_equal(table["at_ns"], end_ns)) for table in tables]
    events = _one_run(tables)
    row = {
        **settled.run_row(scenario, spec),
        "run": 0,
        "seed": seed,
        "world": "real",
        "backend": str(parse_store_uri(store_uri)),
        "clients": count,
        "request_timeout_ns": request_timeout_ns,
        "faults_end_ns": start_ns,
        "end_ns": end_ns or runtime.monotonic_ns(),
        "is_cut_off": is_interrupted or bool(unfinished),
    }
    return RealOutcome(events=events, runs=runs_table([row]), unfinished=unfinished, is_interrupted=is_interrupted)


def require_undisturbed(scenario: Scenario) -> None:
    """Raise CapabilityMissing for a scenario with faults: it is known before any server is started."""
    if scenario.disturbs:
        raise CapabilityMissing(
            f"scenario {scenario.name!r} injects faults, which only the simulated world can: "
            "run it with `lockref sim`, or take a scenario without faults such as contention"
        )


def _usable(scenario: Scenario, store_uri: str, *, clients: int, processes: int) -> str:
    """The address that all openings of the run share. Raises what `run_real` raises for requests it cannot serve."""
    require_undisturbed(scenario)
    if not 1 <= clients <= CLIENTS_MAX:
        raise ConfigError(f"{clients} clients; expected 1 to {CLIENTS_MAX}")
    if not 1 <= processes <= clients:
        raise ConfigError(f"{processes} processes for {clients} clients; expected 1 to {clients}")
    address = parse_store_uri(store_uri)
    if address.scheme == "memory":
        if processes > 1:
            raise CapabilityMissing("a store in memory belongs to one process: take file:, s3: or gs: for several")
        # Without a name each opening would give a store of its own.
        store_uri = f"memory:{address.container or 'run'}"
    return store_uri


def _probe(store_uri: str, key: str) -> None:
    """One read before the clients start: a store that does not answer is one error, not a hundred."""
    store = open_store(store_uri, request_timeout_ns=PROBE_TIMEOUT_NS)
    reply = store.read(key)
    store.close()
    if reply.outcome is not Outcome.APPLIED:
        status = f"status {reply.status}, " if reply.status is not None else ""
        raise BackendUnavailable(
            f"{parse_store_uri(store_uri)} does not serve reads ({status}{reply.outcome.name.lower()}: "
            f"{reply.reason or 'no reason given'}) within {PROBE_TIMEOUT_NS // NS_PER_S} s"
        )


def _one_run(tables: list[pa.Table]) -> pa.Table:
    """Several recorders' rows as one run, in the order of true time. The sort is stable: each thread's order stays."""
    joined = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    joined = joined.take(pc.sort_indices(joined, sort_keys=[("at_ns", "ascending")]))
    rows = len(joined)
    columns = {"run": pa.array([0] * rows, pa.int64()), "seq": pa.array(range(rows), pa.int64())}
    return pa.table([columns.get(field.name, joined.column(field.name)) for field in SCHEMA], schema=SCHEMA)
