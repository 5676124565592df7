"""The names of `lockref.testing` as a type checker sees them in a user's tests."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
from mypy import api

import lockref.testing
from tests.docs import ROOT

RIGHT = """
from typing import ClassVar

from lockref import StorageLock
from lockref.testing import LocalStore, LockConformance, LockResult, check_lock, lock_scenarios, open_lock


class TestNamed(LockConformance):
    provider = "my_lock.py:MyLock"
    scenarios = ["e01", "e08"]
    seeds = range(1, 21)


class TestClass(LockConformance):
    provider = StorageLock
    scenarios = ("e01",)
    seeds = [1, 2]


@lock_scenarios("e08", provider=StorageLock, seeds=range(5))
def test_more(lock_result: LockResult, lockref_store: LocalStore) -> None:
    assert lock_result.outcome == "held"
    with open_lock(lockref_store.table("orders")) as lock:
        token: int | None = lock.fencing_token
        assert token


def test_plain() -> None:
    failures: tuple[str, ...] = check_lock("hardened", "e01", seeds=[1]).failures
    assert not failures
"""
WRONG = """
from lockref.testing import LockConformance, check_lock

class TestNumber(LockConformance):
    provider = 7

check_lock("hardened", "e01", seeds="1..5")
check_lock("hardened", "e01").outcome == "broken"
"""


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The complaints of mypy, strict as this project has it, about both files outside of the project: `file:line`."""
    folder = tmp_path_factory.mktemp("users")
    (folder / "test_right.py").write_text(RIGHT)
    (folder / "test_wrong.py").write_text(WRONG)
    options = ["--cache-dir", str(ROOT / ".mypy_cache"), "--config-file", str(ROOT / "pyproject.toml"), "--no-pretty"]
    told, failed, _ = api.run([*options, *map(str, sorted(folder.glob("*.py")))])
    assert not failed
    return [":".join(line.rpartition("/")[2].split(":")[:2]) for line in told.splitlines() if ": error:" in line]


def functions() -> dict[str, Any]:
    """Every function of `lockref.testing`, and every method that its classes show, by name."""
    found: dict[str, Any] = {}
    for name in lockref.testing.__all__:
        value = getattr(lockref.testing, name)
        if inspect.isfunction(value):
            found[name] = value
        elif inspect.isclass(value):
            shown = (each for each in vars(value).items() if not each[0].startswith("_"))
            found |= {f"{name}.{part}": method for part, method in shown if inspect.isfunction(method)}
    return found


@pytest.mark.parametrize("name", functions())
def test_every_argument_and_answer_has_a_type(name: str) -> None:
    """What a checker must know of a function; what it makes of that, the two long tests ask the checker itself."""
    function = functions()[name]
    written = inspect.get_annotations(function)
    assert {each for each in inspect.signature(function).parameters if each != "self"} | {"return"} <= set(written)
    assert not [each for each in written.values() if re.search(r"\bAny\b", str(each))]


@pytest.mark.long
def test_a_strict_checker_accepts_a_users_tests(complaints: list[str]) -> None:
    """Every argument and attribute has a type, and none is Any."""
    assert [line for line in complaints if line.startswith("test_right")] == []


@pytest.mark.long
def test_a_strict_checker_refuses_what_is_wrong(complaints: list[str]) -> None:
    """A lock that is a number, seeds that are a text, an outcome that there is not."""
    assert [line for line in complaints if line.startswith("test_wrong")] == [
        "test_wrong.py:5", "test_wrong.py:7", "test_wrong.py:8",
    ]  # fmt: skip
