"""A report that is killed leaves no half page, no JVM, and nothing that stops the next one."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from lockref import host_processes
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
    command = [sys.executable, "-m", "lockref", "report", str(folder), "--spark"]
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
@pytest.mark.skipif(not host_processes.own_mark(), reason="this platform does not name its processes")
def test_what_a_killed_report_and_its_jvm_leave_is_removed_by_the_next_one(tmp_path: Path) -> None:
    """Spark's folder, where its JVM is killed, too; the next report of the run removes it and says so."""
    place = tmp_path / "run" / "analysis" / "spark"
    with started_report(tmp_path) as report:
        wait_for(report, lambda: list(place.glob("lockref-spark-*/local/*")))
        for process in [*psutil.Process(report.pid).children(recursive=True), report]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
    (left,) = place.iterdir()
    done = subprocess.run(command_of(tmp_path), cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"removed what a killed command had left: {left}" in done.stdout
    assert list(place.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize("begun", ["spark/lockref-spark-*/home/bin", "spark/lockref-spark-*/local/*", "tables"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_report_ends_with_its_jvm_and_leaves_nothing_of_spark(
    tmp_path: Path, begun: str, number: int
) -> None:
    """While the JVM starts, in the first jobs, and amid the pipeline: exit 130, one word about it, no half page."""
    analysis = tmp_path / "run" / "analysis"
    with started_report(tmp_path) as report:
        wait_for(report, lambda: list(analysis.glob(begun)))
        children = psutil.Process(report.pid).children(recursive=True)
        report.send_signal(number)
        said = report.communicate(timeout=300)[0]
    assert report.returncode == 130
    assert "interrupted: the page was not written anew" in said
    assert "Traceback" not in said
    assert "Exception" not in said
    assert psutil.wait_procs(children, timeout=60)[1] == []
    assert list((analysis / "spark").iterdir()) == []
    assert not (tmp_path / "run" / "report.html").exists()


@pytest.mark.long
def test_a_second_signal_ends_a_report_that_does_not_answer_the_first(tmp_path: Path) -> None:
    """The first one is passed on, and the user is told; the second one ends the command and its JVM in any case."""
    with started_report(tmp_path) as report:
        assert report.stdout is not None
        wait_for(report, (tmp_path / "run" / "analysis" / "tables").exists)
        (command,) = psutil.Process(report.pid).children()
        children = [command, *command.children(recursive=True)]
        command.suspend()
        report.send_signal(signal.SIGINT)
        for line in report.stdout:
            if "a second signal ends it at once" in line:
                report.send_signal(signal.SIGINT)
                break
        said = report.communicate(timeout=300)[0]
    assert (report.returncode, "a second signal ended it at once" in said) == (130, True)
    assert psutil.wait_procs(children, timeout=60)[1] == []
    assert not (tmp_path / "run" / "report.html").exists()


def command_of(place: Path) -> list[str]:
    return [sys.executable, "-m", "lockref", "report", str(place / "run"), "--spark"]


def started_report(place: Path) -> subprocess.Popen[str]:
    """A report of a short run, with what it says in its standard output."""
    outcome = run_real(
        load_scenario("contention"), load_provider("hardened"), "memory:", clients=3, duration_ns=NS_PER_S
    )
    write_history(place / "run", outcome.events, outcome.runs)
    return subprocess.Popen(command_of(place), cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for(report: subprocess.Popen[str], is_so: Callable[[], object]) -> None:
    """Wait until it is so; the report must still be under way."""
    while not is_so():
        assert report.poll() is None
        time.sleep(0.02)


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
    command = [sys.executable, "-m", "lockref", "report", str(folder), "--spark"]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "was killed" in (folder / "report.html").read_text(encoding="utf-8")
    assert (folder / "recording" / "0.0.rows").exists()
    assert not (folder / "events.parquet").exists()


AT_ITS_END = """
import socketserver
from reports.spark import session

session._at_exit()
with socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler) as server:
    try:
        raise EOFError
    except EOFError:
        server.handle_error(None, ("127.0.0.1", 0))
"""


def test_the_end_of_a_report_prints_no_traceback_of_pysparks() -> None:
    """The JVM is killed while pyspark may be hearing from one of its tasks: a report that was whole ended so."""
    done = subprocess.run([sys.executable, "-c", AT_ITS_END], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
