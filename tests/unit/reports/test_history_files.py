"""Reading histories from disk: round trips, damage, and files that are none."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lockref.errors import HistoryUnreadable
from lockref.history import digests
from lockref.words import Op
from reports.account import judged_history
from reports.checks import decide, judge
from reports.checks.summary import Summary
from reports.history_files import load_history, write_history, write_json_lines
from reports.pipeline.inputs import find_sources
from tests.histories import History, tables, verdict


def two_runs():
    first, second = History(), History(run={"validity_ns": 100})
    for history in (first, second):
        a = history.granted("n1", call=0, applied=1, returned=2, token=7)
        history.believes(a, 2, 5)
        history.effect(a, at=4)
        history.released(a, call=6, applied=7)
    return tables(first, second)


@pytest.mark.parametrize("write", [write_history, write_json_lines])
def test_a_written_history_reads_back_equal(tmp_path, write):
    """Both formats keep every event, every run and the types."""
    events, runs = two_runs()
    write(tmp_path / "h", events, runs)
    read_events, read_runs, notes = load_history(tmp_path / "h")
    assert read_events.to_pylist() == events.to_pylist()
    assert read_events.schema.equals(events.schema)
    assert read_runs.to_pylist() == runs.to_pylist()
    assert notes.lines == []


def test_a_single_file_finds_its_runs_beside_it(tmp_path):
    """Naming the events file is as good as naming its folder."""
    events, runs = two_runs()
    write_history(tmp_path, events, runs)
    assert load_history(tmp_path / "events.parquet")[1].to_pylist() == runs.to_pylist()


def test_events_alone_get_runs_by_default(tmp_path):
    """A history without a runs table is judged; the note says what that costs."""
    events, runs = two_runs()
    write_json_lines(tmp_path, events, runs)
    (tmp_path / "runs.jsonl").unlink()
    _, inferred, notes = load_history(tmp_path / "events.jsonl")
    assert inferred["run"].to_pylist() == [0, 1]
    assert inferred["world"].to_pylist() == ["simulated", "simulated"]
    assert notes.inferred == 2
    assert "without timing" in notes.lines[0]


@pytest.mark.parametrize(
    ("line", "reason", "left"),
    [
        ("nonsense", "not JSON", []),
        ("[1,2]", "not a JSON object", []),
        ('{"at_ns":1,"node":"n","kind":"call"}', "no run", []),
        ('{"run":0,"node":"n","kind":"call"}', "no at_ns", [1]),
        ('{"run":0,"at_ns":1,"node":"n","kind":"shout"}', "unknown kind", [1]),
        ('{"run":0,"at_ns":1,"node":"n","kind":["call"]}', "unknown kind", [1]),
        ('{"run":0,"at_ns":1,"node":"n","kind":"call","op":"fly"}', "unknown op", [1]),
        ('{"run":0,"at_ns":1,"node":"n","kind":"call","outcome":{}}', "unknown outcome", [1]),
        ('{"run":0,"at_ns":9223372036854775807,"node":"n","kind":"call"}', "at_ns is out of range", [1]),
        ('{"run":-1,"at_ns":1,"node":"n","kind":"call"}', "run is out of range", []),
        ('{"run":0,"at_ns":1.5,"node":"n","kind":"call"}', "at_ns is not a 64-bit integer", [1]),
        ('{"run":true,"at_ns":1,"node":"n","kind":"call"}', "run is not a 64-bit integer", []),
        ('{"run":0,"at_ns":99999999999999999999,"node":"n","kind":"call"}', "at_ns is not a 64-bit integer", [1]),
        ('{"run":0,"at_ns":1,"node":7,"kind":"call"}', "node is not text", [1]),
        ("[" * 100_000, "not JSON", []),
    ],
)
def test_a_line_that_is_no_event_is_set_aside_with_its_run(tmp_path, line, reason, left):
    """Damage in the middle is counted under a reason, and its run is not judged; every run, if none is named."""
    events, runs = two_runs()
    write_json_lines(tmp_path, events, runs)
    path = tmp_path / "events.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:3], line, *lines[3:]]) + "\n")
    read, described, notes = load_history(tmp_path)
    assert read.to_pylist() == [row for row in events.to_pylist() if row["run"] in left]
    assert described["run"].to_pylist() == left
    assert dict(notes.quarantined) == {reason: 1}
    assert notes.damaged == {0, 1} - set(left)
    assert f"{2 - len(left)} run" in notes.lines[1]


def test_a_lost_line_accuses_nobody(tmp_path):
    """No false verdict: whichever line of a sound history is spoilt, nothing is violated and nothing is "held"."""
    history = History()
    for turn, node in enumerate(("n1", "n2")):
        lock = history.granted(node, call=turn * 10, applied=turn * 10 + 1, returned=turn * 10 + 2, token=turn)
        history.believes(lock, turn * 10 + 2, turn * 10 + 5)
        history.effect(lock, at=turn * 10 + 4)
        history.released(lock, call=turn * 10 + 6, applied=turn * 10 + 7)
    events, runs = tables(history)
    write_json_lines(tmp_path, events, runs)
    path = tmp_path / "events.jsonl"
    lines = path.read_text().splitlines()
    assert decide(Summary.of(judge(events, runs), events, runs)).safety == "held"
    for number, line in enumerate(lines):
        path.write_text("\n".join([*lines[:number], line[:30], *lines[number + 1 :]]) + "\n")
        read, described, notes = load_history(tmp_path)
        found = Summary.of(judge(read, described), read, described, damaged=len(notes.damaged))
        verdicts = decide(found)
        assert (verdicts.safety, verdicts.liveness, found.damaged) == ("inconclusive", "not_applicable", 1)
        assert verdicts.reasons == ("1 run could not be judged: the record is damaged",)


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("kind", "shout", "unknown kind"),
        ("kind", None, "no kind"),
        ("node", None, "no node"),
        ("outcome", "fine", "unknown outcome"),
        ("at_ns", 2**62, "at_ns is out of range"),
        ("mono_ns", -(2**62), "mono_ns is out of range"),
        ("run", None, "no run"),
    ],
)
def test_a_row_of_parquet_that_is_no_event_is_set_aside_and_counted(tmp_path, column, value, reason):
    """Parquet of other writers may hold such rows, too; one of them does not make the file unreadable."""
    events, runs = two_runs()
    write_history(tmp_path, events, runs)
    rows = events.to_pylist()
    rows[3][column] = value
    plain = pa.schema(
        (field.name, pa.string() if pa.types.is_dictionary(field.type) else field.type) for field in events.schema
    )
    pq.write_table(pa.Table.from_pylist(rows, plain), tmp_path / "events.parquet")
    _, judged, notes = load_history(tmp_path)
    assert dict(notes.quarantined) == {reason: 1}
    assert judged["run"].to_pylist() == ([] if column == "run" else [1])


def test_an_operation_that_nobody_named_is_none(tmp_path):
    """Null in `op` and `outcome` of Parquet is what leaving them out is in JSON."""
    events, runs = two_runs()
    words = pa.array([None if word == "none" else word for word in events["outcome"].to_pylist()], pa.string())
    write_history(tmp_path, events, runs)
    pq.write_table(
        events.set_column(events.column_names.index("outcome"), "outcome", words), tmp_path / "events.parquet"
    )
    read, _, notes = load_history(tmp_path)
    assert read["outcome"].to_pylist() == events["outcome"].to_pylist()
    assert not notes.quarantined


@pytest.mark.parametrize(
    "said", [{"validity_ns": -1}, {"wait_timeout_ns": 2**63 - 1}, {"rate_error_ppm": 1_000_000}, {"end_ns": 2**63 - 1}]
)
def test_bounds_that_make_a_nonsense_of_the_verdict_are_refused(tmp_path, said):
    """Negative durations, and those whose sums exceed 64 bits."""
    events, runs = two_runs()
    write_json_lines(tmp_path, events, runs)
    (tmp_path / "runs.jsonl").write_text(json.dumps({"run": 0, **said}) + "\n")
    with pytest.raises(HistoryUnreadable, match=next(iter(said))):
        load_history(tmp_path)


def test_times_that_no_axis_holds_are_refused_in_one_line():
    """S7: each clock is in range, but a call lasts two centuries: the history is refused, the judge does not stop."""
    history = History()
    history.granted("n1", call=-(2**61), applied=5, returned=9)
    history.fails("n2", call=10, returned=2**62 - 1)
    with pytest.raises(HistoryUnreadable, match="at_ns") as caught:
        judge(*tables(history))
    assert "\n" not in str(caught.value)


def test_a_promise_for_ever_is_kept_for_ever():
    """S5: a stamp at the end of 64 bits, as a lock writes that never expires, overflows into no verdict."""
    history = History(run={"rate_error_ppm": 200, "drift_bound_ns": 5})
    history.granted("n1", call=0, applied=1, returned=2, valid_for=2**63 - 2)
    history.granted("n2", call=0, applied=1000, returned=1001)
    assert history.verdict("S5")["verdict"] == "violated"
    assert history.verdict("S1")["verdict"] == "held"


def test_the_digest_of_a_recorded_history_is_the_recorders():
    """One content, one name: whoever reads the file finds the digest that the recorder gave, until a row is changed."""
    first, second = History(), History(lock="other", run={"validity_ns": 100})
    first.granted("n1", call=0, applied=1, returned=2, token=7)
    held = second.granted("n2", call=0, applied=1, returned=2)
    second.believes(held, 2, 5)
    events, _ = tables(first, second)
    told = digests(events)
    assert told == {0: first.recorder().digest(), 1: second.recorder().digest()}
    assert digests(events.take(list(range(len(events)))[::-1])) == told
    assert digests(events.slice(0, 0)) == {}
    changed = events.set_column(2, "at_ns", pa.array([*events["at_ns"].to_pylist()[:-1], 99]))
    assert digests(changed)[0] == told[0]
    assert digests(changed)[1] != told[1]


def test_a_torn_last_line_cuts_its_run_off(tmp_path):
    """A writer that died in the middle of a line: the run is judged up to there, and its open call is no violation."""
    events, runs = two_runs()
    write_json_lines(tmp_path, events, runs)
    path = tmp_path / "events.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    read, marked, notes = load_history(tmp_path)
    assert notes.cut_off == [1]
    assert marked["is_cut_off"].to_pylist() == [False, True]
    assert verdict(judge(read, marked), "L5", 1)["verdict"] != "violated"


@pytest.mark.parametrize("content", [b"", b"[1,2", b"\x00\xff\x7f" * 1000, b"hello\nworld\n", b"PAR1 but not really"])
@pytest.mark.parametrize("name", ["h.jsonl", "h.parquet", "h.txt"])
def test_foreign_files_are_refused_in_one_line(tmp_path, content, name):
    """A file that is no history ends in HistoryUnreadable, exit code 2, never in a traceback."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(HistoryUnreadable, match=name) as caught:
        load_history(tmp_path / name)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_a_parquet_file_of_something_else_is_refused(tmp_path):
    """Parquet alone does not make a history."""
    pq.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    with pytest.raises(HistoryUnreadable, match="no column 'run'"):
        load_history(tmp_path / "x.parquet")


