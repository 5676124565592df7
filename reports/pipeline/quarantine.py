"""Records that are no events, as files of JSON lines: where each stood, what is wrong with it, and the record."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from reports.pipeline.places import Place


def write_lost(place: Place, lost: pa.Table, files: str | Sequence[str], index: int, base: int) -> None:
    """Write lost records (`reports.record_tables.LOST`); where there is none, no file.

    files: the file of each, or that of all. index: of the source. base: added to a run's number, as in the tables.
    """
    if not len(lost):
        return
    names = [files] * len(lost) if isinstance(files, str) else files
    with place.created() as file:
        for row, name in zip(lost.to_pylist(), names, strict=True):
            told = {
                "source": index,
                "run": None if row["run"] is None else row["run"] + base,
                "reason": row["reason"],
                "at": f"{name}:{row['row']}:{row['column']}",
                "record": row["record"],
            }
            file.write(json.dumps(told).encode() + b"\n")
