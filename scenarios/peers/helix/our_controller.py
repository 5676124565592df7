"""Our controller in a process of its own, as Helix' is: JSON lines in, JSON lines out.

Its argument is JSON: `zookeeper`, the address; `cluster`; `name`; `rebalancer`, "" for the cluster's; `session_s`. Each
line of its input is answered by one line:

    {"do": "passes"}     {"passes": N, "took_ms": M}: of the pipeline so far, and how long they took together
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Mapping
from typing import Any

from lockref.coordination.session import COORDINATION
from lockref.coordination.zookeeper import ZooKeeperChannel
from lockref.errors import LockError
from lockref.helix.controller import Controller, ControllerSettings, Pass
from lockref.runtime import NS_PER_MS, NS_PER_S, ThreadRuntime


class _Passes:
    """Counts what the controller tells of."""

    def __init__(self) -> None:
        self.count = 0
        self.took_ns = 0

    def add(self, done: Pass) -> None:
        self.count += 1
        self.took_ns += done.took_ns


def made(told: Mapping[str, Any], passes: _Passes) -> Controller:
    """The controller that the argument describes; not yet running."""
    channel = ZooKeeperChannel(told["zookeeper"], client=told["name"], service="zookeeper")
    settings = ControllerSettings(
        session_timeout_ns=told["session_s"] * NS_PER_S, is_descending=True, rebalancer=told["rebalancer"]
    )
    return Controller(
        COORDINATION.over(channel, told["session_s"] * NS_PER_S),
        cluster=told["cluster"],
        name=told["name"],
        runtime=ThreadRuntime(),
        settings=settings,
        on_pass=passes.add,
        on_alarm=lambda alarm: print(*alarm, file=sys.stderr, flush=True),
    )


def main() -> None:
    """Control until the input ends."""
    passes = _Passes()
    controller = made(json.loads(sys.argv[1]), passes)

    def control() -> None:
        try:
            controller.run()
        except LockError as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(1)

    threading.Thread(target=control, name="controller", daemon=True).start()
    print('{"ready": true}', flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        assert asked == {"do": "passes"}, asked
        print(json.dumps({"passes": passes.count, "took_ms": passes.took_ns / NS_PER_MS}), flush=True)
    controller.stop()


if __name__ == "__main__":
    main()
