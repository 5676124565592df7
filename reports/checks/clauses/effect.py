"""Effect: what the protected resource accepted, and from whom (S4).

The only question that matters in the end: did a write of an earlier grant land
after one of a later grant? No clock bound excuses it. "Earlier" is told by the
token where the lock gives one *and* by the grant's place in the chain, since a
broken lock may hand out tokens that say nothing; where neither is known, by
the order in which the acquires returned.

One late write is no lock's fault: the guard's yes before it was right, it was
kept on its way, and it carries no token by which the resource could refuse it.
It is counted, and breaks nothing (`find_unfenced`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lockref.words import ABSENT, Kind, Op
from reports.checks.clauses.loss_notice import clock_allowance_ns
from reports.checks.demands import parse_demand
from reports.checks.facts.case import Case
from reports.checks.facts.columns import NO_TEXT, Events, Flags, Ints, are_among
from reports.checks.facts.effects import Effects
from reports.checks.facts.operations import Operations
from reports.checks.facts.segments import below_earlier_maximum
from reports.checks.facts.sources.truth import Truth
from reports.checks.rulings import Violations
from reports.checks.situation_names import TOKEN
from reports.checks.witness_rows import witness_row

GUILTY_TOLD: Final = 2
"""So many wrong writes of a resource are shown beside the worst of them."""

STALE_TOKEN, STALE_GRANT, LOST_UPDATE, NO_GRANT, OUTSIDE = 0, 1, 2, 3, 4
KINDS = ("stale token", "stale grant", "lost update", "no grant", "outside its grant")
REASONS = (
    "a write with a smaller token than one accepted before",
    "a write of an earlier grant than one accepted before",
    "a write that was not based on the state it replaced",
    "a write of a tenure that has no grant",
    "a write whose client did not hold the lock from its sending to its answer",
)


def asks_for_tokens(case: Case) -> Flags:
    """Per run: its scenario shows what a token is worth, and proves nothing of a lock that has none."""
    return np.array(
        [TOKEN in {parse_demand(text)[0] for text in texts} for texts in case.runs.lists("must_happen")], dtype=np.bool_
    )


def check_effect_exclusion(case: Case, excused: Flags) -> Violations:
    """S4: accepted writes follow the order of grants, each on the state before it, each of a real grant.

    A write that was seen on the wire is judged by one question: did its client hold the lock then?
    excused: runs of which it is not asked.
    """
    effects = case.effects
    accepted, reason = case.once(_accepted)
    is_bad = (reason >= 0) & ~excused[effects.run[accepted]]
    unfenced: Flags = np.isin(accepted, case.once(find_unfenced))
    is_bad[unfenced | _behind_unfenced(effects, accepted, reason, unfenced)] = False
    bad = np.flatnonzero(is_bad)
    assert not effects.is_accepted.size or bool(np.all(effects.is_accepted[accepted[bad]])), (
        "a refused write harms nobody"
    )

    def witness(index: int) -> dict[str, Any]:
        return describe_wrong_write(case, _Judged(accepted, reason, is_bad), int(bad[index]))

    return Violations(clause="S4", run=effects.run[accepted[bad]], at_ns=effects.at_ns[accepted[bad]], witness=witness)


def _accepted(case: Case) -> tuple[Ints, Ints]:
    """As `_reasons`."""
    return _reasons(case.truth, case.operations, case.effects)


def find_unfenced(case: Case) -> Ints:
    """Positions in the effects: late writes of locks without tokens that left while their own grant was good.

    The lock's last word on such a write is the guard's yes before it, and that yes was right. Afterwards the network,
    the read before the write, or in a real run the machine delayed the write. A lock without a token cannot prevent
    that. A pause of the client excuses nothing: the plan asks for the pause, and the witness shows it (`promised`). A
    commit asks its guard several times, so commits are not among these writes.
    """
    effects, truth, grants = case.effects, case.truth, case.truth.grants
    accepted, reason = case.once(_accepted)
    late: Ints = accepted[(reason == STALE_GRANT) & (effects.grant[accepted] >= 0)]
    if len(late) == 0:
        return late
    events, row = case.events, effects.row[late]
    shows = np.unique(events.lock_key[events.integers("token") != ABSENT])
    is_simulated = np.array([world != "real" for world in case.runs.texts("world")], dtype=np.bool_)
    late = late[~np.isin(events.lock_key[row], shows) & are_among(events.numbers("op")[row], _ONE_GUARD)]
    guard = _guards_before(events, effects.row[late])
    late, guard = late[guard >= 0], guard[guard >= 0]
    grant, said_ns = effects.grant[late], events.integers("at_ns")[guard]
    until = grants.valid_until_true_ns[grant]
    is_good = (until == ABSENT) | (said_ns <= until + clock_allowance_ns(truth, grant))
    is_good &= (grants.end_lo_ns[grant] == ABSENT) | (said_ns < grants.end_lo_ns[grant])
    is_good &= said_ns >= grants.begin_lo_ns[grant]
    node = events.codes("node")[effects.row[late]]

    def is_paused(one: int) -> bool:
        where, who, since_ns = int(effects.run[late[one]]), int(node[one]), int(said_ns[one])
        if case.disturbances.pauses_at(where, who, since_ns, after_row=int(guard[one])):
            return True
        # A blind write of a simulation left at the instant of the yes. Any other write may have left after a pause.
        has_left = bool(is_simulated[where]) and int(events.numbers("op")[effects.row[late[one]]]) == Op.WRITE
        return not has_left and case.disturbances.paused_ns(where, who, since_ns, int(effects.at_ns[late[one]])) > 0

    kept = [one for one in np.flatnonzero(is_good).tolist() if not is_paused(one)]
    unfenced: Ints = late[kept]
    return unfenced


_ONE_GUARD: Final = (Op.WRITE, Op.APPEND, Op.INCREMENT)
"""Protected writes before which the guard is asked once."""


def _behind_unfenced(effects: Effects, accepted: Ints, reason: Ints, unfenced: Flags) -> Flags:
    """True for a lost update whose rival was a late write that only a token could have refused: it lost to that one."""
    behind = np.zeros(len(accepted), dtype=np.bool_)
    group = effects.group[accepted]
    behind[1:] = (reason[1:] == LOST_UPDATE) & unfenced[:-1] & (group[1:] == group[:-1])
    return behind


def _guards_before(events: Events, rows: Ints) -> Ints:
    """Per EFFECT row, the guard's yes that let this write go: that of the same number in its tenure. -1 for none."""
    yes = events.rows(Kind.BELIEVED)
    yes = yes[events.numbers("op")[yes] == Op.GUARD]
    key = events.request_keys(yes)
    order = np.argsort(key, kind="stable")
    yes, key = yes[order], key[order]
    wanted = events.request_keys(rows)
    place = np.searchsorted(key, wanted) + np.maximum(events.integers("attempt")[rows], 1) - 1
    is_known = (wanted >= 0) & (place < np.searchsorted(key, wanted, side="right"))
    found = np.full(len(rows), -1, dtype=np.int64)
    found[is_known] = yes[place[is_known]]
    found[found > rows] = -1
    return found


