"""When is a started server ready, in whatever way it was started?

Ready means that a conditional create succeeded and the same create was then
refused; a listening socket or a health page says neither. The wait has a hard
bound, and a server that does not get there takes its last log lines into the
message. A server that ignores a condition is not "not ready yet": that is a
verdict, `CapabilityMissing`, at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from lockref.clouds.uri import CLOUDS, create_container, open_store, parse_store_uri
from lockref.errors import BackendUnavailable
from lockref.runtime import NS_PER_S
from lockref.stores.address import StoreAddress
from lockref.stores.probe.measured import Measurements
from lockref.stores.probe.selftest import ensure_usable
from scenarios.backends.pins import LOOPBACK, Backend
from scenarios.backends.server_process import RestartableServer

REACH_TIMEOUT_S: Final = 10
"""Servers of ours keep tables by region."""
_PROBE_TIMEOUT_NS: Final = 10 * NS_PER_S
_PROBE_PAUSE_S: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningBackend:
    """A store that answers.

    name: the server's, or the URI that the user gave. uri: for `open_store`.
    version: "" where unknown. pid: of the server's process, None where we did
    not start one. server: how it is stopped and killed by plan, None likewise.
    log_path: its output, gone once the server is stopped unless a folder for it
    was named. ready_s: from process start to readiness.
    bucket_uri: of a server of ours with buckets, also where `uri` is a table's; "" of others.
    measured: which conditions it kept; None where nobody has asked yet. notices: what is to be told of how it was let
    in. pids: of a server of ours that no plan can strike.
    """

    name: str
    uri: str
    version: str = ""
    pid: int | None = None
    server: RestartableServer | None = None
    log_path: Path | None = None
    ready_s: float = 0.0
    measured: Measurements | None = None
    bucket_uri: str = ""
    notices: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()

    @property
    def processes(self) -> list[int]:
        """The processes of a server of ours by now; none of anybody else's, and of one in a container."""
        return list(self.pids) if self.server is None else self.server.pids


class ReadyingServer(Protocol):
    """The face of a server that the readiness loop needs, wherever the server runs."""

    @property
    def has_ended(self) -> bool: ...

    def log_tail(self) -> str: ...


class PortTaken(BackendUnavailable):
    """Another process took the free port first."""


def local_address(backend: Backend, *, port: int, bucket: str) -> StoreAddress:
    """The address at which a server on this machine will answer."""
    cloud = CLOUDS[backend.scheme]
    endpoint = f"http://{LOOPBACK}:{port}{cloud.local_path}"
    return StoreAddress(scheme=backend.scheme, container=bucket, endpoint=endpoint, region=cloud.local_region)


def store_uri(address: StoreAddress) -> str:
    """The URI of a bucket or table on a started server."""
    region = f"&region={address.region}" if address.region else ""
    uri = f"{address.scheme}://{address.container}?endpoint={address.endpoint}{region}"
    assert parse_store_uri(uri) == address, "a URI of ours does not survive parsing"
    return uri


def await_ready(
    server: ReadyingServer,
    address: StoreAddress,
    *,
    timeout_s: float,
    tolerated: frozenset[str] = frozenset(),
    is_ours: Callable[[], bool] = lambda: True,
) -> None:
    """Return once the server creates its bucket, accepts a conditional create and refuses the next.

    tolerated: the clauses that this server is known to break.
    Errors: BackendUnavailable if it ends or the time does, with its last log
        lines; CapabilityMissing if it ignores the condition.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        if server.has_ended:
            tail = server.log_tail()
            kind = PortTaken if "address already in use" in tail.lower() else BackendUnavailable
            raise kind(f"the server for {address} ended while starting; its last lines:\n{tail}")
        try:
            create_container(address, request_timeout_ns=_PROBE_TIMEOUT_NS)
            if not is_ours():
                raise PortTaken(f"somebody else answers at {address.endpoint}")
            _require_answers(address, tolerated)
        except PortTaken:
            raise
        except BackendUnavailable as error:
            if time.monotonic() >= deadline_s:
                raise BackendUnavailable(
                    f"the server for {address} was not ready after {timeout_s:g} s ({error}); "
                    f"its last lines:\n{server.log_tail()}"
                ) from error
            time.sleep(_PROBE_PAUSE_S)
        else:
            return


def _require_answers(address: StoreAddress, tolerated: frozenset[str]) -> None:
    """Each condition once. Races are for whoever uses the server: to be ready, it need not win them."""
    store = open_store(store_uri(address), request_timeout_ns=_PROBE_TIMEOUT_NS)
    try:
        ensure_usable(
            store,
            "lockref-ready",
            address=str(address),
            racers=0,
            patience_ns=REACH_TIMEOUT_S * NS_PER_S,
            tolerated=tolerated,
        )
    finally:
        store.close()
