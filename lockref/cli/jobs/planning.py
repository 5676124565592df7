"""The writers of Delta tables, planned: what a queue of versions costs under one lock per table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from lockref.errors import ConfigError
from scenarios.delta.measured import hold_times_ns
from scenarios.delta.orders import CLOSED_LOOPS, RANDOM_WINNER, coalesced, named_order
from scenarios.delta.planning import Asked, as_text, plan
from scenarios.delta.queue_planning import as_text as queues_as_text
from scenarios.delta.queue_planning import plan_queues
from scenarios.delta.queueing import Fleet, Grants, Protocol
from scenarios.delta.table_queues import QueueFleet

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console


def plan_writers(
    console: Console,
    *,
    tables: int,
    versions: int,
    writers: Sequence[int],
    commit_ns: int,
    from_run: str | None,
    deadline_ns: int,
    order: str,
    coalesce: int,
    protocol: str,
    poll_ns: int | None,
    gap_ns: int | None,
    get_ns: int | None,
    think_ns: int | None,
    every_ns: int | None,
    workers: Sequence[int] | None,
    batch: int,
    linger_ns: int | None,
    visibility_ns: int,
    lease_ns: int,
    crash_share: float,
    query_every_ns: int,
    from_version: int,
    attempts: int,
    seed: int,
) -> int:
    """Say how each number of writers does. The options of `lockref delta plan`, by their names.

    workers: None where nobody asks for queues that workers own.
    Errors: ConfigError for a queue or a run that cannot be read, for polls where the winner is drawn, for arrivals in a
    closed loop, and for a visibility timeout that no look into the log can keep.
    """
    if order == RANDOM_WINNER and poll_ns:
        raise ConfigError(f"--order {RANDOM_WINNER} draws the next holder; leave --poll out, or take closed-loop")
    is_closed_loop = order in CLOSED_LOOPS
    if is_closed_loop and every_ns:
        raise ConfigError(f"--order {order} has no queue in which versions arrive; leave --every out")
    if workers is not None and visibility_ns <= (get_ns or 0):
        raise ConfigError("--visibility must be longer than --get: a repeat would come again while it is looked up")
    queue = named_order("fair" if is_closed_loop else order, tables=tables, versions=versions)
    fleet = Fleet(
        writers=1,
        commit_ns=hold_times_ns(from_run) if from_run else (commit_ns,),
        get_ns=get_ns or 0,
        gap_ns=gap_ns or 0,
        think_ns=think_ns or 0,
        # A version of several items is there when its last one has arrived.
        every_ns=(every_ns or 0) * coalesce,
        is_think_random=is_closed_loop,
        protocol=Protocol(protocol),
        grants=_grants(order, poll_ns),
        poll_ns=poll_ns or 0,
        are_phases_random=bool(poll_ns),
        attempts=attempts or None,
        first_version=from_version,
        seed=seed,
    )
    asked = Asked(deadline_ns=deadline_ns, is_closed_loop=is_closed_loop, query_every_ns=query_every_ns)
    answer = plan(fleet, coalesced(queue, coalesce), writers, asked)
    console.say(as_text(answer))
    document = asdict(answer)
    if workers is not None:
        owners = QueueFleet(
            workers=1,
            commit_ns=fleet.commit_ns,
            think_ns=fleet.think_ns,
            every_ns=every_ns or 0,
            get_ns=fleet.get_ns,
            batch=batch,
            linger_ns=linger_ns or 0,
            visibility_ns=visibility_ns,
            lease_ns=lease_ns,
            crash_share=crash_share,
            first_version=from_version,
            seed=seed,
        )
        queues = plan_queues(owners, queue, workers, answer, asked)
        console.say("")
        console.say(queues_as_text(queues))
        document["queues"] = asdict(queues)
    if console.as_json:
        console.document(document)
    return 0


def _grants(order: str, poll_ns: int | None) -> Grants:
    """The way in which the next holder is chosen, for this order and this period of polls."""
    if order == RANDOM_WINNER:
        return Grants.RANDOM
    return Grants.POLLING if poll_ns else Grants.FIRST
