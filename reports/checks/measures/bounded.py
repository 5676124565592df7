"""The samples of what a threshold may limit (`thresholds.limits.MEASURES`): measured only where one asks.

wait                  how long a granted acquire call lasted
hold                  from a grant's return to the call of its release
handoff…              `reports.checks.measures.handoff`, after a release, an expiry, a death
early_denial          how long before its time was over a call that would wait was told no, by its caller's
                      monotonic clock; 0 where it waited as long as it was asked to
drought               for how long one client asked until it was granted the lock (`reports.checks.measures.speed`)
standstill            for how long somebody waited while nobody was granted the lock
requests_per_grant    per grant: the requests about its lock since the grant before. Those after the last grant
                      count for the last one, and those that name no lock (a fence, a list) for the run's next grant
objects_left          per run: objects that the lock wrote, and that were there at the end
tasks_left            per run: threads or tasks of the lock that still ran when all clients had closed it
record_growth         per lock: by how many bytes its longest record exceeds its first one
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lockref.errors import HistoryUnreadable
from lockref.words import ABSENT, Kind, Op, Outcome
from reports.checks.clauses.waiting import over_ns_of
from reports.checks.facts.bounds import Bounds
from reports.checks.facts.case import Case
from reports.checks.facts.columns import NO_TEXT, Codes, Ints, are_among, is_first
from reports.checks.facts.segments import renumber
from reports.checks.facts.surroundings.host import HANDOVER_SPANS, TURN_SPANS, host_lateness_ns
from reports.checks.facts.tables import text_column
from reports.checks.facts.waits import find_waits
from reports.checks.measures.details import told_numbers
from reports.checks.measures.droughts import droughts
from reports.checks.measures.handoff import handoffs_table
from reports.checks.measures.latency import calls_table
from reports.checks.thresholds.kept import SAMPLES_SCHEMA
from reports.checks.thresholds.limits import MEASURES, measures_of

HANDOFFS: Final = {"handoff": "release", "handoff_after_expiry": "expiry", "handoff_after_death": "death"}
"""Which hand-offs a measure means (`reports.checks.measures.handoff`)."""
_MAIN_TASK: Final = "main"
_WRITES: Final = (Op.ACQUIRE, Op.RENEW, Op.RELEASE, Op.WRITE)


@cache
def no_samples() -> pa.Table:
    """`SAMPLES_SCHEMA` without a row, made once."""
    return SAMPLES_SCHEMA.empty_table()


def threshold_samples(case: Case) -> pa.Table:
    """`SAMPLES_SCHEMA`: the samples that the thresholds of each run ask for. Raises HistoryUnreadable for a threshold
    that cannot be read.
    """
    asked: dict[str, list[int]] = {}
    for run, texts in enumerate(case.runs.lists("thresholds")):
        try:
            named = measures_of(texts)
        except ValueError as error:
            raise HistoryUnreadable(f"run {case.runs.number[run]}: a threshold {error}") from error
        for measure in sorted(named):
            asked.setdefault(measure, []).append(run)
    if not asked:
        return no_samples()
    found = []
    for measure, runs in asked.items():
        samples = _MEASURED[measure](case)
        wanted = pc.is_in(samples["run"], value_set=pa.array(case.runs.number[runs]))
        found.append(_told(case, measure, samples.filter(wanted)))
    return pa.concat_tables(found)


def _told(case: Case, measure: str, samples: pa.Table) -> pa.Table:
    """Samples with the name of their measure, and their instants counted from the begin of their run."""
    place = pc.index_in(samples["run"], value_set=pa.array(case.runs.number)).to_numpy()
    at_ns = samples["at_ns"]
    if len(samples):
        at_ns = pc.subtract(at_ns, pa.array(case.origin_ns[place]))
    columns = {**{name: samples[name] for name in samples.column_names}, "at_ns": at_ns}
    columns["measure"] = pa.array([measure] * len(samples), pa.string())
    return pa.table({name: columns[name] for name in SAMPLES_SCHEMA.names}).cast(SAMPLES_SCHEMA)


def _table(
    case: Case,
    run: Ints,
    value: Ints,
    *,
    node: Codes,
    lock: Codes,
    at_ns: Ints,
    task: Codes | None = None,
    late_ns: Ints | None = None,
) -> pa.Table:
    """Samples from arrays. run: positions in the runs table. task: None where a client is its node."""
    return pa.table(
        {
            "run": pa.array(case.runs.number[run]),
            "value": pa.array(value.astype(np.int64)),
            "late_ns": pa.array(np.zeros(len(run), dtype=np.int64) if late_ns is None else late_ns),
            "client": _client(text_column(case.events, "node", node), _tasks(case, task, len(run))),
            "lock": text_column(case.events, "lock", lock).cast(pa.string()),
            "at_ns": pa.array(at_ns),
        }
    )


def _tasks(case: Case, task: Codes | None, count: int) -> pa.Array:
    return pa.nulls(count, pa.string()) if task is None else text_column(case.events, "task", task).cast(pa.string())


def _client(nodes: Any, tasks: Any) -> Any:
    """`n1` for the only task of a node, and `n1/second` for another one."""
    nodes, tasks = nodes.cast(pa.string()), pc.fill_null(tasks.cast(pa.string()), _MAIN_TASK)
    is_main = pc.is_in(tasks, value_set=pa.array(["", _MAIN_TASK]))
    return pc.if_else(is_main, nodes, pc.binary_join_element_wise(nodes, tasks, "/"))


def _of_calls(case: Case, measure: str) -> pa.Table:
    """wait and hold, of granted calls."""
    calls = calls_table(case)
    granted = pc.and_(pc.equal(calls["op"], "acquire"), pc.equal(calls["outcome"], "applied"))
    found = calls.filter(pc.and_(granted, pc.is_valid(calls[f"{measure}_ns"])))
    at_ns = pc.add(found["call_ns"], found["wait_ns"])
    return pa.table(
        {
            "run": found["run"],
            "value": found[f"{measure}_ns"],
            "late_ns": found[f"{measure}_late_ns"],
            "client": _client(found["node"], found["task"]),
            "lock": found["lock"],
            "at_ns": at_ns if measure == "wait" else pc.add(at_ns, found["hold_ns"]),
        }
    )


def _of_handoffs(case: Case, after: str) -> pa.Table:
    handoffs = handoffs_table(case)
    found = handoffs.filter(pc.equal(handoffs["after"], after))
    told = ("handoff_ns", "late_ns", "node", "lock", "at_ns")
    names = ("value", "late_ns", "client", "lock", "at_ns")
    return pa.table({"run": found["run"], **dict(zip(names, (found[name] for name in told), strict=True))})


def _early_denials(case: Case) -> pa.Table:
    """One sample per denied call that said how long it would wait. A denial that the run's end cut short is none.

    The caller's own monotonic clock counts, which is all that a lock can go by. A machine that is late makes a wait
    longer, never shorter.
    """
    operations, events = case.operations, case.events
    asked_ns = told_numbers(case, "timeout_ns")[operations.call_row]
    denied = np.flatnonzero(operations.is_denied & ~operations.is_cut_short & (asked_ns != ABSENT))
    mono_ns = events.integers("mono_ns")
    begun, over = mono_ns[operations.call_row[denied]], mono_ns[operations.return_row[denied]]
    by_true_clock = operations.return_at_ns[denied] - operations.call_at_ns[denied]
    waited_ns = np.where((begun == ABSENT) | (over == ABSENT), by_true_clock, over - begun)
    return _table(
        case,
        operations.run[denied],
        np.maximum(asked_ns[denied] - waited_ns, 0),
        node=operations.node[denied],
        task=operations.task[denied],
        lock=operations.lock[denied],
        at_ns=operations.return_at_ns[denied],
    )


def _droughts(case: Case) -> pa.Table:
    """One sample per drought of a client: from its first call after a grant, or of all, to its next grant.

    The lateness of the machine may be in each of its calls, and in the turn of each client that was served meanwhile.
    """
    operations = case.operations
    asked = np.flatnonzero(operations.op == Op.ACQUIRE)
    found = droughts(case, asked, over_ns_of(case)[asked])
    first, last = asked[found.first], asked[found.last]
    over_ns = found.over_ns
    late = case.once(host_lateness_ns)[operations.run[first]]
    turns = _grants_between(case, first, over_ns) if late.any() else np.zeros(len(first), dtype=np.int64)
    return _table(
        case,
        operations.run[first],
        over_ns - operations.call_at_ns[first],
        node=operations.node[last],
        task=operations.task[last],
        lock=operations.lock[last],
        at_ns=over_ns,
        late_ns=late * (HANDOVER_SPANS * found.calls + TURN_SPANS * turns),
    )


def _grants_between(case: Case, first: Ints, over_ns: Ints) -> Ints:
    """Per call: the grants of its lock, from its calling to an instant."""
    operations, events = case.operations, case.events
    granted = np.flatnonzero(operations.is_granted)
    lock = events.lock_key
    order = np.lexsort((operations.return_at_ns[granted], lock[operations.call_row[granted]]))
    granted = granted[order]
    found = np.zeros(len(first), dtype=np.int64)
    key = lock[operations.call_row[granted]]
    for place, call in enumerate(first.tolist()):
        mine = lock[operations.call_row[call]]
        low, high = np.searchsorted(key, [mine, mine + 1])
        times = operations.return_at_ns[granted[low:high]]
        span = np.searchsorted(times, [operations.call_at_ns[call], over_ns[place]], side="right")
        found[place] = span[1] - span[0]
    return found


def _standstills(case: Case) -> pa.Table:
    """One sample for each time in which somebody waited without a break, cut at every grant of the lock.

    Who is named ended it: by being granted the lock, or by giving up last. A machine may be late in the hand-over, and
    in the turn of whoever holds the lock meanwhile.
    """
    operations, grants = case.operations, case.truth.grants
    waits = find_waits(case, Bounds(case), over_ns_of(case))
    # A granted call, where there are calls; a lock's own record tells of the others.
    served = np.flatnonzero(operations.is_granted)
    has_calls = np.isin(np.arange(case.runs.count), operations.run)
    unseen = np.flatnonzero(~has_calls[grants.run])
    key = np.concatenate((case.events.lock_key[operations.call_row[served]], grants.group[unseen]))
    at_ns = np.concatenate((operations.return_at_ns[served], grants.begin_hi_ns[unseen]))
    node = np.concatenate((operations.node[served], grants.node[unseen]))
    order = np.lexsort((at_ns, key))
    key, at_ns, node = key[order], at_ns[order], node[order]
    rows: list[tuple[int, int, int, int]] = []
    by_begin = np.lexsort((waits.begin_ns, waits.group))
    stretch: tuple[int, int, int, int] | None = None

    def cut(group: int, begin_ns: int, end_ns: int, wait: int) -> None:
        """The pieces of one stretch of waiting. wait: the one that ended it."""
        low, high = np.searchsorted(key, [group, group + 1])
        inside = slice(
            int(low + np.searchsorted(at_ns[low:high], begin_ns, side="right")),
            int(low + np.searchsorted(at_ns[low:high], end_ns, side="right")),
        )
        since = begin_ns
        for instant, who in zip(at_ns[inside].tolist(), node[inside].tolist(), strict=True):
            rows.append((wait, instant - since, int(who), instant))
            since = instant
        if end_ns > since or inside.start == inside.stop:
            rows.append((wait, end_ns - since, int(waits.node[wait]), end_ns))

    for wait in by_begin.tolist():
        group, begin_ns, over_ns = int(waits.group[wait]), int(waits.begin_ns[wait]), int(waits.over_ns[wait])
        if stretch is not None and stretch[0] == group and begin_ns <= stretch[2]:
            if over_ns > stretch[2]:
                stretch = (group, stretch[1], over_ns, wait)
            continue
        if stretch is not None:
            cut(*stretch)
        stretch = (group, begin_ns, over_ns, wait)
    if stretch is not None:
        cut(*stretch)
    told = np.array(rows, dtype=np.int64).reshape(-1, 4)
    of = told[:, 0]
    late = case.once(host_lateness_ns)[waits.run[of]]
    return _table(
        case,
        waits.run[of],
        told[:, 1],
        node=told[:, 2].astype(np.int32),
        lock=waits.lock[of],
        at_ns=told[:, 3],
        late_ns=late * (HANDOVER_SPANS + TURN_SPANS),
    )


def _requests_per_grant(case: Case) -> pa.Table:
    events, operations, grants = case.events, case.operations, case.truth.grants
    has_calls = np.isin(np.arange(case.runs.count), operations.run)
    served = np.flatnonzero(operations.is_granted)
    unseen = np.flatnonzero(~has_calls[grants.run])
    begun = case.truth.changes.row[grants.first[unseen]]
    row = np.concatenate((operations.return_row[served], begun)).astype(np.int64)
    run = np.concatenate((operations.run[served], grants.run[unseen])).astype(np.int64)
    lock = np.concatenate((events.lock_key[operations.call_row[served]], grants.group[unseen])).astype(np.int64)
    node = np.concatenate((operations.node[served], grants.node[unseen])).astype(np.int32)
    task = np.concatenate((operations.task[served], grants.task[unseen])).astype(np.int32)
    name = np.concatenate((operations.lock[served], grants.lock[unseen])).astype(np.int32)
    sent = events.rows(Kind.SENT)
    # A body that tells of several locks is one request with a row for each of them.
    _, once = np.unique(events.request_keys(sent), return_index=True)
    sent = np.sort(sent[once])
    about = np.isin(events.lock_key[sent], lock)
    # What a program on the wire reads and writes besides its locks is its work, not the lock's.
    counts_here = about | has_calls[events.run[sent]]
    sent, about = sent[counts_here], about[counts_here]
    counts = np.zeros(len(row), dtype=np.int64)
    for which, group, of_grant in ((about, events.lock_key[sent], lock), (~about, events.run[sent], run)):
        grant = _next_or_last(group[which], sent[which], of_grant, row, events.count)
        np.add.at(counts, grant[grant >= 0], 1)
    return _table(case, run, counts, node=node, task=task, lock=name, at_ns=events.integers("at_ns")[row])


def _next_or_last(asked_group: Ints, asked_row: Ints, group: Ints, row: Ints, row_count: int) -> Ints:
    """Per asked row: the first of its group at or after it, or the group's last one; -1 for a group that has none."""
    if len(row) == 0 or len(asked_row) == 0:
        return np.full(len(asked_row), -1, dtype=np.int64)
    dense, _ = renumber(np.concatenate((group, asked_group)))
    dense, asked = dense[: len(group)], dense[len(group) :]
    order = np.lexsort((row, dense))
    place = dense[order] * row_count + row[order]
    found = np.searchsorted(place, asked * row_count + asked_row)
    beyond = (found == len(place)) | (dense[order][np.minimum(found, len(place) - 1)] != asked)
    found = np.where(beyond, found - 1, found)
    is_own = (found >= 0) & (dense[order][np.maximum(found, 0)] == asked)
    return np.where(is_own, order[np.maximum(found, 0)], -1)


