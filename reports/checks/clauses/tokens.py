"""Tokens: do the numbers of successive grants rise strictly (S2)?

Across release, expiry, deletion and re-creation: a token that comes again lets
a late writer through. Grants without a token are passed over. The return of an
ended grant under its old token is S6's business, not a second grant's token.

Where a grant's record has no token, or cannot be read, the clause judges the token
that the acquire *returned*, because that number is the one that fences. Two such
tokens are compared only where the order of their grants is certain: one call had
returned before the other began, or both grants have places in a chain of records.
So an answer that comes late is never taken for a later grant. Two clients must
not get the same number, in whatever order. A client that locks again what it has
not given back may get the same token again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lockref.words import ABSENT, Op, Outcome
from reports.checks.facts.columns import Flags, Ints
from reports.checks.facts.operations import Operations, witness_call
from reports.checks.facts.segments import below_earlier_maximum, count_at_or_before, renumber
from reports.checks.facts.sources.truth import Truth
from reports.checks.rulings import Violations


def check_token_order(truth: Truth, operations: Operations, revived: Flags) -> Violations:
    """S2: one violation per grant whose token does not exceed every earlier one. `revived`: per grant, see S6.

    Of grants whose record carries no token, one per call that returned such a token.
    """
    grants, events = truth.grants, truth.events
    numbered = np.flatnonzero((grants.token != ABSENT) & ~revived)
    token, top = grants.token[numbered], last_tokens(truth)[numbered]
    if np.array_equal(token, top):
        falls = below_earlier_maximum(grants.group[numbered], token, or_equal=True)
    else:
        # Where each write raises the token, a grant is two entries: its first token, and its last.
        both, group = np.stack((token, top), axis=1).reshape(-1), np.repeat(grants.group[numbered], 2)
        falls = below_earlier_maximum(group, both, or_equal=True)[::2]
    wrong = np.flatnonzero(falls)
    returned = find_returned_tokens(truth, operations)
    fallen, earlier = _fallen_returns(truth, operations, returned, revived)

    def witness(index: int) -> dict[str, Any]:
        if index >= len(wrong):
            return _describe_returns(truth, operations, *(int(each[index - len(wrong)]) for each in (earlier, fallen)))
        position = int(wrong[index])
        grant = int(numbered[position])
        start = int(np.searchsorted(grants.group[numbered], grants.group[grant], side="left"))
        assert start < position, "a token falls only after another one of its lock"
        highest = int(numbered[start + int(np.argmax(top[start:position]))])
        return {
            "text": f"token {int(grants.token[grant])} was given after token {int(last_tokens(truth)[highest])}",
            "lock": events.text("lock", int(grants.lock[grant])),
            "writes": [truth.describe(which) for which in _told_writes(truth, highest, grant)],
        }

    bad = numbered[wrong]
    return Violations(
        clause="S2",
        run=np.concatenate((grants.run[bad], operations.run[fallen])),
        at_ns=np.concatenate((grants.begin_hi_ns[bad], operations.return_at_ns[fallen])),
        witness=witness,
    )


def _told_writes(truth: Truth, highest: int, grant: int) -> list[int]:
    """Positions in the chain: the grant with the higher token, what ended it, what was there before, the new grant."""
    grants, changes = truth.grants, truth.changes
    new = int(grants.first[grant])
    ended, before = int(grants.end[highest]), new - 1
    between = {which for which in (ended, before) if which >= 0 and changes.group[which] == changes.group[new]}
    first = int(grants.first[highest])
    return [first, *sorted(which for which in between if first < which < new), new]


def last_tokens(truth: Truth) -> Ints:
    """Per grant: the token of its last renewal. It equals the grant's own token, unless each write raises the token."""
    grants = truth.grants
    renewed: Ints = truth.changes.token[grants.last]
    return np.where((grants.token != ABSENT) & (renewed != ABSENT), np.maximum(renewed, grants.token), grants.token)


def find_returned_tokens(truth: Truth, operations: Operations) -> Ints:
    """The granted acquires that returned a token which no record shows."""
    granted = np.flatnonzero(operations.is_granted & (operations.token != ABSENT))
    grant = operations.grant[granted]
    if not len(truth.grants.first):
        return granted
    hidden: Ints = granted[(grant < 0) | (truth.grants.token[np.maximum(grant, 0)] == ABSENT)]
    return hidden


def has_no_tokens(truth: Truth, operations: Operations) -> Flags:
    """Per run: no grant carries a token, and none was returned."""
    grants = truth.grants
    without = np.ones(truth.runs.count, dtype=np.bool_)
    without[grants.run[grants.token != ABSENT]] = False
    without[operations.run[find_returned_tokens(truth, operations)]] = False
    return without


