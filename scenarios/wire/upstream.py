"""The servers that can stand behind the wire, and how to connect to each.

A signature covers the bytes of a request, so they are forwarded unmodified. The server therefore sees our endpoint's
name as the host. Servers that read the bucket from the path accept that. A cloud reads the bucket from the host, so it
does not. Each side may speak TLS, or plain HTTP.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from lockref.clouds.uri import CLOUDS, cloud_of
from lockref.errors import CapabilityMissing
from lockref.stores.address import StoreAddress
from scenarios.injection.lane import Upstream, upstream_of
from scenarios.wire.reading.dialect import schemes_read


def upstream(address: StoreAddress) -> Upstream:
    """The server at this address. It must accept requests whose host is another address: see above.

    Errors: CapabilityMissing for a service that is not read here, and for a cloud; ConfigError for another form of
    endpoint.
    """
    if cloud_of(address).traffic is None:
        able = " and ".join(f"{name}:" for name in schemes_read())
        raise CapabilityMissing(f"{address} speaks a protocol that the wire does not read; it reads {able}")
    host = urlsplit(address.endpoint).hostname or ""
    if not host or host.endswith(_domains()):
        raise CapabilityMissing(
            f"{address} cannot stand behind the wire: requests are forwarded unmodified, and a cloud reads the bucket "
            "from the host name. Name a server that reads it from the path, by ?endpoint=http[s]://HOST:PORT"
        )
    return upstream_of(address.endpoint)


def _domains() -> tuple[str, ...]:
    """The domains of all clouds: whatever protocol is spoken there, the bucket is read from the host."""
    return tuple(domain for cloud in CLOUDS.values() for domain in cloud.domains)
