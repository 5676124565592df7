"""C17: a node of the store is stopped by a command, and started again; the other endpoint goes on, rightly or not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lockref.cli.main import run
from lockref.runtime import NS_PER_S
from scenarios.probe.fingerprint import fingerprint_of
from scenarios.probe.opening import addresses_of
from scenarios.probe.questions.stopped_node import Node
from scenarios.probe.run import probe
from tests.conditional_server import Asked, Bucket, Object, Told, serving


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "probe-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "probe-secret")


@dataclass
class Clustered(Bucket):
    """One of two endpoints of a store. `stopped`, a file, says that the second node is down.

    is_second: it is the node that goes. lies: what happens meanwhile: `skips the check` (minio#21603), `forgets`.
    """

    stopped: Path = Path("stopped")
    is_second: bool = False
    lies: str = ""

    def intercept(self, asked: Asked) -> Told | None:
        is_away = self.stopped.exists() and (self.is_second or self.lies == "no quorum")
        return Told(503, error="ServiceUnavailable") if is_away else None

    def put(self, key: str, body: bytes, *, if_match: str, if_none_match: str) -> tuple[int, str]:
        if self.stopped.exists() and self.lies == "skips the check":
            if_match = if_none_match = ""
        if self.stopped.exists() and "meanwhile" in key:
            if self.lies == "forgets":
                return 200, '"forgotten"'
            if self.lies == "spoils":
                body = b"spoilt"
            if self.lies == "refuses":
                return 412, ""
        return super().put(key, body, if_match=if_match, if_none_match=if_none_match)


def asked_of(lies: str, node: Node) -> dict[str, Any]:
    """What became of C17 on two endpoints."""
    shared: dict[str, Object] = {}
    stopped = Path.cwd() / "stopped"
    one = Clustered(objects=shared, stopped=stopped, lies=lies)
    other = Clustered(objects=shared, mutex=one.mutex, before=one.before, stopped=stopped, is_second=True)
    with serving(one) as first, serving(other) as second:
        endpoint = second.partition("endpoint=")[2]
        done = probe(addresses_of(first, [endpoint]), for_ns=100 * NS_PER_S, rounds=4, only=("C1", "C17"), node=node)
    assert not stopped.exists(), "the node was started again"
    assert not [key for key in shared if "forgotten" not in key]
    return dict(fingerprint_of(done).document()["clauses"]["C17"])


BY_FILE = Node(stop="touch stopped", start="rm stopped")


@pytest.mark.parametrize(
    ("lies", "verdict", "sentence"),
    [
        ("", "conforming", ""),
        ("skips the check", "unsafe", "let several simultaneous requests succeed"),
        ("forgets", "unsafe", "lost a write that it had confirmed while the node was stopped"),
        ("spoils", "unsafe", "lost a write that it had confirmed while the node was stopped"),
        ("refuses", "conforming", ""),
        ("no quorum", "not_answered", "no endpoint answered while the node was stopped"),
    ],
)
def test_a_node_is_stopped_and_the_others_are_asked(lies: str, verdict: str, sentence: str) -> None:
    """M19: who goes on without the node keeps its conditions; who refuses everything has shown nothing."""
    found = asked_of(lies, BY_FILE)
    assert found["verdict"] == verdict, found
    assert not sentence or sentence in " ".join(found["unsafe"] + found["not_answered"])
    if lies != "no quorum":
        assert found["facts"]["endpoints_that_answered"] == "1 of 2"


@pytest.mark.parametrize(
    ("node", "sentence"),
    [
        (Node(stop="exit 7", start="true"), "the command that stops a node failed (exit code 7)"),
        (Node(stop="true", start="exit 9"), "the command that starts the node again failed (exit code 9)"),
    ],
)
def test_a_command_that_fails_is_told_and_is_no_verdict(node: Node, sentence: str) -> None:
    """Without the node stopped nothing was asked; without it back nothing is vouched for."""
    found = asked_of("", node)
    assert found["verdict"] == "not_answered"
    assert [told for told in found["not_answered"] if "command" in told] == [sentence]


def test_one_command_alone_is_a_wrong_call(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2: a node that nobody starts again would stay away."""
    assert run(["probe", "memory:", "--stop-node", "true"]) == 2
    assert "belong together" in capsys.readouterr().err
    assert not list(Path.cwd().iterdir())
