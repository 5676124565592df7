"""A second definition of "legal", from calls and returns alone (S1, S2, S7).

`judge` reads the store's chain. This module never sees the store: it asks
whether the answers that clients got could come from *any* lock that grants
one client at a time under rising tokens. The two definitions check each other.

Deciding this in general means searching all orders. Tokens fix the order of
grants, and then nothing is left to search: each grant is placed as early as
its call and the previous end allow, each end as late as it may be. The gaps in
which the lock must have been free are then smallest, all of them at once,
because an end is never before its own grant's earliest place. A denial is
illegal exactly if its whole interval lies inside one gap.

The rules:

    granted    takes effect in [call, return], when the lock is free, under a
               token above all before it
    denied     some instant of [call, return] at which the lock is held
    released   the last grant of its client that is not given back yet has ended by the return. The release ended
               it in [call, return], or it had ended by itself, or an earlier unknown release had ended it. If
               there is no such grant, the release is legal: a second unlock may report success (S7)
    unknown    an acquire may have taken effect at any time from its call on,
               under a token nobody saw, for any span, or not at all; a release
               at any time from its call on
    expiry     a grant with a promised end may end at any time from there on

Intervals are closed: two clocks may give one reading, and half-open ends would
then call concurrent operations ordered (the argument is in porcupine's
model.go). That favours the lock, as S3 does where two beliefs share one instant:
concurrent operations may have happened in either order. Two operations of one
client that share an instant are concurrent, too. Which release belongs to which
grant follows the order in which the client called.
Validated against brute force in tests/quality/test_second_opinion.py.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

NEVER: Final = 2**62


class Result(Enum):
    """The result of an operation."""

    GRANTED = "granted"
    DENIED = "denied"
    RELEASED = "released"
    UNKNOWN_ACQUIRE = "unknown acquire"
    UNKNOWN_RELEASE = "unknown release"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOp:
    """One operation on one lock. One client's operations come in the order of its calls and do not overlap.

    return_ns: NEVER while open. token: of a granted acquire. ends_ns: from
    when on a grant may end by itself; NEVER for a lock without leases.
    """

    client: str
    result: Result
    call_ns: int
    return_ns: int
    token: int | None = None
    ends_ns: int = NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Illegal:
    """The first rule that was broken, and by which operations."""

    rule: str
    ops: tuple[LockOp, ...]


@dataclass(slots=True)
class _Tenure:
    """A grant with the window in which it ends. begin_ns, end_ns: where this module places them."""

    op: LockOp
    end_lo_ns: int
    end_hi_ns: int = NEVER
    begin_ns: int = 0
    end_ns: int = 0


def find_illegal(ops: Sequence[LockOp], *, token_min: int | None = None) -> Illegal | None:
    """Find an illegal operation in a fenced lock's history, or None.

    token_min: the smallest token that this lock gives; None where nobody knows, so that below the first grant seen
    there is room for any number of others.

    Shape:   n operations of one lock, any order; every granted acquire has a token.
    Units:   true time, integers, closed intervals.
    Errors:  ValueError if a granted acquire has no token: use `reports.checks.second_opinion.search`.
    Cost:    O(n log n); 100,000 operations in about 0.3 s.
    """
    tenures = _pair(ops)
    previous: _Tenure | None = None
    for tenure in tenures:
        if previous is not None and tenure.op.token == previous.op.token:
            return Illegal(rule="token repeated", ops=(previous.op, tenure.op))
        free_ns = -NEVER if previous is None else max(previous.end_lo_ns, previous.begin_ns)
        tenure.begin_ns = max(tenure.op.call_ns, free_ns)
        if tenure.begin_ns > tenure.op.return_ns:
            return Illegal(rule="overlap", ops=(tenure.op,) if previous is None else (previous.op, tenure.op))
        assert previous is None or previous.begin_ns <= tenure.begin_ns, "grants begin in the order of their tokens"
        previous = tenure
    for position, tenure in enumerate(tenures):
        following = tenures[position + 1].begin_ns if position + 1 < len(tenures) else NEVER
        tenure.end_ns = min(tenure.end_hi_ns, following)
    return _denied_while_free(ops, tenures, token_min)


def _pair(ops: Sequence[LockOp]) -> list[_Tenure]:
    """Grants in token order, each with the end window that its client's next release, or its expiry, gives it."""
    tenures: list[_Tenure] = []
    holding: dict[str, _Tenure] = {}
    for op in ops:
        if op.result is Result.GRANTED:
            if op.token is None:
                raise ValueError("a granted acquire has no token; use reports.checks.second_opinion.search")
            holding[op.client] = tenure = _Tenure(op, op.ends_ns)
            tenures.append(tenure)
        elif op.result in (Result.RELEASED, Result.UNKNOWN_RELEASE) and op.client in holding:
            held = holding[op.client]
            held.end_lo_ns = min(held.end_lo_ns, op.call_ns)
            if op.result is Result.RELEASED:
                held.end_hi_ns = op.return_ns
                del holding[op.client]
    tenures.sort(key=lambda tenure: tenure.op.token or 0)
    return tenures


def _denied_while_free(ops: Sequence[LockOp], tenures: list[_Tenure], token_min: int | None) -> Illegal | None:
    """The first denial inside a gap that no unknown acquire can fill."""
    ends = [tenure.end_ns for tenure in tenures]
    need: dict[int, LockOp] = {}
    for op in ops:
        if op.result is not Result.DENIED:
            continue
        gap = bisect_left(ends, op.call_ns)
        # ends[gap - 1] < call: the gap after that tenure. It is free up to the next begin.
        if gap < len(tenures) and tenures[gap].begin_ns <= op.return_ns:
            continue
        earliest = need.get(gap)
        if earliest is None or op.return_ns < earliest.return_ns:
            need[gap] = op
    unknown = sorted(op.call_ns for op in ops if op.result is Result.UNKNOWN_ACQUIRE)
    # An unknown acquire fills a gap, for all denials inside it, if it began before the earliest of them returned.
    # Exchange argument: sort the gaps by that return. An unknown acquire that begins early enough for one gap begins
    # early enough for every later gap. So it is never wrong to spend the earliest unused one on the earliest gap, and
    # counting decides; no matching is needed.
    for used, gap in enumerate(sorted(need, key=lambda one: need[one].return_ns)):
        if bisect_right(unknown, need[gap].return_ns) <= used or not _has_room(tenures, gap, token_min):
            return Illegal(rule="denied while free", ops=(need[gap],))
    return None


def _has_room(tenures: list[_Tenure], gap: int, token_min: int | None) -> bool:
    """True if a token that nobody saw fits between the grants around this gap."""
    if gap == len(tenures) or (gap == 0 and token_min is None):
        return True
    below = (token_min or 0) - 1 if gap == 0 else tenures[gap - 1].op.token or 0
    return (tenures[gap].op.token or 0) - below > 1
