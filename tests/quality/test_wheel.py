"""What is installed is complete: every import is declared, every file that the code reads is in the wheel.

The environment of the tests has more packages than a user's, so a missing declaration shows nowhere else. The last
tests build what is published, install it in environments of their own, and run every command there, elsewhere.
"""

from __future__ import annotations

import ast
import email
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path

import click
import pytest

from hatch_build import relocated
from lockref.cli.commands import COMMANDS
from lockref.cli.main import cli
from lockref.extras import EXTRAS
from scenarios.backends import start_backend
from tests.quality.source_trees import READS_SOURCES, ROOMS, ROOT, tree

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BUILT_ONCE = pytest.mark.xdist_group("wheel")
"""Its tests run in one process, where what is published is built once."""

OPTIONAL = {
    "docker": "containers",
    "testcontainers": "containers",
    "jpype": "originals",
}
"""Packages that may be missing, and the extra that brings them. They are imported in functions alone."""


def sources() -> list[Path]:
    return [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]


def imported(above: ast.AST, *, is_lazy: bool = False) -> Iterator[tuple[str, int, bool]]:
    """Each module that is imported: its name, the line, and whether only a call of a function imports it."""
    for node in ast.iter_child_nodes(above):
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
    extras = PROJECT["optional-dependencies"].values()
    names = {re.split(r"[\[<>=;, ]", line)[0] for lines in extras for line in lines} - {"lockref"}
    return {
        file.with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__").split(".cpython")[0]
        for name in names
        for file in metadata.files(name) or []
        # A compiled package names its modules in stubs alone.
        if file.suffix in (".py", ".so", ".pyi")
    }


@READS_SOURCES
def test_every_import_is_declared():
    """A module that is imported is of the standard library, ours, or installed by a dependency that is named."""
    declared = declared_modules()
    wrong = []
    for path in sources():
        shown = path.relative_to(ROOT).as_posix()
        seen: dict[tuple[str, int], bool] = {}
        for name, line, is_lazy in imported(tree(path)):
            top = name.split(".")[0]
            if top in sys.stdlib_module_names or top in ROOMS or top == "__future__":
                continue
            if top == "pytest" and path.is_relative_to(ROOT / "lockref" / "testing"):
                # pytest loads its plugin, and nobody else does.
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


def test_the_lock_depends_on_nothing_and_each_extra_brings_what_it_is_told_for():
    """`lockref.extras` tells users what to install, so it names the modules that each extra installs."""
    assert PROJECT["dependencies"] == []
    extras = dict(PROJECT["optional-dependencies"])
    extras.pop("all")
    assert set(EXTRAS) == set(extras)
    homes = metadata.packages_distributions()
    for name, extra in EXTRAS.items():
        brought = {re.split(r"[\[<>=]", line)[0].replace("_", "-") for line in extras[name]} - {"lockref"}
        found = {module: installed_by(module, homes) for module in extra.modules}
        assert {module for module, by in found.items() if not by & brought} == set(), name
        assert brought - set().union(*found.values()) == set(), name


def installed_by(module: str, homes: Mapping[str, list[str]]) -> set[str]:
    """The distributions that install a module, or a package of a namespace such as `google.cloud.storage`."""
    path = module.replace(".", "/")
    return {
        home.lower().replace("_", "-")
        for home in homes.get(module.split(".")[0], ())
        if any(str(file).startswith(f"{path}/") or str(file) == f"{path}.py" for file in metadata.files(home) or ())
    }


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
        for node in ast.walk(tree(path)) if "__file__" in source else ():
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


@READS_SOURCES
def test_the_code_reads_no_file_beside_its_packages():
    """docs/ and tests/ are not installed, so no room reads a file of theirs."""
    found = list(files_named_in_code())
    assert {path.name for _, path in found} >= {"catalogue", "waker.py", "locks"}
    missing = [(place, path) for place, path in found if not path.exists()]
    outside = [(place, path) for place, path in found if not wheel_holds(path)]
    assert (missing, outside) == ([], [])


