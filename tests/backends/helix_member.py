"""One member of a cluster on a real ZooKeeper, an instance or a controller, as a process that a test may kill or stop.

Its argument is JSON: `zookeeper`, `cluster`, `name`, `kind`, `session_ms`, `folder`. An instance works while it
believes to hold: it appends `monotonic_ns lock token name` to `folder/acts`, one line an act. The instant is taken
before the belief is asked, and the monotonic clock is that of the machine, so acts of all processes have one order.
Whoever lives under a new session writes `id password` to `folder/NAME.session`, with which another client may end it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

from lockref.atomic_files import write_atomically
from lockref.coordination.session import COORDINATION, Session
from lockref.coordination.zookeeper import ZooKeeperChannel
from lockref.errors import LockrefError
from lockref.helix.controller.controller import Controller, ControllerSettings
from lockref.helix.lock import ALL_HANDLED, LOCK_UNLOCK
from lockref.helix.participant.application import ParticipantSettings
from lockref.helix.participant.participant import Participant
from lockref.runtime import NS_PER_MS, NS_PER_S, ThreadRuntime

ACT_PAUSE_S = 0.001
TELL_PAUSE_S = 0.05


class Member:
    def __init__(self, told: dict[str, str]) -> None:
        self.name, self.cluster = told["name"], told["cluster"]
        self.folder = Path(told["folder"])
        self.session_ns = int(told["session_ms"]) * NS_PER_MS
        self.runtime = ThreadRuntime()
        channel = ZooKeeperChannel(told["zookeeper"], client=self.name)
        self.session: Session = COORDINATION.over(channel, NS_PER_S)

    def lead(self) -> None:
        settings = ControllerSettings(session_timeout_ns=self.session_ns)
        controller = Controller(
            self.session, cluster=self.cluster, name=self.name, runtime=self.runtime, settings=settings
        )
        threading.Thread(target=self.tell_sessions, daemon=True).start()
        controller.run()

    def take_part(self) -> None:
        participant = Participant(
            self.session,
            cluster=self.cluster,
            instance=self.name,
            runtime=self.runtime,
            handlers={LOCK_UNLOCK.name: ALL_HANDLED},
            settings=ParticipantSettings(session_timeout_ns=self.session_ns),
        )
        threading.Thread(target=self.tell_sessions, daemon=True).start()
        while True:
            try:
                participant.join()
                break
            except LockrefError:
                self.session.end()
                time.sleep(0.1)
        acts = os.open(self.folder / "acts", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        while True:
            for lock in participant.held:
                at_ns, token = time.monotonic_ns(), participant.token(lock)
                if participant.holds(lock) and token is not None:
                    os.write(acts, f"{at_ns} {lock} {token} {self.name}\n".encode())
            time.sleep(ACT_PAUSE_S)

    def tell_sessions(self) -> None:
        known = 0
        while True:
            if self.session.id != known:
                known = self.session.id
                write_atomically(self.folder / f"{self.name}.session", f"{known} {self.session.password.hex()}")
            time.sleep(TELL_PAUSE_S)


if __name__ == "__main__":
    member = Member(json.loads(sys.argv[1]))
    if json.loads(sys.argv[1])["kind"] == "controller":
        member.lead()
    else:
        member.take_part()
