"""Situations: did what was to be tested happen at all?

A run in which nobody contended proves nothing about contention. Each situation
is counted per run from the history itself. A scenario names the situations
without which its runs prove nothing (`must_happen`), some with a least count. A
batch that did not reach one of them often enough is inconclusive, as is a batch
without a single grant, unless it asks for commits. The count is over the batch, not the run: random plans
reach rare situations in some runs only, and the other runs are still evidence.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from lockref.history import CHILD_SUFFIX
from lockref.strict_json import NotJson, is_whole, read_object
from lockref.words import ABSENT, OPERATOR, Kind, Op, Outcome
from reports.checks.clauses.answers import grants_end, meets_another_grant
from reports.checks.clauses.effect import find_unfenced
from reports.checks.clauses.takeover import are_resumed
from reports.checks.disturbances import FAULT_SITUATIONS, PAUSE_KINDS, Disturbances
from reports.checks.facts.case import Case
from reports.checks.facts.clocks import FOREVER
from reports.checks.facts.columns import Events, Flags, Ints, are_among
from reports.checks.facts.operations import Operations
from reports.checks.facts.reentrancy import are_inner
from reports.checks.facts.segments import count_at_or_before, last_at_or_before, one_of_each, renumber
from reports.checks.facts.sources.grants import (
    END_DELETED,
    END_RELEASED,
    END_TAKEN_OVER,
    RELEASED,
    given_back,
)
from reports.checks.facts.sources.truth import Truth
from reports.checks.facts.tenures import Tenures
from reports.checks.facts.waits import while_holding
from reports.checks.situation_names import COMMIT, IDLE, REDELIVERY, SITUATIONS, TOKEN, UNFENCED

REACH_SCHEMA: Final = pa.schema(
    [
        pa.field("run", pa.int64(), nullable=False),
        pa.field("situation", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
    ]
)
"""Every run with every situation of `SITUATIONS`, zeros included; faults and `UNFENCED` only where they happened.

