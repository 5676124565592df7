"""The channel to the table that an address names: `dynamodb://TABLE`, or `memory:` for one in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lockref.errors import ConfigError
from lockref.ports import Channel

if TYPE_CHECKING:
    from lockref.dynamodb.boto import Naming
    from lockref.stores.address import StoreAddress

_FORM: Final = "dynamodb://TABLE[?endpoint=http://HOST:PORT&region=REGION]"


def table_channel(
    address: StoreAddress, *, request_timeout_ns: int, pool_size: int = 10, naming: Naming | None = None
) -> Channel:
    """A channel to that table; no request is sent.

    request_timeout_ns: bounds each request. pool_size: connections kept. naming: of a real table's attributes; default
    that of our locks. A table in memory has the port's own names.
    Errors: ConfigError for the address of an object store, and for an AWS configuration that cannot be used.
    """
    if address.scheme == "memory":
        from lockref.dynamodb.memory import MemoryTable

        return MemoryTable(address.container)
    if address.scheme != "dynamodb":
        raise ConfigError(f"{address} is an object store; this lock stands on a table: expected {_FORM} or memory:")
    from botocore.exceptions import BotoCoreError

    from lockref.dynamodb.boto import DynamoChannel

    try:
        return DynamoChannel(
            address.container,
            naming=naming,
            endpoint=address.endpoint,
            region=address.region,
            request_timeout_ns=request_timeout_ns,
            pool_size=pool_size,
        )
    except (BotoCoreError, ValueError) as error:
        raise ConfigError(f"the table {address} cannot be opened with this AWS configuration: {error}") from error


def require_table(
    address: StoreAddress, *, request_timeout_ns: int, may_create: bool = False, naming: Naming | None = None
) -> None:
    """Ask the table for its key.

    request_timeout_ns: bounds each request. may_create: make the table where there is none yet. naming: as for
    `table_channel`.
    Errors: ConfigError for an object store, and for a table with another key; BackendUnavailable where there is no
    table, or no answer.
    """
    channel = table_channel(address, request_timeout_ns=request_timeout_ns, pool_size=1, naming=naming)
    if address.scheme == "memory":
        return
    from lockref.dynamodb.boto import DynamoChannel

    assert isinstance(channel, DynamoChannel), "only a real table has a key to be asked for"
    try:
        if may_create:
            channel.create_table()
        channel.require_table()
    finally:
        channel.close()
