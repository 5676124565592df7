"""Which table each client writes to, and where a real run keeps logs and rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockref.clouds.uri import cloud_of, parse_store_uri
from lockref.errors import CapabilityMissing

if TYPE_CHECKING:
    from scenarios.definition.schema import Workload

_FOLDER = "delta"


def table_of(workload: Workload, client: str, key: str) -> str:
    """The table that this client writes to: clients take turns. The first table has the name of the run's lock."""
    number = (int(client.removeprefix("n").partition("-")[0]) - 1) % workload.tables
    return f"{number + 1}/{key}" if number else key


def lock_key_of(workload: Workload, client: str, key: str) -> str:
    """The lock that this client asks: its table's, or the one that all share (D3)."""
    return table_of(workload, client, key) if workload.lock_key == "table" else key


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlaces:
    """The places in which a real run keeps its logs, by URI.

    objects: of the store with the log entries. rows: of the helping log store's table; "" where there is none.
    """

    objects: str
    rows: str = ""


def places_beside(store_uri: str) -> LogPlaces:
    """The logs lie in the store of the locks, in a folder of their own.

    Errors: CapabilityMissing for a table, which holds no log entries.
    """
    address = parse_store_uri(store_uri)
    if cloud_of(address).is_table:
        raise CapabilityMissing(
            f"{address} is a table, and a Delta log needs an object store beside it: take a server that has both by "
            "its name, or a lock that stands on an object store"
        )
    if cloud_of(address).is_in_process:
        return LogPlaces(objects=store_uri, rows=store_uri)
    base, mark, options = store_uri.partition("?")
    return LogPlaces(objects=f"{base.rstrip('/')}/{_FOLDER}{mark}{options}")
