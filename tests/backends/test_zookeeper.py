"""A real ZooKeeper: what sessions, watches and transactions do there, as the modelled one does; and what survives."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from kazoo.client import KazooClient

from lockref.cli.main import run as lockref
from lockref.clouds.uri import parse_store_uri
from lockref.coordination.place import folder_in
from lockref.coordination.port import SessionState, Stat
from lockref.coordination.session import COORDINATION, Session
from lockref.coordination.zookeeper import ZooKeeperChannel
from lockref.errors import BackendUnavailable, ConfigError
from lockref.lab.loading import load_provider
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.words import Outcome
from reports.checks import decide, judge
from reports.checks.summary import Summary
from scenarios.backends import resolve_backend
from scenarios.backends.zookeeper import ZooKeeperServers, started_zookeeper, unavailable
from scenarios.definition.load import load_scenario, parse_scenario
from scenarios.run import run_real
from tests.coordination_scripts import SCRIPTS, STEPS, Scene, Script, random_script
from tests.sim.test_coordination_service import scene_of
from tests.unit.lockref.helix.pipeline_driver import loads
from tests.unit.lockref.helix.test_pipeline import AFTER_BY_RULE, AFTER_IN_README, README, A, named

RECIPE = Path(__file__).parents[2] / "docs" / "examples" / "lock-manager.yaml"
TIMEOUT_NS = 4 * NS_PER_S
_numbers = itertools.count()

pytestmark = [pytest.mark.realbackend, pytest.mark.java, pytest.mark.xdist_group("zookeeper")]


@pytest.fixture
def ensemble() -> Iterator[ZooKeeperServers]:
    if reason := unavailable():
        pytest.skip(reason)
    with started_zookeeper(servers=3) as running:
        yield running


@contextlib.contextmanager
def session_on(hosts: str, client: str = "n1") -> Iterator[Session]:
    with contextlib.closing(COORDINATION.over(ZooKeeperChannel(hosts, client=client), 10 * NS_PER_S)) as session:
        session.start(ThreadRuntime(), timeout_ns=TIMEOUT_NS)
        yield session


def end_for_true(hosts: str, session: Session) -> None:
    """End a session at the server, as its timeout would: by another client with its identity."""
    client = KazooClient(hosts=hosts, client_id=(session.id, session.password), timeout=4)
    client.start(timeout=10)
    client.stop()
    client.close()


def played(servers: ZooKeeperServers, script: Script) -> list[Any]:
    with session_on(servers.hosts) as one, session_on(servers.hosts, "n2") as two:
        root = f"/scene-{next(_numbers)}"
        one.create(root)
        two.sync(root)
        return script(Scene(one, two, lambda session: end_for_true(servers.hosts, session), root))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_the_modelled_service_answers_as_the_real_one(zookeeper: ZooKeeperServers, script: Script):
    """Same answers, reasons, versions, bodies and events."""
    assert played(zookeeper, script) == scene_of(script)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_random_transactions_end_alike(zookeeper: ZooKeeperServers, steps: Any):
    """Whatever operations are put together, both services hold the same afterwards."""
    script = random_script(steps)
    assert played(zookeeper, script) == scene_of(script)


def test_the_server_chooses_the_session_timeout(zookeeper: ZooKeeperServers):
    """A wish below its bounds is raised to them, and the client knows."""
    with contextlib.closing(COORDINATION.over(ZooKeeperChannel(zookeeper.hosts), 20 * NS_PER_S)) as session:
        session.start(ThreadRuntime(), timeout_ns=1)
        assert session.timeout_ns == NS_PER_S


def test_nobody_answers_there():
    """A typed error that names the address."""
    with contextlib.closing(COORDINATION.over(ZooKeeperChannel("127.0.0.1:1"), NS_PER_S // 4)) as session:  # noqa: SIM117
        with pytest.raises(BackendUnavailable, match=r"no server of 127\.0\.0\.1:1 answered"):
            session.start(ThreadRuntime(), timeout_ns=NS_PER_S)


def test_a_stopped_server_leaves_nothing():
    """T26: its process and its folder are gone, also when what was done in between failed."""
    if reason := unavailable():
        pytest.skip(reason)
    pids: list[int] = []

    folders: list[Path] = []

    def fail(running: ZooKeeperServers) -> None:
        pids.extend(running.pids)
        folders.append(running.folder)
        assert running.folder.is_dir()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), started_zookeeper() as running:
        fail(running)
    (pid,), (folder,) = pids, folders
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_killed_leader_costs_neither_session_nor_order(ensemble: ZooKeeperServers):
    """T24: the next write lands, the session and its znode survive, and transaction numbers go on rising."""
    with session_on(ensemble.hosts) as session:
        session.create("/e", is_ephemeral=True)
        before = session.create("/before").version
        leader = ensemble.leader()
        assert leader is not None
        ensemble.kill(leader)
        while (after := session.create("/after")).outcome is not Outcome.APPLIED:
            assert session.state is not SessionState.LOST
            if after.reason.startswith("NodeExists"):
                after = session.exists("/after")
                break
        assert isinstance(before, Stat)
        assert isinstance(after.version, Stat)
        assert after.version.created_zxid > before.created_zxid
        found = session.exists("/e").version
        assert isinstance(found, Stat)
        assert found.owner == session.id


@pytest.mark.long
def test_a_frozen_leader_is_replaced(ensemble: ZooKeeperServers):
    """T24: the others go on without it, and it does no harm after its pause; a killed server comes back."""
    leader = ensemble.leader()
    assert leader is not None
    with session_on(ensemble.hosts) as session:
        ensemble.freeze(leader)
        while (made := session.create("/on")).outcome is Outcome.AMBIGUOUS or session.state is SessionState.LOST:
            if session.state is SessionState.LOST:
                session.start(ThreadRuntime(), timeout_ns=TIMEOUT_NS)
        assert made.outcome is Outcome.APPLIED or made.reason.startswith("NodeExists")
        ensemble.thaw(leader)
        ensemble.kill(leader)
        ensemble.restart(leader)
        assert not session.exists("/on").missing


def test_a_server_says_that_a_session_is_over(zookeeper: ZooKeeperServers):
    """The answer to its end: a lock that is told so may say that it has left."""
    with session_on(zookeeper.hosts) as session:
        reply = session.end()
    assert reply is not None
    assert reply.outcome is Outcome.APPLIED


@pytest.mark.long
@pytest.mark.parametrize("is_frozen", [True, False])
def test_nobody_says_so_without_a_server(is_frozen: bool):
    """kazoo ends its client all the same. Until its timeout the server may still count the session as alive."""
    if reason := unavailable():
        pytest.skip(reason)
    with started_zookeeper() as server, session_on(server.hosts) as session:
        (server.freeze if is_frozen else server.kill)(1)
        reply = session.end()
    assert reply is not None
    assert reply.outcome is Outcome.AMBIGUOUS


def test_a_server_that_ends_says_why(monkeypatch: pytest.MonkeyPatch):
    """The last lines of its log are in the message; without Java or the jars the reason says so."""
    if reason := unavailable():
        pytest.skip(reason)
    monkeypatch.setattr("scenarios.backends.zookeeper._configuration", lambda _member, _quorum: "clientPort=none\n")
    words = r'(?s)ended while starting; its last lines:.*For input string: "none"'
    with pytest.raises(BackendUnavailable, match=words), started_zookeeper():
        pass
    monkeypatch.setenv("LOCKREF_JAVA", "none")
    assert "LOCKREF_JAVA=none" in unavailable()


def run(capsys: pytest.CaptureFixture[str], servers: ZooKeeperServers, *options: str) -> list[dict[str, Any]]:
    """The phases of `lockref cluster run` in a folder of its own on the server."""
    folder = f"/run-{next(_numbers)}"
    with session_on(servers.hosts) as session:
        session.create(folder)
    assert lockref(["cluster", "run", str(RECIPE), "--zookeeper", f"{servers.hosts}{folder}", "--json", *options]) == 0
    phases: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["phases"]
    return phases


def test_the_recipe_on_a_real_server(zookeeper: ZooKeeperServers, capsys: pytest.CaptureFixture[str]):
    """T2, T4, T27: the README's first table, the rule's second, and as many messages as real Helix sends."""
    start, leave, back = run(capsys, zookeeper, "--live-order", "descending")
    assert start["holders"] == back["holders"] == named(README)
    assert leave["holders"] == named(AFTER_BY_RULE)
    assert [phase["messages"] for phase in (start, leave, back)] == [12, 12, 16]
    assert [(phase["moved"], phase["unnecessary"]) for phase in (leave, back)] == [(8, 4), (8, 8)]


def test_what_the_readme_printed(zookeeper: ZooKeeperServers, capsys: pytest.CaptureFixture[str]):
    """T3, Z2: the first version moved the four orphans, and gave the instance that came back nothing."""
    _, leave, back = run(capsys, zookeeper, "--live-order", "descending", "--semantics", "first")
    assert leave["holders"] == back["holders"] == named(AFTER_IN_README)
    assert (leave["moved"], back["messages"]) == (4, 0)


def test_sticky_moves_what_must_move(zookeeper: ZooKeeperServers, capsys: pytest.CaptureFixture[str]):
    """Nobody alive is an empty table; the first who comes gets everything (T8); a fourth instance gets its share."""
    phases = run(
        capsys, zookeeper, "--rebalancer", "sticky", "--then", "leave", "--then", "none", "--then", "return",
        "--then", "fourth",
    )  # fmt: skip
    _, leave, nobody, first, fourth = phases
    assert (leave["moved"], leave["unnecessary"]) == (4, 0)
    assert set(nobody["holders"].values()) == {None}
    assert set(first["holders"].values()) == {A}
    assert loads(fourth["holders"]) == [6, 6]


def test_a_file_that_contradicts_the_cluster_writes_nothing(
    zookeeper: ZooKeeperServers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """T11: the same file again is a no-op, another one is refused with the difference."""
    phases = run(capsys, zookeeper, "--then", "leave")
    assert len(phases) == 2
    other = tmp_path / "other.yaml"
    other.write_text(RECIPE.read_text().replace("count: 12 ", "count: 13 "))
    folder = f"{zookeeper.hosts}/run-{next(_numbers) - 1}"
    for file, code in ((RECIPE, 0), (other, 2)):
        assert lockref(["cluster", "run", str(file), "--zookeeper", folder, "--json", "--then", "leave"]) == code
    assert "the file says 13, the cluster has 12" in capsys.readouterr().err


@pytest.mark.long  # Whoever removes the folder waits for an answer first.
def test_a_run_whose_server_is_gone_at_its_end_is_judged(caplog: pytest.LogCaptureFixture):
    """The folder of the run cannot be removed then. What the run has shown is not lost with its server."""
    if reason := unavailable():
        pytest.skip(reason)
    with (
        started_zookeeper() as running,
        folder_in(parse_store_uri(running.uri), "gone", timeout_ns=2 * NS_PER_S) as place,
    ):
        assert place.prefix == "gone"
        running.kill(1)
    assert "the folder /gone stays on" in caplog.text


@pytest.mark.parametrize("provider", ["helix", "helix-lock", "znode-lease"])
def test_locks_contend_on_a_real_server(provider: str, zookeeper: ZooKeeperServers):
    """Each client has a session, and assigned locks have a controller beside them; nothing is left on the server."""
    with resolve_backend(zookeeper.uri, stands_on=COORDINATION.name) as running:
        outcome = run_real(
            load_scenario("contention"), load_provider(provider), running.uri, clients=4, duration_ns=2 * NS_PER_S
        )
    assert outcome.unfinished == ()
    nodes = set(outcome.events["node"].to_pylist())
    assert nodes == {"n1", "n2", "n3", "n4", *(["controller"] if provider == "helix" else [])}
    assert "applied" in outcome.events.filter(pc.equal(outcome.events["kind"], "return"))["outcome"].to_pylist()
    clauses = decide(Summary.of(judge(outcome.events, outcome.runs), outcome.events, outcome.runs)).clauses
    assert {clauses[name] for name in ("S3", "S4", "S7")} == {"held"}
    # Helix' own lock has no tokens.
    assert clauses["S2"] == ("not_applicable" if provider == "helix-lock" else "held")
    with session_on(zookeeper.hosts) as session:
        assert [name for name in session.children("/").body if name.startswith("lockref-")] == []


FAILOVER = """
version: 1
name: failover
clients: 2
duration: 16s
nodes:
  controller: {program: "lockref.helix.lock:ControllerNode"}
  standby: {program: "lockref.helix.lock:ControllerNode"}
