"""The line of a lock at which a process hangs, found in one way by every watcher.

The watchdogs inside a process (`scenarios.worlds.watchdog`, `import_watch`) have its frames, the watcher outside
(`beat`) the text of `faulthandler`. All bring them here as rows, innermost first, so that one hang has one name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType

from lockref.rooms import FOLDERS


def stuck_line(frames: Iterable[tuple[str, int, str]]) -> str:
    """`FILE:LINE (NAME)` of the innermost frame that is neither ours nor the standard library's; "" without one.

    A lock is often inside one of our primitives, or in a function of the standard library, when it is looked at. Its
    own line is the one that its author can change.

    frames: path, line and function of each frame of one thread, innermost first.
    """
    for path, line, name in frames:
        if not _is_known(path):
            return f"{path}:{line} ({name})"
    return ""


def place_of(innermost: FrameType) -> str:
    """` in FILE:LINE (NAME)`: the lock's own line, or the innermost one where no frame is the lock's."""

    def frames() -> Iterator[tuple[str, int, str]]:
        frame: FrameType | None = innermost
        while frame is not None:
            yield frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname
            frame = frame.f_back

    path, line, name = next(frames())
    return f" in {stuck_line(frames()) or f'{path}:{line} ({name})'}"


def _is_known(path: str) -> bool:
    if path.startswith("<frozen "):
        return True
    file, library = Path(path), Path(os.__file__).parent
    if any(file.is_relative_to(folder) for folder in FOLDERS):
        return True
    return file.is_relative_to(library) and not file.is_relative_to(library / "site-packages")
