"""Commands that stand on a test server, killed for good: no process stays, and the next command clears up."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from lockref import host_processes

pytestmark = [pytest.mark.realbackend, pytest.mark.long]

BEGINS_S = 120
ENDS_S = 30
PROGRAM = [sys.executable, "-c", "import time; time.sleep(600)"]
SERVER = ["--backend", "moto", "--for", "300s"]
WIRE = ["wire", "--tls", *SERVER, "--clients", "2", "--protects", "state/*", "--", *PROGRAM]
BENCH = ["bench", "contention", *SERVER, "--contenders", "2", "--processes", "2"]


def processes_with(place: Path) -> list[psutil.Process]:
    """Those that live and whose folder for temporary files this is."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("TMPDIR") == str(place) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def within(seconds: float, is_so: Callable[[], object]) -> bool:
    """True once it is so; False if it is not by then."""
    end_s = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.skipif(not host_processes.own_mark(), reason="this platform does not name its processes")
@pytest.mark.parametrize("is_alone", [True, False], ids=["the command alone", "all of its processes"])
@pytest.mark.parametrize(
    ("command", "sign"),
    [(WIRE, "lockref-moto-*"), (WIRE, "lockref-wire-*/n2"), (BENCH, "lockref-moto-*/data-*")],
    ids=["wire, its server starts", "wire, its programs run", "bench"],
)
def test_no_process_stays_and_the_next_command_clears_up(
    command: list[str], sign: str, is_alone: bool, tmp_path: Path
) -> None:
    """The server, the programs under test and the workers end with their parent; folders go by the next command."""
    place = tmp_path / "tmp"
    place.mkdir()
    environment = {**os.environ, "TMPDIR": str(place)}
    here = [sys.executable, "-m", "lockref"]
    with (tmp_path / "output").open("w") as output:
        killed = subprocess.Popen(
            [*here, *command], cwd=tmp_path, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        assert within(BEGINS_S, lambda: list(place.glob(sign)) or killed.poll() is not None)
        assert killed.poll() is None, (tmp_path / "output").read_text()
        for process in [killed] if is_alone else processes_with(place):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        killed.wait()
        assert within(ENDS_S, lambda: not processes_with(place)), processes_with(place)
    finally:
        for process in processes_with(place):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
    left = sorted(place.glob("lockref-*"))
    told = subprocess.run(
        [*here, "providers", "--help"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert list(place.glob("lockref-*")) == []
    assert all(str(folder) in told.stderr for folder in left)
    assert bool(left) == bool(told.stderr)
    assert left or is_alone, "what is killed with its guards leaves its folders"
