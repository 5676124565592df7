"""Tables of the durations of a history: calls, requests, samples, clients and fairness.

A *sample* is one duration with what it measures. Nothing is dropped: a wait that ended in a denial, a timeout or an
unknown outcome is a sample with that outcome.

    wait      call of an acquire to its answer, by outcome
    hold      a grant's answer to the same task's call of release
    release   call of a release to its answer, by outcome
    request   a store request from leaving the client to its answer, by operation and outcome
    lease     what was left of the promised validity, by the holder's own clock, when it
              sent a renewal; below zero the promise had already ended
    handoff   from the end of a grant to the grant of one who waits for it, after
              release, expiry or death: as the checks measure it (`reports.checks.measures.handoff`)

Fairness is counted from granted answers, so that a client that asked and never got is there with zero. Jain's index of
a run is (Σx)² / (n·Σx²) over its clients that asked: 1 where all got the same, 1/n where one got everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lockref.history import CUT_SHORT
from lockref.words import ABSENT
from reports.checks.facts.columns import Flags, Ints
from reports.checks.witness_rows import CUT_SHORT_WORD

Floats = npt.NDArray[np.float64]

NO_TEXT: Final = -1
"""Stands for null among the codes of a text column."""


@dataclass(frozen=True, slots=True)
class Texts:
    """A text column as codes: `words[code]` is the text, `NO_TEXT` is null."""

    codes: Ints
    words: list[str]

    def array(self, rows: Ints) -> pa.Array:
        """The texts of these rows, as plain strings."""
        codes = self.codes[rows].astype(np.int32)
        indices = pa.array(codes, mask=codes == NO_TEXT)
        return pa.DictionaryArray.from_arrays(indices, pa.array(self.words, pa.string())).cast(pa.string())

    def is_word(self, word: str) -> Flags:
        """The rows that say this word."""
        found: Flags = self.codes == (self.words.index(word) if word in self.words else NO_TEXT - 1)
        return found


def texts(table: pa.Table, name: str) -> Texts:
    """A text column of a table: plain, or a dictionary in which a word may stand twice."""
    column = table[name].combine_chunks()
    if not pa.types.is_dictionary(column.type):
        column = pc.cast(column, pa.string()).dictionary_encode()
    codes: Ints = pc.fill_null(column.indices.cast(pa.int64()), NO_TEXT).to_numpy(zero_copy_only=False)
    words = column.dictionary.to_pylist()
    places = {word: place for place, word in reversed(list(enumerate(words)))}
    if len(places) < len(words):
        codes = np.array([*(places[word] for word in words), NO_TEXT], dtype=np.int64)[codes]
    return Texts(codes, words)


def integers(table: pa.Table, name: str) -> Ints:
    """An integer column, ABSENT where it is null."""
    values: Ints = pc.fill_null(table[name].cast(pa.int64()), ABSENT).to_numpy()
    return values


def optional(values: Ints) -> pa.Array:
    """The opposite of `integers`."""
    return pa.array(values, pa.int64(), mask=values == ABSENT)


def in_groups(*keys: Ints, then: tuple[Ints, ...] = ()) -> tuple[Ints, Ints]:
    """The order that brings equal keys together, and the place at which each group begins in that order.

    then: what orders the rows within a group, the most significant first. Rows that are equal in all stay as they are.
    """
    order = np.lexsort((*reversed(then), *reversed(keys)))
    opens = np.zeros(len(order), dtype=np.bool_)
    opens[:1] = True
    for key in keys:
        ordered = key[order]
        opens[1:] |= ordered[1:] != ordered[:-1]
    return order, np.flatnonzero(opens)


def history_tables(events: pa.Table, handoffs: pa.Table) -> dict[str, pa.Table]:
    """Every table by name. events: of `SCHEMA`. handoffs: of the same runs, as the judge measures them."""
    calls, requests = calls_table(events), requests_table(events)
    clients = clients_table(calls)
    return {
        "calls": calls,
        "requests": requests,
        "samples": samples_table(events, calls, requests, handoffs),
        "clients": clients,
        "fairness": fairness_table(calls, clients),
    }


def _of_kinds(events: pa.Table, *kinds: str) -> pa.Table:
    """The events of these kinds that carry a request."""
    words = pa.array(kinds, pa.string())
    return events.filter(pc.and_(pc.is_in(events["kind"].cast(pa.string()), words), pc.is_valid(events["request"])))


def _least(values: Ints, wanted: Flags, order: Ints, starts: Ints) -> Ints:
    """Per group the least of the wanted values; ABSENT where there is none."""
    most = np.iinfo(np.int64).max
    found = np.minimum.reduceat(np.where(wanted, values, most)[order], starts) if len(starts) else starts
    return np.where(found == most, ABSENT, found)


def _greatest(values: Ints, wanted: Flags, order: Ints, starts: Ints) -> Ints:
    """Per group the greatest of the wanted values; ABSENT where there is none."""
    return np.maximum.reduceat(np.where(wanted, values, ABSENT)[order], starts) if len(starts) else starts


def _last_words(said: Texts, wanted: Flags, order: Ints, starts: Ints) -> pa.Array:
    """Per group the last of the wanted words by the alphabet; null where there is none."""
    words = sorted(said.words)
    rank = np.array([words.index(word) for word in said.words] or [0], dtype=np.int64)
    found = _greatest(rank[said.codes], wanted & (said.codes != NO_TEXT), order, starts)
    indices = pa.array(np.where(found == ABSENT, 0, found).astype(np.int32), mask=found == ABSENT)
    return pa.DictionaryArray.from_arrays(indices, pa.array(words, pa.string())).cast(pa.string())


def calls_table(events: pa.Table) -> pa.Table:
    """One row for each call of a lock, with its answer and what the same task called next."""
    rows = _of_kinds(events, "call", "return")
    run, request, at = (integers(rows, name) for name in ("run", "request", "at_ns"))
    kind = texts(rows, "kind")
    is_return = kind.is_word("return")
    order, starts = in_groups(run, request)
    first = order[starts]
    call_ns = _least(at, kind.is_word("call"), order, starts)
    columns = {
        "run": pa.array(run[first]),
        "request": pa.array(request[first]),
        **{name: texts(rows, name).array(first) for name in ("node", "task", "lock", "op")},
        "call_ns": optional(call_ns),
        "return_ns": optional(_greatest(at, is_return, order, starts)),
        "outcome": _last_words(_answers(rows), is_return, order, starts),
    }
    table = pa.table(columns).filter(pa.array(call_ns != ABSENT))
    return _with_next(table)


def _answers(rows: pa.Table) -> Texts:
    """The outcomes; a denial at the end of the run, whose client would have waited on, has a word of its own."""
    outcome = texts(rows, "outcome")
    codes = np.where(texts(rows, "detail").is_word(CUT_SHORT), len(outcome.words), outcome.codes)
    return Texts(codes, [*outcome.words, CUT_SHORT_WORD])


def _with_next(calls: pa.Table) -> pa.Table:
    """A hold ends where its owner sets out to release: the next call of the same task stands beside each call."""
    run, request, at = (integers(calls, name) for name in ("run", "request", "call_ns"))
    op = texts(calls, "op")
    order, starts = in_groups(run, texts(calls, "node").codes, texts(calls, "task").codes, then=(at, request))
    following = np.roll(order, -1)
    ends = np.append(starts[1:], len(order)) - 1 if len(starts) else starts
    next_op = Texts(np.append(op.codes, NO_TEXT), op.words)
    following[ends] = len(order)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = following
    next_at = np.append(at, ABSENT)[place]
    return calls.append_column("next_op", next_op.array(place)).append_column("next_call_ns", optional(next_at))


def requests_table(events: pa.Table) -> pa.Table:
    """One row for each store request, with its answer."""
    rows = _of_kinds(events, "sent", "replied")
    run, request, at = (integers(rows, name) for name in ("run", "request", "at_ns"))
    kind = texts(rows, "kind")
    is_sent, is_reply = kind.is_word("sent"), kind.is_word("replied")
    order, starts = in_groups(run, request)
    first = order[starts]
    sent_ns = _least(at, is_sent, order, starts)
    columns = {
        "run": pa.array(run[first]),
        "request": pa.array(request[first]),
        "node": texts(rows, "node").array(first),
        "op": _last_words(texts(rows, "op"), is_sent, order, starts),
        "sent_ns": optional(sent_ns),
        "replied_ns": optional(_least(at, is_reply, order, starts)),
        "outcome": _last_words(texts(rows, "outcome"), is_reply, order, starts),
    }
    return pa.table(columns).filter(pa.array(sent_ns != ABSENT))


SAMPLES: Final = pa.schema(
    [("run", pa.int64()), ("measure", pa.string()), ("op", pa.string()), ("outcome", pa.string()),
     ("value_ns", pa.int64()), ("at_ns", pa.int64())]
)  # fmt: skip
"""One duration each; see the head of this module."""


def samples_table(events: pa.Table, calls: pa.Table, requests: pa.Table, handoffs: pa.Table) -> pa.Table:
    """Every duration."""
    answered = calls.filter(pc.is_valid(calls["return_ns"]))
    replied = requests.filter(pc.is_valid(requests["replied_ns"]))
    granted = answered.filter(pc.equal(answered["outcome"], "applied"))
    held = granted.filter(pc.and_(pc.equal(granted["op"], "acquire"), pc.equal(granted["next_op"], "release")))
    renewals = _renewals(events)
    after = pc.binary_join_element_wise("after", handoffs["after"].cast(pa.string()), " ")
    parts = []
    for measure, op in (("wait", "acquire"), ("release", "release")):
        own = answered.filter(pc.equal(answered["op"], op))
        took = pc.subtract(own["return_ns"], own["call_ns"])
        parts.append(_samples(own["run"], measure, "", own["outcome"], took, own["call_ns"]))
    held_for = pc.subtract(held["next_call_ns"], held["return_ns"])
    served_in = pc.subtract(replied["replied_ns"], replied["sent_ns"])
    parts += [
        _samples(held["run"], "hold", "", held["outcome"], held_for, held["return_ns"]),
        _samples(replied["run"], "request", replied["op"], replied["outcome"], served_in, replied["sent_ns"]),
        _samples(renewals["run"], "lease", "", "sent", renewals["left_ns"], renewals["at_ns"]),
        _samples(handoffs["run"], "handoff", after, "applied", handoffs["handoff_ns"], handoffs["at_ns"]),
    ]
    return pa.concat_tables(parts)


def _samples(
    run: pa.ChunkedArray,
    measure: str,
    op: pa.ChunkedArray | str,
    outcome: pa.ChunkedArray | str,
    value_ns: pa.ChunkedArray,
    at_ns: pa.ChunkedArray,
) -> pa.Table:
    texts_of = [
        pa.repeat(pa.scalar(text, pa.string()), len(run)) if isinstance(text, str) else text
        for text in (measure, op, outcome)
    ]
    return pa.table([run, *texts_of, value_ns, at_ns], names=SAMPLES.names).cast(SAMPLES)


def _renewals(events: pa.Table) -> pa.Table:
    """Renewals with what was left, by the holder's own clock, of the validity that the write before had promised."""
    named = pc.and_(pc.equal(events["kind"].cast(pa.string()), "sent"), pc.is_valid(events["owner"]))
    wanted = pc.is_in(events["op"].cast(pa.string()), pa.array(["acquire", "renew"]))
    rows = events.filter(pc.and_(named, wanted))
    run, at, request, until = (integers(rows, name) for name in ("run", "at_ns", "request", "valid_until_ns"))
    who = [texts(rows, name).codes for name in ("node", "lock", "owner")]
    order, starts = in_groups(run, *who, then=(at, request))
    before = np.roll(order, 1)
    promised = np.full(len(order), ABSENT, dtype=np.int64)
    promised[order] = until[before]
    promised[order[starts]] = ABSENT
    told = pa.table({"run": pa.array(run), "at_ns": pa.array(at), "promised_ns": optional(promised)})
    told = told.append_column("left_ns", pc.subtract(told["promised_ns"], rows["wall_ns"]))
    return told.filter(pc.and_(pc.equal(rows["op"].cast(pa.string()), "renew"), pc.is_valid(told["promised_ns"])))


