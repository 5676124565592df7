"""What a lock cycle costs: against the same raw conditional writes, and each reference against what was shipped.

RFC-91's hardened lock against Hudi's build on an object store; Delta's corrected lease against dynamodb_lock 0.5 on a
table of the same server.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import pyarrow.compute as pc

from lockref.clouds.tables import table_channel
from lockref.clouds.uri import open_store, parse_store_uri
from lockref.dynamodb.item import parse, serialize
from lockref.dynamodb.rows import Rows
from lockref.dynamodb.table import TABLE, TableClient
from lockref.lab.loading import load_provider
from lockref.ports import Channel
from lockref.provider import LockContext, LockSettings
from lockref.runtime import NS_PER_MS, NS_PER_S, ThreadRuntime
from lockref.stores.client import StoreChannel
from lockref.stores.port import ObjectStore, ReadReply, Version, WriteReply
from lockref.words import Outcome
from reports.checks import judge_with_handoffs
from scenarios.backends import start_backend, table_uri
from scenarios.definition.load import load_scenario
from scenarios.run import run_real
from tests.bench.figures import Figure, in_turn

CYCLES = 60
WORKLOADS = {"contention": 8, "writers": 6}
"""Scenario of the catalogue to seconds: clients that come back at once, and clients with other work to do."""
CONTENDERS = {"contention": (16, 128), "writers": (16,)}
"""How many clients run each. One alone is what the figure of a cycle tells."""


class _PlainWrites(Protocol):
    """What a conditional write needs; an object store has it, and `Rows` makes it of a table."""

    def read(self, key: str) -> ReadReply: ...

    def put_if_version(self, key: str, body: bytes, version: Version) -> WriteReply: ...


def raw_cycles(store: _PlainWrites, key: str, body: Callable[[int], bytes]) -> float:
    """Median seconds of two conditional writes, each on the version that the last one made.

    key: of the object or row that a lock of the same build has left. body: what to write, by its number.
    """
    version = store.read(key).version
    spent = []
    for number in range(CYCLES):
        began = time.perf_counter()
        for half in (0, 1):
            assert version is not None, "a raw write was refused"
            reply = store.put_if_version(key, body(2 * number + half), version)
            assert reply.outcome is Outcome.APPLIED, reply
            version = reply.version
        spent.append(time.perf_counter() - began)
    return statistics.median(spent)


def _lock_cycles(build: str, store: ObjectStore, channel: Channel, key: str) -> float:
    """Median seconds of lock and unlock by a reference, uncontended and warm. channel: to the table of the store."""
    context = LockContext(
        runtime=ThreadRuntime(),
        open_store=lambda _timeout: store,
        open_port=lambda kind, timeout_ns, _service: kind.over(channel, timeout_ns) if kind is TABLE else store,
        settings=LockSettings(key=key),
    )
    lock = load_provider(build).factory(context)
    spent = []
    for _ in range(CYCLES):
        began = time.perf_counter()
        assert lock.lock(5.0), "an uncontended lock was refused"
        lock.unlock()
        spent.append(time.perf_counter() - began)
    lock.close()
    return statistics.median(spent)


def measure() -> Iterator[Figure]:
    """Cycle cost and contention on ministack. Each figure comes as soon as it is known."""
    with start_backend("ministack") as server:
        for uri, reference, shipped in (
            (server.uri, "hardened", "hudi"),
            (table_uri(server), "dynamodb", "dynamodb-lock-0.5"),
        ):
            yield _cycle(uri, reference)
            for workload in WORKLOADS:
                for contenders in CONTENDERS[workload]:
                    yield from _contended(uri, reference, shipped, workload, contenders)


def _cycle(uri: str, reference: str) -> Figure:
    store = open_store(uri, request_timeout_ns=5 * NS_PER_S)
    address = parse_store_uri(uri)
    plain: _PlainWrites = store
    channel: Channel = StoreChannel(store)
    body = _same_object
    if address.scheme == "dynamodb":
        channel = table_channel(address, request_timeout_ns=5 * NS_PER_S)
        plain, body = Rows(TableClient(channel, 5 * NS_PER_S)), _same_row
    # The lock leaves what the raw writes then replace, so both write as many bytes.
    _lock_cycles(reference, store, channel, "bench/raw")
    left = plain.read("bench/raw").body
    assert left is not None
    locked, raw = in_turn(
        lambda: _lock_cycles(reference, store, channel, "bench/lock"),
        lambda: raw_cycles(plain, "bench/raw", partial(body, left)),
    )
    channel.close()
    store.close()
    ratio = locked.over(raw)
    return Figure.of(
        f"lock cycle of {reference} against its two raw conditional writes, ministack",
        ratio,
        "ratio",
        aim="<= 1.1",
        is_met=ratio.median <= 1.1,
        note=f"{locked.times(1e3)} against {raw.times(1e3)} ms",
    )


def _same_object(left: bytes, number: int) -> bytes:
    """As many bytes, and other ones each time."""
    return f"{number:06}".encode() + left[6:]


def _same_row(left: bytes, number: int) -> bytes:
    """The same row with another version."""
    return serialize(replace(parse(left), nonce=f"{number:016x}"))


def _contended(uri: str, reference: str, shipped: str, workload: str, contenders: int) -> list[Figure]:
    theirs, ours = (_one_run(uri, build, workload, contenders) for build in (shipped, reference))
    label = f"{reference} against {shipped}, {workload}, {contenders} contenders"
    requests = ours.requests_per_grant / theirs.requests_per_grant
    figures = [
        Figure(
            name=f"requests per grant, {label}",
            value=requests,
            unit="ratio",
            aim="<= 1",
            is_met=requests <= 1,
            note=f"{ours.requests_per_grant:.1f} against {theirs.requests_per_grant:.1f}",
        )
    ]
    figures.append(
        Figure(
            name=f"grants in {WORKLOADS[workload]} s, {label}",
            value=ours.grants / theirs.grants,
            unit="ratio",
            note=f"{ours.grants} against {theirs.grants}",
        )
    )
    if theirs.handoffs_ns and ours.handoffs_ns:
        # Not the median: turns of several grants let a waiter wait a little longer, and all together for less long.
        own, other = _late(ours.handoffs_ns), _late(theirs.handoffs_ns)
        figures.append(
            Figure(
                name=f"99 % of hand-offs after release, {label}",
                value=own / other,
                unit="ratio",
                aim="<= 1",
                is_met=own / other <= 1,
                note=f"{own / NS_PER_MS:.0f} against {other / NS_PER_MS:.0f} ms; "
                f"{len(ours.handoffs_ns)} against {len(theirs.handoffs_ns)} releases that served a waiter",
            )
        )
    return figures


def _late(handoffs_ns: list[int]) -> int:
    """The hand-off than which one of a hundred takes longer."""
    return sorted(handoffs_ns)[int(0.99 * (len(handoffs_ns) - 1))]


@dataclass(frozen=True)
class _Run:
    """handoffs_ns: from each release to the grant of one who waited then (`reports.checks.measures.handoff`)."""

    grants: int
    requests_per_grant: float
    handoffs_ns: list[int]


def _one_run(uri: str, build: str, workload: str, contenders: int) -> _Run:
    outcome = run_real(
        load_scenario(workload),
        load_provider(build),
        uri,
        clients=contenders,
        duration_ns=WORKLOADS[workload] * NS_PER_S,
    )
    judgement, handoffs = judge_with_handoffs(outcome.events, outcome.runs)
    sent = pc.sum(pc.equal(outcome.events["kind"].cast("string"), "sent")).as_py()
    grants = len(judgement.grants)
    assert grants, f"{build} was never granted the lock"
    after_release = handoffs.filter(pc.equal(handoffs["after"].cast("string"), "release"))
    return _Run(grants, sent / grants, after_release["handoff_ns"].to_pylist())
