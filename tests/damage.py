"""Ways to damage a record, for tests that no damage may accuse a lock."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lockref.history import RUNS_SCHEMA, SCHEMA

Rows = list[dict[str, Any]]
Damage = Callable[[random.Random, Rows], Rows]


def _drop(chance: random.Random, rows: Rows) -> Rows:
    # The last row is a case of its own: a record without it only ends early.
    lost = chance.randrange(len(rows) - 1)
    return rows[:lost] + rows[lost + 1 :]


def _drop_many(chance: random.Random, rows: Rows) -> Rows:
    begin = chance.randrange(len(rows) - 1)
    return rows[:begin] + rows[min(begin + chance.randint(2, 20), len(rows) - 1) :]


def _duplicate(chance: random.Random, rows: Rows) -> Rows:
    twice = chance.randrange(len(rows))
    return [*rows[:twice], rows[twice], *rows[twice:]]


def _duplicate_later(chance: random.Random, rows: Rows) -> Rows:
    """The same event once more, under the number that would come next."""
    return [*rows, {**chance.choice(rows), "seq": len(rows)}]


def _zero_one(chance: random.Random, rows: Rows) -> Rows:
    place = chance.randrange(1, len(rows))
    return [{**row, "seq": 0} if number == place else row for number, row in enumerate(rows)]


def _zero_all(_chance: random.Random, rows: Rows) -> Rows:
    return [{**row, "seq": 0} for row in rows]


def _shift(chance: random.Random, rows: Rows) -> Rows:
    begin = chance.randrange(len(rows))
    return [{**row, "seq": row["seq"] + (place >= begin) + (begin == 0)} for place, row in enumerate(rows)]


def _swap(chance: random.Random, rows: Rows) -> Rows:
    first, second = chance.sample(range(len(rows)), 2)
    return _exchanged(rows, first, second)


def _swap_neighbours(chance: random.Random, rows: Rows) -> Rows:
    first = chance.randrange(len(rows) - 1)
    return _exchanged(rows, first, first + 1)


def _exchanged(rows: Rows, first: int, second: int) -> Rows:
    changed = list(rows)
    changed[first] = {**rows[first], "seq": rows[second]["seq"]}
    changed[second] = {**rows[second], "seq": rows[first]["seq"]}
    return changed


def _shuffle_seqs(chance: random.Random, rows: Rows) -> Rows:
    seqs = [row["seq"] for row in rows]
    chance.shuffle(seqs)
    return [{**row, "seq": seq} for row, seq in zip(rows, seqs, strict=True)]


def _cut(chance: random.Random, rows: Rows) -> Rows:
    return rows[: chance.randrange(1, len(rows))]


DAMAGES: dict[str, Damage] = {
    "drop a row": _drop,
    "drop rows": _drop_many,
    "duplicate a row": _duplicate,
    "append a copy": _duplicate_later,
    "zero a seq": _zero_one,
    "zero every seq": _zero_all,
    "shift the seqs": _shift,
    "swap two seqs": _swap,
    "swap neighbours": _swap_neighbours,
    "shuffle the seqs": _shuffle_seqs,
    "cut the end off": _cut,
}
"""What may become of the events of one run on disk or on the way."""

ALWAYS_SEEN = frozenset(DAMAGES) - {"swap two seqs", "swap neighbours", "shuffle the seqs", "cut the end off"}
"""Damage that the key shows. A swap of events of one instant shows in the digest alone, which is asked only where a
clause broke; a record that is cut off is judged up to there."""


def damaged(kind: str, seed: int, events: pa.Table) -> pa.Table:
    """`events`, of one run, after this kind of damage. The same seed gives the same damage."""
    rows = DAMAGES[kind](random.Random(seed), events.to_pylist())
    return pa.Table.from_pylist(rows, SCHEMA)


def without_row(runs: pa.Table, run: int) -> pa.Table:
    """The runs table without the row of this run."""
    return pa.Table.from_pylist([row for row in runs.to_pylist() if row["run"] != run], RUNS_SCHEMA)
