"""Processor time and memory of the writers' processes, sampled while they run."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import psutil

from lockref.runtime import ThreadRuntime

EVERY_S: Final = 1.0


@dataclass(slots=True)
class Usage:
    """Of one client, with all that it has started. cpu_s: processor seconds. rss_max: the most memory, in bytes."""

    cpu_s: float = 0.0
    rss_max: int = 0


class ProcessWatch:
    """Samples the processes that say in their logs that they are there. A context manager.

    logs: the folder in which each JVM writes `process` with its pid.
    """

    def __init__(self, logs: Path, runtime: ThreadRuntime) -> None:
        self._logs = logs
        self._over = threading.Event()
        self._cpu_s: dict[tuple[str, int], float] = {}
        self.usage: dict[str, Usage] = {}
        self._thread = threading.Thread(target=self._watch, name="usage", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(EVERY_S):
            for client, pid in self._processes():
                self._sample(client, pid)

    def _processes(self) -> list[tuple[str, int]]:
        found = []
        for path in sorted(self._logs.glob("*-jvm.jsonl")):
            for line in path.read_text(encoding="utf-8").splitlines():
                told = json.loads(line)
                if told.get("event") == "process":
                    found.append((told["client"], told["pid"]))
        return found

    def _sample(self, client: str, pid: int) -> None:
        usage = self.usage.setdefault(client, Usage())
        try:
            process = psutil.Process(pid)
            members = [process, *process.children(recursive=True)]
            rss = 0
            for member in members:
                with member.oneshot():
                    rss += member.memory_info().rss
                    times = member.cpu_times()
                self._cpu_s[client, member.pid] = times.user + times.system
        except psutil.NoSuchProcess:
            # It has ended; what it had used at its last sample stands.
            return
        usage.rss_max = max(usage.rss_max, rss)
        usage.cpu_s = sum(spent for (name, _), spent in self._cpu_s.items() if name == client)
