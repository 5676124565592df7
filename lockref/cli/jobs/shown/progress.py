"""The progress of a job of many like steps, and how long the rest will take at the rate until now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lockref.cli.jobs.shown.console import COUNTED_NS, rest_in_words
from lockref.runtime import ThreadRuntime

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console

_monotonic_ns: Final = ThreadRuntime().monotonic_ns


class Progress:
    """The progress of one job. Nothing is said of a job that is over within two seconds."""

    def __init__(self, console: Console, text: str, *, steps: int) -> None:
        self._console = console
        self._text = text
        self._steps = steps
        self._done = 0
        self._began_ns = _monotonic_ns()

    def done(self) -> None:
        """Say that one more step is done."""
        self._done += 1
        passed_ns = _monotonic_ns() - self._began_ns
        if passed_ns < COUNTED_NS:
            return
        left_ns = passed_ns * (self._steps - self._done) // self._done
        self._console.progress(f"{self._text}: {self._done:,} of {self._steps:,}, {rest_in_words(left_ns)}")
