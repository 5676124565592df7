"""The page of a run: what it measures in which way, and that it loses nothing that the run knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lockref.cli.jobs.shown.console import Console
from lockref.cli.jobs.shown.results import say_results
from lockref.cli.main import run
from lockref.errors import CapabilityMissing, HistoryUnreadable
from lockref.lab.loading import load_provider
from lockref.runtime import NS_PER_S
from reports.account import judged_history, summarised_results
from reports.checks.summary import Finding, Summary
from reports.formats.document import document_of
from reports.formats.results import Clause, Reach, Results, judged
from reports.history_files import write_history
from reports.page import Part, _joined, write_report
from reports.pipeline.local_analysis import analyse_locally, event_count
from scenarios.definition.load import load_scenario
from scenarios.failures.failure_store import FailureRecord
from scenarios.run import run_real
from tests.histories import History, summarised


def held_history(folder: Path, *, last: int = 50) -> Part:
    """A folder with a simulated run in which a client believes until `last`; its promise ends at 101."""
    h = History()
    held = h.granted("n1", call=0, applied=1, returned=2, valid_for=100)
    h.believes(held, 2, last)
    write_history(folder, *h.tables())
    return Part(folder=folder, title=folder.name)


def judged_part(folder: Path) -> Part:
    """The same, judged by its run."""
    part = held_history(folder)
    Results(title=part.title, verdict="held", statement=f"0 violations in {part.title}", runs=1).write(
        folder / "results.json"
    )
    return part


def no_jvm(*_: object, **__: object) -> list[Results]:
    # Not by a setting: another test of this process may have started a session, which then serves this one.
    raise CapabilityMissing("no Java")


def test_a_small_run_is_measured_without_a_jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fits in memory has its figures and tables from this process, judged by its run or not."""
    monkeypatch.setattr("reports.page._on_spark", no_jvm)
    parts = [judged_part(tmp_path / "one"), held_history(tmp_path / "two")]
    text = write_report(parts, tmp_path, title="t").read_text("utf-8")
    assert "0 violations in one" in text
    assert "How long clients wait" in text
    assert "without Spark" not in text
    assert (tmp_path / "analysis/tables/samples/part-00001.parquet").exists()


def test_a_large_run_without_java_has_the_page_of_what_was_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More events than the limit go to Spark; without it the verdicts stay, and the page says what misses, and why."""
    monkeypatch.setattr("reports.page._on_spark", no_jvm)
    parts = [judged_part(tmp_path / "one"), held_history(tmp_path / "two", last=102)]
    count = sum(event_count(each.folder) for each in parts)
    monkeypatch.setattr("reports.page.LOCAL_EVENTS_MAX", count)
    assert "without Spark" not in write_report(parts, tmp_path, title="t").read_text("utf-8")
    monkeypatch.setattr("reports.page.LOCAL_EVENTS_MAX", count - 1)
    text = write_report(parts, tmp_path, title="t").read_text("utf-8")
    assert "0 violations in one" in text
    assert "still believed 1 ns after its validity had ended" in text
    assert "without Spark: no latencies, no fairness, no timeline (no Java)" in text


def test_a_page_of_many_parts_measures_and_draws_what_broke_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nine simulated parts: one is broken and unjudged, and it alone is measured; the others are folded, and listed."""
    measured: list[str] = []

    def measure(inputs: Sequence[Path], out: Path, **asked: Any) -> list[Results]:
        measured.extend(folder.name for folder in inputs)
        return analyse_locally(inputs, out, **asked)

    monkeypatch.setattr("reports.page.analyse_locally", measure)
    parts = [judged_part(tmp_path / f"part-{number}") for number in range(8)]
    parts.insert(3, held_history(tmp_path / "broken", last=102))
    text = write_report(parts, tmp_path, title="t").read_text("utf-8")
    assert measured == ["broken"]
    assert text.count('<details class="folded"') == 8
    assert "9 parts: 1 not live, 8 held" in text
    places = [
        text.index(words)
        for words in ("<h2>What broke", "<h4>L4: n1 still believed 1 ns", "<h2>Nothing broke: 8 parts")
    ]
    assert places == sorted(places)


