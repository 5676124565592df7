"""Windows of a recording: each process begins a new part with each, and nothing is lost between two."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from lockref.lab.spool import SPOOL, begin_spool, read_spool
from lockref.lab.windows import Windows, last_event_of, read_window, remove_window, windows_in
from tests.unit.lockref.lab.test_spool import record

WINDOWS = Windows(origin_ns=1_000, length_ns=100)


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    folder = tmp_path / SPOOL
    begin_spool(folder)
    return folder


def test_each_window_is_a_part_of_its_own_whose_texts_begin_anew(spool: Path) -> None:
    """A window reads back without the others, and the recorder keeps no text of an earlier one."""
    recorders = [WINDOWS.recorder(spool, process, 1_000) for process in (0, 3)]
    for number in range(250):
        record(recorders[number % 2], number, at_ns=1_000 + number, node=f"n{number % 2}")
    assert windows_in(spool) == [0, 1, 2]
    assert [len(read_window(spool, window)) for window in (0, 1, 2)] == [100, 100, 50]
    assert read_window(spool, 1)["at_ns"].to_pylist() == list(range(1_100, 1_200))
    assert read_window(spool, 1)["if_version"].to_pylist() == [f"v{number}" for number in range(100, 200)]
    assert len(recorders[0].texts) < 200
    assert read_spool(spool)["at_ns"].to_pylist() == list(range(1_000, 1_250))


def test_a_window_that_is_kept_elsewhere_is_removed_and_the_others_stay(spool: Path) -> None:
    """`kill -9` after that finds the rest."""
    recorder = WINDOWS.recorder(spool, 2, 1_000)
    for number in range(250):
        record(recorder, number, at_ns=1_000 + number)
    remove_window(spool, 0)
    assert windows_in(spool) == [1, 2]
    assert read_spool(spool)["at_ns"].to_pylist()[0] == 1_100
    assert last_event_of(spool, 2) == 1_249
    assert last_event_of(spool, 1) is None


def test_an_event_that_is_written_late_is_in_the_part_that_is_open(spool: Path) -> None:
    """An instant of an earlier window does not open that window again."""
    recorder = WINDOWS.recorder(spool, 1, 1_000)
    for at_ns in (1_050, 1_120, 1_099):
        record(recorder, at_ns, at_ns=at_ns)
    assert read_window(spool, 1)["at_ns"].to_pylist() == [1_099, 1_120]
    assert WINDOWS.at(900) == 0


def test_threads_that_record_across_windows_lose_no_event_and_no_text(spool: Path) -> None:
    """No thread finds a text's number in one part and writes its row into the next one."""
    recorder = WINDOWS.recorder(spool, 1, 1_000)
    clock = iter(range(1_000, 1_000 + 8 * 2_000))
    turn = threading.Lock()

    def client(name: str) -> None:
        for number in range(2_000):
            with turn:
                at_ns = next(clock)
            record(recorder, number, at_ns=at_ns, node=name)

    threads = [threading.Thread(target=client, args=(f"n{each}",)) for each in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = read_spool(spool)
    told = sorted((row["node"], row["request"], row["content"]) for row in events.to_pylist())
    assert told == sorted((f"n{each}", number + 1, f"c{number}") for each in range(8) for number in range(2_000))
