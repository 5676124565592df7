"""The waits of clients for a lock, from when to when.

A client of the laboratory waits while its acquire call is open. A client that asks again soon goes on waiting, however
short its calls are: a script that tries for five seconds, and tries again at once, has waited for as long as it tried.
So successive acquire calls of one client are *one wait*, if none but the last of them was granted, and if the client
paused between two of them for no longer than its think time and one poll interval. Each call stands as a wait of its
own beside the joined one.

A client whose process ended while it waited goes on waiting if its next process asks within one validity.

A wait with pauses is judged by a longer bound: while the client pauses, nothing can be given to it. So its longest
pause is added to every bound (`Waits.pause_ns`).

The calls of a program on the wire are not seen, but its requests are. While such a program does not hold the lock, its
wait begins with its first read or acquiring write of the lock's object. The wait ends when the program is granted the
lock, or with its last such request. A program that sends no request for more than one poll interval has stopped
waiting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from lockref.words import ABSENT, Kind, Op
from reports.checks.facts.bounds import Bounds
from reports.checks.facts.case import Case
from reports.checks.facts.clocks import FOREVER
from reports.checks.facts.columns import Codes, Flags, Ints, is_first
from reports.checks.facts.operations import witness_call
from reports.checks.facts.segments import count_at_or_before, in_order, last_at_or_before, renumber


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """One entry per wait. group: its lock key (run and lock). over_ns: its end, whatever that was.

    pause_ns: the longest time between two of its calls. calls: how many calls it was made of, 0 on the wire.
    last_call: the operation that ended it, -1 on the wire. processes: how many processes of its client waited, one
    after the other; life_ns: for how long the one of them waited that waited longest.
    """

    group: Ints
    run: Ints
    lock: Codes
    node: Codes
    begin_ns: Ints
    over_ns: Ints
    pause_ns: Ints
    calls: Ints
    last_call: Ints
    processes: Ints
    life_ns: Ints

    def take(self, chosen: Ints | Flags) -> Waits:
        """These waits alone, in this order."""
        return Waits(**{field.name: getattr(self, field.name)[chosen] for field in fields(self)})


def find_waits(case: Case, bounds: Bounds, over_ns: Ints) -> Waits:
    """The waits of all runs. over_ns: per operation, when it was over."""
    parts = [*_called_waits(case, bounds, over_ns), _wire_waits(case)]
    names = [field.name for field in fields(Waits)]
    joined = Waits(**{name: np.concatenate([getattr(one, name) for one in parts]) for name in names})
    assert bool(np.all(joined.pause_ns >= 0)), "a pause does not end before it begins"
    return joined


def allowances_ns(bounds: Bounds, waits: Waits) -> Ints:
    """Per wait: how much longer than the bound it may last, in true nanoseconds, as a power of two or 0.

    A client that pauses between its calls cannot be granted anything meanwhile. A process that is started anew sees the
    record for the first time, and a record without a stamp must then be watched from the beginning.
    """
    again = np.where(waits.processes > 1, bounds.watch_ns[waits.run], 0)
    extra = np.minimum(waits.pause_ns + again, FOREVER // 4)
    rounded: Ints = np.where(extra > 0, np.int64(1) << np.ceil(np.log2(np.maximum(extra, 1))).astype(np.int64), 0)
    assert bool(np.all(rounded >= extra - extra // 2**40)), "an allowance is rounded up"
    return rounded


def waited_text(case: Case, waits: Waits, wait: int, waited_ns: int) -> str:
    """A wait in words: its client, its length, and in how many calls."""
    who, calls, processes = (
        case.events.text("node", int(waits.node[wait])),
        int(waits.calls[wait]),
        waits.processes[wait],
    )
    if calls <= 1:
        return f"{who} waited {waited_ns} ns"
    several = f" of {processes} processes" if processes > 1 else ""
    return f"{who} asked again and again for {waited_ns} ns ({calls} calls{several})"


def witness_wait(case: Case, waits: Waits, wait: int) -> dict[str, Any]:
    """The last call of a wait, or its requests' span on the wire, as `calls` of a witness."""
    call = int(waits.last_call[wait])
    if call >= 0:
        return {"calls": [witness_call(case.events, case.operations, call)]}
    row = {
        "node": case.events.text("node", int(waits.node[wait])),
        "task": "",
        "key": case.events.text("lock", int(waits.lock[wait])),
        "request": None,
        "no_request": "a wait of many requests, of which no call is seen on the wire",
        "op": "acquire",
        "interval_ns": [int(waits.begin_ns[wait]), int(waits.over_ns[wait])],
        "outcome": "waited",
    }
    return {"calls": [row]}


