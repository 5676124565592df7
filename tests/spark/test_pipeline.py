"""The pipeline says what the in-process judge says, and loses nothing in silence."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from lockref.errors import HistoryUnreadable
from lockref.history import runs_table, to_table
from lockref.lab.loading import load_provider
from lockref.words import Outcome
from reports.checks import decide, judge
from reports.checks.summary import Summary
from reports.formats.results import Results, load_results
from reports.formats.results import judged as judged_results
from reports.history_files import load_history
from reports.pipeline.analysis import analyse, analyse_each
from reports.pipeline.inputs import RUN_BITS, find_sources
from reports.pipeline.local_analysis import analyse_locally
from reports.pipeline.one_pass import OnePass
from reports.pipeline.places import Place
from reports.pipeline.summary import Facts
from scenarios.batch import simulate_many
from scenarios.definition.load import load_scenario
from tests.damage import ALWAYS_SEEN, DAMAGES, damaged
from tests.histories import History, tables
from tests.service_histories import assigned, mixed, queued
from tests.spark.histories import PLANTS, Scribe, history, run_row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

Write = Callable[[Path, pa.Table, pa.Table], Path]


def write_parquet(folder: Path, events: pa.Table, runs: pa.Table) -> Path:
    folder.mkdir(parents=True)
    pq.write_table(events, folder / "events.parquet")
    pq.write_table(runs, folder / "runs.parquet")
    return folder


def write_jsonl(folder: Path, events: pa.Table, runs: pa.Table) -> Path:
    folder.mkdir(parents=True)
    for name, table in (("events", events), ("runs", runs)):
        lines = [
            json.dumps({key: value for key, value in row.items() if value is not None})
            for row in table.to_pylist(maps_as_pydicts="strict")
        ]
        (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


def verdicts_of(out: Path) -> list[dict[str, Any]]:
    table = pq.read_table(out / "tables" / "verdicts")
    return table.sort_by([("run", "ascending"), ("clause", "ascending")]).to_pylist()


def judged(events: pa.Table, runs: pa.Table) -> list[dict[str, Any]]:
    return judge(events, runs).verdicts.sort_by([("run", "ascending"), ("clause", "ascending")]).to_pylist()


@dataclass(frozen=True)
class Passed:
    """What the pipeline said of one history. tables: what its maker wrote, before any damage."""

    folder: Path
    results: dict[str, Any]
    verdicts: list[dict[str, Any]]
    tables: tuple[pa.Table, pa.Table]
    quarantine: Path


Make = Callable[[Path], tuple[pa.Table, pa.Table]]
"""Writes a history to a folder; the tables that it wrote, before any damage."""

IN_ONE_PASS: dict[str, Make] = {}
"""The histories of the short lane. They share one pass, as each costs ten seconds however small its histories."""


def in_one_pass(make: Make) -> Make:
    """Have the history in the pass that all tests share, under the name of its maker."""
    IN_ONE_PASS[make.__name__] = make
    return make


@pytest.fixture(scope="module")
def passed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Passed]:
    """What one pass over all histories of `IN_ONE_PASS` said of each, by name.

    That each history gets what it gets alone is `test_one_pass_over_several_inputs_gives_each_what_it_gets_alone`.
    """
    base = tmp_path_factory.mktemp("passed")
    tables = {name: make(base / name) for name, make in IN_ONE_PASS.items()}
    results = analyse_each([base / name for name in IN_ONE_PASS], base / "out", spark)
    verdicts = verdicts_of(base / "out")
    answers = {}
    for place, name in enumerate(IN_ONE_PASS):
        own = [row for row in verdicts if row["run"] >> RUN_BITS == place]
        own = [{**row, "run": row["run"] - (place << RUN_BITS)} for row in own]
        answers[name] = Passed(base / name, results[place], own, tables[name], base / "out/quarantine")
    return answers.__getitem__


def collect_batches() -> list[tuple[list[str], int, int]]:
    """Batches of planted defects that Hypothesis made up, collected first so that Spark is asked once."""
    found: list[tuple[list[str], int, int]] = []

    @seed(20260101)
    @settings(max_examples=12, database=None, deadline=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.lists(st.sampled_from(PLANTS), min_size=1, max_size=8), st.integers(0, 10**6), st.integers(1, 5))
    def collect(plants: list[str], first_seed: int, turns: int) -> None:
        found.append((plants, first_seed, turns))

    collect()
    return found


@in_one_pass
def limited(folder: Path) -> tuple[pa.Table, pa.Table]:
    """Runs of two parties, each with limits of its own, and a run without any."""
    limits = [["wait.p50 < 1ns", "objects_left < 9"], ["wait.p50 < 1ns", "hold < 1s", "tasks_left < 1"], []]
    histories = []
    for number, texts in enumerate(limits):
        described = {"scenario": f"s{number % 2}", "thresholds": texts or None, "tasks_left": ["n1/beat"]}
        h = History(run=described)
        h.released(h.granted("n1", call=0, sent=1, applied=2, returned=5 + number, token=1), call=50)
        histories.append(h)
    events, runs = tables(*histories)
    write_jsonl(folder, events, runs)
    return events, runs


def test_thresholds_are_judged_alike(passed: Callable[[str], Passed]) -> None:
    """Each party's limits over all of its runs: the same figures, worst samples and verdicts, whoever judges."""
    found = passed("limited")
    summary = Summary.of(judge(*found.tables), *found.tables)
    expected = judged_results(summary, title="t", classes={}, events=0)
    told = [line for line in found.results["notices"] if line.startswith("threshold")]
    assert told == [line for line in expected.notices if line.startswith("threshold")]
    assert len(told) == 5
    assert found.results["liveness"] == expected.liveness == "violated"


