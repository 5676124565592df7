"""Histories in shares: what is told of them together is what is told of the whole, wherever they were cut and lie."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from lockref.errors import HistoryUnreadable
from reports.history_files import load_history, write_history, write_json_lines
from reports.pipeline import measured_tables, staging, tallies
from reports.pipeline.inputs import find_sources
from reports.pipeline.measuring import measure_runs
from reports.pipeline.one_pass import OnePass
from reports.pipeline.places import Place, Settings
from reports.pipeline.planning import deal_runs, take_stock
from reports.pipeline.staging import stretches
from reports.pipeline.summary import Facts, summarise
from reports.pipeline.tallies import Cells
from reports.pipeline.worker import Told
from tests.spark.histories import history


def in_shares(*given: Path | str, out: Path | str, share_events: int = 200, settings: Settings = ()) -> Facts:
    """The facts of a pass in this process."""
    one_pass = OnePass(
        sources=find_sources(given, settings),
        out=Place(str(out), settings),
        executor=lambda tasks, work: [work(task) for task in tasks],
        is_joint=True,
        cores=1,
        run_events_max=10**6,
        share_events=share_events,
    )
    [facts] = one_pass.run()
    assert len(one_pass.shares) > 1 or share_events > 10**5
    return facts


def as_a_whole(folder: Path) -> Facts:
    """The facts of the whole history at once."""
    events, runs, notes = load_history(folder)
    return measure_runs(events, runs, notes, index=0, name=str(folder))[0]


def test_the_figures_of_shares_add_up_to_those_of_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Quantiles, outcomes, fairness, clients, and the same samples in the pictures, of which only some have room."""
    monkeypatch.setattr(tallies, "POINTS_MAX", 20)
    write_history(tmp_path / "h", *history(["", "overlap", "fork", ""]))
    told = [
        summarise(facts).model_dump()
        for facts in (in_shares(tmp_path / "h", out=tmp_path / "o"), as_a_whole(tmp_path / "h"))
    ]
    for results in told:
        for failure in results["failures"]:
            failure.pop("timeline"), failure.pop("block")
    assert told[0] == told[1]
    assert sum(len(scatter["points"]) for scatter in told[0]["scatters"] if scatter["measure"] == "wait") == 20


def test_a_run_in_several_row_groups_is_judged_whole(tmp_path: Path):
    """Groups of 40 rows cut every run, and some hold rows of two: each event is counted, and once."""
    write_history(tmp_path / "h", *history(["", "overlap", "fork", ""]))
    path = tmp_path / "h/events.parquet"
    pq.write_table(pq.read_table(path), path, row_group_size=40)
    groups = take_stock([Place(str(path))])
    ranges = deal_runs(groups, None, share_events=1)
    assert min(len(each.groups) for each in ranges) > 1
    assert [each.events for each in ranges] == [
        sum(group.rows_between(each.first, each.last) for group in each.groups) for each in ranges
    ]
    shares, whole = in_shares(tmp_path / "h", out=tmp_path / "o"), as_a_whole(tmp_path / "h")
    assert shares.counts.verdicts == whole.counts.verdicts
    assert summarise(shares).events == summarise(whole).events == sum(group.rows for group in groups)


