"""A counter incremented by read and write-back: the lost update in its plainest form. It checks nothing."""

from __future__ import annotations

from lockref.words import Op, Outcome
from scenarios.workloads.resource import Effect, Write


class Counter:
    """Read, yield, write back."""

    op = Op.INCREMENT
    reads_first = True

    def __init__(self) -> None:
        self.value = 0

    def state(self) -> str:
        return str(self.value)

    def apply(self, write: Write) -> Effect:
        self.value = int(write.based_on) + 1
        return Effect(outcome=Outcome.APPLIED, if_version=write.based_on, version=str(self.value))