@in_one_pass
def invented(folder: Path) -> tuple[pa.Table, pa.Table]:
    """Planted histories, of which Hypothesis made up the plants."""
    recorders, rows = [], []
    for plants, first_seed, turns in collect_batches():
        for place, plant in enumerate(plants):
            recorders.append(Scribe(first_seed + place, plant=plant, turns=turns).recorder)
            rows.append(run_row(len(rows), first_seed + place))
    events, runs = to_table(recorders), runs_table(rows)
    # Spark reads files in any order; so must the judge be asked.
    write_parquet(folder, events.take(pa.array(np.random.default_rng(5).permutation(len(events)))), runs)
    return events, runs


def test_verdicts_on_spark_equal_those_in_process(passed: Callable[[str], Passed]) -> None:
    """One definition of safe: every run, clause, count, instant and witness agrees on invented, planted histories."""
    found = passed("invented")
    results, (events, runs) = found.results, found.tables
    expected = judged(events, runs)
    assert found.verdicts == expected
    assert {row["clause"] for row in expected if row["verdict"] == "violated"} >= {"S1", "S3", "S4"}
    judgement = judge(events, runs)
    verdicts = decide(Summary.of(judgement, events, runs))
    assert results["verdict"] == verdicts.safety == "violated"
    assert (results["liveness"], results["fairness_claims"]) == (verdicts.liveness, verdicts.fairness)
    assert results["reasons"] == list(verdicts.reasons)
    assert results["classes"] == {
        row["values"]: row["counts"] for row in pc.value_counts(judgement.classes["class"]).to_pylist()
    }
    summary = Summary.of(judgement, events, runs)
    assert results["endings"] == {name: count for name, count in summary.endings.items() if count}
    assert results["longest_gap_ns"] == summary.longest_gap_ns


@in_one_pass
def assignments(folder: Path) -> tuple[pa.Table, pa.Table]:
    """Grants by a controller, in simulated runs of the recipe of Helix."""
    batch = simulate_many(load_scenario("z10-partitioned-holder"), load_provider("helix-recipe"), range(1, 7))
    write_parquet(folder, batch.events, batch.runs)
    return batch.events, batch.runs


