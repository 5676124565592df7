"""Can a store carry a lock? By its fingerprint, and by the designs that the lock's own requests tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from lockref.stores.probe.fingerprint import Fingerprint

YES, NO, UNKNOWN, NOT_REACHED = "yes", "no", "not answered", "not reached"
_REFUSES: Final = "the store refuses "
"""The beginning of the reason of a design that a store cannot carry although it breaks nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrying:
    """The answer. verdict: one of YES, NO, UNKNOWN, NOT_REACHED. why: unless it is YES, in half a sentence.

    reservations: what deviates, and what the store breaks of which the lock sends no request. is_unsafe: the store
    would let two clients in; else it cannot carry the lock because it refuses a request.
    """

    verdict: str
    why: str = ""
    reservations: tuple[str, ...] = ()
    is_unsafe: bool = False

    def facts(self) -> dict[str, Any]:
        """For the document."""
        return {"verdict": self.verdict, "why": self.why, "reservations": list(self.reservations)}


def carrying(found: Fingerprint, designs: Sequence[str]) -> Carrying:
    """Can the store of this fingerprint carry a lock of these designs?

    designs: names, see `designs_of`. Without any the lock sends no condition, and every store can carry it.
    """
    needed = [found.designs[name] for name in designs]
    refuted = [design for design in needed if design.verdict == "cannot carry"]
    if refuted:
        whys = list(dict.fromkeys(design.why for design in refuted))
        is_unsafe = any(not why.startswith(_REFUSES) for why in whys)
        told = "; ".join(f"it {why.removeprefix('the store ')}" if why.startswith(_REFUSES) else f"it breaks {why}"
                         for why in whys)  # fmt: skip
        return Carrying(verdict=NO, why=told, is_unsafe=is_unsafe)
    if open_ := [design.why for design in needed if design.verdict != "can carry"]:
        return Carrying(verdict=UNKNOWN, why="; ".join(dict.fromkeys(open_)))
    reservations = [f"it keeps them {design.why}" for design in needed if design.why]
    stands_on = {clause for design in needed for clause in design.needs}
    apart = [name for name, clause in found.clauses.items() if clause.verdict == "unsafe" and name not in stands_on]
    if apart:
        reservations.append(f"it breaks {', '.join(apart)}, of which this lock sends no request")
    if not needed:
        reservations.append("the lock sends no request under a condition, so no store keeps two clients apart for it")
    return Carrying(verdict=YES, reservations=tuple(dict.fromkeys(reservations)))
