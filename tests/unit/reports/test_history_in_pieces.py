"""A history that is too long for the memory is read and judged piece by piece, with the account of the whole."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import reports.account as account
from lockref.errors import HistoryUnreadable
from lockref.lab.loading import load_provider
from reports.history_files import history_pieces, write_history, write_json_lines
from scenarios.batch import Batch, run_seeds
from scenarios.definition.load import load_scenario

SEEDS = range(1, 4)


@pytest.fixture(scope="module")
def batch() -> Batch:
    return Batch(outcomes=tuple(run_seeds(load_scenario("e08"), load_provider("hudi"), SEEDS)))


def judged(folder: Path, monkeypatch: pytest.MonkeyPatch, *, size: int) -> account.Results:
    """The account in pieces of so many events, as `lockref check` makes it."""
    with monkeypatch.context() as patch:
        patch.setattr(account, "WHOLE_EVENTS_MAX", 0)
        patch.setattr(account, "EVENTS_OF_A_PIECE", size)
        return account.judged_history(folder)


def test_pieces_give_the_account_of_the_whole(batch: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs within a piece, at its edge, and over several pieces: clauses, situations and failures are the same."""
    write_history(tmp_path, batch.events, batch.runs)
    whole = account.judged_history(tmp_path)
    for size in (120, 10_000):
        pieces = judged(tmp_path, monkeypatch, size=size)
        assert pieces.clauses == whole.clauses, size
        assert pieces.reach == whole.reach
        assert pieces.runs == whole.runs == len(SEEDS)
        assert pieces.events == whole.events
        assert [(each.clause, each.run, each.at_ns) for each in pieces.failures] == [
            (each.clause, each.run, each.at_ns) for each in whole.failures
        ]
        assert any(f"judged in pieces of {size:,} events" in notice for notice in pieces.notices)
    assert not any("judged in pieces" in notice for notice in whole.notices)


def test_a_lost_record_damages_its_run_alone(batch: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that is missing, and a record that is no event."""
    events = batch.events
    write_history(tmp_path, pa.concat_tables([events.slice(0, 50), events.slice(51)]), batch.runs)
    assert judged(tmp_path, monkeypatch, size=100).damaged == 1
    place = events.column_names.index("at_ns")
    bad = [None if row == 50 else at_ns for row, at_ns in enumerate(events["at_ns"].to_pylist())]
    pq.write_table(events.set_column(place, "at_ns", pa.array(bad, pa.int64())), tmp_path / "events.parquet")
    results = judged(tmp_path, monkeypatch, size=100)
    whole = account.judged_history(tmp_path)
    assert (results.damaged, results.runs) == (whole.damaged, whole.runs) == (1, len(SEEDS) - 1)


def test_runs_that_are_scattered_are_refused(batch: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events of a run that do not stand together cannot be judged as they come; the remedy is told."""
    half = len(batch.events) // 2 + 10
    write_history(tmp_path, pa.concat_tables([batch.events.slice(half), batch.events.slice(0, half)]), batch.runs)
    with pytest.raises(HistoryUnreadable, match="sort them by run and seq"):
        judged(tmp_path, monkeypatch, size=100)


def test_lines_are_read_whole(batch: Batch, tmp_path: Path) -> None:
    write_json_lines(tmp_path, batch.events, batch.runs)
    assert history_pieces(tmp_path, size=100) is None
