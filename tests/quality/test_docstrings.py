"""A docstring names its subject: no first word that makes the reader look for it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.quality.source_trees import READS_SOURCES, ROOMS, ROOT, tree

FILES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
RIDDLE = re.compile(
    r"(Of|Whoever|Those|Until|It|Its|They|Their|Them|Who|Whom|Whose|Somebody|Nobody|Anybody)\b|What\b[^.;:]*\bthat\b"
)
"""First words without a noun: it stands in another sentence, or behind `What … that`."""
CLAUSE = re.compile(r"(What|How|Where)\b(?![^.;:]*\?)")
"""A docstring that begins with a clause in the place of a noun. A question may stand there."""
COMMENT_RIDDLE = re.compile(r"\s*# (Of|Whoever|Those|Until) ")


def strings_that_stand_alone(module: ast.AST) -> Iterator[tuple[int, str]]:
    """Docstrings, and the strings below a constant or a field that say what it is, each with its line."""
    for node in ast.walk(module):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


@READS_SOURCES
@pytest.mark.parametrize("room", ROOMS)
def test_no_docstring_begins_with_a_riddle(room: str) -> None:
    """`Of`, `Whoever`, `It`, `Whose`, `What … that` and their kin have their noun somewhere else."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in FILES
        if path.is_relative_to(ROOT / room)
        for line, text in strings_that_stand_alone(tree(path))
        if RIDDLE.match(text.strip())
    ]
    assert not found, "\n".join(found)


def docstrings(module: ast.AST) -> Iterator[tuple[int, str]]:
    """The docstrings of the module, its classes and its functions, each with the line of its owner."""
    for node in ast.walk(module):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield getattr(node, "lineno", 1), text


@READS_SOURCES
@pytest.mark.parametrize("room", ROOMS)
def test_a_docstring_begins_with_a_noun_or_a_verb(room: str) -> None:
    """`How a release ended.` leaves the reader to find out what is returned; `The result of a release.` says it."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in FILES
        if path.is_relative_to(ROOT / room)
        for line, text in docstrings(tree(path))
        if CLAUSE.match(text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("room", ROOMS)
def test_no_comment_begins_with_a_riddle(room: str) -> None:
    """A comment names its subject, too."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in FILES
        if path.is_relative_to(ROOT / room)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if COMMENT_RIDDLE.match(line)
    ]
    assert not found, "\n".join(found)


def test_the_check_sees_a_riddle() -> None:
    """A check that finds nothing anywhere would pass as well."""
    texts = [
        "Of one worker.",
        "Until the end.",
        "Its caller waits.",
        "What the lock says that nobody asked.",
        "Whose turn.",
    ]
    riddles = ast.parse("\n".join(f"SIZE = 3\n{text!r}" for text in texts))
    assert [bool(RIDDLE.match(text)) for _, text in strings_that_stand_alone(riddles)] == [True] * len(texts)
    for plain in ("What the store did.", "The end.", "Items that stay.", "What is sent: a request that is data."):
        assert not RIDDLE.match(plain)
    clauses = ["What a lock says.", "How a release ended.", "Where a store lies: a bucket."]
    owned = ast.parse("\n".join(f"def f{number}():\n    {text!r}" for number, text in enumerate(clauses)))
    assert [bool(CLAUSE.match(text)) for _, text in docstrings(owned)] == [True] * len(clauses)
    assert not CLAUSE.match("How many writers can a set of tables use? One simulation for each number.")
