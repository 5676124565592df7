"""Many sessions on one ZooKeeper, and a storm of expiries: half of the processes are killed at one instant.

    python -m scenarios.helix.storm [--sessions 1000] [--locks 2000] [--processes 10] [--session-s 20]

Nobody leaves: the server ends 500 sessions by itself when they have been silent for the timeout. The controller, in a
process of its own, gives their locks to those that live. Exit code 0: every lock had a holder again, no lock ever had
two, and nobody who lived lost one; 1: otherwise; 2: no server.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from lockref.coordination.session import COORDINATION
from lockref.coordination.zookeeper import ZooKeeperChannel
from lockref.errors import BackendUnavailable
from lockref.helix.cluster.configured import creates
from lockref.helix.cluster.declared import Cluster, RebalanceMode, Resource
from lockref.helix.lock import LOCK_UNLOCK
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.temporary_folders import owned_folder
from lockref.words import Outcome
from scenarios.backends.asked_process import AskedProcess
from scenarios.backends.zookeeper import ZooKeeperServers, started_zookeeper
from scenarios.helix import controller_process, participants_process

CLUSTER: Final = "storm"
_TIMEOUT_S: Final = 540
_LOOK_S: Final = 0.1
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """sessions: one for each instance; they are spread over the processes. session_s: how long one may be silent."""

    sessions: int
    locks: int
    processes: int
    session_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """From a change until every lock has a holder and nothing is under way. passes: runs of the pipeline."""

    seconds: float
    live_s: float
    messages: int
    passes: int
    pass_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """The observations of a storm.

    lost: locks that a living participant lost. doubles: locks that ever had two holders.
    """

    joined_s: float
    start: Phase
    storm: Phase
    held: int
    lost: int
    doubles: int
    alarms: Sequence[str]
    server_mib: float
    participants_mib: float
    controller_mib: float

    def is_as_it_must_be(self, size: Size) -> bool:
        return self.held == size.locks and not self.lost and not self.doubles


class _Watch:
    """Asks the controller's process what it sees."""

    def __init__(self, controller: AskedProcess) -> None:
        self._controller = controller

    def look(self) -> Mapping[str, Any]:
        self._controller.ask(do="tell")
        return self._controller.answer(_TIMEOUT_S)

    def until(self, is_so: Callable[[Mapping[str, Any]], bool], what: str) -> Mapping[str, Any]:
        deadline_s = time.monotonic() + _TIMEOUT_S
        while not is_so(seen := self.look()):
            if time.monotonic() > deadline_s:
                raise BackendUnavailable(f"waited {_TIMEOUT_S} s for {what}; the controller sees {seen}")
            time.sleep(_LOOK_S)
        return seen

    def phase(self, size: Size, live: int, before: Mapping[str, Any], began_s: float) -> Phase:
        """Wait until so many are live and hold everything."""
        self.until(lambda seen: seen["live"] == live, f"{live} live instances")
        live_s = time.monotonic() - began_s
        after = self.until(
            lambda seen: (seen["live"], seen["held"], seen["is_settled"]) == (live, size.locks, True), "every lock"
        )
        return Phase(
            seconds=time.monotonic() - began_s,
            live_s=live_s,
            messages=after["sent"] - before["sent"],
            passes=after["passes"] - before["passes"],
            pass_s=(after["took_ms"] - before["took_ms"]) / 1000 / max(1, after["passes"] - before["passes"]),
        )


