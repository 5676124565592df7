"""No id stands unexplained: on every page an id links to its row in the index, and tells its sentence on hovering.

A Sphinx transform over the finished pages, so a page just says `H3`. What stands in code is left alone. The rows and
paragraphs that define an id get an anchor, to which the index links.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx

from docs.site.items import items

INDEX = "reference/ids"
ID = re.compile(r"(?<![\w./-])(?:HJ|DL|[A-Z])\d{1,2}(?![\w/-])")
LEFT_ALONE = (nodes.literal, nodes.literal_block, nodes.reference, nodes.title, nodes.raw, nodes.FixedTextElement)

CLAUSE = r"(?:S[124-7]|L\d|F\d|DL\d)"
BEFORE_CLAUSE = re.compile(rf"\s*(?:,|and|or|to|nor|/|–)\s*(?:and |or )?{CLAUSE}\b")
AFTER_CLAUSE = re.compile(rf"\b{CLAUSE}\s*(?:,|and|or|to|nor|/|–)\s*(?:and |or )?$")
JUDGING = ("spec", "helix", "delta-bugs", "parity", "bring-your-own-lock", "explanation/", "tutorial/")
"""Pages on which `S3` by itself is the clause, unless the words beside it are about a store."""
ABOUT_A_STORE = re.compile(r"\b(?:[Oo]n|of|any|from|in) $")
STORES_WORD = re.compile(
    r"(?:'s)?\s+(?:server|store|dialect|API|bucket|backend|request|SDK|or|lease|answers|was)|-|: |, GCS"
)
ONLY_IDS = re.compile(rf"{ID.pattern}(?:, {ID.pattern})*")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("doctree-resolved", link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def link(app: Sphinx, tree: nodes.document, page: str) -> None:
    """Make each id of a page a link to the index, and give those that the page defines their anchors."""
    _anchor(tree, page)
    to_index = app.builder.get_relative_uri(page, INDEX)
    for text in list(tree.findall(nodes.Text)):
        if _is_left_alone(text):
            continue
        parts = list(_parts(text, page, to_index))
        if len(parts) > 1:
            text.parent.replace(text, parts)


def _is_left_alone(text: nodes.Text) -> bool:
    parent = text.parent
    while parent is not None:
        if isinstance(parent, LEFT_ALONE) or "item-defined" in getattr(parent, "attributes", {}).get("classes", ()):
            return True
        parent = parent.parent
    return False


def _parts(text: nodes.Text, page: str, to_index: str) -> Iterator[nodes.Node]:
    """The text in pieces, ids as references; the text alone where it has none."""
    plain, end = text.astext(), 0
    for found in ID.finditer(plain):
        if found[0] not in items() or (found[0] == "S3" and not _is_clause(plain, found, page)):
            continue
        yield nodes.Text(plain[end : found.start()])
        uri = f"{to_index}#id-{found[0].lower()}"
        yield nodes.reference("", found[0], refuri=uri, internal=True, reftitle=told(found[0]), classes=["lock-id"])
        end = found.end()
    yield nodes.Text(plain[end:])


def told(name: str) -> str:
    """The sentence of an id; of both meanings where it has two."""
    meanings = [f"({one.subject}) {one.sentence}" if one.subject else one.sentence for one in items()[name]]
    return " Or: ".join(meanings)


def _is_clause(plain: str, found: re.Match[str], page: str) -> bool:
    """Is this `S3` the clause, and not the store?"""
    before, after = plain[: found.start()], plain[found.end() :]
    if BEFORE_CLAUSE.match(after) or AFTER_CLAUSE.search(before):
        return True
    return page.startswith(JUDGING) and not (STORES_WORD.match(after) or ABOUT_A_STORE.search(before))


def _anchor(tree: nodes.document, page: str) -> None:
    """Give the rows and paragraphs that define ids on this page an anchor, and mark the defining words."""
    for strong in tree.findall(nodes.strong):
        found = ID.match(strong.astext())
        is_first = isinstance(strong.parent, nodes.paragraph) and strong.parent.astext().startswith(strong.astext())
        if found and is_first and any(each.page == page for each in items().get(found[0], ())):
            _define(strong.parent, strong, f"item-{found[0].lower()}")
    for row in tree.findall(nodes.row):
        first = row.children[0]
        if not ONLY_IDS.fullmatch(first.astext()):
            continue
        for name in ID.findall(first.astext()):
            if page == INDEX:
                _define(row, first, f"id-{name.lower()}")
                _lead(row, name)
            elif any(each.page == page and each.has_row for each in items().get(name, ())):
                _define(row, first, f"item-{name.lower()}")


def _lead(row: nodes.row, name: str) -> None:
    """Lead the link of a row of the index to the place on its page that defines the item."""
    pages = {f"{each.page}.html" for each in items()[name] if each.has_row}
    for reference in row.children[2].findall(nodes.reference):
        if reference["refuri"].removeprefix("../") in pages:
            reference["refuri"] += f"#item-{name.lower()}"


def _define(place: nodes.Element, words: nodes.Node, anchor: str) -> None:
    """Give a place its anchor, unless an earlier one of the page has it; the words that define the id are no link."""
    assert isinstance(words, nodes.Element)
    words["classes"].append("item-defined")
    assert place.document is not None
    if anchor not in place.document.ids:
        place["ids"].append(anchor)
        place.document.ids[anchor] = place