def _objects_left(case: Case) -> pa.Table:
    """One sample per run in which a lock's requests were answered. Who is named wrote the newest of the objects.

    An object counts if a client wrote it, and the last that is known of it is not that it is gone. A simulated service
    says itself what took effect. Elsewhere answers do, so a write without an answer counts once somebody has read it.
    """
    events, operations = case.events, case.operations
    op, outcome, key = events.numbers("op"), events.numbers("outcome"), events.lock_key
    applied, replied = events.rows(Kind.APPLIED), events.rows(Kind.REPLIED)
    says = np.isin(np.arange(case.runs.count), events.run[applied])
    rows = np.sort(np.concatenate((applied, replied[~says[events.run[replied]]])))
    rows = rows[(outcome[rows] == Outcome.APPLIED) & (events.codes("lock")[rows] != NO_TEXT)]
    # A program on the wire keeps its work in the store, too: there only the locks' own objects count.
    has_calls = np.isin(np.arange(case.runs.count), operations.run)
    rows = rows[has_calls[events.run[rows]] | np.isin(key[rows], case.truth.grants.group)]
    is_write = are_among(op[rows], _WRITES)
    is_clients = events.sent_by_request[events.request_keys(rows)] >= 0
    written = rows[is_write & is_clients]
    is_telling = (is_write | are_among(op[rows], (Op.READ, Op.DELETE))) & np.isin(key[rows], key[written])
    rows, is_write = rows[is_telling], is_write[is_telling]
    is_there = is_write | ((op[rows] == Op.READ) & (events.codes("version")[rows] != NO_TEXT))
    last = _last_of_each(key[rows])
    left = np.intersect1d(key[written], key[rows[last]][is_there[last]])
    newest = written[np.isin(key[written], left)]
    newest = newest[_last_of_each(key[newest])]
    counts = np.bincount(events.run[newest], minlength=case.runs.count)
    runs = np.unique(events.run[replied])
    shown = np.full(case.runs.count, -1, dtype=np.int64)
    shown[events.run[newest]] = newest
    return _of_runs(case, runs, counts[runs], shown[runs])


