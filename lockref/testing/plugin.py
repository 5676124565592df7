"""The pytest plugin: scenarios as test items, files `*.lock.yaml` as tests, a local store as a fixture.

pytest loads this module in every project of its environment. So it imports nothing of the laboratory: that loads when
the first test asks for it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from lockref.testing.options import MARKERS, PROVIDER, SEEDS, SUFFIX

if TYPE_CHECKING:
    from lockref.testing.checking import LockResult
    from lockref.testing.stores import LocalStore
    from lockref.testing.yaml_files import LockFile

_VERSION: Final = re.compile(r"^version: *1 *$", re.MULTILINE)
_NAME: Final = re.compile(r"^name: *[a-z0-9]", re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lockref", "locks under test (lockref)")
    group.addoption(
        "--lockref-seeds", metavar="A..B",
        help="seeds for every scenario, such as 1..500, or one seed; in the place of those that a test names",
    )  # fmt: skip
    group.addoption(
        "--lockref-provider", metavar="LOCK",
        help=f"the lock that files *{SUFFIX} test: a name, module:Class or file.py:Class",
    )  # fmt: skip
    parser.addini(PROVIDER, f"the lock that files *{SUFFIX} test: a name, module:Class or file.py:Class")


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known, and refuse seeds that are none before anything is collected."""
    for line in MARKERS:
        config.addinivalue_line("markers", line)
    if asked := config.getoption(SEEDS):
        from lockref.seeds import seed_range

        try:
            seed_range(asked)
        except ValueError as error:
            raise pytest.UsageError(f"--lockref-seeds: {error}") from None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One item for each scenario of a test that asks for `lock_result`."""
    if "lock_result" in metafunc.fixturenames:
        from lockref.testing.conformance import parametrize

        parametrize(metafunc)


@pytest.fixture
def lock_result(request: pytest.FixtureRequest) -> LockResult:
    """The result of one scenario under the lock of this test: held or violated. Everything else ends the test here."""
    from lockref.testing.conformance import judged

    return judged(request)


@pytest.fixture
def lockref_store(tmp_path: Path) -> LocalStore:
    """A store on this machine, for this test alone: `open_lock(lockref_store.table("orders"))`."""
    from lockref.testing.stores import LocalStore

    return LocalStore(tmp_path / "lockref-store")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> LockFile | None:
    """A file `*.lock.yaml` is a test if it is a scenario. Other programs have files of that name, too."""
    if not file_path.name.endswith(SUFFIX):
        return None
    text = file_path.read_text(encoding="utf-8", errors="replace")
    if not (_VERSION.search(text) and _NAME.search(text)):
        return None
    from lockref import rooms
    from lockref.extras import naming_the_extra

    # Before the laboratory loads, as in `lockref.testing`.
    rooms.pin()
    with naming_the_extra(f"{file_path.name} is a scenario and needs", extra="lab"):
        from lockref.testing.yaml_files import LockFile

    return LockFile.from_parent(parent, path=file_path)
