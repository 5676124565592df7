"""The code of locks, told from that of the laboratory and of libraries by where its file lies."""

from __future__ import annotations

import sys
import sysconfig
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Final

from lockref.rooms import FOLDERS

_LOCK_ROOMS: Final = ("locks", "storage", "delta", "dynamodb", "coordination", "helix")
"""The rooms of the reference in which locks live."""


@cache
def _library_folders() -> tuple[Path, ...]:
    named = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return tuple(Path(name).resolve() for name in sorted(named | {sys.prefix, sys.base_prefix}))


@cache
def _is_lock_file(name: str) -> bool:
    if name.startswith("<"):
        return False
    file = Path(name).resolve()
    ours = FOLDERS[0]
    if file.is_relative_to(ours) and file.relative_to(ours).parts[0] in _LOCK_ROOMS:
        return True
    return not any(file.is_relative_to(folder) for folder in (*FOLDERS, *_library_folders()))


def is_lock_code(code: CodeType) -> bool:
    """True for a lock of ours or of a stranger; False for the laboratory, the standard library, installed packages."""
    return _is_lock_file(code.co_filename)
