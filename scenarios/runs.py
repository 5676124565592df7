"""Run folders: one for each run under `.lockref/runs`, failures under `.lockref/failures`.

A folder is readable at every moment: files appear whole (written beside and
renamed), `run.json` says "running" until the end, and `latest` points to the
newest folder that was begun. A run that still says so when its process is gone
was killed; the next command that begins a run writes that down.

Whether the process that writes a folder still lives is not decided by its
number alone, because the system reuses numbers. So `run.json` also holds the
start of the process, on Linux in ticks since a boot that has a name: the start
by the wall clock would move when that clock is set.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

import lockref
from lockref.atomic_files import write_atomically
from lockref.errors import ConfigError, NothingRecorded
from lockref.strict_json import NotJson, printable_json, read_object
from reports.history_files import HISTORIES, history_folders, is_unfinished
from scenarios import interrupts

HOME = Path(".lockref")

RUNS_MAX = 100
BYTES_MAX = 1_000_000_000

FOREIGN_MAX_S = 86_400
"""A run of another host counts as going on for so long: its processes cannot be asked from here."""

_RUN_NAME = re.compile(r"[0-9]{8}T[0-9]{6}-[a-z][a-z0-9-]*")

_GOING = ".removed-"
"""The begin of the name of a run folder that is being removed."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")


