"""From a line of text to a store: `memory:`, `file:///…`, `s3://…`, `gs://…`.

Parsing is separate from opening, so that a scenario can be checked without
importing an SDK or opening a socket. Whatever is wrong with a URI is a
`ConfigError` in one line that names the accepted form. Credentials never
belong in a URI, and a message never repeats one that was put there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lockref.errors import ConfigError
from lockref.stores.port import ObjectStore

POOL_SIZE_DEFAULT = 10
FORMS = {
    "memory": "memory: or memory:NAME",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAddress:
    """A parsed store URI.

    container: the bucket, the folder or, for memory, the name.
    prefix: what stands before every key, without slashes at its ends; "" for none.
    endpoint: `http://host:port` of a server to use instead of the cloud's own; "" for the cloud.
    region: S3 only.
    """

    scheme: str
    container: str
    prefix: str = ""
    endpoint: str = ""
    region: str = ""


def parse_store_uri(uri: str) -> StoreAddress:
    """Take a store URI apart.

    Errors: ConfigError for an unknown scheme or a malformed address.
    """
    scheme, colon, rest = uri.partition(":")
    if not colon or scheme not in FORMS:
        shown = f"scheme {scheme!r}" if colon else f"store {uri!r}"
        raise ConfigError(f"the {shown} is not known; expected one of {'; '.join(FORMS.values())}")
    if "/" in rest:
        raise ConfigError(f"the store {uri!r} is not of the form {FORMS[scheme]}")
    return StoreAddress(scheme=scheme, container=rest)


def _open_memory(address: StoreAddress, _request_timeout_ns: int, _pool_size: int) -> ObjectStore:
    from lockref.stores.memory import MemoryStore

    return MemoryStore(address.container)


_OPENERS: dict[str, Callable[[StoreAddress, int, int], ObjectStore]] = {
    "memory": _open_memory,
}


def open_store(uri: str, *, request_timeout_ns: int, pool_size: int = POOL_SIZE_DEFAULT) -> ObjectStore:
    """Open the store that `uri` names; no request is sent.

    request_timeout_ns: how long one request may take before its outcome is AMBIGUOUS.
    pool_size: connections kept; make it the number of threads that share the store.
    Errors: ConfigError for a bad URI, a time-out or a pool size below one.
    """
    address = parse_store_uri(uri)
    if request_timeout_ns <= 0:
        raise ConfigError(f"the request time-out is {request_timeout_ns} ns; it must be above 0")
    if pool_size < 1:
        raise ConfigError(f"the pool has {pool_size} connections; it needs at least one")
    return _OPENERS[address.scheme](address, request_timeout_ns, pool_size)
