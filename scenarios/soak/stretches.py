"""The folders of a soak: one for each stretch that ran without interruption, `stretch-1`, `stretch-2`, …

Each holds a history of its own and its samples. What a killed stretch has left in its recording is kept with the rest.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from lockref.errors import ConfigError
from scenarios.soak.keeping import kept_span_ns, salvage

_NAME: Final = re.compile(r"stretch-([1-9][0-9]*)")


def stretch_folders(folder: Path) -> list[Path]:
    """The stretches of a soak, in the order in which they ran."""
    found = [(int(name[1]), path) for path in folder.iterdir() if (name := _NAME.fullmatch(path.name)) is not None]
    return [path for _, path in sorted(found)]


def next_stretch(folder: Path) -> Path:
    """A new folder for the stretch that follows those that are there. Raises ConfigError if another one makes it."""
    number = max((int(path.name.partition("-")[2]) for path in stretch_folders(folder)), default=0) + 1
    made = folder / f"stretch-{number}"
    try:
        made.mkdir()
    except FileExistsError as error:
        raise ConfigError(f"{made} was made just now: another command goes on with this soak") from error
    return made


def soaked_ns(folder: Path) -> int:
    """For how long the clients of a soak worked, all its stretches together: from the first event to the last one.

    What a kill has left in recordings is kept with the rest now. Raises HistoryUnreadable as `salvage`.
    """
    total = 0
    for stretch in stretch_folders(folder):
        salvage(stretch)
        total += kept_span_ns(stretch)
    return total
