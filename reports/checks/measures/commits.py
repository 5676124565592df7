"""Figures of the commits to Delta logs: how many, how they ended, how long they took."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lockref.words import Kind, Op, Outcome
from reports.checks.facts.columns import Events, Ints
from reports.checks.facts.commits import Commits, queued_calls


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFigures:
    """The figures of all runs of a history together.

    acknowledged, refused, unknown: commits by what their writers were told. taken: versions that were tried in vain.
    lost, twice: acknowledged commits that stand in no version, or in several (DL1). landed: refused ones that landed
    (DL5). first_ns, last_ns: the first call and the last answer, 0 without any.
    lasted_ns: of each acknowledged commit, from the call to the answer; under a lock from the call of the lock. Of one
    that was enqueued, from there until it was deleted from the queue.
    """

    acknowledged: int
    refused: int
    unknown: int
    taken: int
    lost: int
    twice: int
    landed: int
    first_ns: int
    last_ns: int
    lasted_ns: Ints


def commit_figures(events: Events, commits: Commits) -> CommitFigures:
    """Read the figures off a history. A client commits in one task."""
    told = commits.returns
    # A commit that gives up because versions were taken ends with a taken one; any other ends with an attempt that was
    # not refused as taken. A commit without a count of its attempts has none in vain.
    attempts = np.maximum(events.integers("attempt")[told.row], 0)
    is_taken_last = told.outcome == Outcome.PRECONDITION_FAILED
    first_ns, lasted_ns = _lasted(events, told.row)
    return CommitFigures(
        acknowledged=int(told.is_acknowledged.sum()),
        refused=int(told.is_error.sum()),
        unknown=int((told.outcome == Outcome.AMBIGUOUS).sum()),
        taken=int(np.where(is_taken_last, attempts, np.maximum(attempts - 1, 0)).sum()),
        lost=int(commits.is_lost.sum()),
        twice=int(commits.is_twice.sum()),
        landed=int(commits.is_landed_error.sum()),
        first_ns=first_ns,
        last_ns=int(told.at_ns.max(initial=0)),
        lasted_ns=lasted_ns[told.is_acknowledged],
    )


def _lasted(events: Events, told: Ints) -> tuple[int, Ints]:
    """The first call of all, and how long each of these commits took."""
    calls = events.rows(Kind.CALL)
    op = events.numbers("op")[calls]
    calls = calls[(op == Op.ACQUIRE) | (op == Op.COMMIT)]
    at, node, run = events.integers("at_ns"), events.codes("node"), events.run
    began: dict[tuple[int, int], int] = {}
    content = events.codes("content")
    # A queued commit may be answered by another client than the one that has enqueued it.
    queued = {(int(run[row]), int(content[row])): int(at[row]) for row in queued_calls(events).tolist()}
    lasted = {}
    is_return = np.zeros(events.count, dtype=np.bool_)
    is_return[told] = True
    for row in np.union1d(calls, told).tolist():
        who = int(run[row]), int(node[row])
        commit = int(run[row]), int(content[row])
        if commit in queued:
            if is_return[row]:
                lasted[row] = int(at[row]) - queued[commit]
        elif is_return[row]:
            lasted[row] = int(at[row]) - began.pop(who)
        elif events.numbers("op")[row] == Op.ACQUIRE:
            began[who] = int(at[row])
        else:
            began.setdefault(who, int(at[row]))
    first_ns = int(at[calls].min()) if len(calls) else 0
    return first_ns, np.array([lasted[int(row)] for row in told], dtype=np.int64)