@BUILT_ONCE
def test_the_wheel_holds_one_package_with_the_rooms_in_it(built):
    """`sim` and the others are names of a user's. Other people's locks, and what drives them, are not installed."""
    with zipfile.ZipFile(built.wheel) as archive:
        files = [name for name in archive.namelist() if ".dist-info/" not in name]
        size = sum(entry.file_size for entry in archive.infolist())
    assert size < 5_750_000, "README promises a lock of about 5.7 MB"
    assert {path.split("/")[0] for path in files} == {"lockref"}
    assert {"lockref/opening.py", "lockref/scenarios/schema.json", "lockref/reports/html/templates/report.css"} <= {
        *files
    }
    assert {f"lockref/{room}py.typed" for room in ("", "sim/", "scenarios/", "reports/")} <= {*files}
    assert [path for path in files if not {"peers", "tests", "evidence"}.isdisjoint(path.split("/"))] == []


@READS_SOURCES
def test_no_command_reaches_the_tests():
    """No module of the rooms names one of `tests`: no import, and no text that something may import later."""
    wrong = []
    for path in sources():
        module = tree(path)
        words = [(f"{name}.", line) for name, line, _ in imported(module)]
        prose = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
        words += [
            (node.value, node.lineno)
            for node in ast.walk(module)
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
    ("campaign e08 --provider hudi --seeds 1..60 --jobs 2 --out campaign", {1}),
    ("fuzz --provider hardened --runs 40 --json", {0, 3}),
    ("gate --provider hardened --seeds 1..2 --json", {0, 3}),
    ("envelope --axis pause=8s..12s/4s --axis offset=0s..1s/1s --seeds 1..2 --jobs 1 --out envelope", {0}),
    ("replay .lockref/failures", {1}),
    ("replay .lockref/failures --backend memory:", {5}),
    ("explain .lockref/failures", {2}),
    ("bench contention --backend memory: --contenders 4 --for 1s", {0, 3}),
    ("bench contention --backend ministack --contenders 4 --for 1s", {0, 3, 5}),
    ("bench contention --backend moto --via docker --contenders 4 --for 1s", {5}),
    ("soak --backend memory: --for 1s", {3}),
    ("probe memory:", {0, 1, 3}),
    ("evaluate memory: --contenders 1 --no-faults", {0, 1, 3}),
    ("wire --backend ministack --clients 1 -- true", {3, 5}),
    ("check .lockref/runs/latest", {0, 1, 2, 3}),
    ("audit .", {3}),
    ("watch latest --every 100ms", {0, 1, 2, 3}),
    ("report latest", {0, 2, 5}),
    ("runs list", {0}),
    ("runs prune --dry-run", {0}),
    ("runs show latest", {0, 2}),
    ("runs events latest", {0, 2}),
    ("runs export latest --out run.zip", {0, 2, 5}),
    ("runs open nosuch", {2}),
    ("compare latest latest", {0, 2}),
    ("scenario list", {0}),
    ("scenario list --fault pause", {0}),
    ("scenario show e08", {0}),
    ("scenario schema", {0}),
    ("completion bash", {0}),
    ("scenario validate e08", {0}),
    ("scenario test e01", {0}),
    ("delta plan --tables 2 --writers 1..3", {0}),
    ("plan --tables 2 --writers 1..3 --workers 1..2", {0}),
    ("delta figures", {0}),
    ("cluster figures", {0}),
    ("cluster run missing.yaml", {2}),
    ("cluster run lock-manager.yaml --then leave", {0, 5}),
    ("cluster controller missing.yaml", {2}),
    ("cluster status zookeeper://127.0.0.1:1", {5}),
    ("cluster enable missing.yaml --instance n1", {2}),
    ("cluster disable missing.yaml --whole-cluster", {2}),
    ("cluster add-instance missing.yaml n1", {2}),
    ("cluster add-resource missing.yaml locks --locks 3", {2}),
    ("cluster drop missing.yaml --resource locks", {2}),
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


class Built:
    """What is published. from_sdist: the wheel that the source distribution gives."""

    def __init__(self, folder: Path) -> None:
        build(ROOT, folder / "direct", "wheel", "sdist")
        (self.wheel,) = (folder / "direct").glob("*.whl")
        (self.sdist,) = (folder / "direct").glob("*.tar.gz")
        with tarfile.open(self.sdist) as archive:
            archive.extractall(folder / "sources", filter="data")
        (sources,) = (folder / "sources").iterdir()
        build(sources, folder / "again", "wheel")
        (self.from_sdist,) = (folder / "again").glob("*.whl")


def build(sources: Path, into: Path, *targets: str) -> None:
    wanted = [word for target in targets for word in ("-t", target)]
    command = [sys.executable, "-m", "hatchling", "build", *wanted, "-d", into]
    done = subprocess.run(command, cwd=sources, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return Built(tmp_path_factory.mktemp("built"))


@BUILT_ONCE
def test_the_source_distribution_gives_the_same_wheel(built):
    """Whoever builds from it installs what we have tried: file by file the same, with the licence."""

    def contents(wheel: Path) -> dict[str, bytes]:
        with zipfile.ZipFile(wheel) as archive:
            return {name: archive.read(name) for name in archive.namelist()}

    direct = contents(built.wheel)
    assert contents(built.from_sdist) == direct
    (licence,) = (text for name, text in direct.items() if name.endswith("/licenses/LICENSE"))
    assert b"Version 2.0, January 2004" in licence
    assert b"END OF TERMS AND CONDITIONS" in licence


@BUILT_ONCE
def test_the_wheel_describes_itself(built):
    """What an index shows: licence, authors, versions of Python, and what each extra needs."""
    with zipfile.ZipFile(built.wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        told = email.message_from_bytes(archive.read(name))
        (commands,) = (archive.read(each) for each in archive.namelist() if each.endswith("/entry_points.txt"))
    assert told["License-Expression"] == "Apache-2.0"
    assert told["Author"]
    assert {"Typing :: Typed", "Programming Language :: Python :: 3.13"} <= {*told.get_all("Classifier")}
    needs = told.get_all("Requires-Dist")
    assert [line for line in needs if "extra ==" not in line] == []
    assert {"s3", "gcs", "azure", "dynamodb", "zookeeper", "lab", "spark", "all"} <= {*told.get_all("Provides-Extra")}
    assert "lockref = lockref.__main__:main" in commands.decode()


def test_imports_move_with_their_rooms_and_nothing_else_does():
    """Lines keep their numbers, so that a traceback of an installed lockref is found in the repository."""
    source = (
        b"from sim.kernel import (\n    Kernel,\n)\nfrom simple import sim\nimport scenarios.runs as runs, os\n"
        b'def f():\n    "from sim import x"\n    from reports import page; from  reports.html import render\n'
    )
    moved = (
        b"from lockref.sim.kernel import (\n    Kernel,\n)\nfrom simple import sim\n"
        b"import lockref.scenarios.runs as runs, os\n"
        b'def f():\n    "from sim import x"\n'
        b"    from lockref.reports import page; from  lockref.reports.html import render\n"
    )
    assert relocated(source) == moved
    with pytest.raises(ValueError, match=r"line 2: `import sim\.wire` cannot be moved"):
        relocated(b"import os\nimport sim.wire\n")


@READS_SOURCES
def test_no_room_names_a_module_of_ours_in_a_text():
    """A text does not move with its room: a module says `__name__` or `__package__`, and asks `lockref.rooms`."""
    wrong = []
    for path in sources():
        module = tree(path)
        prose = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
        wrong += [
            f"{path}:{node.lineno}: {node.value}"
            for node in ast.walk(module)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
            if re.match(r"(sim|scenarios|reports)(\.[a-z_]+)+$", node.value)
            and (ROOT / node.value.replace(".", "/")).with_suffix("").parent.is_dir()
            and (
                (ROOT / f"{node.value.replace('.', '/')}.py").exists() or (ROOT / node.value.replace(".", "/")).is_dir()
            )
        ]
    assert wrong == []


ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("PYTHON", "LOCKREF", "DOCKER", "VIRTUAL_ENV"))
}


def environment_of(folder: Path, wheel: Path, extra: str = "", python: str = sys.executable) -> Path:
    """A new environment with the wheel; the folder of its programs. Skips where a package cannot be had."""
    uv = [Path(sys.executable).with_name("uv")]
    installed = sorted(Path.home().glob(f".pyenv/versions/{python}.*/bin/python"))
    python = str(installed[-1]) if installed else python
    made = subprocess.run(
        [*uv, "venv", "-q", "--no-python-downloads", "--python", python, folder], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"no Python {python}: {made.stderr.splitlines()[0]}")
    wanted = f"{wheel}[{extra}]" if extra else wheel
    installed = subprocess.run(
        [*uv, "pip", "install", "-q", "--python", folder / "bin" / "python", wanted], capture_output=True, text=True
    )
    if installed.returncode and extra:
        pytest.skip(f"no package registry: {installed.stderr.splitlines()[-1]}")
    assert installed.returncode == 0, installed.stderr
    return folder / "bin"


def others(*versions: str) -> list[object]:
    """The parameters for other versions of Python than the one that runs the tests: each waits for the long lane."""
    return [pytest.param(version, marks=pytest.mark.long) for version in versions]


def run_installed(binaries: Path, folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [binaries / words[0], *words[1:]], cwd=folder, env=ENVIRONMENT | more, capture_output=True, text=True
    )


@BUILT_ONCE
@pytest.mark.parametrize("python", [sys.executable, *others("3.12", "3.13")])
def test_the_lock_alone_is_the_standard_library(python, built, tmp_path):
    """It locks on this machine, names the extra of a cloud, and each command names the laboratory. No traceback."""
    binaries = environment_of(tmp_path / "core", built.wheel, python=python)
    program = (
        "import importlib.metadata as m\n"
        "from lockref import ThreadRuntime, StorageLock, StorageLockConfig, open_lock, open_store, LockrefError\n"
        "import lockref\n"
        "print(sorted({d.name for d in m.distributions()} - {'pip', 'setuptools'}))\n"
        "print({'open_lock', 'LockLost'} <= set(dir(lockref)))\n"
        "for base in ('s3a://lake/t', 'gs://lake/t', 'abfss://lake@account.dfs.core.windows.net/t'):\n"
        "    try: open_lock({'hoodie.base.path': base})\n"
        "    except LockrefError as error: print(error)\n"
        "try: open_lock({'DYNAMO_LOCK_PARTITION_KEY_VALUE': 's3://lake/t'})\n"
        "except LockrefError as error: print(error)\n"
    )
    done = run_installed(binaries, tmp_path, "python", "-c", program)
    assert done.returncode == 0, done.stderr
    alone, is_listed, *told = done.stdout.splitlines()
    assert (alone, is_listed) == ("['lockref']", "True")
    assert [line.rpartition("pip install ")[2] for line in told] == [
        f"'lockref[{extra}]'" for extra in ("s3", "gcs", "azure", "dynamodb")
    ]
    assert run_installed(binaries, tmp_path, "lockref").returncode == 0
    assert run_installed(binaries, tmp_path, "lockref", "doctor").returncode == 0
    mistyped = run_installed(binaries, tmp_path, "lockref", "simm")
    assert (mistyped.returncode, "Did you mean 'sim'" in mistyped.stderr) == (2, True)
    for command in set(COMMANDS) - {"doctor"}:
        done = run_installed(binaries, tmp_path, "lockref", command)
        assert done.returncode == 5, command
        assert done.stderr.splitlines() == [
            f"lockref: lockref {command} needs the laboratory, which is not installed: pip install 'lockref[lab]'"
        ]


def commands_of_a_wheel(binaries: Path, folder: Path, lines: Iterable[tuple[str, set[int]]]) -> list[object]:
    """What went wrong of these command lines, each run in this folder: another exit code, a traceback, no document."""
    wrong: list[object] = []
    for line, codes in lines:
        done = run_installed(binaries, folder, "lockref", *line.split())
        if done.returncode not in codes or "Traceback" in done.stderr or "defect in lockref" in done.stderr:
            wrong.append((line, done.returncode, done.stderr[-600:]))
        elif "--json" in line:
            json.loads(done.stdout)
    return wrong


@BUILT_ONCE
@pytest.mark.realbackend
def test_one_sdk_alone_carries_a_lock(built, tmp_path):
    """`lockref[s3]` has neither the laboratory nor another SDK, and locks in a bucket with a fencing token."""
    binaries = environment_of(tmp_path / "s3", built.wheel, "s3")
    program = (
        "import sys; from lockref import open_lock\n"
        "lock = open_lock({'hoodie.base.path': 's3a://lockref/alone'}, endpoint=sys.argv[1])\n"
        "with lock: print(lock.holds(), lock.fencing_token)\n"
        "lock.close()\n"
        "print({'click', 'pydantic', 'numpy', 'lockref.sim', 'lockref.scenarios'} & {*sys.modules})\n"
    )
    with start_backend("ministack") as running:
        (endpoint,) = re.findall(r"http://[^&]+", running.uri)
        done = run_installed(binaries, tmp_path, "python", "-c", program, endpoint)
    assert done.stdout.splitlines() == ["True 1", "set()"], done.stderr


@BUILT_ONCE
@pytest.mark.long
def test_the_laboratory_runs_beside_packages_of_the_same_names(built, tmp_path):
    """A project has its own `sim`, `reports` and `scenarios` on the path: lockref runs, and its lock imports them."""
    binaries = environment_of(tmp_path / "lab", built.wheel, "lab")
    project = tmp_path / "project"
    write_project(project)
    own = {"PYTHONPATH": str(project)}
    for words in (
        ("lockref", "sim", "e01", "--provider", "my_lock:MyLock", "--seeds", "1..3"),
        ("python", "-m", "lockref", "sim", "e01", "--provider", "./my_lock.py:MyLock", "--seeds", "1..3"),
    ):
        done = run_installed(binaries, project, *words, **own)
        assert done.returncode == 0, done.stdout + done.stderr
    quick = [row for row in COMMAND_LINES if row[0].partition(" ")[0] in ("check", "providers", "scenario", "compare")]
    assert commands_of_a_wheel(binaries, project, [row for row in quick if "test" not in row[0]]) == []


def write_project(folder: Path) -> None:
    """A user's project whose packages have our short names, with a lock that needs them, at its import and later."""
    for name in ("sim", "reports", "scenarios"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("")
        (folder / name / "mine.py").write_text(f"NAME = 'my own {name}'\n")
    lock = (ROOT / "docs" / "examples" / "lease_lock.py").read_text(encoding="utf-8")
    lock = lock.replace("class LeaseLock:", "from sim.mine import NAME\nassert NAME == 'my own sim'\n\n\nclass MyLock:")
    (folder / "my_lock.py").write_text(lock)


def test_a_checkout_runs_beside_packages_of_the_same_names(tmp_path):
    """There the names are ours as well: they mean the user's while the user's code is imported."""
    write_project(tmp_path)
    for words in (["-m", "lockref"], ["-c", "from lockref.__main__ import main; main()"]):
        command = [sys.executable, *words, "sim", "e01", "--provider", "my_lock:MyLock", "--seeds", "1..3"]
        done = subprocess.run(
            command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr


@BUILT_ONCE
@pytest.mark.long
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("extra", ["lab", "all"])
def test_an_installed_wheel_runs_every_command(extra, built, tmp_path):
    """In a clean environment each command works, or ends with one line that says what is missing: no traceback."""
    binaries = environment_of(tmp_path / "clean", built.from_sdist, extra)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    shutil.copy(ROOT / "docs" / "examples" / "lock-manager.yaml", folder)
    # Without an SDK or a JVM what needs one ends with 5.
    lines = [(line, codes if extra == "all" else codes | {5}) for line, codes in COMMAND_LINES]
    assert commands_of_a_wheel(binaries, folder, lines) == []