def test_assignments_are_judged_alike(passed: Callable[[str], Passed]) -> None:
    """Grants by a controller: Spark gives what one process gives."""
    found = passed("assignments")
    expected = judged(*found.tables)
    assert found.verdicts == expected
    assert {row["clause"] for row in expected if row["verdict"] == "violated"} >= {"S3", "S4", "L1"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("scenario", "clauses"), [("w16-unconditional-puts", {"DL1", "DL4"}), ("b05-time-to-live", {"S3"})]
)
def test_commits_and_leases_are_judged_alike(
    spark: SparkSession, tmp_path: Path, scenario: str, clauses: set[str]
) -> None:
    """DL1 to DL5, and leases that tell no instant: Spark gives what one process gives."""
    batch = simulate_many(load_scenario(scenario), load_provider("dynamodb-lock-0.6.1"), range(1, 7))
    analyse([write_parquet(tmp_path / "h", batch.events, batch.runs)], tmp_path / "out", spark)
    expected = judged(batch.events, batch.runs)
    assert verdicts_of(tmp_path / "out") == expected
    assert {row["clause"] for row in expected if row["verdict"] == "violated"} >= clauses


def protocols_history() -> tuple[pa.Table, pa.Table]:
    """Locks of every protocol, each with a grant that nobody gave, and then an acquisition that fails."""
    stories = [assigned(), queued(), mixed(), assigned(is_simulated=False), queued(is_simulated=False), mixed()]
    for story in stories[3:]:
        story.acquires("n3", 100, 110, token=1)
        story.fails("n4", call=200, returned=210)
    return tables(*stories, History())


@in_one_pass
def protocols(folder: Path) -> tuple[pa.Table, pa.Table]:
    """See `protocols_history`."""
    events, runs = protocols_history()
    write_parquet(folder, events, runs)
    return events, runs


def test_locks_of_every_protocol_are_judged_alike(passed: Callable[[str], Passed]) -> None:
    """Which source tells of a lock's grants is read from the runs table, on Spark as in the process."""
    found = passed("protocols")
    expected = judged(*found.tables)
    assert found.verdicts == expected
    assert {row["run"] for row in expected if (row["clause"], row["verdict"]) == ("S7", "violated")} == {3, 4}
    assert judged(*load_history(found.folder)[:2]) == expected


@pytest.mark.long
def test_locks_of_every_protocol_are_judged_alike_from_json_lines(spark: SparkSession, tmp_path: Path) -> None:
    """The same, of the same histories in the other format."""
    events, runs = protocols_history()
    folder = write_jsonl(tmp_path / "h", events, runs)
    analyse([folder], tmp_path / "out", spark)
    assert verdicts_of(tmp_path / "out") == judged(events, runs) == judged(*load_history(folder)[:2])


def in_shares(folder: Path, out: Path, share_events: int) -> Facts:
    """A pass in this process, with shares of so many events."""
    one_pass = OnePass(
        sources=find_sources([folder]),
        out=Place(str(out)),
        executor=lambda tasks, work: [work(task) for task in tasks],
        is_joint=True,
        cores=1,
        run_events_max=10**6,
        share_events=share_events,
    )
    [facts] = one_pass.run()
    return facts


@pytest.mark.parametrize("share_events", [1, 10**6])
@pytest.mark.parametrize("is_strewn", [False, True])
def test_how_runs_are_dealt_does_not_change_a_verdict(tmp_path: Path, share_events: int, is_strewn: bool) -> None:
    """Runs are judged alike whichever others share their worker, and wherever their rows lie in the file.

    One run has no event at all. Where runs are strewn over many row groups, they are brought together first.
    """
    events, runs = history(["", "stale_write", "fork", "overlap", "", ""])
    described = pa.concat_tables([runs, runs_table([run_row(9, 9)])])
    folder = write_parquet(tmp_path / "h", events, described)
    if is_strewn:
        strewn = events.take(pa.array(np.random.default_rng(5).permutation(len(events))))
        pq.write_table(strewn, folder / "events.parquet", row_group_size=100)
    facts = in_shares(folder, tmp_path / "out", share_events)
    assert verdicts_of(tmp_path / "out") == judged(events, described)
    assert (facts.counts.events, facts.counts.runs) == (len(events), 7)
    assert not (tmp_path / "out/staging").exists()


