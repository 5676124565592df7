"""Who writes a run folder, and does that process still live?

A process number is not enough, because the system reuses numbers. So the start of
the process is kept besides, on Linux in ticks since a boot that has a name,
because the start by the wall clock moves when that clock is set.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from lockref.errors import NothingRecorded

FOREIGN_MAX_S = 86_400
"""So long a run of another host counts as going on: its processes cannot be asked from here."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def myself() -> dict[str, object]:
    """What `run.json` says of the process that writes the folder."""
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
    """How the run of a folder, or of the one that it is a part of, ended: as `run.json` says, or "killed".

    "running" is said of a run whose process lives; empty where nothing is known.
    """
    if not (folder / "run.json").exists() and (folder / "results.json").exists():
        # A part writes its results when it is over, however long the others go on.
        return "finished"
    for place in (folder, folder.parent):
        path = place / "run.json"
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
            age_s = time.time() - path.stat().st_mtime
        except (OSError, ValueError):
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
