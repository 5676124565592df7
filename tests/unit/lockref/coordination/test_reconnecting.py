"""How long a client of ZooKeeper may take to find a server that is back."""

from __future__ import annotations

from typing import Any

import pytest
from kazoo.retry import ForceRetryError, KazooRetry

from lockref.coordination import zookeeper
from lockref.coordination.session import COORDINATION
from lockref.coordination.zookeeper import RECONNECT_MAX_S, ZooKeeperChannel
from lockref.errors import BackendUnavailable
from lockref.runtime import NS_PER_MS, NS_PER_S, ThreadRuntime


def test_the_pauses_between_attempts_do_not_grow_with_the_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """After twelve attempts kazoo's own pause would be of minutes, and the session over by the time of the next."""
    told: list[dict[str, Any]] = []
    pauses: list[float] = []

    class Told(zookeeper.KazooClient):  # type: ignore[misc]
        def __init__(self, **how: Any) -> None:
            told.append(how["connection_retry"])
            super().__init__(**how)

    monkeypatch.setattr(zookeeper, "KazooClient", Told)
    session = COORDINATION.over(ZooKeeperChannel("127.0.0.1:1"), 50 * NS_PER_MS)
    with pytest.raises(BackendUnavailable):
        session.start(ThreadRuntime(), timeout_ns=NS_PER_S // 10)
    session.close()

    def attempt() -> None:
        if len(pauses) < 300:
            raise ForceRetryError

    KazooRetry(**told[0], sleep_func=pauses.append)(attempt)
    jitter = 1.5
    assert 0 < max(pauses) <= RECONNECT_MAX_S * jitter
    assert sum(pauses) > 100
