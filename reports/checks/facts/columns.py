"""From Arrow to numpy: the history as flat integer arrays.

Everything the checks compare is an integer: text becomes a code, -1 for "no
value", runs become positions in the runs table, and rows are put in the order
(run, seq), so that a row's position is itself a clock: in a simulation the true
order of events, in a real run the order within each process.

Columns are turned into arrays when first asked for; most clauses touch few.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lockref.errors import HistoryUnreadable
from lockref.history import ENUM_COLUMNS, RUNS_SCHEMA, SCHEMA
from lockref.words import ABSENT, Kind

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int32]

NO_TEXT = -1
"""The code of "no value" in text columns."""


def _array(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks()


def integers_of(column: pa.ChunkedArray) -> Ints:
    """An integer column as an array, ABSENT for null; the column's own memory where it has no null."""
    array = _array(column)
    if array.null_count:
        array = pc.fill_null(array, ABSENT)
    values: Ints = array.to_numpy(zero_copy_only=False)
    return values


def _same_texts(first: pa.Array, second: pa.Array) -> bool:
    """True if two dictionaries are one and the same memory, as `to_table` leaves them."""
    if len(first) != len(second):
        return False
    addresses = [[b.address if b is not None else 0 for b in side.buffers()] for side in (first, second)]
    return addresses[0] == addresses[1] or bool(first.equals(second))


# Arrow makes names and fields anew each time that a schema is asked for them.
_OF_EVENTS: Final = tuple(SCHEMA.names)
_OF_RUNS: Final = tuple(field.name for field in RUNS_SCHEMA if not field.nullable)


def require_columns(events: pa.Table, runs: pa.Table) -> None:
    """Raise HistoryUnreadable for tables that are no history; what may be null in the runs table may be absent."""
    events_have, runs_have = frozenset(events.column_names), frozenset(runs.column_names)
    if missing := [name for name in _OF_EVENTS if name not in events_have]:
        raise HistoryUnreadable(f"judged a table without the column {missing[0]!r}: a history has {SCHEMA.names}")
    if missing := [name for name in _OF_RUNS if name not in runs_have]:
        raise HistoryUnreadable(f"judged a runs table without the column {missing[0]!r}")


def are_among(numbers: npt.NDArray[np.integer[Any]], members: Sequence[int]) -> Flags:
    """Per number of an enumeration column: it is one of these members, of which there is at least one.

    For a few members, which are compared one by one. numpy's `isin` takes five times as long for a hundred numbers, and
    fifty times for millions of bytes.
    """
    found: Flags = numbers == int(members[0])
    for member in members[1:]:
        found |= numbers == int(member)
    return found


def is_first(group: Ints) -> Flags:
    """True at the first row of every group: of every run of equal numbers."""
    first = np.ones(len(group), dtype=np.bool_)
    if len(group) > 1:
        np.not_equal(group[1:], group[:-1], out=first[1:])
    return first


def is_rising_in(starts: Ints, values: Ints) -> bool:
    """True if every value exceeds the one before it, but for those at `starts`."""
    rises = values[1:] > values[:-1]
    rises[starts[1:] - 1] = True
    return bool(rises.all())


_MEMBERS: Final[dict[str, dict[str, int]]] = {
    name: {member.name.lower(): int(member) for member in members} for name, members in ENUM_COLUMNS.items()
}
"""By enumeration column: the number of each word."""


