"""requests' sessions whose connections keep a deadline, for SDKs that send through requests (GCS and Azure).

urllib3 retries nothing unless told so: one call is one request (A2).
"""

from __future__ import annotations

from typing import Any, Final

import requests
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import NewConnectionError

from lockref.clouds.bounded_exchange import BoundedConnection


class _Connection(BoundedConnection, HTTPConnection):
    pass


class _TlsConnection(BoundedConnection, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


DECODED_BYTES_MAX: Final = 16 * 1024 * 1024
"""No answer that is read as a whole is longer; objects are read as a stream. A few bytes of gzip may become a thousand
times as many."""
_PIECE_BYTES: Final = 4096

_POOLS: Final = {"http": _Pool, "https": _TlsPool}


class _BoundedAdapter(requests.adapters.HTTPAdapter):
    """requests' adapter with connections that keep a deadline."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **kwargs)
        manager.pool_classes_by_scheme = _POOLS
        return manager

    def send(self, *args: Any, **kwargs: Any) -> requests.Response:
        """One request. Errors: those of requests; ContentDecodingError for an answer that grows beyond any answer."""
        response = super().send(*args, **kwargs)
        if response.encoding is None:
            # requests would guess it from all bytes, which takes a second for each megabyte.
            response.encoding = "utf-8"
        if not kwargs.get("stream") and response.headers.get("Content-Encoding"):
            body = bytearray()
            for piece in response.iter_content(_PIECE_BYTES):
                body += piece
                if len(body) > DECODED_BYTES_MAX:
                    response.close()
                    raise requests.exceptions.ContentDecodingError("the answer grows without end")
            response._content = bytes(body)  # noqa: SLF001
        return response

    def close(self) -> None:
        """Close the kept connections now; urllib3 leaves that to the garbage collector."""
        managers = (self.poolmanager, *self.proxy_manager.values())
        pools = [manager.pools[key] for manager in managers for key in manager.pools.keys()]  # noqa: SIM118
        super().close()
        for pool in pools:
            pool.close()


def bound_connections(session: requests.Session, *, pool_size: int, retries: int = 0) -> None:
    """Let the session make connections that end at the deadline of the thread that uses them.

    pool_size: connections kept to one host. retries: of urllib3; above 0 only for requests that change nothing.
    """
    adapter = _BoundedAdapter(pool_connections=1, pool_maxsize=pool_size, max_retries=retries)
    session.mount("https://", adapter)
    session.mount("http://", adapter)


def explain_silence(error: BaseException) -> str:
    """The reason of a request without an understood answer.

    The reason has the class of the error and not its text, because the text quotes the request.
    """
    name = type(error).__name__
    if isinstance(error, requests.ConnectTimeout):
        return f"{name}: no connection in time; nothing was sent"
    if isinstance(error, requests.Timeout):
        return f"{name}: no answer in time; the request may have taken effect"
    if isinstance(error, requests.ConnectionError) and _never_connected(error):
        return f"{name}: no connection could be made; nothing was sent"
    return f"{name}: the answer was lost; the request may have taken effect"


def _never_connected(error: requests.ConnectionError) -> bool:
    """True if urllib3 says that no connection came about; it says so in the cause."""
    cause = error.args[0] if error.args else None
    return isinstance(getattr(cause, "reason", None), NewConnectionError)