def test_a_run_that_is_larger_than_a_worker_is_refused_with_its_size_and_a_remedy(tmp_path: Path) -> None:
    """Not a worker that dies of want of memory: which run, how large, how much fits, and what to do."""
    events, runs = history(["", ""])
    folder = write_parquet(tmp_path / "h", events, runs)
    pass_of_dwarfs = OnePass(find_sources([folder]), Place(str(tmp_path / "out")), lambda *_: [], True, 1, 10)
    with pytest.raises(HistoryUnreadable, match=r"run \d has \d+ events, .* memory for 10 .*give it more"):
        pass_of_dwarfs.run()


@pytest.mark.long
def test_json_lines_and_parquet_give_the_same_results(spark: SparkSession, tmp_path: Path) -> None:
    """The format of a history changes nothing: verdicts, latencies, fairness and outcomes agree."""
    events, runs = history(["", "stale_write", ""])
    of_parquet = analyse([write_parquet(tmp_path / "p", events, runs)], tmp_path / "op", spark)
    of_lines = analyse([write_jsonl(tmp_path / "j", events, runs)], tmp_path / "oj", spark)
    same = ("verdict", "statement", "clauses", "classes", "reach", "latency", "outcomes", "fairness", "clients")
    assert {name: of_parquet[name] for name in same} == {name: of_lines[name] for name in same}
    assert verdicts_of(tmp_path / "op") == verdicts_of(tmp_path / "oj")


@in_one_pass
def a_dead_store(folder: Path) -> tuple[pa.Table, pa.Table]:
    """A real run whose store answers for eight seconds, then no more."""
    h = History(is_simulated=False, run={"end_ns": 15 * 10**9, "clients": 2, "must_happen": ["grant >= 100"]})
    for turn, at in enumerate(range(0, 8 * 10**9, 10**8)):
        held = h.granted(f"n{1 + turn % 2}", call=at, applied=at + 10, returned=at + 20, token=at, owner=f"o{at}")
        h.believes(held, at + 20, at + 30, lost=at + 40)
        h.released(held, call=at + 40, applied=at + 50, returned=at + 60)
    for at in range(8 * 10**9, 15 * 10**9, 10**9):
        h.read("n1", at + 10, sent=at, outcome=Outcome.AMBIGUOUS)
    events, runs = tables(h)
    write_parquet(folder, events, runs)
    return events, runs


def test_a_store_that_died_is_told_alike_in_the_process_and_on_spark(passed: Callable[[str], Passed]) -> None:
    """One history of a real run: verdict, reasons, notices, answers and speed are the same, and so is a floor."""
    events, runs = passed("a_dead_store").tables
    told = judged_results(Summary.of(judge(events, runs), events, runs), title="t", classes={}, events=0)
    found = passed("a_dead_store").results
    expected = told.model_dump(mode="json")
    same = ("verdict", "reasons", "notices", "is_store_lost", "answers", "speed")
    assert {name: found[name] for name in same} == {name: expected[name] for name in same}
    assert found["verdict"] == "inconclusive"
    assert found["answers"][0]["lost_at_ns"] == 8 * 10**9
    assert "only 80 grants (at least 100 asked for)" in found["reasons"]


def test_inputs_with_the_same_run_numbers_stay_apart(spark: SparkSession, tmp_path: Path) -> None:
    """Two folders that both have run 0: both are judged, and a failure names its folder and its own number."""
    held = write_parquet(tmp_path / "held", *history(["", ""]))
    broken = write_parquet(tmp_path / "broken", *history(["", "stale_write"]))
    results = analyse([held, broken], tmp_path / "out", spark)
    assert results["runs"] == 4
    assert {(failure["run"], failure["source"]) for failure in results["failures"]} == {(1, str(broken))}


