"""A controller in a process of its own: JSON lines in, JSON lines out.

Its argument is JSON: `zookeeper`, the address; `cluster`; `name`; `rebalancer`, "" for the cluster's; `session_s`;
`is_descending`. Each line of its input is answered by one line:

    {"do": "tell"}     {"passes": N, "took_ms": M, "sent": N, "live": N, "held": N, "is_settled": BOOL, "doubles": N}

That is: runs of the pipeline so far, how long they took together, and the messages that they sent. Then what the last
one saw: live instances, locks with a holder, and whether nothing is under way or to be sent. Last: how many locks any
run has ever seen with two holders.
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
from lockref.errors import LockrefError
from lockref.helix.controller.controller import Controller, ControllerSettings, Pass
from lockref.runtime import NS_PER_MS, NS_PER_S, ThreadRuntime


class _Passes:
    """Counts what the controller tells of."""

    def __init__(self) -> None:
        self._count = 0
        self._took_ns = 0
        self._sent = 0
        self._doubles: set[str] = set()
        self._seen: dict[str, Any] = {"live": 0, "held": 0, "is_settled": False}

    def add(self, done: Pass) -> None:
        self._count += 1
        self._took_ns += done.took_ns
        self._sent += done.sent
        held = 0
        for group in done.snapshot.groups:
            top = group.model.top
            for lock in group.locks:
                holders = sum(replica.state == top for replica in done.snapshot.of(lock).values())
                held += holders > 0
                if holders > 1:
                    self._doubles.add(lock)
        is_settled = not (done.snapshot.pending or done.decision.messages or done.decision.removals)
        self._seen = {"live": len(done.snapshot.live), "held": held, "is_settled": is_settled}

    def told(self) -> dict[str, Any]:
        """The answer to a question."""
        counts = {"passes": self._count, "took_ms": self._took_ns / NS_PER_MS, "sent": self._sent}
        return {**counts, **self._seen, "doubles": len(self._doubles)}


def made(told: Mapping[str, Any], passes: _Passes) -> Controller:
    """The controller that the argument describes; not yet running."""
    channel = ZooKeeperChannel(told["zookeeper"], client=told["name"], service="zookeeper")
    settings = ControllerSettings(
        session_timeout_ns=told["session_s"] * NS_PER_S,
        is_descending=told["is_descending"],
        rebalancer=told["rebalancer"],
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
        except LockrefError as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(1)

    threading.Thread(target=control, name="controller", daemon=True).start()
    print('{"ready": true}', flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        assert asked == {"do": "tell"}, asked
        print(json.dumps(passes.told()), flush=True)
    controller.stop()


if __name__ == "__main__":
    main()