def _reasons(truth: Truth, operations: Operations, effects: Effects) -> tuple[Ints, Ints]:
    """The accepted writes, and for each what speaks against it: one of `REASONS`, or -1."""
    accepted = np.flatnonzero(effects.is_accepted)
    group = effects.group[accepted]
    reason = np.full(len(accepted), -1, dtype=np.int64)
    is_seen = effects.is_seen[accepted]
    readable = truth.knows_rows(effects.row[accepted]) & ~is_seen
    grant, operation = effects.grant[accepted], effects.operation[accepted]
    is_returned = operation >= 0
    if len(operations.is_granted):
        is_returned &= operations.is_granted[np.maximum(operation, 0)]

    reason[readable & (grant < 0)] = NO_GRANT
    reason[_lost_updates(effects, accepted)] = LOST_UPDATE
    by_return = ~readable & ~is_seen & is_returned
    for use, place in (
        ((grant >= 0) & ~is_seen, grant),
        (by_return, operations.return_row[np.maximum(operation, 0)] if len(operations.return_row) else operation),
    ):
        chosen = np.flatnonzero(use)
        reason[chosen[below_earlier_maximum(group[chosen], place[chosen])]] = STALE_GRANT
    token = effects.token[accepted]
    numbered = np.flatnonzero(token != ABSENT)
    reason[numbered[below_earlier_maximum(group[numbered], token[numbered])]] = STALE_TOKEN
    reason[effects.is_outside[accepted] & truth.knows_rows(effects.row[accepted])] = OUTSIDE
    return accepted, reason


def _lost_updates(effects: Effects, accepted: Ints) -> Flags:
    """True where an accepted write was based on another state than the one it replaced, and a rival made that one.

    A tenure's own repeated delivery is a duplicate, not a lost update.
    """
    lost = np.zeros(len(accepted), dtype=np.bool_)
    if len(accepted) < 2:
        return lost
    condition, version = effects.if_version[accepted], effects.version[accepted]
    group, operation = effects.group[accepted], effects.operation[accepted]
    lost[1:] = (
        (group[1:] == group[:-1])
        & (condition[1:] != NO_TEXT)
        & (version[:-1] != NO_TEXT)
        & (condition[1:] != version[:-1])
        & ((operation[1:] != operation[:-1]) | (operation[1:] < 0))
    )
    return lost


@dataclass(frozen=True, slots=True)
class _Judged:
    """The accepted writes, what speaks against each, and which of them break the clause."""

    accepted: Ints
    reason: Ints
    is_bad: Flags


