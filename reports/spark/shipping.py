"""Our code and a user's files for a cluster: one archive, unpacked where each executor stands.

Executors of another machine have Python and its packages, but neither this version of lockref nor the user's lock. The
archive lies in their working folder as `FOLDER`; both parts of it are on the path of their Python.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

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
