"""The page of a soak: its verdict, each resource with its slope, a picture of each, and the clauses of the lock."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lockref.atomic_files import write_atomically
from reports.figures import style
from reports.figures.soak import soak_figures
from reports.formats.results import Results
from reports.formats.text import short
from reports.soak.verdict import PER, Finding, SoakVerdict, signed

PAGE: Final = "soak.html"
TEXT_MAX: Final = 1000
_BADGES: Final = {"flat": "held", "leaks": "violated", "rises": "inconclusive", "inconclusive": "inconclusive"}


def write_soak_page(
    told: SoakVerdict, results: Sequence[Results], folder: Path, *, title: str, origin: str, notices: Sequence[str]
) -> Path:
    """Write `soak.html` and the pictures in `figures` as PNG into the folder of a soak; return the page.

    results: of the lock's clauses, one for each stretch. origin: the command and the version.
    """
    figures = soak_figures(told.findings)
    pictures = folder / "figures"
    pictures.mkdir(exist_ok=True)
    for figure in figures:
        write_atomically(pictures / f"{figure.name}.png", figure.png)
    environment = Environment(
        loader=PackageLoader(__package__, "templates"), autoescape=True, undefined=StrictUndefined,
        finalize=lambda value: short(value, TEXT_MAX) if type(value) is str else value,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    page = environment.get_template("soak.html.j2").render(
        told=told,
        badge=_BADGES,
        title=title,
        origin=origin,
        notices=notices,
        per=f"{PER:,}",
        rows=[_row(each) for each in told.findings],
        figures=[(each, Markup(style.inline(each.svg, prefix=each.name, label=each.alt))) for each in figures],
        results=results,
    )
    return write_atomically(folder / PAGE, page)


def _row(finding: Finding) -> dict[str, str]:
    told = finding.told()
    bound = told["at_most_per_1000_cycles"]
    return {
        "role": finding.role,
        "title": finding.title,
        "badge": _BADGES[finding.verdict],
        "verdict": finding.verdict if finding.decides else f"{finding.verdict} (told only)",
        "level": f"{finding.level:.4g} {finding.unit}",
        "growth": f"{signed(finding.growth)} {finding.unit}",
        "cycles": _interval(told["slope_per_1000_cycles"]),
        # What a short soak is from flat, in an hour, is a large number that says nothing.
        "hour": "–" if finding.verdict == "flat" else _interval(told["slope_per_hour"]),
        "bound": "–" if bound is None else f"{bound:.3g}",
        "reason": finding.reason,
    }


def _interval(each: dict[str, float] | None) -> str:
    return "–" if each is None else f"{signed(each['slope'])} [{signed(each['low'])} to {signed(each['high'])}]"
