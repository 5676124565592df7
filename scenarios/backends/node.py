"""Servers that npm brings: which Node runs them, and how their packages are installed.

The list of packages is npm's own lock file with a digest for each package and no address: npm asks the registry that
its user has configured. No script of a package runs during the installation.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

from lockref.errors import BackendUnavailable
from lockref.temporary_folders import owned_folder

_PROBE_TIMEOUT_S: Final = 20
_RESOLVE_TIMEOUT_S: Final = 300
_QUIET: Final = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
_IMPATIENT: Final = ("--fetch-retries=1", "--fetch-timeout=60000")
"""A machine that reaches no registry learns so in a minute or two."""


def find_node(oldest: tuple[int, int]) -> tuple[str, tuple[int, int]] | None:
    """Path and version of the Node on PATH; None if it is older, does not run, or has no npm beside it on PATH."""
    path = shutil.which("node")
    if path is None or shutil.which("npm") is None:
        return None
    try:
        done = subprocess.run(
            [path, "-p", "process.versions.node"],
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    fields = done.stdout.strip().split(".")
    if done.returncode != 0 or len(fields) < 2 or not all(field.isdecimal() for field in fields[:2]):
        return None
    version = (int(fields[0]), int(fields[1]))
    return (path, version) if version >= oldest else None


def lay_out(folder: Path, node: str, text: str) -> list[str]:
    """Prepare an empty environment; return the command that installs its packages.

    folder: gets `bin/node`, as a virtual environment has its Python there. text: of npm's lock file, which names all.
    """
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "node").symlink_to(node)
    (folder / "package-lock.json").write_text(text, encoding="utf-8")
    (folder / "package.json").write_text(json.dumps(json.loads(text)["packages"][""]), encoding="utf-8")
    return ["npm", "ci", "--prefix", str(folder), *_QUIET, *_IMPATIENT]


def resolve(name: str, requirements: tuple[str, ...]) -> str:
    """A lock file for these packages, each `NAME@VERSION`. No registry is named in it.

    Errors: BackendUnavailable with npm's own words if they do not resolve.
    """
    wanted = dict(each.rsplit("@", 1) for each in requirements)
    with owned_folder("resolve") as root:
        (root / "package.json").write_text(
            json.dumps({"name": f"lockref-{name}", "dependencies": wanted}), encoding="utf-8"
        )
        done = subprocess.run(
            [
                "npm", "install", "--package-lock-only", "--omit-lockfile-registry-resolved", "--prefix", str(root),
                *_QUIET,
            ],
            capture_output=True,
            text=True,
            timeout=_RESOLVE_TIMEOUT_S,
            check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise BackendUnavailable(f"resolving the requirements of {name} failed:\n{done.stderr}")
        found: dict[str, Any] = json.loads((root / "package-lock.json").read_text(encoding="utf-8"))
    for package in found["packages"].values():
        package.pop("funding", None)
        if "://" in str(package.get("license", "")):
            # An address for people: the list has none, so that a registry's would be seen at once.
            del package["license"]
    return json.dumps(found, indent=1) + "\n"