def clients_table(calls: pa.Table) -> pa.Table:
    """Per run and client: calls, grants, median and longest wait."""
    rows = calls.filter(pc.equal(calls["op"], "acquire"))
    run, began, ended = (integers(rows, name) for name in ("run", "call_ns", "return_ns"))
    node, task = texts(rows, "node"), texts(rows, "task")
    wait = np.where(ended == ABSENT, ABSENT, ended - began)
    # Open calls stand first in their group: ABSENT is less than every wait.
    order, starts = in_groups(run, node.codes, task.codes, then=(wait,))
    ends = np.append(starts[1:], len(order)) if len(starts) else starts
    is_granted = texts(rows, "outcome").is_word("applied").astype(np.int64)
    answered = (wait != ABSENT).astype(np.int64)
    known = np.add.reduceat(answered[order], starts) if len(starts) else starts
    first = order[starts]
    return pa.table(
        {
            "run": pa.array(run[first]),
            "node": node.array(first),
            "task": task.array(first),
            "asked": pa.array(ends - starts),
            "granted": pa.array(np.add.reduceat(is_granted[order], starts) if len(starts) else starts),
            "wait_p50_ns": _medians(wait[order], ends, known),
            "wait_max_ns": optional(_greatest(wait, wait != ABSENT, order, starts)),
        }
    )


