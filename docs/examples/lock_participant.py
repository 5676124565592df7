"""An instance of a cluster in a program of one's own. It works under the locks that a controller gives it.

    python lock_participant.py zookeeper://127.0.0.1:2181 my-locks localhost_12001

It prints which locks it gets and loses. Ctrl-C or SIGTERM makes it leave, so that others get its locks at once.
"""

import signal
import sys

from lockref.coordination.session import COORDINATION
from lockref.coordination.zookeeper import ZooKeeperChannel
from lockref.helix.lock import ALL_HANDLED, LOCK_UNLOCK
from lockref.helix.participant import Participant
from lockref.helix.participant.application import Listener, ParticipantSettings
from lockref.runtime import NS_PER_S, ThreadRuntime


class Printed(Listener):
    """The events of this instance. Each method is called by a thread of the participant, and must not block."""

    def granted(self, lock: str, token: int) -> None:
        print(f"granted {lock}, token {token}", flush=True)

    def revoked(self, lock: str) -> None:
        print(f"revoked {lock}", flush=True)

    def lost(self, lock: str, reason: str) -> None:
        print(f"lost {lock}: {reason}", flush=True)

    def alarm(self, text: str) -> None:
        print(f"alarm: {text}", flush=True)


def work(participant: Participant, lock: str, token: int) -> None:
    """One short step of protected work. Send the token along: the resource refuses a write with a smaller one."""


def main(address: str, cluster: str, instance: str) -> None:
    servers = address.removeprefix("zookeeper://")
    runtime = ThreadRuntime()
    session = COORDINATION.over(ZooKeeperChannel(servers, client=instance), 5 * NS_PER_S)
    participant = Participant(
        session,
        cluster=cluster,
        instance=instance,
        runtime=runtime,
        handlers={LOCK_UNLOCK.name: ALL_HANDLED},
        settings=ParticipantSettings(session_timeout_ns=10 * NS_PER_S),
        listener=Printed(),
    )
    # A flag and no event: a handler that sets an event may interrupt the very wait that holds the event's own lock.
    told_to_stop: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: told_to_stop.append(number))
    try:
        participant.join()
        print(f"joined {cluster} as {instance}", flush=True)
        while not told_to_stop:
            runtime.sleep(NS_PER_S // 10)
            for lock in participant.held:
                token = participant.token(lock)
                # Asked before each step: a session may end while this process is cut off or stopped.
                if token is not None and participant.holds(lock):
                    work(participant, lock, token)
        participant.leave()
        print("left", flush=True)
    finally:
        session.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
