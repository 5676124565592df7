"""The page of an explanation: the cause, the diagram and the events of one failure, in one file."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lockref.atomic_files import write_atomically
from reports.explanation.explanation import Explanation
from reports.figures.space_time import space_time_svg
from reports.formats.text import seconds, short
from reports.html.render import presentable

_DARK: Final = re.compile(r"@media \(prefers-color-scheme: dark\) \{.*?\}\s*\}", re.DOTALL)


def write_explanation(explanation: Explanation, path: Path) -> Path:
    """Write the page of one failure. It needs no other file and asks for nothing outside. Returns its path."""
    return write_atomically(path, explanation_page(explanation))


def explanation_picture(explanation: Explanation, *, is_small: bool = False) -> str:
    """The diagram as the text of an SVG file. A file takes no colours from a page, so it has those of our pages itself.

    is_small: see `space_time_svg`.
    """
    svg = space_time_svg(explanation.diagram, clause=explanation.clause, is_small=is_small)
    return svg.replace("</style>", f"{dark_colours()}\n</style>", 1) + "\n"


@cache
def dark_colours() -> str:
    """What the styles of our pages say of dark surroundings, as rules for a picture that is a file of its own."""
    folder = Path(__file__).parent / "templates"
    texts = [(folder / name).read_text(encoding="utf-8") for name in ("report.css", "explanation.html.j2")]
    return "\n".join(" ".join(rule.split()) for text in texts for rule in _DARK.findall(text))


def explanation_page(explanation: Explanation) -> str:
    """The page as text. Only the picture, which is of our own making, goes in as it is."""
    environment = Environment(
        loader=PackageLoader(__package__, "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, finalize=presentable,
    )  # fmt: skip
    environment.filters.update(short=short, seconds=seconds)
    return environment.get_template("explanation.html.j2").render(
        told=explanation, picture=Markup(space_time_svg(explanation.diagram, clause=explanation.clause))
    )