`idle:<kind>` counts the strikes of a kind that changed nothing."""


def reach_table(case: Case) -> pa.Table:
    """Count every situation in every run."""
    events, truth, operations = case.events, case.truth, case.operations
    tenures, effects, disturbances = case.tenures, case.effects, case.disturbances
    calls = np.flatnonzero(operations.op == Op.ACQUIRE)
    lost = _lost_replies(events, truth)
    mattered = disturbances.strikes_that_mattered(case.runs)
    reached: dict[str, Ints] = {
        "grant": _granted_runs(truth, operations),
        TOKEN: operations.run[operations.is_granted & (operations.token != ABSENT)],
        "clients_served": _clients_served(case),
        "handoff": _handoffs(case),
        "denied": operations.run[operations.is_denied & ~operations.is_cut_short],
        "cut_short": operations.run[operations.is_denied & operations.is_cut_short],
        "contention": _contentions(case, calls),
        "renewal": _renewals(case),
        "release": _releases(case),
        "reentry": _inner_unlocks(case),
        "fork": _forks(case),
        "takeover_after_expiry": _takeovers_after_expiry(case),
        "resumption": _resumptions(case),
        "renewal_race": _renewal_races(events, truth),
        "lost_reply_acquire": lost[Op.ACQUIRE],
        "lost_reply_release": lost[Op.RELEASE],
        "lost_reply_renew": lost[Op.RENEW],
        "unknown_outcome": operations.run[operations.outcome == Outcome.AMBIGUOUS],
        "failed_call": _failed_calls(case, calls),
        "lost_at_work": _lost_at_work(events, tenures),
        "paused_holder_resumed": _resumed_holders(events, tenures, disturbances),
        "late_write_attempted": effects.run[_are_late(case) | ~effects.is_accepted],
        "rejected_write": effects.run[~effects.is_accepted],
        "effect": effects.run[effects.is_accepted],
        COMMIT: case.commits.returns.run[case.commits.returns.is_acknowledged],
        REDELIVERY: _redelivered(case),
        "expired_while_believed": _beliefs_beyond(case),
        **{
            name: disturbances.run[mattered & disturbances.are(kinds or frozenset(disturbances.kinds))]
            for name, kinds in FAULT_SITUATIONS.items()
        },
    }
    assert sorted(reached) == sorted(SITUATIONS), "a situation is described but not counted, or the reverse"
    number = truth.runs.number
    names = list(SITUATIONS)
    counts = np.stack([np.bincount(reached[name], minlength=truth.runs.count) for name in names], axis=1)
    fixed = pa.table(
        [
            pa.array(np.repeat(number, len(names))),
            pa.array(names, pa.string()).take(pa.array(np.tile(np.arange(len(names)), truth.runs.count))),
            pa.array(counts.reshape(-1).astype(np.int64)),
        ],
        schema=REACH_SCHEMA,
    )
    idle = disturbances.are(frozenset(disturbances.kinds), "begin", "fired") & ~mattered
    struck = [_fault_rows(truth, disturbances, mattered, "fault:"), _fault_rows(truth, disturbances, idle, IDLE)]
    return pa.concat_tables([fixed, *struck, _unfenced_rows(case)])


def _redelivered(case: Case) -> Ints:
    """Runs of the acknowledged commits that a queue had delivered before."""
    returns, said = case.commits.returns, case.events.codes("detail")
    if len(returns.row) == 0:
        return returns.run
    codes = np.unique(said[returns.row]).tolist()
    again = [code for code in codes if _deliveries(case.events.text("detail", code)) > 1]
    runs: Ints = returns.run[returns.is_acknowledged & np.isin(said[returns.row], again)]
    return runs


def _deliveries(said: str) -> int:
    """The number of deliveries that a `detail` tells; 0 where it tells none."""
    try:
        told = read_object(said).get("deliveries")
    except NotJson:
        return 0
    return told if is_whole(told) else 0


def _renewals(case: Case) -> Ints:
    """Runs of the renewals, but for those that a task sends within its own acquire.

    A lock that takes its own record for the lock once more, because it never heard of its own write, renews nothing:
    it acquires. Whoever asks whether a lock renews would else take the one for the other. A participant that writes
    its state anew renews nothing either: its session holds the lock.
    """
    events, changes, operations = case.events, case.truth.changes, case.operations
    renewals = np.flatnonzero(changes.is_renewal & changes.is_record)
    acquires = np.flatnonzero(operations.op == Op.ACQUIRE)
    sent = changes.sent_row[renewals]
    known = np.maximum(sent, 0)
    asked = events.client_key(events.codes("node")[known], events.codes("task")[known])
    asked_run = events.run[known]
    calls = events.client_key(operations.node[acquires], operations.task[acquires])
    group, _ = renumber(
        np.concatenate((operations.run[acquires], asked_run)), np.concatenate((calls, asked)).astype(np.int64)
    )
    split = len(acquires)
    returned = np.where(operations.return_row[acquires] >= 0, operations.return_row[acquires], events.count)
    begun, over = (
        count_at_or_before(
            known_group=group[:split],
            known_row=edge,
            asked_group=group[split:],
            asked_row=known,
            row_count=events.count,
        )
        for edge in (operations.call_row[acquires], returned)
    )
    runs: Ints = changes.run[renewals[(sent < 0) | (begun <= over)]]
    return runs


def _takeovers_after_expiry(case: Case) -> Ints:
    """Runs of grants that another client replaced once their validity was over.

    A grant that its owner's session holds has no such time on record: there the service, or the controller, gives the
    lock to another client once the session is over.
    """
    events, changes, grants = case.events, case.truth.changes, case.truth.grants
    # A take-over in two writes deletes the other's record first, or gives it back in the other's place.
    freed = are_among(grants.end_kind, (END_RELEASED, END_DELETED)) & grants.lapses
    freed &= changes.is_record[grants.end] & (changes.node[grants.end] != grants.node)
    freed &= changes.node[grants.end] != events.code_of("node", OPERATOR)
    replaced = np.flatnonzero((grants.end_kind == END_TAKEN_OVER) | freed)
    lapsed = (grants.valid_until_true_ns[replaced] != ABSENT) & (
        changes.at_hi_ns[grants.end[replaced]] >= grants.valid_until_true_ns[replaced]
    )
    found: Ints = grants.run[replaced[lapsed | ~grants.lapses[replaced]]]
    return found


def _are_late(case: Case) -> Flags:
    """Per write to the resource: the grant of its writer had ended."""
    effects, grants = case.effects, case.truth.grants
    effect_grant = np.maximum(effects.grant, 0)
    is_late = np.zeros(len(effects.row), dtype=np.bool_)
    if len(grants.first):
        ended = grants.end_lo_ns[effect_grant]
        is_late = (effects.grant >= 0) & (ended != ABSENT) & (ended <= effects.at_ns)
    return is_late


def _contentions(case: Case, calls: Ints) -> Ints:
    """Runs of calls that met another client: a grant in their way, a lost race, or, without records, its use."""
    truth, operations = case.truth, case.operations
    until = grants_end(truth, np.arange(len(truth.grants.first)))
    blocked = calls[meets_another_grant(truth, operations, calls, until=until)]
    return np.concatenate((operations.run[blocked], _lost_races(case.events, truth), _meetings_in_calls(case)))


def _releases(case: Case) -> Ints:
    """Runs of grants that were given back: by a write of the record, by another end, or by a call alone."""
    truth = case.truth
    changes, grants = truth.changes, truth.grants
    return np.concatenate(
        (
            changes.run[(changes.state == RELEASED) & truth.is_readable[changes.run]],
            grants.run[(grants.end_kind != END_RELEASED) & given_back(grants)],
            _releases_in_calls(case),
        )
    )


def _unfenced_rows(case: Case) -> pa.Table:
    """Late writes that only a token could have refused, of locks that show none."""
    run, counts = np.unique(case.effects.run[case.once(find_unfenced)], return_counts=True)
    return pa.table(
        [
            pa.array(case.runs.number[run]),
            pa.array([UNFENCED] * len(run), pa.string()),
            pa.array(counts.astype(np.int64)),
        ],
        schema=REACH_SCHEMA,
    )


def _fault_rows(truth: Truth, disturbances: Disturbances, struck: Flags, prefix: str) -> pa.Table:
    width = max(1, len(disturbances.kinds))
    pairs, counts = np.unique(disturbances.run[struck] * width + disturbances.kind[struck], return_counts=True)
    names = [f"{prefix}{disturbances.kinds[kind]}" for kind in (pairs % width).tolist()]
    return pa.table(
        [pa.array(truth.runs.number[pairs // width]), pa.array(names, pa.string()), pa.array(counts.astype(np.int64))],
        schema=REACH_SCHEMA,
    )


def _granted_runs(truth: Truth, operations: Operations) -> Ints:
    """Runs of the grants; where records cannot be read, of the calls that were granted."""
    unread = operations.is_granted & ~truth.knows_rows(operations.call_row)
    return np.concatenate((truth.grants.run, operations.run[unread]))


def _failed_calls(case: Case, calls: Ints) -> Ints:
    """Runs of the acquires that raised. A lock that refuses a second entry to its holder has not failed."""
    operations = case.operations
    failed = calls[operations.outcome[calls] == Outcome.REJECTED]
    runs: Ints = operations.run[failed[~while_holding(case, failed)]]
    return runs


def _lost_at_work(events: Events, tenures: Tenures) -> Ints:
    """Runs of the tenures whose guard said no, or whose loss was reported, while their client worked."""
    told = np.flatnonzero(tenures.loss_row >= 0)
    op = events.numbers("op")[tenures.loss_row[told]]
    runs: Ints = tenures.run[told[are_among(op, (Op.GUARD, Op.NONE))]]
    return runs


def _resumptions(case: Case) -> Ints:
    """Runs, one entry for each grant that was taken back early by the next process of its client."""
    grants, changes = case.truth.grants, case.truth.changes
    taken = np.flatnonzero((grants.end_kind == END_TAKEN_OVER) & (grants.valid_until_true_ns != ABSENT))
    taken = taken[changes.at_hi_ns[grants.end[taken]] < grants.valid_until_true_ns[taken]]
    return grants.run[taken[are_resumed(case.truth, case.disturbances, taken)]]


def _forks(case: Case) -> Ints:
    """Runs of the calls by child processes, once per process."""
    operations = case.operations
    # The last place is that of NO_TEXT.
    is_child = np.zeros(case.events.text_count("node") + 1, dtype=np.bool_)
    is_child[operations.node] = True
    for node in np.flatnonzero(is_child[:-1]).tolist():
        is_child[node] = case.events.text("node", node).endswith(CHILD_SUFFIX)
    is_child[-1] = False
    of_child = is_child[operations.node]
    if not of_child.any():
        return np.zeros(0, dtype=np.int64)
    pairs = np.unique(np.stack((operations.run[of_child], operations.node[of_child].astype(np.int64)), axis=1), axis=0)
    runs: Ints = pairs[:, 0]
    return runs


def _inner_unlocks(case: Case) -> Ints:
    """Runs of the unlocks after which the client still holds, because it had locked more than once."""
    operations = case.operations
    releases = np.flatnonzero(operations.op == Op.RELEASE)
    inner = are_inner(operations, case.tenure_of_release, releases, row_count=case.events.count)
    runs: Ints = operations.run[releases[inner]]
    return runs


def _granted_clients(case: Case) -> tuple[Ints, Ints, Ints]:
    """Per granted call, in the order of the answers of each lock: its position, its lock, its client."""
    operations, events = case.operations, case.events
    granted = np.flatnonzero(operations.is_granted)
    lock = events.lock_key[operations.call_row[granted]]
    client = events.client_key(operations.node[granted], operations.task[granted])
    order = np.lexsort((operations.return_row[granted], lock))
    return granted[order], lock[order], client[order]


def _clients_served(case: Case) -> Ints:
    """Runs of the clients that were granted a lock, once each."""
    operations = case.operations
    granted = np.flatnonzero(operations.is_granted)
    served = one_of_each(operations.run[granted], operations.node[granted], operations.task[granted])
    runs: Ints = operations.run[granted[served]]
    return runs


def _handoffs(case: Case) -> Ints:
    """Runs of the granted calls whose predecessor on the lock was another client's."""
    granted, lock, client = _granted_clients(case)
    passed = np.flatnonzero((lock[1:] == lock[:-1]) & (client[1:] != client[:-1])) + 1
    runs: Ints = case.operations.run[granted[passed]]
    return runs


