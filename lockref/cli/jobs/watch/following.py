"""A run followed from beside: its folder is looked at again and again until the run is over, and then judged.

Whether a run goes on is asked of `run.json`, which names its process, and of the machine (`scenarios.runs.status_of`).
A folder without one has a writer that nobody names, such as a recorder in another language: it is over when nothing was
written for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lockref.cli.jobs.checking import judged_parts
from lockref.cli.jobs.shown.results import say_results
from lockref.cli.jobs.watch.parts import Finished, Part, part_folders, part_of
from lockref.cli.jobs.watch.telling import Pace, Telling, left_ns
from lockref.errors import ConfigError
from lockref.lab.spool import SPOOL, spooled_span
from lockref.runtime import NS_PER_S, ThreadRuntime
from reports.formats.exit_codes import code_of
from scenarios.interrupts import raise_if_heard
from scenarios.runs import open_run, run_json, size_of, status_of

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console

RUNNING: Final = "running"

QUIET_NS: Final = 10 * NS_PER_S
"""A folder without run.json to which nothing was written for so long is over."""


@dataclass(slots=True)
class _Watched:
    """The parts of a folder so far, and since when each is watched.

    began: by part, when it was first seen, and how many units it had then.
    """

    folder: Path
    about: Mapping[str, Any]
    now_ns: Callable[[], int]
    parts: dict[Path, Part] = field(default_factory=dict)
    began: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)

    def tell(self, telling: Telling) -> None:
        """Look at every part that is not over, and tell what is new."""
        step = self.about.get("step")
        plan = step if isinstance(step, dict) else {}
        telling.step(str(plan.get("text", "")))
        lasting_ns = plan.get("lasting_ns", 0)
        for path in part_folders(self.folder):
            name = "" if path == self.folder else str(path.relative_to(self.folder))
            arguments = self.about.get("arguments")
            found = part_of(path, name, arguments=arguments if isinstance(arguments, dict) else {}, now_ns=self.now_ns)
            known = self.parts.get(path)
            if found is None or isinstance(known, Finished):
                continue
            # A part that goes on keeps what was read of it; another kind of part comes after it.
            part = self.parts[path] = known if known is not None and type(known) is type(found) else found
            sight = part.look()
            if sight is None:
                continue
            now_ns = self.now_ns()
            since_ns, before = self.began.setdefault((name, sight.unit), (now_ns, sight.done))
            rate = (sight.done - before) / max(now_ns - since_ns, 1) * NS_PER_S if not sight.is_over else 0.0
            planned_ns = lasting_ns if isinstance(lasting_ns, int) else 0
            telling.findings(sight)
            telling.progress(sight, Pace(rate=rate, left_ns=left_ns(sight, rate, lasting_ns=planned_ns)))


def follow(
    console: Console,
    name: str,
    *,
    every_ns: int,
    allowed: Sequence[int],
    quiet_ns: int = QUIET_NS,
    pause: Callable[[int], None] | None = None,
) -> int:
    """Follow the run in a folder until it is over. Returns the exit code of `lockref check` of what it left.

    name: a folder, the name of a run, or `latest`. every_ns: between two looks. allowed: codes that count as success.
    quiet_ns: after such a silence a folder whose writer nobody names is over.
    pause: waits for so long; the thread's sleep where none is given.
    Errors: ConfigError for what is no folder of a run, HistoryUnreadable and NothingRecorded as `check_history`, once
    the run is over; KeyboardInterrupt after Ctrl-C, which the run does not notice.
    """
    runtime = ThreadRuntime()
    wait = pause or runtime.sleep
    folder = _folder_of(name)
    telling = Telling(console)
    watched = _Watched(folder, run_json(folder), runtime.monotonic_ns)
    status = status_of(folder)
    telling.begun(folder, watched.about, status or "unknown")
    silence = _Silence(folder, quiet_ns, runtime.monotonic_ns)
    while True:
        # Asked before the look: what is seen after the end of the run is all that there will be.
        status = status_of(folder)
        watched.about = run_json(folder)
        is_over = silence.is_over() if status == "" else status != RUNNING
        watched.tell(telling)
        raise_if_heard()
        if is_over:
            break
        wait(every_ns)
    telling.ended(status)
    results = judged_parts(console, folder)
    for each in results:
        say_results(console, each)
    code = code_of(results, allowed)
    telling.verdict(status, results, code)
    return code


def _folder_of(name: str) -> Path:
    """The folder to watch. One that has nothing yet but belongs to a run will do."""
    path = Path(name)
    if path.is_dir():
        return path.resolve()
    found = open_run(name).path
    if not found.is_dir():
        raise ConfigError(f"{name} is a file: `lockref check` judges it, and `lockref watch` follows a folder")
    return found


@dataclass(slots=True)
class _Silence:
    """For how long nothing was written to a folder. The files of a recording are made at their full length, so what
    counts there is its events.
    """

    folder: Path
    quiet_ns: int
    now_ns: Callable[[], int]
    _size: tuple[int, int] = (-1, -1)
    _since_ns: int = 0

    def is_over(self) -> bool:
        """True once the bytes and the recorded events of the folder have been the same for `quiet_ns`."""
        size = (size_of(self.folder), sum(spooled_span(path / SPOOL)[0] for path in part_folders(self.folder)))
        if size != self._size:
            self._size, self._since_ns = size, self.now_ns()
        return self.now_ns() - self._since_ns >= self.quiet_ns
