"""A history that is on disk while it happens, so that a killed run is not a lost one.

A spool is a folder of files that its recorders map into memory. Appending an
event is one copy into this mapping; a recorder in memory needs one copy, too.
There is no thread, no flush and no system call. What was copied belongs to the
operating system from that moment, so `kill -9` takes nothing that was
recorded; only the machine's own failure does, since nothing is synced.

One recorder is one *part*, and one process's. Of part 2 there are

    2.0.rows, 2.1.rows, …     events, eighteen 64-bit integers each, in the order of recording
    2.0.texts, 2.1.texts, …   the texts that they name by number, one JSON string per line

Files are made at their full length and filled from the front; zeros are what
was not reached. A row that was being copied when its process was killed is
left out. `spool.json` names columns and byte order and is written first.

Spools are for the time of a run. `read_spool` joins the parts into one run,
which is then kept as `events.parquet`.
"""

from __future__ import annotations

import json
import mmap
import os
import shutil
import sys
import threading
import weakref
from array import array
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from lockref.atomic_files import write_atomically
from lockref.errors import HistoryUnreadable
from lockref.history import ENUM_COLUMNS, ROW_COLUMNS, TEXT_COLUMNS, Recorder, one_run, to_table

SPOOL: Final = "recording"
"""The spool's folder inside a run folder."""

_ABOUT: Final = "spool.json"
_FORMAT: Final = {"format": 1, "columns": list(ROW_COLUMNS), "byteorder": sys.byteorder}
_ROW_BYTES: Final = 8 * len(ROW_COLUMNS)
_ZEROS: Final = bytes(1 << 20)
_FIRST_ROWS: Final = 1 << 13
_ROWS_MAX: Final = 1 << 15
"""Rows of the first file and of the largest: 1 to 5 MB. Each is twice as long as the one before."""

_FIRST_TEXT_BYTES: Final = 1 << 18
_TEXT_BYTES_MAX: Final = 1 << 22


class SpoolRecorder(Recorder):
    """A recorder whose events are in a spool's files. Safe to share between threads.

    A forked child inherits the mapping, but not the position in it: what a
    child records stays in the child's memory.

    Errors: `event` raises OSError where the disk is full.
    """

    __slots__ = (
        "__weakref__", "_file", "_file_rows", "_folder", "_full_rows", "_is_forked", "_part", "_text_bytes",
        "_text_file",
    )  # fmt: skip

    def __init__(self, folder: Path, part: int) -> None:
        super().__init__()
        self._folder = folder
        self._part = part
        self._is_forked = False
        self._full_rows = 0
        self._file_rows = _FIRST_ROWS
        self._text_bytes = _FIRST_TEXT_BYTES
        self._text_file = self._made("texts", 0, _FIRST_TEXT_BYTES)
        self._file = self._made("rows", 0, _FIRST_ROWS * _ROW_BYTES)
        self._append = self._file.write
        me = weakref.ref(self)

        def leave() -> None:
            if (recorder := me()) is not None:
                recorder.keep_in_memory()

        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=leave)

    def __len__(self) -> int:
        if self._is_forked:
            return super().__len__()
        return self._full_rows + self._file.tell() // _ROW_BYTES

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a spool belongs to one process; another one reads it with read_spool")

    def matrix(self) -> np.ndarray:
        if self._is_forked:
            return super().matrix()
        return _rows_of(self._folder, self._part)[: len(self)]

    def _made(self, kind: str, number: int, size: int) -> mmap.mmap:
        path = self._folder / f"{self._part}.{number}.{kind}"
        with path.open("w+b", buffering=0) as file:
            # Written, not only lengthened: a full disk is an error here and not a SIGBUS in the middle of a copy, and
            # the first copy into a page that the file system knows costs a third.
            for start in range(0, size, len(_ZEROS)):
                file.write(_ZEROS[: size - start])
            return mmap.mmap(file.fileno(), size)

    def _make_room(self, row: bytes) -> None:
        with self._new_text:
            try:
                self._append(row)
                return  # another thread has made room
            except ValueError:
                pass
            length = min(_ROWS_MAX, 2 * self._file_rows)
            number = _number_after(self._folder, self._part, "rows")
            self._file = self._made("rows", number, length * _ROW_BYTES)
            self._full_rows += self._file_rows
            self._file_rows = length
            self._append = self._file.write
            self._append(row)

    def _keep_text(self, text: str) -> None:
        if self._is_forked:
            return
        line = json.dumps(text).encode() + b"\n"
        try:
            self._text_file.write(line)
        except ValueError:
            number = _number_after(self._folder, self._part, "texts")
            self._text_bytes = max(len(line), min(_TEXT_BYTES_MAX, 2 * self._text_bytes))
            self._text_file = self._made("texts", number, self._text_bytes)
            self._text_file.write(line)

    def keep_in_memory(self) -> None:
        """Called in a forked child: let go of the files, whose position the parent alone knows."""
        # The mutex may be in the hands of a thread that the child does not have.
        self._new_text = threading.Lock()
        self._is_forked = True
        self._rows = array("q")
        self._append = self._rows.frombytes


