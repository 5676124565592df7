"""Which packages of others each room stands on, and what a lock costs an application before its first request."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.quality.source_trees import READS_SOURCES, tree
from tests.quality.test_rooms import MODULES, is_in

THIRD_PARTY: dict[str, set[str]] = {
    "lockref": set(),
    "lockref.cli": {"click", "markupsafe", "rich"},
    "lockref.coordination": {"kazoo"},
    "lockref.history": {"numpy", "pyarrow"},
    "lockref.lab": {"numpy", "pyarrow"},
    "lockref.located_yaml": {"yaml"},
    "lockref.originals.jvm": {"jpype"},
    "lockref.storage.metrics": {"prometheus_client"},
    "lockref.clouds": set(),
    "lockref.clouds.aws": {"boto3", "botocore", "urllib3"},
    "lockref.clouds.azure.signing": {"azure"},
    "lockref.clouds.dynamodb.client": {"boto3", "botocore"},
    "lockref.clouds.dynamodb.signing": {"botocore"},
    "lockref.clouds.gcs.signing": {"google"},
    "lockref.clouds.s3.signing": {"boto3", "botocore"},
    "lockref.clouds.azure.client": {"azure", "requests"},
    "lockref.clouds.azure.sdk": {"azure", "requests", "urllib3"},
    "lockref.clouds.bounded_exchange": {"urllib3"},
    "lockref.clouds.gcs.client": {"google", "requests", "urllib3"},
    "lockref.clouds.http_session": {"requests", "urllib3"},
    "lockref.clouds.s3.client": {"boto3", "botocore", "mypy_boto3_s3"},
    "lockref.clouds.s3.obstore_client": {"botocore", "obstore"},
    "lockref.stores.probe.fingerprint": {"pydantic"},
    "lockref.testing": {"pytest"},
    "reports": {"numpy", "pyarrow", "pydantic"},
    "reports.comparison.store_table": {"rich"},
    "reports.comparison.terminal": {"rich"},
    "reports.figures": {"matplotlib"},
    "reports.formats": {"pydantic"},
    "reports.html": {"jinja2", "markupsafe"},
    "reports.page": {"pyspark"},
    "reports.pipeline": {"datasketches", "numpy", "pyarrow", "pyspark"},
    "reports.spark": {"psutil", "py4j", "pyspark"},
    "scenarios": {"numpy", "psutil", "pyarrow", "pydantic"},
    "scenarios.backends": {"docker", "psutil", "requests", "testcontainers"},
    "scenarios.definition": {"annotated_types", "pydantic", "pydantic_core"},
    "scenarios.helix": {"psutil", "rich"},
    "scenarios.injection": {"cryptography"},
    "scenarios.probe": set(),
    "sim": set(),
    "sim.explore": {"pydantic"},
    "sim.faults": {"pydantic"},
    "sim.kernel": {"greenlet"},
}  # fmt: skip
"""Room or module to the packages that it may import, types included. The longest name that fits counts."""

CLIENTS = {
    "azure",
    "boto3",
    "botocore",
    "docker",
    "google",
    "kazoo",
    "obstore",
    "requests",
    "testcontainers",
    "urllib3",
}

OURS = {"lockref", "sim", "scenarios", "reports"}


def packages(module: str) -> Iterator[str]:
    """The packages of others that a module imports, wherever in its code."""
    for node in ast.walk(tree(MODULES[module])):
        named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            named = [str(node.module)]
        for name in named:
            package = name.partition(".")[0]
            if package not in OURS and package not in sys.stdlib_module_names:
                yield package


def room_of(module: str) -> str:
    return max((room for room in THIRD_PARTY if is_in(module, room)), key=len)


@READS_SOURCES
def test_rooms_stand_on_the_packages_of_their_row_alone() -> None:
    """A package that comes into a room is a decision, and stands in the table."""
    wrong = [
        f"{module} imports {package}"
        for module in MODULES
        for package in dict.fromkeys(packages(module))
        if package not in THIRD_PARTY[room_of(module)]
    ]
    assert wrong == []


@READS_SOURCES
def test_the_table_names_no_package_that_a_room_does_without() -> None:
    """A row that has become too wide would let the package in again unseen."""
    used: dict[str, set[str]] = {room: set() for room in THIRD_PARTY}
    for module in MODULES:
        used[room_of(module)] |= set(packages(module))
    assert used == THIRD_PARTY


ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def group(name: str) -> set[str]:
    """The packages of a dependency group, with those of the groups that it includes."""
    found: set[str] = set()
    for entry in PROJECT["dependency-groups"][name]:
        found |= group(entry["include-group"]) if isinstance(entry, dict) else {package_name(entry)}
    return found


def extra(name: str) -> set[str]:
    """The packages of an extra, with those of the extras that it takes in (`lockref[s3,lab]`)."""
    found: set[str] = set()
    for entry in PROJECT["project"]["optional-dependencies"][name]:
        taken = re.fullmatch(r"lockref\[([a-z0-9,]+)\]", entry)
        found |= set().union(*map(extra, taken[1].split(","))) if taken else {package_name(entry)}
    return found


def package_name(requirement: str) -> str:
    """`pandas` of `pandas>=2.2,<3`."""
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower().replace("_", "-")


@pytest.mark.parametrize(("lock", "groups"), [("requirements.lock", []), ("requirements-dev.lock", ["dev"])])
def test_a_lock_file_pins_what_the_project_names(lock: str, groups: list[str]) -> None:
    """A package that the project no longer names stayed in the lock file, and was installed everywhere."""
    named = extra("all").union(*map(group, groups))
    text = (ROOT / lock).read_text(encoding="utf-8")
    pins = re.findall(r"^([a-z0-9._-]+)(?:\[[a-z0-9,-]+\])?==.*\n((?: {4}.*\n?)+)", text, re.MULTILINE)
    direct = {name for name, block in pins if "lockref (pyproject.toml" in block}
    assert direct == named, "run `make locks`"
    assert "://" not in text, "a lock file names no host"


def loaded_by(statement: str) -> set[str]:
    """The packages that a new interpreter has loaded after this statement, and rooms of the laboratory."""
    code = f"import sys\nbefore = set(sys.modules)\n{statement}\nprint(*set(sys.modules) - before)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    rooms = {"lockref.lab", "lockref.history", "sim", "scenarios", "reports"}
    names = set(told.split())
    return {name for name in names if name in rooms} | {
        package
        for package in {name.partition(".")[0] for name in names}
        if package not in OURS and package not in sys.stdlib_module_names
    }


@pytest.mark.parametrize(
    "statement",
    [
        "from lockref import open_lock",
        "from lockref.testing import LocalStore, open_lock; open_lock('memory:alone')",
        "from lockref import StorageLock, StorageLockConfig, open_store; open_store('memory:', request_timeout_ns=1)",
        "from lockref.dynamodb.lease import DynamoLock",
        "from lockref.helix.lock import HelixLock",
        "import lockref.clouds.azure.answers, lockref.clouds.gcs.answers, lockref.clouds.s3.answers",
    ],
)
def test_a_lock_loads_the_standard_library_alone(statement: str) -> None:
    """An application that opens a lock pays for no laboratory and for no SDK that it does not use."""
    assert loaded_by(statement) == set()


def test_the_table_of_servers_loads_no_client_of_them() -> None:
    """A command that runs a lock in memory, or lists what it could run on, waits for no SDK (2 s for all three)."""
    assert loaded_by("import scenarios.backends, scenarios.worlds.contention") & CLIENTS == set()


def test_a_listing_of_scenarios_loads_no_arrays() -> None:
    """`lockref scenario list` reads the catalogue and judges nothing: NumPy and Arrow would be a third of its time."""
    statement = "from lockref.cli.main import run; assert run(['--quiet', 'scenario', 'list', '--json']) == 0"
    assert loaded_by(statement) & {"numpy", "pyarrow"} == set()


SDKS = {"s3": {"boto3", "botocore"}, "gs": {"google"}, "az": {"azure"}}
"""By scheme, the packages of the SDK that opens such a store. `google` is also the parent of packages of Azure's."""


