"""Our code and a user's files for a cluster: one archive, unpacked where each executor stands.

Executors of another machine have Python and its packages, but neither this version of lockref nor the user's lock. The
archive lies in their working folder as `FOLDER`; both parts of it are on the path of their Python.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import lockref
from lockref.temporary_folders import owned_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER: Final = "lockref-shipped"
"""The name of the unpacked archive, relative to where an executor stands."""

CODE: Final = "code"
FILES: Final = "files"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


def archive(target: Path, code: Iterable[Path], files: Mapping[str, Path]) -> Path:
    """Write the archive.

    code: the folders of our packages; each becomes a folder of `CODE`. files: name below `FILES` to a user's file.
    """
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        for package in code:
            for path in sorted(package.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    _add(packed, f"{CODE}/{path.relative_to(package.parent).as_posix()}", path)
        for name, path in sorted(files.items()):
            _add(packed, f"{FILES}/{name}", path)
    return target


def _add(packed: zipfile.ZipFile, name: str, path: Path) -> None:
    # One date for all: a file from before 1980 is refused by the format.
    entry = zipfile.ZipInfo(name, date_time=_EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    packed.writestr(entry, path.read_bytes())


def shipped_name(name: str) -> str:
    """The path at which an executor finds a shipped file, relative to where it stands."""
    return f"{FOLDER}/{FILES}/{name}"


def shipping_settings(packed: Path) -> dict[str, str]:
    """The Spark settings that ship an archive and put both of its parts on the path of the executors' Python."""
    return {
        "spark.archives": f"{packed.resolve().as_uri()}#{FOLDER}",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(f"{FOLDER}/{part}" for part in (CODE, FILES)),
    }


_REFERENCE: Final = Path(lockref.__file__).resolve().parent
_REPORTS: Final = Path(__file__).resolve().parents[1]
_JUDGING: Final = (_REFERENCE,) if _REPORTS.is_relative_to(_REFERENCE) else (_REFERENCE, _REPORTS)
"""The packages that a judge imports. Where lockref is installed, the reports are inside of the reference."""
_RUNNING_NAME: Final = "lockref-judging.zip"

_served: set[str] = set()
"""The applications of Spark that have the judge."""


def ship_judge(spark: SparkSession) -> None:
    """Send the judge to the workers of a session that runs already, whose settings are its owner's.

    Idempotent; nothing where the workers are on this machine, which find it where it is.
    """
    context = spark.sparkContext
    application, master = str(context.applicationId), str(context.master)
    if master.startswith("local[") or master == "local" or application in _served:
        return
    with owned_folder("judge") as folder:
        context.addPyFile(str(importable_archive(folder / _RUNNING_NAME)))
    _served.add(application)


def importable_archive(target: Path) -> Path:
    """Write an archive from which Python imports the judge as it is: source alone, at the names that it has here."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        for package in _JUDGING:
            for path in sorted(package.rglob("*.py")):
                _add(packed, path.relative_to(package.parent).as_posix(), path)
    return target
