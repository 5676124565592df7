"""Which files make up a history?

A history is a folder with `events.parquet` and `runs.parquet` (files, or
folders of part files), or `events.jsonl` and `runs.jsonl`; or one file of
events with its runs beside it. Several inputs may use the same run numbers,
so each input's runs are moved into a range of their own: the first keeps its
numbers, the n-th has n << 40 added.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lockref.errors import HistoryUnreadable
from reports.history_files import RUN_MAX, runs_beside

RUN_BITS = RUN_MAX.bit_length()
TAIL_BYTES = 1 << 20
"""The longest final line that is looked at for damage; an event takes some hundred bytes."""

_SUFFIXES = ("parquet", "jsonl")
_EVENT_NAMES = ("events", "history")


@dataclass(frozen=True, slots=True)
class Source:
    """One input: where its events and runs are. `runs` is None where nothing describes the runs."""

    index: int
    name: str
    suffix: str
    events: Path
    runs: Path | None

    @property
    def run_base(self) -> int:
        """What is added to this input's run numbers."""
        return self.index << RUN_BITS


@dataclass(frozen=True, slots=True)
class TornTail:
    """A final line that was being written when its writer died; `run` is that of the line before."""

    text: str
    run: int | None


def find_sources(inputs: Sequence[Path | str]) -> list[Source]:
    """Locate the files of each input. Raises HistoryUnreadable where there is no history."""
    if not inputs:
        raise HistoryUnreadable("no history given: name a run folder, a .parquet or a .jsonl file")
    return [_source(index, Path(given)) for index, given in enumerate(inputs)]


def split_run(run: int) -> tuple[int, int]:
    """(index of the input, run number in that input) of a run number in the pipeline's tables."""
    return run >> RUN_BITS, run & RUN_MAX


def _source(index: int, path: Path) -> Source:
    if not path.exists():
        raise HistoryUnreadable(f"{path} does not exist: name a run folder, a .parquet or a .jsonl file")
    if path.is_file() or path.suffix == ".parquet":
        return _single(index, path)
    for suffix in _SUFFIXES:
        for name in _EVENT_NAMES:
            events = path / f"{name}.{suffix}"
            if events.exists():
                return Source(index, str(path), suffix, events, runs_beside(events))
    present = ", ".join(sorted(entry.name for entry in path.iterdir())[:10]) or "nothing"
    raise HistoryUnreadable(f"{path} has no events.parquet and no events.jsonl (it has {present})")


def _single(index: int, path: Path) -> Source:
    suffix = path.suffix.removeprefix(".")
    if suffix not in _SUFFIXES:
        raise HistoryUnreadable(f"{path} is neither .parquet nor .jsonl: convert it, or name the run folder")
    if suffix == "parquet" and path.is_file() and not _is_parquet(path):
        raise HistoryUnreadable(f"{path} is not Parquet although its name says so, or it was cut off while written")
    return Source(index, str(path), suffix, path, runs_beside(path))


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(4)
        file.seek(0, 2)
        file.seek(max(0, file.tell() - 4))
        return head == b"PAR1" == file.read(4)


def torn_tail(path: Path) -> TornTail | None:
    """The unfinished last line of a JSON-lines file, or None. Damage elsewhere is not looked at here."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        file.seek(0, 2)
        size = file.tell()
        file.seek(max(0, size - TAIL_BYTES))
        lines = file.read().decode("utf-8", errors="replace").split("\n")
    if not lines[-1].strip() or _as_object(lines[-1]) is not None:
        return None
    before = _as_object(lines[-2]) if len(lines) > 1 else None
    run = before.get("run") if before else None
    return TornTail(text=lines[-1], run=run if isinstance(run, int) else None)


def _as_object(line: str) -> dict[str, object] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