@pytest.mark.long
def test_one_pass_over_several_inputs_gives_each_what_it_gets_alone(spark: SparkSession, tmp_path: Path) -> None:
    """Counts, limits and records set aside stay with their input, although all inputs have the same run numbers."""
    events, runs = history(["", "", "fork"], first_seed=40, turns=9)
    spoilt = write_jsonl(tmp_path / "spoilt", events, runs)
    path = spoilt / "events.jsonl"
    path.write_text('{"run": 1, "seq": 1}\n' + path.read_text(encoding="utf-8"), encoding="utf-8")
    folders = [
        write_parquet(tmp_path / "held", *history(["", ""])),
        spoilt,
        write_parquet(tmp_path / "broken", *history(["overlap", "stale_write"], must_happen=["crash"])),
    ]
    abouts = [{"commit": name} for name in "abc"]
    together = analyse_each(folders, tmp_path / "out", spark, titles=["H", "S", "B"], provenance=abouts)
    alone = [
        analyse([folder], tmp_path / f"alone{place}", spark, title=title, provenance=about)
        for place, (folder, title, about) in enumerate(zip(folders, "HSB", abouts, strict=True))
    ]
    assert [one["verdict"] for one in together] == ["held", "violated", "violated"]
    assert [len(one["quarantine"]) for one in together] == [0, 1, 0]
    for place, (found, expected) in enumerate(zip(together, alone, strict=True), 1):
        assert load_results(tmp_path / f"out/{place}/results.json").model_dump(mode="json") == found
        for told in (found, expected):
            del told["provenance"]["worker_peak_mb"], told["provenance"]["driver_peak_mb"]
        assert {**found, "files": expected["files"]} == expected
        assert (tmp_path / f"out/{place}" / found["files"]["tables"] / "verdicts").is_dir()


MALFORMED = 5


@in_one_pass
def malformed(folder: Path) -> tuple[pa.Table, pa.Table]:
    """A history with records of five kinds that are none."""
    events, runs = history(["", "", "", "stale_write"])
    write_jsonl(folder, events, runs)
    good = {"seq": 9000, "at_ns": 1, "node": "n1", "kind": "call", "op": "acquire", "outcome": "none"}
    bad = [
        json.dumps({**good, "run": 1, "at_ns": "soon"}),
        json.dumps({**good, "run": 1, "kind": "levitated"}),
        json.dumps({**good, "run": 2, "op": "borrow"}),
        json.dumps({**good, "run": 2, "at_ns": None}),
        json.dumps({**good, "run": 77}),
    ]
    path = folder / "events.jsonl"
    assert len(bad) == MALFORMED
    path.write_text("\n".join(bad) + "\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    return events, runs


def test_malformed_records_are_set_aside_counted_and_judged_by_nobody(passed: Callable[[str], Passed]) -> None:
    """Each kind of malformed record is counted by reason; its run is damaged, so "held" is not said."""
    found = passed("malformed")
    results = found.results
    assert {row["reason"]: row["records"] for row in results["quarantine"]} == {
        "at_ns is not a 64-bit integer": 1,
        "unknown kind": 1,
        "unknown op": 1,
        "no at_ns": 1,
        "its run has no row in runs": 1,
    }
    assert (results["verdict"], results["runs"], results["damaged"]) == ("violated", 2, 3)
    assert {failure["run"] for failure in results["failures"]} == {3}
    written = [json.loads(line) for part in found.quarantine.glob("*.json") for line in part.open()]
    assert len([row for row in written if row["source"] == list(IN_ONE_PASS).index("malformed")]) == MALFORMED
    assert any("levitated" in row["record"] for row in written)
    # Each by its place, from 1: the file, the line, and where in it the defect is.
    lines = (found.folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
    [levitated] = [row for row in written if "levitated" in row["record"]]
    column = lines[1].index('"kind"') + 1
    assert levitated["at"] == f"{found.folder / 'events.jsonl'}:2:{column}"


def write_with_line(folder: Path, line: str) -> None:
    """Write a history whose first line is `line`."""
    write_jsonl(folder, *history(["", "stale_write"]))
    path = folder / "events.jsonl"
    path.write_text(line + "\n" + path.read_text(encoding="utf-8"), encoding="utf-8")


def assert_same_in_process(
    folder: Path, results: dict[str, Any], verdicts: list[dict[str, Any]], damaged: int, verdict: str
) -> None:
    """Hold what Spark says of a history that lost a record against what is expected, and the process against both."""
    read, runs, notes = load_history(folder)
    in_process = Summary.of(judge(read, runs), read, runs, damaged=len(notes.damaged))
    assert (results["verdict"], results["damaged"], results["runs"]) == (verdict, damaged, 2 - damaged)
    assert (decide(in_process).safety, in_process.damaged, in_process.runs) == (verdict, damaged, 2 - damaged)
    assert verdicts == judged(read, runs)


@in_one_pass
def a_lost_record(folder: Path) -> tuple[pa.Table, pa.Table]:
    """The first of two runs has an event without a time."""
    write_with_line(folder, '{"run": 0, "at_ns": "soon", "node": "n1", "kind": "call"}')
    return load_history(folder)[:2]


def test_a_lost_record_means_the_same_on_spark_and_in_process(passed: Callable[[str], Passed]) -> None:
    """No false verdict: a run that lost a record is judged nowhere; the other run is."""
    found = passed("a_lost_record")
    assert_same_in_process(found.folder, found.results, found.verdicts, 1, "violated")


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "damaged", "verdict"),
    [
        ('{"run": 0, "seq":', 2, "inconclusive"),
        ('["no", "object"]', 2, "inconclusive"),
        ('{"at_ns": 1, "node": "n1", "kind": "call"}', 2, "inconclusive"),
        ('{"run": 1, "at_ns": "soon", "node": "n1", "kind": "call"}', 1, "inconclusive"),
    ],
)
def test_a_lost_record_of_any_run_means_the_same_on_spark_and_in_process(
    spark: SparkSession, tmp_path: Path, line: str, damaged: int, verdict: str
) -> None:
    """No false verdict: nor is any run judged that may have lost one."""
    write_with_line(tmp_path / "h", line)
    results = analyse([tmp_path / "h"], tmp_path / "out", spark)
    assert_same_in_process(tmp_path / "h", results, verdicts_of(tmp_path / "out"), damaged, verdict)


