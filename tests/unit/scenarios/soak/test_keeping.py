"""The history of a soak: taken out of the recording window by window, whole at every moment."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lockref.cli.jobs.soak.judging import judge_stretches
from lockref.errors import HistoryUnreadable
from lockref.history import runs_table
from lockref.lab.spool import DAMAGED, SPOOL, begin_spool
from lockref.lab.windows import Windows, windows_in
from lockref.runtime import ThreadRuntime
from reports.account import judged_history
from reports.history_files import has_history, read_runs, write_runs
from reports.pipeline.inputs import find_sources
from scenarios.soak.keeping import HistoryKeeper, kept_span_ns, salvage, window_ns
from scenarios.soak.stretches import next_stretch, soaked_ns, stretch_folders
from tests.unit.lockref.lab.test_spool import record

WINDOWS = Windows(origin_ns=1_000, length_ns=100)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A stretch of 350 events in four windows, two processes; nothing is kept yet."""
    return recorded(tmp_path, events=350)


def recorded(folder: Path, *, events: int) -> Path:
    begin_spool(folder / SPOOL)
    recorders = [WINDOWS.recorder(folder / SPOOL, process, 1_000) for process in (0, 1)]
    for number in range(events):
        record(recorders[number % 2], number, at_ns=1_000 + number)
    row = {"run": 0, "scenario": "soak", "provider": "hardened", "world": "real", "is_cut_off": True}
    write_runs(folder, runs_table([row]))
    (folder / "windows.json").write_text('{"origin_ns": 1000, "length_ns": 100}')
    return folder


def kept(folder: Path) -> list[int]:
    events = pq.read_table(folder / "events.parquet").sort_by("seq")
    assert events["seq"].to_pylist() == list(range(len(events)))
    return events["at_ns"].to_pylist()


def test_windows_and_the_rest_are_one_history(folder: Path) -> None:
    """Each event is kept once, in the order of time, and the recording shrinks meanwhile."""
    keeper = HistoryKeeper(folder, WINDOWS, ThreadRuntime())
    keeper._keep(0)
    keeper._keep(1)
    assert windows_in(folder / SPOOL) == [2, 3]
    assert keeper.keep_rest(until_ns=None).count == 350
    assert kept(folder) == list(range(1_000, 1_350))
    assert kept_span_ns(folder) == 349


def test_an_event_that_was_written_several_windows_late_is_kept(folder: Path) -> None:
    """A process that is stopped between the instant of an event and its row loses nothing."""
    late = WINDOWS.recorder(folder / SPOOL, 2, 1_310)
    record(late, 7, at_ns=1_199)
    keeper = HistoryKeeper(folder, WINDOWS, ThreadRuntime())
    keeper._keep(1)
    assert windows_in(folder / SPOOL) == [2, 3]
    keeper.keep_rest(until_ns=None)
    assert kept(folder) == sorted([*range(1_000, 1_350), 1_199])


def test_an_event_that_was_written_late_is_kept_where_it_belongs(folder: Path) -> None:
    """An event of window 0 that stands in the part of window 1 comes before those of window 1."""
    late = WINDOWS.recorder(folder / SPOOL, 2, 1_110)
    record(late, 7, at_ns=1_099)
    keeper = HistoryKeeper(folder, WINDOWS, ThreadRuntime())
    keeper._keep(0)
    keeper._keep(1)
    keeper.keep_rest(until_ns=None)
    assert kept(folder) == sorted([*range(1_000, 1_350), 1_099])


@pytest.mark.parametrize("windows_kept", [0, 1, 3])
def test_what_a_kill_has_left_is_kept_once(folder: Path, windows_kept: int) -> None:
    """Whenever the command is killed, the parts and the recording hold each event; the run ends with its last one."""
    keeper = HistoryKeeper(folder, WINDOWS, ThreadRuntime())
    for window in range(windows_kept):
        keeper._keep(window)
    salvage(folder)
    assert kept(folder) == list(range(1_000, 1_350))
    assert not (folder / SPOOL).exists()
    row = read_runs(folder / "runs.parquet").to_pylist(maps_as_pydicts="strict")[0]
    assert (row["event_count"], row["end_ns"], row["is_cut_off"]) == (350, 1_349, True)
    salvage(folder)
    assert kept(folder) == list(range(1_000, 1_350))


