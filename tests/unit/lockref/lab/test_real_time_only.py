"""A lock with clocks of its own is refused under virtual time, by whatever name it comes."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from lockref.errors import ConfigError
from lockref.lab.loading import ENTRY_POINTS, description_of, load_provider, provider_from, registered
from lockref.storage.lock import StorageLock
from scenarios.definition.load import load_scenario, parse_scenario
from scenarios.worlds.simulated import run_simulated


class OnAWallClock(StorageLock):
    """Stands for any lock that says so of itself."""

    needs_real_time = True


@pytest.fixture
def registered_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name under which an installed package of somebody else registers it."""
    installed = tmp_path / "walls-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: walls\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\nwall-clock = {__name__}:OnAWallClock\n")
    monkeypatch.syspath_prepend(tmp_path)
    return "wall-clock"


def test_it_is_refused_in_a_simulation() -> None:
    """Beside virtual clocks a real-time lock was told HELD, whatever it did."""
    spec = provider_from(OnAWallClock, name="wall")
    with pytest.raises(ConfigError, match=r"'wall' lives in real time only.*lockref bench"):
        run_simulated(load_scenario("e01"), spec, 1)


def test_it_is_refused_beside_another_lock_too(registered_name: str) -> None:
    scenario = parse_scenario(f"version: 1\nname: mixed\nproviders: {{n2: {registered_name}}}\n")
    with pytest.raises(ConfigError, match="'wall-clock' lives in real time only"):
        run_simulated(scenario, load_provider("hardened"), 1)


def test_the_mark_reaches_other_processes() -> None:
    spec = provider_from(OnAWallClock, name="wall")
    assert pickle.loads(pickle.dumps(spec)).needs_real_time
    assert not load_provider("hardened").needs_real_time


def test_a_listing_tells_where_it_lives(registered_name: str) -> None:
    home = registered()[registered_name]
    assert home == f"{__name__}:OnAWallClock"
    row = description_of(registered_name, home)
    assert (row["origin"], row["worlds"]) == ("entry point", "real")
    assert description_of("hudi", registered()["hudi"])["worlds"] == "simulated, real"
