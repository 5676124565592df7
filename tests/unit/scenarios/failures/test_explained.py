"""A stored failure explained: the file is enough, the cause is the run's, and foreign code is not imported."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lockref.cli.main import run
from lockref.errors import ConfigError
from lockref.lab.loading import load_provider
from reports.explanation.explanation import SENTENCE_MAX, ToldFault
from scenarios.definition.draw import Draws, draw_scenario
from scenarios.definition.fault_plan import draw_plan, written_faults
from scenarios.definition.load import catalogue, load_scenario, parse_scenario
from scenarios.failures.explained import explain
from scenarios.failures.judged_run import broken_clauses
from scenarios.failures.kept_case import written
from scenarios.failures.needed_faults import NeededFaults, needed_faults
from scenarios.worlds.simulated import run_simulated
from sim.faults.description import happened
from sim.faults.plan import FAULT_TYPES, parse_fault


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """By clause, the failures of Hudi's lock under a paused holder, in a folder that is not the one of the test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("found"))
        assert run(["sim", "e08", "--provider", "hudi", "--seed", "1"]) == 1
        yield {json.loads(path.read_text())["clause"]: path.resolve() for path in Path(".lockref/failures").glob("*")}


def test_the_file_alone_tells_the_cause(
    stored: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another folder, with nothing but the file: who was paused, who took over, who still said yes (S3)."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(stored["S3"], "failure.json")
    told = explain(Path("failure.json"))
    pause, takeover, yes = told.sentence.split("; ")
    assert "n1 was paused for" in pause
    assert "planned) under a lease of 10 s" in pause
    assert takeover.startswith("n3 took over at ")
    assert yes.startswith("n1 woke at ")
    assert yes.endswith(" and still said yes")
    assert len(told.sentence) <= SENTENCE_MAX
    assert [row.what for row in told.events if row.is_guilty] == ["its guard says yes to a write"]


def test_each_clause_of_one_run_has_its_own_words(stored: dict[str, Path]) -> None:
    """The late write of S4 and the late notice of L4 are not told as the overlap of S3 is."""
    told = {clause: explain(path) for clause, path in stored.items()}
    assert set(told) == {"S3", "S4", "L4"}
    assert "and wrote without looking" in told["S4"].sentence
    assert "after its lease had ended" in told["L4"].sentence
    assert len({explanation.paragraph for explanation in told.values()}) == 3
    for explanation in told.values():
        assert 2 <= explanation.paragraph.count(". ") + 1 <= 6


def test_the_same_failure_is_told_in_the_same_words(stored: dict[str, Path]) -> None:
    """Two people who explain one file read the same, row by row."""
    assert explain(stored["S4"]) == explain(stored["S4"])


def test_a_fault_that_an_unshrunk_failure_does_not_need_is_no_cause(stored: dict[str, Path]) -> None:
    """Nobody shrinks a failure of liveness, so each of its faults is left out once: the pause is needed."""
    assert json.loads(stored["L4"].read_text()).get("shrink") is None
    told = explain(stored["L4"])
    assert told.notices == ("the clause also breaks without 1 fault of the plan: offset of n2",)
    assert "n1 was paused for" in told.paragraph
    assert "clock of n2" not in told.paragraph
    assert {row.node for row in told.events if row.is_fault} == {"n1"}


def test_a_run_and_its_explanation_give_one_cause(stored: dict[str, Path]) -> None:
    """The sentence in `results.json` leaves out the same faults as that of `explain`, shrunk or not."""
    results = json.loads((stored["L4"].parents[1] / "runs/latest/results.json").read_text())
    because = {failure["clause"]: failure["because"] for failure in results["failures"]}
    assert because == {clause: explain(path).sentence for clause, path in stored.items()}
    assert because["L4"].startswith("n1 was paused for")


def test_a_run_names_no_fault_that_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were no fault needed for the late notice, its cause in `results.json` would name none."""
    monkeypatch.chdir(tmp_path)
    without_all = "scenarios.failures.failure_store.needed_faults"
    monkeypatch.setattr(
        without_all, lambda failure, *_, **__: NeededFaults(unneeded=tuple(each.id for each in failure.plan.faults))
    )
    assert run(["sim", "e31", "--provider", "hudi", "--seed", "3"]) == 1
    results = json.loads(Path(".lockref/runs/latest/results.json").read_text())
    because = {each["clause"]: each["because"] for each in results["failures"]}
    assert because["L4"].startswith("n2 took over at 11.753 s; the guard of n1 still said yes")


def test_faults_beyond_the_bound_are_said_to_be_untried(
    stored: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not left out is not said to be needed."""
    monkeypatch.setattr("scenarios.failures.needed_faults.RUNS_MAX", 1)
    assert explain(stored["L4"]).notices[-1] == "not tried: whether it breaks without 1 more fault of the plan"
    monkeypatch.setattr("scenarios.failures.needed_faults.RUNS_MAX", 0)
    assert "clock of n2" in explain(stored["L4"]).paragraph


def test_a_lock_that_keeps_the_clause_leaves_nothing_to_explain(stored: dict[str, Path]) -> None:
    """Under the lock that says no in time there is no failure, and no cause is made up."""
    with pytest.raises(ConfigError, match="no longer fails: S3 holds under hardened"):
        explain(stored["S3"], provider="hardened")


def test_a_clause_that_holds_is_not_explained_by_another_that_breaks(stored: dict[str, Path], tmp_path: Path) -> None:
    """Hudi's lock breaks S3 in this run, and keeps S1."""
    path = tmp_path / "altered.json"
    path.write_text(json.dumps({**json.loads(stored["S3"].read_text()), "clause": "S1"}))
    with pytest.raises(ConfigError, match="no longer fails: S1 holds under hudi"):
        explain(path)


def test_of_two_faults_that_do_alone_one_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may be left out, and not both: the second is tried without the first."""

    def plan(*ids: str) -> SimpleNamespace:
        faults = tuple(SimpleNamespace(id=fault_id) for fault_id in ids)
        return SimpleNamespace(faults=faults, without=lambda gone: plan(*(each for each in ids if each not in gone)))

    failure: Any = SimpleNamespace(plan=plan("a", "b"), shrink=None, seed=1, schedule=(), ties=None, clause="S3")
    monkeypatch.setattr(f"{needed_faults.__module__}.run_simulated", lambda *_given, plan, **_named: plan)
    monkeypatch.setattr(f"{needed_faults.__module__}.broken_clauses", lambda run: {"S3"} if run.faults else set())
    anything: Any = None
    told = [ToldFault(id=each, kind="pause", target="", text="", happened="", mattered=1) for each in "ab"]
    assert needed_faults(failure, anything, anything, told).unneeded == ("b",)
    out_of_time = needed_faults(failure, anything, anything, told, is_spent=lambda: True)
    assert (out_of_time.unneeded, out_of_time.untried) == ((), ("b", "a"))


def test_the_code_that_a_file_names_is_not_imported(stored: dict[str, Path], tmp_path: Path) -> None:
    """A failure may come from a stranger, and importing is running."""
    failure = json.loads(stored["S3"].read_text())
    failure["provider"]["name"] = "strange_lock.py:Lock"
    path = tmp_path / "strange.json"
    path.write_text(json.dumps(failure))
    with pytest.raises(ConfigError, match="add --trust"):
        explain(path)


def test_the_command_prints_paragraph_table_and_replay_line(
    stored: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The paragraph, then the events with the wrong one marked, then the line that shows the failure again."""
    path = str(stored["S3"])
    assert run(["explain", path]) == 0
    text = capsys.readouterr().out
    order = ["A correct lock", "time  node  what", "← breaks S3", f"replay    lockref replay {path}"]
    assert sorted(order, key=text.index) == order


def test_json_is_one_document(stored: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` prints the explanation and nothing else on standard output."""
    assert run(["explain", str(stored["S4"]), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["clause"] == "S4"
    assert document["sentence"] in json.dumps(document)
    assert any(row.get("is_guilty") for row in document["events"])


def test_a_folder_of_failures_is_refused(stored: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """One failure is explained at a time; what was asked for is said, and what to ask for instead."""
    assert run(["explain", str(stored["S3"].parent)]) == 2
    assert "name one of them" in capsys.readouterr().err


def test_a_file_that_is_no_failure_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.json"
    path.write_text('{"id": 1}')
    assert run(["explain", str(path)]) == 2
    assert "no stored failure" in capsys.readouterr().err


def test_the_page_is_one_file_that_asks_for_nothing(stored: dict[str, Path], tmp_path: Path) -> None:
    """Cause, diagram and events in one page without a script, and without an address of anything outside."""
    page, picture = tmp_path / "cause.html", tmp_path / "cause.svg"
    assert run(["explain", str(stored["S4"]), "--html", str(page), "--svg", str(picture)]) == 0
    text = page.read_text()
    assert explain(stored["S4"]).sentence in text
    assert "<svg" in text
    assert "✗ breaks S4" in text
    assert "<script" not in text
    assert re.findall(r'(?:href|src)="(?!data:|#)', text) == []
    again = tmp_path / "again.svg"
    assert run(["explain", str(stored["S4"]), "--svg", str(again)]) == 0
    assert again.read_bytes() == picture.read_bytes()


def test_the_kept_case_breaks_the_same_clause(
    stored: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scenario file shows the failure again by `lockref sim` alone, and says what to expect."""
    monkeypatch.chdir(tmp_path)
    for clause, path in stored.items():
        assert run(["explain", str(path), "--yaml", f"{clause}.yaml"]) == 0
        kept = load_scenario(f"{clause}.yaml")
        assert kept.expected("hudi") == {clause: "violated"}
        assert kept.swarm is None
        assert kept.seed is not None
        outcome = run_simulated(kept, load_provider("hudi"), kept.seed)
        assert clause in broken_clauses(outcome)


@pytest.mark.parametrize("kind", FAULT_TYPES)
def test_each_kind_of_fault_says_what_it_does(kind: str) -> None:
    """A fault without words of its own would be told as `struck`."""
    assert "happened" in vars(FAULT_TYPES[kind])


def test_a_planned_amount_is_told_where_it_was_shrunk() -> None:
    """`40 s planned` beside the 31 s that are enough; nothing where both are one."""
    planned = parse_fault({"id": "p", "kind": "pause", "client": "n1", "at_ns": 1, "for_ns": 40_000_000_000})
    shrunk = planned.model_copy(update={"for_ns": 31_000_000_000})
    assert happened(shrunk, planned) == "n1 was paused for 31000000000 ns (40000000000 ns planned)"
    assert happened(planned, planned) == "n1 was paused for 40000000000 ns"
    none = planned.model_copy(update={"for_ns": 0})
    assert happened(none, planned).endswith("(40000000000 ns planned; that it happens is enough)")


def test_every_fault_of_the_catalogue_is_written_as_files_write_it() -> None:
    """What a plan holds goes into a file, and comes out of it as the same plan."""
    for path in catalogue():
        scenario = load_scenario(path)
        plan = draw_plan(scenario, draw_scenario(scenario, 1), 1)
        entries = [json.loads(json.dumps(written(fault))) for fault in plan.faults]
        again = parse_scenario(
            json.dumps(
                {
                    "version": 1, "name": "again", "clients": scenario.clients, "faults": entries,
                    **{name: scenario.model_dump(mode="json", by_alias=True)[name] for name in ("services", "nodes")},
                }
            ),
            may_import=False,
        )  # fmt: skip
        assert tuple(written_faults(again, Draws(1))) == plan.faults, path.name