class Events:
    """A history table as arrays, in the order (run, seq). `run` counts rows of the runs table.

    Raises HistoryUnreadable for words that no history has. The table must have every column (`require_columns`).
    """

    def __init__(self, table: pa.Table, run_numbers: Ints) -> None:
        for field in () if table.schema.equals(SCHEMA) else SCHEMA:
            if pa.types.is_dictionary(field.type) and not pa.types.is_dictionary(table.schema.field(field.name).type):
                position = table.column_names.index(field.name)
                table = table.set_column(position, field.name, pc.dictionary_encode(table.column(field.name)))
        self._table = table.unify_dictionaries()
        self.count = len(table)
        self._cache: dict[str, Any] = {}
        self._texts: dict[str, pa.Array] = {}
        self._rows: dict[tuple[Kind, ...], Ints] = {}
        self._keys: dict[Kind, Ints] = {}
        self._places: dict[tuple[object, ...], int] = {}
        self._order: Ints | None = None
        self.run = self._positions(integers_of(self._table.column("run")), run_numbers)
        seq = integers_of(self._table.column("seq"))
        starts = np.flatnonzero(is_first(self.run))
        if not (bool(np.all(np.diff(self.run[starts]) > 0)) and is_rising_in(starts, seq)):
            self._order = np.lexsort((seq, self.run)).astype(np.int64)
            self.run = self.run[self._order]

    @staticmethod
    def _positions(raw: Ints, run_numbers: Ints) -> Ints:
        """Run numbers to positions in the runs table. Runs come in blocks, so only block starts are looked up."""
        if len(raw) == 0:
            return raw
        starts = np.flatnonzero(is_first(raw))
        order = np.argsort(run_numbers, kind="stable")
        found = order[np.searchsorted(run_numbers[order], raw[starts])]
        assert bool(np.all(run_numbers[found] == raw[starts])), "each event belongs to a run of the runs table"
        if np.array_equal(found, raw[starts]):
            # Runs that are numbered by their place: the column is the answer, and a copy of it would be the largest.
            return raw
        return np.repeat(found.astype(np.int64, copy=False), np.diff(np.append(starts, len(raw))))

    def integers(self, name: str) -> Ints:
        """An integer column; ABSENT for null."""
        if name not in self._cache:
            values = integers_of(self._table.column(name))
            self._cache[name] = values if self._order is None else values[self._order]
        found: Ints = self._cache[name]
        return found

    def _indices(self, array: pa.DictionaryArray) -> Codes:
        indices = array.indices
        if indices.null_count:
            indices = pc.fill_null(indices, NO_TEXT)
        codes: Codes = indices.to_numpy(zero_copy_only=False)
        return codes if codes.dtype == np.int32 else codes.astype(np.int32)

    def codes(self, name: str) -> Codes:
        """A text column as codes into `texts(name)`; NO_TEXT for null and for empty text.

        `version` and `if_version` share one code space, so that codes compare.
        """
        if name not in self._cache:
            if name in ("version", "if_version"):
                self._load_versions()
            else:
                array = _array(self._table.column(name))
                self._store(name, self._indices(array), array.dictionary)
        found: Codes = self._cache[name]
        return found

    def _store(self, name: str, codes: Codes, texts: pa.Array) -> None:
        empty = self._place(texts, "")
        if empty >= 0 and bool((codes == empty).any()):
            codes = np.where(codes == empty, np.int32(NO_TEXT), codes)
        if len(texts) and texts.null_count:
            unnamed = np.flatnonzero(texts.is_null().to_numpy(zero_copy_only=False))
            codes = np.where(np.isin(codes, unnamed), np.int32(NO_TEXT), codes)
        self._cache[name] = codes if self._order is None else codes[self._order]
        self._texts[name] = texts

    def _load_versions(self) -> None:
        made, condition = (_array(self._table.column(name)) for name in ("version", "if_version"))
        texts = made.dictionary
        if not _same_texts(texts, condition.dictionary):
            texts = pc.unique(pa.concat_arrays([made.dictionary, condition.dictionary]))
        for name, array in (("version", made), ("if_version", condition)):
            codes = self._indices(array)
            if texts is not made.dictionary:
                lookup = pc.index_in(array.dictionary, texts).to_numpy(zero_copy_only=False).astype(np.int32)
                codes = np.append(lookup, np.int32(NO_TEXT))[codes]
            self._store(name, codes, texts)

    def numbers(self, name: str) -> npt.NDArray[np.uint8]:
        """An enumeration column as the members' numbers."""
        if name not in self._cache:
            array = _array(self._table.column(name))
            known = _MEMBERS[name]
            names = array.dictionary.to_pylist()
            unknown = [text for text in names if text not in known]
            indices = self._indices(array)
            if unknown or (len(indices) and int(indices.min()) < 0):
                shown = unknown[0] if unknown else None
                raise HistoryUnreadable(f"judged a history with {name} {shown!r}: expected one of {sorted(known)}")
            lookup = np.array([known[text] for text in names] or [0], dtype=np.uint8)
            is_numbered = bool(np.array_equal(lookup, np.arange(len(lookup))))
            codes = indices.astype(np.uint8) if is_numbered else lookup[indices]
            self._cache[name] = codes if self._order is None else codes[self._order]
        found: npt.NDArray[np.uint8] = self._cache[name]
        return found

    def text(self, name: str, code: int) -> str:
        """The text behind a code; "" for NO_TEXT."""
        if code < 0:
            return ""
        return str(self.dictionary(name)[code].as_py())

    def dictionary(self, name: str) -> pa.Array:
        """All texts of a column; codes index them."""
        if name in ("version", "if_version"):
            self.codes(name)
        if name not in self._texts:
            self._texts[name] = _array(self._table.column(name)).dictionary
        return self._texts[name]

    def code_of(self, name: str, text: str) -> int:
        """The code of a text, or -2, which no row has."""
        found = self._place(self.dictionary(name), text)
        return found if found >= 0 else -2

    def _place(self, texts: pa.Array, text: str) -> int:
        """The position of a text in a dictionary, or -1."""
        # Columns of one recorder share their texts, and looking for what is not there reads them all.
        key = (text, *(0 if buffer is None else buffer.address for buffer in texts.buffers()))
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = pc.index(texts, text).as_py() if len(texts) else -1
        return found

    def text_count(self, name: str) -> int:
        """One more than the largest code."""
        return len(self.dictionary(name))

    def rows(self, *kinds: Kind) -> Ints:
        """Positions of the events of these kinds, ascending."""
        found = self._rows.get(kinds)
        if found is None:
            found = self._rows[kinds] = np.flatnonzero(are_among(self.numbers("kind"), kinds))
        return found

    @cached_property
    def _request_base(self) -> Ints | None:
        """The first number of each run's requests in one dense space; None if the numbers are too sparse for that."""
        runs = int(self.run[-1]) + 1 if self.count else 0
        request = self.integers("request")
        largest = np.zeros(runs, dtype=np.int64)
        if self.count:
            starts = np.flatnonzero(np.concatenate(([True], self.run[1:] != self.run[:-1])))
            largest[self.run[starts]] = np.maximum(np.maximum.reduceat(request, starts), 0) + 1
        base = np.concatenate(([0], np.cumsum(largest)))
        is_dense = float(largest.astype(np.float64).sum()) <= 4.0 * self.count + 1024
        return base if is_dense else None

    @cached_property
    def _sparse_requests(self) -> tuple[Ints, int]:
        request = self.integers("request")
        valid = request >= 0
        known = request[valid]
        width = int(known.max()) + 1 if len(known) else 1
        if (int(self.run[-1]) + 1 if self.count else 1) >= 2**62 // width:
            known = np.unique(known, return_inverse=True)[1].reshape(-1).astype(np.int64)
            width = self.count
        unique, inverse = np.unique(self.run[valid] * width + known, return_inverse=True)
        keys = np.full(self.count, -1, dtype=np.int64)
        keys[valid] = inverse.reshape(-1)
        return keys, len(unique)

    def request_keys(self, rows: Ints) -> Ints:
        """A dense number for (run, request) of these rows; -1 where there is no request. Joins by indexing."""
        base = self._request_base
        if base is None:
            return self._sparse_requests[0][rows]
        request = self.integers("request")[rows]
        # One run's numbers are dense already; nearly always none is missing.
        keys: Ints = request if len(base) == 2 else base[self.run[rows]] + request
        return keys if len(request) == 0 or int(request.min()) >= 0 else np.where(request >= 0, keys, -1)

    @property
    def request_key_count(self) -> int:
        if self._request_base is None:
            return self._sparse_requests[1]
        return int(self._request_base[-1])

    def request_keys_of(self, kind: Kind) -> Ints:
        """`request_keys` of all events of a kind. Read-only: they are looked up once, for every check that joins."""
        found = self._keys.get(kind)
        if found is None:
            found = self._keys[kind] = self.request_keys(self.rows(kind))
            found.flags.writeable = False
        return found

    def index_by_request(self, kind: Kind) -> Ints:
        """For each request key the last event of this kind that carries it, or -1."""
        index = np.full(self.request_key_count + 1, -1, dtype=np.int64)
        index[self.request_keys_of(kind)] = self.rows(kind)
        index[-1] = -1
        return index

    @cached_property
    def sent_by_request(self) -> Ints:
        """For each request key the row of its sending, or -1."""
        return self.index_by_request(Kind.SENT)

    @cached_property
    def replied_by_request(self) -> Ints:
        """For each request key the row of its answer, or -1."""
        return self.index_by_request(Kind.REPLIED)

    def client_key(self, node: Codes, task: Codes) -> Ints:
        """A number for (node, task), equal exactly for equal pairs."""
        return node.astype(np.int64) * (self.text_count("task") + 1) + task + 1

    @cached_property
    def lock_key(self) -> Ints:
        """A number for (run, lock), equal exactly for equal pairs."""
        key = self.run * (self.text_count("lock") + 1)
        key += self.codes("lock")
        key += 1
        return key


