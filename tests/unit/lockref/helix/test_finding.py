"""The line that sums a phase of `lockref cluster run` up."""

from __future__ import annotations

from dataclasses import replace

from scenarios.helix.program import Change, Phase
from scenarios.helix.progress import finding

LEFT = Phase(
    change=Change.LEAVE, live=("b",), holders={"g_0": ("b",), "g_1": ("b",)}, moved=2, unnecessary=1, least=1,
    messages=3, passes=4, seconds=0.5,
)  # fmt: skip


def test_a_change_is_summed_up_by_what_moved_and_what_had_to():
    """Whoever has not read the manual sees what a balanced load would have cost."""
    assert finding(LEFT) == (
        "2 locks moved, 1 of them from holders that were live; to balance the load, at least 1 had to move. "
        "3 messages in 4 passes, 0.50 s"
    )


def test_locks_that_nobody_holds_come_first():
    """At the start, too: an operator must not have to search for them in the table."""
    unheld = replace(LEFT, holders={"g_0": ("b",), "g_1": ()})
    assert finding(unheld).startswith("1 of 2 locks are held by nobody. 2 locks moved")
    start = replace(unheld, change=Change.START)
    assert finding(start) == "1 of 2 locks are held by nobody. 2 locks, 3 messages, 0.50 s"


def test_the_time_of_a_change_is_told_with_the_lateness_of_the_machine():
    """From 100 ms on: that much of the time may be the machine's. `--json` tells it always."""
    late = replace(LEFT, host_late_ns=1_250_000_000)
    assert finding(late).endswith("0.50 s. This machine woke its threads up to 1.2 s late, which is part of that time")
    assert late.document()["host_late_seconds"] == 1.25
    assert finding(replace(LEFT, host_late_ns=99_000_000)) == finding(LEFT)
