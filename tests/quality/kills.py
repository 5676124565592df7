"""Kill benches at random instants and ask what was lost: `python -m tests.quality.kills --times 100`.

Each round starts `lockref bench` in a folder of its own, in one process or in
two, and kills it with SIGKILL: the command alone, or the command and its
workers at once; while it starts, while its clients contend, or about the time
when it judges and writes its results. Then it wants of the folder:

- `lockref check` judges it: exit 0 or 3, no traceback, never a word about usage;
- nothing that was granted more than a second before the kill is missing. What
  was granted is known from elsewhere: the lock under test adds a line to a file
  of its own for every grant, which the operating system keeps like any other;
- no worker lives on, and the run is told as killed, if it had not finished.

With `--signal TERM` or `INT` the command is asked to end in place of being
killed: it must do so within a minute, and `run.json` say "interrupted" or
"finished". All else is the same.

A bench that is killed before its clients were let go may have recorded
nothing; then `check` must say so, with exit 5, and no grant may be known.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from lockref.errors import NothingRecorded
from reports.history_files import load_history
from scenarios.runs import require_recorded, status_of

LOST_MAX_NS = 1_000_000_000
"""What may be missing: the last second."""

PHASES = ("start", "middle", "end")
SPAN_S = 4.0
"""Kills come at any time within so long of the start of the command, or of the first grant."""

END_MAX_S = 60
SHORT_S = 2
"""So long clients contend where the kill is to come about the end."""

GRANTS = "grants.log"
WITNESS = '''
import os
from lockref import StorageLock
from lockref.runtime import ThreadRuntime

LOG = os.open(os.environ["GRANTS_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
NOW = ThreadRuntime().monotonic_ns


class Witnessed(StorageLock):
    """The hardened lock; every grant is a line of a file that nothing of lockref writes."""

    def _said(self, granted):
        if granted:
            os.write(LOG, f"{NOW()} {self.grant.owner} {self.grant.token}\\n".encode())
        return granted

    def lock(self, timeout_s):
        return self._said(super().lock(timeout_s))

    def try_lock(self):
        return self._said(super().try_lock())
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """What one round showed.

    code: the exit code of `check`; None if there was no folder yet. grants: made known by the lock under test.
    missing: those of them, older than a second, that the record lacks. oldest_lost_ns: the age of the oldest that it
    lacks. problems: in words.
    """

    code: int | None
    status: str
    grants: int
    recorded: int
    missing: int
    oldest_lost_ns: int
    problems: tuple[str, ...]

    def __str__(self) -> str:
        told = (
            f"{self.status or 'no folder'}, check {self.code}, {self.grants} grants, {self.missing} missing, "
            f"oldest lost {self.oldest_lost_ns / 1e6:.1f} ms"
        )
        return "; ".join((told, *self.problems))


def kill_once(
    folder: Path,
    *,
    processes: int,
    phase: str,
    after_s: float,
    is_group: bool,
    contenders: int = 8,
    number: int = signal.SIGKILL,
) -> Kill:
    """Start a bench below `folder`, kill it, and look at what it left.

    phase: one of `PHASES`. after_s: seconds after the start of the command, in the other phases after the first grant.
    is_group: its workers get the signal at the same time; else only the command itself does. number: the signal.
    """
    (folder / "witness.py").write_text(WITNESS)
    store = "memory:" if processes == 1 else (folder / "store").as_uri()
    command = [
        sys.executable, "-m", "lockref", "bench", "contention", "--provider", "witness.py:Witnessed",
        "--backend", store, "--contenders", str(contenders), "--processes", str(processes),
        "--for", f"{SHORT_S}s" if phase == "end" else "60s",
    ]  # fmt: skip
    log = folder / GRANTS
    log.touch()
    bench = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "GRANTS_LOG": str(log), "NO_COLOR": "1"},
        stdout=subprocess.DEVNULL,
        stderr=(folder / "stderr.txt").open("w"),
        start_new_session=True,
    )
    while phase != "start" and not log.stat().st_size and bench.poll() is None:
        time.sleep(0.01)
    time.sleep(after_s)
    known = psutil.Process(bench.pid).children(recursive=True) if bench.poll() is None else []
    killed_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic_ns()
    if is_group and bench.poll() is None:
        os.killpg(bench.pid, number)
    else:
        bench.send_signal(number)
    problems = []
    try:
        bench.wait(END_MAX_S)
    except subprocess.TimeoutExpired:
        problems.append(f"it did not end within {END_MAX_S} s")
        bench.kill()
        bench.wait()
    orphans = psutil.wait_procs(known, timeout=30)[1]
    for process in orphans:
        process.kill()
    problems += [f"{len(orphans)} processes lived on"] if orphans else []
    if "Traceback" in (said := (folder / "stderr.txt").read_text()) and (folder / ".lockref").exists():
        problems.append(f"bench: {said.strip().splitlines()[-1]}")
    return _looked_at(folder, killed_ns, problems, is_killed=number == signal.SIGKILL)


def _looked_at(folder: Path, killed_ns: int, problems: list[str], *, is_killed: bool) -> Kill:
    run = folder / ".lockref" / "runs" / "latest"
    grants = _grants(folder / GRANTS)
    code, recorded, status = None, set(), ""
    if not run.exists():
        problems += ["grants, but no folder"] if grants else []
    else:
        status = status_of(run)
        code, told = _check(folder, run, is_killed=status == "killed")
        problems += told
        recorded = _recorded(run)
        if code == 5 and grants:
            problems.append(f"{len(grants)} grants, and check says that nothing was recorded")
        if status not in ("killed" if is_killed else "interrupted", "finished"):
            problems.append(f"run.json is told as {status!r}")
    lost = [at_ns for at_ns, name in grants if name not in recorded]
    missing = [at_ns for at_ns in lost if at_ns < killed_ns - LOST_MAX_NS]
    return Kill(
        code=code,
        status=status,
        grants=len(grants),
        recorded=len(recorded),
        missing=len(missing),
        oldest_lost_ns=max((killed_ns - at_ns for at_ns in lost), default=0),
        problems=tuple(problems),
    )


def _grants(log: Path) -> list[tuple[int, tuple[str, int]]]:
    """When, and owner and token, of every whole line."""
    lines = log.read_text(encoding="utf-8").split("\n")[:-1]
    return [(int(at), (owner, int(token))) for at, owner, token in (line.split(" ") for line in lines)]


def _recorded(run: Path) -> set[tuple[str, int]]:
    """The grants in the record: granted acquires, as the harness around the lock has written them down."""
    try:
        require_recorded(run)
        events, _, notes = load_history(run)
    except NothingRecorded:
        return set()
    assert not notes.damaged, "a killed run's record is cut off, not damaged"
    rows = events.select(["kind", "op", "outcome", "owner", "token"]).to_pylist()
    return {
        (row["owner"], row["token"])
        for row in rows
        if (row["kind"], row["op"], row["outcome"]) == ("return", "acquire", "applied")
    }


def _check(folder: Path, run: Path, *, is_killed: bool) -> tuple[int, list[str]]:
    """The exit code of `lockref check`, and what is wrong with its answer."""
    done = subprocess.run(
        [sys.executable, "-m", "lockref", "check", str(run), "--json"], cwd=folder, capture_output=True, text=True
    )
    problems = []
    if "Traceback" in done.stderr:
        problems.append(f"check: {done.stderr.strip().splitlines()[-1]}")
    if done.returncode == 5:
        if "before anything was recorded" not in done.stderr:
            problems.append(f"check: {done.stderr.strip()}")
    elif done.returncode not in (0, 3):
        problems.append(f"check ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    else:
        told = json.loads(done.stdout)
        if told["runs"] != 1 or is_killed != any("killed" in notice for notice in told["notices"]):
            problems.append(f"check does not say that the run was killed: {told['notices']}")
    return done.returncode, problems


def main(arguments: Sequence[str]) -> int:
    """Kill, print a line for each round and the sum; 1 if anything was missing or wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.quality.kills")
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1, help="draws the instants")
    parser.add_argument("--signal", choices=["KILL", "TERM", "INT"], default="KILL")
    chosen = parser.parse_args(arguments)
    draw = random.Random(chosen.seed)
    rounds = []
    for number in range(chosen.times):
        with tempfile.TemporaryDirectory(prefix="lockref-kill-") as folder:
            processes, phase = 1 + number % 2, PHASES[number // 2 % len(PHASES)]
            after_s, is_group = draw.uniform(0.0, SPAN_S), draw.random() < 0.5
            kill = kill_once(
                Path(folder),
                processes=processes,
                phase=phase,
                after_s=after_s,
                is_group=is_group,
                number=signal.Signals[f"SIG{chosen.signal}"],
            )
        rounds.append(kill)
        how = f"{processes} process(es), {'group' if is_group else 'alone'}, {phase} + {after_s:.2f} s"
        sys.stdout.write(f"{number + 1:4} {how}: {kill}\n")
        sys.stdout.flush()
    bad = [kill for kill in rounds if kill.missing or kill.problems]
    grants = [kill.grants for kill in rounds]
    sys.stdout.write(
        f"{len(rounds)} kills, {sum(count > 0 for count in grants)} of them after the first grant; "
        f"exit codes of check: {dict(Counter(str(kill.code) for kill in rounds))}; "
        f"{sum(grants):,} grants (median {statistics.median(grants):g}), "
        f"{sum(kill.missing for kill in rounds)} missing; "
        f"the oldest that the record lacks was {max(kill.oldest_lost_ns for kill in rounds) / 1e6:.1f} ms old; "
        f"{len(bad)} rounds with a problem\n"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
