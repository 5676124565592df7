"""Stores that are no cloud's: in memory, in a folder, and a ZooKeeper, which holds no objects."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, unquote

from lockref.clouds.cloud import Cloud, Tables
from lockref.clouds.statuses import NO_STATUSES, ServerStatuses, Versions
from lockref.errors import CapabilityMissing, ConfigError
from lockref.stores.address import StoreAddress, refuse_credentials
from lockref.stores.port import ObjectStore

if TYPE_CHECKING:
    from lockref.clouds.dynamodb.client import Naming
    from lockref.ports import Channel

_MEMORY_FORM: Final = "memory: or memory:NAME"
_FOLDER_FORM: Final = "file:///FOLDER"
_ENSEMBLE_FORM: Final = "zookeeper://HOST:PORT[,HOST:PORT][/FOLDER]"
_ENSEMBLE_SERVER: Final = re.compile(r"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:]{2,45}\]):([0-9]{1,5})")


def _parse_memory(uri: str, _parts: SplitResult) -> StoreAddress:
    scheme, _, name = uri.partition(":")
    if re.fullmatch(r"[\w.-]*", name, re.ASCII) is None:
        raise ConfigError(f"the store {uri!r} is not of the form {_MEMORY_FORM}")
    return StoreAddress(scheme=scheme, container=name)


def _open_memory(address: StoreAddress, _request_timeout_ns: int, _pool_size: int) -> ObjectStore:
    from lockref.stores.memory import MemoryStore

    return MemoryStore(address.container)


def _memory_channel(address: StoreAddress, _timeout_ns: int, _pool_size: int, _naming: Naming | None) -> Channel:
    from lockref.dynamodb.memory import MemoryTable

    return MemoryTable(address.container)


def _require_memory(_address: StoreAddress, _timeout_ns: int, _may_create: bool, _naming: Naming | None) -> None:
    """A table in memory is there as soon as it is opened, and has the key of the port."""


def _parse_folder(uri: str, parts: SplitResult) -> StoreAddress:
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or parts.query or parts.fragment or not path.startswith("/"):
        raise ConfigError(f"the store {uri!r} is not of the form {_FOLDER_FORM}: give the folder's absolute path")
    if path.rstrip("/") == "" or "\0" in path:
        raise ConfigError(f"the store {uri!r} names no folder that is possible; expected {_FOLDER_FORM}")
    return StoreAddress(scheme="file", container=path.rstrip("/"))


def _open_folder(address: StoreAddress, request_timeout_ns: int, _pool_size: int) -> ObjectStore:
    from lockref.stores.localfs import FileStore

    return FileStore(address.container, request_timeout_ns=request_timeout_ns)


def _parse_ensemble(_uri: str, parts: SplitResult) -> StoreAddress:
    scheme, form, hosts = parts.scheme, _ENSEMBLE_FORM, parts.netloc
    refuse_credentials(parts, form)
    for server in hosts.split(","):
        found = _ENSEMBLE_SERVER.fullmatch(server)
        if found is None or not 0 < int(found[2]) < 65536:
            raise ConfigError(f"the {scheme} address names {server!r} as a server; expected {form}")
    if parts.query or parts.fragment:
        raise ConfigError(f"the {scheme} address has options, but this scheme takes none; expected {form}")
    return StoreAddress(scheme=scheme, container=hosts, prefix=unquote(parts.path).strip("/"))


def _open_ensemble(address: StoreAddress, _request_timeout_ns: int, _pool_size: int) -> ObjectStore:
    raise CapabilityMissing(f"{address} holds no objects; a lock that stands on a coordination service uses it")


_STATUSES: Final = ServerStatuses(name="memory", versions=Versions.UNIQUE, tells_absence=True)
"""A simulated store in memory answers with statuses."""

MEMORY: Final = Cloud(
    name="memory",
    forms={"memory": _MEMORY_FORM},
    parse=_parse_memory,
    open_store=_open_memory,
    statuses=_STATUSES,
    tables=Tables(channel=_memory_channel, require=_require_memory),
    is_in_process=True,
    is_on_this_machine=True,
)
FOLDER: Final = Cloud(
    name="memory",
    forms={"file": _FOLDER_FORM},
    parse=_parse_folder,
    open_store=_open_folder,
    statuses=_STATUSES,
    is_on_this_machine=True,
)
ENSEMBLE: Final = Cloud(
    name="zookeeper",
    forms={"zookeeper": _ENSEMBLE_FORM},
    clients=("kazoo",),
    parse=_parse_ensemble,
    open_store=_open_ensemble,
    statuses=NO_STATUSES,
    service="coordination",
    holds_objects=False,
)

WITHOUT_CLOUD: Final = (MEMORY, FOLDER, ENSEMBLE)
