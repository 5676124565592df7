"""Hypothesis drives clusters of real processes on a real ZooKeeper: joins, deaths, pauses, failovers, an operator.

`tests/properties/test_clusters.py` is the same in virtual time, with many more schedules. Here few are drawn: each step
waits for real. What is asserted is what a resource without a fence would see: of the acts of all processes, in the
order in which they believed to hold, no act under an older grant follows one under a newer grant.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kazoo.client import KazooClient

from lockref.helix.cluster.configured import configured
from lockref.helix.cluster.declared import Cluster, Instance, RebalanceMode, Resource
from lockref.helix.lock import LOCK_UNLOCK
from lockref.helix.records import layout
from lockref.helix.records.zn_record import ZNRecord
from scenarios.backends.zookeeper import ZooKeeperServers
from tests.backends.kazoo_client import kazoo_on
from tests.evidence.helix.tree import Tree

INSTANCES = ("n1", "n2", "n3")
CONTROLLERS = ("c1", "c2")
LOCKS = 6
SESSION_MS = 1_500
CALM_S = 60
RECENT_NS = 300_000_000
ROOT = Path(__file__).parents[2]
_numbers = itertools.count()

pytestmark = [pytest.mark.realbackend, pytest.mark.java, pytest.mark.xdist_group("zookeeper")]

_instances, _controllers = st.sampled_from(INSTANCES), st.sampled_from(CONTROLLERS)
_everybody = st.sampled_from((*INSTANCES, *CONTROLLERS))
STEPS = st.lists(
    st.tuples(
        st.sampled_from((0.0, 0.3, 1.5)),
        st.one_of(
            st.tuples(st.just("start"), _everybody),
            st.tuples(st.just("kill"), _everybody),
            st.tuples(st.just("die"), _everybody),
            st.tuples(st.just("expire"), _controllers),
            st.tuples(st.just("stop"), _everybody, st.sampled_from((0.3, 1.2, 4.0))),
            st.tuples(st.just("disable"), _instances),
            st.tuples(st.just("enable"), _instances),
        ),
    ),
    min_size=2,
    max_size=6,
)
"""Seconds after a step, and the step. `kill` leaves the session to its timeout; `die` ends it at once, too.

