"""One or two clients that do what a test says, on a network with a fixed latency of 10 ms."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from lockref.history import to_table
from lockref.lab.contract import OneRecord
from lockref.runtime import NS_PER_MS
from lockref.stores.client import OBJECT_STORE
from lockref.stores.port import ObjectStore
from lockref.words import Kind
from sim.faults.plan import EMPTY_PLAN, FaultPlan
from sim.kernel.schedules import Schedule
from sim.machine.network import NetworkModel
from sim.machine.nodes import Node
from sim.world import World
from tests.sim.lease import decode

MS = NS_PER_MS
LATENCY_NS = 10 * MS
TIMEOUT_NS = 100 * MS
STEADY = NetworkModel(latency_ns=(LATENCY_NS, LATENCY_NS))
KEY = "lock.json"

Script = Callable[[Node, ObjectStore], None]


def body(owner: str, token: int = 1, *, is_released: bool = False) -> bytes:
    """A lock record of the plain lease's format."""
    return json.dumps({"owner": owner, "token": token, "until": 10**19 // 4, "released": is_released}).encode()


class Scene:
    """A world with one script per client, and what was written down."""

    def __init__(
        self,
        plan: FaultPlan = EMPTY_PLAN,
        *,
        dialect: str = "s3",
        network: NetworkModel = STEADY,
        schedule: Schedule | None = None,
        seed: int = 1,
    ) -> None:
        self.world = World(seed=seed, plan=plan, network=network, schedule=schedule)
        self.store = self.world.object_store(decode=OneRecord(decode), dialect=dialect)
        self.log: list[Any] = []

    def client(self, name: str, script: Script) -> Node:
        """Start a client; after a restart the script runs again, on the new process."""
        node = self.world.node(name)
        node.start(lambda: script(node, self.world.connect(node, "store", OBJECT_STORE, timeout_ns=TIMEOUT_NS)))
        return node

    def run(self, until_ms: int = 60_000, *, linger_ms: int = 0) -> Scene:
        self.world.run(until_ms * MS, linger_ns=linger_ms * MS)
        return self

    def note(self, *what: Any) -> None:
        """Write down something and when, in milliseconds."""
        self.log.append((*what, self.world.kernel.now_ns / MS))

    def rows(self, kind: Kind) -> list[dict[str, Any]]:
        """The recorded events of one kind."""
        table = to_table([self.world.recorder]).to_pylist()
        return [row for row in table if row["kind"] == kind.name.lower()]

    def counts(self, fault_id: str = "f") -> tuple[int, int, int]:
        """(armed, fired, mattered)."""
        return self.world.fault_counts[fault_id]
