"""Bad input of `lockref cluster run` on real servers: what it says, how it ends, and that nothing is half-written."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from lockref.cli.main import run as lockref
from lockref.helix.cluster.cluster_file import load_cluster
from lockref.helix.controller.controller import ControllerSettings
from lockref.helix.records.zn_record import ZNRecord, is_compressed
from lockref.runtime import NS_PER_S
from scenarios.backends import zookeeper as backend
from scenarios.backends.zookeeper import ZooKeeperServers, ask, started_zookeeper, unavailable
from scenarios.helix.program import Change, ClusterProgram, ProgressCallbacks
from tests.backends.kazoo_client import kazoo_on
from tests.evidence.helix.tree import Tree

RECIPE = Path(__file__).parents[2] / "docs" / "examples" / "lock-manager.yaml"
CLUSTER = "/lock-manager-custom-rebalancer"
FIRST = f"{CLUSTER}/LIVEINSTANCES/localhost_12001"
_numbers = itertools.count()

pytestmark = [pytest.mark.realbackend, pytest.mark.java, pytest.mark.xdist_group("zookeeper")]


class Run:
    """`lockref cluster run` in a folder of its own on the server."""

    def __init__(self, hosts: str, operator: KazooClient, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = f"/bad-{next(_numbers)}"
        operator.create(self.folder)
        self._place = f"{hosts}{self.folder}"
        self._capsys = capsys

    def __call__(self, *options: str, file: Path = RECIPE) -> tuple[int, list[dict[str, Any]], str]:
        """The exit code, the phases, and what was said to the operator."""
        code = lockref(["cluster", "run", str(file), "--zookeeper", self._place, "--json", *options])
        out, err = self._capsys.readouterr()
        return code, json.loads(out)["phases"] if code in (0, 2) and out.startswith("{") else [], err


@pytest.fixture
def run(zookeeper: ZooKeeperServers, operator: KazooClient, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(zookeeper.hosts, operator, capsys)


def test_nobody_answers(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Exit 5 with the address."""
    monkeypatch.setattr("scenarios.helix.program.REQUEST_TIMEOUT_NS", 200_000_000)
    assert lockref(["cluster", "run", str(RECIPE), "--zookeeper", "127.0.0.1:1"]) == 5
    assert (
        "no session with zookeeper: no server of 127.0.0.1:1 answered within 0.2 s (4 attempts)"
        in capsys.readouterr().err
    )


def test_a_folder_that_is_not_there(zookeeper: ZooKeeperServers, capsys: pytest.CaptureFixture[str]):
    """Exit 2 with its name, and it is not made."""
    place = f"{zookeeper.hosts}/nowhere/below"
    assert lockref(["cluster", "run", str(RECIPE), "--zookeeper", place]) == 2
    assert f"{place} has no folder /nowhere/below; make it first" in capsys.readouterr().err
    with kazoo_on(zookeeper.hosts) as client:
        assert client.exists("/nowhere") is None


@pytest.mark.long
def test_servers_without_a_quorum_are_read_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Exit 5: they answer, and take no write."""
    if reason := unavailable():
        pytest.skip(reason)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dreadonlymode.enabled=true")
    with started_zookeeper(servers=3) as running:
        for number in (1, 2):
            running.kill(number)
        port = int(running.address(3).rpartition(":")[2])
        while ask(port, "isro").strip() != "ro":
            pass
        monkeypatch.setattr("scenarios.helix.program.REQUEST_TIMEOUT_NS", 500_000_000)
        assert lockref(["cluster", "run", str(RECIPE), "--zookeeper", running.address(3)]) == 5
        assert "has no quorum, and its servers take no write" in capsys.readouterr().err


def test_another_ones_folder(run: Run, operator: KazooClient, monkeypatch: pytest.MonkeyPatch):
    """Exit 5 and what was refused; with the credentials it goes on. They are shown nowhere."""
    operator.set_acls(run.folder, [make_digest_acl("anna", "secret", all=True)])
    code, _, said = run()
    assert (code, "NoAuth" in said) == (5, True)
    monkeypatch.setenv("LOCKREF_ZOOKEEPER_AUTH", "digest:anna:secret")
    code, phases, said = run("--then", "leave")
    assert (code, len(phases), "secret" in said) == (0, 2, False)


def test_credentials_that_no_server_takes(run: Run, monkeypatch: pytest.MonkeyPatch):
    """Exit 5: an unknown scheme; exit 2: none."""
    monkeypatch.setattr("scenarios.helix.program.REQUEST_TIMEOUT_NS", 2_000_000_000)
    monkeypatch.setenv("LOCKREF_ZOOKEEPER_AUTH", "nosuch:thing")
    code, _, said = run()
    assert (code, "AuthFailed" in said) == (5, True)
    monkeypatch.setenv("LOCKREF_ZOOKEEPER_AUTH", "secret")
    code, _, said = run()
    assert (code, "SCHEME:CREDENTIAL" in said, "secret" in said) == (2, True, False)


def test_an_instance_that_lives_already(run: Run, operator: KazooClient, monkeypatch: pytest.MonkeyPatch):
    """Z18: exit 2 with the session whose name it is; the other one is left alone."""
    assert run("--then", "leave")[0] == 0
    operator.create(f"{run.folder}{FIRST}", b"{}", ephemeral=True)
    monkeypatch.setattr("lockref.helix.participant.arrival.JOIN_PATIENCE_NS", 0)
    code, _, said = run("--session-timeout", "1s")
    assert code == 2
    assert f"belongs to session {operator.client_id[0]:x} and did not end within 1 s" in said
    assert operator.exists(f"{run.folder}{FIRST}") is not None


def test_strange_znodes_stop_nobody(run: Run, operator: KazooClient):
    """They are named, or left alone where they are nobody's business; the run goes on, exit 0."""
    assert run("--then", "leave")[0] == 0
    root = f"{run.folder}{CLUSTER}"
    operator.create(f"{root}/PROPERTYSTORE/application", b"not JSON")
    operator.create(f"{root}/LIVEINSTANCES/ghost", b"me", ephemeral=True)
    operator.create(f"{root}/INSTANCES/localhost_12002/CURRENTSTATES/123", b"", makepath=True)
    operator.create(f"{root}/INSTANCES/localhost_12002/CURRENTSTATES/123/deep/below", b"?", makepath=True)
    operator.create(f"{root}/INSTANCES/localhost_12003/MESSAGES/strange", b"{")
    operator.set(f"{root}/CONTROLLER/HISTORY", b"{")
    code, phases, said = run("--then", "leave")
    assert code == 0, said
    assert None not in phases[-1]["holders"].values()
    assert "ghost is sent nothing" in said
    assert "CONTROLLER/HISTORY holds no Helix record" in said
    assert any("a message that cannot be read is removed" in text for text in phases[0]["alarms"])
    assert operator.get(f"{root}/PROPERTYSTORE/application")[0] == b"not JSON"


