"""Show a run of a cluster: line by line, or as a table that changes on a terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.live import Live

from reports.checks.facts.surroundings.host import NOTICED_NS, lateness_text
from scenarios.helix.live_table import live_view
from scenarios.helix.program import Change, Phase, ProgressCallbacks


@contextlib.contextmanager
def progress_callbacks(
    say: Callable[[str], None], *, is_live: bool, printable: Callable[[str], str]
) -> Iterator[ProgressCallbacks]:
    """The callbacks that show a program. is_live: on a terminal with a table; the lines scroll above the table.

    printable: makes text fit for a terminal, where it does not leave through `say`.
    """
    if not is_live:
        yield ProgressCallbacks(say=say)
        return
    with Live(refresh_per_second=8, transient=True) as live:
        yield ProgressCallbacks(
            say=lambda line: live.console.print(printable(line), highlight=False, markup=False),
            seen=lambda done: live.update(live_view(done, printable)),
        )


def finding(phase: Phase) -> str:
    """The cost of the change, in one line. Locks that nobody holds come first."""
    unheld = sum(not each for each in phase.holders.values())
    found = [f"{unheld} of {len(phase.holders)} locks are held by nobody"] if unheld else []
    if phase.change is Change.START:
        found.append(f"{len(phase.holders)} locks, {phase.messages} messages, {phase.seconds:.2f} s")
    else:
        found.append(
            f"{phase.moved} locks moved, {phase.unnecessary} of them from holders that were live; "
            f"to balance the load, at least {phase.least} had to move. "
            f"{phase.messages} messages in {phase.passes} passes, {phase.seconds:.2f} s"
        )
    if phase.host_late_ns >= NOTICED_NS:
        found.append(f"{lateness_text(phase.host_late_ns).capitalize()}, which is part of that time")
    return ". ".join(found)