class Runs:
    """The runs table as arrays, one entry per run; ABSENT for null."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.count = len(table)
        self._integers: dict[str, Ints] = {}
        self._texts: dict[str, tuple[str, ...]] = {}
        self._claims: list[list[str]] | None = None
        self._maps: dict[str, list[dict[str, Any]]] = {}
        self.number = self.integers("run")
        assert len(np.unique(self.number)) == self.count, "a run has one row"

    def integers(self, name: str) -> Ints:
        """An integer column; ABSENT for null. Read-only: it is made once, for every check that asks."""
        if name not in self._integers:
            values = integers_of(self.table.column(name))
            values.flags.writeable = False
            self._integers[name] = values
        return self._integers[name]

    def texts(self, name: str) -> Sequence[str]:
        """A text column; "" for null. It is made once: some checks ask for it once per violation."""
        if name not in self._texts:
            self._texts[name] = tuple(text or "" for text in self.table.column(name).to_pylist())
        return self._texts[name]

    def lists(self, name: str) -> list[list[str]]:
        return [list(values or ()) for values in self.table.column(name).to_pylist()]

    def claim(self, word: str) -> Flags:
        """Per run: its lock claims this, word by word (`lockref.claims`)."""
        if self._claims is None:
            self._claims = self.lists("claims")
        return np.array([word in claims for claims in self._claims], dtype=np.bool_)

    def maps(self, name: str) -> list[dict[str, Any]]:
        """A column of maps, to read only; an empty map for null. No maps for a table without the column, or a value."""
        if name not in self._maps:
            place = self.table.schema.get_field_index(name)
            is_empty = place < 0 or self.table.column(place).null_count == self.count
            column = () if is_empty else self.table.column(place).to_pylist()
            self._maps[name] = [dict(pairs or ()) for pairs in column]
        return self._maps[name]

    @cached_property
    def is_cut_off(self) -> Flags:
        flags: Flags = _array(self.table.column("is_cut_off")).to_numpy(zero_copy_only=False).astype(np.bool_)
        return flags


def complete_runs(events: pa.Table, runs: pa.Table) -> pa.Table:
    """The runs table, with a row of defaults for every run that has events but no row."""
    numbers = _array(runs.column("run"))
    seen = pc.unique(_array(events.column("run")))
    strangers = seen.filter(pc.invert(pc.is_in(seen, value_set=numbers)))
    if not len(strangers):
        return runs
    defaults: dict[str, object] = {
        "scenario": "",
        "provider": "",
        "world": "",
        "is_cut_off": False,
        "is_inferred": True,
    }
    defaults |= {"must_happen": [], "claims": []}
    rows = [{**defaults, "run": number} for number in sorted(strangers.to_pylist())]
    known = runs.select(RUNS_SCHEMA.names).cast(RUNS_SCHEMA)
    return pa.concat_tables([known, pa.Table.from_pylist(rows, RUNS_SCHEMA)])