`expire` ends the session of a process that lives, which cannot know it: a holder would be deceived, and only a fence
would help. So it strikes controllers.
"""


@dataclass(slots=True)
class Driven:
    """A cluster of processes with its own name, and an operator."""

    hosts: str
    operator: KazooClient
    folder: Path
    cluster: str
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    timers: list[threading.Timer] = field(default_factory=list)

    def configure(self) -> None:
        resource = Resource(
            name="g", locks=LOCKS, replicas=1, mode=RebalanceMode.USER_DEFINED, rebalancer="mod", model=LOCK_UNLOCK
        )
        instances = tuple(Instance(name=name, host="localhost", port=1) for name in INSTANCES)
        whole = Cluster(name=self.cluster, resources=(resource,), instances=instances)
        for path, record in configured(whole).items():
            self.operator.create(path, b"" if record is None else record.to_json())

    # What happens.

    def start(self, name: str) -> None:
        if name in self.processes:
            return
        told = {
            "zookeeper": self.hosts, "cluster": self.cluster, "name": name, "folder": str(self.folder),
            "session_ms": str(SESSION_MS), "kind": "controller" if name in CONTROLLERS else "instance",
        }  # fmt: skip
        command = [sys.executable, "-m", "tests.backends.helix_member", json.dumps(told)]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

    def kill(self, name: str) -> None:
        process = self.processes.pop(name, None)
        if process is not None:
            process.kill()
            process.wait()

    def die(self, name: str) -> None:
        self.kill(name)
        self.expire(name)

    def expire(self, name: str) -> None:
        """By another client with its identity, which then ends the session."""
        file = self.folder / f"{name}.session"
        if file.exists():
            session, _, password = file.read_text().partition(" ")
            client = KazooClient(hosts=self.hosts, client_id=(int(session), bytes.fromhex(password)), timeout=2)
            with contextlib.suppress(client.handler.timeout_exception):  # It was over already.
                client.start(timeout=2)
            client.stop()
            client.close()

    def stop(self, name: str, for_s: float) -> None:
        process = self.processes.get(name)
        if process is not None:
            process.send_signal(signal.SIGSTOP)
            timer = threading.Timer(for_s, process.send_signal, [signal.SIGCONT])
            self.timers.append(timer)
            timer.start()

    def disable(self, name: str) -> None:
        self._configure(name, "false")

    def enable(self, name: str) -> None:
        self._configure(name, "true")

    def _configure(self, name: str, is_enabled: str) -> None:
        path = layout.InstancePaths(self.cluster, name).config
        record = ZNRecord.from_json(self.operator.get(path)[0], path)
        simple = {**record.simple, "HELIX_ENABLED": is_enabled}
        self.operator.set(path, ZNRecord(record.id, simple, record.maps, record.lists).to_json())

    # The end.

    def calm_down(self) -> None:
        """Everybody is back and enabled; every lock gets its holder, two for each, and works on."""
        for timer in self.timers:
            timer.join()
        for name in (*INSTANCES, *CONTROLLERS):
            if name in self.processes and self.processes[name].poll() is not None:
                raise AssertionError((self.folder / f"{name}.log").read_text())
            self.start(name)
        for name in INSTANCES:
            self.enable(name)
        wanted = {f"g_{number}": (INSTANCES[number % 3],) for number in range(LOCKS)}
        tree = Tree(self.operator, self.cluster)
        working = {(lock, name) for lock, (name,) in wanted.items()}

        def is_settled() -> bool:
            acts = self.acts(time.monotonic_ns() - RECENT_NS)
            return tree.seen().holders("LOCKED") == wanted and {each[1:] for each in acts} == working

        self.until(is_settled, lambda: f"{tree.seen()}; acts: {sorted({each[1:] for each in self.acts(0)})}")

    def until(self, is_so: Callable[[], bool], said: Callable[[], str]) -> None:
        deadline_s = time.monotonic() + CALM_S
        while not is_so():
            assert time.monotonic() < deadline_s, said()
            time.sleep(0.05)

    def acts(self, since_ns: int) -> list[tuple[int, str, str]]:
        """Token, lock and name of each act, in the order in which they happened."""
        path = self.folder / "acts"
        # The last line may be half written.
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        acts = sorted((int(at), lock, int(token), name) for at, lock, token, name in map(str.split, lines))
        return [(token, lock, name) for at, lock, token, name in acts if at >= since_ns]

    def check(self) -> None:
        newest: dict[str, tuple[int, str]] = {}
        acts = self.acts(0)
        assert {lock for _, lock, _ in acts} == {f"g_{number}" for number in range(LOCKS)}
        for token, lock, name in acts:
            most, whose = newest.get(lock, (0, name))
            assert token >= most, f"{lock}: {name} acts under {token}, after {whose} has acted under {most}"
            assert token > most or name == whose, f"{lock}: {name} and {whose} act under one grant"
            newest[lock] = token, name

    def end(self) -> None:
        for timer in self.timers:
            timer.cancel()
        for name in list(self.processes):
            self.kill(name)


@contextlib.contextmanager
def driven(servers: ZooKeeperServers) -> Iterator[Driven]:
    with kazoo_on(servers.hosts, timeout_s=20) as operator, TemporaryDirectory() as folder:
        found = Driven(servers.hosts, operator, Path(folder), f"driven-{os.getpid()}-{next(_numbers)}")
        found.configure()
        try:
            yield found
        finally:
            found.end()


def play(servers: ZooKeeperServers, steps: list[tuple[float, tuple[Any, ...]]]) -> None:
    with driven(servers) as cluster:
        for name in ("c1", "n1", "n2"):
            cluster.start(name)
        cluster.until(lambda: len({name for *_, name in cluster.acts(0)}) == 2, lambda: "both instances to work")
        for pause_s, (action, *how) in steps:
            getattr(cluster, action)(*how)
            time.sleep(pause_s)
        cluster.calm_down()
        cluster.check()


def test_a_frozen_holder_beside_a_dying_leader(zookeeper: ZooKeeperServers):
    """Z9, Z11, T5, T17: one schedule that has everything; a third instance joins, and nearly all locks move."""
    play(
        zookeeper,
        [(0.0, ("start", "c2")), (0.0, ("stop", "n1", 5.0)), (0.3, ("start", "n3")), (0.0, ("die", "c1"))],
    )


@pytest.mark.long
@settings(
    max_examples=6,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
def test_no_lock_ever_has_two_holders_on_a_real_server(
    zookeeper: ZooKeeperServers, steps: list[tuple[float, tuple[Any, ...]]]
):
    """T5, T12, T13, T17 to T21, T24: whatever Hypothesis draws."""
    play(zookeeper, steps)
