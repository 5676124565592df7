"""The page of a comparison, its Markdown and its JSON, in one folder."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from lockref.atomic_files import write_atomically
from reports.comparison.comparison import Comparison
from reports.comparison.subjects import UNSERVED
from reports.comparison.terminal import difference, heading, notices, told, unbroken
from reports.formats.text import markdown_text, short
from reports.html.fingerprint import BADGES
from reports.html.render import presentable


def write_comparison(comparison: Comparison, folder: Path) -> Path:
    """Write `comparison.json`, `comparison.md` and `comparison.html` below `folder`; return the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    comparison.write(folder / "comparison.json")
    write_atomically(folder / "comparison.md", comparison_markdown(comparison))
    environment = Environment(
        loader=PackageLoader(__package__, "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, finalize=presentable,
    )  # fmt: skip
    environment.filters.update(short=short)
    text = environment.get_template("comparison.html.j2").render(
        comparison=comparison,
        headings=heading(comparison),
        notices=notices(comparison),
        unbroken=unbroken(comparison),
        badges=_badges(comparison),
        told=told,
        difference=difference,
    )
    return write_atomically(folder / "comparison.html", text)


def _badges(comparison: Comparison) -> list[str]:
    """The colour of each verdict: none is green where clients were never served."""
    starved = {
        place for row in comparison.rows for place, cell in enumerate(row.cells) if row.name == UNSERVED and cell.broken
    }
    found = [BADGES.get(column.verdict, "not_applicable") for column in comparison.columns]
    return ["inconclusive" if place in starved and badge == "held" else badge for place, badge in enumerate(found)]


def comparison_markdown(comparison: Comparison) -> str:
    """The comparison as a Markdown table; what may be chance is said in words."""
    headings = [markdown_text(name) for name in heading(comparison)]
    lines = [
        f"# {' beside '.join(headings)}",
        "",
        *(f"- {markdown_text(notice)}" for notice in notices(comparison)),
        "",
    ]
    lines += [f"| | {' | '.join(headings)} |", f"|---|{'---|' * len(headings)}"]
    kept = unbroken(comparison)
    for row in comparison.rows:
        if row.name in kept:
            continue
        cells = [
            "<br>".join(markdown_text(said) for said in (told(row, cell), difference(row, cell)) if said)
            for cell in row.cells
        ]
        lines.append(f"| {markdown_text(row.name)} | {' | '.join(cells)} |")
    if kept:
        lines += ["", f"Broken in none of them: {', '.join(map(markdown_text, kept))}."]
    return "\n".join(line.replace("\n", " ") for line in lines) + "\n"
