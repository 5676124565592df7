"""Spools: what was recorded is on disk, whenever the process dies, and reads back as one run."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest

from lockref.errors import HistoryUnreadable, NothingRecorded
from lockref.history import ROW_COLUMNS, Recorder, runs_table, to_table
from lockref.lab.spool import SPOOL, SpoolRecorder, begin_spool, is_spool, read_spool, remove_spool
from lockref.words import Kind, Op
from reports.history_files import load_history, write_history, write_runs

KEY = "lockref-1/.hoodie/.locks/table_lock.json"
FIRST_ROWS = 1 << 13


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    folder = tmp_path / SPOOL
    begin_spool(folder)
    return folder


def record(recorder: Recorder, number: int, *, at_ns: int | None = None, node: str = "n1") -> None:
    """One event, with texts of its own, as a client's request has them."""
    at_ns = 1_000 + number if at_ns is None else at_ns
    recorder.event(
        Kind.SENT, (at_ns, 5_000 + number, at_ns, "main"), node, KEY, Op.ACQUIRE, 0, request=number + 1, attempt=0,
        if_version=f"v{number}", content=f"c{number}", token=3, owner="owner \n\0 \udc80", valid_until_ns=9_000,
    )  # fmt: skip


def test_a_spool_reads_back_as_what_memory_would_hold(spool: Path) -> None:
    """The same events give the same table and the same digest, over several files of rows and texts."""
    on_disk, in_memory = SpoolRecorder(spool, 0), Recorder()
    for number in range(3 * FIRST_ROWS):
        for recorder in (on_disk, in_memory):
            record(recorder, number)
    assert len(list(spool.glob("*.rows"))) > 1
    assert len(list(spool.glob("*.texts"))) > 1
    assert len(on_disk) == len(in_memory)
    assert on_disk.digest() == in_memory.digest()
    assert read_spool(spool).to_pylist() == to_table([in_memory]).to_pylist()


