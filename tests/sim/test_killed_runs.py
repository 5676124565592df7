"""Runs that did not come to their end: a dead worker, a signal at a bad moment, a folder that nobody finished."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lockref.cli.jobs.shown.results import begin_run
from lockref.cli.main import run
from lockref.lab.loading import load_provider
from lockref.lab.spool import SPOOL, begin_spool
from lockref.runtime import NS_PER_S
from reports.checks import judge
from reports.checks.summary import Summary
from reports.checks.verdicts import decide
from reports.formats.results import load_results
from reports.history_files import load_history
from scenarios import interrupts, runs
from scenarios.definition.load import load_scenario
from scenarios.run import run_real
from scenarios.runs import RunFolder
from scenarios.worlds import contention
from scenarios.worlds.processes import workers

SHORT_LEASES = """
version: 1
name: short
clients: 4
duration: 6s
lock: {validity: 3s, renew_every: 300ms, poll_every: 50ms}
workload: {kind: list, cycles: 1000000, think: 0ms..5ms, hold: 1ms..5ms, writes: 1, wait: 20s}
must_happen: [grant]
"""

DYING = """
import os, signal, sys
from lockref import StorageLock

class Dying(StorageLock):
    grants = 0

    def lock(self, timeout_s):
        granted = super().lock(timeout_s)
        Dying.grants += granted
        if Dying.grants == 3 and os.environ["DYING"] not in os.listdir():
            open(os.environ["DYING"], "x").close()
            print("out of luck", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        return granted
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Results go below a fresh folder, never into the working tree."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kill -9 is POSIX")
def test_a_dead_worker_is_named_and_the_rest_is_judged(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A worker dies with the lock in its hand: exit 5, an exit report, crashed clients; the others take over."""
    (own_folder / "short.yaml").write_text(SHORT_LEASES)
    (own_folder / "dying.py").write_text(DYING)
    monkeypatch.setenv("DYING", "dead")
    command = ["bench", "short.yaml", "--provider", "dying.py:Dying", "--backend", own_folder.as_uri()]
    assert run([*command, "--contenders", "4", "--processes", "2", "--for", "9s"]) == 5
    told = " ".join(capsys.readouterr().out.split())
    assert "was killed by SIGKILL" in told
    assert "out of luck" in told
    folder = own_folder / ".lockref" / "runs" / "latest"
    results = load_results(folder / "results.json")
    assert results.verdict == "held"
    events, runs, _ = load_history(folder)
    rows = events.to_pylist()
    crashes = [row for row in rows if row["kind"] == "fault"]
    dead = {row["node"] for row in crashes}
    assert dead in ({"n1", "n3"}, {"n2", "n4"})
    assert [json.loads(row["detail"])["kind"] for row in crashes] == ["crash", "crash"]
    # The dead one's record is there up to its death, the others' goes on after it.
    assert sum(row["kind"] == "return" and row["node"] in dead for row in rows) >= 4
    assert any(row["kind"] == "believed" and row["at_ns"] > crashes[0]["at_ns"] for row in rows)
    [row] = runs.to_pylist()
    assert row["faults_end_ns"] == crashes[0]["at_ns"]
    assert json.loads((folder / "run.json").read_text())["exit_code"] == 5


FROZEN = """
import os, signal
from lockref import StorageLock

class Frozen(StorageLock):
    def lock(self, timeout_s):
        granted = super().lock(timeout_s)
        if granted and "frozen" not in os.listdir():
            open("frozen", "x").close()
            os.kill(os.getpid(), signal.SIGSTOP)
        return granted
"""


@pytest.mark.long
@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="SIGSTOP is POSIX")
def test_a_worker_that_answers_no_more_is_named(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frozen with the lock in its hand: it is not waited for beyond the grace, and counts as crashed."""
    (own_folder / "short.yaml").write_text(SHORT_LEASES)
    (own_folder / "frozen.py").write_text(FROZEN)
    monkeypatch.setattr(workers, "GRACE_S", 2)
    outcome = run_real(
        load_scenario("short.yaml"),
        load_provider("frozen.py:Frozen"),
        own_folder.as_uri(),
        clients=4,
        processes=2,
        duration_ns=NS_PER_S,
    )
    [lost] = outcome.lost
    assert lost.ending == "fell silent and was killed"
    assert {row["node"] for row in outcome.events.to_pylist() if row["kind"] == "fault"} == set(lost.clients)
    counts = Summary.of(judge(outcome.events, outcome.runs), outcome.events, outcome.runs)
    assert "violated" not in decide(counts).clauses.values()


@pytest.mark.parametrize(
    ("processes", "number"),
    [
        (1, signal.SIGINT),
        (2, signal.SIGTERM),
        pytest.param(1, signal.SIGTERM, marks=pytest.mark.long),
        pytest.param(2, signal.SIGINT, marks=pytest.mark.long),
    ],
)
def test_sigterm_ends_a_bench_like_ctrl_c(own_folder: Path, number: signal.Signals, processes: int) -> None:
    """130, "interrupted", a history that is judged, no spool left."""
    store = own_folder.as_uri() if processes > 1 else "memory:"
    command = [sys.executable, "-m", "lockref", "bench", "--backend", store, "--processes", str(processes)]
    with subprocess.Popen([*command, "--contenders", "4", "--for", "600s"], stderr=subprocess.PIPE) as bench:
        spool = own_folder / ".lockref" / "runs" / "latest" / "recording"
        # The parent writes the effects, so a row means that clients hold the lock.
        while not (spool / "0.0.rows").exists() or not (spool / "0.0.rows").read_bytes()[:8].strip(b"\0"):
            assert bench.poll() is None
            time.sleep(0.05)
        bench.send_signal(number)
        assert bench.wait(120) == 130
    folder = own_folder / ".lockref" / "runs" / "latest"
    about = json.loads((folder / "run.json").read_text())
    assert (about["status"], about["exit_code"]) == ("interrupted", 130)
    assert (folder / "events.parquet").exists()
    assert not spool.exists()
    assert run(["check", str(folder)]) in (0, 3)


def test_a_second_ctrl_c_leaves_what_was_recorded(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C while the history is judged: the folder says interrupted, and `check` judges what was recorded."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(contention, "judge", interrupted)
        assert run(["bench", "--backend", "memory:", "--contenders", "3", "--for", "1s"]) == 130
    folder = own_folder / ".lockref" / "runs" / "latest"
    assert json.loads((folder / "run.json").read_text())["status"] == "interrupted"
    assert not (folder / "events.parquet").exists()
    capsys.readouterr()
    assert run(["check", str(folder), "--json"]) in (0, 3)
    told = json.loads(capsys.readouterr().out)
    assert told["runs"] == 1
    assert any("was interrupted" in notice for notice in told["notices"])


def begun(own_folder: Path, **facts: object) -> RunFolder:
    folder = begin_run("bench", {"arguments": {}})
    folder.describe(**facts)
    return folder


def test_a_run_whose_process_is_gone_was_killed(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A number that was given again tells nothing: "killed", written down by the next command. Nothing recorded: 5."""
    folder = begun(own_folder)
    assert runs.status_of(folder.path) == "running"
    folder.describe(process_started="another boot+1")
    assert runs.status_of(folder.path) == "killed"
    for command in ("check", "report"):
        assert run([command, str(folder.path)]) == 5
        assert "was killed: its process ended without a word before anything was recorded" in capsys.readouterr().err
    assert json.loads((folder.path / "run.json").read_text())["status"] == "running"
    begin_spool(folder.path / SPOOL)
    begun(own_folder)
    assert json.loads((folder.path / "run.json").read_text())["status"] == "killed"
    assert f"an earlier run was killed: `lockref check {folder.path}`" in capsys.readouterr().err


def test_the_clean_up_leaves_folders_that_are_being_written(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the number of folders to keep: a dead run's goes, a live one's stays."""
    live, dead = begun(own_folder), begun(own_folder, pid=2**30)
    monkeypatch.setattr(runs, "RUNS_MAX", 1)
    begun(own_folder)
    assert live.path.exists()
    assert not dead.path.exists()


def test_a_signal_in_a_step_that_must_not_be_torn_comes_after_it() -> None:
    """`run.json` is written to its end; the signal is not forgotten."""
    steps = []

    def step() -> None:
        with interrupts.deferred():
            os.kill(os.getpid(), signal.SIGTERM)
            steps.append("whole")
        steps.append("not reached")

    with interrupts.remembered(), pytest.raises(KeyboardInterrupt):
        step()
    assert steps == ["whole"]


def test_a_run_that_is_not_over_is_judged_so_far(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`check` of a folder that its process still writes: the clients' doings so far, and it says so."""
    folder = begun(own_folder)
    outcome = run_real(
        load_scenario("contention"), load_provider("hardened"), "memory:", clients=3, duration_ns=NS_PER_S,
        folder=folder.path,
    )  # fmt: skip
    assert run(["check", str(folder.path)]) in (0, 3)
    assert "the run is not over yet" in capsys.readouterr().out
    assert len(load_history(folder.path)[0]) == len(outcome.events)