def _medians(ordered: Ints, ends: Ints, known: Ints) -> pa.Array:
    """Per group the median of its known values, which are the last ones before its end; null where it has none."""
    low = np.maximum(ends - known + (known - 1) // 2, 0)
    high = np.maximum(ends - known + known // 2, 0)
    medians = 0.5 * ordered[low] + 0.5 * ordered[high] if len(ends) else np.zeros(0)
    return pa.array(
        np.where(low == high, ordered[low], medians) if len(ends) else medians, pa.float64(), mask=known == 0
    )


def fairness_table(calls: pa.Table, clients: pa.Table) -> pa.Table:
    """Per run: clients, grants, Jain's index, the most and the fewest grants, the longest streak of one client."""
    run, granted = integers(clients, "run"), integers(clients, "granted")
    order, starts = in_groups(run)
    numbers = run[order[starts]]
    streaks = _streaks(calls)

    def added(values: Ints) -> Ints:
        return np.add.reduceat(values[order], starts) if len(starts) else starts

    count, grants, squares = added(np.ones_like(granted)), added(granted), added(granted * granted)
    with np.errstate(divide="ignore", invalid="ignore"):
        jain = grants.astype(np.float64) ** 2 / (count * squares)
    return pa.table(
        {
            "run": pa.array(numbers),
            "clients": pa.array(count),
            "grants": pa.array(grants),
            "jain": pa.array(jain, pa.float64(), mask=squares == 0),
            "most": pa.array(np.maximum.reduceat(granted[order], starts) if len(starts) else starts),
            "least": pa.array(np.minimum.reduceat(granted[order], starts) if len(starts) else starts),
            "longest_streak": pa.array([streaks.get(number, 0) for number in numbers.tolist()], pa.int64()),
        }
    )


def _streaks(calls: pa.Table) -> dict[int, int]:
    """By run, the most successive grants of one lock that went to one client."""
    is_grant = pc.and_(pc.equal(calls["op"], "acquire"), pc.equal(calls["outcome"], "applied"))
    rows = calls.filter(pc.fill_null(is_grant, fill_value=False))
    run, ended, request = (integers(rows, name) for name in ("run", "return_ns", "request"))
    lock, node, task = (texts(rows, name).codes for name in ("lock", "node", "task"))
    order = np.lexsort((request, ended, lock, run))
    opens = np.zeros(len(order), dtype=np.bool_)
    opens[:1] = True
    for key in (run, lock, node, task):
        opens[1:] |= key[order][1:] != key[order][:-1]
    starts = np.flatnonzero(opens)
    lengths = np.diff(np.append(starts, len(order)))
    longest: dict[int, int] = {}
    for number, length in zip(run[order][starts].tolist(), lengths.tolist(), strict=True):
        longest[number] = max(longest.get(number, 0), length)
    return longest
