"""The places of the parts of lockref: beside each other in a checkout, in one package where it is installed.

`sim`, `scenarios` and `reports` are names that a user's project may have as well. So they are `lockref.sim` and so on
where lockref is installed (hatch_build.py). A checkout, which has them on the path under their short names, pins them:
a project's package of such a name, earlier on the path, is not taken for ours.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parent
_NAMES: Final = ("sim", "scenarios", "reports")
_IS_CHECKOUT: Final = not (_PACKAGE / "scenarios").is_dir()

HOME: Final = _PACKAGE.parent if _IS_CHECKOUT else _PACKAGE
"""The folder that holds `sim`, `scenarios` and `reports`."""

MOVABLE: Final = _NAMES if _IS_CHECKOUT else ()
"""The names of ours, beside `lockref`, that a user's package may have as well."""

PACKAGES: Final = ("lockref", *MOVABLE)
"""The first names of all our modules."""

FOLDERS: Final = (_PACKAGE, *(HOME / name for name in _NAMES))
"""Where our sources lie."""


_stepping_aside: set[str] = set()
_theirs: dict[tuple[str, str], dict[str, ModuleType]] = {}
"""By name and place of a user's package, its modules, while the name means ours."""


class _OwnRooms(MetaPathFinder):
    """Finds our rooms in their folder, whatever the path says."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None or fullname not in MOVABLE or fullname in _stepping_aside:
            return None
        return PathFinder.find_spec(fullname, [str(HOME)])


def pin() -> None:
    """From now on the short names mean our rooms in this process. Idempotent; nothing where lockref is installed.

    Who has imported a user's package of such a name keeps it, and the next one gets ours: a checkout has one name for
    both, where `foreign_modules` does not step aside.
    """
    if not MOVABLE or any(isinstance(finder, _OwnRooms) for finder in sys.meta_path):
        return
    _take(name for name in MOVABLE if name in sys.modules and not _is_ours(sys.modules[name], name))
    sys.meta_path.insert(0, _OwnRooms())


@contextmanager
def stepped_aside(folder: Path) -> Iterator[None]:
    """For the length of the block the short names mean the user's packages, where the folder or the path has such.

    Nothing where lockref is installed: the names are the user's there.
    """
    found = {name: place for name in MOVABLE if (place := _place_of_theirs(name, folder))}
    ours = _take(found)
    _stepping_aside.update(found)
    for key in found.items():
        sys.modules.update(_theirs.get(key, {}))
    try:
        yield
    finally:
        for name, place in found.items():
            _theirs[name, place] = _take([name])
        _stepping_aside.difference_update(found)
        sys.modules.update(ours)


def _take(names: Iterable[str]) -> dict[str, ModuleType]:
    """Take these packages, with all that is in them, from the modules of the process."""
    chosen = set(names)
    return {full: sys.modules.pop(full) for full in list(sys.modules) if full.partition(".")[0] in chosen}


def _is_ours(module: ModuleType, name: str) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve().parent == HOME / name


def _place_of_theirs(name: str, folder: Path) -> str:
    """The folder of a user's package or module of this name; "" if there is none."""
    path = [str(folder), *sys.path]
    spec = PathFinder.find_spec(name, [entry for entry in path if Path(entry).resolve() != HOME])
    if spec is None:
        return ""
    # A folder without any source is found, too: `reports/` may hold a project's documents.
    places = spec.submodule_search_locations or ()
    return spec.origin or next((place for place in places if any(Path(place).glob("*.py"))), "")