def test_a_newer_format_is_refused_by_its_number(tmp_path):
    """A history of a later version is not half understood."""
    events, _ = two_runs()
    pq.write_table(events.replace_schema_metadata({b"lockref.history": b"2"}), tmp_path / "e.parquet")
    with pytest.raises(HistoryUnreadable, match="format '2'"):
        load_history(tmp_path / "e.parquet")


def test_a_missing_path_and_an_empty_folder_are_refused(tmp_path):
    """Nothing there: say what to name instead."""
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(HistoryUnreadable, match="run folder"):
            load_history(path)


@pytest.mark.parametrize("line", ["{", "[]", '{"seed": 1}', '{"run": 0, "clients": "many"}'])
def test_a_damaged_runs_file_is_an_error(tmp_path, line):
    """Bounds that nobody can read would silently turn clauses off."""
    events, runs = two_runs()
    write_json_lines(tmp_path, events, runs)
    (tmp_path / "runs.jsonl").write_text(line + "\n")
    with pytest.raises(HistoryUnreadable, match="runs"):
        load_history(tmp_path)


def test_plain_text_columns_are_accepted(tmp_path):
    """Other writers know no dictionaries: the verdicts are the same."""
    history = History()
    a = history.granted("n1", call=0, applied=1, returned=2)
    b = history.granted("n2", call=0, applied=3, returned=4)
    history.believes(a, 2, 9)
    history.believes(b, 4, 8)
    events, runs = tables(history)
    plain = pa.table(
        {
            name: column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
            for name, column in zip(events.column_names, events.columns, strict=True)
        }
    )
    assert judge(plain, runs).verdicts.equals(judge(events, runs).verdicts)
    pq.write_table(plain.drop_columns(["detail", "seq"]), tmp_path / "events.parquet")
    read, inferred, _ = load_history(tmp_path)
    assert verdict(judge(read, inferred), "S3")["verdict"] == "violated"


