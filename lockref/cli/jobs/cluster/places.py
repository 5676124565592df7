"""The servers and the cluster that a command line means."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lockref.clouds.uri import parse_store_uri
from lockref.coordination.place import SCHEME, credentials, hosts_of
from lockref.errors import ConfigError, quote
from lockref.helix.cluster.cluster_file import load_cluster
from lockref.helix.cluster.declared import Cluster
from lockref.helix.operations.operator import Operator, operator_on
from lockref.runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """hosts: as ZooKeeper's clients take them; "" where the command line names none. cluster: "" for the only one.

    declared: the cluster of a file, if the command line names one.
    """

    hosts: str
    cluster: str
    declared: Cluster | None = None


def place_of(target: str, *, zookeeper: str | None, cluster: str) -> Place:
    """The place that a command line names. target: `zookeeper://HOST:PORT[/FOLDER]`, or a cluster file.

    zookeeper: the servers beside a file. Errors: ConfigError.
    """
    if "://" in target:
        if zookeeper is not None:
            raise ConfigError(f"{target} and --zookeeper {zookeeper} both name servers; leave one of them out")
        return Place(hosts=hosts_named(target), cluster=cluster)
    if re.fullmatch(r"[\w.\[\]:-]+:\d+(/\S*)?", target) and not Path(target).exists():
        raise ConfigError(f"{quote(target)} is no cluster file; for a server write {SCHEME}://{target}")
    declared = load_cluster(target)
    if cluster and cluster != declared.name:
        raise ConfigError(f"--cluster is {quote(cluster)}, and {target} declares {declared.name!r}; leave one out")
    return Place(hosts="" if zookeeper is None else hosts_named(zookeeper), cluster=declared.name, declared=declared)


def hosts_named(address: str) -> str:
    """The servers of an address, with or without its scheme. Errors: ConfigError, CapabilityMissing."""
    return hosts_of(parse_store_uri(address if "://" in address else f"{SCHEME}://{address}"))


@contextmanager
def operator_at(place: Place, runtime: Runtime) -> Iterator[tuple[Operator, str]]:
    """An operator's session at a place, and the name of the cluster. Errors: ConfigError, BackendUnavailable."""
    if not place.hosts:
        raise ConfigError(f"name the servers: --zookeeper HOST:PORT, or {SCHEME}://HOST:PORT in the place of the file")
    with operator_on(place.hosts, runtime, auth=credentials(os.environ)) as operator:
        yield operator, operator.require_cluster(place.cluster)
