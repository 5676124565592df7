"""The page of one or several fingerprints: what each store kept, with the requests that show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from reports.formats import fingerprint as told
from reports.formats.text import duration, short

TEXT_MAX: Final = 600
BADGES: Final = {
    "held": "held", "violated": "violated", "inconclusive": "inconclusive", "not_applicable": "not_applicable",
    "conforming": "held", "usable": "held", "unsafe": "violated", "unsupported": "not_applicable",
    "not_answered": "inconclusive", "can carry": "held", "cannot carry": "violated", "not answered": "inconclusive",
}  # fmt: skip
"""By a verdict's word, the badge of the style sheet."""
_WITNESS: Final = ("request", "mode", "key", "condition", "status", "code", "version", "note")


def page_of(documents: Sequence[Mapping[str, Any]]) -> str:
    """The page as text: one file that needs no other and asks for nothing outside."""
    environment = Environment(
        loader=PackageLoader("reports.html", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: short(value, TEXT_MAX) if isinstance(value, str) else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("fingerprint.html.j2")
    parts = [_part(document) for document in documents]
    return template.render(parts=parts, legend=told.LEGEND, witness_head=_WITNESS)


def _part(document: Mapping[str, Any]) -> dict[str, Any]:
    notices = told.residue_lines(document)
    if document["ended"]:
        notices.append(f"ended early: {document['ended']}")
    return {
        "title": told.title(document),
        "verdict": told.words(document["verdict"]),
        "mark": told.MARKS[document["verdict"]][0],
        "style": BADGES[document["verdict"]],
        "date": document["date_utc"],
        "client": document["client"],
        "version": document["probe_version"],
        "requests": told.requests(document),
        "lasted": duration(document["lasted_ns"]),
        "notices": notices,
        "designs": [each | {"style": BADGES[each["verdict"]]} for each in document["designs"].values()],
        "clauses": [_clause(name, clause) for name, clause in document["clauses"].items()],
        "latency": [[kind, *told.quantiles(found), found["requests"]] for kind, found in document["latency"].items()],
    }


def _clause(name: str, clause: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "asks": clause["asks"],
        "verdict": told.words(clause["verdict"]),
        "mark": told.MARKS[clause["verdict"]][0],
        "style": BADGES[clause["verdict"]],
        "seen": told.sentences(clause),
        "rate": told.rate(clause),
        "witness": [[_shown(row.get(column)) for column in _WITNESS] for row in clause["witness"]],
    }


def _shown(value: object) -> str:
    return "" if value is None else str(value)
