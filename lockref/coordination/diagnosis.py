"""Why no session opens: each server is asked for its state in words (`srvr`, which servers answer by default).

One without a quorum closes the connection of a client that wants to write, and so looks like one that is not there.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Final

from kazoo.hosts import collect_hosts

ANSWER_TIMEOUT_S: Final = 1.0
"""For each part of an answer."""
ANSWER_PARTS_MAX: Final = 8
ANSWER_PART_BYTES: Final = 8_192
_READ_ONLY: Final = "Mode: read-only"
_IDLE: Final = "not currently serving"


def is_without_quorum(hosts: str) -> bool:
    """True if one of these servers says that it has no quorum: it serves no client, or reads alone.

    hosts: `HOST:PORT,HOST:PORT`, with or without a folder.
    """
    servers, _ = collect_hosts(hosts)
    return any(word in _state(host, port) for host, port in servers for word in (_READ_ONLY, _IDLE))


def _state(host: str, port: int) -> str:
    """The first bytes of one server's answer; "" if no server answers in time. The server need not be a ZooKeeper."""
    answer = b""
    with contextlib.suppress(OSError), socket.create_connection((host, port), ANSWER_TIMEOUT_S) as connection:
        connection.settimeout(ANSWER_TIMEOUT_S)
        connection.sendall(b"srvr")
        for _ in range(ANSWER_PARTS_MAX):
            part = connection.recv(ANSWER_PART_BYTES)
            answer += part
            if not part:
                break
    return answer.decode(errors="replace")