def test_a_folder_without_a_history_has_no_page(tmp_path: Path) -> None:
    """Where there is nothing to judge, a part is not left out in silence."""
    (tmp_path / "one").mkdir()
    with pytest.raises(HistoryUnreadable):
        write_report([Part(folder=tmp_path / "one", title="one")], tmp_path, title="t")


def test_a_killed_run_has_a_page(tmp_path: Path) -> None:
    """`lockref report` of a run that left segments only: exit 0, its verdict, its figures, and that it was killed."""
    folder = tmp_path / "run"
    folder.mkdir()
    run_real(
        load_scenario("contention"),
        load_provider("hardened"),
        "memory:",
        clients=3,
        duration_ns=NS_PER_S // 5,
        folder=folder,
    )
    (folder / "run.json").write_text('{"status": "killed"}')
    assert run(["report", str(folder)]) == 0
    text = (folder / "report.html").read_text("utf-8")
    assert "was killed" in text
    assert "Who got the lock" in text
    assert not (folder / "events.parquet").exists()


def test_the_document_speaks_for_every_scenario() -> None:
    """`--json` over several: the worst verdict and liveness of any, and counts that add up, whatever the order."""
    held = Clause(verdict="held", runs=3)
    broken = Clause(verdict="violated", runs=4, violated=2)
    three = [
        Results(title="a", verdict="violated", statement="", runs=4, clauses={"S3": broken, "S1": held}),
        Results(title="b", verdict="held", liveness="violated", statement="", runs=4, clauses={"S3": broken}),
        Results(title="c", verdict="held", statement="", runs=3, clauses={"S3": held}),
    ]
    for order in (three, three[::-1]):
        document = document_of(order, digest="d", folder=None)
        assert (document["verdict"], document["liveness"], document["runs"]) == ("violated", "violated", 11)
        assert document["clauses"] == {
            "S1": {"verdict": "held", "runs": 3, "violated": 0},
            "S3": {"verdict": "violated", "runs": 11, "violated": 4},
        }


@pytest.mark.parametrize(
    ("keep", "seed"), [(None, None), (lambda _finding: FailureRecord(id="LK-X", seed=7, replay="…"), 7)]
)
def test_only_a_simulation_has_a_seed(keep: Callable[[Finding], FailureRecord] | None, seed: int | None) -> None:
    """A real run's number is no seed, and nobody is sent to repeat it."""
    finding = Finding(clause="S3", kind="", fault_kinds=(), run=7, at_ns=1, witness={})
    told = summarised_results(
        Summary(findings=[finding], runs=8, broken_runs=1),
        title="t",
        scenario="s",
        provider="p",
        provenance={},
        store_failure=keep,
    )
    assert told.failures[0].seed == seed


def test_a_statement_may_quote_strangers(capsys: pytest.CaptureFixture[str]) -> None:
    """A reason names scenarios of a foreign history; none of their escapes reaches the terminal."""
    say_results(Console(), Results(verdict="inconclusive", statement="never happened in \x1b[31m\u202ex", runs=1))
    told = capsys.readouterr().out
    assert "never happened in" in told
    assert "\x1b" not in told
    assert "\u202e" not in told


def marked(who: str) -> Results:
    """Results whose every field says whose it is, by being an object of its own."""
    own: dict[str, object] = {name: [f"{who}'s {name}"] for name in Results.model_fields}
    own["reach"] = [Reach(situation=f"{who}'s situation", runs=1, count=1)]
    return Results.model_construct(**{**own, "runs": 1, "damaged": 0, "verdict": "held", "failures": [], "clauses": {}})


def test_a_page_loses_nothing_that_the_run_knows() -> None:
    """Every field of `Results`, today's and tomorrow's, is the run's, except those that only an analysis can fill."""
    analysed, judged = marked("analysis"), marked("run")
    joined = _joined(analysed, judged)
    measured = Results.measured_fields()
    assert set(Results.model_fields) > measured > {"latency", "fairness", "quarantine"}
    for name in Results.model_fields:
        if name == "notices":
            assert joined.notices == [*judged.notices, *analysed.notices]
        else:
            assert getattr(joined, name) is getattr(analysed if name in measured else judged, name), name


