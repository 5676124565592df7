"""A thousand locks and ten participants of Helix, under its controller and under ours, in one run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from scenarios.peers.helix.experiments import RECIPE, Experiment, names_of
from scenarios.peers.helix.fleet import Fleet

LOCKS: Final = 1000
PARTICIPANTS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """From a change until everybody reports what the rule says."""

    seconds: float
    messages: int


def thousand(run: Experiment) -> bool:
    """Start, then one leaves: seconds and messages; both send what the rule needs, and not one message more."""
    text = RECIPE.read_text(encoding="utf-8").replace("count: 12 ", f"count: {LOCKS} ", 1)
    listed = "".join(
        f"  - name: localhost_{port}\n    host: localhost\n    port: {port}\n"
        for port in range(12001, 12001 + PARTICIPANTS)
    )
    file = f"{text.partition('participants:')[0]}participants:\n{listed}"
    found: dict[str, list[Rebalance]] = {}
    needed: list[int] = []
    for who in ("theirs", "ours"):
        with run.fleet(f"size-{who}", file=file) as fleet:
            names = names_of(fleet.cluster)
            for name in names:
                fleet.they_join(name)
            before, after = fleet.rule(tuple(names)), fleet.rule(tuple(names[1:]))
            moved = [lock for lock in before if before[lock] != after[lock]]
            orphans = sum(before[lock] == (names[0],) for lock in moved)
            # An orphan is granted; a lock of somebody who lives is first taken back.
            needed = [LOCKS, orphans + 2 * (len(moved) - orphans)]
            if who == "theirs":
                fleet.process(who)  # The start of a Java machine is no work of the controller.
            start = _measured(fleet, names, partial(_control, fleet, who))
            leave = _measured(fleet, names[1:], partial(fleet.leave, names[0]))
            found[who] = [start, leave]
    for what, theirs, ours in zip(("start", "leave"), found["theirs"], found["ours"], strict=True):
        ratios = f"{ours.seconds / theirs.seconds:.2f} and {ours.messages / theirs.messages:.2f}"
        run.say(
            f"{what}: theirs {theirs.seconds:.1f} s and {theirs.messages} messages, ours {ours.seconds:.1f} s and "
            f"{ours.messages}; ours ÷ theirs {ratios}"
        )
    return all([each.messages for each in rebalances] == needed for rebalances in found.values())


def _measured(fleet: Fleet, live: Sequence[str], change: Callable[[], None]) -> Rebalance:
    sent = fleet.sent()
    began_s = time.monotonic()
    change()
    fleet.await_table(*live)
    seconds = time.monotonic() - began_s
    return Rebalance(seconds=seconds, messages=fleet.settled(*live) - sent)


def _control(fleet: Fleet, who: str) -> None:
    if who == "ours":
        fleet.we_control()
    else:
        fleet.they_control()


SIZE: Final = {"thousand": thousand}
"""Experiments that measure."""
