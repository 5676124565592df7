"""The same account for a pull request or a job summary.

GitHub drops a step summary above 1 MiB whole, so the text is bounded well
below; what does not fit is cut with a notice, details first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lockref.atomic_files import write_atomically
from reports.formats.speed import speed_lines
from reports.formats.text import markdown_text, printable

if TYPE_CHECKING:
    from reports.html.sections import Section, Table

BYTES_MAX = 900_000
BLOCK_MAX = 4000


def write_markdown(sections: Sequence[Section], path: Path, *, title: str) -> Path:
    """Write the summary; it never exceeds `BYTES_MAX`."""
    return write_atomically(path, markdown(sections, title=title))


def markdown(sections: Sequence[Section], *, title: str, bytes_max: int = BYTES_MAX) -> str:
    """The summary as text."""
    parts = [f"# {markdown_text(title)}\n"]
    for section in sections:
        parts += _verdict(section)
    for section in sections:
        parts += _details(section)
    text = ""
    size = 0
    notice = "\n*Cut here: the rest is in report.html and results.json.*\n"
    for part in parts:
        length = len(part.encode())
        if size + length + len(notice) > bytes_max:
            return text + notice
        text += part
        size += length
    return text


def _fence(text: str) -> str:
    """A code block whose fence is longer than any run of backticks inside."""
    text = printable(text, BLOCK_MAX)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"\n{ticks}text\n{text}\n{ticks}\n"


def _verdict(section: Section) -> list[str]:
    results = section.results
    parts = [f"\n## {markdown_text(results.title)}: {section.banner}\n\n{markdown_text(results.statement)}\n"]
    figures = speed_lines(results.speed) if results.speed is not None else []
    told = [results.endings_line, *figures, *results.untold_reasons, *section.notices]
    parts += [f"- {markdown_text(line)}\n" for line in told if line]
    if section.clauses:
        parts.append("\n| clause | verdict | runs judged | violated | |\n|---|---|--:|--:|---|\n")
        parts += [
            f"| {markdown_text(name)} | {words} | {clause.runs:,} | {clause.violated:,} "
            f"| {markdown_text(clause.text)} |\n"
            for name, clause, words in section.clauses
        ]
    if section.violations:
        parts.append(_fence(section.violations[0].failure.block))
    return parts


def _details(section: Section) -> list[str]:
    blocks = [
        ("Further failures", "".join(_fence(violation.failure.block) for violation in section.violations[1:])),
        ("Speed", _table(section.speed)),
        ("Store", _table(section.store)),
        ("Latency", _table(section.latency)),
        ("Answers", _table(section.outcomes)),
        ("Fairness", _table(section.fairness)),
        ("Records set aside", _table(section.quarantine)),
        ("Provenance", _table(section.provenance)),
    ]
    return [
        f"\n<details><summary>{markdown_text(section.results.title)}: {name}</summary>\n\n{body}\n</details>\n"
        for name, body in blocks
        if body
    ]


def _table(table: Table) -> str:
    if not table.rows:
        return ""
    lines = ["| " + " | ".join(markdown_text(cell) for cell in table.head) + " |", "|" + "---|" * len(table.head)]
    lines += ["| " + " | ".join(markdown_text(cell) for cell in row) + " |" for row in table.rows]
    return "\n".join(lines) + "\n"