def _fallen_returns(truth: Truth, operations: Operations, which: Ints, revived: Flags) -> tuple[Ints, Ints]:
    """The acquires whose token does not exceed one handed out before, and for each of them that earlier acquire.

    which: the acquires to look at. revived: per grant, see S6.
    """
    none = np.zeros(0, dtype=np.int64)
    if len(which) < 2:
        return none, none
    lock = truth.events.lock_key[operations.call_row[which]]
    token, returned = operations.token[which], operations.return_row[which]
    order = np.lexsort((returned, lock))
    which, lock, token, returned = which[order], lock[order], token[order], returned[order]
    before = count_at_or_before(
        known_group=lock, known_row=returned, asked_group=lock, asked_row=operations.call_row[which],
        row_count=truth.events.count,
    )  # fmt: skip
    # Position of the highest token among those of the lock that were returned before this call began.
    start = np.searchsorted(lock, lock, side="left")
    highest = _highest_so_far(lock, token)
    top = highest[np.maximum(start + before - 1, 0)]
    earlier = np.where((before > 0) & (token < token[top]), top, -1)

    # The same number again: by another client, whatever the order, or by the same one that had given it back.
    same = renumber(lock, token)[0]
    by_number = np.lexsort((returned, same))
    first = by_number[np.searchsorted(same[by_number], same, side="left")]
    is_anew = (returned[first] < operations.call_row[which]) & ~_enters_again(truth, operations, which)
    again = (first != np.arange(len(which))) & ((operations.node[which] != operations.node[which[first]]) | is_anew)
    earlier = np.where((earlier < 0) & again, first, earlier)

    # Places in a chain order calls that overlapped.
    grant = operations.grant[which]
    placed = np.flatnonzero((grant >= 0) & ~truth.has_holes[operations.run[which]])
    placed = placed[~revived[grant[placed]]] if len(revived) else placed
    placed = placed[np.lexsort((placed, grant[placed]))]
    placed = placed[np.concatenate(([True], grant[placed][1:] != grant[placed][:-1]))] if len(placed) else placed
    chain = truth.grants.group[grant[placed]]
    falls = below_earlier_maximum(chain, token[placed], or_equal=True)
    top = placed[np.concatenate(([0], _highest_so_far(chain, token[placed])[:-1]))] if len(placed) else placed
    chained = np.full(len(which), -1, dtype=np.int64)
    chained[placed[falls]] = top[falls]
    earlier = np.where(earlier < 0, chained, earlier)

    fallen = np.flatnonzero(earlier >= 0)
    assert bool(np.all(token[fallen] <= token[earlier[fallen]])), "the earlier token is not the smaller one"
    return which[fallen], which[earlier[fallen]]


def _highest_so_far(group: Ints, values: Ints) -> Ints:
    """Per row, the position of the first highest value of its group up to and including it."""
    rank = renumber(values)[0] if len(values) else values
    span = int(rank.max(initial=0)) + 1
    # Each group begins above whatever the groups before it can reach, so that one running maximum serves all.
    running = np.maximum.accumulate(renumber(group)[0] * span + rank) if len(values) else values
    rises = np.ones(len(values), dtype=np.bool_)
    rises[1:] = running[1:] > running[:-1]
    positions: Ints = np.maximum.accumulate(np.where(rises, np.arange(len(values)), 0))
    return positions


def _enters_again(truth: Truth, operations: Operations, which: Ints) -> Flags:
    """Per acquire of `which`: its node has been granted this lock more often than it has given it back.

    Only an unlock that reported success gives back for certain; after any other one the grant may be its own still.
    """
    enters = np.flatnonzero(operations.is_granted)
    leaves = np.flatnonzero((operations.op == Op.RELEASE) & (operations.outcome == Outcome.APPLIED))
    calls = np.concatenate((enters, leaves, which))
    home = renumber(truth.events.lock_key[operations.call_row[calls]], operations.node[calls].astype(np.int64))[0]
    row = np.concatenate((operations.return_row[enters], operations.call_row[leaves], operations.call_row[which]))
    entered, left = (
        count_at_or_before(
            known_group=home[part],
            known_row=row[part],
            asked_group=home[-len(which) :],
            asked_row=row[-len(which) :],
            row_count=truth.events.count,
        )
        for part in (slice(0, len(enters)), slice(len(enters), len(enters) + len(leaves)))
    )
    inside: Flags = entered > left
    return inside


def _describe_returns(truth: Truth, operations: Operations, earlier: int, later: int) -> dict[str, Any]:
    events = truth.events

    def told(which: int) -> dict[str, Any]:
        owner = events.text("owner", int(operations.owner[which]))
        return {**witness_call(events, operations, which), "owner": owner, "token": int(operations.token[which])}

    return {
        "text": f"token {int(operations.token[later])} was handed out after token {int(operations.token[earlier])}",
        "kind": "returned token",
        "lock": events.text("lock", int(operations.lock[later])),
        "calls": [told(earlier), told(later)],
    }
