"""The removal of a run folder: at every moment the run is there whole, or not at all.

A folder of thousands of files does not go at once. So it gets a name that no run has, in one step, and is emptied under
that name. What an interrupted removal left is removed by the next one.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

_GOING: Final = ".removed-"


def remove_run(folder: Path) -> bool:
    """Remove one run folder. False where it was gone already: another command may remove it, too.

    Errors: OSError where it may not be removed; then the run is still there, whole.
    """
    going = folder.with_name(f"{_GOING}{folder.name}-{os.getpid()}")
    try:
        folder.rename(going)
    except FileNotFoundError:
        return False
    # What cannot be removed now, the next removal tries again: the run is gone for every reader.
    shutil.rmtree(going, ignore_errors=True)
    return True


def sweep_removed(runs: Path) -> None:
    """Remove what interrupted removals left in the folder of runs."""
    for left in runs.glob(f"{_GOING}*"):
        shutil.rmtree(left, ignore_errors=True)
