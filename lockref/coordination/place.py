"""The ZooKeeper that an address names: `zookeeper://HOST:PORT[,HOST:PORT][/FOLDER]`."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lockref.clouds.uri import cloud_of
from lockref.coordination.port import Failure, delete, is_failure
from lockref.coordination.session import COORDINATION, Session
from lockref.errors import BackendUnavailable, CapabilityMissing, ConfigError
from lockref.extras import EXTRAS, naming_the_extra
from lockref.ports import Channel
from lockref.runtime import Runtime, ThreadRuntime
from lockref.words import Outcome

if TYPE_CHECKING:
    from lockref.stores.address import StoreAddress

SCHEME: Final = "zookeeper"
AUTH: Final = "LOCKREF_ZOOKEEPER_AUTH"
"""The environment's variable with the credentials: `SCHEME:CREDENTIAL`, such as `digest:user:password`."""

_DELETES_AT_ONCE: Final = 500

_LOG: Final = logging.getLogger("lockref")


def no_sessions(name: str) -> CapabilityMissing:
    """The error for a lock that needs sessions, on something that has none. name: of the server, or its address."""
    return CapabilityMissing(
        f"{name} has no sessions, on which this lock stands; take zookeeper, zookeeper-ensemble or {SCHEME}://HOST:PORT"
    )


def credentials(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The credentials that each connection sends to the server; empty if the variable is not set. Never logged.

    Errors: ConfigError for what has no scheme.
    """
    text = environment.get(AUTH, "")
    scheme, colon, credential = text.partition(":")
    if text and not (scheme and colon and credential):
        raise ConfigError(f"{AUTH} is not of the form SCHEME:CREDENTIAL, such as digest:user:password")
    return ((scheme, credential),) if text else ()


def coordination_channel(address: StoreAddress, *, client: str) -> Channel:
    """A channel for one session of `client`; no request is sent.

    Errors: CapabilityMissing for the address of anything else than a ZooKeeper.
    """
    hosts = hosts_of(address)
    with naming_the_extra(f"{EXTRAS['zookeeper'].gives} need", extra="zookeeper"):
        from lockref.coordination.zookeeper import ZooKeeperChannel

    return ZooKeeperChannel(hosts, client=client, auth=credentials(os.environ))


def hosts_of(address: StoreAddress) -> str:
    """As ZooKeeper's clients take it: servers, and the folder that is the root of what they see.

    Errors: CapabilityMissing for the address of anything else than a ZooKeeper.
    """
    if cloud_of(address).service != COORDINATION.name:
        raise no_sessions(str(address))
    return f"{address.container}/{address.prefix}" if address.prefix else address.container


@contextmanager
def folder_in(address: StoreAddress, name: str, *, timeout_ns: int) -> Iterator[StoreAddress]:
    """A znode of that name below the address, for one run: its address. On the way out it goes, with all below it.

    If nobody answers then, it stays, and the log says so: what the run has shown must not be lost with its server.

    timeout_ns: of each request, and of the session that makes the znode.
    Errors: BackendUnavailable if no server answers or takes a write; ConfigError if the address names a folder that is
    not there.
    """
    runtime = ThreadRuntime()
    with _session(address, runtime, timeout_ns) as session:
        made = session.create(f"/{name}")
        if is_failure(made, Failure.NO_NODE):
            raise ConfigError(f"{address} has no folder /{address.prefix}; make it first")
        if made.outcome is not Outcome.APPLIED:
            raise BackendUnavailable(f"{address} does not take a write: {made.reason}")
    try:
        yield replace(address, prefix=f"{address.prefix}/{name}".strip("/"))
    finally:
        try:
            with _session(address, runtime, timeout_ns) as session:
                _remove(session, f"/{name}")
        except BackendUnavailable as error:
            _LOG.warning("the folder /%s stays on %s: %s", name, address, error)


@contextmanager
def _session(address: StoreAddress, runtime: Runtime, timeout_ns: int) -> Iterator[Session]:
    with closing(COORDINATION.over(coordination_channel(address, client="lockref"), timeout_ns)) as session:
        session.start(runtime, timeout_ns=timeout_ns)
        yield session


def _remove(session: Session, root: str) -> None:
    """Remove the folder as far as possible. What stays is no failure: a session's own znodes end with the session."""
    paths = [root]
    for path in paths:  # Grows while it is walked: parents before children.
        paths += [f"{path}/{name}" for name in session.children(path).body or ()]
    deletions = [delete(path) for path in reversed(paths)]
    for start in range(0, len(deletions), _DELETES_AT_ONCE):
        session.multi(deletions[start : start + _DELETES_AT_ONCE])
