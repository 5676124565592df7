"""Chain order in a real run, where nobody saw the writes take effect.

Each writer knows when it sent a conditional write and what it was told. A
successful conditional write was sent after its author had read the version it
replaces, so after the write that made that version was sent: on one host,
sorting by the time of sending gives chain order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lockref.stores.port import Outcome
from reports.checks.columns import Codes, Events, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Replies:
    """Applied writes: the event that tells of each, its sending, the bounds of its instant, the version it made."""

    row: Ints
    sent_row: Ints
    at_lo_ns: Ints
    at_hi_ns: Ints
    version: Codes

    def take(self, order: Ints) -> Replies:
        return Replies(
            row=self.row[order],
            sent_row=self.sent_row[order],
            at_lo_ns=self.at_lo_ns[order],
            at_hi_ns=self.at_hi_ns[order],
            version=self.version[order],
        )

    @staticmethod
    def join(first: Replies, second: Replies) -> Replies:
        return Replies(
            row=np.concatenate((first.row, second.row)),
            sent_row=np.concatenate((first.sent_row, second.sent_row)),
            at_lo_ns=np.concatenate((first.at_lo_ns, second.at_lo_ns)),
            at_hi_ns=np.concatenate((first.at_hi_ns, second.at_hi_ns)),
            version=np.concatenate((first.version, second.version)),
        )


def order_replies(events: Events, writes: Ints, sent_index: Ints) -> Replies:
    """The writes that took effect, per lock in chain order. `writes`: REPLIED rows."""
    applied = writes[events.numbers("outcome")[writes] == Outcome.APPLIED]
    sent = sent_index[events.request_keys(applied)]
    at = events.integers("at_ns")
    begin = at[np.where(sent >= 0, sent, applied)]
    order = np.lexsort((begin, events.lock_key[applied]))
    applied, sent, begin = applied[order], sent[order], begin[order]
    return Replies(
        row=applied,
        sent_row=sent,
        at_lo_ns=begin,
        at_hi_ns=at[applied],
        version=events.codes("version")[applied],
    )
