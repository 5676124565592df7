"""The syntax trees of our own sources, parsed once for all tests that read them."""

from __future__ import annotations

import ast
import gc
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("lockref", "sim", "scenarios", "reports")

READS_SOURCES = pytest.mark.xdist_group("sources")
"""The mark of a test that reads all sources: one worker runs all of these, so that one alone parses."""


@cache
def _trees() -> Mapping[Path, ast.Module]:
    """Every file of the rooms. The trees stay: a collector that looked at them while they grow took two thirds."""
    gc.disable()
    try:
        files = (path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
        trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}
        gc.freeze()
    finally:
        gc.enable()
    return trees


def tree(path: Path) -> ast.Module:
    """The syntax tree of a file of the rooms, which all tests share: nobody changes it.

    Raises KeyError for another file.
    """
    return _trees()[path.resolve()]
