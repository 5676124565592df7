"""Commits to a Delta log: the entries that landed, and what their writers were told.

An EFFECT row of the operation `commit` with a `content` is an entry that was put into its place: `version` is its
number, `content` the commit's identity. A RETURN of that operation is what the writer was told.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from lockref.history import QUEUED
from lockref.words import Kind, Op, Outcome
from reports.checks.facts.columns import NO_TEXT, Events, Flags, Ints, is_first
from reports.checks.facts.segments import renumber


@dataclass(frozen=True, slots=True, kw_only=True)
class Landings:
    """One entry per commit in a log entry that was put in its place, by (log, version, order of landing).

    log: a number for (run, table). identity: whose commit; equal exactly for equal ones. replaces: the landing before
    it at this place, -1 for the first. stands: nothing was put over it later.

    A coalesced entry has one landing for each commit in it, in rows that follow each other. None of them replaces
    another; each replaces the same commit of the earlier entry. If the earlier entry does not hold that commit, it
    replaces any other commit of it.
    """

    row: Ints
    run: Ints
    log: Ints
    version: Ints
    identity: Ints
    at_ns: Ints
    replaces: Ints
    stands: Flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Returns:
    """One entry per commit whose writer got an answer, which is a RETURN row.

    log, identity: as in `Landings`. version: the version that the writer was told, -1 where it was told none.
    is_queued: the commit was called by putting it into a queue.
    """

    row: Ints
    run: Ints
    log: Ints
    version: Ints
    identity: Ints
    at_ns: Ints
    outcome: npt.NDArray[np.uint8]
    is_queued: Flags

    @property
    def is_acknowledged(self) -> Flags:
        told: Flags = self.outcome == Outcome.APPLIED
        return told

    @property
    def is_error(self) -> Flags:
        """The writer was told that the commit is in no version; AMBIGUOUS does not say so."""
        told: Flags = (self.outcome == Outcome.PRECONDITION_FAILED) | (self.outcome == Outcome.REJECTED)
        return told


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits:
    """All commits of a history."""

    landings: Landings
    returns: Returns

    @property
    def identity_count(self) -> int:
        """One more than the largest number of an identity."""
        identities = np.concatenate((self.landings.identity, self.returns.identity))
        return int(identities.max()) + 1 if len(identities) else 0

    @property
    def places(self) -> Ints:
        """By identity: in how many versions the commit stands at the end."""
        found: Ints = np.bincount(self.landings.identity[self.landings.stands], minlength=self.identity_count)
        return found

    @property
    def is_lost(self) -> Flags:
        """Per return: acknowledged, and in no version (DL1)."""
        found: Flags = self.returns.is_acknowledged & (self.places[self.returns.identity] == 0)
        return found

    @property
    def is_twice(self) -> Flags:
        """Per return: acknowledged, and in several versions (DL1)."""
        found: Flags = self.returns.is_acknowledged & (self.places[self.returns.identity] > 1)
        return found

    @property
    def is_landed_error(self) -> Flags:
        """Per return: the writer was told of an error, and the commit landed, whatever was put over it later (DL5)."""
        landed = np.zeros(self.identity_count, dtype=np.bool_)
        landed[self.landings.identity] = True
        found: Flags = self.returns.is_error & landed[self.returns.identity]
        return found

    def runs(self, count: int) -> Flags:
        """Per run: a client committed to a log."""
        flags = np.zeros(count, dtype=np.bool_)
        flags[self.landings.run] = True
        flags[self.returns.run] = True
        return flags


def is_commit(events: Events, rows: Ints) -> Flags:
    """Which of these rows tell of a commit to a Delta log. A workload's own log of numbers has no identities."""
    found: Flags = events.numbers("op")[rows] == Op.COMMIT
    if found.any():
        found &= events.codes("content")[rows] != NO_TEXT
    return found


def calls_of_locks(events: Events) -> Ints:
    """The CALL rows of locks; a commit calls no lock."""
    calls = events.rows(Kind.CALL)
    found: Ints = calls[events.numbers("op")[calls] != Op.COMMIT]
    return found


