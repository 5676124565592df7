"""A store's fingerprint for people: a table for the terminal, and the same as Markdown.

The fingerprint is a document (`lockref probe --output`); this module reads it and knows no store.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from reports.checks.verdicts import counted
from reports.formats.text import duration, short

MARKS: Final = {
    "conforming": ("✓", "good"),
    "usable": ("≈", "good"),
    "unsafe": ("✗", "bad"),
    "unsupported": ("–", "dim"),
    "not_answered": ("?", "dim"),
}
"""A verdict's sign, and how it is printed."""

QUANTILES: Final = (("p50", "p50_ns", 4), ("p90", "p90_ns", 20), ("p99", "p99_ns", 200), ("p99.9", "p999_ns", 2_000))
"""Word, name in the document, and the fewest requests: with fewer, not even two of them lie beyond the quantile."""

TOO_FEW: Final = "too few"

LEGEND: Final = ", ".join(f"{mark} {verdict.replace('_', ' ')}" for verdict, (mark, _) in MARKS.items())
"""What each sign says."""

_CLAUSE_MAX: Final = 160
_KINDS: Final = ("unsafe", "not_answered", "deviations", "unsupported")


def words(verdict: str) -> str:
    """A verdict for people."""
    return verdict.replace("_", " ")


def title(document: Mapping[str, Any]) -> str:
    """Which store, by whom, when."""
    store = document["store"]
    where = f"{store['scheme']}{':' if store['scheme'] == 'memory' else '://'}{store['container']}"
    at = f" at {', '.join(store['endpoints'])}" if store["endpoints"] else ""
    servers = f" (Server: {', '.join(store['servers'])})" if store["servers"] else ""
    name = f"{store['name']}: " if store.get("name") else ""
    return short(f"{name}{where}{at}{servers}", 200)


def sentences(clause: Mapping[str, Any]) -> list[str]:
    """What is to be told of one clause, the worst first."""
    found = [str(text) for kind in _KINDS for text in clause[kind]]
    if clause["facts"].get("versions_repeat"):
        found.append("versions repeat with the bytes, as hashes of contents do: every record needs a fresh nonce")
    return found


def rate(clause: Mapping[str, Any]) -> str:
    """How sure a race makes: `0 of 300 rounds: at most 1.0 %`; "" for no race."""
    found = clause["rate"]
    if not found or not found["rounds"]:
        return ""
    if not found["faulty"]:
        return f"0 of {counted(found['rounds'], 'round')}: at most {found['high']:.1%} at 95 %"
    return (
        f"{found['faulty']:,} of {counted(found['rounds'], 'round')}: {found['low']:.1%} to {found['high']:.1%} at 95 %"
    )


def terminal_lines(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Lines and their styles."""
    lines = [(title(document), "head"), (LEGEND, "dim")]
    for clause, found in document["clauses"].items():
        mark, style = MARKS[found["verdict"]]
        how = rate(found)
        lines.append(
            (f"{mark} {clause:<4} {words(found['verdict']):<13} {found['asks']}{f'  [{how}]' if how else ''}", style)
        )
        lines += [(f"       {short(text, _CLAUSE_MAX)}", "") for text in sentences(found)]
    lines.append(("a lock of this design:", ""))
    for design in document["designs"].values():
        style = {"can carry": "good", "cannot carry": "bad"}.get(design["verdict"], "dim")
        why = f": {design['why']}" if design["why"] else ""
        lines.append((f"  {design['title']:<22} {design['verdict']}{why}", style))
    for kind, found in document["latency"].items():
        lines.append((f"  {kind:<26} {latency(found)}", "dim"))
    lines.append(
        (f"{requests(document)} in {duration(document['lasted_ns'])}, probe version "
         f"{document['probe_version']}", "dim")
    )  # fmt: skip
    if document["ended"]:
        lines.append((f"ended early: {short(document['ended'], 300)}; what is marked ? was not seen", "bad"))
    lines += [(text, "bad") for text in residue_lines(document)]
    mark, style = MARKS[document["verdict"]]
    lines.append((f"{mark} {words(document['verdict'])}", style))
    if document["verdict"] in ("conforming", "usable"):
        lines.append(("a pass bounds the rate of faults; it cannot prove that there are none", "dim"))
    return lines


def latency(found: Mapping[str, int]) -> str:
    """Quantiles of one kind of request, as far as there were requests enough for them."""
    told = dict(zip([word for word, _, _ in QUANTILES], quantiles(found), strict=True))
    known = [f"{word} {value}" for word, value in told.items() if value != TOO_FEW]
    scarce = [word for word, value in told.items() if value == TOO_FEW]
    return ", ".join([*known, requests(found), *([f"{TOO_FEW} for {scarce[0]}"] if scarce else [])])


def quantiles(found: Mapping[str, int]) -> list[str]:
    """Each of QUANTILES, in its order, or that there were too few requests for it."""
    return [duration(found[name]) if found["requests"] >= least else TOO_FEW for _, name, least in QUANTILES]


def requests(found: Mapping[str, Any]) -> str:
    """How many there were, for people."""
    return counted(found["requests"], "request")


def residue_lines(document: Mapping[str, Any]) -> list[str]:
    """What the probe could not remove."""
    residue = document["residue"]
    if not residue["left"] and not residue["reason"]:
        return []
    return [
        f"not everything was removed ({short(str(residue['reason']), 120)}): look below {residue['prefix']}/ and "
        f"delete what is there: at least {len(residue['left'])}, unfinished uploads included"
    ]


def markdown(documents: Sequence[Mapping[str, Any]]) -> str:
    """One section for each store."""
    return "\n".join(_section(document) for document in documents)


def _section(document: Mapping[str, Any]) -> str:
    lines = [
        f"## {_cell(title(document))}: {words(document['verdict'])}", "",
        f"Probed {document['date_utc']} by {document['client']}, probe version {document['probe_version']}: "
        f"{requests(document)} in {duration(document['lasted_ns'])}.", "",
        "| clause | asked | verdict | seen |", "|---|---|---|---|",
    ]  # fmt: skip
    for clause, found in document["clauses"].items():
        seen = "; ".join([*sentences(found), *([rate(found)] if rate(found) else [])])
        mark = MARKS[found["verdict"]][0]
        lines.append(f"| {clause} | {_cell(found['asks'])} | {mark} {words(found['verdict'])} | {_cell(seen)} |")
    lines += ["", "| design of lock | can this store carry it? | why |", "|---|---|---|"]
    for design in document["designs"].values():
        lines.append(f"| {design['title']} | {design['verdict']} | {_cell(design['why'])} |")
    if document["latency"]:
        lines += ["", "| request, sent alone | p50 | p90 | p99 | p99.9 | how many |", "|---|---|---|---|---|---|"]
        for kind, found in document["latency"].items():
            lines.append(f"| {kind} | {' | '.join(quantiles(found))} | {found['requests']:,} |")
    for text in residue_lines(document):
        lines += ["", text]
    if document["ended"]:
        lines += ["", f"Ended early: {_cell(document['ended'])}."]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """A text that cannot break a table's row."""
    return short(text, 600).replace("|", "\\|").replace("<", "&lt;")


def as_json(document: Mapping[str, Any]) -> str:
    """The fingerprint as a file holds it."""
    return json.dumps(document, indent=2, ensure_ascii=True) + "\n"


def several(documents: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """One document for several stores; its verdict is the worst."""
    ranking = ("unsafe", "not_answered", "usable", "conforming")
    return {
        "verdict": min((document["verdict"] for document in documents), key=ranking.index),
        "stores": list(documents),
    }
