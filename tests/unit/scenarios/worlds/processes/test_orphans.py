"""Worker processes end with a parent that is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

_POOL = """
import multiprocessing, os, sys, time
from concurrent.futures import ProcessPoolExecutor
from scenarios.worlds.processes.orphans import end_with_parent
if __name__ == "__main__":
    pool = ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"), initializer=end_with_parent)
    busy = [pool.submit(time.sleep, 600) for _ in range(2)]
    print(*pool._processes, flush=True)
    FORK
    sys.stdin.read()
"""
_FORK = "_ = os.fork() or (os.close(1), time.sleep(600))"


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kill -9 is POSIX")
@pytest.mark.parametrize("also", ["pass", _FORK], ids=["alone", "beside a fork that holds the pipe"])
def test_workers_do_not_outlive_a_parent_that_is_killed(also: str, tmp_path: Path) -> None:
    """`kill -9` of the parent ends its pool of busy workers, also where a forked process keeps the parent's pipes."""
    script = tmp_path / "parent.py"
    script.write_text(_POOL.replace("FORK", also))
    with subprocess.Popen([sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        workers = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
        # The fork and the resource tracker: ours to end, too.
        others = [child for child in psutil.Process(parent.pid).children() if child not in workers]
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    try:
        assert len(workers) == 2
        assert psutil.wait_procs(workers, timeout=30)[1] == []
    finally:
        for process in [*workers, *others]:
            if process.is_running():
                process.kill()
