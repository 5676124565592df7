"""A user's Python file as a module: executed once in a process, whoever asks for it and however often.

Otherwise a lock of a file would be a new class for each client and each seed, and what its module counts or caches
would begin anew each time. The name of the module holds digests of the file and of its path. So two files of one name
in two folders are two modules. The same holds for their neighbours: `import lease_base` in a file means the one in its
own folder.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from types import ModuleType

from lockref import rooms

PREFIX = "lockref_file"


class StuckImport(BaseException):
    """Interrupts the import of a module that does not end. Not an Exception, so that few modules catch it."""


def _unwatched(_what: str) -> AbstractContextManager[None]:
    return nullcontext()


_watch: Callable[[str], AbstractContextManager[None]] = _unwatched


def watch_imports(by: Callable[[str], AbstractContextManager[None]]) -> None:
    """From now on imports of users' modules happen inside what `by` makes of a word about each.

    It may raise `StuckImport` in them, with the words that follow the name of the module.
    """
    global _watch
    _watch = by


def module_from_file(path: Path) -> ModuleType:
    """The module of a `.py` file, executed if this process has not done so yet.

    Errors: OSError for a file that cannot be read, StuckImport, and whatever its code raises; then the next call
    executes it again.
    """
    path = path.resolve()
    # A file that was edited since is another module: an editor's session loads it again.
    source = path.read_bytes()
    name = f"{PREFIX}_{path.stem}_{_digest(path)}_{hashlib.blake2b(source, digest_size=6).hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "a .py file always has a loader"
    assert spec.loader is not None, "a .py file always has a loader"
    module = importlib.util.module_from_spec(spec)
    # Registered before it runs: dataclasses look their own module up.
    sys.modules[name] = module
    try:
        with importable(path.parent, path.name):
            # The loader would take byte code of the former text if the file was edited within a second to equal length.
            exec(compile(source, str(path), "exec"), module.__dict__)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


@contextmanager
def importable(folder: Path, what: str) -> Iterator[None]:
    """For the length of the block a module may import its neighbours, as a script could, and is watched.

    what: is imported.
    What is printed meanwhile goes to standard error, because standard output is the command's own.
    """
    folder = folder.resolve()
    entry = str(folder)
    importlib.invalidate_caches()
    with rooms.stepped_aside(folder):
        _set_strangers_aside(folder)
        sys.path.insert(0, entry)
        try:
            with redirect_stdout(sys.stderr), _watch(f"the import of {what}"):
                yield
        finally:
            if entry in sys.path:
                sys.path.remove(entry)


def _set_strangers_aside(folder: Path) -> None:
    """Put the neighbours that this folder has in the place of those of the same names from another user's folder.

    A module set aside stays known, under its name and a digest of its folder, and comes back with its own folder.
    """
    _folders.add(folder)
    names = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    for name in sorted(names & sys.modules.keys()):
        home = _home(sys.modules[name])
        if home is not None and home != folder and home in _folders and home != rooms.HOME:
            _rename(name, "", f"@{_digest(home)}")
    mark = f"@{_digest(folder)}"
    for kept in sorted({full.partition(".")[0] for full in sys.modules if mark in full}):
        _rename(kept.partition("@")[0], mark, "")


def _rename(name: str, before: str, after: str) -> None:
    """Give a module and its submodules, as sys.modules has them, another ending of their first name."""
    old, new = f"{name}{before}", f"{name}{after}"
    for full in [full for full in sys.modules if full == old or full.startswith(f"{old}.")]:
        sys.modules[new + full.removeprefix(old)] = sys.modules.pop(full)


def _home(module: ModuleType) -> Path | None:
    """The folder in which a top-level module or package lies; None for one without a file."""
    file = getattr(module, "__file__", None)
    if file is None:
        return None
    path = Path(file).resolve()
    return path.parent.parent if path.name == "__init__.py" else path.parent


def _digest(path: Path) -> str:
    return hashlib.blake2b(str(path).encode(), digest_size=6).hexdigest()


_folders: set[Path] = set()
"""The folders that were importable before; modules from elsewhere are nobody's neighbours."""