def begin_spool(folder: Path) -> None:
    """Make the folder of a spool. Parts are added by `SpoolRecorder`, in this process or in others."""
    folder.mkdir(parents=True)
    write_atomically(folder / _ABOUT, json.dumps(_FORMAT) + "\n")


def is_spool(folder: Path) -> bool:
    """True for a folder that `begin_spool` has made."""
    return (folder / _ABOUT).exists()


def remove_spool(folder: Path) -> None:
    """Remove a spool whose events are kept elsewhere.

    `spool.json` goes first, so that a spool that is half removed is not read as a whole one.
    """
    (folder / _ABOUT).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def read_spool(folder: Path) -> pa.Table:
    """All parts as one run of the history schema, in the order of true time; empty if nothing was recorded.

    Can be read while its processes still write: each part up to an instant during the call.
    Raises HistoryUnreadable for a spool of another version or of a machine with another byte order.
    """
    try:
        about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise HistoryUnreadable(f"{folder} is no recording of a run: {error}") from error
    if about != _FORMAT:
        raise HistoryUnreadable(f"{folder} was recorded by another version of lockref, or on another kind of machine")
    parts = sorted({int(path.name.split(".")[0]) for path in folder.glob("*.rows")})
    return one_run([to_table([_Part(folder, part)]) for part in parts])


class _Part(Recorder):
    """One part of a spool, read again."""

    __slots__ = ("_whole",)

    def __init__(self, folder: Path, part: int) -> None:
        super().__init__()
        # Rows first: a text is written before the first row that names it.
        rows = _rows_of(folder, part)
        self.texts += _texts_of(folder, part)
        if len(rows) and not _is_whole(rows[-1], len(self.texts)):
            rows = rows[:-1]
        self._whole = rows

    def __len__(self) -> int:
        return len(self._whole)

    def matrix(self) -> np.ndarray:
        return self._whole


def _files(folder: Path, part: int, kind: str) -> list[Path]:
    found = folder.glob(f"{part}.*.{kind}")
    return sorted(found, key=lambda path: int(path.name.split(".")[1]))


def _number_after(folder: Path, part: int, kind: str) -> int:
    return len(_files(folder, part, kind))


def last_event_ns(folder: Path, part: int) -> int | None:
    """True time of the last event that a part holds; None if it holds none."""
    rows = _rows_of(folder, part)
    return int(rows[-1, ROW_COLUMNS.index("at_ns")]) if len(rows) else None


def _rows_of(folder: Path, part: int) -> np.ndarray:
    """What was written of a part's rows; the last may be half a row."""
    blocks = []
    for path in _files(folder, part, "rows"):
        size = path.stat().st_size // _ROW_BYTES
        rows = np.fromfile(path, dtype=np.int64, count=size * len(ROW_COLUMNS)).reshape(-1, len(ROW_COLUMNS))
        # No clock shows 0 in a run, and rows are written one after the other.
        unwritten = np.flatnonzero(~rows.any(axis=1))
        blocks.append(rows[: unwritten[0]] if len(unwritten) else rows)
    if len(blocks) == 1:
        return blocks[0]
    return np.concatenate(blocks) if blocks else np.empty((0, len(ROW_COLUMNS)), dtype=np.int64)


def _texts_of(folder: Path, part: int) -> list[str]:
    texts: list[str] = []
    for path in _files(folder, part, "texts"):
        lines = path.read_bytes().partition(b"\0")[0].split(b"\n")
        # What follows the last line end was being written.
        texts += [json.loads(line) for line in lines[:-1]]
    return texts


_NEVER_ZERO = [ROW_COLUMNS.index(name) for name in ("at_ns", "wall_ns", "mono_ns", "request", "valid_until_ns")]
_TEXT_PLACES = [ROW_COLUMNS.index(name) for name in TEXT_COLUMNS]


def _is_whole(row: np.ndarray, texts: int) -> bool:
    """False for a row whose writer was killed while it copied: words are missing that no row lacks."""
    if not row[_NEVER_ZERO].all():
        return False
    codes = row[_TEXT_PLACES]
    if codes.min() < 0 or codes.max() >= texts:
        return False
    return all(0 <= row[ROW_COLUMNS.index(name)] < len(members) for name, members in ENUM_COLUMNS.items())
