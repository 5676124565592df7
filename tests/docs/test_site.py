"""The documentation site: it builds without a warning, its links and anchors lead somewhere, and it asks nobody."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from docs.site.__main__ import build
from docs.site.marks import DOCS, filled
from docs.site.state_tables import tabled

LOADED = {("img", "src"), ("script", "src"), ("link", "href"), ("iframe", "src"), ("source", "src"), ("object", "data")}
"""What a browser fetches by itself when it shows a page."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """One attribute of one page that names another place."""

    tag: str
    attribute: str
    target: str


class PageReader(HTMLParser):
    """The anchors of a page, and what it refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.references: list[Reference] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            if name in ("href", "src", "data", "action") and value:
                self.references.append(Reference(tag=tag, attribute=name, target=value))


@functools.cache
def page(path: Path) -> PageReader:
    reader = PageReader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once; a warning fails every test that needs it."""
    folder = tmp_path_factory.mktemp("site") / "html"
    assert build(folder) == 0, "Sphinx warned: its lines stand in the captured output"
    return folder


def pages(site: Path) -> Iterator[Path]:
    yield from sorted(site.rglob("*.html"))


def broken(path: Path) -> Iterator[str]:
    """The references of a page of the site that lead nowhere on it."""
    for reference in page(path).references:
        parts = urlsplit(reference.target)
        if parts.scheme or parts.netloc:
            continue
        target = path.parent / unquote(parts.path) if parts.path else path
        if not target.is_file():
            yield f"{path.name}: {reference.target}: no such file"
        elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in page(target).anchors:
            yield f"{path.name}: {reference.target}: no such anchor"


def test_every_link_and_anchor_of_the_site_leads_somewhere(site: Path) -> None:
    """Between pages, within a page, to pictures, styles and downloads."""
    assert not [each for path in pages(site) for each in broken(path)]


def test_the_check_of_links_sees_a_broken_one(tmp_path: Path) -> None:
    """A file that is not there, and an anchor that is not there."""
    (tmp_path / "a.html").write_text('<p id="x"><a href="#x"></a><a href="#y"></a><a href="b.html"></a></p>')
    assert list(broken(tmp_path / "a.html")) == ["a.html: #y: no such anchor", "a.html: b.html: no such file"]


def test_a_page_of_the_site_fetches_nothing_from_elsewhere(site: Path) -> None:
    """Fonts, scripts, styles and pictures are shipped with it."""
    for path in pages(site):
        for reference in page(path).references:
            if (reference.tag, reference.attribute) in LOADED:
                assert not urlsplit(reference.target).netloc, f"{path.name} fetches {reference.target}"
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert not re.search(r"url\(\W*(?:https?:)?//|@import", text), f"{style.name} fetches from elsewhere"


def test_every_document_is_a_page(site: Path) -> None:
    """No document of the repository is left out; files below `examples` are quoted, and are no pages."""
    documents = [path.relative_to(DOCS) for path in DOCS.rglob("*.md") if "examples" not in path.parts]
    assert documents
    assert not [path for path in documents if not (site / path.with_suffix(".html")).is_file()]


def test_a_state_diagram_becomes_a_table() -> None:
    """One row for each transition, in order; what is no transition is an error."""
    head = "```mermaid\nstateDiagram-v2\n"
    assert tabled(f"{head}    [*] --> Idle\n    Idle --> Held: lock()\n```\n").splitlines()[2:] == [
        "| *begin* |  | `Idle` |",
        "| `Idle` | lock() | `Held` |",
    ]
    with pytest.raises(ValueError, match="no transition: 'note'"):
        tabled(f"{head}    note\n```\n")


def test_a_link_to_a_document_outside_leads_to_its_page() -> None:
    """README, CHANGELOG and tests/README.md are pages of the site; other files stay what they are."""
    text = "[a](../README.md#stores) [b](../../CHANGELOG.md) [c](spec.md) [d](../reports/checks/spec.py)"
    assert filled(DOCS / "page.md", text.replace("../../", "../")) == (
        "[a](index.md#stores) [b](changelog.md) [c](spec.md) [d](../reports/checks/spec.py)"
    )
    assert filled(DOCS / "how-to" / "page.md", "[b](../../CHANGELOG.md)") == "[b](../changelog.md)"
