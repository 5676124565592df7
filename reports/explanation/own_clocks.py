"""The readings of a client's own clocks: whether a client that acted too late, or too early, obeyed its clocks.

A lease is judged in true time, and a client has its own two clocks alone. A client that compared them as it should, and
was misled by them, broke no rule. Then the clock is told, and what would have helped; a rule is named only to a client
that did not follow it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lockref.durations import plain_duration
from reports.explanation.run_records import Exchange, Row
from reports.explanation.telling import Teller
from reports.formats.text import short

ASK_BEFORE_YES: Final = (
    "a correct lock compares its own clock with the end of its last confirmed lease before each yes, and says no"
)
ASK_BOTH_CLOCKS: Final = (
    "a correct lock asks its monotonic clock and its wall clock, since the former stands still while the machine "
    "sleeps, and says no once either is past the end of its last confirmed lease"
)
ASK_MONOTONIC: Final = (
    "a correct lock asks its monotonic clock, too, since no step of the wall clock moves it, and says no once either "
    "is past the end of its last confirmed lease"
)
STOP_SOONER: Final = (
    "no lock can see that both of its clocks are slow; one that says no sooner, by a margin, bears clocks that are as "
    "slow as that"
)
LOOK: Final = "a renewal that is refused is a reason to look at the record, and to say no where it is another's"
WAIT_FOR_END: Final = (
    "a correct lock replaces the record of another only once the time of that record{bound} has passed on its own clock"
)
STAMP_ONWARDS: Final = (
    "a correct lock does not follow a wall clock that was set back: it stamps a renewal with the reading of its write "
    "before and what its monotonic clock has counted since"
)
COUNT_UNCHANGED: Final = (
    "whoever compares wall clocks needs clocks that agree{bound}; a waiter that instead counts, on its monotonic "
    "clock, for how long the record has stood unchanged does not need them"
)
COUNT_ON_MONOTONIC: Final = (
    "a correct lock counts for how long a record has stood on its monotonic clock, which no step of the wall clock "
    "moves"
)
WAIT_LONGER: Final = (
    "no lock can see that its own clock is fast; one that waits longer, by a bound, bears clocks that are as fast as "
    "that"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ByOwnClocks:
    """The act of a client as its own clocks show it. said: what they showed; empty where they speak against the client.

    demand: what a correct lock does, or what would have helped.
    """

    said: str
    demand: str


def late_yes(tell: Teller, grant: Row, yes_ns: int, last_yes_ns: int | None = None) -> ByOwnClocks:
    """Why a client said yes at an instant after the end of its lease, by each of its two clocks.

    last_yes_ns: until when it said so, where it went on.
    """
    node, until_ns = str(grant["node"]), grant["valid_until_true_ns"]
    record, now = tell.facts.last_write_of(grant), tell.facts.reading(node, yes_ns)
    if record is None or record.clocks is None or record.node != node or now is None or until_ns is None:
        return ByOwnClocks(said="", demand=ASK_BEFORE_YES)
    # On each clock of its holder the lease lasts as long as in true time, from the sending of the record on.
    lasts_ns, gone_ns = until_ns - record.sent_ns, yes_ns - record.sent_ns
    by_wall_ns, by_mono_ns = now.wall_ns - record.clocks.wall_ns, now.mono_ns - record.clocks.mono_ns
    if by_wall_ns >= lasts_ns and by_mono_ns >= lasts_ns:
        return ByOwnClocks(said="", demand=ASK_BEFORE_YES)
    if by_wall_ns >= lasts_ns:
        clock, counted_ns, demand = "the monotonic clock", by_mono_ns, ASK_BOTH_CLOCKS
    elif by_mono_ns >= lasts_ns:
        clock, counted_ns, demand = "the wall clock", by_wall_ns, ASK_MONOTONIC
    else:
        clock, counted_ns, demand = "both clocks", min(by_wall_ns, by_mono_ns), STOP_SOONER
    who, missed = tell.who(grant), tell.length(gone_ns - counted_ns)
    said = f"by {clock} of {who}, which had counted {missed} too little, its lease was not over"
    refused_ns = _refused_ns(tell, node, until_ns, yes_ns if last_yes_ns is None else last_yes_ns)
    if refused_ns is not None:
        said = f"{said}; its renewal was refused at {tell.at(refused_ns)}, and it went on"
        demand = f"{demand}; {LOOK}"
    return ByOwnClocks(said=said, demand=demand)


def _refused_ns(tell: Teller, node: str, begin_ns: int, end_ns: int) -> int | None:
    """When a client first heard, within a stretch of time, that its renewal was refused; None if it did not."""
    refused = [
        exchange.replied_ns
        for exchange in tell.facts.exchanges.values()
        if exchange.node == node and exchange.op == "renew" and exchange.is_refused and exchange.replied_ns is not None
    ]
    return min((at_ns for at_ns in refused if begin_ns <= at_ns <= end_ns), default=None)


def early_takeover(tell: Teller, taker: Row, held: Row | None, landed_ns: int) -> ByOwnClocks:
    """Why a client replaced the record of a grant before its end, by the clock that it went by.

    taker: names the client (`node`) and, where it is known, its write (`request`). held: the grant that it replaced.
    landed_ns: when that write took effect.
    """
    facts, node = tell.facts, str(taker.get("node"))
    bound_ns = int(facts.run.get("drift_bound_ns") or 0)
    sent = facts.exchanges.get(int(taker["request"])) if taker.get("request") is not None else None
    record = facts.last_write_of(held) if held is not None else None
    now = facts.reading(node, sent.sent_ns if sent is not None else landed_ns)
    too_soon = ByOwnClocks(said="", demand=WAIT_FOR_END.format(bound=tell.bound()))
    if held is None or record is None or now is None:
        return too_soon
    who = short(node, 40)
    if record.stamp_ns is None:
        seen = facts.reading_after(node, record.landed_ns) if record.landed_ns is not None else None
        lasts_ns = (held["valid_until_true_ns"] or 0) - record.sent_ns
        if seen is not None and now.mono_ns - seen.mono_ns >= lasts_ns:
            said = f"by its own monotonic clock {who} had waited for the whole of that time"
            return ByOwnClocks(said=said, demand=WAIT_LONGER)
        if seen is not None and now.wall_ns - seen.wall_ns >= lasts_ns:
            said = f"by its own wall clock {who} had waited for the whole of that time"
            return ByOwnClocks(said=said, demand=COUNT_ON_MONOTONIC)
        return too_soon
    if now.wall_ns < record.stamp_ns + bound_ns:
        return too_soon
    said = f"by its own wall clock {who} came late enough"
    back_ns = _set_back_ns(tell, held, record)
    if back_ns > bound_ns:
        holder = short(str(held["node"]), 40)
        said += f": {holder} had stamped that record by a wall clock that had gone back by {tell.length(back_ns)}"
        return ByOwnClocks(said=said, demand=STAMP_ONWARDS)
    bound = f" within {plain_duration(bound_ns)}" if bound_ns else ""
    return ByOwnClocks(said=said, demand=COUNT_UNCHANGED.format(bound=bound))


def _set_back_ns(tell: Teller, held: Row, record: Exchange) -> int:
    """The time by which a renewal was stamped too early: what its writer's wall clock lost since the grant began.

    0 for a renewal whose stamp kept up with the monotonic clock, whatever the wall clock showed.
    """
    first = tell.facts.first_write_of(held)
    if first is None or first.clocks is None or record.clocks is None or None in (first.stamp_ns, record.stamp_ns):
        return 0
    counted_ns = record.clocks.mono_ns - first.clocks.mono_ns
    stamped_ns = (record.stamp_ns or 0) - (first.stamp_ns or 0)
    lost_ns = counted_ns - (record.clocks.wall_ns - first.clocks.wall_ns)
    return max(0, min(lost_ns, counted_ns - stamped_ns))
