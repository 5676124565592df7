"""The page of an explanation: the cause, the diagram and the events of one failure, in one file."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lockref.atomic_files import write_atomically
from reports.explanation.explanation import Explanation
from reports.figures.space_time import space_time_svg
from reports.formats.text import seconds, short
from reports.html.picture_files import picture_file
from reports.html.render import presentable


def write_explanation(explanation: Explanation, path: Path) -> Path:
    """Write the page of one failure. It needs no other file and asks for nothing outside. Returns its path."""
    return write_atomically(path, explanation_page(explanation))


def explanation_picture(explanation: Explanation, *, has_legend: bool = True) -> str:
    """The diagram as the text of an SVG file.

    has_legend: see `space_time_svg`.
    """
    svg = space_time_svg(explanation.diagram, clause=explanation.clause, is_small=True, has_legend=has_legend)
    return picture_file(svg)


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
