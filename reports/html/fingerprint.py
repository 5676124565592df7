"""The page of one or several fingerprints: what each store kept, with the requests that show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from lockref.durations import duration
from lockref.stores.probe.fingerprint import ClauseAnswer, Fingerprint
from reports.formats import fingerprint as told
from reports.formats.text import short

TEXT_MAX: Final = 600
BADGES: Final = {
    "held": "held", "violated": "violated", "inconclusive": "inconclusive", "not_applicable": "not_applicable",
    "conforming": "held", "usable": "held", "unsafe": "violated", "unsupported": "not_applicable",
    "not_answered": "inconclusive", "can carry": "held", "cannot carry": "violated", "not answered": "inconclusive",
}  # fmt: skip
"""By a verdict's word, the badge of the style sheet."""
_WITNESS: Final = ("request", "mode", "key", "condition", "status", "code", "version", "note")


def page_of(fingerprints: Sequence[Fingerprint]) -> str:
    """The page as text: one file that needs no other and asks for nothing outside."""
    environment = Environment(
        loader=PackageLoader(__package__, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: short(value, TEXT_MAX) if isinstance(value, str) else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("fingerprint.html.j2")
    parts = [_part(found) for found in fingerprints]
    return template.render(parts=parts, legend=told.LEGEND, witness_head=_WITNESS)


def _part(found: Fingerprint) -> dict[str, Any]:
    notices = told.residue_lines(found)
    if found.ended:
        notices.append(f"ended early: {found.ended}")
    return {
        "title": told.title(found),
        "verdict": told.words(found.verdict),
        "mark": told.MARKS[found.verdict][0],
        "style": BADGES[found.verdict],
        "date": found.date_utc,
        "client": found.client,
        "version": found.probe_version,
        "requests": told.requests(found),
        "lasted": duration(found.lasted_ns),
        "notices": notices,
        "designs": [
            {"title": each.title, "verdict": each.verdict, "why": each.why, "style": BADGES[each.verdict]}
            for each in found.designs.values()
        ],
        "clauses": [_clause(name, clause) for name, clause in found.clauses.items()],
        "latency": [[kind, *told.quantiles(seen), seen.requests] for kind, seen in found.latency.items()],
    }


def _clause(name: str, clause: ClauseAnswer) -> dict[str, Any]:
    return {
        "name": name,
        "asks": clause.asks,
        "verdict": told.words(clause.verdict),
        "mark": told.MARKS[clause.verdict][0],
        "style": BADGES[clause.verdict],
        "seen": told.sentences(clause),
        "rate": told.rate(clause),
        "witness": [[_shown(row.get(column)) for column in _WITNESS] for row in clause.witness],
    }


def _shown(value: object) -> str:
    return "" if value is None else str(value)
