"""A sound lock that claims more fairness than it has: nothing in it keeps a queue.

lockref sim docs/explanation/clauses/f1.yaml --provider docs/explanation/clauses/unfair_lock.py:ClaimsTurns
"""

from __future__ import annotations

from lockref import StorageLock


class ClaimsTurns(StorageLock):
    """The reference, with two claims: at most one grant passes a waiter by, and each waiter is served."""

    claims = ("F1:1", "F2")
