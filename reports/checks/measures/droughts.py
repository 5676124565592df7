"""Droughts: for how long one client asked for a lock until it was granted it.

A drought may span several calls: from the first one after a grant, or of all, until the next grant, or until the last
answer where there is none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reports.checks.facts.case import Case
from reports.checks.facts.columns import Ints, is_first
from reports.checks.facts.segments import renumber


@dataclass(frozen=True, slots=True, kw_only=True)
class Droughts:
    """One entry per drought. first, last: places of its calls among those that were given. calls: how many there are.

    over_ns: when the last one was over.
    """

    first: Ints
    last: Ints
    calls: Ints
    over_ns: Ints


def droughts(case: Case, asked: Ints, over_ns: Ints) -> Droughts:
    """The droughts of these acquire calls, client by client. over_ns: per call, when it was answered or ended."""
    operations, events = case.operations, case.events
    client, _ = renumber(operations.run[asked], events.client_key(operations.node[asked], operations.task[asked]))
    order = np.lexsort((operations.call_row[asked], client))
    client, calls = client[order], asked[order]
    # A drought ends with a grant; the next call, or the next client, begins another.
    opens = is_first(client)
    opens[1:] |= operations.is_granted[calls[:-1]]
    first = np.flatnonzero(opens)
    last = np.append(first[1:], len(calls)) - 1 if len(calls) else first
    return Droughts(first=order[first], last=order[last], calls=last - first + 1, over_ns=over_ns[order[last]])
