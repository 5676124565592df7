"""The same account for a pull request or a job summary.

GitHub drops a step summary above 1 MiB whole, so the text is bounded well
below; what does not fit is cut with a notice, details first.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lockref.atomic_files import write_atomically
from reports.formats.markdown import BYTES_MAX, bounded, fenced, folded, table
from reports.formats.speed import speed_lines
from reports.formats.text import markdown_text
from reports.html.whole_page import compose

if TYPE_CHECKING:
    from reports.html.sections import Section, Table


def write_markdown(sections: Sequence[Section], path: Path, *, title: str) -> Path:
    """Write the summary; it never exceeds `BYTES_MAX`."""
    return write_atomically(path, markdown(sections, title=title))


def markdown(sections: Sequence[Section], *, title: str, bytes_max: int = BYTES_MAX) -> str:
    """The summary as text."""
    parts = [f"# {markdown_text(title)}\n"]
    page = compose(sections)
    if page.is_joint:
        parts.append(f"\n**{page.banner}**: {markdown_text(page.statement)}\n")
    for section in page.open:
        parts += _verdict(section)
    if page.folded:
        parts.append(f"\n## {page.folded_heading}\n\n")
        parts += [
            f"- {section.banner} {markdown_text(section.results.title)}: {markdown_text(section.results.statement)}\n"
            for section in page.folded
        ]
    for section in page.open:
        parts += _details(section)
    return bounded(parts, bytes_max=bytes_max, notice="Cut here: the rest is in report.html and results.json.")


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
        parts.append(fenced(section.violations[0].failure.block))
    return parts


def _details(section: Section) -> list[str]:
    blocks = [
        ("Further failures", "".join(fenced(violation.failure.block) for violation in section.violations[1:])),
        ("Speed", _table(section.speed)),
        ("Store", _table(section.store)),
        ("Latency", _table(section.latency)),
        ("Answers", _table(section.outcomes)),
        ("Fairness", _table(section.fairness)),
        ("Records set aside", _table(section.quarantine)),
        ("Provenance", _table(section.provenance)),
    ]
    title = section.results.title
    return [folded(f"{title}: {name}", body) for name, body in blocks if body]


def _table(rows: Table) -> str:
    return table(rows.head, rows.rows) if rows.rows else ""
