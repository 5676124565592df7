"""Write the page, the Markdown and the figures of one or several results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lockref.atomic_files import write_atomically
from lockref.durations import duration
from lockref.words import counted
from reports.formats.results import Results
from reports.formats.text import printable, seconds, short
from reports.html.markdown import write_markdown
from reports.html.picture_files import picture_file
from reports.html.sections import Section, build_section, embedded_results, shown_parts
from reports.html.whole_page import compose

TEXT_MAX = 4000
"""Characters of one text on the page: a failure block has about two thousand."""


def render(
    results: Sequence[Results | Mapping[str, Any]], out_dir: Path | str, *, title: str = "lockref report"
) -> Path:
    """Write `report.html`, `report.md` and `figures/` under `out_dir`; return the page's path.

    results: the parts of the page, in order, as `analyse` returns them or as
        models. The page needs no other file and asks for nothing outside.
    """
    models = [one if isinstance(one, Results) else Results.model_validate(one) for one in results]
    out = Path(out_dir)
    shown = shown_parts(models)
    sections = [build_section(model, number, shown[number - 1]) for number, model in enumerate(models, 1)]
    # All is drawn before the first file is written, so that a Ctrl-C leaves the old page with its own figures.
    page = page_text(sections, title=title)
    _write_figures(sections, out / "figures")
    write_markdown(sections, out / "report.md", title=title)
    # The page is written last: where it exists, its figures do, too.
    return write_atomically(out / "report.html", page)


def page_text(sections: Sequence[Section], *, title: str) -> str:
    """The page as text. Autoescape is on: only `Markup` made in `sections` goes in as it is."""
    environment = Environment(
        loader=PackageLoader(__package__, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=presentable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(short=short, duration=duration, seconds=seconds, counted=counted)
    data = embedded_results([section.results for section in sections])
    template = environment.get_template("report.html.j2")
    return template.render(title=title, page=compose(sections), data=data)


def presentable(value: object) -> object:
    """The filter for every expression of the template: no text is endless or carries control characters."""
    return printable(value, TEXT_MAX) if isinstance(value, str) and not isinstance(value, Markup) else value


def _write_figures(sections: Sequence[Section], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for section in sections:
        for figure in section.figures:
            stem = figure.name if len(sections) == 1 else f"{section.anchor}-{figure.name}"
            write_atomically(folder / f"{stem}.svg", figure.svg)
            write_atomically(folder / f"{stem}.png", figure.png)
        for violation in section.violations:
            if violation.picture is not None:
                write_atomically(folder / f"{violation.picture.anchor}.svg", picture_file(str(violation.picture.svg)))
