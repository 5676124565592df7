"""What an installed lockref looks like: one package, with the rooms of this repository inside.

`sim`, `scenarios` and `reports` are names that any project may have. In the wheel they are `lockref.sim`,
`lockref.scenarios` and `lockref.reports`, so that a project's own packages of these names stay what they were, on its
path, in its tests, and in its lock. The imports of the sources are written anew for that, and nothing else: what a
module needs of its own name it reads from `__name__` or `__package__` (tests/quality/test_wheel.py).

An editable install, as `make setup` makes it, leaves everything where it is.
"""

from __future__ import annotations

import ast
import gzip
import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HOME = "lockref"
MOVED = ("sim", "scenarios", "reports")
# Digests of the packages of servers: half of their size is gained by compressing them, 0.3 MB in all.
COMPRESSED = Path("scenarios", "backends", "locks")
_FROM = re.compile(rb"from(\s+)((?:%s)\b)" % "|".join(MOVED).encode())
_IMPORT = re.compile(rb"(?:%s)\b" % "|".join(MOVED).encode())


def relocated(source: bytes) -> bytes:
    """A module's source with its imports of moved rooms from their place in the wheel. No line gets another number.

    Errors: ValueError for `import room.part`, which binds the name of the room; write `from room import part`.
    """
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    edits: list[tuple[int, int, bytes]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and _is_moved(node.module or ""):
            here = starts[node.lineno - 1] + node.col_offset
            found = _FROM.match(source, here)
            assert found is not None, "an import of a moved room begins with its name"
            edits.append((found.start(2), found.start(2), f"{HOME}.".encode()))
        elif isinstance(node, ast.Import):
            for name in node.names:
                if not _is_moved(name.name):
                    continue
                if name.asname is None:
                    raise ValueError(f"line {node.lineno}: `import {name.name}` cannot be moved; import names from it")
                here = starts[name.lineno - 1] + name.col_offset
                assert _IMPORT.match(source, here), "an import of a moved room begins with its name"
                edits.append((here, here, f"{HOME}.".encode()))
    for start, end, text in sorted(edits, reverse=True):
        source = source[:start] + text + source[end:]
    return source


def _is_moved(module: str) -> bool:
    return module.partition(".")[0] in MOVED


def lay_out(root: Path, target: Path) -> None:
    """Write the package as it is installed to `target`: the files of each room, without what running them left."""
    for room in (HOME, *MOVED):
        for path in sorted((root / room).rglob("*")):
            inside = path.relative_to(root)
            if not path.is_file() or any(part == "__pycache__" or part.startswith(".") for part in inside.parts):
                continue
            written = target / inside if room == HOME else target / HOME / inside
            written.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".py":
                written.write_bytes(relocated(path.read_bytes()))
            elif inside.parent == COMPRESSED:
                written.with_name(f"{written.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
            elif path.suffix == ".json":
                # Programs read it: the blanks of a schema and of lists of packages are 60 kB.
                written.write_text(json.dumps(json.loads(path.read_bytes()), separators=(",", ":")), encoding="utf-8")
            else:
                shutil.copyfile(path, written)


class Relocation(BuildHookInterface[Any]):
    """The hook that hatchling calls before and after it builds a wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Lay the package out in a folder of its own, and have that packed in the place of the sources."""
        if version == "editable":
            return
        self._laid_out = Path(tempfile.mkdtemp(prefix="lockref-wheel-"))
        lay_out(Path(self.root), self._laid_out)
        build_data["force_include"][str(self._laid_out / HOME)] = HOME

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove that folder."""
        if version != "editable":
            shutil.rmtree(self._laid_out)
