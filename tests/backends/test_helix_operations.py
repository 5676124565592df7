"""A controller that stays, and an operator's commands, on a real ZooKeeper: docs/how-to/operate-a-cluster.md."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from lockref.cli.main import run as lockref
from lockref.helix.cluster.cluster_file import load_cluster
from lockref.helix.records import layout
from lockref.helix.records.zn_record import ZNRecord
from scenarios.backends.zookeeper import ZooKeeperServers
from tests.docs import ROOT
from tests.docs.sessions import Part, parts

PAGE = ROOT / "docs" / "how-to" / "operate-a-cluster.md"
RECIPE = ROOT / "docs" / "examples" / "lock-manager.yaml"
CLUSTER = load_cluster(RECIPE).name
PATHS = layout.ClusterPaths(CLUSTER)
SHOWN = "127.0.0.1:2181"
SAID_S = 60
_numbers = itertools.count()

pytestmark = [pytest.mark.realbackend, pytest.mark.java, pytest.mark.xdist_group("zookeeper")]


class Program:
    """A process whose lines are read while it runs."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT)
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def until(self, words: str) -> list[str]:
        """The lines up to the first one that has these words."""
        seen: list[str] = []
        while not seen or words not in seen[-1]:
            try:
                seen.append(self._lines.get(timeout=SAID_S))
            except queue.Empty:
                raise AssertionError(f"not said: {words}\n{''.join(seen)}{self._log.read_text()}") from None
            assert seen[-1], f"ended before it said {words}\n{''.join(seen)}{self._log.read_text()}"
        return seen

    def rest(self) -> list[str]:
        """The lines up to the end."""
        seen = []
        while line := self._lines.get(timeout=SAID_S):
            seen.append(line)
        return seen

    def stop(self, number: int = signal.SIGTERM) -> int:
        """The exit code after a signal."""
        self.process.send_signal(number)
        return self.process.wait(SAID_S)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Place:
    """A folder of its own on the server, with an operator who reads znodes by himself."""

    def __init__(self, hosts: str, operator: KazooClient, scratch: Path) -> None:
        self.folder = f"/operated-{os.getpid()}-{next(_numbers)}"
        operator.create(self.folder)
        self.hosts = f"{hosts}{self.folder}"
        self.address = f"zookeeper://{self.hosts}"
        self._operator = operator
        self._scratch = scratch
        self._programs: list[Program] = []

    def start(self, *command: str) -> Program:
        program = Program(list(command), self._scratch / f"{len(self._programs)}.log")
        self._programs.append(program)
        return program

    def controller(self, *arguments: str) -> Program:
        return self.start(sys.executable, "-m", "lockref", "cluster", "controller", *arguments)

    def participant(self, program: Path, instance: str) -> Program:
        return self.start(sys.executable, str(program), self.address, CLUSTER, instance)

    def exists(self, path: str) -> bool:
        return self._operator.exists(f"{self.folder}{path}") is not None

    def put(self, path: str, body: bytes, *, is_ephemeral: bool = False) -> None:
        whole = f"{self.folder}{path}"
        if self._operator.exists(whole):
            self._operator.set(whole, body)
        else:
            self._operator.create(whole, body, ephemeral=is_ephemeral, makepath=True)

    def gone(self, path: str) -> threading.Event:
        """An event for when the znode is no more."""
        event = threading.Event()
        if not self._operator.exists(f"{self.folder}{path}", watch=lambda _event: event.set()):
            event.set()
        return event

    def close(self) -> None:
        for program in self._programs:
            program.kill()


@pytest.fixture
def place(zookeeper: ZooKeeperServers, operator: KazooClient, tmp_path: Path) -> Iterator[Place]:
    with contextlib.closing(Place(zookeeper.hosts, operator, tmp_path)) as found:
        yield found


def commands(part: Part) -> list[list[str]]:
    """The arguments of each `lockref` line of a block."""
    return [line.split()[1:] for line in part.text.splitlines() if line.startswith("lockref ")]


