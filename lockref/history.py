"""The history record: the only thing that passes from running to judging.

One event is one row; one table may hold many runs. Simulated and real runs
write the same columns, described in docs/history.md. Appending an event costs
about a microsecond: text is replaced by small numbers on the way in, a row is
eighteen integers packed into bytes, and columns are built once at the end.

`Recorder` belongs to one run. `to_table` joins any number of recorders into
one Arrow table; `digest` names a run's content, equal exactly when two runs
recorded the same events in the same order.
"""

from __future__ import annotations

import hashlib
import itertools
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lockref.words import ABSENT, Kind, Op, Outcome, detail

FORMAT_VERSION = 1
Stamp = tuple[int, int, int, str]
"""When and who, read together: true time, wall and monotonic reading of the process, name of the running task."""

INTEGER_COLUMNS = ("seq", "at_ns", "wall_ns", "mono_ns", "request", "attempt", "token", "valid_until_ns")
TEXT_COLUMNS = ("node", "task", "lock", "if_version", "version", "content", "owner", "detail")
ENUM_COLUMNS: dict[str, type[IntEnum]] = {"kind": Kind, "op": Op, "outcome": Outcome}

_DICTIONARY = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        pa.field("run", pa.int64(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("at_ns", pa.int64(), nullable=False),
        pa.field("wall_ns", pa.int64()),
        pa.field("mono_ns", pa.int64()),
        pa.field("node", _DICTIONARY, nullable=False),
        pa.field("task", _DICTIONARY),
        pa.field("lock", _DICTIONARY),
        pa.field("kind", _DICTIONARY, nullable=False),
        pa.field("op", _DICTIONARY, nullable=False),
        pa.field("outcome", _DICTIONARY, nullable=False),
        pa.field("request", pa.int64()),
        pa.field("attempt", pa.int64()),
        pa.field("if_version", _DICTIONARY),
        pa.field("version", _DICTIONARY),
        pa.field("content", _DICTIONARY),
        pa.field("token", pa.int64()),
        pa.field("owner", _DICTIONARY),
        pa.field("valid_until_ns", pa.int64()),
        pa.field("detail", _DICTIONARY),
    ],
    metadata={b"lockref.history": str(FORMAT_VERSION).encode()},
)
"""The one history schema."""

RUNS_SCHEMA = pa.schema(
    [
        pa.field("run", pa.int64(), nullable=False),
        pa.field("seed", pa.int64()),
        pa.field("scenario", pa.string(), nullable=False),
        pa.field("provider", pa.string(), nullable=False),
        pa.field("world", pa.string(), nullable=False),
        pa.field("backend", pa.string()),
        pa.field("clients", pa.int64()),
        pa.field("processes", pa.int64()),
        pa.field("validity_ns", pa.int64()),
        pa.field("poll_interval_ns", pa.int64()),
        pa.field("request_timeout_ns", pa.int64()),
        pa.field("wait_timeout_ns", pa.int64()),
        pa.field("drift_bound_ns", pa.int64()),
        pa.field("rate_error_ppm", pa.int64()),
        pa.field("faults_end_ns", pa.int64()),
        pa.field("end_ns", pa.int64()),
        pa.field("is_cut_off", pa.bool_(), nullable=False),
        pa.field("must_happen", pa.list_(pa.string()), nullable=False),
        pa.field("claims", pa.list_(pa.string()), nullable=False),
        pa.field("digest", pa.string()),
        pa.field("unsafe", pa.string()),
        pa.field("event_count", pa.int64()),
        pa.field("is_inferred", pa.bool_()),
        pa.field("node_providers", pa.map_(pa.string(), pa.string())),
        pa.field("lock_protocols", pa.map_(pa.string(), pa.string())),
        pa.field("watch_ns", pa.int64()),
        pa.field("host_late_ns", pa.int64()),
        pa.field("think_ns", pa.int64()),
        pa.field("fault_effects", pa.map_(pa.string(), pa.int64())),
        pa.field("thresholds", pa.list_(pa.string())),
        pa.field("tasks_left", pa.list_(pa.string())),
    ],
    metadata={b"lockref.runs": str(FORMAT_VERSION).encode()},
)
"""One row per run: what the checks must know besides the events.

`world` is "simulated" or "real". `faults_end_ns` is the true time after which
nothing disturbs the run (the liveness clauses start there; null: they do not
apply). `rate_error_ppm` is the largest clock rate error (ρ). `must_happen`
names the situations without which the run proves nothing; `claims` the
optional clauses that the provider promises, and what it declares of itself
(`lockref.claims`). `unsafe` says what RFC-91 would forbid about the lock's timing; null where it forbids nothing.
`event_count` is how many events the run recorded: a record with fewer was cut off, one with more is damaged.
`is_inferred`: nobody described the run, so that its clock bounds are unknown; where it is described, a bound that is
null counts as none.
`node_providers`: node to the provider that it ran, of runs with several; null where all ran `provider`.
`lock_protocols`: lock to the protocol by which it tells of its grants (`reports.checks.facts.sources.protocols`); a
lock that is not named keeps a record under compare-and-set. `watch_ns`: for how long a waiter of this lock must have
seen one unchanged record before it takes over; null where records say themselves when they end.
`host_late_ns`: of a real run, by how much the machine woke a thread too late at its worst; null where nobody measured.
`think_ns`: how long
clients pause at most between two calls; a client that asks again so soon went on waiting.
`fault_effects`: the id of each fault of the plan to how often it changed something; null where nobody counted. A fault
strikes by its plan (FAULT rows), and may change nothing: the answer that it loses is that of a refused write.
`thresholds`: limits on what is measured, as `reports.checks.thresholds.limits` reads them; null: none is demanded.
`tasks_left`: `NODE/TASK` of each thread or task of a lock that still ran when all clients had closed their locks; null
where nobody counted.
"""


