"""Rooms: who may import whom (docs/design.md), read from the source without running it.

Imports that stand inside a function count as well: they hide a dependency, they do not remove it. So do imports for
types alone (`if TYPE_CHECKING`): two files that each name the other's types are read together.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.quality.source_trees import READS_SOURCES, tree

ROOT = Path(__file__).parents[2]

MAY_IMPORT = {
    "lockref": {"lockref"},
    "sim": {"sim", "lockref"},
    "reports": {"reports", "lockref"},
    "scenarios": {"scenarios", "sim", "lockref", "reports.checks", "reports.explanation", "reports.history_files"},
    "lockref.cli.jobs": {"lockref", "sim", "scenarios", "reports"},
    "lockref.cli": {"lockref", "sim", "scenarios", "reports"},
    "lockref.testing": {"lockref", "sim", "scenarios", "reports"},
}
"""Room to the prefixes of the modules of this project that it may import. The room with the longest name counts."""

REPORTS_KNOW = {
    "lockref.atomic_files", "lockref.claims", "lockref.durations", "lockref.errors", "lockref.history",
    "lockref.host_processes", "lockref.java", "lockref.lab.spool", "lockref.quantities", "lockref.samples",
    "lockref.stores.probe.fingerprint", "lockref.strict_json", "lockref.temporary_folders", "lockref.words",
}  # fmt: skip
"""What the reports may know of the reference: the history record, its outcomes, what locks claim, errors, the reader of
JSON, the record of a probed store, which Java and how many processors there are, temporary folders, and how durations
are written."""

CALLERS: dict[str, set[str]] = {
    "lockref.cli": {"lockref.__main__"},
    "lockref.cli.jobs": {"lockref.cli"},
    "lockref.testing": set(),
}
"""The rooms at the top, each with the modules outside that may import it."""


def sources() -> dict[str, Path]:
    """Module name to file, of everything but the tests."""
    files = [path for room in ("lockref", "sim", "scenarios", "reports") for path in (ROOT / room).rglob("*.py")]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in files}


MODULES = sources()


@functools.cache
def imports(module: str) -> Sequence[tuple[str, int]]:
    """The modules of this project that a module imports, with the line."""
    return list(_read_imports(module))


def _read_imports(module: str) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree(MODULES[module])):
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: a relative import"
            # `from package import name`: the name may be a module of the package.
            parts = [f"{node.module}.{alias.name}" for alias in node.names]
            named = [part if part in MODULES else str(node.module) for part in parts]
        else:
            continue
        yield from ((name, node.lineno) for name in dict.fromkeys(named) if name in MODULES)


def is_in(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(f"{prefix}.")


def room_of(module: str) -> str:
    return max((room for room in MAY_IMPORT if is_in(module, room)), key=len)


@READS_SOURCES
def test_rooms_import_only_what_they_may() -> None:
    """Each room imports the rooms below it alone; jobs are called by the command line, and that by nobody."""
    wrong = []
    for module in MODULES:
        allowed = MAY_IMPORT[room_of(module)]
        for name, line in imports(module):
            is_allowed = any(is_in(name, prefix) for prefix in allowed)
            if room_of(name) in CALLERS and room_of(module) != room_of(name):
                is_allowed = any(is_in(module, caller) for caller in CALLERS[room_of(name)])
            if not is_allowed:
                wrong.append(f"{MODULES[module].relative_to(ROOT)}:{line} imports {name}")
    assert wrong == []


def test_one_module_ends_a_process_with_its_parent() -> None:
    """The rule about threads and the race with a parent that has ended already are written once."""
    found = [module for module, path in MODULES.items() if "_PR_SET_PDEATHSIG =" in path.read_text(encoding="utf-8")]
    assert found == ["scenarios.worlds.processes.parent_death"]


@READS_SOURCES
def test_reports_know_the_history_record_alone() -> None:
    """The judge and the pages read histories: no lock, no store, no recorder."""
    wrong = [
        f"{MODULES[module].relative_to(ROOT)}:{line} imports {name}"
        for module in MODULES
        if is_in(module, "reports")
        for name, line in imports(module)
        if is_in(name, "lockref") and name != "lockref" and name not in REPORTS_KNOW
    ]
    assert wrong == []


def circles(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The groups of names that lead to each other (Tarjan's strongly connected components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        path.append(module)
        for name in edges.get(module, ()):
            if name not in index:
                visit(name)
                low[module] = min(low[module], low[name])
            elif name in path:
                low[module] = min(low[module], index[name])
        if low[module] == index[module]:
            group = path[path.index(module) :]
            del path[path.index(module) :]
            if len(group) > 1:
                found.append(sorted(group))

    for module in edges:
        if module not in index:
            visit(module)
    return found


def packages_of(source: ast.AST) -> list[str]:
    """The packages of `from package import name`, also where the name is a module of it: Python asks the package."""
    return [str(node.module) for node in ast.walk(source) if isinstance(node, ast.ImportFrom)]


@READS_SOURCES
def test_no_modules_import_each_other() -> None:
    """A circle of imports is one module in several files: nobody can read a part of it alone.

    A module that takes a sibling from their package imports the package, which may import the module.
    """
    edges = {
        module: {name for name, _ in imports(module)} | set(packages_of(tree(path))) & set(MODULES)
        for module, path in MODULES.items()
    }
    assert circles({module: sorted(names - {module}) for module, names in edges.items()}) == []


def test_a_circle_through_a_package_is_found() -> None:
    """The package imports `docker`, and `docker` takes `guard` from the package: no two modules of it make a circle."""
    assert packages_of(ast.parse("from scenarios.backends import guard")) == ["scenarios.backends"]
    edges = {"scenarios.backends": ["scenarios.backends.docker"], "scenarios.backends.docker": ["scenarios.backends"]}
    assert circles(edges) == [["scenarios.backends", "scenarios.backends.docker"]]


def folder_of(module: str) -> list[str]:
    """The folder of a module's file. The command line and its door, and the tests' door, count as folders beside it."""
    parts = list(MODULES[module].relative_to(ROOT).parent.parts)
    if parts[:2] == ["lockref", "testing"]:
        return ["lockref.testing", *parts[2:]]
    return ["lockref.cli", *parts[2:]] if parts[:2] == ["lockref", "cli"] or module == "lockref.__main__" else parts


def between_folders(imported: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Which folder imports which one beside it.

    An import from one folder to another one is an edge between the two children of the folder that holds both, wherever
    below these its ends lie. A folder and a part of it are not beside each other: a package may import its parts.
    """
    edges: dict[str, set[str]] = {}
    for module, name in imported:
        here, there = folder_of(module), folder_of(name)
        shared = 0
        while shared < min(len(here), len(there)) and here[shared] == there[shared]:
            shared += 1
        if shared < len(here) and shared < len(there):
            edges.setdefault("/".join(here[: shared + 1]), set()).add("/".join(there[: shared + 1]))
    return edges


