"""The servers that can stand behind the wire, and how each is spoken to.

The bytes go through unmodified, so the server must take a request that names our endpoint as its host, and must speak
plain HTTP. Both hold for servers on this machine. They do not hold for a cloud, whose signature covers the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from lockref.errors import CapabilityMissing
from lockref.stores.uri import StoreAddress
from scenarios.wire.gcs import GcsDialect
from scenarios.wire.objects import Dialect
from scenarios.wire.s3 import S3Dialect

DIALECTS: Final[Mapping[str, Callable[[], Dialect]]] = {"s3": S3Dialect, "gs": GcsDialect}
"""By the scheme of a store's address."""


def upstream(address: StoreAddress) -> tuple[str, int]:
    """Host and port of a server that takes bytes that were meant for another address.

    Errors: CapabilityMissing for a service that speaks no HTTP, for a cloud and for TLS.
    """
    if address.scheme not in DIALECTS:
        raise CapabilityMissing(f"{address} is not spoken to by S3 or GCS over HTTP; the wire reads these two")
    parts = urlsplit(address.endpoint)
    if parts.scheme != "http" or not parts.hostname:
        raise CapabilityMissing(
            f"{address} cannot stand behind the wire: bytes are forwarded unmodified, and a signature covers the host; "
            "name a server that speaks plain HTTP, with ?endpoint=http://HOST:PORT"
        )
    return parts.hostname, parts.port or 80
