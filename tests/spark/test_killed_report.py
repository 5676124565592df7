"""A report that is killed leaves no half page, no JVM, and nothing that stops the next one."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from lockref.java import search_java
from lockref.lab.loading import load_provider
from lockref.runtime import NS_PER_S
from reports.history_files import write_history
from scenarios.definition.load import load_scenario
from scenarios.run import run_real

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.skipif(search_java().home is None, reason="no Java"),
]


@pytest.mark.long
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kill -9 is POSIX")
def test_a_killed_report_leaves_nothing_that_looks_finished(tmp_path: Path) -> None:
    """SIGKILL in the middle of the pipeline: no page; the JVM goes; the next `report` writes the page."""
    outcome = run_real(
        load_scenario("contention"), load_provider("hardened"), "memory:", clients=3, duration_ns=NS_PER_S
    )
    folder = tmp_path / "run"
    write_history(folder, outcome.events, outcome.runs)
    command = [sys.executable, "-m", "lockref", "report", str(folder)]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as report:
        while not (folder / "analysis" / "tables").exists():
            assert report.poll() is None
            time.sleep(0.02)
        children = psutil.Process(report.pid).children(recursive=True)
        report.kill()
    assert children
    assert psutil.wait_procs(children, timeout=60)[1] == []
    assert not (folder / "report.html").exists()
    assert subprocess.run(command, cwd=tmp_path, check=False, capture_output=True).returncode == 0
    assert (folder / "report.html").read_text(encoding="utf-8").rstrip().endswith("</html>")


@pytest.mark.long
def test_a_killed_bench_has_a_report(tmp_path: Path) -> None:
    """The page of a folder that holds only what a killed run had recorded; the folder's record stays as it is."""
    folder = tmp_path / "run"
    folder.mkdir()
    run_real(
        load_scenario("contention"),
        load_provider("hardened"),
        "memory:",
        clients=3,
        duration_ns=NS_PER_S,
        folder=folder,
    )
    (folder / "run.json").write_text('{"status": "killed"}')
    command = [sys.executable, "-m", "lockref", "report", str(folder)]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "was killed" in (folder / "report.html").read_text(encoding="utf-8")
    assert (folder / "recording" / "0.0.rows").exists()
    assert not (folder / "events.parquet").exists()