def _last_of_each(group: Ints) -> Ints:
    """The last place of each group, in the order of places."""
    _, place = np.unique(group[::-1], return_index=True)
    return np.sort(len(group) - 1 - place)


def _of_runs(case: Case, runs: Ints, value: Ints, row: Ints) -> pa.Table:
    """One sample for each of these runs. row: the event that shows it, -1 where none does."""
    events, known = case.events, row >= 0
    at = np.maximum(row, 0)
    none = np.int32(NO_TEXT)
    if events.count == 0:
        at_ns, node, lock = case.end_ns[runs], np.full(len(runs), none), np.full(len(runs), none)
    else:
        at_ns = np.where(known, events.integers("at_ns")[at], case.end_ns[runs])
        node, lock = (np.where(known, events.codes(name)[at], none) for name in ("node", "lock"))
    return _table(case, runs, value, node=node, lock=lock, at_ns=at_ns)


def _tasks_left(case: Case) -> pa.Table:
    """One sample for each run that counted them. Who is named is the first of them by name: `n2/heartbeat-7`."""
    told = case.runs.table["tasks_left"].to_pylist()
    runs = np.array([run for run, names in enumerate(told) if names is not None], dtype=np.int64)
    found = _of_runs(
        case,
        runs,
        np.array([len(told[run]) for run in runs.tolist()], dtype=np.int64),
        np.full(len(runs), -1, dtype=np.int64),
    )
    clients = pa.array([min(told[run], default=None) for run in runs.tolist()], pa.string())
    return found.set_column(found.column_names.index("client"), "client", clients)