def find_commits(events: Events) -> Commits:
    """The landings and the returns of a history; both empty where nobody commits."""
    landed, told = (rows[is_commit(events, rows)] for rows in (events.rows(Kind.EFFECT), events.rows(Kind.RETURN)))
    landed = landed[events.numbers("outcome")[landed] == Outcome.APPLIED]
    if not len(landed) and not len(told):
        return _no_commits()
    rows = np.concatenate((landed, told))
    log = renumber(events.lock_key[rows])[0]
    identity = renumber(events.run[rows], events.codes("content")[rows].astype(np.int64))[0]
    version = _versions(events, rows)
    count = len(landed)
    order = np.lexsort((landed, version[:count], log[:count]))
    landed, log_of, version_of = landed[order], log[:count][order], version[:count][order]
    place = renumber(log_of, version_of)[0]
    before, stands = _over_each_other(events, landed, place, identity[:count][order])
    at = events.integers("at_ns")
    assert bool(np.all(version_of >= 0)), "an entry that landed has a version"
    return Commits(
        landings=Landings(
            row=landed,
            run=events.run[landed],
            log=log_of,
            version=version_of,
            identity=identity[:count][order],
            at_ns=at[landed],
            replaces=before,
            stands=stands,
        ),
        returns=Returns(
            row=told,
            run=events.run[told],
            log=log[count:],
            version=version[count:],
            identity=identity[count:],
            at_ns=at[told],
            outcome=events.numbers("outcome")[told],
            is_queued=_are_queued(events, told),
        ),
    )


@cache
def _no_commits() -> Commits:
    none, no_flags = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_)
    columns = {"row": none, "run": none, "log": none, "version": none, "identity": none, "at_ns": none}
    return Commits(
        landings=Landings(**columns, replaces=none, stands=no_flags),
        returns=Returns(**columns, outcome=np.zeros(0, dtype=np.uint8), is_queued=no_flags),
    )


def queued_calls(events: Events) -> Ints:
    """The CALL rows that put a commit into a queue."""
    calls = events.rows(Kind.CALL)
    calls = calls[events.numbers("op")[calls] == Op.COMMIT]
    codes = events.codes("detail")[calls]
    queued = [code for code in np.unique(codes).tolist() if events.text("detail", code) == QUEUED]
    found: Ints = calls[np.isin(codes, queued)]
    return found


def _are_queued(events: Events, told: Ints) -> Flags:
    """Per RETURN row, whether its commit was put into a queue."""
    calls = queued_calls(events)
    rows = np.concatenate((calls, told))
    identity = renumber(events.run[rows], events.codes("content")[rows].astype(np.int64))[0]
    found: Flags = np.isin(identity[len(calls) :], identity[: len(calls)])
    return found


def _over_each_other(events: Events, rows: Ints, place: Ints, identity: Ints) -> tuple[Ints, Flags]:
    """Per landing, which one it replaces and whether it stands; see `Landings`. place: ascending, rows in each, too."""
    count = len(rows)
    if not count:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_)
    is_new_place = is_first(place)
    # The rows of one put are alike but for the commit. A copy of the same entry has the same commits once more.
    put = renumber(
        place, events.integers("at_ns")[rows], events.codes("node")[rows].astype(np.int64),
        events.integers("request")[rows], events.integers("attempt")[rows],
        events.codes("detail")[rows].astype(np.int64), _how_often(renumber(place, identity)[0]),
    )[0]  # fmt: skip
    starts = np.flatnonzero(is_new_place | is_first(put))
    ends = np.append(starts[1:], count)
    entry = np.searchsorted(starts, np.arange(count), side="right") - 1
    has_before = ~is_new_place[starts]
    before = np.where(has_before, np.append(0, starts[:-1]), -1)[entry]
    sizes = ends - starts
    # Only coalesced entries need a look at each commit.
    for number in np.flatnonzero(has_before & ((sizes > 1) | (np.append(1, sizes[:-1]) > 1))).tolist():
        old = {int(identity[each]): each for each in range(int(starts[number - 1]), int(starts[number]))}
        new = range(int(starts[number]), int(ends[number]))
        kept = {int(identity[each]) for each in new}
        gone = [each for commit, each in old.items() if commit not in kept]
        for each in new:
            before[each] = old.get(int(identity[each]), int(starts[number - 1]))
        if gone:
            # An entry that drops a commit overwrites it (DL4): the first landing of the new entry replaces the first
            # commit that is gone. One is enough for the violation.
            before[new[0]] = gone[0]
    is_last = np.append(is_new_place[starts[1:]], True)
    return before, is_last[entry]


def _how_often(group: Ints) -> Ints:
    """Count, for each number, how often the same stands before it."""
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(is_first(group[order]))
    found = np.empty(len(group), dtype=np.int64)
    found[order] = np.arange(len(group)) - np.repeat(starts, np.diff(np.append(starts, len(group))))
    return found


def _versions(events: Events, rows: Ints) -> Ints:
    """The log versions that these rows name, -1 where they name none."""
    codes = events.codes("version")[rows]
    known = np.unique(codes)
    numbers = np.array([int(text) if (text := events.text("version", int(code))).isdecimal() else -1 for code in known])
    return numbers[np.searchsorted(known, codes)].astype(np.int64) if len(rows) else np.zeros(0, dtype=np.int64)
