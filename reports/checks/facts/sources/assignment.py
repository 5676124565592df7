"""Assignment: a controller decides who has a lock, and each participant's state says whether it has taken it.

A row of such a lock is one state of one participant: its owner is the participant, and it is live or given back. A
lock is granted to the participant whose state says so. One of three states ends the grant: the participant has given
the lock back; a state without an owner replaces it; or another participant has the lock. If a participant changes its
state while another one has the lock, this ends nothing.

The writer of a state does not matter: the controller may clear the state of a participant whose session is over. A
decoder must report states, never wishes: an assignment is no grant until the participant has taken the lock.

Prior art: the lock groups of Apache Helix, whose participants take a partition from OFFLINE to ONLINE to have the lock.
Rejected: reading grants off the controller's assignments alone. A participant that has not heard yet would be accused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lockref.words import Kind, Op
from reports.checks.disturbances import find_disturbances
from reports.checks.facts.columns import NO_TEXT, Codes, Events, Flags, Ints, Runs, is_first
from reports.checks.facts.sources.grants import ASSIGNED, DELETED, LIVE, RELEASED, Grants, grants_of, plain_changes
from reports.checks.facts.sources.sessions import landed_writes, session_end_ns


@dataclass(frozen=True)
class Assignment:
    """The grants of locks that a controller assigns. locks: per lock key, it is one of them."""

    locks: Flags

    def grants(self, events: Events, runs: Runs) -> Grants:
        """See `GrantSource`. Cost: linear in the rows of these locks, but for the crashes of their owners."""
        writes = landed_writes(events, runs, self.locks)
        owner, op = events.codes("owner")[writes.row], events.numbers("op")[writes.row]
        is_live = (owner != NO_TEXT) & (op != Op.RELEASE) & (op != Op.DELETE)
        is_live = _carried_along(events.lock_key[writes.row], owner, op == Op.WRITE, is_live)
        ends = _ends_the_grant(events.lock_key[writes.row], owner, is_live)
        kept = np.flatnonzero(is_live | ends)
        writes, owner, is_live = writes.take(kept), owner[kept], is_live[kept]
        assert bool(np.all(is_live[is_first(events.lock_key[writes.row])])), "only a grant can be given back"
        state: npt.NDArray[np.uint8] = np.where(is_live, LIVE, np.where(owner != NO_TEXT, RELEASED, DELETED)).astype(
            np.uint8
        )
        node = _node_of_owner(events, writes.row, owner)
        run = events.run[writes.row]
        changes = plain_changes(
            events,
            row=writes.row,
            sent_row=writes.sent_row,
            at_lo_ns=writes.at_lo_ns,
            at_hi_ns=writes.at_hi_ns,
            node=node,
            owner=owner,
            token=events.integers("token")[writes.row],
            version=writes.version,
            valid_until_true_ns=session_end_ns(runs, find_disturbances(events), run=run, node=node, row=writes.row),
            state=state,
            source=ASSIGNED,
        )
        return grants_of(events, changes)


def _carried_along(group: Ints, owner: Codes, is_carried: Flags, is_live: Flags) -> Flags:
    """Per state: is it live, where one that a body only carries along is what its owner's state was before.

    A participant writes all its locks in one body. What it gave back long ago, and writes once more beside another
    lock, gives it nothing: it is no grant.
    """
    count = len(group)
    place = np.arange(count)
    order = np.lexsort((place, owner, group))
    told = np.where(is_carried[order], -1, place)
    new = np.ones(count, dtype=np.bool_)
    new[1:] = (group[order][1:] != group[order][:-1]) | (owner[order][1:] != owner[order][:-1])
    starts = np.flatnonzero(new)
    begin = np.repeat(starts, np.diff(np.append(starts, count)))
    last = np.maximum.accumulate(told) if count else told
    found = is_live.copy()
    known = last >= begin
    found[order[known]] = is_live[order[last[known]]]
    return found


def _ends_the_grant(group: Ints, owner: Codes, is_live: Flags) -> Flags:
    """Per state: it ends the grant that is open. Only a state of that grant's owner does, or one that names nobody."""
    count = len(group)
    place = np.arange(count)
    starts = np.flatnonzero(is_first(group))
    begin = np.repeat(starts, np.diff(np.append(starts, count)))
    last_live = np.maximum.accumulate(np.where(is_live, place, -1)) if count else place
    has_live = last_live >= begin
    holder = owner[np.maximum(last_live, 0)]
    ends = ~is_live & has_live & ((owner == holder) | (owner == NO_TEXT))
    # The second state that gives one grant back gives nothing back.
    first = np.zeros(count, dtype=np.bool_)
    which = np.flatnonzero(ends)
    first[which[np.unique(last_live[which], return_index=True)[1]]] = True
    found: Flags = ends & first
    assert int(found.sum()) <= int(is_live.sum()), "a grant is given back once"
    return found


def _node_of_owner(events: Events, row: Ints, owner: Codes) -> Codes:
    """The node of each state's owner: the node of that name, else the node whose calls returned this owner's name.

    If no node goes by that name, the node that wrote the state is taken for its owner.
    """
    node = events.codes("node")[row].copy()
    returns = events.rows(Kind.RETURN)
    told = events.codes("owner")[returns]
    known = returns[told != NO_TEXT]
    by_answer = dict(
        zip(
            zip(events.run[known].tolist(), events.codes("owner")[known].tolist(), strict=True),
            events.codes("node")[known].tolist(),
            strict=True,
        )
    )
    used = set(np.unique(events.codes("node")).tolist())
    by_name: dict[int, int] = {}
    for position, (run, code) in enumerate(zip(events.run[row].tolist(), owner.tolist(), strict=True)):
        if code == NO_TEXT:
            continue
        if code not in by_name:
            by_name[code] = events.code_of("node", events.text("owner", code))
        if by_name[code] in used:
            node[position] = by_name[code]
        else:
            node[position] = by_answer.get((run, code), int(node[position]))
    return node
