"""Samples of what processes use, beside the history of a long run: a third table, as lines of JSON (`samples.jsonl`).

A sample is one process at one instant. A line is written at once and whole, so that a killed run keeps its samples; a
last line without an end was being written, and is left out.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO, Final

from lockref.errors import HistoryUnreadable, quote
from lockref.strict_json import NotJson, read_object

SAMPLES: Final = "samples.jsonl"
"""The file's name in the folder of a history."""

LOCK: Final = "lock"
SERVER: Final = "server"
HARNESS: Final = "harness"
ROLES: Final = (LOCK, SERVER, HARNESS)
"""The role of a process: the lock and its clients run in it, it is the server's, or it is the command's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One process at one instant.

    at_ns: true time, the host's monotonic clock. role: one of `ROLES`. pid: its number. cpu_ns: processor time so far.
    memory_bytes: resident memory of its own; on Linux without what is mapped from files, such as the recording.
    rss_bytes: all of its resident memory. fds: open file descriptors, `sockets` included. threads: of the process.
    children: processes that it has started and that run. network_bytes: sent and received by the whole machine so far,
    loopback included; no system tells it for each process.
    """

    at_ns: int
    role: str
    pid: int
    cpu_ns: int
    memory_bytes: int
    rss_bytes: int
    fds: int
    sockets: int
    threads: int
    children: int
    network_bytes: int


_NAMES: Final = tuple(field.name for field in fields(Sample))


def write_sample(file: IO[bytes], sample: Sample) -> None:
    """Append one sample to a file without a buffer. Raises OSError where the disk is full."""
    line = json.dumps(asdict(sample), separators=(",", ":")).encode() + b"\n"
    if file.write(line) != len(line):
        # A nearly full disk takes a part and tells no error; the next line would stand behind that part.
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), getattr(file, "name", None))


def read_samples(folder: Path) -> list[Sample]:
    """The samples of a run, in the order of their writing; none where nobody sampled.

    Raises HistoryUnreadable for a line that is no sample, with the file and the line.
    """
    path = folder / SAMPLES
    return list(_read(path)) if path.exists() else []


def _read(path: Path) -> Iterator[Sample]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                row = read_object(line, unique_names=True)
            except NotJson as error:
                raise HistoryUnreadable(
                    f"{path}:{number}:1: no sample, because it is no JSON object: {error}"
                ) from error
            if (
                set(row) != set(_NAMES)
                or row["role"] not in ROLES
                or not all(type(row[name]) is int and row[name] >= 0 for name in _NAMES if name != "role")
            ):
                raise HistoryUnreadable(
                    f"{path}:{number}:1: {quote(row)} is no sample; expected {', '.join(_NAMES)}: whole numbers, "
                    f"and as role one of {', '.join(ROLES)}"
                )
            yield Sample(**row)
