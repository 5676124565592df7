"""Several histories as one input: each one's runs are moved into a range of run numbers of their own.

Where a history lies, and which files it is made of, is found by `reports.history_files`; at an address of an object
store or of a Hadoop cluster it has the same names.
Several inputs may use the same run numbers, so the first keeps its numbers, and the n-th has n << 40 added.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from lockref.errors import HistoryUnreadable
from lockref.temporary_folders import owned_folder
from reports.history_files import HISTORIES, RUNS, SUFFIXES, find_history, read_runs
from reports.pipeline.places import Place, Settings, is_address
from reports.record_rules import RUN_MAX

RUN_BITS = RUN_MAX.bit_length()


@dataclass(frozen=True, slots=True)
class Source:
    """One input: its place among the inputs, what the caller called it, and its files.

    runs: the file, or the folder of part files, that describes the runs; None where nothing does. is_lacking: a part of
    the record could not be read, so no run of it is judged.
    """

    index: int
    name: str
    events: Place
    runs: Place | None
    is_parquet: bool
    is_lacking: bool = False

    def described(self) -> pa.Table | None:
        """The runs as they are described (`RUNS_SCHEMA`). Raises HistoryUnreadable."""
        if self.runs is None:
            return None
        if not is_address(self.runs.address):
            return read_runs(Path(self.runs.address))
        with owned_folder("runs") as folder:
            # A row takes few bytes, however many runs there are.
            for part in self.runs.files():
                copy = folder / self.runs.name / part.address[len(self.runs.address) :].lstrip("/")
                target = copy if part != self.runs else folder / self.runs.name
                target.parent.mkdir(parents=True, exist_ok=True)
                with part.open() as file, target.open("wb") as written:
                    shutil.copyfileobj(file, written)
            return read_runs(folder / self.runs.name)


def find_sources(inputs: Sequence[Path | str], settings: Settings = ()) -> list[Source]:
    """Locate the files of each input. Raises HistoryUnreadable where there is no history."""
    if not inputs:
        raise HistoryUnreadable("no history given: name a run folder, a .parquet or a .jsonl file")
    found = []
    for index, given in enumerate(inputs):
        if is_address(given):
            found.append(_at_address(index, Place(str(given), settings)))
        else:
            files = find_history(Path(given))
            runs = None if files.runs is None else Place(str(files.runs))
            is_lacking = files.lacking is not None
            found.append(Source(index, str(given), Place(str(files.events)), runs, files.is_parquet, is_lacking))
    return found


def _at_address(index: int, place: Place) -> Source:
    events = place
    if not place.name.endswith(tuple(f".{suffix}" for suffix in SUFFIXES)):
        present = [each for name in HISTORIES if (each := place.below(name)).files()]
        if not present:
            raise HistoryUnreadable(f"{place} holds no {' and no '.join(HISTORIES)}: name a run folder")
        events = present[0]
    elif not place.files():
        raise HistoryUnreadable(f"{place} does not exist: name a run folder, a .parquet or a .jsonl file")
    described = [each for suffix in SUFFIXES if (each := events.beside(f"{RUNS}.{suffix}")).files()]
    runs = described[0] if described else None
    return Source(index, place.address, events, runs, events.name.endswith(".parquet"))


def split_run(run: int) -> tuple[int, int]:
    """(index of the input, run number in that input) of a run number in the pipeline's tables."""
    return run >> RUN_BITS, run & RUN_MAX
