"""The reader of a whole history and that of its shares set the same records aside, for the same reasons, row by row."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lockref.history import runs_table
from reports.history_files import Notes, load_history, write_runs
from reports.pipeline.inputs import find_sources
from reports.pipeline.places import Place
from reports.pipeline.planning import take_stock
from reports.pipeline.staging import stage_lines, stretches
from reports.pipeline.worker import Share, read_share
from reports.record_rules import COLUMNS, NAMELESS, NO_ROW_IN_RUNS, NOT_AN_OBJECT, NOT_JSON, RUN_MAX, read_record

GOOD: dict[str, Any] = {"run": 0, "at_ns": 1, "node": "n1", "kind": "call", "op": "acquire", "outcome": "none"}
TORN = b'{"run":0,"at_ns":1,"node":"n'
OUTSIDE = 2**63


def _line(**changes: object) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def _bad_lines() -> dict[bytes, str]:
    """Lines that are no events, with the reason of each."""
    lines = {
        b"nonsense": NOT_JSON,
        TORN: NOT_JSON,
        b'{"run":0,"at_ns":NaN,"node":"n1","kind":"call"}': NOT_JSON,
        b"\xff\xfe": NOT_JSON,
        b"[" * 500: NOT_JSON,
        b"[1]": NOT_AN_OBJECT,
        b'"text"': NOT_AN_OBJECT,
        b"7": NOT_AN_OBJECT,
        b"{}": "no run",
        _line(run=-1): "run is out of range",
        _line(run=1 << 40): "run is out of range",
        _line(run=77): NO_ROW_IN_RUNS,
        # Of several defects the first one in the order of the columns counts.
        _line(node=None, kind="levitated", at_ns="soon"): "at_ns is not a 64-bit integer",
        _line(node=None, kind="levitated"): "no node",
        _line(kind=["call"]): "unknown kind",
        _line(op=7): "unknown op",
        _line(mono_ns=-(2**62)): "mono_ns is out of range",
    }
    for column in COLUMNS:
        wrong = ["5", 1.5, 1e3, True, [1], OUTSIDE] if column.is_integer else [7, False, {"a": 1}]
        lines |= {_line(**{column.name: value}): column.wrong_type for value in wrong}
        if column.is_required:
            lines[_line(**{column.name: None})] = column.absent
        if column.words is not None:
            lines[_line(**{column.name: "levitated"})] = column.wrong_value
    return lines


BAD_LINES = _bad_lines()
GOOD_LINES = [
    _line(),
    _line(op=None, outcome=None),
    # A carriage return is white space in JSON, and a mark at the head is skipped.
    b'{"run": 0,\r"at_ns": 2, "node": "n1", "kind": "call"}',
    b"\xef\xbb\xbf" + _line(),
    json.dumps({**GOOD, "something": "else", "valid_until_ns": 2**63 - 1}).encode(),
]


def _described(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    rows = [{"run": 0, "scenario": "s", "provider": "p", "world": "real"}]
    write_runs(folder, runs_table(rows))


@dataclass
class ReadByShare:
    """What workers read of one history. lost: the reason of each lost record by its text, as they keep it."""

    events: pa.Table
    lost: list[dict[str, Any]]
    notes: Notes


def _read_by_share(folder: Path, out: Path) -> ReadByShare:
    """Read a history as workers do, in this process: lines written once more, then the row groups of a share."""
    [source] = find_sources([folder])
    described = source.described()
    notes = Notes()
    files = [source.events]
    if not source.is_parquet:
        staged = [
            stage_lines(stretch, 0, Place(str(out / "staged")), Place(str(out / "lost")))
            for stretch in stretches(0, source.events)
        ]
        files = [one.file for one in staged if one.file is not None]
        torn, last_run = staged[-1].torn, staged[-1].last_run
        if torn is not None and last_run is not None:
            notes.cut_off.append(last_run)
    groups = tuple(take_stock(files))
    whole = Share(
        number=0, index=0, name="", part=0, is_one_of_several=False, first=0, last=RUN_MAX, groups=groups,
        described=described,
    )  # fmt: skip
    nameless = replace(whole, with_nameless=True)
    events, lost = read_share(whole, with_records=True)
    told = [*lost.to_pylist(), *read_share(nameless, with_records=True)[1].to_pylist()]
    for path in sorted((out / "lost").glob("*.json")):
        told += [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return ReadByShare(events, told, notes)


def _reasons(read: ReadByShare) -> Counter[str]:
    return Counter(row["reason"] for row in read.lost)


def test_every_bad_line_has_one_reason_in_both_readers(tmp_path: Path) -> None:
    """Each damaged line by itself: the reader of this process and Spark's say the same of it, and it is the table's."""
    _described(tmp_path)
    (tmp_path / "events.jsonl").write_bytes(b"\n".join([*GOOD_LINES, *BAD_LINES, *GOOD_LINES]) + b"\n")
    for bad, reason in BAD_LINES.items():
        event, found = read_record(bad)
        assert found == ("" if reason == NO_ROW_IN_RUNS else reason)
        assert (found in NAMELESS) == ("run" not in event)
    _, _, notes = load_history(tmp_path)
    assert notes.quarantined == Counter(BAD_LINES.values())
    read = _read_by_share(tmp_path, tmp_path / "out")
    by_line = {row["record"]: row["reason"] for row in read.lost if row["reason"] != NO_ROW_IN_RUNS}
    expected = {bad.decode(errors="replace"): reason for bad, reason in BAD_LINES.items() if reason != NO_ROW_IN_RUNS}
    assert by_line == expected
    assert [row["run"] for row in read.lost if row["reason"] == NO_ROW_IN_RUNS] == [77]
    assert len(read.events) == 2 * len(GOOD_LINES)


LASTS = {"torn": TORN, "no event": _line(kind="levi"), "binary": b"\xff", "whole": _line(seq=1)}


def test_good_lines_and_torn_ones_are_the_same_to_both_readers(tmp_path: Path) -> None:
    """What one reader takes the other one reads alike; a last line without its end cuts its run off in both."""
    numbered = [_line(seq=place, **changes) for place, changes in enumerate([{}, {"token": 5}, {"detail": "é\u2028"}])]
    contents = {("numbered", False): b"\n".join(numbered) + b"\n"}
    for name, last in LASTS.items():
        contents[name, False] = b"\n".join([_line(seq=0), last])
        contents[name, True] = b"\n".join([_line(seq=0), last, last])
    for (name, stands_twice), content in contents.items():
        folder = tmp_path / f"{name}-{stands_twice}"
        _described(folder)
        (folder / "events.jsonl").write_bytes(content)
        events, runs, notes = load_history(folder)
        read = _read_by_share(folder, folder / "out")
        # The torn line may stand there twice: the first one has an end, and is damage.
        assert _reasons(read) == notes.quarantined
        assert bool(notes.quarantined) == (stands_twice and name != "whole")
        assert read.notes.cut_off == notes.cut_off == ([] if name in ("numbered", "whole") else [0])
        if not notes.damaged and not (stands_twice and name == "whole"):
            assert runs["is_cut_off"].to_pylist() == [bool(notes.cut_off)]
            assert read.events.to_pylist() == events.to_pylist()


WORDS = (None, "levitated", "", "call")
NUMBERS = ("0", "-0", "00", "soon", str(OUTSIDE), None, " 1", "1 ", "+1", "1.0", "")
FLOATS = (0.0, 1.5, float("inf"), float("nan"), -(2.0**64), 2.0**63, -(2.0**63), None)
PARQUET: dict[str, dict[str, tuple[pa.DataType, tuple[object, ...]]]] = {
    "texts": {
        "node": (pa.string(), (None, "")),
        "kind": (pa.string(), WORDS),
        "op": (pa.large_string(), WORDS),
        "outcome": (pa.dictionary(pa.int8(), pa.string()), WORDS),
        "run": (pa.int64(), (None, -1, 1 << 40, 77)),
        "at_ns": (pa.int64(), (None, 2**62, -(2**62))),
        "token": (pa.uint64(), (0, 2**64 - 1, 2**63, None)),
    },
    "numbers as text": {name: (pa.string(), NUMBERS) for name in ("run", "at_ns", "token")},
    "floats": {name: (pa.float64(), FLOATS) for name in ("run", "wall_ns", "token")}
    | {"request": (pa.float32(), (0.5,))},
    "other types": {
        "token": (pa.bool_(), (True, None)),
        "request": (pa.timestamp("us"), (1, None)),
        "owner": (pa.binary(), (b"o", None)),
        "detail": (pa.int64(), (7, None)),
        "attempt": (pa.int16(), (7, None)),
        "version": (pa.null(), (None,)),
    },
}
"""By file: the type of each column, and odd values. Of the rest of a row, the values are usual ones."""


def _usual(name: str, kind: pa.DataType) -> object:
    value = GOOD.get(name)
    if value is None or kind in (pa.bool_(), pa.timestamp("us"), pa.binary(), pa.null()):
        return None
    return str(value) if pa.types.is_string(kind) and isinstance(value, int) else value


def _odd_rows(columns: dict[str, tuple[pa.DataType, tuple[object, ...]]]) -> pa.Table:
    """A row for each odd value, then rows in which all columns are odd, and a usual one."""
    usual = {**GOOD, **{name: _usual(name, kind) for name, (kind, _) in columns.items()}}
    rows = [{**usual, name: odd} for name, (_, values) in columns.items() for odd in values]
    most = max(len(values) for _, values in columns.values())
    rows += [{**usual, **{name: odd[at % len(odd)] for name, (_, odd) in columns.items()}} for at in range(most)]
    types = {name: pa.int64() if isinstance(value, int) else pa.string() for name, value in GOOD.items()}
    types |= {name: kind for name, (kind, _) in columns.items()}
    fields = {name: pa.array([row[name] for row in [*rows, usual]], kind) for name, kind in types.items()}
    return pa.table({**fields, "seq": pa.array(range(len(rows) + 1))})


def _alone(table: pa.Table, place: int, folder: Path) -> str | None:
    """The reason that the reader of this process gives for one row, beside one that is an event."""
    pq.write_table(pa.concat_tables([table.slice(place, 1), table.slice(len(table) - 1)]), folder / "events.parquet")
    reasons = list(load_history(folder)[2].quarantined)
    assert len(reasons) < 2
    return reasons[0] if reasons else None


def test_every_row_of_parquet_has_one_reason_in_both_readers(tmp_path: Path) -> None:
    """Rows by other writers, with columns of other types: row by row the same is set aside for the same reason."""
    tables = {name: _odd_rows(columns) for name, columns in PARQUET.items()}
    _described(tmp_path / "alone")
    told = set()
    for name, table in tables.items():
        folder = tmp_path / name
        _described(folder)
        pq.write_table(table, folder / "events.parquet")
        read = _read_by_share(folder, folder / "out")
        by_row = {row["row"]: row["reason"] for row in read.lost}
        by_share = [by_row.get(place + 1) for place in range(len(table))]
        in_process = [_alone(table, place, tmp_path / "alone") for place in range(len(table) - 1)]
        assert (name, by_share) == (name, [*in_process, None])
        told.update(in_process)
    assert {"no kind", "unknown op", "token is not a 64-bit integer", "owner is not text", NO_ROW_IN_RUNS} <= told
