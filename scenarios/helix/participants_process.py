"""Many participants in one process, each with a session of its own: JSON lines in, JSON lines out.

Its argument is JSON: `zookeeper`, the address; `cluster`; `names`, of the instances; `session_s`. Each line of its
input is answered by one line:

    {"do": "join"}     {"live": N}: all have joined
    {"do": "tell"}     {"held": N, "lost": N, "alarms": [TEXT, ...]}: locks that may be used now; how often one was lost
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from lockref.coordination.session import COORDINATION
from lockref.coordination.zookeeper import ZooKeeperChannel
from lockref.helix.lock import ALL_HANDLED, LOCK_UNLOCK
from lockref.helix.participant.application import Listener, ParticipantSettings
from lockref.helix.participant.participant import Participant
from lockref.runtime import NS_PER_S, ThreadRuntime

JOINING_MAX: Final = 8
"""So many join at a time. A machine has few cores; with more at once each waits longer for its answers."""


SWITCH_S: Final = 0.1
"""A session has six threads. Each one that waits for the interpreter looks for it once in this time: with the usual
5 ms hundreds that get work at one instant, such as messages after a storm, do nothing but look.
"""


class _Losses(Listener):
    """Counts what should not happen to a process that lives."""

    def __init__(self) -> None:
        self.lost_count = 0
        self.alarms: list[str] = []

    def lost(self, lock: str, reason: str) -> None:
        self.lost_count += 1

    def alarm(self, text: str) -> None:
        self.alarms.append(text)


class _Participants:
    """All of one process."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        runtime = ThreadRuntime()
        self._losses = _Losses()
        self._members = [
            Participant(
                COORDINATION.over(ZooKeeperChannel(told["zookeeper"], client=name), told["session_s"] * NS_PER_S),
                cluster=told["cluster"],
                instance=name,
                runtime=runtime,
                handlers={LOCK_UNLOCK.name: ALL_HANDLED},
                settings=ParticipantSettings(session_timeout_ns=told["session_s"] * NS_PER_S),
                listener=self._losses,
            )
            for name in told["names"]
        ]

    def join(self) -> dict[str, Any]:
        with ThreadPoolExecutor(JOINING_MAX) as pool:
            list(pool.map(lambda member: member.join(), self._members))
        return {"live": len(self._members)}

    def tell(self) -> dict[str, Any]:
        held = sum(member.holds(lock) for member in self._members for lock in member.held)
        return {"held": held, "lost": self._losses.lost_count, "alarms": self._losses.alarms[:10]}


def main() -> None:
    """Live until killed, or until the input ends: then every session ends by itself."""
    sys.setswitchinterval(SWITCH_S)
    participants = _Participants(json.loads(sys.argv[1]))
    print('{"ready": true}', flush=True)
    answers = {"join": participants.join, "tell": participants.tell}
    for line in sys.stdin:
        print(json.dumps(answers[json.loads(line)["do"]]()), flush=True)
    # Threads of the clients would keep the process alive.
    os._exit(0)


if __name__ == "__main__":
    main()
