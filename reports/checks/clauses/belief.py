"""Belief: from when to when each client would have said "mine" (S3).

A tenure's belief is held on the closed interval from its first to its last
BELIEVED event: belief does not come back within a tenure, so whoever said yes
at both ends said yes in between, asked or not.

Two clients overlap if one of them said yes after the other had begun to, and
before the other's last yes. Where the intervals share one instant only, time
does not tell. In a simulation the order of events does: a last yes, then the
other's first, is a hand-over at one instant; a first yes, then the other's
last, is an overlap that lasted 0 ns. In a real run nothing orders two readings
of one clock by two clients, so one shared instant is no violation there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lockref.words import ABSENT
from reports.checks.facts.columns import Events, Flags, Ints, Runs
from reports.checks.facts.segments import suspicious_groups
from reports.checks.facts.tenures import Tenures
from reports.checks.rulings import Violations
from reports.checks.witness_rows import witness_row


def overlapping(tenures: Tenures, is_simulated: Flags) -> tuple[Ints, Ints]:
    """Pairs (holder, intruder): each tenure that begins inside earlier ones of other clients, with the last to end.

    is_simulated: per run, whether events that share an instant are in order. A tenure is reported once, however many
    it overlaps.
    """
    count = len(tenures.first_ns)
    close = np.zeros(count, dtype=np.bool_)
    if count > 1:
        close[1:] = (tenures.first_ns[1:] <= tenures.last_ns[:-1]) & (tenures.group[1:] == tenures.group[:-1])
    holders: list[int] = []
    intruders: list[int] = []
    for rows in suspicious_groups(tenures.group, close):
        is_ordered = bool(is_simulated[tenures.run[rows.start]])
        # The tenure that reaches farthest so far, and the farthest one of any other client.
        farthest, other = -1, -1
        for position in range(rows.start, rows.stop):
            holder = other if farthest >= 0 and tenures.client[farthest] == tenures.client[position] else farthest
            if holder >= 0 and _still_believed(tenures, holder, position, is_ordered):
                holders.append(holder)
                intruders.append(position)
            if farthest < 0 or _reaches_farther(tenures, position, farthest):
                if farthest >= 0 and tenures.client[farthest] != tenures.client[position]:
                    other = farthest
                farthest = position
            elif tenures.client[farthest] != tenures.client[position] and (
                other < 0 or _reaches_farther(tenures, position, other)
            ):
                other = position
    assert all(holder < intruder for holder, intruder in zip(holders, intruders, strict=True)), (
        "the intruder is the one that came second"
    )
    return np.array(holders, dtype=np.int64), np.array(intruders, dtype=np.int64)


def _still_believed(tenures: Tenures, holder: int, intruder: int, is_ordered: bool) -> bool:
    """True if the holder said yes after the intruder's first yes."""
    last, first = tenures.last_ns[holder], tenures.first_ns[intruder]
    if last != first:
        return bool(last > first)
    return is_ordered and bool(tenures.last_row[holder] > tenures.first_row[intruder])


def _reaches_farther(tenures: Tenures, one: int, other: int) -> bool:
    if tenures.last_ns[one] != tenures.last_ns[other]:
        return bool(tenures.last_ns[one] > tenures.last_ns[other])
    return bool(tenures.last_row[one] > tenures.last_row[other])


def check_belief_exclusion(events: Events, runs: Runs, tenures: Tenures) -> Violations:
    """S3: no two clients believe at one instant. One violation per intruding tenure."""
    is_simulated = np.array([world != "real" for world in runs.texts("world")], dtype=np.bool_)
    holders, intruders = overlapping(tenures, is_simulated)

    def witness(index: int) -> dict[str, Any]:
        holder, intruder = int(holders[index]), int(intruders[index])
        begin = int(tenures.first_ns[intruder])
        end = int(min(tenures.last_ns[holder], tenures.last_ns[intruder]))
        names = [events.text("node", int(tenures.node[which])) for which in (holder, intruder)]
        if names[0] == names[1]:
            # Two tasks of one process: the node alone names neither.
            tasks = [events.text("task", int(tenures.task[which])) for which in (holder, intruder)]
            names = [f"{node}/{task}" for node, task in zip(names, tasks, strict=True)]
        return {
            "text": f"{names[0]} and {names[1]} both believed for {end - begin} ns"
            if end > begin
            else f"{names[0]} still believed after {names[1]} had begun to, within one instant",
            "lock": events.text("lock", int(tenures.lock[intruder])),
            "size_ns": end - begin,
            "overlap_ns": [begin, end],
            "intervals": [describe_tenure(events, tenures, which) for which in (holder, intruder)],
        }

    return Violations(clause="S3", run=tenures.run[intruders], at_ns=tenures.first_ns[intruders], witness=witness)


def describe_tenure(events: Events, tenures: Tenures, which: int) -> dict[str, Any]:
    """One tenure for a witness."""
    seq = events.integers("seq")
    token = int(tenures.token[which])
    return witness_row(
        events,
        int(tenures.first_row[which]),
        task=events.text("task", int(tenures.task[which])),
        owner=events.text("owner", int(tenures.owner[which])),
        token=None if token == ABSENT else token,
        interval_ns=[int(tenures.first_ns[which]), int(tenures.last_ns[which])],
        seq=[int(seq[tenures.first_row[which]]), int(seq[tenures.last_row[which]])],
    )
