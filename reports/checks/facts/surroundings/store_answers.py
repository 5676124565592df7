"""Did the store answer? Measured per real run from what was sent and what came back.

A lock that met a dead store broke nothing, and proved nothing either. So a
run on a real server says for how long the store answered, and how many
requests it left without an answer:

    served      applied, precondition failed, conflict, throttled: a 409, a 412
                and a 429 are answers
    refused     rejected: the store answered that it will not do it (401, 403, 501). Refused without any word about a
                lock's or an object's state, such as a listing that the store does not know, it is an answer like others
    unanswered  ambiguous (no connection, no reply in time, 5xx), or no reply
                at all until the end of the record

A *silence* is a stretch of at least `SILENCE_MIN_NS` in which requests were
open or failed and none was served. It begins with the first such request after
the last served one. It ends with the next served request, or with the last
request that failed if nobody asked between. Where nothing failed and an answer
was only late, the wait must be far longer than requests of that run take, too:
a slow store is no silent one. A silence that lasts to the end of the run is a
*loss*: the store never came back.

A simulation cuts its networks on purpose, so only real runs are measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lockref.words import ABSENT, Kind, Op, Outcome
from reports.checks.disturbances import Disturbances
from reports.checks.facts.clocks import FOREVER
from reports.checks.facts.columns import Events, Flags, Ints, Runs, are_among
from reports.checks.facts.sources.truth import Truth
from reports.checks.facts.surroundings.contradictions import Contradictions, describe_contradiction

SILENCE_MIN_NS: Final = 1_000_000_000
"""Shorter stretches are no silence."""
LATE_FACTOR: Final = 5
"""How many median request times a stretch without a failed request must last to count as a silence."""

BUCKETS_MAX: Final = 120
"""Rows of `over_time` at most."""
_BUCKET_NS: Final = 1_000_000_000

_SILENCE = pa.struct(
    [
        pa.field("begin_ns", pa.int64(), nullable=False),
        pa.field("end_ns", pa.int64(), nullable=False),
        pa.field("unanswered", pa.int64(), nullable=False),
        pa.field("refused", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
    ]
)
_BUCKET = pa.struct(
    [
        pa.field("begin_ns", pa.int64(), nullable=False),
        pa.field("end_ns", pa.int64(), nullable=False),
        pa.field("requests", pa.int64(), nullable=False),
        pa.field("unanswered", pa.int64(), nullable=False),
        pa.field("refused", pa.int64(), nullable=False),
    ]
)
STORE_ANSWERS_SCHEMA: Final = pa.schema(
    [
        pa.field("run", pa.int64(), nullable=False),
        pa.field("run_ns", pa.int64(), nullable=False),
        pa.field("requests", pa.int64(), nullable=False),
        pa.field("unanswered", pa.int64(), nullable=False),
        pa.field("refused", pa.int64(), nullable=False),
        pa.field("unanswered_share", pa.float64(), nullable=False),
        pa.field("silent_ns", pa.int64(), nullable=False),
        pa.field("silent_share", pa.float64(), nullable=False),
        pa.field("lost_at_ns", pa.int64()),
        pa.field("contradicted", pa.int64(), nullable=False),
        pa.field("contradiction", pa.string()),
        pa.field("contradiction_ns", pa.int64()),
        pa.field("silences", pa.list_(_SILENCE), nullable=False),
        pa.field("over_time", pa.list_(_BUCKET), nullable=False),
    ]
)
"""One row per real run. Instants count from the run's begin.