def test_json_lines_name_enumerations_in_words(tmp_path):
    """The format for other languages: kinds and operations are words, nulls are left out."""
    write_json_lines(tmp_path, *two_runs())
    first = json.loads((tmp_path / "events.jsonl").read_text().splitlines()[0])
    assert first["kind"] == "call"
    assert first["op"] == Op.ACQUIRE.name.lower()
    assert "token" not in first


def test_a_run_that_was_cut_off_stays_so(tmp_path):
    """What the runs table says is not lost because another run's last line is torn."""
    first, second = History(run={"is_cut_off": True}), History()
    for history in (first, second):
        history.granted("n1", call=0, applied=1, returned=2)
    write_json_lines(tmp_path, *tables(first, second))
    path = tmp_path / "events.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert load_history(tmp_path)[1]["is_cut_off"].to_pylist() == [True, True]


@pytest.mark.parametrize("content", [b"", b"no rows"], ids=["no bytes", "no rows"])
def test_a_runs_file_without_a_row_describes_nothing(tmp_path, content):
    """Runs that nobody described are told, also where a file stands there that is empty."""
    h = History()
    h.granted("n1", call=0, applied=1, returned=2)
    events, runs = tables(h)
    write_history(tmp_path, events, runs)
    described = tmp_path / "runs.parquet"
    described.write_bytes(b"")
    if content:
        pq.write_table(runs.slice(0, 0), described)
    _, found, notes = load_history(tmp_path)
    assert (notes.inferred, found["is_inferred"].to_pylist()) == (1, [True])
    assert "without a row in runs" in " ".join(notes.lines)
    assert [source.runs for source in find_sources([tmp_path])] == [None], "Spark reads the same files"