@pytest.mark.long
def test_no_damage_accuses_a_sound_lock_on_spark_either(spark: SparkSession, tmp_path: Path) -> None:
    """A row lost, doubled or moved, in real simulated histories of a correct lock: both worlds say the same of it."""
    batch = simulate_many(load_scenario("e08"), load_provider("hardened"), range(1, 13))
    by_run = {row["run"]: row for row in batch.runs.to_pylist()}
    damage = dict(zip(sorted(by_run), [*sorted(DAMAGES), None], strict=True))
    parts = []
    for run, kind in damage.items():
        own = batch.events.filter(pc.equal(batch.events["run"], run))
        parts.append(own if kind is None else damaged(kind, run, own))
    events = pa.concat_tables(parts).unify_dictionaries()
    rows = list(by_run.values())
    # One run has no row, another two.
    lost, doubled, *_ = sorted(by_run)
    runs = runs_table([*(row for row in rows if row["run"] != lost), by_run[doubled]])
    folder = write_parquet(tmp_path / "h", events, runs)
    results = analyse([folder], tmp_path / "out", spark)
    counted = Summary.of(judge(events, runs), events, runs)
    seen = sum(kind in ALWAYS_SEEN for run, kind in damage.items() if run not in (lost, doubled))
    assert counted.damaged >= seen + 2
    assert (results["damaged"], results["runs"], results["cut_off"]) == (counted.damaged, counted.runs, counted.cut_off)
    assert "violated" not in {row["verdict"] for row in verdicts_of(tmp_path / "out")}
    verdicts = decide(counted)
    assert (results["verdict"], results["reasons"]) == (verdicts.safety, list(verdicts.reasons))
    assert results["verdict"] == "inconclusive"


@pytest.mark.long
def test_hand_written_lines_without_numbers_are_judged_in_their_order(spark: SparkSession, tmp_path: Path) -> None:
    """`seq` may be left out altogether; where some events of a run have it and others not, the record is damaged."""
    folder = write_jsonl(tmp_path / "h", *history(["", "stale_write", ""]))
    path = folder / "events.jsonl"
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for place, record in enumerate(records):
        if record["run"] != 2 or place % 5 == 0:
            del record["seq"]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    results = analyse([folder], tmp_path / "out", spark)
    read, runs, notes = load_history(folder)
    in_process = Summary.of(judge(read, runs), read, runs, damaged=len(notes.damaged))
    for found in (
        (results["verdict"], results["damaged"], results["runs"]),
        (decide(in_process).safety, in_process.damaged, in_process.runs),
    ):
        assert found == ("violated", 1, 2)


