"""A store's fingerprint for people: a table for the terminal, and the same as Markdown.

The fingerprint is a record (`lockref probe --output` writes it as JSON); this module knows no store.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from lockref.durations import duration
from lockref.stores.probe.fingerprint import ClauseAnswer, Fingerprint, Latency
from lockref.strict_json import printable_json
from lockref.words import counted
from reports.formats.text import markdown_text, short

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


def words(verdict: str) -> str:
    """A verdict for people."""
    return verdict.replace("_", " ")


def title(found: Fingerprint) -> str:
    """The title of a fingerprint: the store, the client that probed it, and the date."""
    store = found.store
    at = f" at {', '.join(store.endpoints)}" if store.endpoints else ""
    servers = f" (Server: {', '.join(store.servers)})" if store.servers else ""
    name = f"{store.name}: " if store.name else ""
    return short(f"{name}{store.location}{at}{servers}", 200)


def sentences(clause: ClauseAnswer) -> list[str]:
    """The sentences about one clause, the worst first."""
    told = [*clause.unsafe, *clause.not_answered, *clause.deviations, *clause.unsupported]
    if clause.facts.get("versions_repeat"):
        told.append("versions repeat with the bytes, as hashes of contents do: every record needs a fresh nonce")
    return told


def rate(clause: ClauseAnswer) -> str:
    """The bound that a race gives: `0 of 300 rounds: at most 1.0 %`; "" for no race."""
    raced = clause.rate
    if raced is None or not raced.rounds:
        return ""
    of = f"{raced.faulty:,} of {counted(raced.rounds, 'round')}"
    return (
        f"{of}: at most {raced.high:.1%} at 95 %"
        if not raced.faulty
        else (f"{of}: {raced.low:.1%} to {raced.high:.1%} at 95 %")
    )


def terminal_lines(found: Fingerprint) -> list[tuple[str, str]]:
    """Lines and their styles."""
    lines = [(title(found), "head"), (LEGEND, "dim")]
    for name, clause in found.clauses.items():
        mark, style = MARKS[clause.verdict]
        how = rate(clause)
        lines.append(
            (f"{mark} {name:<4} {words(clause.verdict):<13} {clause.asks}{f'  [{how}]' if how else ''}", style)
        )
        lines += [(f"       {short(text, _CLAUSE_MAX)}", "") for text in sentences(clause)]
    lines.append(("a lock of this design:", ""))
    for design in found.designs.values():
        style = {"can carry": "good", "cannot carry": "bad"}.get(design.verdict, "dim")
        why = f": {design.why}" if design.why else ""
        lines.append((f"  {design.title:<22} {design.verdict}{why}", style))
    width = max(map(len, found.latency), default=0)
    lines += [(f"  {kind:<{width}} {latency(seen)}", "dim") for kind, seen in found.latency.items()]
    lines.append((f"{requests(found)} in {duration(found.lasted_ns)}, probe version {found.probe_version}", "dim"))
    if found.ended:
        lines.append((f"ended early: {short(found.ended, 300)}; what is marked ? was not seen", "bad"))
    lines += [(text, "bad") for text in residue_lines(found)]
    mark, style = MARKS[found.verdict]
    lines.append((f"{mark} {words(found.verdict)}", style))
    if found.verdict in ("conforming", "usable"):
        if apart := [name for name, clause in found.clauses.items() if clause.verdict == "unsafe"]:
            lines.append((f"for a lock, which sends none of the requests of {', '.join(apart)}", "dim"))
        lines.append(("a pass bounds the rate of faults; it cannot prove that there are none", "dim"))
    return lines


def latency(seen: Latency) -> str:
    """Quantiles of one kind of request, as far as there were requests enough for them."""
    told = dict(zip([word for word, _, _ in QUANTILES], quantiles(seen), strict=True))
    known = [f"{word} {value}" for word, value in told.items() if value != TOO_FEW]
    scarce = [word for word, value in told.items() if value == TOO_FEW]
    return ", ".join([*known, requests(seen), *([f"{TOO_FEW} for {scarce[0]}"] if scarce else [])])


def quantiles(seen: Latency) -> list[str]:
    """Each of QUANTILES, in its order, or that there were too few requests for it."""
    return [duration(getattr(seen, name)) if seen.requests >= least else TOO_FEW for _, name, least in QUANTILES]


def requests(seen: Fingerprint | Latency) -> str:
    """The number of requests, for people."""
    return counted(seen.requests, "request")


def residue_lines(found: Fingerprint) -> list[str]:
    """The objects that the probe could not remove, and those of other probes that it found."""
    residue = found.residue
    lines = []
    if residue.left or residue.reason:
        lines.append(
            f"not everything was removed ({short(residue.reason, 120)}): look below {residue.prefix}/ and "
            f"delete what is there: at least {len(residue.left)}, unfinished uploads included"
        )
    for other in residue.earlier:
        age = "" if other.age_ns is None else f" that began {duration(other.age_ns)} ago"
        lines.append(
            f"another probe{age} has {counted(other.objects, 'object')} below {short(other.prefix, 80)}/: if it "
            "does not run any more, delete what is there, unfinished uploads included"
        )
    return lines


def markdown(fingerprints: Sequence[Fingerprint]) -> str:
    """One section for each store."""
    return "\n".join(map(_section, fingerprints))


def _section(found: Fingerprint) -> str:
    lines = [
        f"## {_cell(title(found))}: {words(found.verdict)}", "",
        f"Probed {_cell(found.date_utc)} by {_cell(found.client)}, probe version {found.probe_version}: "
        f"{requests(found)} in {duration(found.lasted_ns)}.", "",
        "| clause | asked | verdict | seen |", "|---|---|---|---|",
    ]  # fmt: skip
    for name, clause in found.clauses.items():
        seen = "; ".join([*sentences(clause), *([rate(clause)] if rate(clause) else [])])
        mark = MARKS[clause.verdict][0]
        lines.append(f"| {_cell(name)} | {_cell(clause.asks)} | {mark} {words(clause.verdict)} | {_cell(seen)} |")
    lines += ["", "| design of lock | can this store carry it? | why |", "|---|---|---|"]
    lines += [f"| {_cell(each.title)} | {_cell(each.verdict)} | {_cell(each.why)} |" for each in found.designs.values()]
    if found.latency:
        lines += ["", "| request, sent alone | p50 | p90 | p99 | p99.9 | how many |", "|---|---|---|---|---|---|"]
        lines += [
            f"| {_cell(kind)} | {' | '.join(quantiles(seen))} | {seen.requests:,} |"
            for kind, seen in found.latency.items()
        ]
    for text in residue_lines(found):
        lines += ["", _cell(text)]
    if found.ended:
        lines += ["", f"Ended early: {_cell(found.ended)}."]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """A text that cannot break a table's row."""
    return markdown_text(text, 600)


def as_json(found: Fingerprint) -> str:
    """The fingerprint as a file holds it."""
    return printable_json(json.dumps(found.document(), indent=2)) + "\n"


def several(fingerprints: Sequence[Fingerprint]) -> dict[str, object]:
    """One document for several stores; its verdict is the worst."""
    ranking = ("unsafe", "not_answered", "usable", "conforming")
    return {
        "verdict": min((found.verdict for found in fingerprints), key=ranking.index),
        "stores": [found.document() for found in fingerprints],
    }
