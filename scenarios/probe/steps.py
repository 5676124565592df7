"""The steps of a probe: which clauses, in which order, with which share of the time, and with how many requests.

Cheap questions that can condemn a store come first. A store that overlooks a condition is found out before any race.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lockref.stores.probe.clauses import CLAUSES, Verdict
from scenarios.probe.findings import Finding
from scenarios.probe.questions import (
    counter,
    leases,
    lost_replies,
    modes,
    pace,
    races,
    reading,
    sequential,
    spread,
    versioned,
)
from scenarios.probe.questions.stopped_node import Node, node_stopped
from scenarios.probe.session import ROUNDS_MAX, Session

if TYPE_CHECKING:
    from scenarios.probe.questions.spread import Racers

RACE_REQUESTS: Final = races.RACERS + 4
"""Requests of one round: the racers, a create before them, a read and a delete after them, and one repetition."""

TRIES: Final = 2
"""A clause whose answer was lost is asked once more, on fresh keys."""

HELD_UP_REQUESTS: Final = 6
"""Requests of `races.held_up`: a create, the request that is held up, another beside it, a read, a delete, a spare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A part of the probe, about one clause.

    run: called with the session, the finding, and the instant at which its time is over. weight: its share of the time
    that is left, relative to the later steps. requests_max: the most requests of one try. again_max: the most requests
    of a second try; None for as many as the first. Races have 0 there, because a round without an answer is void and
    not repeated. is_again: the step adds to the finding of an earlier step about the same clause.
    """

    clause: str
    run: Callable[[Session, Finding, int], None]
    weight: float
    requests_max: int
    again_max: int | None = None
    is_again: bool = False

    @property
    def requests_in_all(self) -> int:
        """The most requests of all tries together, without repetitions after throttling, which nobody can foresee."""
        again = self.requests_max if self.again_max is None else self.again_max
        return self.requests_max + (TRIES - 1) * again


def _timeless(run: Callable[[Session, Finding], None]) -> Callable[[Session, Finding, int], None]:
    """A step of few requests, which does not look at the end of its time."""
    return lambda session, finding, _end_ns: run(session, finding)


def _create_race(session: Session, finding: Finding, end_ns: int) -> None:
    races.held_up(session, finding, absent=True)
    races.repeat(session, finding, races.create_round, name="creates", end_ns=end_ns, part="create")


def _replace_race(session: Session, finding: Finding, end_ns: int) -> None:
    races.held_up(session, finding, absent=False)
    races.repeat(session, finding, races.replace_round, name="replacements", end_ns=end_ns, part="replace")


def _delete_race(session: Session, finding: Finding, end_ns: int, *, findings: dict[str, Finding]) -> None:
    """C9. A store that refuses conditional deletes has no such races."""
    if findings["C8"].verdict is Verdict.UNSUPPORTED:
        finding.note(finding.unsupported, "the store refuses deletes by version (C8)")
        return
    half_ns = session.runtime.monotonic_ns() + session.left_ns(end_ns) // 2
    races.repeat(session, finding, races.delete_round, name="deletes", end_ns=half_ns, share=3, part="delete")
    mixed = "deletes beside replacements"
    races.repeat(session, finding, races.mixed_round, name=mixed, end_ns=end_ns, part="delete")


def _read_after_write(session: Session, finding: Finding, _end_ns: int, *, lasting: reading.Lasting) -> None:
    lasting.write(session)
    reading.read_after_write(session, finding)


SINGLE_QUESTIONS: Final = (
    Step(clause="C24", run=_timeless(pace.clock), weight=0.2, requests_max=2),
    Step(clause="C1", run=_timeless(sequential.create), weight=1, requests_max=12),
    Step(clause="C4", run=_timeless(sequential.replace), weight=1, requests_max=10),
    Step(clause="C5", run=_timeless(sequential.replace_absent), weight=1, requests_max=10),
    Step(clause="C6", run=_timeless(sequential.replace_recreated), weight=1, requests_max=10),
    Step(clause="C7", run=_timeless(sequential.version_reuse), weight=1, requests_max=8),
    Step(clause="C8", run=_timeless(sequential.delete), weight=1, requests_max=16),
    Step(clause="C10", run=_timeless(sequential.wildcards), weight=1, requests_max=14),
    Step(clause="C11", run=_timeless(sequential.quoting), weight=1, requests_max=8),
    Step(clause="C23", run=_timeless(sequential.overwrite), weight=1, requests_max=8),
    Step(clause="C12", run=_timeless(versioned.versioned_bucket), weight=1, requests_max=16),
    Step(clause="C13", run=_timeless(modes.other_ways), weight=1, requests_max=40),
    Step(clause="C14", run=_timeless(modes.other_ways), weight=1, requests_max=40),
    Step(clause="C15", run=_timeless(modes.other_ways), weight=1, requests_max=60),
    Step(clause="C18", run=_timeless(lost_replies.lost_reply), weight=1, requests_max=12),
    Step(clause="C19", run=_timeless(lost_replies.late_duplicate), weight=1, requests_max=8),
)
"""The questions that one client asks alone, with a fixed number of requests."""


def steps_for(
    endpoints: int, findings: dict[str, Finding], racers: Racers, *, rounds: int, node: Node | None = None
) -> list[Step]:
    """The steps in order. endpoints: their number. rounds: of each race, at most. node: the node to stop for C17."""
    third = max(min(races.ROUNDS_MIN, rounds), rounds // 3)
    lasting = reading.Lasting()
    return [
        *SINGLE_QUESTIONS,
        Step(
            clause="C21",
            run=functools.partial(_read_after_write, lasting=lasting),
            weight=1,
            requests_max=14 * (1 + endpoints) + 8 + reading.LASTING * 3 // 2,
        ),
        Step(clause="C25", run=leases.lease, weight=1, requests_max=leases.ROUNDS * (leases.RACERS + 3) + 12),
        *_races(endpoints, findings, racers, rounds=rounds, third=third),
        Step(
            clause="C21",
            run=_timeless(lasting.look),
            weight=1,
            requests_max=reading.LASTING,
            is_again=True,
        ),
        *_last_steps(endpoints, third=third, node=node),
    ]


def _races(endpoints: int, findings: dict[str, Finding], racers: Racers, *, rounds: int, third: int) -> list[Step]:
    """The races for one object. third: a third of the rounds, for those that are shorter."""
    return [
        Step(
            clause="C2",
            run=_create_race,
            weight=5,
            requests_max=rounds * RACE_REQUESTS + HELD_UP_REQUESTS,
            again_max=HELD_UP_REQUESTS,
        ),
        Step(
            clause="C3",
            run=_replace_race,
            weight=5,
            requests_max=rounds * RACE_REQUESTS + HELD_UP_REQUESTS,
            again_max=HELD_UP_REQUESTS,
        ),
        Step(
            clause="C9",
            run=functools.partial(_delete_race, findings=findings),
            weight=4,
            requests_max=(third + rounds) * RACE_REQUESTS,
            again_max=0,
        ),
        Step(
            clause="C20",
            run=counter.counter,
            weight=2,
            requests_max=2 * counter.WORKERS * counter.TRIES_MAX + 4,
        ),
        Step(
            clause="C16",
            run=spread.over_endpoints,
            weight=4 if endpoints > 1 else 0,
            requests_max=2 * rounds * RACE_REQUESTS if endpoints > 1 else 0,
            again_max=0,
        ),
        Step(
            clause="C16",
            run=functools.partial(spread.by_processes, racers=racers),
            weight=5,
            requests_max=2 * rounds * RACE_REQUESTS,
            again_max=0,
            is_again=True,
        ),
    ]


def _last_steps(endpoints: int, *, third: int, node: Node | None) -> list[Step]:
    """The races of other ways to write, and what disturbs the store."""
    # A dialect has at most two modes that can race; each has a race of its own, and one beside plain writes.
    races_of_modes = 2 * 2 * third * modes.ROUND_REQUESTS
    return [
        Step(clause="C13", run=modes.race_modes, weight=4, requests_max=races_of_modes, again_max=0, is_again=True),
        Step(clause="C15", run=modes.race_modes, weight=1, requests_max=races_of_modes, again_max=0, is_again=True),
        Step(clause="C22", run=pace.write_rate, weight=5, requests_max=len(pace.RATES_PER_S) * (3 * pace.WRITES + 1)),
        # This step is the last one: if the node does not come back, all other clauses already have their answers.
        Step(
            clause="C17",
            run=functools.partial(node_stopped, node=node),
            weight=4 if node else 0,
            requests_max=2 * third * RACE_REQUESTS + 4 * endpoints + 4 if node else 0,
            again_max=0,
        ),
    ]


def most_requests(endpoints: int, *, rounds: int = ROUNDS_MAX, node: Node | None = None) -> dict[str, int]:
    """By clause, the most requests that a probe sends, second tries included; removal and throttling come on top."""
    findings = {clause: Finding(condition) for clause, condition in CLAUSES.items()}
    most = dict.fromkeys(CLAUSES, 0)
    for step in steps_for(endpoints, findings, spread.Racers([]), rounds=rounds, node=node):
        most[step.clause] += step.requests_in_all
    return most
