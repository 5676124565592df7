"""DynamoDB among the clouds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult

from lockref.clouds.cloud import Cloud, Signer, Tables
from lockref.clouds.dynamodb import answers, facts, requests
from lockref.errors import ConfigError
from lockref.stores.address import StoreAddress, parse_options, refuse_credentials
from lockref.stores.port import ObjectStore

if TYPE_CHECKING:
    from lockref.clouds.dynamodb.client import DynamoChannel, Naming

_TABLE: Final = re.compile(r"[A-Za-z0-9_.-]{3,255}")


def _parse(uri: str, parts: SplitResult) -> StoreAddress:
    form, table = facts.FORM, parts.netloc
    refuse_credentials(parts, form)
    if _TABLE.fullmatch(table) is None or parts.path.strip("/") or parts.fragment:
        raise ConfigError(f"the store {uri!r} names no table that is possible; expected {form}")
    return StoreAddress(scheme=parts.scheme, container=table, **parse_options(parts, bucket=table, known=facts.OPTIONS))


def _open(address: StoreAddress, request_timeout_ns: int, pool_size: int) -> ObjectStore:
    from lockref.dynamodb.objects import TableStore
    from lockref.dynamodb.table import TABLE

    return TableStore(TABLE.over(_channel(address, request_timeout_ns, pool_size, None), request_timeout_ns))


def _channel(address: StoreAddress, request_timeout_ns: int, pool_size: int, naming: Naming | None) -> DynamoChannel:
    from botocore.exceptions import BotoCoreError

    from lockref.clouds.dynamodb.client import DynamoChannel

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


def _require(address: StoreAddress, request_timeout_ns: int, may_create: bool, naming: Naming | None) -> None:
    channel = _channel(address, request_timeout_ns, 1, naming)
    try:
        if may_create:
            channel.create_table()
        channel.require_table()
    finally:
        channel.close()


def _create_container(address: StoreAddress, request_timeout_ns: int) -> None:
    _require(address, request_timeout_ns, True, None)


def _signer(address: StoreAddress) -> Signer:
    from lockref.clouds.dynamodb.signing import DynamoSigner

    return DynamoSigner(address)


DYNAMODB: Final = Cloud(
    name="dynamodb",
    forms={"dynamodb": facts.FORM},
    parse=_parse,
    open_store=_open,
    protocol=(requests, answers),
    signer=_signer,
    create_container=_create_container,
    refusal=answers.write_refusal,
    title=facts.SERVICE,
    tables=Tables(channel=_channel, require=_require),
    service="table",
    holds_objects=False,
    local_region=facts.LOCAL_REGION,
    statuses=facts.STATUSES,
    modes=facts.MODES,
)
