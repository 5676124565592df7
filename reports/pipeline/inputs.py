"""Several histories as one input: each one's runs are moved into a range of run numbers of their own.

Where a history lies, and which files it is made of, is found by `reports.history_files`, for Spark as for the process.
Several inputs may use the same run numbers, so the first keeps its numbers, and the n-th has n << 40 added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lockref.errors import HistoryUnreadable
from reports.history_files import HistoryFiles, find_history
from reports.record_rules import RUN_MAX

RUN_BITS = RUN_MAX.bit_length()


@dataclass(frozen=True, slots=True)
class Source:
    """One input: its place among the inputs, what the caller called it, and its files."""

    index: int
    name: str
    files: HistoryFiles

    @property
    def run_base(self) -> int:
        """The number that is added to this input's run numbers."""
        return self.index << RUN_BITS


def find_sources(inputs: Sequence[Path | str]) -> list[Source]:
    """Locate the files of each input. Raises HistoryUnreadable where there is no history."""
    if not inputs:
        raise HistoryUnreadable("no history given: name a run folder, a .parquet or a .jsonl file")
    return [Source(index, str(given), find_history(Path(given))) for index, given in enumerate(inputs)]


def split_run(run: int) -> tuple[int, int]:
    """(index of the input, run number in that input) of a run number in the pipeline's tables."""
    return run >> RUN_BITS, run & RUN_MAX
