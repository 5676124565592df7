"""What a request to S3 costs the client: boto3 and obstore on one server, in turn."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from lockref.clouds.uri import client_library, open_store, parse_store_uri
from lockref.runtime import NS_PER_S
from lockref.stores.port import ObjectStore
from lockref.words import Outcome
from scenarios.backends import start_backend
from tests.bench.figures import Figure, in_turn

CALLS = 120
"""Of each measurement, over all threads."""
THREADS = (1, 16)


def _cycles(store: ObjectStore, key: str, count: int) -> None:
    """So many replacements on the version, each with a read, which is what a lock sends."""
    version = store.put(key, b"0").version
    for number in range(count // 2):
        assert version is not None
        version = store.put_if_version(key, b"%d" % number, version).version
        assert store.read(key).outcome is Outcome.APPLIED


def _spent(store: ObjectStore, threads: int) -> tuple[float, float]:
    """Processor and real time of a call in ms. The processor's is of this whole process, all its threads."""
    with ThreadPoolExecutor(threads) as pool:
        began, worked = time.perf_counter(), time.process_time()
        list(pool.map(lambda number: _cycles(store, f"clients/{number}", CALLS // threads), range(threads)))
        return (time.process_time() - worked) * 1e3 / CALLS, (time.perf_counter() - began) * 1e3 / CALLS


def measure() -> Iterator[Figure]:
    """Processor time of a call through each client, and calls in a second."""
    with start_backend("ministack") as server, contextlib.ExitStack() as stack:
        uris = {name: f"{server.uri}&client={name}" for name in ("boto3", "obstore")}
        names = {name: client_library(parse_store_uri(uri)) for name, uri in uris.items()}
        boto3, obstore = (
            stack.enter_context(contextlib.closing(open_store(uri, request_timeout_ns=20 * NS_PER_S, pool_size=16)))
            for uri in uris.values()
        )
        for threads in THREADS:
            label = f"{names['obstore']} against {names['boto3']}, {threads} threads, ministack"
            worked, took = (
                in_turn(
                    lambda part=part, threads=threads: _spent(obstore, threads)[part],
                    lambda part=part, threads=threads: _spent(boto3, threads)[part],
                )
                for part in (0, 1)
            )
            ratio = worked[0].over(worked[1])
            yield Figure.of(
                f"processor time of a call, {label}",
                ratio,
                "ratio",
                aim="<= 0.3",
                is_met=ratio.median <= 0.3,
                note=f"{worked[0]} against {worked[1]} ms",
            )
            yield Figure.of(
                f"time of a call, {label}", took[0].over(took[1]), "ratio", note=f"{took[0]} against {took[1]} ms"
            )
