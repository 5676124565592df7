"""The table that an address names: `dynamodb://TABLE`, or `memory:` for one in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockref.clouds.uri import CLOUDS, cloud_of
from lockref.errors import ConfigError

if TYPE_CHECKING:
    from lockref.clouds.cloud import Tables
    from lockref.clouds.dynamodb.client import Naming
    from lockref.ports import Channel
    from lockref.stores.address import StoreAddress


def table_channel(
    address: StoreAddress, *, request_timeout_ns: int, pool_size: int = 10, naming: Naming | None = None
) -> Channel:
    """A channel to that table; no request is sent.

    request_timeout_ns: bounds each request. pool_size: connections kept. naming: of a real table's attributes; default
    that of our locks. A table in memory has the port's own names.
    Errors: ConfigError for the address of an object store, and for an AWS configuration that cannot be used.
    """
    return _tables_at(address).channel(address, request_timeout_ns, pool_size, naming)


def require_table(
    address: StoreAddress, *, request_timeout_ns: int, may_create: bool = False, naming: Naming | None = None
) -> None:
    """Ask the table for its key.

    request_timeout_ns: bounds each request. may_create: make the table where there is none yet. naming: as for
    `table_channel`.
    Errors: ConfigError for an object store, and for a table with another key; BackendUnavailable where there is no
    table, or no answer.
    """
    _tables_at(address).require(address, request_timeout_ns, may_create, naming)


def _tables_at(address: StoreAddress) -> Tables:
    tables = cloud_of(address).tables
    if tables is None:
        forms = dict.fromkeys(form for cloud in CLOUDS.values() if cloud.tables for form in cloud.forms.values())
        raise ConfigError(f"{address} is an object store; this lock stands on a table: expected {' or '.join(forms)}")
    return tables
