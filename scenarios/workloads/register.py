"""A register that checks fencing tokens: once it has accepted token k, it refuses smaller ones (S4).

From a lock without tokens it must accept everything, and so shows what fencing
is worth: the same pause that is harmless with a token is harm without one.
"""

from __future__ import annotations

from lockref.ports import of_fields
from lockref.words import Op, Outcome
from scenarios.workloads.resource import Effect, Write

# Python 3.11 takes long to find a member of an enumeration; these are asked for with every request.
_OUTCOME_APPLIED = Outcome.APPLIED


class FencedRegister:
    """Blind writes, checked by token."""

    op = Op.WRITE
    reads_first = False

    def __init__(self) -> None:
        self.writes = 0
        self.token_max: int | None = None

    def state(self) -> str:
        return str(self.writes)

    def apply(self, write: Write) -> Effect:
        before = str(self.writes)
        if write.token is not None:
            if self.token_max is not None and write.token < self.token_max:
                return Effect(Outcome.PRECONDITION_FAILED, before, before)
            self.token_max = write.token
        self.writes += 1
        return of_fields(Effect, (_OUTCOME_APPLIED, before, str(self.writes)))
