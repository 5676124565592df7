"""How late the machine was on which a real run was recorded.

Two sources, and the larger one counts: what a thread of the harness measured (`host_late_ns` in the runs table), and
requests of the lock that outlived their own timeout. The client of the store ends a request at its timeout, so what is
beyond it is time in which nobody ran the client. A request of a node that was stopped meanwhile says nothing.

A simulation has no machine: its threads wake at the very instant.
"""

from __future__ import annotations

import numpy as np

from lockref.words import ABSENT, Kind, Op
from reports.checks.facts.case import Case
from reports.checks.facts.columns import Ints

NOTICED_NS = 100_000_000
"""Below this a machine is in time: the second that every bound of a real run allows is ten times as much."""


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
    asked = is_real & (timeout > 0)
    sent, replied = (_of_the_store(case, kind, asked) for kind in (Kind.SENT, Kind.REPLIED))
    at, request, nodes = events.integers("at_ns"), events.integers("request"), events.codes("node")
    begun = {(int(events.run[row]), int(nodes[row]), int(request[row])): row for row in sent.tolist()}
    for row in replied.tolist():
        run, node = int(events.run[row]), int(nodes[row])
        first = begun.get((run, node, int(request[row])))
        if first is None:
            continue
        over = int(at[row]) - int(at[first]) - int(timeout[run])
        if over > late[run] and not disturbances.paused_ns(run, node, int(at[first]), int(at[row])):
            late[run] = over


def _of_the_store(case: Case, kind: Kind, asked: np.ndarray) -> Ints:
    """The rows of requests for the lock's own record."""
    events = case.events
    rows = events.rows(kind)
    op = events.numbers("op")[rows]
    keep = asked[events.run[rows]] & np.isin(op, (Op.ACQUIRE, Op.RENEW, Op.RELEASE, Op.READ, Op.DELETE, Op.WRITE))
    found: Ints = rows[keep & (events.integers("request")[rows] != ABSENT)]
    return found