lost_at_ns: from when on the store served nothing more, null if it served to
the end. contradicted: readings that showed a state which a confirmed write had
replaced (`reports.checks.facts.surroundings.contradictions`); contradiction, contradiction_ns: the first of
them in words, and when it was shown. over_time: requests by the time at which they ended, a second each, or
longer ones where there would be more than `BUCKETS_MAX`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A stretch without a served request, in true time. reason: what its failed requests mostly said."""

    begin_ns: int
    end_ns: int
    unanswered: int = 0
    refused: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAnswers:
    """The answers of one real run's store. `run` is a position in the runs table; times are true ones."""

    run: int
    begin_ns: int
    end_ns: int
    requests: int
    unanswered: int
    refused: int
    silences: tuple[Silence, ...]
    is_lost: bool
    over_time: tuple[tuple[int, int, int, int, int], ...]

    @property
    def silent_ns(self) -> int:
        return sum(silence.end_ns - silence.begin_ns for silence in self.silences)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Requests:
    """The store requests of one run, by the instant at which they ended; open ones end with the run."""

    sent_ns: Ints
    end_ns: Ints
    is_served: Flags
    is_refused: Flags
    is_open: Flags
    reply_row: Ints

    @property
    def is_failed(self) -> Flags:
        return ~self.is_served

    def part(self, which: Flags) -> _Requests:
        return _Requests(
            sent_ns=self.sent_ns[which],
            end_ns=self.end_ns[which],
            is_served=self.is_served[which],
            is_refused=self.is_refused[which],
            is_open=self.is_open[which],
            reply_row=self.reply_row[which],
        )


_SERVED = (Outcome.APPLIED, Outcome.PRECONDITION_FAILED, Outcome.CONFLICT, Outcome.THROTTLED)


def find_store_answers(
    events: Events, runs: Runs, span_of: Callable[[int], tuple[int, int]], disturbances: Disturbances
) -> list[StoreAnswers]:
    """The answers of every real run that sent a request. span_of: the true begin and end of a run.

    Requests that were open when their process died, or while it was paused, are left out: nobody was there to hear the
    answer. So are those without an answer that were open while a plan struck requests, or cut the network: that was
    the plan, and no store.
    """
    real = [number for number, world in enumerate(runs.texts("world")) if world == "real"]
    if not real:
        return []
    sent = events.rows(Kind.SENT)
    replies = events.replied_by_request[events.request_keys(sent)]
    crashed = disturbances.are(frozenset({"crash"}), "begin")
    dead, node = np.stack((disturbances.run[crashed], disturbances.node[crashed])), events.codes("node")[sent]
    heard = np.ones(len(sent), dtype=np.bool_)
    for run, name in dead.T.tolist():
        heard &= (replies >= 0) | (events.run[sent] != run) | (node != name)
    at = events.integers("at_ns")
    sent_ns, replied_ns = at[sent], np.where(replies >= 0, at[np.maximum(replies, 0)], FOREVER)
    for run, name, begin_ns, end_ns in ((run, *pause) for run, own in disturbances.pauses.items() for pause in own):
        is_over = (sent_ns > end_ns) | (replied_ns < begin_ns)
        heard &= is_over | (events.run[sent] != run) | (node != name)
    is_unanswered = (replies < 0) | (events.numbers("outcome")[np.maximum(replies, 0)] == Outcome.AMBIGUOUS)
    for run, begin_ns, end_ns in disturbances.strikes():
        is_over = (sent_ns > end_ns) | (replied_ns < begin_ns)
        heard &= is_over | (events.run[sent] != run) | ~is_unanswered
    sent, replies = sent[heard], replies[heard]
    found = []
    for run in real:
        own = slice(*np.searchsorted(events.run[sent], (run, run + 1)).tolist())
        if own.start == own.stop:
            continue
        begin_ns, end_ns = span_of(run)
        requests = _requests(events, sent[own], replies[own], begin_ns=begin_ns, end_ns=end_ns)
        silences, is_lost = _silences(events, requests, begin_ns=begin_ns, end_ns=end_ns)
        found.append(
            StoreAnswers(
                run=run,
                begin_ns=begin_ns,
                end_ns=end_ns,
                requests=len(requests.sent_ns),
                unanswered=int((requests.is_failed & ~requests.is_refused).sum()),
                refused=int(requests.is_refused.sum()),
                silences=silences,
                is_lost=is_lost,
                over_time=_over_time(requests, begin_ns=begin_ns, end_ns=end_ns),
            )
        )
    return found