def _releases_in_calls(case: Case) -> Ints:
    """Runs of releases that succeeded, where records cannot be read."""
    operations = case.operations
    done = (operations.op == Op.RELEASE) & (operations.outcome == Outcome.APPLIED)
    runs: Ints = operations.run[done & ~case.truth.knows_rows(operations.call_row)]
    return runs


def _meetings_in_calls(case: Case) -> Ints:
    """Runs of acquires that met another client's use of the lock, where records cannot be read.

    In use is from a granted return to the call of its release, or to the end of the record.
    """
    events, operations = case.events, case.operations
    acquires = np.flatnonzero((operations.op == Op.ACQUIRE) & ~case.truth.knows_rows(operations.call_row))
    if len(acquires) == 0:
        return np.zeros(0, dtype=np.int64)
    lock = events.lock_key[operations.call_row[acquires]]
    client = events.client_key(operations.node[acquires], operations.task[acquires])
    release_row = np.full(len(operations.op), events.count, dtype=np.int64)
    releases = np.flatnonzero(case.tenure_of_release >= 0)[::-1]
    # Assigned from the last release to the first, so that the first one counts.
    release_row[case.tenure_of_release[releases]] = operations.call_row[releases]
    answered = np.where(operations.return_row >= 0, operations.return_row, events.count)
    used = np.flatnonzero(operations.is_granted[acquires])
    # The uses by other clients at some instant of this call: over all clients, those begun before the answer minus
    # those ended before the call; then minus the same count for this client.
    met = np.zeros(len(acquires), dtype=np.int64)
    for group, sign in ((renumber(lock)[0], 1), (renumber(lock, client)[0], -1)):
        begun, over = (
            count_at_or_before(
                known_group=group[used],
                known_row=edge[acquires[used]],
                asked_group=group,
                asked_row=asked,
                row_count=events.count,
            )
            for edge, asked in ((answered, answered[acquires] - 1), (release_row, operations.call_row[acquires]))
        )
        met += sign * (begun - over)
    runs: Ints = operations.run[acquires[met > 0]]
    return runs


