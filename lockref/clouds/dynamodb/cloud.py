"""DynamoDB among the clouds."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult

from lockref.clouds.cloud import Cloud, Tables, on_use
from lockref.clouds.dynamodb import answers, facts, requests
from lockref.errors import ConfigError
from lockref.stores.address import StoreAddress, parse_options, refuse_credentials
from lockref.stores.port import ObjectStore

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


_CLIENT: Final = "lockref.clouds.dynamodb.client"
_channel: Final = on_use(_CLIENT, "open_channel")

DYNAMODB: Final = Cloud(
    name=facts.STATUSES.name,
    forms={"dynamodb": facts.FORM},
    parse=_parse,
    open_store=_open,
    protocol=(requests, answers),
    signer=on_use("lockref.clouds.dynamodb.signing", "DynamoSigner"),
    create_container=on_use(_CLIENT, "require_table", True, None),
    refusal=answers.write_refusal,
    title=facts.SERVICE,
    outcomes=facts.OUTCOMES,
    clients=("boto3",),
    tables=Tables(channel=_channel, require=on_use(_CLIENT, "require_table")),
    service="table",
    holds_objects=False,
    local_region=facts.LOCAL_REGION,
    statuses=facts.STATUSES,
    modes=facts.MODES,
)
