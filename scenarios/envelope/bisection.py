"""The search for the value at which a lock begins to break, by halving.

A search starts from two neighbours in a row of cells, the last that held before the first that broke. It asks for the
value in the middle, is told whether the lock broke there, and goes on in the half where that changed. Values are whole
numbers and the middle is always the same, so a search asks for the same values on every machine.

What it finds is one place at which "held" turns into "broke". A lock that holds again further on breaks in an island;
`first_change` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Bracket:
    """Two values between which a lock begins to break. held: None where it breaks at the first value already.

    broke: None where it breaks at no value that was tried. holds_again: at some value beyond `broke` it held.
    """

    held: int | None
    broke: int | None
    holds_again: bool = False

    def middle(self, resolution: int) -> int | None:
        """The value to ask next; None once the two are not further apart than `resolution`, or one is missing."""
        if self.held is None or self.broke is None or abs(self.broke - self.held) <= resolution:
            return None
        return (self.held + self.broke) // 2

    def told(self, value: int, *, has_broken: bool) -> Bracket:
        """The bracket once it is known what came of `value`, which `middle` had asked for."""
        return replace(self, broke=value) if has_broken else replace(self, held=value)


def first_change(row: Sequence[tuple[int, bool]]) -> Bracket:
    """The bracket of a row of cells: value and whether the lock broke there, from the mildest value to the worst."""
    broken = [place for place, (_, has_broken) in enumerate(row) if has_broken]
    if not broken:
        return Bracket(held=row[-1][0] if row else None, broke=None)
    first = broken[0]
    return Bracket(
        held=row[first - 1][0] if first else None,
        broke=row[first][0],
        holds_again=any(not has_broken for _, has_broken in row[first:]),
    )
