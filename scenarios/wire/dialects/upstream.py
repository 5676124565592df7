"""The servers that can stand behind the wire, and how to connect to each.

A signature covers the bytes of a request, so they are forwarded unmodified. The server therefore sees our endpoint's
name as the host. Servers that read the bucket from the path accept that. A cloud reads the bucket from the host, so it
does not. Each side may speak TLS, or plain HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from lockref.errors import CapabilityMissing
from lockref.stores.uri import AZURE, StoreAddress
from scenarios.injection.lane import Upstream, upstream_of
from scenarios.wire.dialects.azure import AzureDialect
from scenarios.wire.dialects.gcs import GcsDialect
from scenarios.wire.dialects.objects import Dialect
from scenarios.wire.dialects.s3 import S3Dialect

DIALECTS: Final[Mapping[str, Callable[[StoreAddress], Dialect]]] = {
    "s3": lambda address: S3Dialect(address.container),
    "gs": lambda _address: GcsDialect(),
    **dict.fromkeys(AZURE, lambda _address: AzureDialect()),
}
"""By the scheme of a store's address."""

_CLOUDS: Final = ("amazonaws.com", "amazonaws.com.cn", "googleapis.com", "windows.net")


def upstream(address: StoreAddress) -> Upstream:
    """The server at this address. It must accept requests whose host is another address: see above.

    Errors: CapabilityMissing for a service that is not read here, and for a cloud; ConfigError for another form of
    endpoint.
    """
    if address.scheme not in DIALECTS:
        able = " and ".join(f"{scheme}:" for scheme in DIALECTS)
        raise CapabilityMissing(f"{address} speaks a protocol that the wire does not read; it reads {able}")
    host = urlsplit(address.endpoint).hostname or ""
    if not host or host.endswith(_CLOUDS):
        raise CapabilityMissing(
            f"{address} cannot stand behind the wire: requests are forwarded unmodified, and a cloud reads the bucket "
            "from the host name. Name a server that reads it from the path, by ?endpoint=http[s]://HOST:PORT"
        )
    return upstream_of(address.endpoint)
