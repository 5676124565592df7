"""From a store's URI to the store as the probe asks it, at one endpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from lockref.errors import CapabilityMissing, ConfigError
from lockref.stores.endpoints import check_endpoint
from lockref.stores.uri import AZURE, StoreAddress, open_store, parse_store_uri
from scenarios.probe.exchange import REQUEST_TIMEOUT_NS, WireStore
from scenarios.probe.local import LocalStore

if TYPE_CHECKING:
    from scenarios.probe.calls import Dialect
    from scenarios.probe.session import Store


def _s3(address: StoreAddress) -> Dialect:
    from scenarios.probe.dialects.s3 import S3Dialect

    return S3Dialect(address)


def _gcs(address: StoreAddress) -> Dialect:
    from scenarios.probe.dialects.gcs import GcsDialect

    return GcsDialect(address)


def _dynamodb(address: StoreAddress) -> Dialect:
    from scenarios.probe.dialects.dynamodb import DynamoDialect

    return DynamoDialect(address)


def _azure(address: StoreAddress) -> Dialect:
    from scenarios.probe.dialects.azure import AzureDialect

    return AzureDialect(address)


# The SDKs load on first use.
_DIALECTS: Final[dict[str, Callable[[StoreAddress], Dialect]]] = {
    "s3": _s3,
    "gs": _gcs,
    **dict.fromkeys(AZURE, _azure),
    "dynamodb": _dynamodb,
}


def addresses_of(uri: str, endpoints: Sequence[str] = ()) -> list[StoreAddress]:
    """The store's address by each endpoint: that of the URI, if it names one, then the others.

    Errors: ConfigError for a bad URI or endpoint, and for endpoints of a store that has none.
    """
    address = parse_store_uri(uri)
    if not endpoints:
        return [address]
    if address.scheme not in _DIALECTS:
        raise ConfigError(f"the store {address} has no endpoints; leave out --endpoint")
    try:
        may_name_account = address.scheme in AZURE
        checked = [check_endpoint(endpoint, may_name_account=may_name_account) for endpoint in endpoints]
    except ValueError as error:
        raise ConfigError(f"--endpoint {error}") from None
    named = [address.endpoint, *checked] if address.endpoint else checked
    return [dataclasses.replace(address, endpoint=endpoint) for endpoint in dict.fromkeys(named)]


def open_endpoint(address: StoreAddress) -> Store:
    """The store at the endpoint of its address; no request is sent.

    Errors: ConfigError for a configuration without usable credentials; CapabilityMissing for what holds no objects.
    """
    if address.scheme in _DIALECTS:
        return WireStore(_DIALECTS[address.scheme](address))
    if address.scheme == "memory":
        return LocalStore(open_store(f"memory:{address.container}", request_timeout_ns=REQUEST_TIMEOUT_NS))
    if address.scheme == "file":
        return LocalStore(open_store(f"file://{address.container}", request_timeout_ns=REQUEST_TIMEOUT_NS))
    raise CapabilityMissing(f"{address} holds no objects that could be probed")
