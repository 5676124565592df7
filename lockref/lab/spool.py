"""A history that is on disk while it happens, so that a killed run is not a lost one.

A spool is a folder of files that its recorders map into memory. Appending an
event is one copy into this mapping; a recorder in memory needs one copy, too.
There is no thread, no flush and no system call. What was copied belongs to the
operating system from that moment, so `kill -9` takes nothing that was
recorded; only the machine's own failure does, since nothing is synced.

One recorder is one *part*, and one process's. Of part 2 there are

    2.0.rows, 2.1.rows, …     events, eighteen 64-bit integers and their checksum, in the order of recording
    2.0.texts, 2.1.texts, …   the texts that they name by number, one checksum and JSON string per line

Files are made at their full length and filled from the front; zeros are what
was not reached. A row that was being copied when its process was killed is
left out. `spool.json` names columns and byte order and is written first.

Every row and every text has a checksum (CRC-32). A record with a wrong bit can
look like a broken lock, so nothing is read of a spool in which one is wrong.

Spools are for the time of a run. `read_spool` joins the parts into one run,
which is then kept as `events.parquet`.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import shutil
import struct
import sys
import threading
import weakref
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from lockref.atomic_files import write_atomically
from lockref.errors import HistoryUnreadable
from lockref.history import ROW_COLUMNS, TEXT_COLUMNS, Recorder, one_run, to_table
from lockref.strict_json import NotJson, read_json

SPOOL: Final = "recording"
"""The spool's folder inside a run folder."""

DAMAGED: Final = "recording.damaged"
"""A recording of which not all could be read, beside the history that lacks what could not."""

_ABOUT: Final = "spool.json"
_FILE_NAME: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})\.(rows|texts)")
_FORMAT: Final = {"format": 2, "columns": list(ROW_COLUMNS), "byteorder": sys.byteorder}
_WORDS: Final = len(ROW_COLUMNS) + 1
"""A row and its checksum, in 64-bit words."""

_ROW_BYTES: Final = 8 * _WORDS
_CHECKSUM: Final = struct.Struct("=q")
_ZEROS: Final = bytes(1 << 20)
_FIRST_ROWS: Final = 1 << 13
_ROWS_MAX: Final = 1 << 15
"""Rows of the first file and of the largest: 1 to 5 MB. Each is twice as long as the one before."""

_FIRST_TEXT_BYTES: Final = 1 << 18
_TEXT_BYTES_MAX: Final = 1 << 22


class SpoolRecorder(Recorder):
    """A recorder whose events are in a spool's files. Safe to share between threads.

    An append is one C call, so two threads cannot interleave inside a row; a text seen for the first time takes a
    mutex, and so does a full file.

    A forked child inherits the mapping, but not the position in it: what a
    child records stays in the child's memory.

    Errors: `event` raises OSError where the disk is full.
    """

    __slots__ = (
        "__weakref__", "_file", "_file_rows", "_folder", "_full_rows", "_is_forked", "_new_text", "_part",
        "_text_bytes", "_text_file",
    )  # fmt: skip

    def __init__(self, folder: Path, part: int) -> None:
        super().__init__()
        self._new_text = threading.Lock()
        self._folder = folder
        self._part = part
        self._is_forked = False
        self._full_rows = 0
        self._begin_files()
        me = weakref.ref(self)

        def leave() -> None:
            if (recorder := me()) is not None:
                recorder.keep_in_memory()

        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=leave)

    def _begin_files(self) -> None:
        self._file_rows = _FIRST_ROWS
        self._text_bytes = _FIRST_TEXT_BYTES
        self._text_file = self._made("texts", 0, _FIRST_TEXT_BYTES)
        self._file = self._made("rows", 0, _FIRST_ROWS * _ROW_BYTES)
        self._append = _checked(self._file)

    def begin_part(self, part: int) -> None:
        """Go on in a new part, whose texts begin anew. No event may be under way in another thread.

        A forked child stays in its memory.
        """
        if self._is_forked:
            return
        self._part = part
        self._full_rows = 0
        self.texts = [""]
        self._codes = {"": 0}
        self._begin_files()

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

    def _row_bytes(self) -> bytes:
        return super()._row_bytes() if self._is_forked else self.matrix().tobytes()

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
            self._append = _checked(self._file)
            self._append(row)

    def _number(self, text: str) -> None:
        with self._new_text:
            # Another thread may have met it meanwhile.
            if text not in self._codes:
                self._keep(text)
                super()._number(text)

    def _keep(self, text: str) -> None:
        """Write the text down, before a row can name it."""
        if self._is_forked:
            return
        line = _text_line(json.dumps(text).encode())
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
        self._rows = []
        self._append = self._rows.append