def test_a_page_says_where_the_kept_history_differs_from_the_judged_one() -> None:
    """Damage since, a violation that the run did not see, and runs that were not kept are told, never joined away."""
    judged = Results(verdict="held", statement="0 violations", runs=10)
    analysed = Results(verdict="violated", statement="1 of 3 runs broke", runs=3, damaged=2)
    joined = _joined(analysed, judged)
    assert (joined.verdict, joined.statement, joined.runs) == ("violated", "1 of 3 runs broke", 10)
    told = "\n".join(joined.notices)
    assert "over 10 runs" in told
    assert "2 runs was damaged since" in told
    assert "judged again, is violated" in told
    assert _joined(Results(verdict="held", statement="", runs=10), judged).notices == []


def test_a_clause_that_the_run_did_not_demand_decides_nothing_when_it_is_judged_again() -> None:
    """The kept history breaks what no lock can keep there: the run's verdict stands, and no difference is told."""
    clauses = {"S3": Clause(verdict="violated", runs=3, violated=1, is_demanded=False)}
    judged = Results(verdict="held", statement="0 violations", runs=3, clauses=clauses)
    broken = {name: Clause(verdict="violated", runs=3, violated=1) for name in ("S3", "S4")}
    joined = _joined(Results(verdict="violated", statement="", runs=3, clauses=broken), judged)
    assert (joined.verdict, joined.statement, joined.notices) == ("held", "0 violations", [])


def test_a_figure_of_the_kept_runs_does_not_stand_beside_that_of_all_runs() -> None:
    """One page told of 29 lost tenures and, a line below, of 16: the latter in the 60 kept ones of 100 runs."""

    def counted(runs: int, tenures: int) -> Results:
        reach = [Reach(situation="lost_at_work", runs=tenures, count=tenures)]
        notices = [f"{tenures} tenures lost while the holder worked, in {tenures} runs"]
        return Results(verdict="held", statement="", runs=runs, reach=reach, notices=[*notices, f"of {runs}"])

    told = _joined(counted(60, 16), counted(100, 29)).notices
    assert told[:3] == ["29 tenures lost while the holder worked, in 29 runs", "of 100", "of 60"]
    assert not any("16 tenures" in notice for notice in told)


def test_a_limit_that_was_broken_or_never_measured_counts_as_liveness() -> None:
    """Told whatever became of it; a broken one decides, and one that was not measured is a reason to doubt."""
    h = History(run={"thresholds": ["hold < 1s", "handoff < 1s"]})
    held = h.granted("n1", call=0, applied=1, returned=2)
    h.released(held, call=3, applied=3)
    results = judged(summarised(h), title="t", classes={}, events=0)
    assert (results.liveness, results.reasons[-1]) == ("inconclusive", "threshold handoff < 1s: no samples")
    h.run["thresholds"].append("wait < 1ns")
    results = judged(summarised(h), title="t", classes={}, events=0)
    assert (results.verdict, results.liveness) == ("held", "violated")
    assert results.notices == [
        "threshold held: hold < 1s: 0.000 s over 1 sample",
        "threshold inconclusive: handoff < 1s: no samples",
        "threshold violated: wait < 1ns: 0.000 s over 1 sample; worst 0.000 s: n1 at 0.000 s, table.lock, run 0",
    ]


def test_a_history_that_is_judged_again_keeps_what_its_run_knew(tmp_path: Path) -> None:
    """Which clauses were not demanded of it, and that more runs were judged than kept their history."""
    h = History()
    h.believes(h.granted("n1", call=0, applied=1, returned=2), 2, 300)
    h.believes(h.granted("n2", call=140, applied=150, returned=160), 160, 200)
    write_history(tmp_path, *h.tables())
    assert judged_history(tmp_path).verdict == "violated"
    clauses = {name: Clause(verdict="held", runs=3, is_demanded=name != "S3") for name in ("S1", "S3")}
    known = Results(title="t", verdict="held", statement="", runs=3, clauses=clauses)
    known.write(tmp_path / "results.json")
    again = judged_history(tmp_path, finished_seeds=2)
    assert again.verdict != "violated"
    assert "1 of 3 runs kept their history and are judged here; the run judged all of them" in again.notices