@pytest.mark.long
def test_a_torn_last_line_cuts_its_run_off_and_damages_nobody(spark: SparkSession, tmp_path: Path) -> None:
    """A writer that was killed in the middle of its last line leaves a history that is judged up to there."""
    folder = write_jsonl(tmp_path / "h", *history(["", ""]))
    path = folder / "events.jsonl"
    path.write_text(path.read_text(encoding="utf-8")[:-25], encoding="utf-8")
    results = analyse([folder], tmp_path / "out", spark)
    assert (results["cut_off"], results["damaged"], results["quarantine"]) == (1, 0, [])
    assert results["verdict"] == "held"


@pytest.mark.long
def test_wrong_column_types_in_parquet_are_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    """A Parquet column of text where integers belong: what reads as none goes to quarantine, the rest is judged."""
    events, runs = history(["", ""])
    times = [str(value) for value in events["at_ns"].to_pylist()]
    times[0] = "noon"
    wrong = events.set_column(events.column_names.index("at_ns"), "at_ns", pa.array(times))
    results = analyse([write_parquet(tmp_path / "h", wrong, runs)], tmp_path / "out", spark)
    assert [(row["reason"], row["records"]) for row in results["quarantine"]] == [("at_ns is not a 64-bit integer", 1)]
    assert (results["runs"], results["damaged"]) == (1, 1)


def test_a_file_without_one_event_is_no_history(spark: SparkSession, tmp_path: Path) -> None:
    """A foreign file is refused with what was found in it, instead of a verdict over nothing."""
    folder = tmp_path / "h"
    folder.mkdir()
    (folder / "events.jsonl").write_text('[1,2\n{"a": 1}\n', encoding="utf-8")
    with pytest.raises(HistoryUnreadable, match=r"holds no event .*not JSON"):
        analyse([folder], tmp_path / "out", spark)


@pytest.mark.long
def test_demanded_situations_that_never_happened_leave_it_open(spark: SparkSession, tmp_path: Path) -> None:
    """Situations: a scenario that demands a crash and has none is inconclusive, and says what is missing."""
    events, runs = history([""], must_happen=["grant", "crash"])
    results = analyse([write_parquet(tmp_path / "h", events, runs)], tmp_path / "out", spark)
    assert results["verdict"] == "inconclusive"
    assert results["reasons"] == ["never happened: crash"]


@in_one_pass
def long_turns(folder: Path) -> tuple[pa.Table, pa.Table]:
    """Two runs in which nothing is wrong."""
    events, runs = history(["", ""], turns=9)
    write_parquet(folder, events, runs)
    return events, runs


def test_latencies_are_those_of_the_history(passed: Callable[[str], Passed]) -> None:
    """Waits, holds and requests are exact: quantiles equal those computed from the events by hand."""
    results, (events, _) = passed("long_turns").results, passed("long_turns").tables
    rows = events.to_pylist()
    calls = {(row["run"], row["request"]): row["at_ns"] for row in rows if row["kind"] == "call"}
    acquired = [row for row in rows if row["kind"] == "return" and row["op"] == "acquire"]
    waits = sorted(row["at_ns"] - calls[row["run"], row["request"]] for row in acquired)
    found = {(row["measure"], row["op"], row["outcome"]): row for row in results["latency"]}
    wait = found["wait", "", "applied"]
    assert (wait["samples"], wait["min_ns"], wait["max_ns"]) == (len(waits), waits[0], waits[-1])
    assert wait["p50_ns"] == round(float(np.percentile(waits, 50)))
    granted = sum(row["granted"] for row in results["clients"])
    assert granted == len(acquired) == found["hold", "", "applied"]["samples"]