def _checked(file: mmap.mmap) -> Callable[[bytes], object]:
    """Append a row and its checksum, in one copy."""
    write, checksum, number = file.write, zlib.crc32, _CHECKSUM.pack

    def append(row: bytes) -> object:
        return write(row + number(checksum(row)))

    return append


def _text_line(text: bytes) -> bytes:
    return b"%08x %s\n" % (zlib.crc32(text), text)


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
    Raises HistoryUnreadable for a spool of another version or of a machine with another byte order, and for one that
    was damaged: with the file and the offset.
    """
    try:
        about = read_json((folder / _ABOUT).read_bytes(), unique_names=True)
    except (OSError, NotJson) as error:
        raise HistoryUnreadable(f"{folder} is no recording of a run: {error}") from error
    if about != _FORMAT:
        raise HistoryUnreadable(f"{folder} was recorded by another version of lockref, or on another kind of machine")
    return read_parts(
        folder, sorted({int(name[1]) for path in folder.iterdir() if (name := _FILE_NAME.fullmatch(path.name))})
    )


def read_parts(folder: Path, parts: Sequence[int]) -> pa.Table:
    """These parts of a spool as one run of the history schema. Otherwise as `read_spool`."""
    return one_run([to_table([_Part(folder, part)]) for part in parts])


class _Part(Recorder):
    """One part of a spool, read again."""

    __slots__ = ("_whole",)

    def __init__(self, folder: Path, part: int) -> None:
        super().__init__()
        # Rows first: a text is written before the first row that names it.
        rows = _rows_of(folder, part)
        self.texts += _texts_of(folder, part)
        unnamed = np.flatnonzero(rows[:, _TEXT_PLACES].max(axis=1, initial=-1) >= len(self.texts))
        # The last row may name a text that its process had no time to write.
        if len(unnamed) and unnamed[0] < len(rows) - 1:
            texts = _files(folder, part, "texts")
            raise _damaged(texts[-1] if texts else folder / f"{part}.0.texts", 0, "texts that events name are missing")
        self._whole = rows[: len(rows) - len(unnamed)]

    def __len__(self) -> int:
        return len(self._whole)

    def matrix(self) -> np.ndarray:
        return self._whole

    def _row_bytes(self) -> bytes:
        return self._whole.tobytes()


def _files(folder: Path, part: int, kind: str) -> list[Path]:
    """The files of a part, by number. Files of other names are not ours."""
    names = (_FILE_NAME.fullmatch(path.name) for path in folder.iterdir())
    numbers = [int(name[2]) for name in names if name is not None and int(name[1]) == part and name[3] == kind]
    return [folder / f"{part}.{number}.{kind}" for number in sorted(numbers)]


def _number_after(folder: Path, part: int, kind: str) -> int:
    return len(_files(folder, part, kind))


def spooled_span(folder: Path) -> tuple[int, int]:
    """The number of events in a spool by now, and the nanoseconds of true time between its first and its last.

    For people who watch a run: it checks nothing. (0, 0) where there is no spool.
    """
    count, first_ns, last_ns = 0, 2**63 - 1, 0
    at_ns = ROW_COLUMNS.index("at_ns")
    for path in folder.glob("*.rows"):
        try:
            rows = np.fromfile(path, dtype=np.int64)
        except FileNotFoundError:
            continue  # The run is over, and its spool is being removed.
        instants = rows[: len(rows) // _WORDS * _WORDS].reshape(-1, _WORDS)[:, at_ns]
        # No clock shows 0 in a run, and rows are written one after the other.
        written = instants[instants != 0].tolist()
        if written:
            count += len(written)
            first_ns, last_ns = min(first_ns, written[0]), max(last_ns, written[-1])
    return count, max(last_ns - first_ns, 0)


def last_event_ns(folder: Path, part: int) -> int | None:
    """True time of the last event that a part holds; None if it holds none.

    Raises HistoryUnreadable for a part that was damaged.
    """
    rows = _rows_of(folder, part)
    return int(rows[-1, ROW_COLUMNS.index("at_ns")]) if len(rows) else None


def _rows_of(folder: Path, part: int) -> np.ndarray:
    """The rows of a part as far as they were written, without one that was being copied when its process was killed."""
    blocks = []
    files, length = _files(folder, part, "rows"), _FIRST_ROWS
    for number, path in enumerate(files):
        if path.name != f"{part}.{number}.rows":
            raise _damaged(path, 0, "the file before it is missing")
        blocks.append(_whole_rows(path, length, is_last=number == len(files) - 1))
        length = min(_ROWS_MAX, 2 * length)
    return np.concatenate(blocks) if blocks else np.empty((0, len(ROW_COLUMNS)), dtype=np.int64)


def _whole_rows(path: Path, length: int, *, is_last: bool) -> np.ndarray:
    """The rows of one file, which is made for so many. Its process may be writing it."""
    data = path.read_bytes()
    # A file is made before it is written: one that is shorter holds nothing yet.
    if len(data) != length * _ROW_BYTES and not (is_last and len(data) < length * _ROW_BYTES and not any(data)):
        raise _damaged(path, len(data), f"the file ends there and not at byte {length * _ROW_BYTES}")
    rows = np.frombuffer(data, dtype=np.int64, count=len(data) // 8 // _WORDS * _WORDS).reshape(-1, _WORDS)
    # No clock shows 0 in a run, and rows are written one after the other.
    is_written: np.ndarray = np.any(rows, axis=1)
    written = len(rows) if is_written.all() else int(np.argmin(is_written))
    wrong = [number for number, row in enumerate(rows[:written]) if zlib.crc32(row[:-1]) != row[-1]]
    if wrong and is_last and wrong[-1] == written - 1 and not is_written[written:].any():
        written = wrong.pop()
    if written < len(rows) and (not is_last or is_written[written + 1 :].any()):
        wrong.append(written)
    for number in wrong:
        _require_row(path, number)
    return rows[: min([written, *wrong]), :-1]


def _require_row(path: Path, number: int) -> None:
    """Look at a row again that was wrong though others stand behind it: it may have been written since.

    Raises HistoryUnreadable if it is wrong still.
    """
    with path.open("rb") as file:
        file.seek(number * _ROW_BYTES)
        row = file.read(_ROW_BYTES)
    if not any(row) or zlib.crc32(row[:-8]) != _CHECKSUM.unpack(row[-8:])[0]:
        raise _damaged(path, number * _ROW_BYTES, "an event is missing, or does not agree with its checksum")


def _texts_of(folder: Path, part: int) -> list[str]:
    texts: list[str] = []
    for number, path in enumerate(_files(folder, part, "texts")):
        if path.name != f"{part}.{number}.texts":
            raise _damaged(path, 0, "the file before it is missing")
        offset = 0
        # What follows the last line end was being written.
        for line in path.read_bytes().partition(b"\0")[0].split(b"\n")[:-1]:
            text = line[9:]
            if line + b"\n" != _text_line(text):
                raise _damaged(path, offset, "a text does not agree with its checksum")
            texts.append(_text_of(path, offset, text))
            offset += len(line) + 1
    return texts


def _text_of(path: Path, offset: int, text: bytes) -> str:
    try:
        found = read_json(text, half_characters=True)
    except NotJson as error:
        raise _damaged(path, offset, f"a text is not JSON ({error})") from error
    if not isinstance(found, str):
        raise _damaged(path, offset, "what should be a text is something else")
    return found


def _damaged(path: Path, offset: int, what: str) -> HistoryUnreadable:
    return HistoryUnreadable(f"{path} is damaged at byte {offset}: {what}; nothing in this recording can be trusted")


_TEXT_PLACES = [ROW_COLUMNS.index(name) for name in TEXT_COLUMNS]