def test_a_kill_between_a_part_and_the_removal_of_its_window_doubles_nothing(folder: Path, monkeypatch) -> None:
    """The name of the last part says which events are kept."""
    monkeypatch.setattr("scenarios.soak.keeping.remove_window", lambda *_: None)
    keeper = HistoryKeeper(folder, WINDOWS, ThreadRuntime())
    keeper._keep(0)
    monkeypatch.undo()
    assert windows_in(folder / SPOOL) == [0, 1, 2, 3]
    salvage(folder)
    assert kept(folder) == list(range(1_000, 1_350))


def test_a_run_that_was_cut_off_ends_there(folder: Path) -> None:
    """Clients go on for a moment after a Ctrl-C; what they do then is no part of the history."""
    keeper = HistoryKeeper(folder, WINDOWS, ThreadRuntime())
    keeper._keep(0)
    assert keeper.keep_rest(until_ns=1_219).count == 220
    assert kept(folder) == list(range(1_000, 1_220))


def test_windows_that_were_kept_after_the_cut_are_taken_back(folder: Path) -> None:
    """The keeper goes on while processes end one after the other."""
    keeper = HistoryKeeper(folder, WINDOWS, ThreadRuntime())
    for window in (0, 1, 2):
        keeper._keep(window)
    assert keeper.keep_rest(until_ns=1_149).count == 150
    assert kept(folder) == list(range(1_000, 1_150))


def test_a_damaged_window_is_left_out_and_the_others_are_kept(folder: Path) -> None:
    """One wrong byte does not take the parts and the other windows along, and nobody takes the rest for the whole."""
    HistoryKeeper(folder, WINDOWS, ThreadRuntime())._keep(0)
    rows = min((folder / SPOOL).glob("200001.*.rows"))
    content = bytearray(rows.read_bytes())
    content[200] ^= 0xFF
    rows.write_bytes(content)
    salvage(folder)
    assert kept(folder) == [*range(1_000, 1_200), *range(1_300, 1_350)]
    assert (folder / DAMAGED).is_dir()
    about = {"command": "lockref soak"}
    [found] = judge_stretches([folder], title="soak", about=about, clients=2).results
    assert (found.worst, found.damaged) == ("inconclusive", 1)
    assert any(DAMAGED in notice for notice in found.notices)
    # `lockref check` and the page say the same.
    again = judged_history(folder)
    assert (again.worst, again.damaged) == ("inconclusive", 1)
    assert any(DAMAGED in notice for notice in again.notices)
    assert [source.is_lacking for source in find_sources([folder])] == [True]


def test_a_soak_that_was_killed_before_its_clients_began_leaves_no_history(folder: Path) -> None:
    """It is no stretch, and `--resume` begins the first one."""
    (folder / "runs.parquet").unlink()
    salvage(folder)
    assert not (folder / SPOOL).exists()
    assert not has_history(folder)


def test_a_recording_whose_windows_nobody_knows_is_told(folder: Path) -> None:
    """The file is named."""
    (folder / "windows.json").write_text("{}")
    with pytest.raises(HistoryUnreadable, match=r"windows\.json"):
        salvage(folder)


def test_windows_are_short_in_a_short_soak_and_bounded_in_a_long_one():
    """What a recorder keeps of a window is no growth of the lock."""
    second = 1_000_000_000
    assert [window_ns(each * second) // second for each in (1, 40, 200, 3_600)] == [1, 1, 5, 10]


def test_stretches_follow_each_other_by_number_and_their_times_add_up(tmp_path: Path) -> None:
    """The tenth comes after the ninth; what is left of a soak is what all of them together lack."""
    for number in range(1, 11):
        assert next_stretch(tmp_path).name == f"stretch-{number}"
    assert [each.name for each in stretch_folders(tmp_path)] == [f"stretch-{number}" for number in range(1, 11)]
    for number in range(3, 11):
        (tmp_path / f"stretch-{number}").rmdir()
    recorded(tmp_path / "stretch-1", events=350)
    recorded(tmp_path / "stretch-2", events=101)
    assert soaked_ns(tmp_path) == 349 + 100
