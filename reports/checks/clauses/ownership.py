"""Ownership: who touches a grant that is in force, and which grants come back (S6).

Three questions about the chain:

- Does a write that is no takeover (a release, a deletion, a renewal, something
  that is no lock record) hit a grant of another client, or does a node's late
  release hit a later grant of its own?
- Does one task release, in an unlock, the grant of another task of its process?
- Does a grant that was released or replaced come back: a live record under an
  old owner, sent while no acquire call of that node was open? A late heartbeat
  sends such a record.

An expired record that nobody replaced is still its owner's: renewing it is
legal. A conditional release of another client's expired record is judged by the
clock, like a takeover. Sent in an acquire it is one, in two writes, and S5's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lockref.words import ABSENT, OPERATOR, Op, Outcome
from reports.checks.clauses.takeover import came_early, clear_the_way
from reports.checks.facts.columns import NO_TEXT, Flags, Ints, are_among
from reports.checks.facts.operations import Operations
from reports.checks.facts.segments import last_at_or_before, renumber
from reports.checks.facts.sources.grants import DELETED, FOREIGN, LIVE, RELEASED
from reports.checks.facts.sources.open_calls import OpenCalls
from reports.checks.facts.sources.truth import Truth
from reports.checks.rulings import Violations


def sent_in_acquire(truth: Truth) -> Flags:
    """Per grant: its write was sent while some acquire call of its node was open.

    True where it cannot be known: no request on record, or no calls at all.
    """
    grants = truth.grants
    known = np.ones(len(grants.first), dtype=np.bool_)
    sent = truth.changes.sent_row[grants.first]
    calls = OpenCalls(truth.events)
    asked = np.flatnonzero((sent >= 0) & calls.are_known(grants.run))
    known[asked] = calls.are_open(Op.ACQUIRE, sent[asked])
    return known


def find_revivals(truth: Truth, called_in: Ints) -> Flags:
    """Per grant: it had ended, and came back although nobody asked for it. What an operator overwrote is not counted.

    called_in: per grant, the call that sent it (`call_of_grant`).
    """
    grants, chain = truth.grants, truth.changes
    revived = np.zeros(len(grants.first), dtype=np.bool_)
    operator = truth.events.code_of("node", OPERATOR)
    # Nearly every grant was sent by the very task that called; only the others need the wider question.
    if bool(np.all(called_in >= 0)):
        return revived
    same, _ = renumber(grants.group, grants.owner.astype(np.int64), grants.token)
    order = np.argsort(same, kind="stable")
    previous = np.full(len(same), -1, dtype=np.int64)
    previous[order[1:]] = np.where(same[order][1:] == same[order][:-1], order[:-1], -1)
    assert bool(np.all(previous < np.arange(len(same)))), "what came back was there before"
    back = np.flatnonzero((called_in < 0) & grants.lapses & (previous >= 0) & ~sent_in_acquire(truth))
    ended_by = np.maximum(grants.end[previous[back]], 0)
    # A deletion by hand ends a grant like any other (H15); what was overwritten by hand may be anything.
    is_touched_by_hand = (
        (grants.end[previous[back]] >= 0) & (chain.node[ended_by] == operator) & (chain.state[ended_by] != DELETED)
    )
    revived[back] = ~is_touched_by_hand
    return revived


def _writes_of_others(truth: Truth) -> Ints:
    """Chain positions of writes that are no takeover and hit a live grant of another node, or a later own one."""
    chain, events = truth.changes, truth.events
    count = len(chain.row)
    if count < 2:
        return np.zeros(0, dtype=np.int64)
    here = np.flatnonzero((chain.state[:-1] == LIVE) & ~chain.is_first[1:]) + 1
    here = here[chain.is_record[here]]
    here = here[~chain.is_grant[here] & ~chain.is_hole[here] & (chain.node[here] != events.code_of("node", OPERATOR))]
    # The last grant at or before the write before this one is the grant that it hits.
    hit = np.searchsorted(truth.grants.first, here - 1, side="right") - 1
    assert bool(np.all(hit >= 0)), "a live state follows its grant"
    granted = truth.grants.first[hit]
    assert bool(np.all(chain.group[granted] == chain.group[here])), "a write hits a grant of its own lock"
    state = chain.state[here]
    same_node = chain.node[here] == chain.node[granted]
    older_token = (chain.token[here] != ABSENT) & (chain.token[here] < chain.token[granted])
    rival = here[~same_node]
    is_early = np.zeros(len(here), dtype=np.bool_)
    is_early[~same_node] = came_early(truth, rival - 1, rival)
    is_retiring = (state == RELEASED) | (state == DELETED)
    # A write that keeps the end of the validity renews nothing: in some records a waiter adds its name to the owner's.
    stamp = events.integers("valid_until_ns")[chain.row]
    is_kept = (stamp[here] != ABSENT) & (stamp[here] == stamp[here - 1])
    foul = chain.is_renewal[here] & ~same_node & ~is_kept
    struck = is_retiring & ~same_node & (is_early | ~chain.is_conditional[here])
    struck[struck] = ~clear_the_way(truth, here[struck])
    foul |= struck
    # A node's late release, sent under an older grant of its own. A conditional one named the state that it replaced.
    late = (state == RELEASED) & same_node
    is_strange = late & ~older_token & ~chain.is_conditional[here] & (chain.owner[here] != chain.owner[granted])
    foul |= late & older_token
    if is_strange.any():
        foul[is_strange] |= _named_an_earlier_grant(truth, here[is_strange])
    foul |= state == FOREIGN
    fouls: Ints = here[foul]
    return fouls


def _named_an_earlier_grant(truth: Truth, here: Ints) -> Flags:
    """Per chain position: its record names the owner of an earlier grant of the node that wrote it.

    Other names prove nothing: many locks write `nobody` into what they release.
    """
    chain, first = truth.changes, truth.grants.first
    places = np.concatenate((first, here))
    packed, _ = renumber(chain.group[places], chain.node[places].astype(np.int64), chain.owner[places].astype(np.int64))
    distinct, who = np.unique(packed, return_inverse=True)
    earliest = np.full(len(distinct), len(chain.row), dtype=np.int64)
    np.minimum.at(earliest, who[: len(first)], first)
    named: Flags = (chain.owner[here] != NO_TEXT) & (earliest[who[len(first) :]] < here)
    return named


def _releases_of_other_tasks(truth: Truth, operations: Operations, tenure_of_release: Ints) -> Ints:
    """Chain positions of releases that one task sent, in an unlock, for the grant of another of its process (H9)."""
    chain, grants, events = truth.changes, truth.grants, truth.events
    held = np.flatnonzero((grants.end >= 0) & grants.lapses)
    ends = grants.end[held]
    is_own = chain.node[ends] == grants.node[held]
    retired = are_among(chain.state[ends], (RELEASED, DELETED)) & (chain.sent_row[ends] >= 0)
    sender = events.codes("task")[np.maximum(chain.sent_row[ends], 0)]
    other = is_own & retired & (sender != grants.task[held])
    held, ends, sender = held[other], ends[other], sender[other].astype(np.int64)
    assert bool(np.all(ends > grants.last[held])), "a grant is ended after its last renewal"
    unlock = _unlock_under_way(truth, operations, held, chain.sent_row[ends], sender)
    tenure = np.where(unlock >= 0, tenure_of_release[np.maximum(unlock, 0)], -1)
    # The first release of each tenure, so that a later one is known to have given nothing back.
    first_release = np.full(len(operations.op) + 1, len(operations.op), dtype=np.int64)
    releases = np.flatnonzero(tenure_of_release >= 0)[::-1]
    first_release[tenure_of_release[releases]] = releases
    is_idle = (tenure < 0) | (first_release[tenure] < unlock)
    fouls: Ints = ends[(unlock >= 0) & is_idle & _was_given_to_another(truth, operations, held, sender)]
    return fouls


def _unlock_under_way(truth: Truth, operations: Operations, held: Ints, sent: Ints, task: Ints) -> Ints:
    """Per grant of `held`: the RELEASE call of this task of its process that was open when `sent` was, or -1."""
    grants, events = truth.grants, truth.events
    found = np.full(len(held), -1, dtype=np.int64)
    # A task may close the lock while another one holds it. That is no unlock: it ends the lock for all tasks.
    is_close = (operations.outcome == Outcome.NONE) & (operations.return_row >= 0)
    releases = np.flatnonzero((operations.op == Op.RELEASE) & ~is_close)
    if len(held) == 0 or len(releases) == 0:
        return found
    client, _ = renumber(
        np.concatenate((grants.run[held], operations.run[releases])),
        np.concatenate((grants.lock[held], operations.lock[releases])).astype(np.int64),
        np.concatenate((grants.node[held], operations.node[releases])).astype(np.int64),
        np.concatenate((task, operations.task[releases].astype(np.int64))),
    )
    last = last_at_or_before(
        known_group=client[len(held) :],
        known_row=operations.call_row[releases],
        asked_group=client[: len(held)],
        asked_row=sent,
        row_count=events.count,
    )
    unlock = releases[np.maximum(last, 0)]
    is_open = (operations.return_row[unlock] < 0) | (operations.return_row[unlock] > sent)
    return np.where((last >= 0) & is_open, unlock, -1)


def _was_given_to_another(truth: Truth, operations: Operations, held: Ints, task: Ints) -> Flags:
    """Per grant of `held`: some other task of its process was granted it."""
    if len(held) == 0:
        return np.zeros(0, dtype=np.bool_)
    granted = np.flatnonzero(operations.is_granted & (operations.grant >= 0))
    count = len(truth.grants.first)
    least = np.full(count, 2**31, dtype=np.int64)
    most = np.full(count, -(2**31), dtype=np.int64)
    np.minimum.at(least, operations.grant[granted], operations.task[granted])
    np.maximum.at(most, operations.grant[granted], operations.task[granted])
    any_at_all = most[held] >= least[held]
    other: Flags = any_at_all & ((least[held] != task) | (most[held] != task))
    return other


def check_ownership(truth: Truth, operations: Operations, revived: Flags, tenure_of_release: Ints) -> Violations:
    """S6: one violation per foreign write on a grant in force, and per grant that came back."""
    chain, grants, events = truth.changes, truth.grants, truth.events
    foreign = np.union1d(_writes_of_others(truth), _releases_of_other_tasks(truth, operations, tenure_of_release))
    back = np.flatnonzero(revived)
    where = np.concatenate((foreign, grants.first[back])).astype(np.int64)

    def witness(index: int) -> dict[str, Any]:
        here = int(where[index])
        who = events.text("node", int(chain.node[here]))
        blindly = "" if chain.is_conditional[here] else ", without a condition"
        if index < len(foreign):
            verb = "renewed" if chain.is_renewal[here] else ("", "released", "deleted", "overwrote")[chain.state[here]]
            hit = int(np.searchsorted(grants.first, here - 1, side="right")) - 1
            holder = events.text("node", int(grants.node[hit]))
            whose = f"{holder}'s grant" if holder != who else "another task's grant of its process"
            if holder == who and grants.token[hit] != chain.token[here] != ABSENT:
                whose = "a later grant of its own"
            kind, text = f"{verb} by another", f"{who} {verb} {whose}{blindly}"
        else:
            kind, text = "revived", f"an ended grant of {who} came back{blindly}"
        return {
            "text": text,
            "kind": kind,
            "lock": events.text("lock", int(chain.lock[here])),
            "writes": [truth.describe(which) for which in (here - 1, here) if which >= 0],
        }

    return Violations(clause="S6", run=chain.run[where], at_ns=chain.at_hi_ns[where], witness=witness)