def _requests(events: Events, sent: Ints, replies: Ints, *, begin_ns: int, end_ns: int) -> _Requests:
    at, outcome = events.integers("at_ns"), events.numbers("outcome")
    is_open = replies < 0
    closed = np.maximum(replies, 0)
    ended = np.where(is_open, end_ns, at[closed])
    order = np.argsort(ended, kind="stable")
    answer = np.where(is_open, np.uint8(Outcome.NONE), outcome[closed])[order]
    is_beside = (answer == Outcome.REJECTED) & (events.numbers("op")[sent[order]] == Op.NONE)
    return _Requests(
        sent_ns=np.clip(at[sent], begin_ns, end_ns)[order],
        end_ns=np.clip(ended, begin_ns, end_ns)[order],
        is_served=are_among(answer, _SERVED) | is_beside,
        is_refused=(answer == Outcome.REJECTED) & ~is_beside,
        is_open=is_open[order],
        reply_row=replies[order],
    )


def _silences(events: Events, requests: _Requests, *, begin_ns: int, end_ns: int) -> tuple[tuple[Silence, ...], bool]:
    """The silences in order, and whether the last one is a loss."""
    served, failed = requests.part(requests.is_served), requests.part(requests.is_failed)
    # The gaps between served requests: before the first, between each two, after the last.
    edges = np.concatenate(([begin_ns], served.end_ns, [end_ns]))
    low, high = edges[:-1], edges[1:]
    gaps = len(low)
    # Which failed requests ended in which gap; both are sorted by their ends.
    first = np.searchsorted(failed.end_ns, low, side="right")
    first[0] = 0
    last = np.append(first[1:], len(failed.end_ns))
    has_failed = last > first
    begin, until = np.full(gaps, FOREVER, dtype=np.int64), np.full(gaps, -FOREVER, dtype=np.int64)
    if has_failed.any():
        begin[has_failed] = np.minimum.reduceat(failed.sent_ns, first[has_failed])
        until[has_failed] = failed.end_ns[last[has_failed] - 1]
    # The earliest sending among the requests that were served at the end of the gap or later.
    waiting = np.append(np.minimum.accumulate(served.sent_ns[::-1])[::-1], FOREVER)
    begin = np.maximum(low, np.minimum(begin, waiting))
    usual_ns = int(np.median(served.end_ns - served.sent_ns)) if len(served.sent_ns) else 0
    # The request that was served at last had waited for it, too, unless it was sent after the others had failed.
    had_waited = (waiting <= until) | (high - waiting > LATE_FACTOR * usual_ns)
    end = np.where(~has_failed | had_waited, high, np.minimum(until, high))
    length = end - begin
    floor = np.where(has_failed, SILENCE_MIN_NS, max(SILENCE_MIN_NS, LATE_FACTOR * usual_ns))
    chosen = length >= floor
    # A request that is open when the record ends may still be answered, unless it has waited long.
    tail = failed.part(np.arange(len(failed.sent_ns)) >= first[-1])
    is_new = tail.sent_ns >= low[-1]
    # One request that hangs while nobody else asks does not speak for the store; nor does one that failed at the end.
    is_long = bool(chosen[-1]) and (bool(is_new.any()) or len(is_new) > 1)
    is_lost = bool(has_failed[-1]) and (is_long or int((is_new & ~tail.is_open).sum()) > 1)
    chosen[-1] = is_lost
    found = []
    for gap in np.flatnonzero(chosen).tolist():
        part = failed.part(_between(len(failed.sent_ns), int(first[gap]), int(last[gap])))
        found.append(
            Silence(
                begin_ns=int(begin[gap]),
                end_ns=int(end[gap]),
                unanswered=int((~part.is_refused).sum()),
                refused=int(part.is_refused.sum()),
                reason=_reason(events, part.reply_row[part.reply_row >= 0]),
            )
        )
    assert all(one.end_ns <= after.begin_ns for one, after in pairwise(found)), "silences follow each other"
    return tuple(found), is_lost


def _between(count: int, first: int, last: int) -> Flags:
    place = np.arange(count)
    inside: Flags = (place >= first) & (place < last)
    return inside


def _reason(events: Events, replies: Ints) -> str:
    """The reason that most of these replies gave."""
    codes, counts = np.unique(events.codes("detail")[replies], return_counts=True)
    return events.text("detail", int(codes[np.argmax(counts)])) if len(codes) else ""