def _record_growth(case: Case) -> pa.Table:
    """One sample for each object that the lock wrote. Who is named wrote the longest body."""
    events = case.events
    size = told_numbers(case, "bytes")
    outcome = events.numbers("outcome")
    answers = events.rows(Kind.APPLIED, Kind.REPLIED)
    answers = answers[outcome[answers] == Outcome.APPLIED]
    landed = np.zeros(events.request_key_count + 1, dtype=np.bool_)
    landed[events.request_keys(answers)] = True
    landed[-1] = False
    sent = events.rows(Kind.SENT)
    sent = sent[(size[sent] != ABSENT) & landed[events.request_keys(sent)]]
    key = events.lock_key[sent]
    order = np.argsort(key, kind="stable")
    sent, key = sent[order], key[order]
    starts = np.flatnonzero(is_first(key))
    if len(starts) == 0:
        return _of_runs(case, starts, starts, starts)
    largest = np.maximum.reduceat(size[sent], starts)
    by_size = sent[np.lexsort((-sent, size[sent], key))]
    longest = by_size[np.append(starts[1:], len(sent)) - 1]
    return _of_runs(case, events.run[longest], largest - size[sent[starts]], longest)


_MEASURED: Final[Mapping[str, Callable[[Case], pa.Table]]] = {
    "wait": partial(_of_calls, measure="wait"),
    "hold": partial(_of_calls, measure="hold"),
    **{name: partial(_of_handoffs, after=after) for name, after in HANDOFFS.items()},
    "early_denial": _early_denials,
    "drought": _droughts,
    "standstill": _standstills,
    "requests_per_grant": _requests_per_grant,
    "objects_left": _objects_left,
    "tasks_left": _tasks_left,
    "record_growth": _record_growth,
}
assert _MEASURED.keys() == MEASURES.keys(), "every measure is measured"
