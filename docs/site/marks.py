"""Places in a page that the site fills: by what is generated from the code, or by a document outside `docs`.

A page has `<!-- site: NAME -->`, then what a reader of the bare file finds there, then `<!-- end -->`. The site puts
what `GENERATED[NAME]` makes in that place. `<!-- site: file PATH -->` stands for a document of the repository, which is
put there without its title.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from docs.site.api_pages import api
from docs.site.command_pages import commands
from docs.site.item_pages import catalogue_of_scenarios, index_of_ids
from docs.site.record_tables import event_types, gate_keys, results_keys, run_types
from docs.site.scenario_keys import fault_keys, keys
from docs.site.state_tables import tabled

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

GENERATED: Mapping[str, Callable[[], str]] = {
    "api": api,
    "catalogue": catalogue_of_scenarios,
    "commands": commands,
    "event types": event_types,
    "fault keys": fault_keys,
    "gate.json": gate_keys,
    "ids": index_of_ids,
    "results.json": results_keys,
    "run types": run_types,
    "scenario keys": keys,
}
"""The name of a place to what makes its Markdown."""

PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "tests/README.md": "contributing.md"}
"""Documents outside `docs`, and the pages of the site that stand for them."""

MARK = re.compile(r"<!-- site: (.+?) -->\n.*?<!-- end -->\n?", re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s:]+)(#[^)\s]*)?\)")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx: each page's text passes `filled` before it is parsed."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}


def _read(_: Sphinx, page: str, source: list[str]) -> None:
    source[0] = filled(DOCS / f"{page}.md", source[0])


def filled(page: Path, text: str) -> str:
    """The Markdown of a page as the site shows it: marks replaced, state diagrams as tables, links led to pages."""
    own = tabled(led(text, origin=page, page=page))
    return MARK.sub(lambda mark: _content(page, mark[1]), own)


def _content(page: Path, name: str) -> str:
    if name.startswith("file "):
        document = ROOT / name.removeprefix("file ")
        text = document.read_text(encoding="utf-8")
        return led(text.split("\n", 1)[1], origin=document, page=page)
    if name not in GENERATED:
        raise ExtensionError(f"{page.name}: the site makes nothing named {name!r}; it makes {', '.join(GENERATED)}")
    return GENERATED[name]()


def led(text: str, *, origin: Path, page: Path) -> str:
    """Relative links of the text of `origin`, as they must be on `page`; README and its like are pages of the site."""

    def target(found: re.Match[str]) -> str:
        path = Path(os.path.normpath(origin.parent / found[1]))
        inside = os.path.relpath(path, ROOT)
        if inside in PAGES:
            path = DOCS / PAGES[inside]
        return f"]({os.path.relpath(path, page.parent)}{found[2] or ''})"

    return LINK.sub(target, text)
