"""Helix 1.4.3 as released, in one fleet with ours: the recipe's tables and message counts, whoever does what."""

from __future__ import annotations

import pytest

from lockref.errors import BackendUnavailable
from scenarios.backends.zookeeper import ZooKeeperServers
from tests.evidence.helix.experiments import Experiment, set_up, their_participants
from tests.evidence.helix.fleet import HELIX
from tests.evidence.helix.lock_class import HELIX_LOCK
from tests.evidence.helix.study import ALL
from tests.unit.lockref.helix.test_pipeline import AFTER_BY_RULE, README, A, B, C, named

pytestmark = [pytest.mark.realbackend, pytest.mark.java, pytest.mark.xdist_group("zookeeper")]


@pytest.fixture
def run(zookeeper: ZooKeeperServers, tmp_path):
    try:
        HELIX.command()
        HELIX_LOCK.command()
    except BackendUnavailable as error:
        pytest.skip(str(error).splitlines()[0])
    return Experiment(hosts=zookeeper.hosts, log_folder=tmp_path, say=print)


def test_the_tables_that_experiments_wait_for_are_the_recipes(run):
    """The first is the README's, the second what its rule says after the first instance has left."""
    with run.fleet("tables", is_configured=False) as fleet:
        assert {lock: holder for lock, (holder,) in fleet.rule((A, B, C)).items()} == named(README)
        assert {lock: holder for lock, (holder,) in fleet.rule((B, C)).items()} == named(AFTER_BY_RULE)


def test_the_original_writes_the_tree_that_ours_writes(run):
    assert set_up(run)


def test_ours_controls_the_originals_participants(run):
    assert their_participants(run)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in ALL if name != "ten-thousand"])
def test_experiment(run, name):
    """Everything that docs/helix.md tells, `their-participants` and `set-up` once more.

    All but the ten thousand locks: they take ten minutes, and `thousand` does the same in one.
    """
    assert ALL[name](run)
