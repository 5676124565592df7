"""The data of the post's pictures, computed: series of points for each picture. Nothing is drawn here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lockref.runtime import NS_PER_S
from scenarios.delta.loading import gets
from scenarios.delta.orders import coalesced, fair, unfair
from scenarios.delta.queueing import Fleet, Grants, Outcome, simulate


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a picture."""

    label: str
    points: list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture before it is drawn: its words, its axes, and its lines. limit: a level that must not be passed."""

    name: str
    title: str
    caption: str
    across: str
    up: str
    series: list[Series]
    limit: tuple[str, float] | None = None
    is_log: bool = False
    """Both axes are logarithmic."""

    @property
    def head(self) -> list[str]:
        """The header of the table of its numbers."""
        return [self.across, *(series.label for series in self.series)]

    @property
    def rows(self) -> list[list[str]]:
        """One row for each place on the axis; all lines have the same places."""
        columns = [[f"{value:g}" for _, value in series.points] for series in self.series]
        return [[f"{place:g}", *cells] for (place, _), *cells in zip(self.series[0].points, *columns, strict=True)]


def _ran(writers: int, order: Sequence[str], *, gap_ns: int = 0, poll_ns: int = 0, think_ns: int = 0) -> Outcome:
    """Writers whose commits last a second. With a think time the writers never run out of work: a closed loop."""
    fleet = Fleet(
        writers=writers,
        commit_ns=(NS_PER_S,),
        gap_ns=gap_ns,
        grants=Grants.POLLING if poll_ns else Grants.FIRST,
        poll_ns=poll_ns,
        are_phases_random=bool(poll_ns),
        think_ns=think_ns,
        is_think_random=bool(think_ns),
    )
    return simulate(fleet, order, is_closed_loop=bool(think_ns))


def queues() -> Picture:
    """Fair against unfair queue: W6 and W7."""
    orders = {"fair: the tables in turn": fair(3, 100), "unfair: one table after the other": unfair(3, 100)}
    numbers = range(1, 21)
    return Picture(
        "delta-queues",
        "Fair and unfair queues",
        "300 versions of three tables, one second each under the table's lock. In turn, three writers are enough. One "
        "table after the other, nearly all writers wait for the same lock.",
        "writers",
        "time until the last version, s",
        [
            Series(label, [(number, _ran(number, order).makespan_ns / NS_PER_S) for number in numbers])
            for label, order in orders.items()
        ],
    )


def deadline() -> Picture:
    """Writers against deadline: W1 to W3."""
    settings = {
        "hand-off at once": {},
        "a gap of 0.1 s": {"gap_ns": NS_PER_S // 10},
        "a gap of 1 s": {"gap_ns": NS_PER_S},
        "polls each 10 s": {"poll_ns": 10 * NS_PER_S},
    }
    numbers = range(1, 21)
    return Picture(
        "delta-deadline",
        "Who commits within ten seconds",
        "All writers ask at once for one table's lock; a commit takes one second. Time lost at each hand-off, and "
        "polls that come late, leave room for fewer. Polls have random phases, drawn from one seed.",
        "writers",
        "versions within 10 s",
        [
            Series(label, [(number, _in_time(_ran(number, "n" * number, **chosen))) for number in numbers])
            for label, chosen in settings.items()
        ],
        limit=("theoretical limit", 10),
    )


def _in_time(outcome: Outcome) -> int:
    return sum(commit.age_ns <= 10 * NS_PER_S for commit in outcome.commits)


def closed_loop() -> Picture:
    """Waiting against number of writers, in a closed loop: W5."""
    numbers = (1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20)
    lines = []
    for label, poll_ns in (("waiters queue", 0), ("polls each 1 s", NS_PER_S), ("polls each 10 s", 10 * NS_PER_S)):
        outcomes = [(number, _ran(number, "n" * 2000, poll_ns=poll_ns, think_ns=10 * NS_PER_S)) for number in numbers]
        shares: list[tuple[float, float]] = [
            (number, 100 * one.waiting_ns / (number * one.makespan_ns)) for number, one in outcomes
        ]
        lines.append(Series(label, shares))
    return Picture(
        "delta-closed-loop",
        "Waiting in a closed loop",
        "Each writer works ten seconds at the mean on its own data, then commits for one second to the one table, and "
        "begins again. What the writers spend waiting grows from the first on; the period of polls is paid on top.",
        "writers",
        "writers' time spent waiting, %",
        lines,
    )


def coalescing() -> Picture:
    """Version bloat and coalescing: W12 and W13, and what lies between them."""
    sizes = (1, 2, 5, 10, 20, 50, 100)
    outcomes = [(adds, _ran(1000 // adds, coalesced("n" * 1000, adds))) for adds in sizes]
    return Picture(
        "delta-coalescing",
        "A thousand adds, in a thousand versions or in ten",
        "One writer for each version, all at once, one second for each commit. 1000 × 1 against 10 × 100: about a "
        "hundredth of the versions, of the waiting per writer, and of the requests to load the table.",
        "adds in one version",
        "versions, seconds, requests",
        [
            Series("versions", [(adds, len(one.commits)) for adds, one in outcomes]),
            Series("mean wait, s", [(adds, one.waiting_ns / NS_PER_S / len(one.commits)) for adds, one in outcomes]),
            Series("GETs to load the table", [(adds, one.gets) for adds, one in outcomes]),
        ],
        is_log=True,
    )


def time_to_load() -> Picture:
    """Lock time against distance to the checkpoint: W10 and W11."""
    versions = range(31)
    return Picture(
        "delta-checkpoint",
        "Time under the lock and the distance to the checkpoint",
        "The lock is held while the table is loaded: 0.65 s and 0.05 s for each GET. Each tenth version has a "
        "checkpoint, and each version after it costs one GET more.",
        "version that is loaded",
        "time under the lock, s",
        [Series("0.65 s + 0.05 s × G(v)", [(version, round(0.65 + 0.05 * gets(version), 2)) for version in versions])],
    )


PICTURES: Final = (queues, deadline, closed_loop, coalescing, time_to_load)
"""The functions that make them, in the order of the page."""
