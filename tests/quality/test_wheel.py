"""What is installed is complete: every import is declared, every file that the code reads is in the wheel.

The environment of the tests has more packages than a user's, so a missing declaration shows nowhere else. The last test
builds the wheel, installs it in an environment of its own, and runs every command there.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import click
import pytest
from hatchling.builders.wheel import WheelBuilder

from lockref.cli.main import cli

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ROOMS = ("lockref", "sim", "scenarios", "reports")

OPTIONAL = {
    "docker": "containers",
    "testcontainers": "containers",
}
"""Packages that may be missing, and the extra that brings them. They are imported in functions alone."""


def sources() -> list[Path]:
    return [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]


def imported(tree: ast.AST, *, is_lazy: bool = False) -> Iterator[tuple[str, int, bool]]:
    """Each module that is imported: its name, the line, and whether only a call of a function imports it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno, is_lazy) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node.lineno, is_lazy
            yield from ((f"{node.module}.{alias.name}", node.lineno, is_lazy) for alias in node.names)
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        yield from imported(node, is_lazy=is_lazy or is_function)


def declared_modules() -> set[str]:
    """Dotted names of the modules and packages that the declared dependencies install."""
    names = [re.split(r"[\[<>=;, ]", line)[0] for line in PROJECT["dependencies"]]
    return {
        file.with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__").split(".cpython")[0]
        for name in names
        for file in metadata.files(name) or []
        if file.suffix in (".py", ".so")
    }


def test_every_import_is_declared():
    """A module that is imported is of the standard library, ours, or installed by a dependency that is named."""
    declared = declared_modules()
    wrong = []
    for path in sources():
        shown = path.relative_to(ROOT).as_posix()
        seen: dict[tuple[str, int], bool] = {}
        for name, line, is_lazy in imported(ast.parse(path.read_text(encoding="utf-8"))):
            top = name.split(".")[0]
            if top in sys.stdlib_module_names or top in ROOMS or top == "__future__":
                continue
            if top in OPTIONAL:
                if not is_lazy:
                    wrong.append(f"{shown}:{line}: {name} is optional, and imported at the top")
                continue
            # `from package import name`: the package itself must be there, and `name` may be a thing in it.
            seen[top, line] = seen.get((top, line), False) or name in declared
        wrong += [
            f"{shown}:{line}: {top} is installed by no declared dependency"
            for (top, line), ok in seen.items()
            if not ok
        ]
    assert "scenarios/backends/status.py" in {path.relative_to(ROOT).as_posix() for path in sources()}
    azure_identity = {line for line in wrong if "azure" in line}
    assert set(wrong) - azure_identity == set()
    # An identity of Azure is asked for where its package happens to be installed.
    assert {line.split(":")[0] for line in azure_identity} == {
        "lockref/clouds/azure/sdk.py", "lockref/clouds/azure/signing.py",
    }  # fmt: skip


def test_each_optional_package_is_an_extra():
    """Whoever misses an optional package is told an extra's name, and that extra brings the package."""
    extras = PROJECT["optional-dependencies"]
    for module, extra in OPTIONAL.items():
        named = [re.split(r"[<>=]", line)[0] for line in extras[extra]]
        homes = set(metadata.packages_distributions().get(module, ()))
        assert homes & {*named} or {home.lower() for home in homes} & {*named}, (module, extra)


def files_named_in_code() -> Iterator[tuple[str, Path]]:
    """What the code reaches from its own place: `Path(__file__)…`, evaluated; and the place in the source."""
    for path in sources():
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if "__file__" in source else ():
            if not isinstance(node, ast.BinOp | ast.Call | ast.Attribute | ast.Subscript):
                continue
            text = ast.unparse(node)
            if re.fullmatch(
                r"Path\(__file__\)(\.resolve\(\)|\.parent|\.parents\[\d\]|\.with_name\('[^']*'\)| / '[^']*')+", text
            ):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", eval(text, {"Path": Path, "__file__": str(path)})


def wheel_holds(path: Path) -> bool:
    """The wheel holds whatever git knows below the rooms: hatchling leaves out only what git ignores."""
    return path == ROOT or any(path.is_relative_to(ROOT / room) for room in ROOMS)


def test_the_code_reads_no_file_beside_its_packages():
    """docs/ and tests/ are not installed, so no room reads a file of theirs."""
    found = list(files_named_in_code())
    assert {path.name for _, path in found} >= {"catalogue", "waker.py", "locks"}
    missing = [(place, path) for place, path in found if not path.exists()]
    outside = [(place, path) for place, path in found if not wheel_holds(path)]
    assert (missing, outside) == ([], [])


def test_the_wheel_holds_the_rooms_alone():
    """Other people's locks, and what drives them, are evidence: they stand in tests/, and are not installed."""
    files = [each.distribution_path for each in WheelBuilder(str(ROOT)).recurse_included_files()]
    assert {path.split("/")[0] for path in files} == {*ROOMS}
    assert {"lockref/opening.py", "scenarios/schema.json"} <= {*files}
    assert [path for path in files if not {"peers", "tests", "evidence"}.isdisjoint(path.split("/"))] == []
    assert "entry-points" not in PROJECT


