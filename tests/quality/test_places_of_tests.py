"""Where tests stand: `unit` mirrors the product, and the tables of tests/README.md name what there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
PRODUCT = ("lockref", "sim", "scenarios", "reports")
README = (TESTS / "README.md").read_text(encoding="utf-8")
TEST_FILES = sorted(TESTS.rglob("test_*.py"))


def rows(heading: str) -> Iterator[tuple[list[str], list[str]]]:
    """What the first two columns of the first table below `heading` name, row by row."""
    table = README.partition(f"# {heading}\n")[2].partition("|---|")[2].partition("\n\n")[0]
    for row in table.splitlines()[1:]:
        first, second = row.split("|")[1:3]
        yield re.findall(r"`([^`]+)`", first), re.findall(r"`([^`]+)`", second)


FOLDERS = [name for names, _ in rows("Where does a new test go?") for name in names]
MAP = list(rows("Which tests belong to a module?"))


def test_each_folder_of_the_unit_tests_is_a_folder_of_the_product() -> None:
    """The tests of a module are found by its path; a test without a room stands nowhere."""
    unit = TESTS / "unit"
    homes = {path.parent.relative_to(unit) for path in TEST_FILES if path.is_relative_to(unit)}
    strange = [str(home) for home in homes if home.parts[:1] not in {(name,) for name in PRODUCT}]
    assert strange == []
    assert [str(home) for home in homes if not (ROOT / home).is_dir()] == []


def test_each_test_file_stands_in_a_folder_of_the_table() -> None:
    """The table says which question a folder answers; a test elsewhere answers none of them."""
    homes = {path.parent.relative_to(TESTS) for path in TEST_FILES}
    assert [str(home) for home in homes if not any(home.is_relative_to(folder) for folder in FOLDERS)] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_folder_of_the_table_exists(folder: str) -> None:
    assert (TESTS / folder).is_dir()


def test_each_room_of_the_product_is_in_the_map() -> None:
    """A room below one that is named counts as named with it."""
    named = {module for modules, _ in MAP for module in modules}
    rooms = {path.parent.relative_to(ROOT) for name in PRODUCT for path in (ROOT / name).rglob("*.py")}
    below = {room for room in rooms if not {str(each) for each in (room, *room.parents)} & named}
    assert below == set()
    assert [module for module in named if not (ROOT / module).is_dir()] == []


@pytest.mark.parametrize("name", [name for _, names in MAP for name in names])
def test_what_the_map_names_exists(name: str) -> None:
    """A file, a folder, or several files by one pattern."""
    found = [path for path in TESTS.glob(name) if path.is_dir() or path.name.startswith("test_")]
    assert found