def test_a_declared_znode_that_holds_no_record(run: Run, operator: KazooClient):
    """Exit 2 with its path, and nothing is written."""
    assert run("--then", "leave")[0] == 0
    path = f"{CLUSTER}/IDEALSTATES/lock-group"
    operator.set(f"{run.folder}{path}", b"half-writ")
    before = operator.get(run.folder)[1].pzxid
    code, _, said = run()
    assert (code, f"{path} holds no Helix record: b'half-writ'" in said) == (2, True)
    assert operator.get(run.folder)[1].pzxid == before


@pytest.mark.parametrize(("wish", "given"), [("100ms", "1 s"), ("10h", "60 s")])
def test_a_session_timeout_out_of_bounds(run: Run, wish: str, given: str):
    """The server's own is told."""
    code, _, said = run("--session-timeout", wish, "--then", "leave")
    assert code == 0
    assert f"The server gives sessions of {given} in the place of" in said


@pytest.mark.long
def test_the_bounds_are_ticks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """2 and 20 of them, where a server is not configured otherwise."""
    if reason := unavailable():
        pytest.skip(reason)
    whole = backend._configuration

    def without_bounds(*how: Any) -> str:
        return "".join(line for line in whole(*how).splitlines(keepends=True) if "SessionTimeout" not in line)

    monkeypatch.setattr(backend, "_configuration", without_bounds)
    with started_zookeeper() as running:
        for wish, given in (("100ms", "1 s"), ("1h", "10 s")):
            arguments = ["cluster", "run", str(RECIPE), "--zookeeper", running.hosts, "--session-timeout", wish]
            assert lockref([*arguments, "--then", "leave"]) == 0
            assert f"The server gives sessions of {given} in the place of" in capsys.readouterr().out


