"""Rows of a witness: an event of the history as a reader is told of it.

Every row of every witness has the same parts, whatever clause shows it: who (`node`, `task`), when (`at_ns`, or
`interval_ns`), which request, which object (`key`). Where the history names no request, `no_request` says why.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from lockref.words import ABSENT, Kind, Op, Outcome
from reports.checks.facts.columns import Events, Ints, are_among

WRITES_TOLD: Final = 6
"""So many writes of a lock are told around a violation: those nearest to it."""

BY_HAND: Final = "changed by hand, not by a request"
CUT_SHORT_WORD: Final = "cut_short"
"""The outcome of a call that was denied because the run was at its end, where people and tables are told outcomes."""
UNNUMBERED: Final = "the record names no request"


def witness_row(events: Events, row: int, *, sent_row: int = -1, **more: Any) -> dict[str, Any]:
    """One event. sent_row: where its request was sent, if another event tells of it; `more` overrides and adds.

    An event that a service wrote does not name the task that asked: its request's sending does.
    """
    asked = sent_row if sent_row >= 0 else row
    request = int(events.integers("request")[asked])
    told: dict[str, Any] = {
        "seq": int(events.integers("seq")[row]),
        "at_ns": int(events.integers("at_ns")[row]),
        "node": events.text("node", int(events.codes("node")[row])),
        "task": events.text("task", int(events.codes("task")[asked])),
        "key": events.text("lock", int(events.codes("lock")[asked])),
        "request": None if request == ABSENT else request,
        "op": Op(int(events.numbers("op")[row])).name.lower(),
    }
    if request == ABSENT:
        told["no_request"] = UNNUMBERED
    return {**told, **more}


def witness_writes(
    events: Events, run: int, lock: str, at_ns: int, *, is_recorded_by_service: bool
) -> list[dict[str, Any]]:
    """The writes of `lock` nearest to an instant, at most `WRITES_TOLD`, in the order of the record.

    A write that took effect is shown when it did, as the service recorded it; in a real run when its client heard of
    it. Any other one is shown with the answer that its client received.
    """
    code = events.code_of("lock", lock)
    start, stop = (int(np.searchsorted(events.run, run, side=side)) for side in ("left", "right"))
    rows: Ints = start + np.flatnonzero(events.codes("lock")[start:stop] == code)
    kind, op, outcome = (events.numbers(name)[rows] for name in ("kind", "op", "outcome"))
    is_write = ~are_among(op, (Op.READ, Op.NONE, Op.GUARD))
    is_applied = outcome == Outcome.APPLIED
    if is_recorded_by_service:
        shown = ((kind == Kind.APPLIED) & is_applied) | ((kind == Kind.REPLIED) & ~is_applied)
    else:
        shown = kind == Kind.REPLIED
    rows = rows[shown & is_write]
    at = events.integers("at_ns")[rows]
    nearest = rows[np.argsort(np.abs(at - at_ns), kind="stable")[:WRITES_TOLD]]
    sent = events.sent_by_request[events.request_keys(nearest)]
    return [
        witness_write(events, row, sent_row)
        for row, sent_row in sorted(zip(nearest.tolist(), sent.tolist(), strict=True))
    ]


def witness_write(events: Events, row: int, sent_row: int) -> dict[str, Any]:
    """One write at the store: on which condition it was sent, what came of it."""
    version = events.text("version", int(events.codes("version")[row]))
    return witness_row(
        events,
        row,
        sent_row=sent_row,
        outcome=Outcome(int(events.numbers("outcome")[row])).name.lower(),
        if_version=events.text("if_version", int(events.codes("if_version")[row])),
        **({"version": version} if version else {}),
    )