def _over_time(requests: _Requests, *, begin_ns: int, end_ns: int) -> tuple[tuple[int, int, int, int, int], ...]:
    """(begin, end, requests, unanswered, refused) of equal stretches; instants from the run's begin."""
    span = end_ns - begin_ns
    width = _BUCKET_NS * max(1, -(-span // (_BUCKET_NS * BUCKETS_MAX)))
    count = -(-span // width)
    place = np.minimum((requests.end_ns - begin_ns) // width, count - 1)
    columns = [
        np.bincount(place[which], minlength=count).tolist()
        for which in (
            np.ones(len(place), dtype=np.bool_), requests.is_failed & ~requests.is_refused, requests.is_refused,
        )
    ]  # fmt: skip
    assert bool(np.all(place >= 0)), "a request ended before the run began"
    assert sum(columns[0]) == len(place), "each request is counted once"
    edges = [min(number * width, span) for number in range(count + 1)]
    return tuple(zip(edges[:-1], edges[1:], *columns, strict=True))


@cache
def no_answers() -> pa.Table:
    """`STORE_ANSWERS_SCHEMA` without a row, made once."""
    return STORE_ANSWERS_SCHEMA.empty_table()


def store_answers_table(
    answers: list[StoreAnswers], runs: Runs, truth: Truth, contradictions: Contradictions, origin_ns: Ints
) -> pa.Table:
    """`STORE_ANSWERS_SCHEMA`. origin_ns: per run, the instant from which people are told times."""
    if not answers:
        return no_answers()
    rows: list[dict[str, Any]] = []
    counts = np.bincount(contradictions.run, minlength=runs.count)
    firsts = dict(zip(contradictions.run[::-1].tolist(), range(len(contradictions.run) - 1, -1, -1), strict=True))
    for one in answers:
        length_ns, base = one.end_ns - one.begin_ns, int(origin_ns[one.run])
        first = describe_contradiction(truth, contradictions, firsts[one.run]) if one.run in firsts else None
        rows.append(
            {
                "run": int(runs.number[one.run]),
                "run_ns": length_ns,
                "requests": one.requests,
                "unanswered": one.unanswered,
                "refused": one.refused,
                "unanswered_share": one.unanswered / one.requests,
                "silent_ns": one.silent_ns,
                "silent_share": one.silent_ns / length_ns,
                "lost_at_ns": one.silences[-1].begin_ns - base if one.is_lost else None,
                "contradicted": int(counts[one.run]),
                "contradiction": first["text"] if first else None,
                "contradiction_ns": first["shown_ns"] - base if first else None,
                "silences": [
                    {
                        "begin_ns": silence.begin_ns - base,
                        "end_ns": silence.end_ns - base,
                        "unanswered": silence.unanswered,
                        "refused": silence.refused,
                        "reason": silence.reason,
                    }
                    for silence in one.silences
                ],
                "over_time": [
                    {
                        "begin_ns": begin_ns + one.begin_ns - base,
                        "end_ns": end_ns + one.begin_ns - base,
                        "requests": requests,
                        "unanswered": unanswered,
                        "refused": refused,
                    }
                    for begin_ns, end_ns, requests, unanswered, refused in one.over_time
                ],
            }
        )
    return pa.Table.from_pylist(rows, STORE_ANSWERS_SCHEMA)


def calm_from_ns(faults_end_ns: Ints, answers: list[StoreAnswers], contradictions: Contradictions) -> Ints:
    """Per run, the true time from when on nothing disturbed it, ABSENT for never or unknown.

    The end of its faults, as the runs table says it, and in a real run not before its last silence: a
    lock is not accused of waiting for a store that was away. A run whose store
    showed a state that a confirmed write had replaced is never calm: what the
    lock waits for is then not what the record says.
    """
    found = faults_end_ns.copy()
    for one in answers:
        if one.is_lost:
            found[one.run] = ABSENT
        elif one.silences and found[one.run] != ABSENT:
            found[one.run] = max(int(found[one.run]), one.silences[-1].end_ns)
    found[contradictions.run] = ABSENT
    return found
