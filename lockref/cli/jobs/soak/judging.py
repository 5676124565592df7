"""The stretches of a soak, judged: each history piece by piece, and the samples over the cycles that it shows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lockref.errors import HistoryUnreadable
from lockref.history import batch_digest
from lockref.samples import read_samples
from reports.account import judged_in_pieces
from reports.history_files import has_history, history_pieces
from reports.soak.cycles import Cycles
from reports.soak.series import Stretch
from reports.soak.verdict import SoakVerdict, judge_soak

if TYPE_CHECKING:
    from reports.formats.results import Results

PIECE_EVENTS: Final = 500_000
"""Events that are judged at once: a few hundred megabytes."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The clauses of each stretch that recorded something, with its folder, and the resources of all."""

    folders: Sequence[Path]
    results: Sequence[Results]
    told: SoakVerdict


def judge_stretches(folders: Sequence[Path], *, title: str, about: Mapping[str, object], clients: int) -> Judged:
    """Judge the stretches of a soak. about: where it comes from. clients: that shared the lock.

    Raises HistoryUnreadable for a damaged stretch.
    """
    judged: list[Path] = []
    results: list[Results] = []
    stretches: list[Stretch] = []
    for folder in folders:
        if not has_history(folder):
            continue
        cycles = Cycles()
        pieces = history_pieces(folder, size=PIECE_EVENTS)
        digest = batch_digest(_file_digest(path) for path in (() if pieces is None else pieces.files))
        provenance = {**about, "digest": digest}
        found = None if pieces is None else judged_in_pieces(folder, pieces, provenance=provenance, seen=cycles.add)
        if found is None:
            raise HistoryUnreadable(f"{folder} is no history of a soak, or it lost a record that names no run")
        found.title = f"{title}: {folder.name}"
        judged.append(folder)
        results.append(found)
        stretches.append(Stretch.of(read_samples(folder), cycles))
    return Judged(judged, results, judge_soak(stretches, clients=clients))


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
