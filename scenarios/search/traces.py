"""Marks that tell two runs apart: the whole trace without the faults themselves, and coarse features of it.

Two plans with one trace did the same: one of them is enough. Features are far fewer than traces. A run that shows one
that no earlier run has shown went somewhere new, and its plan is worth changing.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa

from lockref.history import ROW_COLUMNS, TEXT_COLUMNS, Recorder
from lockref.words import Kind

_SLOTS: Final = {name: place for place, name in enumerate(ROW_COLUMNS)}
_TEXTS: Final = [_SLOTS[name] for name in TEXT_COLUMNS]

_TOLD: Final = (Kind.SENT, Kind.FAULT)
"""Kinds of rows that are no step of their own: what was sent is told by its answer, a fault by what follows it."""


def trace_class(recorder: Recorder) -> str:
    """A hash of all that happened, but for the rows that say which fault struck."""
    rows = recorder.matrix()
    rows = rows[rows[:, _SLOTS["kind"]] != Kind.FAULT].copy()
    # By what a text is, and not by its number: the rows that are left out have moved the numbers.
    words = np.array([_hash(text.encode("utf-8", "surrogatepass")) for text in recorder.texts], dtype=np.int64)
    rows[:, _TEXTS] = words[rows[:, _TEXTS]]
    return hashlib.blake2b(rows.tobytes(), digest_size=16).hexdigest()


def features_of(recorder: Recorder, reach: Iterable[tuple[str, int]]) -> frozenset[str]:
    """The features of one run: how often each situation came about, by powers of two, and which step followed which.

    reach: situation to how often, as `reports.checks.situations` counts. A step is a kind of event with its operation
    and outcome; it follows another one of the same client or of another one.
    """
    situations = {f"{name}*{_bucket(count)}" for name, count in reach if count}
    rows = recorder.matrix()
    rows = rows[~np.isin(rows[:, _SLOTS["kind"]], _TOLD)]
    step = (rows[:, _SLOTS["kind"]] * 32 + rows[:, _SLOTS["op"]]) * 32 + rows[:, _SLOTS["outcome"]]
    node = rows[:, _SLOTS["node"]]
    follows = np.stack((step[:-1], step[1:], node[:-1] == node[1:]), axis=1)
    counts = Counter(map(tuple, follows.tolist()))
    return frozenset(situations | {f"{a}>{b}{'=' if own else '/'}{_bucket(n)}" for (a, b, own), n in counts.items()})


def reach_by_run(reach: pa.Table) -> dict[int, list[tuple[str, int]]]:
    """The rows of a judgement's `reach`, by run."""
    found: dict[int, list[tuple[str, int]]] = {}
    columns = (reach[name].to_pylist() for name in ("run", "situation", "count"))
    for run, situation, count in zip(*columns, strict=True):
        found.setdefault(run, []).append((situation, count))
    return found


def _bucket(count: int) -> int:
    """1, 2, 4, … up to 64: twice as often is something else, once more is not."""
    return min(64, 1 << (int(count).bit_length() - 1))


def _hash(text: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big", signed=True)
