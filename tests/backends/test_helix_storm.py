"""Many sessions on one server, half of which end at one instant."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.backends.zookeeper import ZooKeeperServers
from scenarios.helix.storm import Size, run_storm

pytestmark = [pytest.mark.realbackend, pytest.mark.java, pytest.mark.xdist_group("zookeeper")]


@pytest.mark.long
def test_a_storm_of_expiries(zookeeper: ZooKeeperServers, tmp_path: Path):
    """Half of 60 sessions are killed: the living get every lock, lose none, and no lock ever has two holders."""
    size = Size(sessions=60, locks=120, processes=2, session_s=6)
    said: list[str] = []
    storm = run_storm(zookeeper, size, tmp_path, said.append)
    assert (storm.held, storm.lost, storm.doubles) == (120, 0, 0)
    assert storm.is_as_it_must_be(size)
    assert storm.start.messages == 120
    assert storm.storm.messages >= 60
    assert said == ["60 sessions are open", "every lock is held", "1 of 2 processes are killed"]
