"""Readings of a real store that contradict a write which it had confirmed (C21).

A store that says "written" must show that write, or a later one, to every
reading that is sent after the answer. If it shows an older state, the lock is
misled, too: it decides on a record that was replaced, or waits for a release
that has happened already. No lock can be judged on such a store.

A reading is counted only if no order of events explains it. Let W be a
confirmed write whose answer came before the reading was sent. The reading
contradicts W in one of three cases:

- it shows a state that was made only by writes answered before W was sent;
- it shows a state that no write on record made, and that a confirmed write had
  replaced;
- it shows no object, although W left one and no delete on record came since.

A write without a definite answer may land at any time. So a state that such a
write can have made again is left out.

A simulated store records its writes itself, and its stale readings are
planned faults, so simulated runs are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lockref.words import ABSENT, Kind, Op, Outcome
from reports.checks.facts.clocks import FOREVER
from reports.checks.facts.columns import NO_TEXT, Events, Flags, Ints
from reports.checks.facts.sources.grants import DELETED, RECORD
from reports.checks.facts.sources.truth import Truth


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradictions:
    """Readings that showed a state which a confirmed write had replaced, in the order of their answers.

    run: position in the runs table. group: (run, lock). row: the reading's REPLIED event. write: the position in the
    chain of the confirmed write. begin_ns: when that write was sent, since when the store may have gone wrong.
    """

    run: Ints
    group: Ints
    row: Ints
    write: Ints
    begin_ns: Ints

    def wrong_since_ns(self, group: Ints) -> Ints:
        """Per question: since when the store cannot be believed about this lock; FOREVER where it can."""
        since = np.full(len(group), FOREVER, dtype=np.int64)
        known = np.unique(self.group)
        if len(known):
            first = np.full(len(known), FOREVER, dtype=np.int64)
            np.minimum.at(first, np.searchsorted(known, self.group), self.begin_ns)
            place = np.minimum(np.searchsorted(known, group), len(known) - 1)
            since = np.where(known[place] == group, first[place], FOREVER)
        return since

    def runs(self, count: int) -> Flags:
        """Per run: there is such a reading."""
        flags = np.zeros(count, dtype=np.bool_)
        flags[self.run] = True
        return flags


def find_contradictions(truth: Truth) -> Contradictions:
    """All of them, of runs in the real world whose store recorded no writes."""
    events = truth.events
    is_real = (
        np.array([world == "real" for world in truth.runs.texts("world")], dtype=np.bool_)
        & ~truth.is_recorded_by_service
    )
    rows = events.rows(Kind.REPLIED) if is_real.any() else np.zeros(0, dtype=np.int64)
    rows = rows[is_real[events.run[rows]] & truth.lock_groups[events.lock_key[rows]]]
    rows = rows[(events.numbers("op")[rows] == Op.READ) & (events.numbers("outcome")[rows] == Outcome.APPLIED)]
    rows = rows[events.sent_by_request[events.request_keys(rows)] >= 0]
    rows = rows[np.lexsort((rows, events.lock_key[rows]))]
    found: list[tuple[int, int]] = []
    group = events.lock_key[rows]
    asked = _Requests(truth) if len(rows) else None
    for key in np.unique(group).tolist():
        first, last = np.searchsorted(truth.changes.group, (key, key + 1)).tolist()
        is_chain = first < last and int(truth.changes.source[first]) == RECORD
        if is_chain and asked is not None:
            begin, end = np.searchsorted(group, (key, key + 1)).tolist()
            found += _Lock(truth, asked, key, first, last).contradicted(rows[begin:end])
    found.sort()
    row, write = (np.array([pair[place] for pair in found], dtype=np.int64) for place in (0, 1))
    sent = truth.changes.sent_row[write]
    assert bool(np.all(sent >= 0)), "a confirmed write was sent"
    return Contradictions(
        run=events.run[row], group=events.lock_key[row], row=row, write=write, begin_ns=events.integers("at_ns")[sent]
    )


class _Requests:
    """Writes of locks as they were sent, each with the instant of its definite answer, FOREVER where there is none."""

    def __init__(self, truth: Truth) -> None:
        events = truth.events
        at, outcome = events.integers("at_ns"), events.numbers("outcome")
        sent = events.rows(Kind.SENT)
        sent = sent[events.numbers("op")[sent] != Op.READ]
        self.sent = sent[np.argsort(events.lock_key[sent], kind="stable")]
        self.group = events.lock_key[self.sent]
        reply = events.replied_by_request[events.request_keys(self.sent)]
        heard = np.maximum(reply, 0)
        definite = (reply >= 0) & (outcome[heard] != Outcome.AMBIGUOUS) & (outcome[heard] != Outcome.NONE)
        self.answered_ns = np.where(definite, at[heard], FOREVER)
        self.is_applied = definite & (outcome[heard] == Outcome.APPLIED)


class _Lock:
    """The writes of one lock, and what they say about its readings."""

    def __init__(self, truth: Truth, asked: _Requests, key: int, first: int, last: int) -> None:
        self._truth, self._events = truth, truth.events
        events, chain = truth.events, truth.changes
        at = self._at = events.integers("at_ns")
        here = np.arange(first, last)
        row, sent_row = chain.row[here], chain.sent_row[here]
        confirmed = (
            (events.numbers("kind")[row] == Kind.REPLIED)
            & (events.numbers("outcome")[row] == Outcome.APPLIED)
            & (sent_row >= 0)
        )
        self._sent_ns = at[np.where(sent_row >= 0, sent_row, row)]
        self._answer_ns = np.where(confirmed, at[row], FOREVER)
        self._first = first
        # By the instant of the answer: the write that was sent last among those confirmed until then.
        order = np.flatnonzero(confirmed)
        self._order = order[np.argsort(self._answer_ns[order], kind="stable")]
        self._confirmed_ns = self._answer_ns[self._order]
        newest, best = [], -1
        for place in self._order.tolist():
            best = place if best < 0 or self._sent_ns[place] >= self._sent_ns[best] else best
            newest.append(best)
        self._newest = newest
        assert len(newest) == len(self._order), "one newest write for each confirmed one"
        self._version = chain.version[here]
        self._made: dict[int, Ints] = {}
        self._replaced: dict[int, int] = {}
        made = np.argsort(self._version, kind="stable")
        for places in np.split(made, np.flatnonzero(np.diff(self._version[made])) + 1):
            self._made[int(self._version[places[0]])] = places
        for place in self._order.tolist():
            self._replaced.setdefault(int(chain.if_version[first + place]), place)
        own = slice(*np.searchsorted(asked.group, (key, key + 1)).tolist())
        self._requests, self._answered = asked.sent[own], asked.answered_ns[own]
        self._is_applied = asked.is_applied[own]
        self._has_hole = bool(chain.is_hole[first:last].any())

    def contradicted(self, reads: Ints) -> list[tuple[int, int]]:
        """(REPLIED row, position in the chain of the confirmed write) of the readings that contradict a write."""
        events = self._events
        sent_ns = self._at[events.sent_by_request[events.request_keys(reads)]]
        known = np.searchsorted(self._confirmed_ns, sent_ns, side="left") - 1
        version = events.codes("version")[reads]
        # Some stores never name a version in a reading. There, a reading without a version shows nothing.
        names_versions = bool((version != NO_TEXT).any())
        found = []
        for index in np.flatnonzero(known >= 0).tolist():
            write, shown, row = self._newest[int(known[index])], int(version[index]), int(reads[index])
            if shown == int(self._version[write]):
                continue
            if shown == NO_TEXT:
                is_empty = names_versions and int(events.codes("content")[row]) == NO_TEXT
                is_wrong = is_empty and self._cannot_be_gone(write, row)
            else:
                is_wrong = self._cannot_be_back(write, shown, row, int(sent_ns[index]))
            if is_wrong:
                found.append((row, self._first + write))
        return found

    def _cannot_be_back(self, write: int, shown: int, row: int, sent_ns: int) -> bool:
        """True if this write must have replaced what made the version `shown`, and nothing can have made it again."""
        until = int(self._at[row])
        makers = self._made.get(shown, np.zeros(0, dtype=np.int64))
        makers = makers[self._sent_ns[makers] <= until]
        if bool((self._answer_ns[makers] >= self._sent_ns[write]).any()):
            return False
        if not len(makers):
            # A state from before the record: only a write that names it tells that it was replaced.
            replaced = self._replaced.get(shown)
            if replaced is None or self._answer_ns[replaced] >= sent_ns:
                return False
        content = self._events.codes("content")
        contents = np.append(content[self._truth.changes.row[self._first + makers]], content[row])
        contents = contents[contents != NO_TEXT]
        late = self._late(write, until) & ~self._is_applied
        # A write without a recorded content may have made anything.
        again = np.isin(content[self._requests[late]], contents) if len(contents) else late
        return not bool(again.any())

    def _cannot_be_gone(self, write: int, row: int) -> bool:
        """True if this write left an object, and no deletion on record can have come after it."""
        if self._has_hole or self._truth.changes.state[self._first + write] == DELETED:
            return False
        late = self._late(write, int(self._at[row]))
        return not bool((self._events.numbers("op")[self._requests[late]] == Op.DELETE).any())

    def _late(self, write: int, until_ns: int) -> Flags:
        """Requests that were sent by then and that can have landed after this write."""
        late: Flags = (self._at[self._requests] <= until_ns) & (self._answered >= self._sent_ns[write])
        return late


def describe_contradiction(truth: Truth, found: Contradictions, index: int) -> dict[str, Any]:
    """One contradiction for people: `text`, the two requests, and the versions. Times are true ones."""
    events, chain = truth.events, truth.changes
    row, write = int(found.row[index]), int(found.write[index])
    read_sent = int(events.sent_by_request[events.request_keys(np.array([row]))][0])
    reader, shown = events.text("node", int(events.codes("node")[row])), _version(events, row)
    writer, made = events.text("node", int(chain.node[write])), events.text("version", int(chain.version[write]))
    at = events.integers("at_ns")
    op = Op(int(events.numbers("op")[chain.row[write]])).name.lower()
    left = "nothing" if chain.state[write] == DELETED else repr(made)
    return {
        "text": (
            f"it showed {shown} to {reader} (read, request {_request(events, row)}), and had before confirmed to "
            f"{writer} ({op}, request {_request(events, int(chain.row[write]))}) that it holds {left}"
        ),
        "lock": events.text("lock", int(chain.lock[write])),
        "confirmed_ns": int(at[chain.row[write]]),
        "read_sent_ns": int(at[read_sent]),
        "shown_ns": int(at[row]),
    }


def _version(events: Events, row: int) -> str:
    version = int(events.codes("version")[row])
    return "nothing" if version == NO_TEXT else repr(events.text("version", version))


def _request(events: Events, row: int) -> int | str:
    number = int(events.integers("request")[row])
    return "unknown" if number == ABSENT else number
