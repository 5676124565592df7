"""Our build of helix-lock plays the scripts that the original was recorded with, in virtual time."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from lockref.coordination.session import COORDINATION
from lockref.runtime import NS_PER_S
from sim.services.coordination import CoordinationService
from sim.world import World
from tests.evidence.helix.lock_player import Place, played
from tests.evidence.helix.lock_scripts import Script, Trace

RECORDED = Path(__file__).parents[1] / "data" / "helix_lock_traces.json.gz"
REQUEST_NS = 5 * NS_PER_S


def recorded() -> dict[str, Any]:
    """What the original did: `paths` of scopes, and `scripts` with the trace of each."""
    found: dict[str, Any] = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return found


def played_in_virtual_time(script: Script) -> Trace:
    """What came of a script on a modelled ZooKeeper, with a node for each lock object."""
    world = World(seed=1)
    world.add("zk", CoordinationService(), decode=lambda _key, _body: ())
    traces: list[Trace] = []

    def place(name: str) -> Place:
        node = world.node(name)
        return world.connect(node, "zk", COORDINATION, timeout_ns=REQUEST_NS), node.process.runtime

    places = [place(f"n{number}") for number, _ in enumerate(script["locks"], start=1)]
    operator = place("operator")

    def work() -> None:
        session, runtime = operator
        session.start(runtime, timeout_ns=60 * NS_PER_S)
        traces.append(played(script, "/scripts/LOCK/RESOURCE/one", operator=operator, places=places))
        session.close()

    world.node("operator").start(work)
    world.run(until_ns=1000 * NS_PER_S)
    assert traces, f"the script {script['name']} did not come to its end"
    return traces[0]
