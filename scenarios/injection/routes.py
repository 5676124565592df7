"""The routes of one client's process to its store in a run with a plan. Every worker loads this module: it is light."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode, urlsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """Crosses to the client's process.

    endpoints: by operation; none where nothing strikes on the wire. announce_port: where its requests are announced;
    0 where nothing of it waits for that.
    """

    endpoints: Mapping[str, str] = field(default_factory=dict)
    announce_port: int = 0


def through(uri: str, endpoint: str) -> str:
    """The URI of the same store by another address. An account of Azure in the old one's path stays."""
    place, _, query = uri.partition("?")
    options = dict(parse_qsl(query))
    account = urlsplit(options.get("endpoint", "")).path
    return f"{place}?{urlencode({**options, 'endpoint': f'{endpoint}{account}'}, safe=':/')}"