RULES = """
import sys, time
from lockref.helix.rebalancers import mod

def fails_later(answer):
    return lambda question: mod(question) if len(question.live) == 3 else answer(question)

def forever(question):
    while True:
        time.sleep(0.05)

raises = fails_later(lambda question: 1 / 0)
leaves = fails_later(lambda question: sys.exit(3))
hangs = fails_later(forever)
stranger = fails_later(lambda question: {lock: ("nobody",) for lock in question.locks})
crowd = fails_later(lambda question: {lock: question.live for lock in question.locks})
number = fails_later(lambda question: {lock: 7 for lock in question.locks})
once = fails_later(lambda question: {lock: iter(question.live[:1]) for lock in question.locks})
text = fails_later(lambda question: "all")
"""


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("raises", "it raised ZeroDivisionError: division by zero"),
        ("leaves", "the rebalancer wanted to end the program: SystemExit(3)"),
        ("hangs", "the rebalancer did not answer within 0.5 s"),
        ("stranger", "the rebalancer gave it to 'nobody', which is not live"),
        ("crowd", "2 holders; at most 1 may hold it"),
        ("number", "the rebalancer gave 7; expected a sequence of instances"),
        ("once", "expected a sequence of instances"),
        ("text", "the rebalancer answered str; expected a mapping"),
    ],
)
def test_a_rule_that_fails_moves_nothing(
    rule: str, words: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """T9, Z4: whoever is left keeps what it has, an alarm says why, and the command ends with 2."""
    file = tmp_path / "rules.py"
    file.write_text(RULES)
    shorter_limit(monkeypatch)
    code, (before, after), said = run("--rebalancer", f"{file}:{rule}", "--then", "leave")
    assert code == 2
    kept = {lock: holder for lock, holder in before["holders"].items() if holder != "localhost_12001"}
    assert len(kept) == 8
    assert {lock: holder for lock, holder in after["holders"].items() if holder} == kept
    alarms = [line for line in said.splitlines() if line.startswith("ALARM")]
    assert any(words in alarm for alarm in alarms), said


def test_a_count_that_the_recipe_cannot_read(run: Run, tmp_path: Path):
    """The recipe's class takes numbers alone: nobody gets a lock, an alarm says why, and the command ends with 2."""
    file = tmp_path / "cluster.yaml"
    head = RECIPE.read_text().partition("    stateModel:")[0]
    participants = RECIPE.read_text().partition("participants:")[2]
    file.write_text(f"{head}    stateModel: {{name: OnlineOffline}}\nparticipants:{participants}")
    code, phases, said = run("--then", "leave", file=file)
    assert code == 2
    assert [{*phase["holders"].values()} for phase in phases] == [{None}, {None}]
    assert "ALARM nothing assigned: lock-group: Invalid state model definition." in said


def shorter_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    from lockref.helix.strange_rebalancer import Cabinet

    whole: Callable[..., None] = Cabinet.__init__
    monkeypatch.setattr(Cabinet, "__init__", lambda self, runtime, _limit: whole(self, runtime, 500_000_000))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("raise ValueError('no')", "cannot be loaded: it raised ValueError: no"),
        ("import sys; sys.exit(1)", "cannot be loaded: it raised SystemExit: 1"),
        (
            "class rule:\n def __init__(self): raise KeyError('x')",
            "its class cannot be made without arguments: KeyError",
        ),
        ("x = 1", "has no function 'rule'"),
    ],
)
def test_a_rule_that_cannot_be_loaded(text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Exit 2 before any server is asked."""
    file = tmp_path / "rule.py"
    file.write_text(text)
    assert lockref(["cluster", "run", str(RECIPE), "--zookeeper", "127.0.0.1:1", "--rebalancer", f"{file}:rule"]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.long
def test_ten_thousand_locks_on_one_instance(run: Run, operator: KazooClient, tmp_path: Path):
    """What it reports does not fit into a znode as plain text: it is compressed, and every lock is held, twice."""
    text = RECIPE.read_text().replace("count: 12 ", "count: 10500 ")
    one = "participants:\n  - name: localhost_12001\n    host: localhost\n    port: 12001\n"
    file = tmp_path / "many.yaml"
    file.write_text(text.partition("participants:")[0] + one)
    code, phases, _ = run("--rebalancer", "sticky", "--then", "none", "--then", "return", file=file)
    assert code == 0
    assert [len([each for each in phase["holders"].values() if each]) for phase in phases] == [10_500, 0, 10_500]
    folder = f"{run.folder}{CLUSTER}/INSTANCES/localhost_12001/CURRENTSTATES"
    (session,) = operator.get_children(folder)
    body, _ = operator.get(f"{folder}/{session}/lock-group")
    assert is_compressed(body)
    assert len(ZNRecord.from_json(body, folder).maps) == 10_500


def test_rights_that_are_taken_away_and_given_back(run: Run, operator: KazooClient, zookeeper: ZooKeeperServers):
    """The controller may send one instance nothing: an alarm, holders stay, and it goes on when it may again."""
    cluster = load_cluster(RECIPE)
    said: list[str] = []
    refused = threading.Event()

    def say(line: str) -> None:
        said.append(line)
        if "NoAuth" in line:
            refused.set()

    program = ClusterProgram(
        f"{zookeeper.hosts}{run.folder}",
        cluster,
        callbacks=ProgressCallbacks(say=say),
        controller=ControllerSettings(),
        session_timeout_ns=4 * NS_PER_S,
    )
    with contextlib.closing(program):
        program.configure()
        before = program.phase(Change.START).holders
        messages = f"{run.folder}{CLUSTER}/INSTANCES/localhost_12002/MESSAGES"
        operator.set_acls(messages, [make_acl("world", "anyone", read=True, admin=True)])
        with ThreadPoolExecutor(1) as pool:
            leaving = pool.submit(program.phase, Change.LEAVE)
            assert refused.wait(30)
            tree = Tree(operator, f"{run.folder}{CLUSTER}".removeprefix("/"))
            others = {lock: held for lock, held in before.items() if held != ("localhost_12001",)}
            assert {lock: held for lock, held in tree.seen().holders("LOCKED").items() if lock in others} == others
            operator.set_acls(messages, OPEN_ACL_UNSAFE)
            after = leaving.result(60)
    assert {held for (held,) in after.holders.values()} == {"localhost_12002", "localhost_12003"}
    assert any("refused: zookeeper refuses: NoAuth" in line for line in said)