class RunRow(TypedDict, total=False):
    """A row of the runs table (`RUNS_SCHEMA`). Keys may be left out: see `runs_table`."""

    run: int
    seed: int
    scenario: str
    provider: str
    world: str
    backend: str
    clients: int
    processes: int | None
    validity_ns: int | None
    poll_interval_ns: int
    request_timeout_ns: int
    wait_timeout_ns: int
    drift_bound_ns: int
    rate_error_ppm: int
    faults_end_ns: int | None
    end_ns: int
    is_cut_off: bool
    must_happen: list[str]
    claims: list[str]
    digest: str | None
    unsafe: str | None
    event_count: int
    is_inferred: bool
    node_providers: dict[str, str] | None
    lock_protocols: dict[str, str] | None
    watch_ns: int | None
    host_late_ns: int
    think_ns: int
    fault_effects: dict[str, int] | None
    thresholds: list[str] | None
    tasks_left: list[str] | None


# A row in the flat array: the integer columns without `seq`, the text columns
# as codes, the enumerations as their numbers. `seq` is the row's position.
ROW_COLUMNS = (
    "at_ns", "wall_ns", "mono_ns", "node", "task", "lock", "kind", "op", "outcome",
    "request", "attempt", "if_version", "version", "content", "token", "owner", "valid_until_ns", "detail",
)  # fmt: skip
_ROW = struct.Struct(f"{len(ROW_COLUMNS)}q")
_PACK = _ROW.pack
_SLOT = {name: position for position, name in enumerate(ROW_COLUMNS)}


CHILD_SUFFIX = "-child"
"""What the forked child of node n1 is called: n1-child. A node is a process."""

REQUESTS_PER_PROCESS = 10**12
"""In a real run over several processes, the request numbers of the n-th begin at (n - 1) times this."""