def _lost_races(events: Events, truth: Truth) -> Ints:
    """Runs of acquiring writes that were refused because another writer came first."""
    replies = _lock_replies(events, truth, Op.ACQUIRE)
    refused = events.numbers("outcome")[replies] == Outcome.PRECONDITION_FAILED
    runs: Ints = events.run[replies[refused]]
    return runs


def _lock_replies(events: Events, truth: Truth, op: Op) -> Ints:
    replies = events.rows(Kind.REPLIED)
    chosen: Ints = replies[(events.numbers("op")[replies] == op) & truth.lock_groups[events.lock_key[replies]]]
    return chosen


def _renewal_races(events: Events, truth: Truth) -> Ints:
    """Runs of renewals that were refused, or during which somebody else's write landed on the lock."""
    replies = _lock_replies(events, truth, Op.RENEW)
    sent = events.sent_by_request[events.request_keys(replies)]
    replies, sent = replies[sent >= 0], sent[sent >= 0]
    if len(replies) == 0:
        return np.zeros(0, dtype=np.int64)
    refused = events.numbers("outcome")[replies] == Outcome.PRECONDITION_FAILED
    changes = truth.changes
    # The chain has one entry for the renewal itself, if it landed.
    landed = np.isin(events.request_keys(replies), events.request_keys(changes.row))
    group, split = renumber(np.concatenate((changes.group, events.lock_key[replies])))[0], len(changes.row)
    within = [
        count_at_or_before(
            known_group=group[:split],
            known_row=changes.row,
            asked_group=group[split:],
            asked_row=edge,
            row_count=events.count,
        )
        for edge in (replies, sent)
    ]
    runs: Ints = events.run[replies[refused | (within[0] - within[1] > landed)]]
    return runs


