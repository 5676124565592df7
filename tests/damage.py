"""Ways to damage a record, for tests that no damage may accuse a lock."""

from __future__ import annotations

import json
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


ODD_VALUES: tuple[object, ...] = (
    None, True, -1, 0, 1.5, 2**63, -(2**63) - 1, 10**400, 1e308, "", "x", "\0", "\ud800", "\u202e", "٥", "9" * 5000, [],
    {}, [[]], {"": {}}, [None], {"\0": 1},
)  # fmt: skip
"""Values that a format may or may not allow where another one stood."""

ODD_WORDS = (
    "", "~", "[]", "{}", "[1, 2]", "{a: 1}", "-1", "0", "1e999", ".inf", ".nan", "9" * 400, "0x1f", "1_000", "10s",
    "-10s", "true", "'x'", '"\\0"', '"\\ud800"', "٥", "&a x", "*a", "!!python/object:os.system x", "|\n    x", "? x",
    "<<: 1", "2026-01-01", "x" * 5000,
)  # fmt: skip
"""Scalars of YAML that may stand where another one stood."""


def _flip(chance: random.Random, body: bytes) -> bytes:
    place = chance.randrange(len(body))
    return body[:place] + bytes([body[place] ^ 1 << chance.randrange(8)]) + body[place + 1 :]


def _flip_near_the_end(chance: random.Random, body: bytes) -> bytes:
    """Formats with a footer have their index there."""
    place = max(0, len(body) - 1 - chance.randrange(min(len(body), 400)))
    return body[:place] + bytes([chance.randrange(256)]) + body[place + 1 :]


def _flip_many(chance: random.Random, body: bytes) -> bytes:
    for _ in range(chance.randint(2, 16)):
        body = _flip(chance, body)
    return body


def _cut_bytes(chance: random.Random, body: bytes) -> bytes:
    return body[: chance.randrange(len(body))]


def _drop_bytes(chance: random.Random, body: bytes) -> bytes:
    begin = chance.randrange(len(body))
    return body[:begin] + body[begin + chance.randint(1, 40) :]


def _repeat_bytes(chance: random.Random, body: bytes) -> bytes:
    begin = chance.randrange(len(body))
    end = begin + chance.randint(1, 200)
    return body[:end] + body[begin:end] + body[end:]


def _insert(*what: bytes) -> Callable[[random.Random, bytes], bytes]:
    def damage(chance: random.Random, body: bytes) -> bytes:
        place = chance.randrange(len(body) + 1)
        return body[:place] + chance.choice(what) + body[place:]

    return damage


def _odd_value(chance: random.Random, body: bytes) -> bytes:
    """JSON with another value in one place, or YAML with another scalar; other bytes as they are."""
    lines = body.split(b"\n")
    place = chance.choice([number for number, line in enumerate(lines) if line.strip()] or [0])
    for number, text in ((None, body), (place, lines[place])):
        try:
            found = json.loads(text)
        except ValueError:
            continue
        made = json.dumps(_with_odd_value(chance, found)).encode()
        return made if number is None else b"\n".join([*lines[:number], made, *lines[number + 1 :]])
    key, colon, _ = lines[place].partition(b":")
    if not colon:
        return _flip(chance, body)
    lines[place] = key + b": " + chance.choice(ODD_WORDS).encode("utf-8", "surrogatepass")
    return b"\n".join(lines)


def _with_odd_value(chance: random.Random, value: Any) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.9:
        name = chance.choice(list(value))
        if chance.random() < 0.1:
            return {key: each for key, each in value.items() if key != name}
        return {**value, name: _with_odd_value(chance, value[name])}
    if isinstance(value, list) and value and chance.random() < 0.9:
        place = chance.randrange(len(value))
        return [*value[:place], _with_odd_value(chance, value[place]), *value[place + 1 :]]
    return chance.choice(ODD_VALUES)


BYTE_DAMAGES: dict[str, Callable[[random.Random, bytes], bytes]] = {
    "flip a bit": _flip,
    "change a byte near the end": _flip_near_the_end,
    "flip bits": _flip_many,
    "cut off": _cut_bytes,
    "drop bytes": _drop_bytes,
    "repeat bytes": _repeat_bytes,
    "an odd value": _odd_value,
    "insert odd characters": _insert(
        b"\0", b"\xff", "\u202e".encode(), "\ud800".encode("utf-8", "surrogatepass"), b"\xef\xbb\xbf", b"\r", b"\x85",
        b"\x1b[31m",
    ),
    "insert deep nesting": _insert(b"[" * 100_000, b'{"a":' * 100_000, b"- " * 5000, b"{a: " * 5000),
    "insert a huge number": _insert(b"9" * 5000, b"1e999", b"-" + b"9" * 400, b"NaN", b"Infinity"),
    "put a mark of byte order before it": lambda _chance, body: b"\xef\xbb\xbf" + body,
    "UTF-16": lambda _chance, body: body.decode("latin-1").encode("utf-16"),
    "nothing left": lambda _chance, _body: b"",
    "zeros alone": lambda _chance, body: bytes(len(body)),
}  # fmt: skip
"""What may become of the bytes of one file or object."""


def damaged_bytes(kind: str, seed: int, body: bytes) -> bytes:
    """The bytes after this kind of damage. The same seed gives the same damage."""
    return BYTE_DAMAGES[kind](random.Random(f"{kind} {seed}"), body)
