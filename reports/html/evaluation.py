"""The architect's page: of each store whether it can carry a lock, how fast, and what faults do to it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from lockref.atomic_files import write_atomically
from lockref.durations import duration
from lockref.stores.probe.fingerprint import Fingerprint
from lockref.strict_json import printable_json
from lockref.words import counted
from reports.comparison.comparison import compare
from reports.comparison.subjects import Subject, fingerprint_subject, open_subject, repeated_subject
from reports.formats.fingerprint import rate
from reports.formats.results import Results
from reports.formats.text import short
from reports.html.comparison import write_comparison
from reports.html.fingerprint import BADGES

TEXT_MAX: Final = 600
RACES: Final = ("C2", "C3", "C9", "C16")


def write_evaluation(
    stores: Sequence[Mapping[str, Any]], folder: Path, *, compared: Sequence[tuple[str, str]] = ()
) -> Path:
    """Write `evaluation.json` and `evaluation.html` into a folder that holds each store's parts; return the page.

    compared: of pages that show several stores side by side, what each is about and its path below the folder.
    """
    document = {"format": "lockref.evaluation/1", "stores": list(stores)}
    write_atomically(folder / "evaluation.json", printable_json(json.dumps(document, indent=1)) + "\n")
    environment = Environment(
        loader=PackageLoader(__package__, "templates"), autoescape=True, undefined=StrictUndefined,
        finalize=lambda value: short(value, TEXT_MAX) if isinstance(value, str) else value,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters.update(duration=duration, badge=lambda word: BADGES.get(word, "not_applicable"))
    text = environment.get_template("evaluation.html.j2").render(
        parts=[_part(one) for one in stores], compared=compared
    )
    return write_atomically(folder / "evaluation.html", text)


def _part(store: Mapping[str, Any]) -> dict[str, Any]:
    probe = _fingerprint(store)
    clauses = {} if probe is None else probe.clauses
    return {
        "store": store["store"],
        "ended": store["ended"],
        "verdict": "not_answered" if probe is None else probe.verdict,
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
        "no_contention": "not reached" if store["ended"] else "not asked",
        "no_faults": "not reached" if store["ended"] and store["asks_faults"] else "not asked",
        "faults": store["faults"],
    }


def _fingerprint(store: Mapping[str, Any]) -> Fingerprint | None:
    """The store's fingerprint, from the document that `evaluation.json` keeps; None where the probe never began."""
    return None if store["probe"] is None else Fingerprint.model_validate(store["probe"])


def told(results: Results) -> dict[str, Any]:
    """The page's account of one run."""
    speed = results.speed
    return {
        "verdict": results.worst,
        "statement": results.statement,
        "reasons": results.untold_reasons,
        "notices": results.notices,
        "speed": None if speed is None else speed.model_dump(mode="json", exclude={"per_client"}),
    }


def contention_part(crowd: int, repeat: int) -> str:
    """The folder of one contention run below that of its store."""
    return f"contenders-{crowd}" + (f"-repeat-{repeat}" if repeat > 1 else "")


def side_by_side(evaluated: Sequence[Mapping[str, Any]], folder: Path) -> list[tuple[str, str]]:
    """The comparisons of several stores: the subject and the page of each, for the probe and each crowd."""
    if len(evaluated) < 2:
        return []
    places = [folder / f"store-{number}" for number in range(1, len(evaluated) + 1)]
    probed = [
        fingerprint_subject(probe, place / "fingerprint.json")
        for found, place in zip(evaluated, places, strict=True)
        if (probe := _fingerprint(found)) is not None
    ]
    subjects = {"the stores, as they were probed": probed}
    for crowd in dict.fromkeys(run["contenders"] for found in evaluated for run in found["contention"]):
        subjects[counted(crowd, "client")] = [
            _contended(runs, is_repeated=found["repeats"]["asked"] > 1)
            for found, place in zip(evaluated, places, strict=True)
            if (runs := _recorded(found, place, crowd))
        ]
    links: list[tuple[str, str]] = []
    for about, columns in subjects.items():
        if len(columns) > 1:
            page = write_comparison(compare(columns), folder / f"side-by-side-{len(links) + 1}")
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


def _contended(runs: Mapping[int, Path], *, is_repeated: bool) -> Subject:
    subjects = {block: open_subject(part) for block, part in runs.items()}
    return repeated_subject(subjects) if is_repeated else next(iter(subjects.values()))
