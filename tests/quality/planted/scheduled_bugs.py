"""The planted bugs that need a schedule: a plain run of their scenario hardly ever shows them."""

from __future__ import annotations

from tests.quality.planted.registry import Bug

SCHEDULED = (
    Bug("scheduled:ChecksThenActs", "U6 H9", "u06", "S3 S4"),
    Bug("scheduled:ChecksThenActsAtOnce", "U6 H9", "u06", "S3 S4"),
    Bug("scheduled:RenewsWhatItReads", "S6 M17", "e01", "S1 S2 S3 S5 S6 L3"),
)
"""Each with its scenario and the clauses that accuse it."""
