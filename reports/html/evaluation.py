"""The architect's page: which store to take for a lock, and what of each store was seen."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lockref.atomic_files import write_atomically
from lockref.durations import duration, plain_duration
from lockref.stores.probe.fingerprint import Fingerprint
from lockref.strict_json import printable_json
from lockref.words import counted
from reports.comparison.advice import Advice
from reports.comparison.comparison import compare
from reports.comparison.standing import Standing, interval
from reports.comparison.store_runs import WORDS
from reports.comparison.store_table import HEAD, LATENCIES, latency_rows, price_lines, rows
from reports.comparison.subjects import Subject, fingerprint_subject, open_subject, repeated_subject
from reports.figures import style
from reports.figures.stores import store_figures
from reports.formats.fingerprint import rate
from reports.formats.text import short
from reports.html.comparison import write_comparison
from reports.html.fingerprint import BADGES

TEXT_MAX: Final = 600
RACES: Final = ("C2", "C3", "C9", "C16")


def write_evaluation(
    document: Mapping[str, Any],
    standings: Sequence[Standing],
    advice: Advice,
    folder: Path,
    *,
    compared: Sequence[tuple[str, str]] = (),
) -> Path:
    """Write `evaluation.json` and `evaluation.html` into a folder that holds each store's parts; return the page.

    document: what the JSON holds. standings, advice: what follows from it, in the order of its stores.
    compared: of pages that show several stores side by side, what each is about and its path below the folder.
    """
    write_atomically(folder / "evaluation.json", printable_json(json.dumps(document, indent=1)) + "\n")
    environment = Environment(
        loader=PackageLoader(__package__, "templates"), autoescape=True, undefined=StrictUndefined,
        finalize=lambda value: short(value, TEXT_MAX) if type(value) is str else value,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters.update(
        duration=duration, plain=plain_duration, badge=lambda word: BADGES.get(word, "not_applicable"),
        word_badge=WORDS.__getitem__, counted=counted,
    )  # fmt: skip
    figures = store_figures(standings)
    text = environment.get_template("evaluation.html.j2").render(
        document=document,
        advice=advice,
        origin=_origin(document),
        head=HEAD,
        rows=rows(standings, advice),
        latency_head=[name for _, name in LATENCIES],
        latencies=latency_rows(standings),
        prices=price_lines(standings),
        figures=[(each, Markup(style.inline(each.svg, prefix=each.name, label=each.alt))) for each in figures],
        parts=[_part(one, standing) for one, standing in zip(document["stores"], standings, strict=True)],
        interval=interval,
        compared=compared,
    )
    return write_atomically(folder / "evaluation.html", text)


def _origin(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The origin of the figures: name and text of each fact."""
    about, lock = document["provenance"], document["lock"]
    arguments = about["arguments"]
    servers = [
        f"{probe['store']['name'] or store['name']}{_headers(probe)}"
        for store in document["stores"]
        if (probe := store["probe"]) is not None
    ]
    machine = about["machine"]
    return [
        ("date", about["started_utc"]),
        ("lock", lock["provider"]),
        ("hold", f"{about['hold']} under a validity of {about['validity']}"),
        ("runs", f"{plain_duration(arguments['for_ns'])} each, {arguments['repeats']} for each number of clients"),
        ("required", ", ".join(document["required"]) or "nothing"),
        ("lockref", f"{about['lockref']} {about['commit']}".strip()),
        ("Python", about["python"]),
        ("SDKs", ", ".join(f"{name} {version}" for name, version in about["sdks"].items())),
        ("servers", "; ".join(servers)),
        ("machine", f"{about['platform']}, {machine['cpus']} processors, load {machine['load']} when it began"),
        ("command", about["command"]),
    ]


def _headers(probe: Mapping[str, Any]) -> str:
    servers = probe["store"]["servers"]
    return f" (Server: {', '.join(servers)})" if servers else ""


def _part(store: Mapping[str, Any], standing: Standing) -> dict[str, Any]:
    probe = standing.fingerprint
    clauses = {} if probe is None else probe.clauses
    return {
        "store": store["name"],
        "uri": store["store"],
        "standing": standing,
        "obstacles": standing.obstacles,
        "ended": store["ended"],
        "designs": [] if probe is None else list(probe.designs.values()),
        "against": [
            (name, clause.verdict, "; ".join([*clause.unsafe, *clause.not_answered, *clause.deviations]))
            for name, clause in clauses.items()
            if clause.verdict not in ("conforming", "unsupported")
        ],
        "races": [(name, rate(clauses[name])) for name in RACES if name in clauses and clauses[name].rate is not None],
        "has_fingerprint": probe is not None,
        "contention": store["contention"],
        "repeats": store["repeats"],
        "faults": store["faults"],
        "no_faults": store["no_faults"] or ("not reached" if store["ended"] else "not asked"),
        "no_baseline": store["no_baseline"],
    }


def contention_part(crowd: int, repeat: int) -> str:
    """The folder of one contention run below that of its store."""
    return f"contenders-{crowd}" + (f"-repeat-{repeat}" if repeat > 1 else "")


def recorded_subjects(evaluated: Sequence[Mapping[str, Any]], folder: Path) -> list[dict[int, Subject]]:
    """For each store, by the number of clients, its contention runs that were judged, as one subject."""
    found = []
    for number, store in enumerate(evaluated, 1):
        place = folder / f"store-{number}"
        crowds = dict.fromkeys(run["contenders"] for run in store["contention"])
        recorded = {crowd: runs for crowd in crowds if (runs := _recorded(store, place, crowd))}
        found.append(
            {crowd: _subject(runs, is_repeated=store["repeats"]["asked"] > 1) for crowd, runs in recorded.items()}
        )
    return found


def side_by_side(
    evaluated: Sequence[Mapping[str, Any]], subjects: Sequence[Mapping[int, Subject]], folder: Path
) -> list[tuple[str, str]]:
    """The comparisons of several stores: the subject and the page of each, for the probe and each crowd."""
    if len(evaluated) < 2:
        return []
    probed = [
        fingerprint_subject(Fingerprint.model_validate(found["probe"]), folder / f"store-{number}" / "fingerprint.json")
        for number, found in enumerate(evaluated, 1)
        if found["probe"] is not None
    ]
    columns: dict[str, list[Subject]] = {"the stores, as they were probed": probed}
    for crowd in dict.fromkeys(crowd for each in subjects for crowd in each):
        columns[counted(crowd, "client")] = [each[crowd] for each in subjects if crowd in each]
    links: list[tuple[str, str]] = []
    for about, each in columns.items():
        if len(each) > 1:
            page = write_comparison(compare(each), folder / f"side-by-side-{len(links) + 1}")
            links.append((about, str(page.relative_to(folder))))
    return links


def _recorded(found: Mapping[str, Any], place: Path, crowd: int) -> dict[int, Path]:
    """The folders of the contention runs of one store by one crowd that were judged, by the number of the block."""
    parts = {
        run["repeat"]: place / contention_part(crowd, run["repeat"])
        for run in found["contention"]
        if run["contenders"] == crowd
    }
    return {block: part for block, part in parts.items() if (part / "results.json").exists()}


def _subject(runs: Mapping[int, Path], *, is_repeated: bool) -> Subject:
    subjects = {block: open_subject(part) for block, part in runs.items()}
    return repeated_subject(subjects) if is_repeated else next(iter(subjects.values()))
