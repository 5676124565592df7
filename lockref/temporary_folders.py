"""Temporary folders that say whose they are, so that a later command can remove what a killed one has left.

A process that is killed (`kill -9`, out of memory) removes nothing: copies of histories, the key of a throwaway
certificate authority, a test server's data. So each folder holds a file with its owner's mark (`host_processes`), and
`sweep` removes a folder only where the owner has certainly ended. A folder of a machine or of a boot that this process
cannot see is named after a day, and stays.

Rejected: an age alone. A run may last for days, and a clock may jump. Rejected: the process number in the name of the
folder. Numbers return, and containers that share a folder have equal ones.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lockref.host_processes import has_ended, is_of_this_place, own_mark
from lockref.runtime import NS_PER_S, ThreadRuntime

PREFIX: Final = "lockref-"
_NEW_PREFIX: Final = f".{PREFIX}new-"
"""A folder has this name until its owner's mark is in it."""
_NEW_MAX_NS: Final = 3600 * NS_PER_S
"""A folder that is still new after so long belongs to a process that was killed between the folder and the mark."""
OWNER_FILE: Final = ".lockref-owner"
UNSEEN_MIN_NS: Final = 24 * 3600 * NS_PER_S
"""A folder whose owner cannot be seen from here is named when it is older than that."""

_MARK_BYTES_MAX: Final = 1_000
_NAMED_MAX: Final = 3


@contextlib.contextmanager
def owned_folder(about: str = "", *, within: Path | None = None) -> Iterator[Path]:
    """A new folder `lockref-ABOUT-…` that only this user may enter; it is removed at the end of the block.

    within: the folder to make it in; default the system's folder for temporary files.
    A process that is killed in the block leaves it to `sweep`.
    Errors: OSError if it cannot be made.
    """
    new = Path(tempfile.mkdtemp(prefix=_NEW_PREFIX, dir=within))
    folder = new.with_name(f"{PREFIX}{about}{'-' if about else ''}{new.name.removeprefix(_NEW_PREFIX)}")
    try:
        (new / OWNER_FILE).write_text(own_mark(), encoding="ascii")
        new.rename(folder)
    except OSError:
        _remove(new)
        raise
    try:
        yield folder
    finally:
        _remove(folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """The result of a sweep.

    removed: folders of processes that have ended. stuck: such that could not be removed. unseen: old ones that stay,
    because nobody here can see their owner.
    """

    removed: Sequence[Path] = ()
    stuck: Sequence[Path] = ()
    unseen: Sequence[Path] = ()

    def lines(self) -> Iterator[str]:
        """A line for each of the three that is not empty."""
        if self.removed:
            yield f"removed what a killed command had left: {_named(self.removed)}"
        if self.stuck:
            yield f"could not remove what a killed command had left: {_named(self.stuck)}; remove it yourself"
        if self.unseen:
            yield (
                f"left by a command on another machine or before its last start: {_named(self.unseen)}; "
                "remove it if no such command runs"
            )


def sweep(within: Path | None = None) -> Swept:
    """Remove the folders that killed processes of this user have left.

    within: as for `owned_folder`.
    A folder without an owner's file, of another user or behind a symbolic link is never touched, nor is one whose owner
    lives or cannot be seen. What cannot be read or removed is passed over. A new folder that never got its owner's mark
    is empty, and goes without a word.
    """
    removed: list[Path] = []
    stuck: list[Path] = []
    unseen: list[Path] = []
    try:
        place = Path(within or tempfile.gettempdir())
        found = sorted(place.glob(f"{PREFIX}*"))
        _remove_unmarked(place.glob(f"{_NEW_PREFIX}*"))
    except OSError:
        return Swept()
    for folder in found:
        owner = _owner(folder)
        if owner is None:
            continue
        mark, age_ns = owner
        if has_ended(mark):
            _remove(folder)
            (stuck if folder.exists() else removed).append(folder)
        elif age_ns > UNSEEN_MIN_NS and not is_of_this_place(mark):
            unseen.append(folder)
    return Swept(removed=removed, stuck=stuck, unseen=unseen)


def _remove_unmarked(folders: Iterable[Path]) -> None:
    """Remove new folders of this user that are old: their processes were killed before they wrote their mark."""
    for folder in folders:
        with contextlib.suppress(OSError):
            about = folder.lstat()
            age_ns = ThreadRuntime().wall_ns() - about.st_mtime_ns
            if stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid() and age_ns > _NEW_MAX_NS:
                # The mark may stand there where the folder had not got its name yet. Nothing else can.
                (folder / OWNER_FILE).unlink(missing_ok=True)
                folder.rmdir()


def _owner(folder: Path) -> tuple[str, int] | None:
    """The owner's mark, and its age in nanoseconds; None for what is no folder of this user with such a file."""
    try:
        about = folder.lstat()
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
            return None
        # Neither a link is followed nor a pipe waited for.
        file = os.open(folder / OWNER_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
            return None
        mark = os.read(file, _MARK_BYTES_MAX).decode("ascii")
    except (OSError, UnicodeDecodeError):
        return None
    finally:
        os.close(file)
    return mark, ThreadRuntime().wall_ns() - about.st_mtime_ns


def _remove(folder: Path) -> None:
    """Remove what can be removed, the owner's mark last: a sweep finds a folder whose removal was cut off."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != OWNER_FILE:
                path.unlink(missing_ok=True)
        if [path.name for path in folder.iterdir()] == [OWNER_FILE]:
            (folder / OWNER_FILE).unlink()
        folder.rmdir()


def _named(folders: Sequence[Path]) -> str:
    rest = len(folders) - _NAMED_MAX
    return ", ".join(map(str, folders[:_NAMED_MAX])) + (f" and {rest} more" if rest > 0 else "")
