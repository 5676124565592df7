"""A part of a lock owns its state: nobody else writes it.

Asked of the source, not of a run: in `lockref/locks`, `lockref/storage` and `lockref/dynamodb` an
attribute is assigned through `self` alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import lockref
from lockref.coordination.lease import ZnodeLease
from lockref.dynamodb.lease import DynamoLock

_HOUSE = Path(lockref.__file__).parent
SOURCES = sorted(path for room in ("locks", "storage", "dynamodb") for path in (_HOUSE / room).rglob("*.py"))


def foreign_writes(source: str) -> Iterator[str]:
    """`line: name` of each attribute that is written or deleted on something other than `self`."""
    for node in ast.walk(ast.parse(source)):
        is_write = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del)
        if is_write and not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            yield f"{node.lineno}: {ast.unparse(node)}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr"):
            yield f"{node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(_HOUSE)))
def test_no_attribute_is_written_from_outside(path):
    """Each class writes its own attributes, and no other's."""
    assert list(foreign_writes(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "line",
    ["tenure.lease = x", "self.tenure.count += 1", "a, lock.b = 1, 2", "del lock.tenure", "setattr(lock, 'a', 1)"],
)
def test_a_write_from_outside_is_seen(line):
    """The question itself: every form of writing to somebody else's attribute."""
    assert len(list(foreign_writes(line))) == 1


FACE, FAMILY = "lockref.locks.lease_lock", "lockref.delta.lease"


@pytest.mark.parametrize(
    ("lock", "bases"),
    [(lockref.StorageLock, [FACE]), (DynamoLock, [FAMILY, FACE]), (ZnodeLease, [FAMILY, FACE])],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_lock_inherits_its_calls_and_no_step(lock: type, bases: list[str]) -> None:
    """Each lock is composed. It inherits what an application calls, and overrides no private step of a base."""
    ours = [each for each in lock.__mro__ if each.__module__.startswith("lockref")]
    assert [base.__module__ for base in ours[1:]] == bases
    private = [name for each in ours for name in vars(each) if name.startswith("_") and not name.startswith("__")]
    assert [name for name in private if private.count(name) > 1] == []