def _called_waits(case: Case, bounds: Bounds, over_ns: Ints) -> list[Waits]:
    """The waits that calls show: each call alone, the calls of one process, and those of a client's processes."""
    operations, events = case.operations, case.events
    acquires = np.flatnonzero(operations.op == Op.ACQUIRE)
    if len(acquires) == 0:
        return [_joined(case, over_ns, acquires, np.zeros(0, dtype=np.bool_), acquires)]
    lock = events.lock_key[operations.call_row]
    client = operations.client
    acquires = acquires[in_order(client[acquires], operations.call_row[acquires])]
    life = _lives(case, acquires)
    goes_on = np.zeros(len(acquires), dtype=np.bool_)
    before, after = acquires[:-1], acquires[1:]
    run = operations.run[after]
    gap = operations.call_at_ns[after] - over_ns[before]
    goes_on[1:] = (client[after] == client[before]) & ~operations.is_granted[before] & (gap >= 0)
    # Where a service hands the lock out, a client must be there for as long as the hand-over takes.
    stays = case.truth.are_leases[lock[before]] | (
        over_ns[before] - operations.call_at_ns[before] > bounds.handover_ns[run]
    )
    goes_on[1:] &= stays
    joined = np.flatnonzero(goes_on[1:])
    goes_on[1 + joined] = ~while_holding(case, before[joined])
    same_process, restarted = goes_on.copy(), goes_on.copy()
    same_process[1:] &= (life[1:] == life[:-1]) & (gap <= bounds.think_ns[run])
    restarted[1:] &= (life[1:] != life[:-1]) & (gap <= np.maximum(bounds.think_ns, bounds.validity_ns)[run])
    found = [_joined(case, over_ns, acquires, np.zeros(len(acquires), dtype=np.bool_), life)]
    if same_process.any():
        found.append(_several(_joined(case, over_ns, acquires, same_process, life)))
    if restarted.any():
        both = _joined(case, over_ns, acquires, same_process | restarted, life)
        found.append(both.take(both.processes > 1))
    return found


def _several(waits: Waits) -> Waits:
    return waits.take(waits.calls > 1)


def _lives(case: Case, calls: Ints) -> Ints:
    """Per call: how many processes of its node had crashed before it."""
    operations, disturbances = case.operations, case.disturbances
    crashes = np.flatnonzero(disturbances.are(frozenset({"crash"}), "begin"))
    if len(crashes) == 0:
        return np.zeros(len(calls), dtype=np.int64)
    home, _ = renumber(
        np.concatenate((disturbances.run[crashes], operations.run[calls])),
        np.concatenate((disturbances.node[crashes], operations.node[calls])).astype(np.int64),
    )
    return count_at_or_before(
        known_group=home[: len(crashes)],
        known_row=disturbances.row[crashes],
        asked_group=home[len(crashes) :],
        asked_row=operations.call_row[calls],
        row_count=case.events.count,
    )


def while_holding(case: Case, calls: Ints) -> Flags:
    """Per call: its client had been granted the lock and had not given it back, so the call was no wait."""
    operations = case.operations
    if len(calls) == 0:
        return np.zeros(0, dtype=np.bool_)
    client = operations.client
    granted = np.flatnonzero(operations.is_granted)
    releases = np.flatnonzero(operations.op == Op.RELEASE)
    last = {}
    for name, which, row in (
        ("granted", granted, operations.return_row),
        ("given back", releases, operations.call_row),
    ):
        found = last_at_or_before(
            known_group=client[which],
            known_row=row[which],
            asked_group=client[calls],
            asked_row=operations.call_row[calls],
            row_count=case.events.count,
        )
        last[name] = np.where(found >= 0, row[which][np.maximum(found, 0)] if len(which) else -1, -1)
    holding: Flags = last["granted"] > last["given back"]
    return holding


