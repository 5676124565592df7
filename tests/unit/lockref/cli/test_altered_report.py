"""`lockref report` says of an altered history what `lockref check` says: verdict, reasons, sentence and exit code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lockref.cli.main import run
from lockref.history import RUNS_SCHEMA, SCHEMA
from reports import page
from reports.formats.document import document_of
from reports.formats.results import Results
from reports.history_files import load_history

Rows = list[dict[str, Any]]


def another_owner(rows: Rows) -> None:
    row = next(row for row in rows if row["token"] is not None)
    row["node"], row["owner"] = "n9", "n9"


def another_token(rows: Rows) -> None:
    row = next(row for row in rows if row["token"] is not None)
    row["token"] += 7


def a_row_less(rows: Rows) -> None:
    del rows[len(rows) // 2]


def the_last_row_less(rows: Rows) -> None:
    del rows[-1]


def a_row_more(rows: Rows) -> None:
    rows.append({**rows[-1], "seq": rows[-1]["seq"] + 1})


def rows_exchanged(rows: Rows) -> None:
    one, other = rows[10], rows[11]
    one["seq"], other["seq"] = other["seq"], one["seq"]


def another_time(rows: Rows) -> None:
    row = next(row for row in rows[len(rows) // 2 :] if row["wall_ns"] is not None)
    row["wall_ns"] += 1


def an_unknown_kind(rows: Rows) -> None:
    rows[5]["kind"] = "no such kind"


def no_run(rows: Rows) -> None:
    rows[5]["run"] = None


def a_run_less(rows: Rows) -> None:
    rows[:] = [row for row in rows if row["run"] == rows[0]["run"]]


ALTERED: dict[str, Callable[[Rows], None]] = {
    change.__name__: change
    for change in (
        another_owner, another_token, a_row_less, the_last_row_less, a_row_more, rows_exchanged, another_time,
        an_unknown_kind, no_run, a_run_less,
    )
}  # fmt: skip
"""What is done to the rows of events."""


def write(folder: Path, rows: Rows, *, as_lines: bool) -> None:
    """The events anew, in the file's own format or as JSON lines; the runs table and the results stay."""
    if as_lines:
        (folder / "events.parquet").unlink()
        (folder / "events.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        names = {name for name in SCHEMA.names if pa.types.is_dictionary(SCHEMA.field(name).type)}
        plain = pa.schema([(field.name, pa.string() if field.name in names else field.type) for field in SCHEMA])
        pq.write_table(pa.Table.from_pylist(rows, schema=plain), folder / "events.parquet")


def with_a_flipped_bit(whole: bytes) -> bytes:
    """A Parquet file in which one bit differs, about a third from its beginning, so that other rows or none are read.

    Not every bit matters: there is padding, and entries of dictionaries that no row uses.
    """
    rows = pq.read_table(pa.BufferReader(whole))
    for place in range(len(whole) // 3, len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 16
        try:
            if pq.read_table(pa.BufferReader(bytes(flipped))) != rows:
                return bytes(flipped)
        except (OSError, pa.ArrowException):
            return bytes(flipped)
    raise AssertionError("no bit of the rest of the file matters")


def altered_folders(recorded: Path, into: Path) -> list[Path]:
    """One folder for each alteration, in Parquet and in lines, and some of the bytes and of the runs table."""
    rows = load_history(recorded)[0].sort_by([("run", "ascending"), ("seq", "ascending")]).to_pylist()
    folders = []

    def copy(name: str) -> Path:
        folders.append(Path(shutil.copytree(recorded, into / name)))
        return folders[-1]

    for as_lines in (False, True):
        for name, change in ALTERED.items():
            changed = [dict(row) for row in rows]
            change(changed)
            if changed == rows:
                assert change is a_run_less, "only a history of one run has no other to lose"
                continue
            write(copy(f"{name}-{'lines' if as_lines else 'parquet'}"), changed, as_lines=as_lines)
    folder = copy("a-torn-line")
    write(folder, rows, as_lines=True)
    lines = folder / "events.jsonl"
    lines.write_bytes(lines.read_bytes()[: lines.stat().st_size * 2 // 3])
    folder = copy("a-line-that-is-no-json")
    write(folder, rows, as_lines=True)
    lines = folder / "events.jsonl"
    lines.write_text(lines.read_text().replace('"kind"', '"kin', 1))
    whole = (recorded / "events.parquet").read_bytes()
    (copy("cut-off") / "events.parquet").write_bytes(whole[: len(whole) // 2])
    (copy("a-flipped-bit") / "events.parquet").write_bytes(with_a_flipped_bit(whole))
    (copy("no-runs-table") / "runs.parquet").unlink()
    folder = copy("a-described-run-less")
    table = pq.read_table(folder / "runs.parquet")
    pq.write_table(table.slice(0, table.num_rows - 1).cast(RUNS_SCHEMA, safe=False), folder / "runs.parquet")
    return folders


SAID = ("verdict", "liveness", "fairness_claims", "runs", "clauses", "reasons", "failures")
"""What the documents of both commands must agree in."""


@pytest.mark.parametrize("command", ["sim", pytest.param("bench", marks=pytest.mark.long)])
def test_a_page_of_an_altered_history_says_what_check_says(
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whatever was altered, and however little it matters, in Parquet and in lines; no Spark is asked about it."""
    monkeypatch.chdir(tmp_path)
    asked = {
        "sim": ["sim", "e01", "--provider", "hardened", "--seeds", "1..2"],
        "bench": ["bench", "--backend", "memory:", "--provider", "hardened", "--contenders", "4", "--for", "6s"],
    }[command]
    assert run(asked) == 0
    (recorded,) = (tmp_path / ".lockref/runs").glob(f"*-{command}")
    sections: list[Results] = []

    def captured(models: list[Results], out: Path, **options: Any) -> Path:
        sections[:] = models
        return rendered(models, out, **options)

    rendered = page.render
    monkeypatch.setattr(page, "render", captured)
    differing = {}
    for folder in altered_folders(recorded, tmp_path / "altered"):
        capsys.readouterr()
        sections.clear()
        checked = run(["check", str(folder), "--json"])
        document = capsys.readouterr()
        reported = run(["report", str(folder)])
        printed = capsys.readouterr()
        if not document.out.strip():
            found = (reported, printed.err.splitlines()[-1]) == (checked, document.err.splitlines()[-1])
        else:
            told = json.loads(document.out)
            same = document_of(sections, digest="", folder=None)
            found = reported == checked and all(same[name] == told[name] for name in SAID)
            found = found and set(told["notices"]) <= set(same["notices"])
            assert run(["check", str(folder)]) == checked
            sentences = capsys.readouterr().out
            found = found and sentences.strip() in printed.out
            found = found and sections[0].statement in sentences
        assert checked != 0, f"{folder.name}: what is not as it was recorded shows nothing"
        if not found:
            differing[folder.name] = (checked, reported, [one.statement for one in sections], printed.err[-200:])
    assert differing == {}