def _lost_replies(events: Events, truth: Truth) -> dict[Op, Ints]:
    """Per operation, the runs of writes that took effect although their author heard nothing definite."""
    changes = truth.changes
    replied = events.replied_by_request[events.request_keys(np.maximum(changes.sent_row, 0))]
    unheard = (replied < 0) | (events.numbers("outcome")[np.maximum(replied, 0)] != Outcome.APPLIED)
    unheard &= changes.sent_row >= 0
    op = events.numbers("op")[np.maximum(changes.sent_row, 0)]
    # What a record looks like to its writer's recorder is a guess; the chain knows which writes renewed, and which gave
    # back: to delete the record of one's own grant, or to write another's name into it, is to release, too.
    grants = truth.grants
    renews = changes.is_renewal & (op == Op.ACQUIRE)
    gives_back = np.zeros(len(op), dtype=np.bool_)
    gives_back[grants.end[(grants.end_kind != END_RELEASED) & given_back(grants)]] = True
    of = {
        Op.ACQUIRE: (op == Op.ACQUIRE) & ~renews,
        Op.RENEW: ((op == Op.RENEW) & ~gives_back) | renews,
        Op.RELEASE: (op == Op.RELEASE) | gives_back,
    }
    return {which: changes.run[unheard & flags] for which, flags in of.items()}


def _resumed_holders(events: Events, tenures: Tenures, disturbances: Disturbances) -> Ints:
    """Runs of pauses that began while the paused node held belief, and that ended."""
    pauses = np.flatnonzero(disturbances.are(PAUSE_KINDS, "begin", "fired"))
    if len(pauses) == 0 or len(tenures.run) == 0:
        return np.zeros(0, dtype=np.int64)
    home, _ = renumber(
        np.concatenate((tenures.run, disturbances.run[pauses])),
        np.concatenate((tenures.node, disturbances.node[pauses])).astype(np.int64),
    )
    split = len(tenures.run)
    last = last_at_or_before(
        known_group=home[:split],
        known_row=tenures.first_row,
        asked_group=home[split:],
        asked_row=disturbances.row[pauses],
        row_count=events.count,
    )
    which = np.maximum(last, 0)
    until = np.where(tenures.loss_row[which] >= 0, tenures.loss_row[which], FOREVER)
    holding = (last >= 0) & (disturbances.row[pauses] < until)
    ends = np.flatnonzero(disturbances.are(PAUSE_KINDS, "end"))
    ended = set(zip(disturbances.run[ends].tolist(), disturbances.fault[ends].tolist(), strict=True))
    chosen = pauses[holding]
    resumed = [
        (run, fault) in ended
        for run, fault in zip(disturbances.run[chosen].tolist(), disturbances.fault[chosen].tolist(), strict=True)
    ]
    return disturbances.run[chosen[np.array(resumed, dtype=np.bool_)]]


def _beliefs_beyond(case: Case) -> Ints:
    """Runs of tenures that still believed after their grant had ended or its validity was over."""
    grants, tenures, grant = case.truth.grants, case.tenures, case.grant_of_tenure
    if len(grants.first) == 0:
        return np.zeros(0, dtype=np.int64)
    which = np.maximum(grant, 0)
    ended = np.where(grants.end_hi_ns[which] == ABSENT, FOREVER, grants.end_hi_ns[which])
    valid = np.where(grants.valid_until_true_ns[which] == ABSENT, FOREVER, grants.valid_until_true_ns[which])
    return tenures.run[(grant >= 0) & (tenures.last_ns > np.minimum(ended, valid))]