class Recorder:
    """Collects the events of one run, in memory. For one thread at a time, as in a simulation, where a mutex for each
    new text would take a hundredth of a run; threads of a real run share a `SpoolRecorder`.

    is_detailed: whoever writes events says in their `detail` what only a threshold asks for: how long a call would
        wait, how many bytes a written body has. Unasked, nobody says so, and the digests of runs do not depend on it.
    """

    __slots__ = ("_append", "_codes", "_rows", "is_detailed", "texts")

    def __init__(self) -> None:
        # Rows of bytes, and not one array: to lengthen an array by a row takes five times as long, and copies it again
        # and again.
        self._rows: list[bytes] = []
        self._append: Callable[[bytes], object] = self._rows.append
        self.texts: list[str] = [""]
        self._codes: dict[str, int] = {"": 0}
        self.is_detailed = False

    def __len__(self) -> int:
        return len(self._rows)

    def __reduce__(self) -> tuple[object, ...]:
        return Recorder.of, (self._row_bytes(), self.texts)

    @classmethod
    def of(cls, rows: bytes, texts: list[str]) -> Recorder:
        """The recorder whose rows and texts these are."""
        recorder = cls()
        recorder._rows += [rows[start : start + _ROW.size] for start in range(0, len(rows), _ROW.size)]
        recorder.texts[:] = texts
        recorder._codes.update({text: code for code, text in enumerate(texts)})
        return recorder

    def _number(self, text: str) -> None:
        """Give a number to a text that is seen for the first time."""
        self.texts.append(text)
        self._codes[text] = len(self.texts) - 1

    def _make_room(self, row: bytes) -> None:
        """Called where `_append` raised ValueError; for recorders with files of limited length."""
        raise AssertionError("a list in memory takes every row")

    def event(
        self,
        kind: int,
        stamp: Stamp,
        node: str,
        lock: str = "",
        op: int = 0,
        outcome: int = 0,
        request: int = ABSENT,
        attempt: int = ABSENT,
        if_version: str = "",
        version: str = "",
        content: str = "",
        token: int = ABSENT,
        owner: str = "",
        valid_until_ns: int = ABSENT,
        detail: str = "",
    ) -> None:
        """Append one event. Empty text and ABSENT mean "no value".

        The arguments have the order of the columns. The recorders of requests give all of them by position, because
        names cost time with every request. Other callers give by name what could be mistaken for its neighbour. Not a
        row object: making one costs half of what appending costs.
        """
        at_ns, wall_ns, mono_ns, task = stamp
        codes = self._codes
        # What a slot holds is fetched before it is called, here and wherever each request passes: Python 3.11 takes
        # several times as long to call it as it would a method of that name.
        while True:
            try:
                row = _PACK(
                    at_ns, wall_ns, mono_ns, codes[node], codes[task], codes[lock], kind, op, outcome,
                    request, attempt, codes[if_version], codes[version], codes[content], token,
                    codes[owner], valid_until_ns, codes[detail],
                )  # fmt: skip
                break
            except KeyError as missed:
                # A text that is seen for the first time. Texts are looked up in the order of the columns, and so the
                # order of first use is part of the digest. A dictionary that numbers what it misses would spare the
                # exception, and every other event would pay for that.
                self._number(missed.args[0])
        append = self._append
        try:
            append(row)
        except ValueError:
            self._make_room(row)

    def matrix(self) -> np.ndarray:
        """The rows so far, one column per recorded field, text as codes into `texts`."""
        return np.frombuffer(self._row_bytes(), dtype=np.int64).reshape(-1, len(ROW_COLUMNS))

    def _row_bytes(self) -> bytes:
        """The rows so far, one after the other."""
        return b"".join(self._rows)

    def digest(self) -> str:
        """BLAKE2b of the events in order. Codes are given in order of first use, so they agree, too."""
        digest = hashlib.blake2b(self._row_bytes(), digest_size=16)
        digest.update("\x00".join(self.texts).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


_WORDS = {name: [member.name.lower() for member in members] for name, members in ENUM_COLUMNS.items()}


def _column(name: str, values: np.ndarray, texts: pa.Array) -> pa.Array:
    if name in ENUM_COLUMNS:
        return pa.DictionaryArray.from_arrays(pa.array(values.astype(np.int32)), pa.array(_WORDS[name]))
    if name in TEXT_COLUMNS:
        # A node has a name in every row; the empty one is the world itself.
        absent = values == 0 if SCHEMA.field(name).nullable else None
        return pa.DictionaryArray.from_arrays(pa.array(values.astype(np.int32), mask=absent), texts)
    return pa.array(values, mask=values == ABSENT)


def _texts(texts: list[str]) -> pa.Array:
    try:
        return pa.array(texts, type=pa.string())
    except UnicodeEncodeError:
        # Half a surrogate pair, from a record whose JSON says so: a history is UTF-8, and shows it escaped.
        return pa.array([text.encode("utf-8", "backslashreplace").decode() for text in texts], type=pa.string())


def to_table(recorders: Sequence[Recorder], runs: Sequence[int] | None = None) -> pa.Table:
    """Join recorders into one table of `SCHEMA`, in the order given.

    runs: the run number of each; default 0, 1, 2, …
    """
    numbers = range(len(recorders)) if runs is None else runs
    assert len(numbers) == len(recorders), "one run number per recorder"
    union: dict[str, int] = {"": 0}
    blocks: list[np.ndarray] = []
    text_slots = [_SLOT[name] for name in TEXT_COLUMNS]
    for recorder in recorders:
        recoded = np.array([union.setdefault(text, len(union)) for text in recorder.texts], dtype=np.int64)
        block = recorder.matrix()
        if len(recorders) > 1:
            block = block.copy()
            block[:, text_slots] = recoded[block[:, text_slots]]
        blocks.append(block)
    if len(blocks) == 1:
        # One recorder's texts are the union: nothing to recode, and a long run's rows are not copied.
        [rows] = blocks
    else:
        rows = np.concatenate(blocks) if blocks else np.empty((0, len(ROW_COLUMNS)), dtype=np.int64)
    lengths = np.array([len(block) for block in blocks], dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    run = np.repeat(np.array(list(numbers), dtype=np.int64), lengths)
    seq = np.arange(len(rows), dtype=np.int64) - np.repeat(starts, lengths)
    texts = _texts(list(union))
    columns = {"run": pa.array(run), "seq": pa.array(seq)}
    for name in ROW_COLUMNS:
        columns[name] = _column(name, rows[:, _SLOT[name]], texts)
    return pa.table([columns[field.name] for field in SCHEMA], schema=SCHEMA)


def one_run(tables: Sequence[pa.Table]) -> pa.Table:
    """Several recorders' rows as one run, number 0, in the order of true time.

    The sort is stable, so each recorder's order stays; `seq` is counted anew.
    """
    joined = pa.concat_tables(tables or [SCHEMA.empty_table()]).unify_dictionaries().combine_chunks()
    joined = joined.take(pc.sort_indices(joined, sort_keys=[("at_ns", "ascending")]))
    rows = len(joined)
    columns = {"run": pa.array(np.zeros(rows, dtype=np.int64)), "seq": pa.array(np.arange(rows, dtype=np.int64))}
    return pa.table([columns.get(field.name, joined.column(field.name)) for field in SCHEMA], schema=SCHEMA)


def digests(events: pa.Table) -> dict[int, str]:
    """By run, the digest that `Recorder.digest` gave when these events were recorded, in the order of `seq`.

    events: of `SCHEMA`; read from a file, told by somebody else, or changed since.
    """
    table = events.sort_by([("run", "ascending"), ("seq", "ascending")])
    rows = np.full((len(table), len(ROW_COLUMNS)), ABSENT, dtype=np.int64)
    texts: list[str] = [""]
    for name in ROW_COLUMNS:
        column = table[name].combine_chunks()
        if name in ENUM_COLUMNS:
            known = {member.name.lower(): member.value for member in ENUM_COLUMNS[name]}
            column = pc.replace_with_mask(column.cast(pa.string()), pc.is_null(column), "none")
            words = column.dictionary_encode()
            numbers = np.array([known[word] for word in words.dictionary.to_pylist()], dtype=np.int64)
            rows[:, _SLOT[name]] = numbers[words.indices.to_numpy()]
        elif name in TEXT_COLUMNS:
            words = pc.fill_null(column.cast(pa.string()), "").dictionary_encode()
            codes = np.arange(len(words.dictionary), dtype=np.int64) + len(texts)
            texts += words.dictionary.to_pylist()
            rows[:, _SLOT[name]] = codes[words.indices.to_numpy()]
        else:
            rows[:, _SLOT[name]] = pc.fill_null(column, ABSENT).to_numpy(zero_copy_only=False)
    run = table["run"].to_numpy()
    edges = [0, *(np.flatnonzero(run[1:] != run[:-1]) + 1).tolist(), len(run)]
    return {
        int(run[start]): _digest_of(rows[start:end], texts) for start, end in itertools.pairwise(edges) if start < end
    }


def _digest_of(rows: np.ndarray, texts: Sequence[str]) -> str:
    """The rows of one run, with text as codes into `texts`, as a recorder of its own would have kept them."""
    recorder = Recorder()
    slots = [_SLOT[name] for name in TEXT_COLUMNS]
    codes = rows[:, slots]
    known, place = np.unique(codes, return_inverse=True)
    place = place.reshape(codes.shape)
    first = np.full(len(known), codes.size, dtype=np.int64)
    np.minimum.at(first, place.reshape(-1), np.arange(codes.size))
    fresh = [code for code in known[np.argsort(first, kind="stable")].tolist() if texts[code]]
    recorder.texts += dict.fromkeys(texts[code] for code in fresh)
    number = {text: code for code, text in enumerate(recorder.texts)}
    recoded = rows.copy()
    recoded[:, slots] = np.array([number[texts[code]] for code in known.tolist()], dtype=np.int64)[place]
    return Recorder.of(recoded.tobytes(), recorder.texts).digest()


def runs_table(rows: Iterable[Mapping[str, object]]) -> pa.Table:
    """Rows as dictionaries to `RUNS_SCHEMA`; keys left out are null, lists empty, `is_cut_off` false."""
    defaults: dict[str, object] = {"is_cut_off": False, "must_happen": [], "claims": []}
    return pa.Table.from_pylist([{**defaults, **row} for row in rows], schema=RUNS_SCHEMA)


CUT_SHORT = detail(cut_short=True)
"""`detail` of an acquire's denial whose client would have waited on, had the run not been at its end."""
QUEUED = detail(queued=True)
"""`detail` of the call of a commit that its client puts into a queue, for whoever serves that."""


def batch_digest(digests: Iterable[str]) -> str:
    """One name for the content of many runs, in the order of their seeds."""
    joined = hashlib.blake2b(digest_size=16)
    for digest in digests:
        joined.update(digest.encode())
    return joined.hexdigest()


def history_digest(events: pa.Table) -> str:
    """The digest of a recorded history, which is that of the batch whose runs it holds all of."""
    told = digests(events)
    return batch_digest(told[run] for run in sorted(told))