@READS_SOURCES
def test_no_folders_import_each_other() -> None:
    """A circle of folders is one room with walls that hide it: no folder of it can be read, taken or tested alone."""
    assert circles(between_folders((module, name) for module in MODULES for name, _ in imports(module))) == []


def test_a_circle_of_folders_is_found_where_no_two_files_make_one() -> None:
    """clouds to stores by one pair of files, and stores to clouds by another pair, one of them deeper in its room."""
    pairs = [("lockref.clouds.uri", "lockref.stores.address"), ("lockref.stores.probe.races", "lockref.clouds.calls")]
    assert circles({module: [name] for module, name in pairs}) == []
    assert circles(between_folders(pairs)) == [["lockref/clouds", "lockref/stores"]]
    assert circles(between_folders([("lockref.stores.probe.races", "lockref.stores.port")])) == []


@pytest.mark.parametrize(
    ("folder", "most"),
    [
        ("lockref/cli", 18),
        ("lockref/cli/jobs", 16),
        ("lockref/cli/jobs/gate", 9),
        ("lockref/helix", 12),
        ("reports/checks", 12),
        ("reports/checks/facts", 13),
        ("scenarios", 9),
        ("scenarios/probe", 12),
        ("scenarios/wire", 12),
        ("scenarios/worlds", 12),
    ],
)
def test_no_folder_is_crowded(folder: str, most: int) -> None:
    """A listing shows the architecture: a folder with more files than fit on one look wants rooms of its own."""
    files = [path for path in (ROOT / folder).glob("*.py") if path.name != "__init__.py"]
    assert len(files) <= most


MAPPED = [module for module in MODULES if "Where to find what" in MODULES[module].read_text(encoding="utf-8")]


@pytest.mark.parametrize("package", MAPPED)
def test_a_map_of_a_package_names_every_module(package: str) -> None:
    """A package with many modules tells in its first lines where to find what, and leaves none out."""
    named = set(re.findall(r"`(\w+)/?`", MODULES[package].read_text(encoding="utf-8")))
    below = {name.removeprefix(f"{package}.").split(".")[0] for name in MODULES if name.startswith(f"{package}.")}
    assert named == below


def test_commands_are_thin() -> None:
    """A command reads its options and calls one job; each option takes a line. Only the console knows Click besides."""
    room = ROOT / "lockref/cli"
    paths = [path for path in room.rglob("*.py") if not path.is_relative_to(room / "jobs")]
    lines = {path.relative_to(room).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    assert lines.pop("options.py") <= 350, "what options may be, for all commands"
    assert {name: count for name, count in lines.items() if count > 150} == {}
    assert sum(lines.values()) <= 60 * len(lines), "lines of a command, on average"
    shown = ROOT / "lockref/cli/jobs/shown"
    jobs = set((ROOT / "lockref/cli/jobs").rglob("*.py")) - {shown / "console.py", shown / "results.py"}
    assert [path.name for path in jobs if "import click" in path.read_text(encoding="utf-8")] == []
