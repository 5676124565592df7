"""The environments of servers, and of other programs in Python: one for each, built once.

Their pins collide with each other and with ours, so none of them is in
our own environment. What goes in is listed with digests, for servers in `locks/`
(`tests.evidence.relock` writes the lists), and an environment is named after its list. A build that was cut
short has no completion marker and is made anew; a file lock lets the workers of
a parallel test run wait for one build.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lockref.errors import BackendUnavailable
from lockref.user_cache import one_at_a_time, user_cache
from scenarios.backends.node import find_node, lay_out
from scenarios.backends.pins import LISTS, Backend, Named, Native, NodeNative, Packages

INSTALL_TIMEOUT_S: Final = 600
_PROBE_TIMEOUT_S: Final = 20
_MARKER: Final = "complete.json"
_LOG_LINES: Final = 20

# Newest last among those tried: LocalStack was measured on 3.13.
_PYTHON_NAMES: Final = ("python3.13", "python3.12", "python3.11", "python3")
# A Python built without one of these starts, and fails in the middle of a server.
_PROBE: Final = "import sys, ssl, ctypes, sqlite3, zlib, venv; print(*sys.version_info[:2])"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python or a Node that was run and answered."""

    path: str
    version: tuple[int, int]
    language: str = "Python"

    def __str__(self) -> str:
        return f"{self.language} {'.'.join(map(str, self.version))}"


def backend_cache() -> Path:
    """The folder of built environments: below LOCKREF_CACHE, or ~/.cache/lockref."""
    return user_cache() / "backends"


def choose_native(backend: Backend) -> tuple[Native | NodeNative, Interpreter]:
    """The preferred way to run a backend for which there is a Python or a Node here.

    Errors: BackendUnavailable if this machine has no build, no Python and no Node for it.
    """
    if not backend.runs_here:
        raise BackendUnavailable(f"{backend.name} has builds for {', '.join(backend.platforms)} only; use another one")
    for native in backend.natives:
        interpreter = _find_interpreter(native)
        if interpreter is not None:
            return native, interpreter
    raise BackendUnavailable(f"{backend.name} needs {backend.needs}, and none was found; install one")


def _find_interpreter(native: Native | NodeNative) -> Interpreter | None:
    if isinstance(native, NodeNative):
        found = find_node(native.node_min)
        return None if found is None else Interpreter(path=found[0], version=found[1], language="Node")
    return find_python(native.python_min, native.python_max)


def find_python(oldest: tuple[int, int], newest: tuple[int, int] = (3, 99)) -> Interpreter | None:
    """A usable Python between these versions: ours if it fits, else one from PATH, pyenv or uv."""
    ours = (sys.version_info[0], sys.version_info[1])
    if oldest <= ours <= newest:
        return Interpreter(path=sys.executable, version=ours)
    for candidate in _candidates():
        version = _probe(candidate)
        if version is not None and oldest <= version <= newest:
            return Interpreter(path=candidate, version=version)
    return None


def _candidates() -> Iterator[str]:
    for name in _PYTHON_NAMES:
        found = shutil.which(name)
        if found:
            yield found
        yield from sorted(map(str, Path.home().glob(f".pyenv/versions/*/bin/{name}")), reverse=True)
        yield from sorted(map(str, Path.home().glob(f".local/share/uv/python/*/bin/{name}")), reverse=True)


def _probe(path: str) -> tuple[int, int] | None:
    """The version, by running it: a pyenv shim is on PATH even where it refuses to run."""
    try:
        done = subprocess.run(
            [path, "-I", "-c", _PROBE], capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    fields = done.stdout.split()
    return (int(fields[0]), int(fields[1])) if done.returncode == 0 and len(fields) == 2 else None


def is_built(program: Named, packages: Packages | NodeNative, interpreter: Interpreter) -> bool:
    """True if the environment is there and its build came to its end."""
    return (_folder(program, packages, interpreter) / _MARKER).exists()


def ensure_environment(program: Named, packages: Packages | NodeNative, interpreter: Interpreter) -> Path:
    """Build the environment if it is not there; return its bin folder.

    Errors: BackendUnavailable if the folder cannot be written or the install
        fails, with the installer's last lines.
    """
    folder = _folder(program, packages, interpreter)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(folder.with_name(f"{folder.name}.lock")):
            if not (folder / _MARKER).exists():
                shutil.rmtree(folder, ignore_errors=True)
                _build(program, packages, interpreter, folder)
                _mark(folder, packages, interpreter)
    except OSError as error:
        raise BackendUnavailable(
            f"cannot build the environment of {program.name} in {folder}: {error}; set LOCKREF_CACHE"
        ) from error
    return folder / "bin"


def lock_file(program: Named, packages: Packages | NodeNative) -> Path:
    """The list of packages, with digests, that an environment gets."""
    folder, kind = (LISTS, "json") if isinstance(packages, NodeNative) else (packages.listed_in, "txt")
    return folder / f"{program.name}-{packages.version}.{kind}"


def package_list(program: Named, packages: Packages | NodeNative) -> bytes:
    """The text of `lock_file`. An installed lockref has it compressed (hatch_build.py). Raises OSError."""
    path = lock_file(program, packages)
    if path.exists():
        return path.read_bytes()
    return gzip.decompress(path.with_name(f"{path.name}.gz").read_bytes())


def _folder(program: Named, packages: Packages | NodeNative, interpreter: Interpreter) -> Path:
    kind = {"Python": "py", "Node": "node"}[interpreter.language]
    version = ".".join(map(str, interpreter.version))
    digest = hashlib.sha256(interpreter.path.encode() + package_list(program, packages)).hexdigest()[:8]
    return backend_cache() / f"{program.name}-{packages.version}-{kind}{version}-{digest}"


def _mark(folder: Path, packages: Packages | NodeNative, interpreter: Interpreter) -> None:
    """Say that the build is whole; by renaming, so that the marker itself is whole too."""
    record = {"version": packages.version, "requirements": packages.requirements, "interpreter": interpreter.path}
    draft = folder / "marker.draft"
    draft.write_text(json.dumps(record, indent=2), encoding="utf-8")
    draft.replace(folder / _MARKER)


def _build(program: Named, packages: Packages | NodeNative, interpreter: Interpreter, folder: Path) -> None:
    if isinstance(packages, NodeNative):
        _run(program, lay_out(folder, interpreter.path, package_list(program, packages).decode()))
        return
    python = str(folder / "bin" / "python")
    listed = folder.with_name(f"{folder.name}.txt")
    listed.write_bytes(package_list(program, packages))
    pinned = ("--require-hashes", "-r", str(listed))
    uv = find_uv()
    if uv:
        steps = [
            [uv, "venv", "--quiet", "--python", interpreter.path, str(folder)],
            [uv, "pip", "install", "--quiet", "--python", python, *pinned],
        ]
    else:
        steps = [
            [interpreter.path, "-m", "venv", str(folder)],
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pinned],
        ]
    for step in steps:
        _run(program, step)


def _run(program: Named, step: list[str]) -> None:
    try:
        done = subprocess.run(
            step,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BackendUnavailable(
            f"installing {program.name} took more than {INSTALL_TIMEOUT_S} s: {' '.join(step)}"
        ) from error
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-_LOG_LINES:])
        raise BackendUnavailable(f"installing {program.name} failed ({' '.join(step)}):\n{tail}")


def find_uv() -> str | None:
    """The uv beside our own Python, or one on PATH."""
    beside = Path(sys.executable).parent / "uv"
    return str(beside) if beside.exists() else shutil.which("uv")