def status(place: Place, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    capsys.readouterr()
    assert lockref(["cluster", "status", place.address, "--json", *more]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_page_is_what_happens(place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every block of the page: its program joins and leaves, its controllers lead and take over, its commands exit 0.

    The controller that leads is killed; then the one that stands by leads, and SIGTERM leaves nothing of it behind.
    """
    program = tmp_path / "lock_participant.py"
    controllers: list[Program] = []
    joined: Program | None = None
    for part in parts(PAGE):
        if part.name == program.name:
            assert part.text == (ROOT / "docs" / "examples" / part.name).read_text(encoding="utf-8")
            program.write_text(part.text, encoding="utf-8")
            joined = place.participant(program, "localhost_12001")
            joined.until(f"joined {CLUSTER} as localhost_12001")
            joined.until("granted lock-group_0")
            continue
        for arguments in commands(part):
            arguments = [word.replace(SHOWN, place.hosts) for word in arguments]
            if arguments[1] == "controller":
                controllers.append(place.controller(*arguments[2:], "--session-timeout", "2s"))
                controllers[-1].until("c1: leads" if len(controllers) == 1 else "c2 stands by: c1 leads")
                continue
            code = lockref(arguments)
            assert code == 0, f"{arguments}: {capsys.readouterr().err}"
    assert joined is not None
    controllers[0].kill()
    controllers[1].until("c2: leads")
    assert status(place, capsys)["controller"]["name"] == "c2"
    assert joined.stop() == 0
    assert joined.rest()[-1] == "left\n"
    controllers[1].until("localhost_12001 gone")
    assert controllers[1].stop(signal.SIGTERM) == 0
    assert "stopped" in controllers[1].rest()[-1]
    assert not place.exists(PATHS.leader)
    assert status(place, capsys)["controller"] is None
    assert lockref(["cluster", "drop", place.address, "--whole-cluster", "--cluster", CLUSTER]) == 0
    assert not place.exists(PATHS.root)


def test_a_zombie_is_named_by_the_log_and_the_status(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Its session lives, and nobody reads its messages; the log is JSON, one object a line."""
    controller = place.controller(str(RECIPE), "--zookeeper", place.hosts, "--zombie-after", "1s", "--json")
    controller.until('"event": "leads"')
    place.put(PATHS.instance("localhost_12001").live, ZNRecord("localhost_12001").to_json(), is_ephemeral=True)
    alarm = json.loads(controller.until('"alarm": "zombie"')[-1])
    assert "localhost_12001 lives and has answered no message for 1 s: RELEASED-LOCKED of lock-group_0" in alarm["text"]
    found = {each["name"]: each for each in status(place, capsys, "--zombie-after", "500ms")["instances"]}
    assert found["localhost_12001"]["is_zombie"]
    assert "lock-group_0" in [each["lock"] for each in found["localhost_12001"]["messages"]]
    assert not found["localhost_12002"]["is_live"]
    assert controller.stop(signal.SIGINT) == 0


def test_what_helix_orders_about_an_instance_is_heeded(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """EVACUATE, as Helix 1.4.3 writes it: the instance gives its locks back, and gets them again afterwards."""
    controller = place.controller(str(RECIPE), "--zookeeper", place.hosts)
    controller.until("leads")
    joined = place.participant(ROOT / "docs" / "examples" / "lock_participant.py", "localhost_12001")
    joined.until("granted lock-group_0")
    path, config = PATHS.instance("localhost_12001").config, {layout.HOST: "localhost", layout.PORT: "12001"}
    order = json.dumps({"OPERATION": "EVACUATE", "REASON": "repair", "SOURCE": "USER", "TIMESTAMP": "1"})
    place.put(path, ZNRecord("localhost_12001", config, lists={"HELIX_INSTANCE_OPERATIONS": [order]}).to_json())
    joined.until("revoked lock-group_0")
    found = {each["name"]: each for each in status(place, capsys)["instances"]}
    assert found["localhost_12001"]["operation"] == "EVACUATE"
    place.put(path, ZNRecord("localhost_12001", config).to_json())
    joined.until("granted lock-group_0")
    assert joined.stop() == 0
    assert controller.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["status", "zookeeper://127.0.0.1:1"], 5, "no server of 127.0.0.1:1 answered"),
        (["status", "127.0.0.1:2181"], 2, "for a server write zookeeper://127.0.0.1:2181"),
        (["status", "s3://bucket"], 5, "has no sessions"),
        (["status", "PLACE", "--cluster", "x y"], 2, "there is no cluster 'x y'"),
        (["status", str(RECIPE)], 2, "name the servers: --zookeeper HOST:PORT"),
        (["status", "PLACE", "--zookeeper", "127.0.0.1:1"], 2, "both name servers"),
        (["status", "PLACE/nowhere"], 2, "has no folder"),
        (["status", "PLACE", "--cluster", "lock-manager-custom-rebalance"], 2, f"Did you mean '{CLUSTER}'?"),
        (["controller", "PLACE", "--cluster", "x"], 2, "there is no cluster 'x'"),
        (["controller", "PLACE", "--rebalancer", "stiky"], 2, "Did you mean 'sticky'?"),
        (["disable", "PLACE"], 2, "say what:"),
        (["disable", "PLACE", "--instance", "localhost_1200"], 2, "there is no instance 'localhost_1200'"),
        (["disable", "PLACE", "--resource", "lock-groups"], 2, "Did you mean 'lock-group'?"),
        (["add-instance", "PLACE", "localhost_12001", "--port", "1"], 2, "HELIX_PORT: the command says 1"),
        (["add-resource", "PLACE", "x", "--locks", "2", "--model", "nosuch"], 2, "no state model 'nosuch'"),
        (["drop", "PLACE", "--whole-cluster"], 2, "name the cluster with --cluster"),
    ],
)
def test_bad_input(
    arguments: list[str], code: int, words: str, configured: Place, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """What it says, and how it ends. Nothing is written."""
    monkeypatch.setattr("lockref.helix.operations.operator.REQUEST_TIMEOUT_NS", 300_000_000)
    assert lockref(["cluster", *(word.replace("PLACE", configured.address) for word in arguments)]) == code
    assert words in capsys.readouterr().err


@pytest.fixture
def configured(place: Place) -> Place:
    """A place with the recipe's cluster, in which nobody lives."""
    from lockref.helix.operations.adding import apply_cluster
    from lockref.helix.operations.operator import operator_on
    from lockref.runtime import ThreadRuntime

    with operator_on(place.hosts, ThreadRuntime()) as operator:
        apply_cluster(operator, load_cluster(RECIPE))
    return place