def _joined(case: Case, over_ns: Ints, calls: Ints, goes_on: Flags, life: Ints) -> Waits:
    """One wait for each stretch of calls. calls: in the order of clients and time. goes_on: with the call before it."""
    operations = case.operations
    starts = np.flatnonzero(~goes_on)
    ends = np.append(starts[1:], len(calls)) - 1
    first, last = calls[starts], calls[ends] if len(calls) else calls
    begin, over = operations.call_at_ns[calls], over_ns[calls]
    pause = np.zeros(len(calls), dtype=np.int64)
    pause[1:] = np.where(goes_on[1:], begin[1:] - over[:-1], 0)
    new_life = goes_on.copy()
    new_life[1:] &= life[1:] != life[:-1]
    # A process waited from its first call in the wait to its last one.
    process_starts = np.flatnonzero(~goes_on | new_life)
    process_ends = np.append(process_starts[1:], len(calls)) - 1
    lived = over[process_ends] - begin[process_starts] if len(calls) else begin
    of_wait = np.searchsorted(starts, process_starts, side="right") - 1
    return Waits(
        group=case.events.lock_key[operations.call_row[first]],
        run=operations.run[first],
        lock=operations.lock[first],
        node=operations.node[first],
        begin_ns=begin[starts],
        over_ns=over[ends] if len(calls) else over,
        pause_ns=np.maximum.reduceat(pause, starts) if len(calls) else begin,
        calls=ends - starts + 1,
        last_call=last,
        processes=np.bincount(of_wait, minlength=len(starts)),
        life_ns=np.maximum.reduceat(lived, np.flatnonzero(is_first(of_wait))) if len(calls) else begin,
    )


def _wire_waits(case: Case) -> Waits:
    """The waits that requests on the wire show."""
    events = case.events
    seen = np.array(list(_seen_waits(case)), dtype=np.int64).reshape(-1, 3)
    row, begin, over = seen.T
    assert bool(np.all(over >= begin)), "a wait does not end before it begins"
    none = np.zeros(len(row), dtype=np.int64)
    return Waits(
        group=events.lock_key[row],
        run=events.run[row],
        lock=events.codes("lock")[row],
        node=events.codes("node")[row],
        begin_ns=begin,
        over_ns=over,
        pause_ns=none,
        calls=none,
        last_call=none - 1,
        processes=none + 1,
        life_ns=over - begin,
    )


def _seen_waits(case: Case) -> Iterator[tuple[int, int, int]]:
    """(first SENT row, begin, end) of the waits that requests on the wire show."""
    events, truth = case.events, case.truth
    if not truth.is_on_wire.any():
        return
    sent = events.rows(Kind.SENT)
    sent = sent[truth.is_on_wire[events.run[sent]] & truth.lock_groups[events.lock_key[sent]]]
    grants = truth.grants
    home, _ = renumber(
        np.concatenate((grants.group, events.lock_key[sent])),
        np.concatenate((grants.node, events.codes("node")[sent])).astype(np.int64),
    )
    split = len(grants.group)
    for client in np.unique(home[split:]).tolist():
        own = np.flatnonzero(home[:split] == client)
        yield from _waits_of(case, sent[home[split:] == client], own)


def _waits_of(case: Case, sent: Ints, own: Ints) -> Iterator[tuple[int, int, int]]:
    """The waits of one client for one lock. sent: its requests in order. own: its grants in order."""
    events, grants, at = case.events, case.truth.grants, case.events.integers("at_ns")
    run, node = int(events.run[sent[0]]), int(events.codes("node")[sent[0]])
    patience_ns = int(case.runs.integers("poll_interval_ns")[run])
    patience_ns = FOREVER if patience_ns == ABSENT else patience_ns
    replied = events.replied_by_request[events.request_keys(sent)]
    answered = np.where(replied >= 0, at[np.maximum(replied, 0)], at[sent])
    granting = set(grants.request[own].tolist())
    begins = grants.begin_lo_ns[own]
    ends = np.where(grants.end_lo_ns[own] == ABSENT, FOREVER, grants.end_lo_ns[own])
    op, request = events.numbers("op")[sent], events.integers("request")[sent]
    first, since, until = -1, 0, 0
    for place, row in enumerate(sent.tolist()):
        sent_ns, answered_ns = int(at[row]), int(answered[place])
        if first >= 0 and sent_ns - until > patience_ns:
            yield first, since, until
            first = -1
        last = int(np.searchsorted(begins, sent_ns, side="left")) - 1
        holds = last >= 0 and int(ends[last]) > sent_ns
        if first < 0 and not holds and op[place] not in (Op.RELEASE, Op.DELETE):
            first, since = row, sent_ns
        until = answered_ns
        if first >= 0 and (holds or int(request[place]) in granting):
            yield first, since, min(answered_ns, int(begins[last])) if holds else answered_ns
            first = -1
    if first >= 0:
        crashed = case.disturbances.crashed_ns(run, node, after_row=int(sent[-1]))
        yield first, since, min(crashed, max(until, case.end_ns[run] if replied[-1] < 0 else until))
