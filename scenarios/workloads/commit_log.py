"""A commit log as table formats keep it: put-if-absent of the next number (H2).

The commit itself is conditional, so two holders cannot both make entry n: the
second meets a conflict. What it does not stop is an old holder that reads
again and commits on top of its successor; only a token would.
"""

from __future__ import annotations

from lockref.words import Op, Outcome
from scenarios.workloads.resource import Effect, Write


class CommitLog:
    """Put-if-absent of the next entry."""

    op = Op.COMMIT
    reads_first = True

    def __init__(self) -> None:
        self.entries = 0

    def state(self) -> str:
        return str(self.entries)

    def apply(self, write: Write) -> Effect:
        before = str(self.entries)
        if write.based_on != before:
            return Effect(outcome=Outcome.PRECONDITION_FAILED, if_version=write.based_on, version=before)
        self.entries += 1
        return Effect(outcome=Outcome.APPLIED, if_version=before, version=str(self.entries))
