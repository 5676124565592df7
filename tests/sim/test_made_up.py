"""A service and a fault of somebody else: registered from one folder, and nothing of the product is edited for them.

docs/adding-a-service.md and docs/adding-a-fault.md count the files of such an addition; `made_up` is the example.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lockref.errors import ConfigError
from scenarios.backends.hosts import HOSTS, started_server
from tests.sim.made_up.revisions import HOST, REVISIONS, SERVER, served

FOLDER = Path(__file__).parent / "made_up"
Done = tuple[int, dict[str, Any], str]
"""The exit code, the document, and what standard error was told."""

LOCK = ("--provider", f"{FOLDER / 'lock.py'}:RevisionLock", "--json")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    """What came of each command. All run in one process: to start one takes seconds."""
    folder = tmp_path_factory.mktemp("made_up")
    with served() as address:
        commands = {
            # Two processes: the workers know the service and the fault, too.
            "untouched": ("sim", str(FOLDER / "untouched.yaml"), *LOCK, "--seeds", "1..4", "--jobs", "2"),
            "truncated": ("sim", str(FOLDER / "truncated.yaml"), *LOCK, "--seeds", "2"),
            "contention": ("bench", "--backend", address, *LOCK, "--contenders", "4", "--for", "1s"),
            "refused": ("bench", str(FOLDER / "truncated.yaml"), "--backend", address, *LOCK),
            "started": ("bench", "--backend", SERVER, *LOCK, "--contenders", "4", "--for", "1s"),
            "listed": ("backends", "--json"),
            "elsewhere": ("bench", "--backend", "memory:", *LOCK),
        }
        told = subprocess.run(
            [sys.executable, "-m", "tests.sim.made_up.command", json.dumps(list(commands.values()))],
            capture_output=True, text=True, check=False, cwd=folder, timeout=200,
            env={**os.environ, "PYTHONPATH": str(FOLDER.parents[2])},
        )  # fmt: skip
    assert told.returncode == 0, told.stderr
    lines = [tuple(json.loads(line)) for line in told.stdout.splitlines()]
    return dict(zip(commands, lines, strict=True))


def test_a_lock_on_a_service_of_somebody_else_is_simulated(done: dict[str, Done]) -> None:
    """A kind needs its entries alone: scenarios, the wire, the record and the judge take it as it is."""
    code, document, _ = done["untouched"]
    assert (code, document["verdict"], document["runs"]) == (0, "held", 4)
    assert document["endings"]["released"] >= 20


def test_a_fault_of_somebody_else_strikes_it_at_c3(done: dict[str, Done]) -> None:
    """The record is removed while the holder believes: two clients hold at once (S3)."""
    code, document, _ = done["truncated"]
    assert (code, document["verdict"]) == (1, "violated")
    assert {failure["clause"] for failure in document["failures"]} >= {"S3"}
    assert document["endings"]["deleted"] == 1


def test_it_is_contended_for_on_its_own_server(done: dict[str, Done]) -> None:
    """A real run finds the channel by the kind. A second on a busy machine may give too few grants to prove much."""
    code, document, _ = done["contention"]
    assert (code, document["verdict"]) in ((0, "held"), (3, "inconclusive"))
    assert document["endings"]["released"] >= 1


def test_its_server_is_listed_and_started_by_name(done: dict[str, Done]) -> None:
    """An entry in HOSTS is enough: no command knows its name."""
    _, document, _ = done["listed"]
    assert (SERVER, "native", True) in {(row["name"], row["via"], row["available"]) for row in document["backends"]}
    code, document, _ = done["started"]
    assert (code, document["verdict"]) in ((0, "held"), (3, "inconclusive"))
    assert document["endings"]["released"] >= 1


def test_up_starts_a_server_of_a_new_family(monkeypatch: pytest.MonkeyPatch) -> None:
    """`lockref backends up` asks `started_server`. Without the entry the name is unknown."""
    with pytest.raises(ConfigError, match=f"no server '{SERVER}' is started here; expected one of ministack"):
        started_server(SERVER, via="native")
    monkeypatch.setitem(HOSTS, REVISIONS.name, HOST)
    with started_server(SERVER, via="native") as running:
        assert (running.name, running.uri.partition(":")[0]) == (SERVER, REVISIONS.name)


def test_what_does_not_fit_is_refused_in_its_own_words(done: dict[str, Done]) -> None:
    """The fault says why no real run can carry it out, and the kind which addresses it takes."""
    code, _, said = done["refused"]
    assert code == 2
    assert "truncate: no real server of this kind has an operator" in said
    code, _, said = done["elsewhere"]
    assert code == 5
    assert "has no revisions, on which this lock stands; take revisions://HOST:PORT" in said