lock: {validity: 2s}
workload: {life: members, locks: 3, cycles: 10, hold: 300ms, writes: 3, wait: 6s}
faults:
  - {kind: crash, client: controller, at: 2s, restart_after: 1s}
  - {kind: crash, client: standby, at: 5s, restart_after: 1s}
"""


@pytest.mark.long
def test_controllers_are_killed_while_locks_move(zookeeper: ZooKeeperServers):
    """Each controller is a process, and each is killed once: whichever led, the other leads on.

    Three locks, each judged by itself; both controllers' second processes have written.
    """
    with resolve_backend(zookeeper.uri, stands_on=COORDINATION.name) as running:
        outcome = run_real(parse_scenario(FAILOVER), load_provider("helix"), running.uri, processes=2)
    assert [fired for _, fired, _ in outcome.fault_counts.values()] == [1, 1]
    assert (outcome.unfinished, outcome.lost) == ((), ())
    rows = outcome.events.to_pylist()
    assert len({row["lock"] for row in rows if row["kind"] == "effect"}) == 3
    begin_ns = min(row["at_ns"] for row in rows)
    for name, killed_ns in (("controller", 2 * NS_PER_S), ("standby", 5 * NS_PER_S)):
        assert any(row["node"] == name and row["at_ns"] > begin_ns + killed_ns + NS_PER_S for row in rows)
    clauses = decide(Summary.of(judge(outcome.events, outcome.runs), outcome.events, outcome.runs)).clauses
    assert {clauses[name] for name in ("S2", "S3", "S4", "S7")} == {"held"}


@pytest.mark.long
def test_several_locks_under_faults_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """The catalogue's clusters of four locks, with pauses and kills of clients and controllers as signals."""
    monkeypatch.chdir(tmp_path)
    for name in ("z05-several-locks", "z11-several-locks-failover"):
        code = lockref(["bench", name, "--backend", "zookeeper", "--provider", "helix", "--json"])
        said = json.loads(capsys.readouterr().out)
        assert code == 0, said
        assert said["verdict"] == "held"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--backend", "memory:", "--provider", "helix"], "memory: has no sessions, on which this lock stands"),
        (["--backend", "ministack", "--provider", "helix"], "ministack has no sessions, on which this lock stands"),
        (["--backend", "zookeeper", "--provider", "hardened"], "zookeeper is a coordination service"),
        (["--backend", "zookeeper-ensemble", "--provider", "helix", "--via", "docker"], "is started natively only"),
    ],
)
def test_a_lock_on_the_wrong_kind_of_service(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """Exit 5 with what to take instead; no server is started for it."""
    monkeypatch.chdir(tmp_path)
    assert lockref(["bench", "contention", *arguments]) == 5
    assert words in capsys.readouterr().err


def test_a_folder_that_is_not_there(zookeeper: ZooKeeperServers):
    """A typed error that names it; nothing is written."""
    with (
        pytest.raises(ConfigError, match="has no folder /nowhere"),
        resolve_backend(f"{zookeeper.uri}/nowhere", stands_on=COORDINATION.name),
    ):
        pass


@pytest.mark.long
@pytest.mark.parametrize(("provider", "is_broken"), [("helix", False), ("helix-recipe", True)])
def test_a_frozen_holder_on_real_processes(
    provider: str, is_broken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Z9, with SIGSTOP: the recipe's participant believes that it holds beside the next holder; ours does not."""
    monkeypatch.chdir(tmp_path)
    code = lockref(["bench", "z09-frozen-holder", "--backend", "zookeeper", "--provider", provider, "--json"])
    assert (code == 1) == is_broken
    clauses = json.loads(capsys.readouterr().out)["clauses"]
    assert (clauses["S3"]["verdict"] == "violated") == is_broken
    # Who believes that it holds may write: whether the recipe's write lands after the next holder's is chance.
    held = ("S2", "S7") if is_broken else ("S2", "S4", "S7")
    assert {clauses[name]["verdict"] for name in held} == {"held"}