def run_storm(servers: ZooKeeperServers, size: Size, folder: Path, say: Callable[[str], None]) -> Storm:
    """folder: where the processes' error output goes. say: how far it is.

    Errors: BackendUnavailable where something does not come.
    """
    _configure(servers.hosts, size)
    told = {"zookeeper": servers.hosts, "cluster": CLUSTER, "session_s": size.session_s}
    with contextlib.ExitStack() as stack:
        groups = [stack.enter_context(_process(participants_process.__name__, {**told, "names": names}, folder, name))
                  for name, names in _names(size)]  # fmt: skip
        began_s = time.monotonic()
        _asked(groups, "join")
        joined_s = time.monotonic() - began_s
        say(f"{size.sessions} sessions are open")
        how = {**told, "name": "controller", "rebalancer": "", "is_descending": False}
        controller = stack.enter_context(_process(controller_process.__name__, how, folder, "controller"))
        watch = _Watch(controller)
        start = watch.phase(size, size.sessions, {"sent": 0, "passes": 0, "took_ms": 0}, time.monotonic())
        say("every lock is held")
        before = watch.look()
        participants_mib = sum(map(_memory_mib, groups))
        doomed, living = groups[: len(groups) // 2], groups[len(groups) // 2 :]
        lost_before = sum(each["lost"] for each in _asked(living, "tell"))
        began_s = time.monotonic()
        for group in doomed:
            group.kill()
        say(f"{len(doomed)} of {len(groups)} processes are killed")
        left = size.sessions - sum(len(names) for _, names in list(_names(size))[: len(doomed)])
        storm = watch.phase(size, left, before, began_s)
        answers = _asked(living, "tell")
        return Storm(
            joined_s=joined_s,
            start=start,
            storm=storm,
            held=sum(each["held"] for each in answers),
            lost=sum(each["lost"] for each in answers) - lost_before,
            doubles=watch.look()["doubles"],
            alarms=[text for each in answers for text in each["alarms"]],
            server_mib=sum(psutil.Process(pid).memory_info().rss for pid in servers.pids) / _MIB,
            participants_mib=participants_mib,
            controller_mib=_memory_mib(controller),
        )


def _configure(hosts: str, size: Size) -> None:
    """A cluster that every instance may join."""
    resource = Resource(
        name="locks", locks=size.locks, replicas=1, mode=RebalanceMode.USER_DEFINED, rebalancer="sticky",
        model=LOCK_UNLOCK,
    )  # fmt: skip
    cluster = Cluster(name=CLUSTER, resources=(resource,), instances=(), allows_joining=True)
    with contextlib.closing(COORDINATION.over(ZooKeeperChannel(hosts), 30 * NS_PER_S)) as session:
        session.start(ThreadRuntime(), timeout_ns=30 * NS_PER_S)
        reply = session.multi(creates(cluster))
        if reply.outcome is not Outcome.APPLIED:
            raise BackendUnavailable(f"the cluster was not written: {reply.reason}")


def _names(size: Size) -> Iterator[tuple[str, list[str]]]:
    """The processes, and the instances in each."""
    everybody = [f"instance_{number:04}" for number in range(size.sessions)]
    for number in range(size.processes):
        yield f"participants-{number + 1}", everybody[number :: size.processes]


def _process(module: str, told: Mapping[str, object], folder: Path, name: str) -> AskedProcess:
    return AskedProcess(module, [sys.executable, "-m", module], told, env={}, log_folder=folder, name=name)


def _asked(groups: Sequence[AskedProcess], what: str) -> list[dict[str, Any]]:
    """All at once, for each is busy with its answer for a while."""
    for group in groups:
        group.ask(do=what)
    return [group.answer(_TIMEOUT_S) for group in groups]


def _memory_mib(process: AskedProcess) -> float:
    return float(psutil.Process(process.pid).memory_info().rss) / _MIB


def _told(storm: Storm, size: Size) -> Iterator[str]:
    start, after = storm.start, storm.storm
    yield f"{size.sessions} sessions of {size.session_s} s in {size.processes} processes, {size.locks} locks"
    yield f"all have joined after {storm.joined_s:.1f} s"
    yield (
        f"start of the controller: every lock held after {start.seconds:.1f} s; {start.messages} messages, "
        f"{start.passes} runs of the pipeline of {start.pass_s:.2f} s each"
    )
    yield (
        f"half of the processes killed: their sessions over after {after.live_s:.1f} s, every lock held "
        f"{after.seconds - after.live_s:.1f} s later; {after.messages} messages, {after.passes} runs of the pipeline "
        f"of {after.pass_s:.2f} s each"
    )
    yield f"held {storm.held}, lost by the living {storm.lost}, locks with two holders {storm.doubles}"
    yield (
        f"memory: server {storm.server_mib:.0f} MiB, participants {storm.participants_mib:.0f} MiB, controller "
        f"{storm.controller_mib:.0f} MiB"
    )
    yield from (f"ALARM {text}" for text in storm.alarms)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m scenarios.helix.storm", description=__doc__)
    for name, default in (("sessions", 1000), ("locks", 2000), ("processes", 10), ("session-s", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    chosen = parser.parse_args()
    size = Size(
        sessions=chosen.sessions, locks=chosen.locks, processes=chosen.processes, session_s=chosen.session_s
    )  # fmt: skip
    try:
        with started_zookeeper() as servers, owned_folder("storm") as folder:
            storm = run_storm(servers, size, folder, lambda line: print(line, file=sys.stderr, flush=True))
    except BackendUnavailable as error:
        print(error, file=sys.stderr)
        return 2
    for line in _told(storm, size):
        print(line)
    return 0 if storm.is_as_it_must_be(size) else 1


if __name__ == "__main__":
    sys.exit(main())
