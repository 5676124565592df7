"""Bounds that a gate may demand: a correct lock keeps each of them, and a lock that breaks one is told so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from lockref.cli.main import run
from lockref.lab.loading import load_provider
from lockref.words import Outcome
from reports.checks import judge
from reports.checks.summary import Summary
from scenarios.definition.load import parse_scenario
from scenarios.definition.schema import Scenario
from scenarios.run import run_real, simulate_many
from sim.machine.nodes import PROCESSES_PER_NODE
from tests.quality.planted.strangers import PlainLock

SCENARIO = """\
version: 1
name: bounds
clients: 3
duration: 60s
workload: {hold: 6s, wait: 5s, think: 1s, cycles: 30}
"""
BOUNDS = [
    "requests_per_grant.mean < 40",
    "early_denial <= 1s",
    "drought < 45s",
    "standstill < 10s",
    "objects_left <= 2",
    "tasks_left < 1",
    "record_growth < 16B",
]


class AsksTenTimes(PlainLock):
    """Looks at the record ten times where once would do."""

    def saw(self, found: Any) -> None:
        for _ in range(9):
            self.store.read(self.key)


class DeniesAtOnce(PlainLock):
    """`lock(5)` is back at once with a no while somebody else has the lock."""

    def acquire(self, timeout_ns: int) -> bool:
        return super().acquire(0)


class LooksEveryHalfMinute(PlainLock):
    """Nobody gets the lock for long after it was given back."""

    def attempt(self, end_ns: int) -> bool | None:
        if self.runtime.monotonic_ns() % 30_000_000_000 > 5_000_000_000:
            return False if self.store.read(self.key).body is not None else None
        return super().attempt(end_ns)


class LeavesMarks(PlainLock):
    """Each grant leaves an object of its own beside the record."""

    def begin(self, *args: Any) -> None:
        super().begin(*args)
        assert self.store.put_if_absent(f"{self.key}.{self.epoch}.{self.me}", b"mark").outcome is not Outcome.REJECTED


class LeavesItsHeartbeat(PlainLock):
    """The heartbeat task of each grant runs for ever, and looks at nothing but the clock."""

    def beat(self, epoch: int) -> None:
        super().beat(epoch)
        while True:
            self.runtime.sleep(self.settings.renew_interval_ns)


class KeepsAList(PlainLock):
    """The record tells of every grant that there ever was."""

    grants = ""

    def line(self, until_ms: int, token: int, state: str) -> bytes:
        return super().line(until_ms, token, state) + b"-" * token


BREAKS = [
    (AsksTenTimes, "requests_per_grant"),
    (DeniesAtOnce, "early_denial"),
    (LooksEveryHalfMinute, "standstill"),
    (LeavesMarks, "objects_left"),
    (LeavesItsHeartbeat, "tasks_left"),
    (KeepsAList, "record_growth"),
]


def scenario(*, is_short: bool = False) -> Scenario:
    text = re.sub(r"hold: 6s, wait: 5s, think: 1s", "hold: 20ms, wait: 2s, think: 1ms", SCENARIO)
    return parse_scenario(text if is_short else SCENARIO).demanding(BOUNDS)


def told(lock: type[PlainLock] | str) -> dict[str, str]:
    """By measure, what became of each bound in a simulation."""
    spec = load_provider(lock if isinstance(lock, str) else f"{lock.__module__}:{lock.__name__}")
    batch = simulate_many(scenario(), spec, range(1, 4))
    summary = Summary.of(judge(batch.events, batch.runs), batch.events, batch.runs)
    return {kept.threshold.measure: f"{kept.verdict}: {kept}" for _, kept in summary.thresholds}


def test_a_correct_lock_keeps_every_bound() -> None:
    """Each is measured, and none is broken."""
    found = told("hardened")
    assert {text.partition(":")[0] for text in found.values()} == {"held"}, found


@pytest.mark.parametrize(("lock", "measure"), BREAKS)
def test_a_lock_that_breaks_a_bound_is_told_where_it_was_worst(lock: type[PlainLock], measure: str) -> None:
    """The bound, the figure, and the sample with its client, its instant and its key."""
    found = told(lock)
    assert found[measure].startswith(f"violated: {measure}"), found
    who = (
        r"n\d/heartbeat at \d+\.\d{3} s, run \d"
        if measure == "tasks_left"
        else r"n\d at \d+\.\d{3} s, .*lock.*, run \d"
    )
    assert re.search(rf"over [\d,]+ samples?; worst .*: {who}$", found[measure]), found[measure]
    others = {name for name, text in found.items() if text.startswith("violated")} - {measure}
    assert others <= {"drought", "requests_per_grant"}, found


def test_a_drought_is_of_one_client_and_a_standstill_of_all() -> None:
    """A lock that is given out again and again, and never to one client, stands still for nobody."""
    found = told(Favours)
    assert found["drought"].startswith("violated: drought < 45s"), found
    assert found["standstill"].startswith("held"), found


class Favours(PlainLock):
    """Never gets the lock on the third node: it has the bad luck of looking too late."""

    def attempt(self, end_ns: int) -> bool | None:
        if self.runtime.process_id() // PROCESSES_PER_NODE == 3:
            return False if self.store.read(self.key).body is not None else None
        return super().attempt(end_ns)


@pytest.mark.parametrize(
    ("lock", "broken"),
    [(PlainLock, set()), (LeavesItsHeartbeat, {"tasks_left"}), (LeavesMarks, {"objects_left"}),
     (KeepsAList, {"record_growth"})],
)  # fmt: skip
def test_a_real_run_is_measured_likewise(lock: type[PlainLock], broken: set[str], tmp_path: Path) -> None:
    """Threads that are left, objects in the store, and the bytes of its records."""
    spec = load_provider(f"{lock.__module__}:{lock.__name__}")
    done = run_real(scenario(is_short=True), spec, "memory:", duration_ns=10**9, folder=tmp_path)
    summary = Summary.of(judge(done.events, done.runs), done.events, done.runs)
    found = {kept.threshold.measure: kept.verdict for _, kept in summary.thresholds}
    watched = {"tasks_left", "objects_left", "record_growth"}
    assert {name for name in watched if found[name] == "violated"} == broken, found
    assert {name for name in watched if found[name] == "held"} == watched - broken, found


def test_demands_of_the_command_line_decide_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--demand` adds to the thresholds of a scenario, and `check` judges the recorded run by the same ones."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bounds.yaml").write_text(SCENARIO)
    command = ["sim", "bounds.yaml", "--provider", f"{__name__}:LeavesMarks", "--seeds", "1..2"]
    assert run([*command, "--demand", "objects_left <= 1", "--demand", "tasks_left < 1"]) == 4
    line = next(line for line in capsys.readouterr().out.splitlines() if "threshold violated" in line).strip()
    assert line.startswith("threshold violated: objects_left <= 1: "), line
    folder = max((tmp_path / ".lockref" / "runs").glob("2*-sim"))
    assert run(["check", str(folder)]) == 4
    assert line in capsys.readouterr().out
    assert run([*command, "--demand", "objects_left <= 99"]) == 0


@pytest.mark.parametrize("command", [["sim", "e03"], ["bench"], ["wire", "--", "true"]])
def test_a_bad_demand_is_refused_with_its_place(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything runs, with the column in what was written."""
    assert run([command[0], "--demand", "wait.p98 < 1s", *command[1:]]) == 2
    assert "'wait.p98 < 1s'; column 6: expected a statistic" in capsys.readouterr().err


def test_what_requests_cannot_show_is_not_demanded_on_the_wire(capsys: pytest.CaptureFixture[str]) -> None:
    """The calls of a program are not seen there, so a limit on them could never be judged."""
    assert run(["wire", "--demand", "wait < 1s", "--", "true"]) == 2
    assert "--demand 'wait < 1s': requests on the wire do not show the calls" in capsys.readouterr().err
