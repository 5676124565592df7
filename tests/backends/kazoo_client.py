"""A session of kazoo's own client, beside ours: an operator's, an application's, or one that ends another's session."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from kazoo.client import KazooClient

START_S = 30
"""A machine that runs the whole suite answers late."""


@contextlib.contextmanager
def kazoo_on(hosts: str, *, timeout_s: int = 10, identity: tuple[int, bytes] | None = None) -> Iterator[KazooClient]:
    """A started client. timeout_s: of its session. identity: number and password of a session that it takes over."""
    client = KazooClient(hosts=hosts, timeout=timeout_s, client_id=identity)
    try:
        client.start(timeout=START_S)
        yield client
    finally:
        client.stop()
        client.close()
