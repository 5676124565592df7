"""A page of pictures: each with its words and its numbers, in one file that needs no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lockref.atomic_files import write_atomically
from reports.figures import style


@dataclass(frozen=True, slots=True)
class DrawnPicture:
    """A picture with its words, as SVG and PNG, and its numbers: a header and rows."""

    name: str
    title: str
    caption: str
    svg: str
    png: bytes
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def write_page(pictures: Sequence[DrawnPicture], folder: Path, *, name: str, title: str, origin: Markup) -> Path:
    """Write each picture as PNG and `NAME.html` into `folder`; return the page's path.

    origin: where the figures come from, in a sentence that stands below the title.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for picture in pictures:
        (folder / f"{picture.name}.png").write_bytes(picture.png)
    environment = Environment(
        loader=PackageLoader(__package__, "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    drawings = [
        Markup(style.inline(picture.svg, prefix=picture.name, label=f"{picture.title}. {picture.caption}"))
        for picture in pictures
    ]
    parts = list(zip(pictures, drawings, strict=True))
    page = environment.get_template("pictures.html.j2").render(parts=parts, title=title, origin=origin)
    return write_atomically(folder / f"{name}.html", page)
