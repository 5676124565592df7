"""A real standalone cluster on loopback, from pyspark's own distribution: a master, and workers that can be killed."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

PATIENCE_S = 240


@dataclass(slots=True)
class Cluster:
    """A running cluster. address: of the master. folder: where its processes stand and log."""

    address: str
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def executors(self) -> list[psutil.Process]:
        """The processes of executors, each the child of a worker."""
        found = []
        for process in self.processes[1:]:
            if process.poll() is not None:
                continue
            for child in psutil.Process(process.pid).children(recursive=True):
                # It may end while it is looked at.
                with suppress(psutil.Error):
                    if any("CoarseGrainedExecutorBackend" in word for word in child.cmdline()):
                        found.append(child)
        return found


@contextmanager
def cluster(folder: Path, *, workers: int = 2, environment: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """Start it, and end every process of it."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = Path(spec.origin).parent
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    made = Cluster(f"spark://127.0.0.1:{port}", folder)
    variables = {**os.environ, **(environment or {}), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(home)}
    variables.pop("PYTHONPATH", None)

    def start(name: str, *arguments: str) -> None:
        log = (folder / f"{name}.log").open("wb")
        made.processes.append(
            subprocess.Popen(
                [str(home / "bin" / "spark-class"), *arguments],
                cwd=folder, env=variables, stdout=log, stderr=log, start_new_session=True,
            )
        )  # fmt: skip
        log.close()

    try:
        package = "org.apache.spark.deploy"
        start("master", f"{package}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        _await(folder / "master.log", r"I have been elected leader|New state: ALIVE")
        for number in range(workers):
            start(
                f"worker-{number}", f"{package}.worker.Worker", "-c", "1", "-m", "1g", "-h", "127.0.0.1",
                "--webui-port", "0", "-d", str(folder / f"work-{number}"), made.address,
            )  # fmt: skip
        for number in range(workers):
            _await(folder / f"worker-{number}.log", r"Successfully registered with master")
        yield made
    finally:
        for process in made.processes:
            for child in [*psutil.Process(process.pid).children(recursive=True)] if process.poll() is None else []:
                child.kill()
            process.kill()
            process.wait()


def _await(log: Path, words: str) -> None:
    ends_at = time.monotonic() + PATIENCE_S
    while not re.search(words, log.read_text(errors="replace")):
        assert time.monotonic() < ends_at, log.read_text(errors="replace")[-2000:]
        time.sleep(0.1)