@pytest.mark.parametrize(("command", "scheme"), [*(("probe", scheme) for scheme in SDKS), ("bench --backend", "s3")])
def test_a_command_loads_the_cloud_that_its_arguments_name(
    command: str, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody listens at the endpoint: a request is made, and the command ends. It loads no other SDK."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "none")
    account = "/devstoreaccount1" if scheme == "az" else ""
    words = [*command.split(), f"{scheme}://lake?endpoint=http://127.0.0.1:9{account}"]
    loaded = loaded_by(f"from lockref.cli.main import run; assert run({['--quiet', *words]}) == 5")
    others = set().union(*(packages for other, packages in SDKS.items() if other != scheme))
    assert loaded & others == set()
    if command != "probe":
        assert loaded & SDKS[scheme], "the client that the lock opens"


@pytest.mark.parametrize("scheme", SDKS)
def test_a_probe_asks_first_and_loads_what_it_judges_with_later(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator's faults and the form of a fingerprint took a third of the time before the first request."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "none")
    account = "/devstoreaccount1" if scheme == "az" else ""
    words = ["--quiet", "probe", f"{scheme}://lake?endpoint=http://127.0.0.1:9{account}"]
    code = (
        "import os, sys\n"
        "def first(event, _args):\n"
        "    if event == 'socket.connect':\n"
        "        print(*sys.modules, flush=True)\n"
        "        os._exit(0)\n"
        "sys.addaudithook(first)\n"
        f"from lockref.cli.main import run; run({words})"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "scenarios.probe.run" in told, "it has come to a request"
    late = {"numpy", "pyarrow", "jinja2", "matplotlib", "pydantic", "sim.faults", "google.auth"}
    assert set(told) & late == set()
