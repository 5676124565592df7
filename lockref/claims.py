"""Claims: the words by which a lock describes itself, in its class attribute `claims`.

Two kinds of words. A *promise* names a clause that the lock wants to be held to, though not every lock is. A
*declaration* says what kind of lock it is, where the clauses would otherwise take it for another kind. Both are texts
in one list, which the runs table of a history carries to the judge.

What the record of a run shows needs no declaration, though a lock that declares it is held to it where a mistake keeps
the record from showing it: whether grants carry tokens, how often a holder renews, whether a
token rises with each write, whether a holder hands the lock over or releases it by a stamp of the past.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

LOSSES = "L4"
"""Every loss is reported to the listener."""

NO_LEASE = "no-lease"
LEASE = "lease"
BELIEF_THROUGH_UNLOCK = "belief-through-unlock"
RENEWS = "renews"
TOKENS = "tokens"
ONE_TASK = "one-task"

DECLARATIONS: Final[Mapping[str, str]] = {
    NO_LEASE: (
        "a grant lasts until it is given back; only an operator frees what a dead holder, or an acquire without an "
        "answer, left"
    ),
    LEASE: "a record without a stamp is good for the validity that the lock was told, from its sending",
    BELIEF_THROUGH_UNLOCK: "the holder may use the lock until `unlock` has returned, and not only until it is called",
    RENEWS: "a holder renews: a run in which none does proves nothing about it",
    TOKENS: "grants carry fencing tokens: a run in which none does proves nothing about it",
    ONE_TASK: "only one task of each process uses the lock",
}
"""The claims that a lock may declare, and the meaning of each."""

_PROMISE = re.compile(r"F1(:[0-9]{1,9})?|F2|L4")


def refusal(claims: object) -> str | None:
    """The error in the `claims` of a lock, in words; None if they are valid."""
    expected = f"'F1', 'F1:K' with a whole number K, 'F2', 'L4', {', '.join(map(repr, DECLARATIONS))}"
    if isinstance(claims, str) or not isinstance(claims, Sequence | set | frozenset):
        return f"claims {claims!r}; expected a list of some of {expected}"
    for claim in claims:
        if not isinstance(claim, str) or not (claim in DECLARATIONS or _PROMISE.fullmatch(claim)):
            return f"claims {claims!r}; expected some of {expected}"
    if NO_LEASE in claims and LEASE in claims:
        return f"claims {claims!r}: a lock has a lease or none"
    return None
