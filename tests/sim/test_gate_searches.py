"""The gate searches small worlds: a lock that needs two faults, or an order of its threads, to break does not pass."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from lockref.cli.main import run
from lockref.lab.loading import load_provider
from reports.formats.gate_result import GateResult, load_gate
from scenarios.gate import searches
from scenarios.gate.abilities import ask
from scenarios.gate.demands import demands_on
from tests.quality.planted.registry import CORRECT

PLANTED = "tests.quality.planted"


def load_provenance(folder: Path) -> dict[str, object]:
    """What the last command in `folder` was asked."""
    asked = json.loads((folder / ".lockref/runs/latest/run.json").read_text(encoding="utf-8"))["arguments"]
    assert isinstance(asked, dict)
    return asked


def gate(monkeypatch: pytest.MonkeyPatch, folder: Path, provider: str, world: str) -> tuple[int, GateResult]:
    """One search of a gate."""
    monkeypatch.chdir(folder)
    code = run(["-q", "gate", "--provider", provider, "-k", world, "--jobs", "1"])
    return code, load_gate(folder / ".lockref/runs/latest/gate.json")


@pytest.mark.parametrize(
    ("lock", "world", "clause", "faults"),
    [
        ("pairs:RenewsBlindlyAfterALostGrant", searches.PLACED, "S6", 2),
        ("scheduled:ChecksThenActs", searches.DRAWN, "S3", 0),
    ],
)
def test_a_bug_that_no_seed_shows_turns_the_gate_red(
    lock: str, world: str, clause: str, faults: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """C1, M4, U6: the first needs a pair of faults, the second an order of two threads; a line shows it again."""
    monkeypatch.setattr(searches, "PLACED_RUNS", 180)
    monkeypatch.setattr(searches, "DRAWN_SEEDS", range(1, 5))
    code, found = gate(monkeypatch, tmp_path, f"{PLANTED}.{lock}", world)
    assert code == found.exit_code == 1
    assert [(each.name, each.outcome) for each in found.scenarios] == [(world, "violated")]
    assert found.groups[0].clause == clause
    assert len(found.groups[0].faults) == faults
    assert run([*found.groups[0].replay.split()[1:], "--trust"]) == 1


def test_a_mixed_fleet_is_searched_as_one_lock_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """U6: in this order two threads of the baseline drop one provider, between two lines of it."""
    monkeypatch.setattr(searches, "DRAWN_SEEDS", range(13, 14))
    code, found = gate(monkeypatch, tmp_path, "hardened,hudi", searches.DRAWN)
    assert code == found.exit_code
    assert [(each.name, each.runs) for each in found.scenarios] == [(searches.DRAWN, 1)]


def test_what_was_not_searched_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A lock that keeps everything passes, and the account says how little was tried."""
    monkeypatch.setattr(searches, "PLACED_RUNS", 20)
    code, found = gate(monkeypatch, tmp_path, "hardened", searches.PLACED)
    assert (code, found.runs) == (0, 20)
    assert any(sentence.startswith("the rest of small-world, of which 20 runs") for sentence in found.unexplored)


def told_command(sentences: Iterable[str]) -> list[str]:
    """The words of the command that an account prints for the rest of a search, without `lockref`."""
    (sentence,) = (each for each in sentences if each.startswith("the rest of "))
    return sentence.split("`")[1].split()[1:]


def test_the_command_for_the_rest_draws_other_schedules_of_the_same_lock(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The printed line is run as it stands: the lock of the gate, preempted at its statements, seeds not yet drawn."""
    monkeypatch.setattr(searches, "DRAWN_SEEDS", range(1, 2))
    code, found = gate(monkeypatch, tmp_path, f"{PLANTED}.scheduled:ChecksThenActs", searches.DRAWN)
    assert code in (0, 1)
    assert run(["-q", *told_command(found.unexplored)]) == 1
    asked = load_provenance(tmp_path)
    assert (asked["seeds"], asked["preempt"]) == ("2..11", "statements")
    assert asked["provider"] == found.provider


def test_the_command_for_the_rest_places_faults_in_the_same_lock(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The printed line searches from its beginning, and says so."""
    monkeypatch.setattr(searches, "PLACED_RUNS", 20)
    _, found = gate(monkeypatch, tmp_path, "hudi", searches.PLACED)
    assert any("searches all of it, from its beginning" in sentence for sentence in found.unexplored)
    line = told_command(found.unexplored)
    run(["-q", *line, "--max-time", "1ms", "--shrink-for", "0s"])
    asked = load_provenance(tmp_path)
    assert (asked["scenarios"], asked["provider"], asked["explore"]) == (["small-world"], "hudi", "faults")


def test_whoever_names_the_seeds_has_said_what_is_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With `--seeds` nothing is run that has no seeds of its own."""
    monkeypatch.chdir(tmp_path)
    assert run(["-q", "gate", "--provider", "hardened", "--seeds", "1..1", "-k", searches.PLACED]) == 2


def test_a_file_of_the_user_is_run_by_its_seeds_whatever_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A world of a search is one by where it comes from."""
    monkeypatch.chdir(tmp_path)
    small = searches.searched_worlds()[searches.PLACED]
    Path("mine.yaml").write_text(small.model_dump_json(by_alias=True, exclude_none=True), encoding="utf-8")
    assert run(["-q", "gate", "mine.yaml", "--only-mine", "--provider", "hardened", "--seeds", "1..2", "-j", "1"]) == 0
    (found,) = load_gate(tmp_path / ".lockref/runs/latest/gate.json").scenarios
    assert (found.name, found.source, found.runs) == (searches.PLACED, "mine.yaml", 2)


@pytest.mark.long
@pytest.mark.parametrize("lock", CORRECT)
def test_no_search_accuses_a_correct_lock(lock: str) -> None:
    """Two of these faults together are within what a lock must survive, and so is any order of its threads."""
    reference = str(Path(__file__).parents[2] / lock) if lock.startswith("docs/") else lock
    spec = load_provider(reference)
    has = ask(spec).has
    for world in searches.searched_worlds().values():
        if demands_on(world, has).is_run:
            found = searches.search(world, spec, has, is_over=lambda: False, on_progress=lambda _result: None)
            assert found.error is None
            assert [(each.clause, each.fault_kinds) for each in found.summary.findings] == []
