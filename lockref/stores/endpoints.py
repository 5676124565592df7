"""Addresses of servers: what counts as one, and what counts as this machine.

A loopback endpoint is a test server. It gets no proxy, no search for
credentials over the network, and dummy credentials where none are configured.
And how a request's time-out is shared out between connecting and waiting.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from lockref.runtime import NS_PER_S


@dataclass(frozen=True, slots=True)
class Transport:
    """The transport below HTTP. port: the default, for a URL that names none. is_encrypted: by TLS."""

    port: int
    is_encrypted: bool


TRANSPORTS: Final = {"http": Transport(80, False), "https": Transport(443, True)}
"""By the scheme of a server's URL; no other URL is one of a server that we ask."""

_CONNECT_SHARE: Final = 5
"""One part in so many of the time-out is for connecting; the rest is for the answer."""

_ACCOUNT: Final = re.compile(r"/[a-z0-9]{3,24}")


def check_endpoint(endpoint: str, *, may_name_account: bool = False) -> str:
    """Return the endpoint without a final slash.

    may_name_account: it may end in a storage account's name, as that of Azure's emulators does.
    Errors: ValueError, in words that fit after "the endpoint", if it is not
        `http://host[:port]` or `https://host[:port]`. The text never repeats a
        user name, a password or a query, which may be a signature.
    """
    try:
        parts = urlsplit(endpoint)
    except ValueError:
        # The parser's own words quote the host, and what may stand before it.
        raise ValueError("has an unreadable host; expected http://HOST:PORT or https://HOST") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError("holds credentials; put them into the environment or a profile instead")
    if TRANSPORTS.get(parts.scheme) is None or not parts.hostname:
        raise ValueError(f"{endpoint!r} is not of the form http://HOST:PORT or https://HOST")
    path = parts.path.rstrip("/")
    if may_name_account and _ACCOUNT.fullmatch(path):
        path = ""
    if path or parts.query or parts.fragment:
        told = f"{parts.scheme}://{parts.netloc}{parts.path}"
        account = ", and at most one account" if may_name_account else ""
        raise ValueError(f"{told!r} has more than a host and a port{account}")
    try:
        port = parts.port
    except ValueError:
        raise ValueError(f"{endpoint!r} has a port that is no number from 1 to 65535") from None
    if port == 0:
        raise ValueError(f"{endpoint!r} has port 0, where nothing can listen")
    return endpoint.rstrip("/")


def is_loopback(endpoint: str) -> bool:
    """True if the endpoint is on this machine by its very address; no name is looked up."""
    host = urlsplit(endpoint).hostname
    if not host:
        return False
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def split_timeout_s(request_timeout_ns: int) -> tuple[float, float]:
    """Split a time-out into seconds for connecting and seconds for each wait for an answer.

    Each of them bounds one wait. `lockref.clouds.bounded_exchange` bounds the request as a whole.
    """
    connect_s = request_timeout_ns / NS_PER_S / _CONNECT_SHARE
    return connect_s, request_timeout_ns / NS_PER_S - connect_s
