"""A fuzzing is the same one each time, goes on where it was, and reads no corpus of another question."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockref.errors import ConfigError
from lockref.lab.loading import load_provider
from scenarios.definition.draw import draw_scenario
from scenarios.definition.schema import Scenario
from scenarios.search.corpus import ENTRIES, STATE
from scenarios.search.fuzzing import GENERATION, fuzz
from scenarios.search.mutations import changed
from scenarios.search.trials import Trial
from scenarios.search.worlds import small_world
from sim.faults.plan import EMPTY_PLAN
from sim.kernel.streams import stream

HARDENED = load_provider("hardened")


def kept(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted((folder / ENTRIES).glob("*.json"))}


def test_a_fuzzing_of_so_many_runs_is_the_same_each_time(tmp_path: Path) -> None:
    """The corpus and the traces follow from the seed alone."""
    one = fuzz(small_world(), HARDENED, runs_max=10, folder=tmp_path / "one")
    other = fuzz(small_world(), HARDENED, runs_max=10, folder=tmp_path / "other")
    assert one.digest == other.digest
    assert kept(tmp_path / "one") == kept(tmp_path / "other") != {}
    assert (one.summary.runs, one.summary.findings) == (10, [])


@pytest.mark.long
def test_a_resumed_fuzzing_does_what_one_without_a_break_does(tmp_path: Path) -> None:
    """What a killed one had begun of its last generation is drawn again."""
    runs = GENERATION + 30
    fuzz(small_world(), HARDENED, runs_max=runs, folder=tmp_path / "whole")
    fuzz(small_world(), HARDENED, runs_max=GENERATION, folder=tmp_path / "parts")
    (tmp_path / "parts" / ENTRIES / f"{GENERATION + 7:08}.json").write_text(
        next(iter(kept(tmp_path / "parts").values())).replace('"number": 0', f'"number": {GENERATION + 7}')
    )
    resumed = fuzz(small_world(), HARDENED, runs_max=runs, folder=tmp_path / "parts", is_resumed=True)
    assert resumed.summary.runs == 30
    whole, parts = kept(tmp_path / "whole"), kept(tmp_path / "parts")
    parts.pop(f"{GENERATION + 7:08}.json") if f"{GENERATION + 7:08}.json" not in whole else None
    assert parts == whole


def test_a_corpus_of_another_lock_or_world_is_refused(tmp_path: Path) -> None:
    fuzz(small_world(), HARDENED, runs_max=1, folder=tmp_path)
    with pytest.raises(ConfigError, match="another question: lock differs"):
        fuzz(small_world(), load_provider("hudi"), runs_max=1, folder=tmp_path, is_resumed=True)
    with pytest.raises(ConfigError, match="holds a corpus"):
        fuzz(small_world(), HARDENED, runs_max=1, folder=tmp_path)


@pytest.mark.parametrize("name", [STATE, f"{ENTRIES}/00000000.json"])
@pytest.mark.parametrize("damage", ["", "{}", "[1", '{"format": 2}', "\udcff"])
def test_a_damaged_corpus_is_refused_with_its_file(tmp_path: Path, name: str, damage: str) -> None:
    fuzz(small_world(), HARDENED, runs_max=1, folder=tmp_path)
    path = tmp_path / name
    path.write_bytes(damage.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError) as caught:
        fuzz(small_world(), HARDENED, runs_max=2, folder=tmp_path, is_resumed=True)
    assert str(path) in str(caught.value.location or caught.value)


def test_many_changes_make_plans_that_the_envelope_allows() -> None:
    """No clock is further wrong than half the bound for each of two clients, and each name is known."""
    trial = Trial(number=0, scenario=small_world(), seed=1, plan=EMPTY_PLAN)
    rng = stream(7, "changes")
    kinds = set()
    for number in range(500):
        trial = changed(trial, [trial], rng, number=number)
        names = {*trial.scenario.client_names, *trial.scenario.service_names}
        wrong = [fault for fault in trial.plan.faults if fault.kind in ("drift", "offset", "step")]
        assert len({fault.target for fault in wrong}) == len(wrong) <= 2
        bound_ns = trial.scenario.envelope.offset.most
        assert all(abs(getattr(fault, "by_ns", 0)) <= bound_ns // 2 for fault in wrong)
        assert all({*fault.nodes} <= names for fault in trial.plan.faults)
        drawn = draw_scenario(trial.scenario, trial.seed)
        assert drawn.duration_ns
        # A corpus and a failure keep the world as text, and read it again.
        if number % 10 == 0:
            stored = trial.scenario.model_dump(mode="json", by_alias=True)
            assert draw_scenario(Scenario.model_validate(stored), trial.seed) == drawn
        kinds |= {fault.kind for fault in trial.plan.faults}
    assert {"pause", "crash", "lose_reply", "delay", "error", "partition", "hidden_retry"} <= kinds
