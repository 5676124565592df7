"""From a line of text to a store: `memory:`, `file:///…`, `s3://…`, `gs://…`, `az://…`, `dynamodb://…`, `zookeeper://…`.

Parsing is separate from opening, so that a scenario can be checked without
importing an SDK or opening a socket. Whatever is wrong with a URI is a
`ConfigError` in one line that names the accepted form. Credentials never
belong in a URI, and a message never repeats one that was put there.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Final
from urllib.parse import urlsplit

from lockref.clouds.azure.cloud import AZURE
from lockref.clouds.cloud import Cloud
from lockref.clouds.dynamodb.cloud import DYNAMODB
from lockref.clouds.gcs.cloud import GCS
from lockref.clouds.s3.cloud import S3
from lockref.clouds.statuses import ServerStatuses
from lockref.clouds.without_cloud import WITHOUT_CLOUD
from lockref.errors import ConfigError, did_you_mean
from lockref.stores.address import StoreAddress
from lockref.stores.port import ObjectStore

POOL_SIZE_DEFAULT: Final = 10

CLOUDS: Final[dict[str, Cloud]] = {
    name: cloud for cloud in (*WITHOUT_CLOUD, S3, GCS, AZURE, DYNAMODB) for name in cloud.forms
}
"""Every kind of store, by the schemes of its URIs."""


def cloud_of(address: StoreAddress) -> Cloud:
    """The kind of store that an address names."""
    return CLOUDS[address.scheme]


def client_library(address: StoreAddress) -> str:
    """The library that sends the requests to an address, with its version: `boto3 1.44.5`; "" for no library.

    Whoever reads the figures of a run must know it: one client costs several times as much processor time as another.
    """
    clients = cloud_of(address).clients
    name = address.client or (clients[0] if clients else "")
    try:
        return f"{name} {version(name)}" if name else ""
    except PackageNotFoundError:
        return name


def store_dialects() -> dict[str, ServerStatuses]:
    """The answers of each kind of object store, by the name that scenarios give to it."""
    return {each.statuses.name: each.statuses for each in CLOUDS.values() if each.holds_objects}


@cache
def server_statuses(name: str) -> ServerStatuses:
    """The answers of the object store that a scenario calls its dialect. Raises ConfigError for an unknown name."""
    known = store_dialects()
    if name not in known:
        raise ConfigError(f"store dialect is {name!r}; expected one of {', '.join(known)}.{did_you_mean(name, known)}")
    return known[name]


def parse_store_uri(uri: str) -> StoreAddress:
    """Take a store URI apart.

    Errors: ConfigError for an unknown scheme, a missing or impossible bucket, a
        bad endpoint, an unknown option, credentials in the URI.
    """
    scheme, colon, _ = uri.partition(":")
    if not colon or scheme not in CLOUDS:
        # Only the scheme is repeated: whatever follows it may hold a password.
        shown = f"scheme {scheme!r}" if colon else f"store {uri!r}"
        forms = dict.fromkeys(form for cloud in CLOUDS.values() for form in cloud.forms.values())
        raise ConfigError(f"the {shown} is not known; expected one of {'; '.join(forms)}")
    cloud = CLOUDS[scheme]
    try:
        parts = urlsplit(uri)
    except ValueError:
        # The parser's own words quote the host, and what may stand before it.
        raise ConfigError(f"the {scheme} store's URI has an unreadable host; expected {cloud.forms[scheme]}") from None
    return cloud.parse(uri, parts)


def open_store(uri: str, *, request_timeout_ns: int, pool_size: int = POOL_SIZE_DEFAULT) -> ObjectStore:
    """Open the store that `uri` names; no request is sent. A table holds each object as an item.

    request_timeout_ns: how long one request may take before its outcome is AMBIGUOUS.
    pool_size: connections kept; make it the number of threads that share the store.
    Errors: ConfigError for a bad URI, unusable credentials, a time-out or a pool of nothing; CapabilityMissing for a
        ZooKeeper, which holds no objects.
    """
    return open_address(parse_store_uri(uri), request_timeout_ns=request_timeout_ns, pool_size=pool_size)


def open_address(address: StoreAddress, *, request_timeout_ns: int, pool_size: int = POOL_SIZE_DEFAULT) -> ObjectStore:
    """Open the store at an address, as `open_store` does."""
    if request_timeout_ns <= 0:
        raise ConfigError(f"the request time-out is {request_timeout_ns} ns; it must be above 0")
    if pool_size < 1:
        raise ConfigError(f"the pool has {pool_size} connections; it needs at least one")
    return cloud_of(address).open_store(address, request_timeout_ns, pool_size)


def create_container(address: StoreAddress, *, request_timeout_ns: int) -> None:
    """Create the bucket, container or table of `address` at its endpoint; one that is there already is fine.

    request_timeout_ns: bounds the request as a whole.
    Errors: BackendUnavailable if the server does not answer or refuses.
    """
    assert address.endpoint, "buckets are made on started servers only, never in a cloud"
    create = cloud_of(address).create_container
    assert create is not None, "a server is of a cloud that has buckets or tables"
    create(address, request_timeout_ns)
