"""The time that one command spends on shrinking the failures that it found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from lockref.durations import plain_duration
from lockref.runtime import ThreadRuntime
from reports.checks.summary import Finding
from scenarios.failures.kinds import FailureKind

_monotonic_ns: Final = ThreadRuntime().monotonic_ns


class ShrinkBudget:
    """One command's time for shrinking, and which kinds of failure it has been spent on.

    Each kind (`FailureKind`) is shrunk once in a command: one mistake breaks the same clause in dozens of scenarios.
    Only time within `spending` and `trying` counts.
    """

    def __init__(self, limit_ns: int | None = None, *, now_ns: Callable[[], int] = _monotonic_ns) -> None:
        """limit_ns: real time in all, 0 to shrink nothing; None for no limit."""
        self.limit_ns = limit_ns
        self._now_ns = now_ns
        self._spent_ns = 0
        self._began_ns: int | None = None
        self._shrunk: dict[FailureKind, str] = {}

    @property
    def spent_ns(self) -> int:
        """The real time spent so far, also within the shrinking that is going on."""
        return self._spent_ns + (0 if self._began_ns is None else self._now_ns() - self._began_ns)

    def is_spent(self) -> bool:
        """True once no further run of a shrinking may begin."""
        return self.limit_ns is not None and self.spent_ns >= self.limit_ns

    @property
    def limit_text(self) -> str:
        """The limit in words; empty where there is none."""
        return "" if self.limit_ns is None else plain_duration(self.limit_ns)

    @property
    def why_no_more(self) -> str:
        """Why no further run of a shrinking may begin, in words."""
        return f"the {self.limit_text} of --shrink-for were spent" if self.limit_ns else "--shrink-for gives it no time"

    def shrunk_before(self, finding: Finding) -> str:
        """The id of the failure of the same kind that was shrunk in this command; empty if none was."""
        return self._shrunk.get(FailureKind.of(finding), "")

    @contextmanager
    def spending(self, finding: Finding, identity: str) -> Iterator[None]:
        """The block shrinks this failure, which is known as `identity`."""
        self._shrunk[FailureKind.of(finding)] = identity
        with self.trying():
            yield

    @contextmanager
    def trying(self) -> Iterator[None]:
        """The block tries smaller plans of a failure that nobody shrinks."""
        self._began_ns = self._now_ns()
        try:
            yield
        finally:
            self._spent_ns, self._began_ns = self.spent_ns, None
