"""RFC-91's own contention test: append the length that was read a moment ago.

Under a working lock the list ends as 0, 1, 2, …; two holders at once append
the same number twice. The list checks nothing.
"""

from __future__ import annotations

from lockref.words import Op, Outcome
from scenarios.workloads.resource import Effect, Write


class UnsafeList:
    """Read the length, yield, append it."""

    op = Op.APPEND
    reads_first = True

    def __init__(self) -> None:
        self.items: list[str] = []

    def state(self) -> str:
        return str(len(self.items))

    def apply(self, write: Write) -> Effect:
        self.items.append(write.based_on)
        return Effect(outcome=Outcome.APPLIED, if_version=write.based_on, version=str(len(self.items)))
