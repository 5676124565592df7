"""The lateness of the machine on which a real run was recorded.

Two sources, and the larger one counts: what a thread of the harness measured (`host_late_ns` in the runs table), and
requests of the lock that outlived their own timeout. The client of the store ends a request at its timeout, so what is
beyond it is time in which nobody ran the client. A request of a node that was stopped meanwhile says nothing.

A simulation has no machine: its threads wake at the very instant.
"""

from __future__ import annotations

import numpy as np

from lockref.words import ABSENT, Kind, Op
from reports.checks.facts.case import Case
from reports.checks.facts.columns import Ints, are_among

NOTICED_NS = 100_000_000
"""Below this a machine is in time: the second that every bound of a real run allows is ten times as much."""

HANDOVER_SPANS = 3
"""A hand-over is a pause between two looks and two requests (L3). The machine may be late in each of them."""
TURN_SPANS = HANDOVER_SPANS + 1
"""One more client in front: its hand-over, and what it holds the lock for."""


def lateness_text(late_ns: int) -> str:
    """The lateness of a machine, in words."""
    return f"this machine woke its threads up to {late_ns / 1e9:.1f} s late"


def host_lateness_ns(case: Case) -> Ints:
    """Per run: by how much the machine was late at its worst; 0 for a simulated run, and for a machine in time."""
    runs = case.runs
    is_real = np.array([world == "real" for world in runs.texts("world")], dtype=np.bool_)
    late = np.where(is_real, np.maximum(runs.integers("host_late_ns"), 0), 0)
    if is_real.any():
        _add_overlong_requests(case, is_real, late)
    late[late < NOTICED_NS] = 0
    return late


def _add_overlong_requests(case: Case, is_real: np.ndarray, late: Ints) -> None:
    events, disturbances = case.events, case.disturbances
    timeout = case.runs.integers("request_timeout_ns")
    replied = _of_the_store(case, Kind.REPLIED, is_real & (timeout > 0))
    sent = events.sent_by_request[events.request_keys(replied)]
    replied, sent = replied[sent >= 0], sent[sent >= 0]
    at, run, node = events.integers("at_ns"), events.run[replied], events.codes("node")[replied]
    over = at[replied] - at[sent] - timeout[run]
    for one in np.flatnonzero(over > late[run]).tolist():
        number = int(run[one])
        if over[one] > late[number] and not disturbances.paused_ns(
            number, int(node[one]), int(at[sent[one]]), int(at[replied[one]])
        ):
            late[number] = over[one]


def _of_the_store(case: Case, kind: Kind, asked: np.ndarray) -> Ints:
    """The rows of requests for the lock's own record."""
    events = case.events
    rows = events.rows(kind)
    op = events.numbers("op")[rows]
    keep = asked[events.run[rows]] & are_among(op, (Op.ACQUIRE, Op.RENEW, Op.RELEASE, Op.READ, Op.DELETE, Op.WRITE))
    found: Ints = rows[keep & (events.integers("request")[rows] != ABSENT)]
    return found
