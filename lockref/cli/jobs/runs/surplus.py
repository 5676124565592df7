"""Runs that a folder keeps beyond the user's limits, and their removal (`lockref runs prune`).

Each command that begins a run removes the oldest ones beyond 100 runs or 1 GB by itself (`scenarios.runs.prune`). Here
the user sets the limits, an age among them, and may look first. Age is told by the clock: where that was wrong, a run
may look older than it is, which is why a dry run lists the ages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from lockref.errors import ConfigError
from lockref.words import counted
from reports.formats.gate_result import load_gate
from reports.formats.results import load_results
from scenarios.runs import HOME, recorded_runs, remove_run, run_json, size_of, status_of, sweep_removed

DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of what stays: runs no older than `age_s` seconds, the newest `runs_max`, within `bytes_max` bytes."""

    age_s: float
    runs_max: int
    bytes_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Surplus:
    """A run, or a stored failure, that may go. why: the limit that it is beyond, in words."""

    path: Path
    size: int
    age_s: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan of what goes. kept: how many runs stay. notices: why something stays that the limits would let go."""

    runs: tuple[Surplus, ...]
    failures: tuple[Surplus, ...]
    kept: int
    notices: tuple[str, ...]


def age_of(folder: Path, *, now_s: float) -> float:
    """The seconds since a run began; not below zero, whatever the clock said then."""
    told = str(run_json(folder).get("started_utc", ""))
    began: float | None = None
    with suppress(ValueError):
        began = datetime.fromisoformat(told).timestamp()
    if began is None:
        began = _changed(folder / "run.json", now_s)
    return max(0.0, now_s - began)


def planned(limits: Limits, *, now_s: float, home: Path = HOME, with_failures: bool = False) -> Plan:
    """Plan which runs go, the oldest last.

    Never a run that goes on, nor the one that `latest` names. with_failures: also stored failures that are older than
    the limit and that no kept run names. now_s: the wall time, in seconds since 1970.
    """
    latest = (home / "runs" / "latest").resolve()
    surplus: list[Surplus] = []
    kept: list[Path] = []
    total = 0
    for place, folder in enumerate(recorded_runs(home=home), 1):
        size, age_s = size_of(folder), age_of(folder, now_s=now_s)
        total += size
        why = ""
        if age_s > limits.age_s:
            why = f"older than {counted(round(limits.age_s / DAY_S), 'day')}"
        elif place > limits.runs_max:
            why = f"beyond the newest {counted(limits.runs_max, 'run')}"
        elif total > limits.bytes_max:
            why = f"beyond {limits.bytes_max / 1e9:g} GB"
        if not why or folder.resolve() == latest or status_of(folder) == "running":
            kept.append(folder)
        else:
            surplus.append(Surplus(path=folder, size=size, age_s=age_s, why=why))
    failures, notices = _failures(kept, limits, home, now_s) if with_failures else ((), ())
    return Plan(runs=tuple(surplus), failures=failures, kept=len(kept), notices=notices)


def carry_out(plan: Plan, *, home: Path = HOME, removed: Callable[[Surplus], None]) -> None:
    """Remove what a plan names, one after the other, the oldest first. removed: called with each that is gone.

    Interrupted at any moment, each run is there whole or gone. A run that was taken up again meanwhile stays.
    Errors: OSError where something may not be removed; what was removed before has been told.
    """
    sweep_removed(home / "runs")
    for each in reversed(plan.runs):
        if status_of(each.path) != "running" and remove_run(each.path):
            removed(each)
    for each in reversed(plan.failures):
        with suppress(FileNotFoundError):
            each.path.unlink()
            removed(each)


def _failures(
    kept: Sequence[Path], limits: Limits, home: Path, now_s: float
) -> tuple[tuple[Surplus, ...], tuple[str, ...]]:
    """The stored failures that may go, and why none may where a kept run cannot be read."""
    named: set[str] = set()
    for folder in kept:
        for file in (*folder.rglob("results.json"), *folder.glob("gate.json")):
            try:
                named |= _named(file)
            except ConfigError as error:
                return (), (f"all stored failures stay, since nobody knows which of them this run names: {error}",)
    found = [
        Surplus(path=path, size=path.stat().st_size, age_s=age_s, why="named by no run that stays")
        for path in sorted((home / "failures").glob("LK-*.json"))
        if path.stem not in named and (age_s := max(0.0, now_s - _changed(path, now_s))) > limits.age_s
    ]
    return tuple(sorted(found, key=lambda each: each.age_s)), ()


def _named(file: Path) -> set[str]:
    """The ids of the failures that an account names. Raises ConfigError for one that cannot be read."""
    if file.name == "gate.json":
        return {group.id for group in load_gate(file).groups}
    return {failure.id for failure in load_results(file).failures}


def _changed(path: Path, now_s: float) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return now_s
