"""Kill campaigns at random instants and ask what was lost: `python -m tests.quality.campaign_kills --rounds 6`.

One campaign runs undisturbed. Each round runs the same one in a new folder and kills a part of it with SIGKILL, at an
instant that a seeded generator draws: the command, the command with its whole group, a worker process, the process
around the lock, or, on Spark (`--master 'local[2]'`), the JVM or a Python worker. A command that ends without an answer
is started again with `--resume`. Then the round wants:

- digest, runs, verdict, clauses and failures of the undisturbed campaign, and the same kept histories;
- an account for each chunk, and every seed in exactly one of them;
- no process of the killed command alive.

Rounds that find no process of the wanted kind before the campaign ends are told as void, and prove nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from lockref.errors import LockrefError
from reports.history_files import load_history
from scenarios.campaigns.account import read_account
from scenarios.campaigns.chunks import account_name, committed_chunks
from scenarios.campaigns.identity import read_identity
from scenarios.campaigns.places import FolderPlace
from tests.docs import ROOT

PATIENCE_S: Final = 600
ALIKE: Final = ("digest", "runs", "verdict", "clauses", "failures", "exit_code")
DEFECT: Final = LockrefError.exit_code
VICTIMS: Final = ("command", "group", "worker", "shelter")
SPARK_VICTIMS: Final = ("command", "group", "jvm", "python", "shelter")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a campaign left: its document without what may differ, and the events of each kept run."""

    told: dict[str, Any]
    kept: dict[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one round showed. committed: chunks that stood when the first command was over; None where it went on."""

    victim: str
    after_s: float
    is_void: bool
    code: int
    committed: int
    problems: tuple[str, ...]

    def __str__(self) -> str:
        what = "void: nothing to kill" if self.is_void else f"first command {self.code}, {self.committed} chunks"
        return "; ".join((f"{self.victim} after {self.after_s:.1f} s: {what}", *self.problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """The campaign that is killed. more: the options of its executor."""

    scenario: str
    provider: str
    seeds: int
    more: Sequence[str]

    def line(self, out: str, *further: str) -> list[str]:
        """The command, with its chunks in `out`."""
        return [
            sys.executable, "-m", "lockref", "campaign", self.scenario, "--provider", self.provider,
            "--seeds", f"1..{self.seeds}", "--shrink-for", "0s", "--json", "--out", out, *self.more, *further,
        ]  # fmt: skip

    def begin(self, folder: Path, *further: str) -> subprocess.Popen[bytes]:
        """Start the command, with a group of its own; its chunks are in `folder/c`."""
        with (folder / "out.json").open("wb") as out, (folder / "err.txt").open("ab") as err:
            return subprocess.Popen(
                self.line("c", *further), cwd=folder, stdout=out, stderr=err, start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip


def outcome_in(folder: Path) -> Outcome:
    """What a finished campaign left below `folder`."""
    told = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    events, runs, _ = load_history(folder / "c")
    counts = dict.fromkeys(runs["run"].to_pylist(), 0)
    for run in events["run"].to_pylist():
        counts[run] += 1
    return Outcome(told={name: told.get(name) for name in ALIKE}, kept=counts)


def undisturbed(campaign: Campaign, folder: Path) -> tuple[Outcome, float]:
    """The campaign in one go, and the seconds that it took."""
    began = time.monotonic()
    code = campaign.begin(folder).wait(PATIENCE_S)
    assert code in (0, 1, 3, 4), (folder / "err.txt").read_text(encoding="utf-8")
    return outcome_in(folder), time.monotonic() - began


def kill_once(campaign: Campaign, folder: Path, expected: Outcome, *, victim: str, after_s: float) -> Round:
    """One round: start, kill `victim` after so many seconds or as soon as there is one, go on, and compare."""
    begun = campaign.begin(folder)
    family = _Family(begun.pid)
    began = time.monotonic()
    is_killed = False
    while begun.poll() is None and not is_killed:
        family.look()
        if time.monotonic() - began >= after_s:
            is_killed = family.kill(victim)
        time.sleep(0.02)
    code = begun.wait(PATIENCE_S)
    place = FolderPlace(folder / "c")
    committed = len(committed_chunks(place))
    problems = []
    if alive := family.left():
        problems.append(f"alive after its end: {alive}")
    if code == DEFECT:
        problems.append(f"a defect: {(folder / 'err.txt').read_text(encoding='utf-8')[-2000:]}")
    if code not in (0, 1, 3, 4):
        code_then = campaign.begin(folder, "--resume").wait(PATIENCE_S)
        if code_then not in (0, 1, 3, 4):
            said = (folder / "err.txt").read_text(encoding="utf-8")[-2000:]
            problems.append(f"--resume ended with {code_then}: {said}")
    if not any("--resume" in problem for problem in problems):
        problems += differences(expected, outcome_in(folder), place)
    return Round(
        victim=victim, after_s=after_s, is_void=not is_killed, code=code, committed=committed, problems=tuple(problems)
    )


def differences(expected: Outcome, found: Outcome, place: FolderPlace) -> list[str]:
    """What differs from the undisturbed campaign, and seeds that are in no account or in two."""
    told = [
        f"{name}: {found.told[name]!r:.300}, and undisturbed {expected.told[name]!r:.300}"
        for name in ALIKE
        if found.told[name] != expected.told[name]
    ]
    if found.kept != expected.kept:
        told.append(f"kept histories: {sorted(found.kept)}, and undisturbed {sorted(expected.kept)}")
    identity = read_identity(place)
    assert identity is not None, "a campaign that ended has an identity"
    seeds: list[int] = []
    for number in committed_chunks(place):
        account = read_account(place.read(account_name(number)) or b"", campaign=identity.digest, chunk=number)
        seeds += range(account.seeds[0], account.seeds[1] + 1)
    if sorted(seeds) != list(range(*identity.seeds)):
        told.append(f"the accounts tell {len(seeds)} seeds of {identity.seeds[1] - identity.seeds[0]}")
    return told


class _Family:
    """The processes of one command, as far as they were seen, and what each is."""

    def __init__(self, pid: int) -> None:
        self._first = psutil.Process(pid)
        self._seen: dict[int, psutil.Process] = {pid: self._first}

    def look(self) -> None:
        """Note the processes that there are now."""
        with suppress(psutil.NoSuchProcess):
            for each in self._first.children(recursive=True):
                self._seen.setdefault(each.pid, each)

    def kill(self, victim: str) -> bool:
        """Kill one process of a kind; False while there is none."""
        if victim == "group":
            return sum(_killed(each) for each in self._living()) > 0
        if victim == "command":
            return _killed(self._first)
        return any(_killed(each) for each in self._living() if self._kind(each) == victim)

    def _living(self) -> list[psutil.Process]:
        self.look()
        return [each for each in self._seen.values() if each.is_running()]

    def _kind(self, process: psutil.Process) -> str:
        with suppress(psutil.Error):
            line = " ".join(process.cmdline())
            above = process.parent()
            line_above = "" if above is None else " ".join(above.cmdline())
            if "org.apache.spark.deploy.SparkSubmit" in line:
                return "jvm"
            if "reports.spark.daemon" in line:
                # The daemon is a child of the JVM, its workers are forked from it, and the lock's process from these.
                depth = sum("reports.spark.daemon" in " ".join(each.cmdline()) for each in process.parents())
                return ("daemon", "python", "shelter")[min(depth, 2)]
            if "spawn_main" in line:
                return "shelter" if "spawn_main" in line_above else "worker"
        return ""

    def left(self) -> list[str]:
        """The command lines of processes that live a minute after the command's end; they are killed then."""
        _, alive = psutil.wait_procs(list(self._seen.values()), timeout=60)
        told = []
        for each in alive:
            with suppress(psutil.Error):
                # Somebody has only not asked yet how it ended.
                if each.status() == psutil.STATUS_ZOMBIE:
                    continue
                told.append(" ".join(each.cmdline())[:200])
                each.kill()
        return told


def _killed(process: psutil.Process) -> bool:
    try:
        process.send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess:
        return False
    return True


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(given: Sequence[str] | None = None) -> int:
    """Run the rounds; 1 if any showed a problem, or none killed anything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--scenario", default="e08")
    parser.add_argument("--provider", default="hudi")
    parser.add_argument("--seeds", type=int, default=400)
    parser.add_argument("--master", help="on Spark; default two processes")
    parser.add_argument("--seed", type=int, default=1, help="of the instants and victims")
    asked = parser.parse_args(given)
    draws = random.Random(asked.seed)
    campaign = Campaign(
        scenario=asked.scenario, provider=asked.provider, seeds=asked.seeds,
        more=("--master", asked.master) if asked.master else ("--jobs", "2"),
    )  # fmt: skip
    victims = SPARK_VICTIMS if asked.master else VICTIMS
    rounds = []
    with tempfile.TemporaryDirectory(prefix="lockref-campaign-kills-") as name:
        root = Path(name)
        (root / "whole").mkdir()
        expected, took_s = undisturbed(campaign, root / "whole")
        _say(f"undisturbed: {took_s:.1f} s, digest {expected.told['digest']}")
        for number in range(asked.rounds):
            folder = root / f"round-{number}"
            folder.mkdir()
            found = kill_once(
                campaign, folder, expected, victim=victims[number % len(victims)], after_s=draws.uniform(0, took_s)
            )
            rounds.append(found)
            _say(f"{number + 1}: {found}")
    killed = [each for each in rounds if not each.is_void]
    bad = [each for each in rounds if each.problems]
    _say(f"{len(killed)} of {len(rounds)} rounds killed something; {len(bad)} showed a problem")
    return 1 if bad or not killed else 0


if __name__ == "__main__":
    sys.exit(main())