@cache
def commit() -> str:
    """The commit of the source tree, with `+dirty` where it has changes; empty outside a checkout."""
    root = Path(lockref.__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return ""
    try:
        head = subprocess.run(
            ["git", "-C", root, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, timeout=10
        )
        status = subprocess.run(
            ["git", "-C", root, "status", "--porcelain", "-uno"], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return head.stdout.strip() + ("+dirty" if status.stdout.strip() else "")


def provenance(arguments: Mapping[str, object]) -> dict[str, object]:
    """The provenance of a run, for running it again: versions, commit, machine, arguments, the command for a shell."""
    return {
        "lockref": lockref.__version__,
        "commit": commit(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "arguments": dict(arguments),
        "command": shlex.join(["lockref", *sys.argv[1:]]),
        "started_utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


@dataclass(slots=True)
class RunFolder:
    """One run's folder. Left as a context by an exception, it says "interrupted" or "failed" itself.

    about: what `run.json` says.
    """

    path: Path
    about: dict[str, object] = field(default_factory=dict)

    @classmethod
    def begin(
        cls,
        command: str,
        about: Mapping[str, object],
        *,
        home: Path = HOME,
        tell: Callable[[str], None] = lambda _text: None,
    ) -> RunFolder:
        """Make the folder, write `run.json` with status "running" and point `latest` at it.

        tell: called with each earlier run that was killed and has something to judge, and with what was removed.
        """
        runs = home / "runs"
        runs.mkdir(parents=True, exist_ok=True)
        for killed in note_killed(runs):
            if any(is_unfinished(part) for part in (killed, *killed.glob("*/"))):
                tell(f"an earlier run was killed: `lockref check {killed}` judges what it had recorded")
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        number = 0
        while True:
            path = runs / (f"{stamp}-{command}" if number == 0 else f"{stamp}-{command}-{number}")
            try:
                path.mkdir()
                break
            except FileExistsError:
                number += 1
        folder = cls(path, dict(about))
        folder._start(tell)
        return folder

    @classmethod
    def resume(cls, path: Path, about: Mapping[str, object]) -> RunFolder:
        """Go on in the folder of a command that did not finish; `unfinished_runs` finds it."""
        folder = cls(path, dict(about))
        folder._start()
        return folder

    @classmethod
    def at(cls, path: Path, about: Mapping[str, object]) -> RunFolder:
        """Begin, or go on, in a folder that the user chose. It is none of `.lockref/runs`: nothing is pruned for it.

        Raises ConfigError for a path that is no folder, and while another process writes it.
        """
        if path.exists() and not path.is_dir():
            raise ConfigError(f"{path} is a file; results and chunks need a folder")
        if status_of(path) == "running":
            raise ConfigError(f"{path}: another command writes there (its number is {run_json(path).get('pid')})")
        path.mkdir(parents=True, exist_ok=True)
        folder = cls(path, dict(about))
        folder.describe(status="running", **myself())
        return folder

    def _start(self, tell: Callable[[str], None] = lambda _text: None) -> None:
        runs = self.path.parent
        number = 1 + max((_number_of(path) or 0 for path in runs.iterdir()), default=0)
        self.describe(status="running", number=number, **myself())
        link = runs / f".latest.{os.getpid()}"
        link.unlink(missing_ok=True)
        link.symlink_to(self.path.name)
        link.replace(runs / "latest")
        prune(runs, keep=self.path, tell=tell)

    def describe(self, **facts: object) -> None:
        """Add to what `run.json` says."""
        with interrupts.deferred():
            self.about.update(facts)
            if self.about.get("status") != "running":
                self.about.pop("step", None)
            write_atomically(
                self.path / "run.json", printable_json(json.dumps(self.about, indent=2, default=str)) + "\n"
            )

    def begin_step(self, text: str, *, lasting_ns: int = 0) -> None:
        """Write down which step of the job begins, and for how many nanoseconds; 0 where nobody knows. For whoever
        watches: `run.json` names the step while the run goes on.
        """
        self.describe(step={"text": text, "lasting_ns": lasting_ns})

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, KeyboardInterrupt):
            # Also if the run had finished and the signal came while its results were printed: the command exits so.
            self.describe(status="interrupted", exit_code=interrupts.EXIT_CODE)
        elif error is not None:
            self.describe(status="failed")

    def part(self, name: str) -> RunFolder:
        """A folder inside this one, for one scenario of several."""
        part = RunFolder(self.path / name)
        part.path.mkdir(exist_ok=True)
        return part

    def write(self, name: str, text: str) -> Path:
        """Write one file of the folder whole."""
        write_atomically(self.path / name, text)
        return self.path / name


def require_recorded(folder: Path) -> None:
    """Raise NothingRecorded for the folder of a run that ended early and left nothing to judge, in it or in a part."""
    is_run = (folder / "run.json").exists() and status_of(folder) != "finished"
    if is_run and not history_folders(folder):
        raise nothing_recorded(folder)


def open_run(name: str, *, home: Path = HOME) -> RunFolder:
    """A run folder by path, by name, or `latest`; any with a history will do. Raises ConfigError if there is none."""
    for candidate in (Path(name), home / "runs" / name):
        if any((candidate / file).exists() for file in ("run.json", *HISTORIES)):
            return RunFolder(candidate.resolve())
    raise ConfigError(f"{name!r} is no run folder; `lockref runs list` shows what there is")


def recorded_runs(*, home: Path = HOME) -> list[Path]:
    """The folders of the runs that are kept, the newest first."""
    runs = home / "runs"
    found = [(number, path.name, path) for path in runs.glob("*/") if (number := _number_of(path)) is not None]
    return [path for _, _, path in sorted(found, reverse=True)]


def run_json(folder: Path) -> dict[str, Any]:
    """The content of a folder's `run.json`; nothing where it cannot be read."""
    return _about(folder) or {}


def unfinished_runs(command: str, arguments: Mapping[str, object], *, home: Path = HOME) -> list[Path]:
    """The folders of this command with these arguments that were cut short since it last came to an end, newest first.

    Killed or interrupted: a run that ended by itself, also with an error, is over, and one whose process lives goes on.
    """
    wanted = json.loads(json.dumps(arguments, default=str))
    found = []
    for folder in sorted((home / "runs").glob(f"*-{command}*"), reverse=True):
        about = _about(folder)
        if about is None:
            continue
        if about.get("arguments") == wanted and not is_written(about):
            if about.get("status") in ("finished", "failed"):
                break
            found.append(folder)
    return found


def finished_runs(command: str, *, home: Path = HOME) -> list[Path]:
    """The folders of this command's runs that came to their end, newest first."""
    folders = [path for path in (home / "runs").glob(f"*-{command}*") if not path.is_symlink()]
    ended = {path: about for path in folders if (about := _about(path)) and about.get("status") == "finished"}
    return sorted(ended, key=lambda path: (_number_of(path) or 0, path.name), reverse=True)


def note_killed(runs: Path) -> list[Path]:
    """Write "killed" into the `run.json` of every run that says "running" and whose process is gone; those runs."""
    found = []
    for path in runs.glob("*/run.json"):
        folder = path.parent
        if not folder.is_symlink() and status_of(folder) == "killed":
            about = _about(folder)
            if about is not None and about.get("status") != "killed":
                RunFolder(folder, about).describe(status="killed")
                found.append(folder)
    return found


def prune(runs: Path, *, keep: Path, tell: Callable[[str], None] = lambda _text: None) -> None:
    """Remove the oldest runs beyond 100 runs or 1 GB; never `keep`, nor one that is being written.

    A run is a folder with a name of ours and a `run.json` of ours. How old it is the number in `run.json` says, which
    rises from run to run. Rejected: an age in days, and the order of names. A clock that jumps makes every run old.
    tell: called with what was removed.
    """
    found = [(number, path.name, path) for path in runs.iterdir() if (number := _number_of(path)) is not None]
    others = [path for _, _, path in sorted(found, reverse=True) if path != keep]
    sweep_removed(runs)
    total = size_of(keep)
    removed = []
    for position, folder in enumerate(others):
        total += size_of(folder)
        # The newest one is what its user has just seen, however big it is.
        is_surplus = position + 1 >= RUNS_MAX or (position > 0 and total > BYTES_MAX)
        if is_surplus and status_of(folder) != "running":
            with suppress(OSError):
                if remove_run(folder):
                    removed.append(folder.name)
    if removed:
        what = f"the run {removed[0]}" if len(removed) == 1 else f"{len(removed)} runs, {removed[-1]} to {removed[0]}"
        tell(f"removed {what}: only the newest {RUNS_MAX} runs and {BYTES_MAX // 10**9} GB stay; copy what you need")


def remove_run(folder: Path) -> bool:
    """Remove one run folder, so that it is there whole at every moment, or not at all.

    A folder of thousands of files does not go at once. So it gets a name that no run has, in one step, and is emptied
    under that name. Returns False where it was gone already: another command may remove it, too.
    Errors: OSError where it may not be removed; then the run is still there, whole.
    """
    going = folder.with_name(f"{_GOING}{folder.name}-{os.getpid()}")
    try:
        folder.rename(going)
    except FileNotFoundError:
        return False
    # What cannot be removed now, the next removal tries again: the run is gone for every reader.
    shutil.rmtree(going, ignore_errors=True)
    return True


def sweep_removed(runs: Path) -> None:
    """Remove what interrupted removals left in the folder of runs."""
    for left in runs.glob(f"{_GOING}*"):
        shutil.rmtree(left, ignore_errors=True)


def _number_of(path: Path) -> int | None:
    """The number of a run; 0 for one that was made before runs had numbers; None for what is no run of ours."""
    if not _RUN_NAME.fullmatch(path.name) or path.is_symlink():
        return None
    about = _about(path)
    if about is None or "status" not in about:
        return None
    number = about.get("number", 0)
    return number if isinstance(number, int) else 0


def _about(folder: Path) -> dict[str, Any] | None:
    """The content of a folder's `run.json`; None if it cannot be read."""
    try:
        return read_object((folder / "run.json").read_bytes(), unique_names=True)
    except (OSError, NotJson):
        return None


def size_of(folder: Path) -> int:
    """The bytes of all files of a run folder."""
    total = 0
    for file in folder.rglob("*"):
        # Another command may remove it, or its run replace a file.
        with suppress(FileNotFoundError):
            total += file.stat().st_size if file.is_file() else 0
    return total


def myself() -> dict[str, object]:
    """The entry of `run.json` about the process that writes the folder."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "process_started": _started(os.getpid())}


def is_written(about: Mapping[str, object], *, age_s: float = 0.0) -> bool:
    """True while the process that `run.json` names lives and has not ended the run.

    age_s: since `run.json` was written; decides for another host's runs.
    """
    if about.get("status") != "running":
        return False
    pid = about.get("pid")
    if not isinstance(pid, int):
        return False
    if about.get("host") != socket.gethostname():
        return age_s < FOREIGN_MAX_S
    return _started(pid) == about.get("process_started")


def _started(pid: int) -> str:
    """When the process began, in words that are equal for the same process only; empty if there is none."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return ""
        if _BOOT.exists():
            # The name of the program is in brackets and may hold anything; the 20th field after it is the start.
            ticks = (
                Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
            )
            return f"{_BOOT.read_text().strip()}+{ticks}"
        return repr(process.create_time())
    except (psutil.Error, OSError, IndexError):
        return ""


def status_of(folder: Path) -> str:
    """The status of the run in a folder, or of the run that the folder is a part of: as `run.json` says, or "killed".

    "running" is said of a run whose process lives; empty where nothing is known.
    """
    if not (folder / "run.json").exists() and (folder / "results.json").exists():
        # A part writes its results when it is over, however long the others go on.
        return "finished"
    for place in (folder, folder.parent):
        about = _about(place)
        try:
            age_s = time.time() - (place / "run.json").stat().st_mtime
        except OSError:
            continue
        if about is None:
            continue
        status = str(about.get("status", ""))
        return "killed" if status == "running" and not is_written(about, age_s=age_s) else status
    return ""


_ENDS = {
    "killed": "was killed: its process ended without a word",
    "running": "is not over yet",
    "interrupted": "was interrupted",
    "failed": "ended with an error",
}


def end_of(folder: Path) -> str:
    """One sentence about a run that did not finish; empty for one that did, and where nothing is known."""
    words = _ENDS.get(status_of(folder))
    return f"the run {words}" if words else ""


def nothing_recorded(folder: Path) -> NothingRecorded:
    """The error for a folder in which a run left nothing to judge."""
    return NothingRecorded(f"{folder}: {end_of(folder) or 'the run ended'} before anything was recorded; run it again")
