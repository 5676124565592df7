"""From a store's URI to the store as the probe asks it, at one endpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lockref.clouds.uri import cloud_of, open_address, parse_store_uri
from lockref.errors import ConfigError
from lockref.stores.address import StoreAddress
from lockref.stores.endpoints import check_endpoint
from scenarios.probe.dialect import dialect_of
from scenarios.probe.exchange import REQUEST_TIMEOUT_NS, WireStore
from scenarios.probe.local import LocalStore

if TYPE_CHECKING:
    from scenarios.probe.session import Store


def addresses_of(uri: str, endpoints: Sequence[str] = ()) -> list[StoreAddress]:
    """The store's address by each endpoint: that of the URI, if it names one, then the others.

    Errors: ConfigError for a bad URI or endpoint, and for endpoints of a store that has none.
    """
    address = parse_store_uri(uri)
    if not endpoints:
        return [address]
    if cloud_of(address).signer is None:
        raise ConfigError(f"the store {address} has no endpoints; leave out --endpoint")
    try:
        may_name_account = cloud_of(address).may_name_account
        checked = [check_endpoint(endpoint, may_name_account=may_name_account) for endpoint in endpoints]
    except ValueError as error:
        raise ConfigError(f"--endpoint {error}") from None
    named = [address.endpoint, *checked] if address.endpoint else checked
    return [dataclasses.replace(address, endpoint=endpoint) for endpoint in dict.fromkeys(named)]


def open_endpoint(address: StoreAddress) -> Store:
    """The store at the endpoint of its address; no request is sent.

    Errors: ConfigError for a configuration without usable credentials; CapabilityMissing for what holds no objects.
    """
    if cloud_of(address).signer is not None:
        return WireStore(dialect_of(address))
    return LocalStore(open_address(address, request_timeout_ns=REQUEST_TIMEOUT_NS))
