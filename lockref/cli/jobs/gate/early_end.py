"""The end of a gate before all was run: its time is over, or the first scenario broke (`--fail-fast`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

from lockref.durations import plain_duration
from lockref.runtime import ThreadRuntime
from scenarios.failures.kinds import shape_of
from scenarios.gate.causes import first_cause
from scenarios.gate.known import KnownFailure

if TYPE_CHECKING:
    from lockref.cli.jobs.gate.options import GateOptions
    from scenarios.worlds.judged_result import JudgedResult

R = TypeVar("R", bound="JudgedResult")

_monotonic_ns: Final = ThreadRuntime().monotonic_ns


class EarlyEnd:
    """The reasons to end a gate early, asked between pieces of work.

    A failure is named by its cause only when it has been examined. Until then its clause and its shape tell whether an
    entry of the list of known failures may be about it.
    """

    def __init__(
        self,
        options: GateOptions,
        known: Iterable[KnownFailure],
        *,
        lock: Collection[str],
        began_ns: int,
        shrink_ns: int,
        now_ns: Callable[[], int] = _monotonic_ns,
    ) -> None:
        """began_ns: when the command began. shrink_ns: the time for shrinking, once all has run. Both in real time."""
        self._options = options
        self._known = [entry for entry in known if entry.is_of(lock)]
        self._began_ns = began_ns
        self._shrink_ns = shrink_ns
        self._now_ns = now_ns
        self._failed: dict[str, bool] = {}

    def looking(self, show: Callable[[R], None]) -> Callable[[R], None]:
        """`show`, which also looks at what a scenario has shown so far."""

        def look(result: R) -> None:
            self._look(result)
            show(result)

        return look

    @property
    def shrink_ns(self) -> int:
        """The time for shrinking what broke, after the last run."""
        if self._options.budget_ns is None:
            return self._shrink_ns
        return max(0, min(self._shrink_ns, self._began_ns + self._options.budget_ns - self._now_ns()))

    @property
    def has_budget(self) -> bool:
        """True if the caller bounds the time of the whole."""
        return self._options.budget_ns is not None

    def left_ns(self) -> int:
        """The time that is left for runs. Once something broke, a part of the whole is kept for shrinking it."""
        assert self._options.budget_ns is not None, "asked of a gate with a budget alone"
        budget_ns = self._options.budget_ns
        kept_ns = min(self._shrink_ns, budget_ns // 4) if self._failed else 0
        return max(0, self._began_ns + budget_ns - kept_ns - self._now_ns())

    def is_over(self) -> bool:
        """True once no further piece of work may begin."""
        return bool(self.reason)

    @property
    def reason(self) -> str:
        """Why no further piece of work may begin; "" while one may."""
        if self._options.is_fail_fast and any(self._failed.values()):
            return "--fail-fast: the first scenario that broke ended the gate"
        if self._options.budget_ns is not None and not self.left_ns():
            return (
                f"the {plain_duration(self._options.budget_ns)} of --for were over before all was run that was planned"
            )
        return ""

    def _look(self, result: JudgedResult) -> None:
        for finding in first_cause(result.summary.findings):
            shape = shape_of(finding.clause, finding.witness).replace(" ", "-") or "broken"
            begin = f"{finding.clause}:{shape}"
            is_new = not any(entry.may_be(begin) for entry in self._known)
            self._failed[begin] = is_new