_KILLED = """
import os, signal, sys
from pathlib import Path
from lockref.lab.spool import SpoolRecorder
from tests.unit.lockref.lab.test_spool import record
recorder = SpoolRecorder(Path(sys.argv[1]), int(sys.argv[2]))
for number in range(int(sys.argv[3])):
    record(recorder, number, at_ns=10 * number + int(sys.argv[2]))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_kill_9_loses_no_event(spool: Path) -> None:
    """Two processes record and are killed without a word: every event is there, `seq` is dense, in order of time."""
    for part, count in ((1, FIRST_ROWS + 7), (2, 5)):
        command = [sys.executable, "-c", _KILLED, str(spool), str(part), str(count)]
        assert subprocess.run(command, check=False).returncode == -9
    rows = read_spool(spool)
    assert len(rows) == FIRST_ROWS + 7 + 5
    assert rows["seq"].to_pylist() == list(range(len(rows)))
    assert rows["at_ns"].to_pylist() == sorted(rows["at_ns"].to_pylist())


def test_a_row_that_was_being_copied_is_left_out(spool: Path) -> None:
    """Half a row, at either end, and one that names a text that was not written: the rows before it stay."""
    recorder = SpoolRecorder(spool, 0)
    for number in range(3):
        record(recorder, number)
    path = spool / "0.0.rows"
    whole = path.read_bytes()
    row_bytes = 8 * (len(ROW_COLUMNS) + 1)
    last = whole[2 * row_bytes : 3 * row_bytes]
    unknown = np.frombuffer(last, dtype=np.int64).copy()
    unknown[ROW_COLUMNS.index("content")] = 10_000
    unknown[-1] = zlib.crc32(unknown[:-1])
    for torn in (last[:64] + bytes(row_bytes - 64), bytes(64) + last[64:], unknown.tobytes()):
        path.write_bytes(whole[: 2 * row_bytes] + torn + whole[3 * row_bytes :])
        assert read_spool(spool)["request"].to_pylist() == [1, 2]
    path.write_bytes(whole)
    assert len(read_spool(spool)) == 3


def test_threads_share_a_spool(spool: Path) -> None:
    """No row is lost or mixed where four threads fill file after file."""
    recorder = SpoolRecorder(spool, 0)
    each = FIRST_ROWS

    def work(number: int) -> None:
        for turn in range(each):
            record(recorder, turn * 4 + number, node=f"n{number}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table = read_spool(spool)
    assert sorted(table["request"].to_pylist()) == list(range(1, 4 * each + 1))
    for row in table.slice(0, 2_000).to_pylist():
        assert row["content"] == f"c{row['request'] - 1}"
        assert row["node"] == f"n{(row['request'] - 1) % 4}"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is POSIX")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_write_into_its_parents_record(spool: Path) -> None:
    """A lock that forks: the child has the mapping, but not the position in it."""
    recorder = SpoolRecorder(spool, 0)
    record(recorder, 0)
    child = os.fork()
    if child == 0:
        before = len(recorder)
        for number in range(100, 200):
            # More text than a file of texts holds, so that the child would have to make one.
            record(recorder, number, node="x" * 100_000 + str(number))
        os._exit(0 if (before, len(recorder), len(recorder.matrix())) == (0, 100, 100) else 1)
    assert os.waitpid(child, 0)[1] == 0
    for number in range(1, 50):
        record(recorder, number, node="y" * 100_000 + str(number))
    table = read_spool(spool)
    assert table["request"].to_pylist() == list(range(1, 51))
    assert {name[:1] for name in table["node"].to_pylist()} <= {"y", "n"}


def test_an_unfinished_folder_is_a_history_that_was_cut_off(tmp_path: Path, spool: Path) -> None:
    """Events from the spool, timings from the row that was written at the start, the end where the record ends."""
    recorder = SpoolRecorder(spool, 0)
    row = {"run": 0, "scenario": "contention", "provider": "x", "world": "real", "validity_ns": 7, "is_cut_off": True}
    write_runs(tmp_path, runs_table([row]))
    with pytest.raises(NothingRecorded, match="before anything was recorded"):
        load_history(tmp_path)
    record(recorder, 0)
    record(recorder, 1)
    events, runs, notes = load_history(tmp_path)
    assert len(events) == 2
    [told] = runs.to_pylist()
    assert (told["is_cut_off"], told["end_ns"], told["validity_ns"]) == (True, 1_001, 7)
    assert notes.cut_off == [0]
    write_history(tmp_path, events, runs)
    assert not is_spool(spool)
    assert load_history(tmp_path)[0].equals(events)


def test_a_spool_of_another_version_is_refused(spool: Path) -> None:
    """Numbers mean nothing where columns or byte order differ; and half a removed spool is none."""
    (spool / "spool.json").write_text('{"format": 0}')
    with pytest.raises(HistoryUnreadable, match="another version"):
        read_spool(spool)
    remove_spool(spool)
    assert not spool.exists()


def damaged_in_one_place(chance: random.Random, whole: dict[Path, bytes], written: dict[Path, int]) -> Path:
    """Flip a bit of what was written, zero some bytes of it, or cut it off there; tells which file was struck."""
    path = chance.choice(sorted(whole))
    data, place = bytearray(whole[path]), chance.randrange(written[path])
    kind = chance.choice(["flip", "flip", "zeros", "cut"])
    if kind == "flip":
        data[place] ^= 1 << chance.randrange(8)
    elif kind == "zeros":
        data[place : place + 200] = bytes(len(data[place : place + 200]))
    else:
        del data[place:]
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("seed", range(20))
def test_damage_is_told_with_its_file_or_costs_the_last_event_alone(spool: Path, seed: int) -> None:
    """Bits, blocks and ends of rows, texts and `spool.json`: what can be read is what was recorded, or nothing is."""
    recorder = SpoolRecorder(spool, 0)
    for number in range(FIRST_ROWS + 20):
        record(recorder, number % 50, at_ns=number + 1)
    whole = {path: path.read_bytes() for path in spool.iterdir()}
    written = {path: len(data.rstrip(b"\0")) for path, data in whole.items()}
    table = read_spool(spool)
    chance, refused = random.Random(seed), list[str]()
    for _ in range(20):
        path = damaged_in_one_place(chance, whole, written)
        try:
            found = read_spool(spool)
        except HistoryUnreadable as error:
            refused.append(str(error))
        else:
            assert len(found) >= len(table) - 9, "zeros at the end of a file look like rows that were not written"
            assert found.equals(table.slice(0, len(found)))
        path.write_bytes(whole[path])
    assert len(refused) >= 12
    assert all(str(spool) in message for message in refused)
    assert read_spool(spool).equals(table)


def test_an_event_that_was_overwritten_with_zeros_is_missed(spool: Path) -> None:
    """The rows behind it show that it was there; a file that is gone is missed, too."""
    recorder = SpoolRecorder(spool, 0)
    for number in range(FIRST_ROWS + 3):
        record(recorder, number)
    path, row_bytes = spool / "0.0.rows", 8 * (len(ROW_COLUMNS) + 1)
    whole = path.read_bytes()
    path.write_bytes(whole[: 2 * row_bytes] + bytes(row_bytes) + whole[3 * row_bytes :])
    with pytest.raises(HistoryUnreadable, match=f"0.0.rows is damaged at byte {2 * row_bytes}"):
        read_spool(spool)
    path.unlink()
    with pytest.raises(HistoryUnreadable, match="the file before it is missing"):
        read_spool(spool)