def describe_wrong_write(case: Case, judged: _Judged, position: int) -> dict[str, Any]:
    """The witness of a wrong write: all wrong ones of its resource are counted, and the worst of them are shown.

    position: of the first wrong write, among the accepted ones. Beside the wrong writes stand the rival's write that
    was accepted before them, and the two grants: how the writer's ended, and whose came after.
    """
    events, effects = case.events, case.effects
    group = effects.group[judged.accepted]
    start, stop = (int(np.searchsorted(group, group[position], side=side)) for side in ("left", "right"))
    guilty = start + np.flatnonzero(judged.is_bad[start:stop])
    late_ns = _lateness_ns(case, judged.accepted[guilty])
    worst = int(guilty[int(np.argmax(late_ns))])
    size_ns = int(late_ns.max()) if late_ns.max() >= 0 else None
    row, reason = effects.row[judged.accepted[position]], int(judged.reason[position])
    rival = _rival(judged, effects, start, position)
    writes = {position, worst, *guilty[:GUILTY_TOLD].tolist()}
    shown = [
        {**_describe_effect(case, int(judged.accepted[which])), "is_guilty": bool(judged.is_bad[which])}
        for which in sorted({*writes, *([] if rival is None else [rival])})
    ]
    others = len(guilty) - 1
    also = f", and {others:,} more such write{'' if others == 1 else 's'}" if others else ""
    after = "" if size_ns is None else f"; the worst came {size_ns} ns after its grant was over"
    return {
        "text": f"the resource accepted {REASONS[reason]}{also}{after}",
        "kind": KINDS[reason],
        "size_ns": size_ns,
        "guilty": len(guilty),
        "lock": events.text("lock", int(events.codes("lock")[row])),
        "effects": shown,
        "writes": _told_grants(case, judged.accepted[sorted({position, worst})].tolist()),
    }


def _lateness_ns(case: Case, which: Ints) -> Ints:
    """Per write: how long after the end of its own grant it was accepted; -1 where no such end is known."""
    grant, at_ns = case.effects.grant[which], case.effects.at_ns[which]
    if len(case.truth.grants.first) == 0:
        return np.full(len(which), -1, dtype=np.int64)
    ended = np.where(grant >= 0, case.truth.grants.end_hi_ns[np.maximum(grant, 0)], ABSENT)
    is_known = (ended != ABSENT) & (ended <= at_ns)
    return np.where(is_known, at_ns - np.where(is_known, ended, 0), -1)


def _rival(judged: _Judged, effects: Effects, start: int, position: int) -> int | None:
    """The accepted write that the wrong one at `position` should have come before, or that it wrote over.

    None where a write is wrong by itself: its client had no grant.
    """
    reason = int(judged.reason[position])
    if position == start or reason in (NO_GRANT, OUTSIDE):
        return None
    if reason == LOST_UPDATE:
        return position - 1
    before = judged.accepted[start:position]
    order = effects.token if reason == STALE_TOKEN else effects.grant
    if reason == STALE_GRANT and int(effects.grant[judged.accepted[position]]) < 0:
        return position - 1
    return start + int(np.argmax(order[before]))


def _told_grants(case: Case, wrong: list[int]) -> list[dict[str, Any]]:
    """The grant of each of these wrong writes, from its beginning to its end, and the grant that came after it."""
    truth, effects = case.truth, case.effects
    grants, changes = truth.grants, truth.changes
    group = case.events.lock_key[effects.row[wrong[0]]]
    start, stop = (int(np.searchsorted(grants.group, group, side=side)) for side in ("left", "right"))
    told: set[int] = set()
    for which in wrong:
        grant = int(effects.grant[which])
        if grant >= 0:
            told |= {int(grants.first[grant]), int(grants.end[grant])}
        # The successor: the last grant that began before the wrong write was accepted.
        began = start + int(np.searchsorted(grants.begin_lo_ns[start:stop], effects.at_ns[which], side="right")) - 1
        if began >= start:
            told.add(int(grants.first[began]))
    return [truth.describe(change) for change in sorted(told) if change >= 0 and changes.group[change] == group]


def _describe_effect(case: Case, which: int) -> dict[str, Any]:
    """One effect for a witness. The key of a write that was seen on the wire is that of the object it wrote."""
    events, effects = case.events, case.effects
    row, token = int(effects.row[which]), int(effects.token[which])
    sent = int(events.sent_by_request[events.request_keys(np.array([row]))][0]) if effects.is_seen[which] else -1
    return witness_row(
        events,
        row,
        sent_row=sent,
        owner=events.text("owner", int(events.codes("owner")[row])),
        token=None if token == ABSENT else token,
        if_version=events.text("if_version", int(effects.if_version[which])),
        version=events.text("version", int(effects.version[which])),
    )
