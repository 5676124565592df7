"""Grants: from when to when which client had a lock.

Locks tell of their grants in different ways. One keeps a record under compare-and-set, one is assigned by a controller,
one belongs to the first of a queue, and one shows nothing but the answers of its calls. A `GrantSource` reads one of
these ways; all but two clauses know only what comes out, `Grants`. S1 and S6 ask how a *record* was written, so they
look at the changes that are writes of one (`Changes.is_record`).

A source gives `Changes`, the states of its locks in order, and `grants_of` reads the grants off them: whatever the way,
a grant lasts from the state that names its owner to the first state that names somebody else, or nobody.

Prior art: Jepsen and Porcupine take grants from the answers of calls alone. Here a grant is what the service holds, so
that a client that was told nothing, and a client that was told a lie, are both judged. Rejected: a class of grants for
each kind of lock. Every clause would have to know them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from lockref.words import ABSENT, OPERATOR
from reports.checks.facts.columns import NO_TEXT, Codes, Events, Flags, Ints, Runs, are_among, is_first
from reports.checks.facts.segments import ordinals
from reports.checks.witness_rows import BY_HAND, witness_row

LIVE, RELEASED, DELETED, FOREIGN = 0, 1, 2, 3
"""What a change left behind: a live grant, a grant that was given back, no object, an object that is no lock record."""

OPEN, END_RELEASED, END_TAKEN_OVER, END_DELETED, END_OVERWRITTEN, END_HANDED_OVER = 0, 1, 2, 3, 4, 5
END_KINDS: Final = ("open", "released", "taken_over", "deleted", "overwritten", "handed_over")
"""How a grant ended; the positions in this list are the numbers above."""

FREED: Final = (END_RELEASED, END_DELETED, END_HANDED_OVER)
"""Ends after which nobody has to wait for the validity."""

RECORD, ASSIGNED, QUEUED = 0, 1, 2
"""Where a change was read: a record under compare-and-set, a controller's assignment, a queue of waiters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The states of every lock in order, one entry for each change.

    group: (run, lock), equal for one lock, ascending. row: the event that tells of the change. sent_row: the request
    by which the owner came to its state (in a queue: by which it began to wait), -1 where there is none.
    at_lo_ns, at_hi_ns: between these true times the change took effect (equal in a simulation).
    node: the owner's where the state names one, else that of who made the change.
    valid_until_true_ns: until when the state promises that nobody else gets the lock; ABSENT where it promises no time.
    source: RECORD, ASSIGNED or QUEUED.

    is_handed_over: the holder of the state before gave the lock to this owner.

    Of records alone: is_conditional: the write named the state that it replaces, if_version. is_broken: that does
    not fit what it replaced. is_hole: it fits no state on record either, so a writer whom nobody recorded was at work
    (real runs); what happened to the grant before it is then unknown. is_unsettled: a hole of another cause: it does
    not fit, and an unanswered or blind write, or a state that came again, may be why.
    """

    group: Ints
    row: Ints
    sent_row: Ints
    at_lo_ns: Ints
    at_hi_ns: Ints
    run: Ints
    lock: Codes
    node: Codes
    owner: Codes
    token: Ints
    valid_until_true_ns: Ints
    if_version: Codes
    version: Codes
    state: npt.NDArray[np.uint8]
    source: npt.NDArray[np.uint8]
    is_conditional: Flags
    is_first: Flags
    is_broken: Flags
    is_hole: Flags
    is_unsettled: Flags
    is_grant: Flags
    is_renewal: Flags
    is_handed_over: Flags

    @property
    def is_record(self) -> Flags:
        """Per change: it is a write of a record under compare-and-set."""
        records: Flags = self.source == RECORD
        return records

    def take(self, order: Ints) -> Changes:
        """These changes in this order. The caller keeps the changes of one lock in their own order."""
        taken = replace(self, **{field.name: getattr(self, field.name)[order] for field in fields(self)})
        assert bool(np.all(taken.group[1:] >= taken.group[:-1])), "the changes of one lock stand together"
        return taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """Periods for which a service named one owner, in the order of `changes`.

    first, last, end: positions in `changes` of the granting change, of the last renewal (or the grant itself), and of
    the change that ended it (-1: open). ordinal: 1, 2, … in its run and lock. end_*_ns: ABSENT while open.
    lapses: the grant ends by itself where its owner no longer renews it. Where it does not, the owner keeps it as long
    as its session with the service lives.
    """

    changes: Changes
    first: Ints
    last: Ints
    end: Ints
    group: Ints
    run: Ints
    lock: Codes
    ordinal: Ints
    node: Codes
    task: Codes
    owner: Codes
    token: Ints
    request: Ints
    begin_lo_ns: Ints
    begin_hi_ns: Ints
    end_lo_ns: Ints
    end_hi_ns: Ints
    end_kind: npt.NDArray[np.uint8]
    valid_until_true_ns: Ints
    next_same_lock: Ints
    lapses: Flags


def is_given(changes: Changes, first: Ints) -> Flags:
    """Per granting change: another node than its owner made it, a controller or the holder before."""
    given: Flags = (changes.source[first] == ASSIGNED) | changes.is_handed_over[first]
    return given


def given_back(grants: Grants) -> Flags:
    """True for each grant that its holder ended: the record says so, its node deleted it, or gave it to another."""
    deleted = grants.end_kind == END_DELETED
    found: Flags = are_among(grants.end_kind, (END_RELEASED, END_HANDED_OVER))
    found[deleted] = grants.changes.node[grants.end[deleted]] == grants.node[deleted]
    return found


class GrantSource(Protocol):
    """One way in which locks tell of their grants."""

    def grants(self, events: Events, runs: Runs) -> Grants:
        """The grants of the locks that this source was made for, and the changes that they were read off."""
        ...


def grants_of(events: Events, changes: Changes) -> Grants:
    """The grants that these changes tell of: each from its granting change to the first that is no renewal of it."""
    count = len(changes.row)
    boundary = np.flatnonzero(~changes.is_renewal)
    first = np.flatnonzero(changes.is_grant)
    following = np.searchsorted(boundary, first) + 1
    until = np.append(boundary, count)[following] if len(first) else first
    inside = np.minimum(until, max(count - 1, 0))
    has_end = (until < count) & (changes.group[inside] == changes.group[first])
    kind_by_state = np.array([END_TAKEN_OVER, END_RELEASED, END_DELETED, END_OVERWRITTEN], dtype=np.uint8)
    group = changes.group[first]
    source = changes.source[first]
    asked = np.where(changes.sent_row[first] >= 0, changes.sent_row[first], changes.row[first])
    # A controller that gives a lock to a node does not say for which of its tasks the grant is.
    has_task = (changes.sent_row[first] >= 0) & ~is_given(changes, first)
    end_kind = np.where(changes.is_handed_over[inside], np.uint8(END_HANDED_OVER), kind_by_state[changes.state[inside]])
    starts = is_first(group)
    following_grant = np.full(len(first), -1, dtype=np.int64)
    if len(first) > 1:
        following_grant[:-1] = np.where(starts[1:], -1, np.arange(1, len(first)))
    assert bool(np.all(until > first)), "a grant ended before it began"
    assert bool(np.all(changes.group[until - 1] == group)), "a grant is renewed within its lock"
    return Grants(
        changes=changes,
        first=first,
        last=until - 1,
        end=np.where(has_end, until, -1),
        group=group,
        run=changes.run[first],
        lock=changes.lock[first],
        ordinal=ordinals(starts, np.ones(len(first), dtype=np.bool_)),
        node=changes.node[first],
        task=np.where(has_task, events.codes("task")[asked], np.int32(NO_TEXT)),
        owner=changes.owner[first],
        token=changes.token[first],
        request=events.integers("request")[asked],
        begin_lo_ns=changes.at_lo_ns[first],
        begin_hi_ns=changes.at_hi_ns[first],
        end_lo_ns=np.where(has_end, changes.at_lo_ns[inside], ABSENT),
        end_hi_ns=np.where(has_end, changes.at_hi_ns[inside], ABSENT),
        end_kind=np.where(has_end, end_kind, np.uint8(OPEN)),
        valid_until_true_ns=changes.valid_until_true_ns[until - 1] if len(first) else first,
        next_same_lock=following_grant,
        lapses=source == RECORD,
    )


def joined(events: Events, parts: Sequence[Grants]) -> Grants:
    """The grants of several sources in one order, by lock. No lock may be in two of them."""
    known = [part for part in parts if len(part.changes.row)]
    if len(known) <= 1:
        return known[0] if known else parts[0]
    columns = {
        field.name: np.concatenate([getattr(part.changes, field.name) for part in known]) for field in fields(Changes)
    }
    groups = [np.unique(part.changes.group) for part in known]
    assert len(np.unique(np.concatenate(groups))) == sum(map(len, groups)), "two sources tell of one lock"
    changes = Changes(**columns)
    return grants_of(events, changes.take(np.argsort(changes.group, kind="stable")))


def describe_change(events: Events, changes: Changes, position: int) -> dict[str, Any]:
    """One change for a witness: its row, the state that it left behind, and on which condition it was written."""
    token = int(changes.token[position])
    node = events.text("node", int(changes.node[position]))
    told = witness_row(
        events,
        int(changes.row[position]),
        sent_row=int(changes.sent_row[position]),
        at_ns=int(changes.at_hi_ns[position]),
        node=node,
        state=("live", "released", "deleted", "foreign")[int(changes.state[position])],
        owner=events.text("owner", int(changes.owner[position])),
        token=None if token == ABSENT else token,
        if_version=events.text("if_version", int(changes.if_version[position])),
        version=events.text("version", int(changes.version[position])),
    )
    if node == OPERATOR:
        told["no_request"] = BY_HAND
    if changes.source[position] == RECORD and node != OPERATOR:
        told["is_conditional"] = bool(changes.is_conditional[position])
    return told


def plain_changes(
    events: Events,
    *,
    row: Ints,
    sent_row: Ints,
    at_lo_ns: Ints,
    at_hi_ns: Ints,
    node: Codes,
    owner: Codes,
    token: Ints,
    version: Codes,
    valid_until_true_ns: Ints,
    state: npt.NDArray[np.uint8],
    source: int,
) -> Changes:
    """Changes that are no writes of a record, in the order of locks; nothing in them can be broken or hidden.

    A live state by the owner and token of the live state before it is a renewal; any other live state is a grant.
    """
    group = events.lock_key[row]
    assert bool(np.all(group[1:] >= group[:-1])), "the states of one lock stand together"
    first = is_first(group)
    never = np.zeros(len(row), dtype=np.bool_)
    same = never.copy()
    same[1:] = (~first[1:]) & (state[:-1] == LIVE) & (owner[1:] == owner[:-1]) & (token[1:] == token[:-1])
    is_renewal = (state == LIVE) & same
    return Changes(
        group=group,
        row=row,
        sent_row=sent_row,
        at_lo_ns=at_lo_ns,
        at_hi_ns=at_hi_ns,
        run=events.run[row],
        lock=events.codes("lock")[row],
        node=node,
        owner=owner,
        token=token,
        valid_until_true_ns=valid_until_true_ns,
        if_version=np.full(len(row), NO_TEXT, dtype=np.int32),
        version=version,
        state=state,
        source=np.full(len(row), source, dtype=np.uint8),
        is_conditional=never,
        is_first=first,
        is_broken=never,
        is_hole=never,
        is_unsettled=never,
        is_grant=(state == LIVE) & ~is_renewal,
        is_renewal=is_renewal,
        is_handed_over=never,
    )