def test_lines_are_told_by_their_place_in_the_file_wherever_it_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The stretches of a file cover it once; a record that is none is told by its own line and column."""
    events, runs = history(["", "overlap", ""])
    write_json_lines(tmp_path / "h", events, runs)
    path = tmp_path / "h/events.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    lines.insert(200, '{"run": 1, "at_ns": "soon", "node": "n1", "kind": "call"}')
    lines.insert(90, "")
    path.write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setattr(staging, "STRETCH_BYTES", 1 << 14)
    cut = list(stretches(0, Place(str(path))))
    assert len(cut) > 3
    assert [one.begin for one in cut] == [0, *(one.end for one in cut[:-1])]
    assert cut[-1].end == path.stat().st_size
    facts = in_shares(tmp_path / "h", out=tmp_path / "o", share_events=10**6)
    [part] = (tmp_path / "o/quarantine").iterdir()
    [lost] = [json.loads(line) for line in part.open(encoding="utf-8")]
    assert (lost["at"], lost["run"]) == (f"{path}:202:12", 1)
    assert lost["reason"] == "at_ns is not a 64-bit integer"
    whole = as_a_whole(tmp_path / "h")
    assert (facts.rejects, facts.counts.damaged, facts.counts.runs) == (whole.rejects, 1, 2)


def test_a_record_set_aside_names_its_run_as_the_tables_do(tmp_path: Path):
    """Runs of several histories may have one number: both tell them apart in the same way."""
    for name in ("a", "b"):
        write_json_lines(tmp_path / name, *history(["", ""]))
    with (tmp_path / "b/events.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"run": 1, "at_ns": "soon", "node": "n1", "kind": "call"}\n')
    in_shares(tmp_path / "a", tmp_path / "b", out=tmp_path / "o", share_events=10**6)
    [part] = (tmp_path / "o/quarantine").iterdir()
    lost = json.loads(part.read_text())
    runs = set(pq.read_table(tmp_path / "o/tables/verdicts")["run"].to_pylist())
    # Run 1 of the second history lost a record, so it is not judged; its neighbour is.
    base = lost["run"] - 1
    assert (lost["source"], base > 0) == (1, True)
    assert {run - base for run in runs if run >= base} == set(history(["", ""])[1]["run"].to_pylist()) - {1}


def test_what_tasks_have_read_adds_up():
    """A history is refused where no task has read an event of it; the last task alone does not decide."""
    told = Told(read={0: 3})
    told.join(Told(read={0: 4, 1: 2}))
    told.join(Told(read={0: 0}, refused="torn"))
    assert (told.read, told.refused) == ({0: 7, 1: 2}, "torn")


def clients(*rows: tuple[str, int, int, int]) -> tallies.Tallies:
    """Tallies of clients of one cell: name, calls, grants, longest wait."""
    found = tallies.Tallies()
    named = [dict(zip(tallies._CLIENTS.names, ("cell", *row), strict=True)) for row in rows]
    found._take_clients(pa.Table.from_pylist(named, schema=tallies._CLIENTS))
    return found


def test_the_longest_wait_of_a_client_is_that_of_one_wait():
    """Calls and grants add up over runs and shares; waits do not."""
    joined = clients(("n1", 2, 1, 50), ("n1", 3, 2, 70), ("n2", 1, 1, 9))
    joined.join(clients(("n1", 1, 1, 60)))
    assert [tuple(row.values())[1:] for row in joined.busiest(9).to_pylist()] == [("n1", 6, 4, 70), ("n2", 1, 1, 9)]


def test_clients_that_were_let_go_are_counted_over_all_shares(monkeypatch: pytest.MonkeyPatch):
    """The most that there can be: one that two shares let go counts twice."""
    monkeypatch.setattr(tallies, "CLIENTS_COUNTED_MAX", 2)
    one, two = (clients((f"{name}1", 3, 3, 0), (f"{name}2", 2, 2, 0), (f"{name}3", 1, 1, 0)) for name in "ab")
    assert (one.clients_left_out, two.clients_left_out) == (1, 1)
    one.join(two)
    assert (one.clients_left_out, one.clients["client"].to_pylist()) == (4, ["a1", "b1"])


def test_a_pass_that_is_refused_leaves_no_tables(tmp_path: Path):
    """Half of the tables must not look like all of them."""
    write_history(tmp_path / "h", *history([""]))
    in_shares(tmp_path / "h", out=tmp_path / "o", share_events=10**6)
    assert (tmp_path / "o/tables").is_dir()
    (tmp_path / "h/events.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(HistoryUnreadable, match="no readable Parquet file"):
        in_shares(tmp_path / "h", out=tmp_path / "o")
    assert not (tmp_path / "o/tables").exists()


def test_an_address_of_an_unknown_kind_is_refused_with_those_that_are_known(tmp_path: Path):
    with pytest.raises(HistoryUnreadable, match=r"no reader for ftp://; there are s3://.*hdfs://"):
        in_shares("ftp://host/run", out=tmp_path)


def test_a_history_at_an_address_is_judged_there(tmp_path: Path):
    """An address in and out: the same facts as from the folder, and the tables at the address."""
    events, runs = history(["", "overlap", ""])
    write_history(tmp_path / "h", events, runs)
    found = in_shares(f"file://{tmp_path}/h", out=f"file://{tmp_path}/o", share_events=10**6)
    assert found.counts.verdicts == as_a_whole(tmp_path / "h").counts.verdicts
    assert list((tmp_path / "o/tables/verdicts").iterdir())
    with pytest.raises(HistoryUnreadable, match=r"holds no events\.parquet and no events\.jsonl"):
        in_shares(f"file://{tmp_path}", out=tmp_path / "o")


def test_object_stores_are_reached_with_the_settings_of_hadoop(monkeypatch: pytest.MonkeyPatch):
    """`fs.s3a.*` of the session become the options of Arrow's file system; what is not set is left to its defaults."""
    asked = []
    monkeypatch.setattr(fs, "S3FileSystem", lambda **options: asked.append(options))
    settings = (("fs.s3a.endpoint", "http://127.0.0.1:9000"), ("fs.s3a.access.key", "k"), ("fs.s3a.secret.key", "s"))
    assert Place("s3a://bucket/run/events.parquet", settings)._resolved()[1] == "bucket/run/events.parquet"
    Place("s3a://bucket/run")._resolved()
    told = {"endpoint_override": "127.0.0.1:9000", "scheme": "http", "access_key": "k", "secret_key": "s"}
    assert asked == [told, {}]
    assert "k" not in repr(Place("s3a://bucket", settings)).removeprefix("Place(s3a://bucket")


def test_samples_of_an_unknown_length_count_in_whichever_share_they_are():
    """A share in which no length of a kind is known has samples of that kind, too."""
    events, runs = history(["", ""])
    cells = Cells(runs, events)
    [first, second] = cells.about

    def samples(run: int, *lengths: int | None) -> pa.Table:
        rows = [
            {"run": run, "measure": "lease", "op": "", "outcome": "sent", "value_ns": length, "at_ns": 0}
            for length in lengths
        ]
        return pa.Table.from_pylist(rows, schema=measured_tables.SAMPLES)

    def counted(table: pa.Table) -> tallies.Tallies:
        found = tallies.Tallies()
        found._count_samples(table, cells)
        return found

    unknown, known = samples(first, None, None), samples(second, 7, None)
    joined = counted(unknown)
    joined.join(counted(known))
    assert joined.samples == counted(pa.concat_tables([unknown, known])).samples
    assert sum(joined.samples.values()) == 4