@in_one_pass
def handoffs(folder: Path) -> tuple[pa.Table, pa.Table]:
    """Two releases, the second of which somebody waits for."""
    h = History()
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4, returned=5)
    h.released(h.granted("n1", call=10, applied=11, returned=12), call=13, applied=14, returned=15)
    h.granted("n2", call=1, applied=54, returned=55)
    write_parquet(folder, *h.tables())
    return h.tables()


def test_handoffs_are_those_of_the_checks(passed: Callable[[str], Passed]) -> None:
    """F3: one definition: what `measure` says of a history is what the pipeline's quantiles are taken of."""
    results = passed("handoffs").results
    (handoff,) = [row for row in results["latency"] if row["measure"] == "handoff"]
    assert (handoff["op"], handoff["samples"], handoff["min_ns"], handoff["max_ns"]) == ("after release", 2, 40, 50)


@pytest.mark.long
def test_results_json_reads_back(spark: SparkSession, tmp_path: Path) -> None:
    """`results.json` is complete: reading it gives what `analyse` returned, timeline and provenance included."""
    folder = write_parquet(tmp_path / "h", *history(["stale_write"]))
    results = analyse([folder], tmp_path / "out", spark, title="T", provenance={"commit": "abc"})
    assert load_results(tmp_path / "out" / "results.json").model_dump(mode="json") == results
    assert results["provenance"]["commit"] == "abc"
    timeline = results["failures"][0]["timeline"]
    assert {bar["kind"] for bar in timeline["intervals"]} >= {"believed", "granted", "fault", "overlap"}


def test_nothing_is_left_in_the_working_folder(spark: SparkSession) -> None:
    """Spark listens on loopback and writes only under its work folder; no page of its own."""
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.driver.bindAddress") == conf.get("spark.driver.host") == "127.0.0.1"
    assert conf.get("spark.ui.enabled") == "false"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert not [name for name in ("spark-warehouse", "metastore_db", "derby.log") if Path(name).exists()]


SAME_ANYWHERE = set(Results.model_fields) - {"provenance", "files", "title"}
"""What both ways must say alike."""


@pytest.mark.parametrize("name", list(IN_ONE_PASS))
def test_one_process_measures_what_spark_measures(name: str, passed: Callable[[str], Passed], tmp_path: Path) -> None:
    """Verdicts, quantiles, answers, fairness, clients, samples of pictures, failures and their timelines."""
    found = passed(name)
    [local] = analyse_locally([found.folder], tmp_path)
    told, expected = local.model_dump(mode="json"), found.results
    for results in (told, expected):
        for failure in results["failures"]:
            # A page of several inputs names the input in the failure.
            failure["id"] = failure["id"].partition("-input")[0]
            failure["block"] = ""
            failure["replay"] = failure["replay"].split()[0]
        for row in results["quarantine"]:
            row["source"] = ""
    differing = {field: (told[field], expected[field]) for field in SAME_ANYWHERE if told[field] != expected[field]}
    assert differing == {}


@pytest.mark.parametrize("name", ["invented", "a_dead_store", "protocols", "assignments"])
def test_both_ways_write_the_same_tables(name: str, passed: Callable[[str], Passed], tmp_path: Path) -> None:
    """Every table, column by column and row by row, whichever way made it."""
    found = passed(name)
    analyse_locally([found.folder], tmp_path)
    place = list(IN_ONE_PASS).index(name)
    of_spark = found.quarantine.parent / "tables"
    names = sorted(path.name for path in of_spark.iterdir() if path.is_dir())
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == names
    for table in names:
        ours, theirs = pq.read_table(tmp_path / "tables" / table), pq.read_table(of_spark / table)
        theirs = theirs.filter(pc.equal(pc.shift_right(theirs["run"], RUN_BITS), place))
        theirs = theirs.set_column(
            theirs.column_names.index("run"), "run", pc.subtract(theirs["run"], place << RUN_BITS)
        )
        assert ours.column_names == theirs.column_names, table
        assert rows_of(ours) == rows_of(theirs), table


def rows_of(table: pa.Table) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in table.to_pylist())