def test_no_command_reaches_the_tests():
    """No module of the rooms names one of `tests`: no import, and no text that something may import later."""
    wrong = []
    for path in sources():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        words = [(f"{name}.", line) for name, line, _ in imported(tree)]
        prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        words += [
            (node.value, node.lineno)
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
        ]
        wrong += [f"{path}:{line}: {word}" for word, line in words if re.match(r"tests[./]", word)]
    assert wrong == []


def test_git_ignores_nothing_that_the_code_reads():
    """hatchling leaves out what git ignores, so a data file that an ignore pattern hits would be missing."""
    asked = "\n".join(
        path.relative_to(ROOT).as_posix()
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    done = subprocess.run(
        ["git", "-C", str(ROOT), "check-ignore", "--stdin"], input=asked, capture_output=True, text=True
    )
    if done.returncode == 128:
        pytest.skip("no checkout of git")
    assert done.stdout == ""


COMMAND_LINES = (
    ("demo --seeds 20 --no-server --no-spark", {0}),
    ("doctor", {0}),
    ("doctor --json", {0}),
    ("sim e08 --provider hudi --seeds 1..20 --jobs 2", {1}),
    ("sim z09-frozen-holder --provider helix --seeds 1..2 --json", {0, 3}),
    ("replay .lockref/failures", {1}),
    ("replay .lockref/failures --backend memory:", {5}),
    ("bench contention --backend memory: --contenders 4 --for 1s", {0, 3}),
    ("bench contention --backend ministack --contenders 4 --for 1s", {0, 3, 5}),
    ("bench contention --backend moto --via docker --contenders 4 --for 1s", {5}),
    ("probe memory:", {0, 1, 3}),
    ("evaluate memory: --contenders 1 --no-faults", {0, 1, 3}),
    ("wire --backend ministack --clients 1 -- true", {3, 5}),
    ("check .lockref/runs/latest", {0, 1, 2, 3}),
    ("report latest", {0, 2, 5}),
    ("compare latest latest", {0, 2}),
    ("scenario list", {0}),
    ("scenario schema", {0}),
    ("scenario validate e08", {0}),
    ("scenario test e01", {0}),
    ("delta plan --tables 2 --writers 1..3", {0}),
    ("delta figures", {0}),
    ("cluster figures", {0}),
    ("cluster run missing.yaml", {2}),
    ("cluster run lock-manager.yaml --then leave", {0, 5}),
    ("backends", {0}),
    ("backends up nosuch", {2}),
    ("providers", {0}),
)
"""Each command with the exit codes that it may have where Java, Node and Docker's client may be missing."""


def commands_below(group: click.Group, *above: str) -> Iterator[str]:
    """Every command with its sub-commands, as it is typed; a group that does something alone is one of them."""
    with click.Context(group) as context:
        if group.invoke_without_command and above:
            yield " ".join(above)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if isinstance(command, click.Group):
                yield from commands_below(command, *above, name)
            else:
                yield " ".join((*above, name))


def test_every_command_is_in_the_installed_test():
    """A command that is added is also run from an installed wheel, and so is a sub-command."""
    lines = [line for line, _ in COMMAND_LINES]
    commands = list(commands_below(cli))
    assert {"sim", "backends", "backends up", "scenario test"} <= set(commands)
    assert [command for command in commands if not any(f"{line} ".startswith(f"{command} ") for line in lines)] == []


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_an_installed_wheel_runs_every_command(tmp_path):
    """In a clean environment each command works, or ends with one line that says what is missing: no traceback."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    built = subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", tmp_path, ROOT], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("lockref-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (commands,) = (archive.read(name) for name in archive.namelist() if name.endswith("/entry_points.txt"))
    assert commands.decode().split() == ["[console_scripts]", "lockref", "=", "lockref.cli.main:main"]
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "clean"], check=True)
    binaries = tmp_path / "clean" / "bin"
    installed = subprocess.run([binaries / "pip", "install", "-q", wheel], capture_output=True, text=True)
    if installed.returncode and "No matching distribution" in installed.stderr:
        pytest.skip(f"no package registry: {installed.stderr.splitlines()[-1]}")
    assert installed.returncode == 0, installed.stderr
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    shutil.copy(ROOT / "docs" / "examples" / "lock-manager.yaml", folder)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LOCKREF", "DOCKER"))
    }
    wrong = []
    for line, codes in COMMAND_LINES:
        done = subprocess.run(
            [binaries / "lockref", *line.split()], cwd=folder, env=environment, capture_output=True, text=True
        )
        if done.returncode not in codes or "Traceback" in done.stderr or "defect in lockref" in done.stderr:
            wrong.append((line, done.returncode, done.stderr[-600:]))
        if "--json" in line:
            json.loads(done.stdout)
    assert wrong == []
