"""The page of a safety envelope: the answer in sentences, the picture, the promise, and every number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lockref.atomic_files import write_atomically
from reports.figures import style
from reports.formats.text import short

NAME: Final = "envelope"
TEXT_MAX: Final = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One lock on the page. verdict: of the badge. promises: clause, limits, their places in the spec.

    rows: every cell, under the head of the page. failures: what shows a broken promise again, one line each.
    """

    title: str
    verdict: str
    badge: str
    sentences: Sequence[str]
    promises: Sequence[tuple[str, str, str]]
    rows: Sequence[Sequence[str]]
    failures: Sequence[str]


def write_envelope(
    told: Sequence[Told],
    folder: Path,
    *,
    picture: tuple[str, bytes],
    caption: str,
    head: Sequence[str],
    scenario: str,
    notices: Sequence[str],
    origin: str,
) -> Path:
    """Write the picture as `envelope.png` and `envelope.svg`, and `envelope.html` with all of it; return the page.

    head: of the rows. scenario: as text. origin: the command and the version.
    """
    svg, png = picture
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{NAME}.svg", svg)
    write_atomically(folder / f"{NAME}.png", png)
    environment = Environment(
        loader=PackageLoader(__package__, "templates"), autoescape=True, undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) or not isinstance(value, str) else _line(value),
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    label = _line(" ".join([f"{each.title}: {' '.join(each.sentences)}" for each in told]))
    page = environment.get_template("envelope.html.j2").render(
        told=told,
        drawing=Markup(style.inline(svg, prefix=NAME, label=label)),
        caption=caption,
        head=head,
        scenario=scenario.split("\n"),
        notices=notices,
        origin=origin,
    )
    return write_atomically(folder / f"{NAME}.html", page)


def _line(text: str) -> str:
    return short(text, TEXT_MAX)
