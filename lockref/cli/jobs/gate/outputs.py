"""The outputs of a gate beside its screen: the files that the caller asks for, and what a CI system reads."""

from __future__ import annotations

import ast
import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

from lockref.atomic_files import write_atomically
from reports.formats.gate_markdown import gate_markdown
from reports.formats.gate_result import GateResult
from reports.formats.github import gate_annotation_lines
from reports.formats.junit import gate_junit_xml
from reports.formats.markdown import BYTES_MAX

if TYPE_CHECKING:
    from lockref.cli.jobs.gate.options import GateOptions
    from lockref.cli.jobs.shown.console import Console


def write_outputs(console: Console, result: GateResult, options: GateOptions) -> None:
    """Write the files that the caller asks for, and what a CI system reads: the summary of the job, and annotations."""
    if options.junit is not None:
        write_atomically(options.junit, gate_junit_xml(result))
    if options.markdown is not None:
        write_atomically(options.markdown, gate_markdown(result))
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        _append_summary(Path(summary), result)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in gate_annotation_lines(result):
            console.command(line)


def _append_summary(path: Path, result: GateResult) -> None:
    """Append to the summary of the job's step, which may have a part already. All of it counts towards the limit."""
    there = path.stat().st_size if path.exists() else 0
    if there < BYTES_MAX:
        with path.open("a", encoding="utf-8") as file:
            file.write("\n" + gate_markdown(result, bytes_max=BYTES_MAX - there - 1))


def place_of_class(provider: str) -> tuple[str, int | None]:
    """The file and the line in which the class of a lock begins, for annotations; "" and None where neither is known.

    provider: as the caller named the lock. Nothing is imported: the file is read.
    """
    source, _, name = provider.rpartition(":")
    if not source:
        return "", None
    path = Path(source)
    if path.suffix != ".py":
        try:
            found = importlib.util.find_spec(source)
        except (ImportError, ValueError):
            return "", None
        if found is None or not found.origin:
            return "", None
        path = Path(found.origin)
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return "", None
    lines = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name]
    # GitHub knows files by their path from the root of the repository.
    root = os.environ.get("GITHUB_WORKSPACE", ".")
    return Path(os.path.relpath(path, root)).as_posix(), min(lines, default=None)
