"""What an instance requires of its cluster before it arrives, and for how long it asks for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lockref.coordination.session import SessionState
from lockref.errors import ConfigError
from lockref.helix.participant.arrival import Arrival
from lockref.helix.participant.patience import RETRY_PAUSE_NS, Patience
from lockref.helix.records import layout
from lockref.helix.records.zn_record import ZNRecord
from lockref.ports import Reply
from lockref.words import Outcome

CONFIG = ZNRecord("c", {layout.AUTO_JOIN: "true"}).to_json()
TIMEOUT_NS = 20 * RETRY_PAUSE_NS


class Clock:
    """Time passes by sleeping alone."""

    def __init__(self) -> None:
        self.now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def sleep(self, for_ns: int) -> None:
        self.now_ns += for_ns


class LaggingSession:
    """Shows the cluster from `shown_ns` on; the instance is configured by the first transaction."""

    id, service, state, timeout_ns = 1, "zk", SessionState.CONNECTED, TIMEOUT_NS

    def __init__(self, clock: Clock, shown_ns: int) -> None:
        self._clock = clock
        self._shown_ns = shown_ns
        self.is_configured = False

    def get(self, path: str) -> Reply:
        if path == layout.ClusterPaths("c").config and self._clock.now_ns >= self._shown_ns:
            return Reply(Outcome.APPLIED, body=CONFIG)
        is_there = self.is_configured and path == layout.InstancePaths("c", "i").config
        return Reply(Outcome.APPLIED, body=b"{}") if is_there else Reply(Outcome.APPLIED, missing=True)

    def multi(self, _operations: object) -> Reply:
        self.is_configured = True
        return Reply(Outcome.APPLIED)


def arrival(shown_ns: int) -> tuple[Arrival, LaggingSession, Patience]:
    clock = Clock()
    session: Any = LaggingSession(clock, shown_ns)
    runtime: Any = clock
    holdings: Any = SimpleNamespace(suspend=lambda: None)
    patience = Patience(session, "i", runtime, holdings)
    found = Arrival(
        session, layout.InstancePaths("c", "i"), runtime=runtime, patience=patience, handlers={},
        requires_handlers=False, listener=SimpleNamespace(),  # type: ignore[arg-type]
    )  # fmt: skip
    return found, session, patience


@pytest.mark.parametrize("shown_ns", [0, RETRY_PAUSE_NS, TIMEOUT_NS])
def test_an_instance_that_is_shown_the_time_before_its_cluster_asks_again(shown_ns: int) -> None:
    """One read that lagged ended the run, and the lock was blamed for a cluster that was not there."""
    found, session, _ = arrival(shown_ns)
    found.require_configured()
    assert session.is_configured


def test_a_cluster_that_stays_absent_is_none() -> None:
    """It was asked for as long as a session lives without a word. Who may not wait so long is told the same."""
    found, session, _ = arrival(TIMEOUT_NS + 1)
    with pytest.raises(ConfigError, match="there is no cluster 'c'"):
        found.require_configured()
    found, session, patience = arrival(TIMEOUT_NS)
    patience.until_ns = RETRY_PAUSE_NS  # type: ignore[assignment]
    with pytest.raises(ConfigError, match="there is no cluster 'c'"):
        found.require_configured()
    assert not session.is_configured
