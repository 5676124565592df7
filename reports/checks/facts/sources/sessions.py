"""Locks that are held by a session with a service, not by a record that is renewed: what their sources share.

Such a grant promises no time. It lasts while its owner's session lives, and nobody on record says when the session
ends. So nobody is accused of the time at which such a grant was replaced. Only a death is known: a process that
crashed loses its session within the session timeout, which is the run's validity.

A write of such a lock counts as landed if its answer says so. Doubt: a write without a definite answer may have landed
too. The chain of records settles that by versions; here nothing names what was replaced.
"""

from __future__ import annotations

import numpy as np

from lockref.words import ABSENT, Kind, Op, Outcome
from reports.checks.disturbances import Disturbances
from reports.checks.facts.clocks import FOREVER
from reports.checks.facts.columns import Codes, Events, Flags, Ints, Runs
from reports.checks.facts.sources.chain_order import AppliedWrites
from reports.checks.facts.sources.record_chain import are_recorded_by_service, recorded_writes


def landed_writes(events: Events, runs: Runs, locks: Flags) -> AppliedWrites:
    """The writes of these locks that took effect, by lock: as the service recorded them, else by time of sending."""
    recorded = recorded_writes(events, locks)
    sent = events.rows(Kind.SENT)
    sent = sent[~are_recorded_by_service(events, runs)[events.run[sent]] & locks[events.lock_key[sent]]]
    sent = sent[events.numbers("op")[sent] != Op.READ]
    answer = events.replied_by_request[events.request_keys(sent)]
    landed = (answer >= 0) & (events.numbers("outcome")[np.maximum(answer, 0)] == Outcome.APPLIED)
    sent, answer = sent[landed], answer[landed]
    if not len(sent):
        return recorded
    at = events.integers("at_ns")
    # The SENT row stands for the write: another client may see the write and be answered before its author is.
    heard = AppliedWrites(
        row=sent, sent_row=sent, at_lo_ns=at[sent], at_hi_ns=at[answer], version=events.codes("version")[answer]
    )
    writes = AppliedWrites.join((recorded, heard))
    return writes.take(np.lexsort((writes.at_lo_ns, events.lock_key[writes.row])))


def session_end_ns(runs: Runs, disturbances: Disturbances, *, run: Ints, node: Codes, row: Ints) -> Ints:
    """Per grant, until when the session of its owner lasts at most: its crash and the run's validity; ABSENT if alive.

    row: the event that tells of the grant; only a crash after it ends the session that holds it.
    """
    validity = runs.integers("validity_ns")
    ends = np.full(len(run), ABSENT, dtype=np.int64)
    for index, (which, owner, since) in enumerate(zip(run.tolist(), node.tolist(), row.tolist(), strict=True)):
        crashed = disturbances.crashed_ns(which, owner, after_row=since)
        if crashed != FOREVER and validity[which] != ABSENT:
            ends[index] = crashed + int(validity[which])
    return ends