def _version_emptied(events: pa.Table) -> pa.Table:
    return _with(events, "version", pa.array([""] * len(events)).dictionary_encode())


def _two_swapped(events: pa.Table) -> pa.Table:
    order = [1, 0, *range(2, len(events))]
    return _with(events.take(order), "seq", events["seq"])


def _times_zeroed(events: pa.Table) -> pa.Table:
    return _with(events, "at_ns", pa.array([0] * len(events), pa.int64()))


def _with(events: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    field = events.schema.field(name)
    return events.set_column(events.column_names.index(name), field, values.cast(field.type))


@pytest.mark.parametrize("alter", [_version_emptied, _two_swapped, _times_zeroed])
def test_check_holds_nothing_for_a_history_that_was_altered(tmp_path, alter):
    """`seq` stays whole; the digest of the runs table tells that the events are others. The untouched is judged."""
    h = History(is_simulated=False)
    h.released(h.granted("n1", call=0, applied=1, returned=2), call=3, applied=4)
    events, runs = tables(h)
    place = runs.column_names.index("digest")
    runs = runs.set_column(place, runs.schema.field(place), pa.array([digests(events)[0]]))
    write_history(tmp_path, events, runs)
    assert judged_history(tmp_path).verdict == "held"
    write_history(tmp_path, alter(events), runs)
    found = judged_history(tmp_path)
    assert (found.verdict, found.damaged) == ("inconclusive", 1)
    assert "not those that were recorded" in " ".join(found.notices)
