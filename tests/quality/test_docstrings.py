"""A docstring names its subject: no first word that makes the reader look for it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(path for room in ("lockref", "sim", "scenarios", "reports") for path in (ROOT / room).rglob("*.py"))
RIDDLE = re.compile(r"(Of|Whoever|Those|Until)\b")


def strings_that_stand_alone(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Docstrings, and the strings below a constant or a field that say what it is, each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


@pytest.mark.parametrize("room", ["lockref", "sim", "scenarios", "reports"])
def test_no_docstring_begins_with_a_riddle(room: str) -> None:
    """`Of`, `Whoever`, `Those` and `Until` have their noun somewhere else."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in FILES
        if path.is_relative_to(ROOT / room)
        for line, text in strings_that_stand_alone(ast.parse(path.read_text(encoding="utf-8")))
        if RIDDLE.match(text.strip())
    ]
    assert not found, "\n".join(found)


def test_the_check_sees_a_riddle() -> None:
    """A check that finds nothing anywhere would pass as well."""
    tree = ast.parse('SIZE = 3\n"""Of one worker."""\ndef f():\n    """Until the end."""\n')
    assert [bool(RIDDLE.match(text)) for _, text in strings_that_stand_alone(tree)] == [True, True]
