"""Workloads: protected resources, and the clients that work on them under a lock."""

from __future__ import annotations

from collections.abc import Callable

from scenarios.workloads.commit_log import CommitLog
from scenarios.workloads.counter import Counter
from scenarios.workloads.register import FencedRegister
from scenarios.workloads.resource import Resource
from scenarios.workloads.unsafe_list import UnsafeList

DELTA_LOG = "delta_log"
"""The `workload.kind` whose protected writes are commits to a Delta table; see `scenarios.workloads.delta`."""

RESOURCES: dict[str, Callable[[], Resource]] = {
    "list": UnsafeList,
    "counter": Counter,
    "register": FencedRegister,
    "log": CommitLog,
}
"""By the name that a scenario gives as `workload.kind`; DELTA_LOG is no state machine of ours, but a store."""


def reads_first(kind: str) -> bool:
    """Does a client of this `workload.kind` read the resource and base its write on that?"""
    return kind != DELTA_LOG and RESOURCES[kind]().reads_first
